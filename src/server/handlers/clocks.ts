// clocks — serves what workers tell of their iterations (contracts/clocks.ts).

import { clockAdvance, clockJoin, clockLeave, clockWait } from "../../contracts/clocks.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const CLOCK_HANDLERS: readonly ServedFunction[] = [
  serve(clockJoin, {
    handler: ({ parameters, life }) => {
      const join = (): { readonly clock: number } => ({ clock: parameters.pacer.join(life) });
      const restored = parameters.whenRestored();
      return restored === undefined ? join() : restored.then(join);
    },
  }),
  serve(clockAdvance, {
    handler: ({ parameters, life }, { clock }) => {
      parameters.pacer.advance(life, clock);
      return {};
    },
  }),
  serve(clockLeave, {
    handler: ({ parameters, life }) => {
      parameters.pacer.leave(life);
      return {};
    },
  }),
  serve(clockWait, {
    handler: ({ parameters, life }, { parameter }) => ({ waits: parameters.pacer.describeWait(life.worker, parameter) ?? "" }),
  }),
];
