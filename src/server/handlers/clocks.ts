// clocks — serves what workers tell of their iterations (contracts/clocks.ts).

import { WeighbridgeError } from "../../base/errors.ts";
import { NO_PUSHES, type PushReport } from "../../consistency/push-counts.ts";
import { clockAdvance, clockJoin, clockLeave, clockWait } from "../../contracts/clocks.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const CLOCK_HANDLERS: readonly ServedFunction[] = [
  serve(clockJoin, {
    handler: ({ parameters, holder }, numbers) => {
      checkLengths(numbers.parameters, numbers.numbers);
      const known = { parameters: numbers.parameters.slice(), numbers: numbers.numbers.slice() }; // the frame is gone when a restore is over
      const { pacer } = parameters;
      const join = (): { readonly clock: number; readonly lost: Uint32Array } => {
        const clock = pacer.join(holder, known);
        return { clock, lost: Uint32Array.from(pacer.takeLost(holder)) };
      };
      const restored = parameters.whenRestored();
      return restored === undefined ? join() : restored.then(join);
    },
  }),
  serve(clockAdvance, {
    handler: ({ parameters, holder }, { clock, ...pushes }) => {
      parameters.pacer.rounds.advance(holder, clock, countedOf(parameters, pushes));
      return {};
    },
  }),
  serve(clockLeave, {
    handler: ({ parameters, holder }, pushes) => {
      parameters.pacer.leave(holder, countedOf(parameters, pushes));
      return {};
    },
  }),
  serve(clockWait, {
    handler: ({ parameters, holder }, { parameter }) => ({ waits: parameters.pacer.lot.describe(holder.worker, parameter) ?? "" }),
  }),
];

/**
 * What is told of pushes, where somebody counts it. Otherwise a parameter has to know only that there were updates of a clock, also where nothing of
 * them came here (ConsistencyPhases.M2). Throws BAD_REQUEST.
 */
function countedOf({ tables, tensors, pacer }: Parameters, pushes: PushReport): PushReport {
  checkLengths(pushes.parameters, pushes.numbers, pushes.clocks);
  if (pacer.pushes.isCounted) return pushes;
  for (let i = 0; i < pushes.parameters.length; i++) {
    const number = pushes.parameters[i] as number;
    const phases = (tensors.get(number) ?? tables.get(number))?.phases;
    const clock = pushes.clocks[i] as number;
    if (phases !== undefined && clock > phases.clockTop) phases.clockTop = clock;
  }
  return NO_PUSHES;
}

/** What is told of pushes is a list of entries, in columns. Throws BAD_REQUEST. */
function checkLengths({ length }: Uint32Array, ...others: readonly Uint32Array[]): void {
  if (others.every((other) => other.length === length)) return;
  const lengths = [length, ...others.map((other) => other.length)].join(", ");
  throw new WeighbridgeError("BAD_REQUEST", `what is told of pushes has columns of different lengths: ${lengths}`);
}
