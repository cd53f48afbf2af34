// clocks — serves what workers report of their iterations (contracts/clocks.ts).

import { checkColumns, endClock } from "../../consistency/update-rounds.ts";
import { clockAdvance, clockJoin } from "../../contracts/clocks.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const CLOCK_HANDLERS: readonly ServedFunction[] = [
  serve(clockJoin, {
    handler: ({ parameters, holder }, numbers) => {
      checkColumns(numbers.parameters.length, numbers.numbers.length);
      // Copies: the frame is gone when a restore is over.
      const known = { parameters: numbers.parameters.slice(), numbers: numbers.numbers.slice() };
      const { pacer } = parameters;
      const join = (): { readonly clock: number; readonly lost: Uint32Array } => {
        const clock = pacer.join(holder, known);
        return { clock, lost: Uint32Array.from(pacer.takeLost(holder)) };
      };
      const restored = parameters.whenRestored();
      return restored === undefined ? join() : restored.then(join);
    },
  }),
  serve(clockAdvance, { handler: endClock }),
];
