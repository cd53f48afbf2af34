// block-steps — which step an update of a block is to the optimizers of Adam's kind, and who counts it.
//
//   adam, adamW   each row its own updates: the block counts those of all rows, each row those beside them
//   lazyAdam      the pushes to the tensor, which the tensor counts; to them comes what blocks of checkpoints of
//   earlier versions have counted
//   others        the block, and nobody asks

import { assert } from "../base/assert.ts";
import type { Updater, UpdateStep } from "./updaters/updater.ts";

/** The block's own count, and where its rows have theirs. */
type CountedBlock = { readonly step: number; readonly rowSteps: { readonly address: number } | undefined };

type Step = Pick<UpdateStep, "step" | "rowSteps">;

/** `pushCount`: pushes to the tensor, this one among them. */
export function stepOfAll(updater: Updater, { step, rowSteps }: CountedBlock, pushCount: number): Step {
  if (updater.countsRows && rowSteps !== undefined) return { step: step + 1, rowSteps: { address: rowSteps.address, counts: false } };
  return { step: isLazy(updater) ? Math.max(1, step + pushCount) : step + 1 };
}

/** The same for some rows of it. Rows that count their own were made ready to. */
export function stepOfSome(updater: Updater, { step, rowSteps }: CountedBlock, pushCount: number): Step {
  if (updater.countsRows) {
    assert(rowSteps !== undefined, "rows were made ready to count");
    return { step, rowSteps: { address: rowSteps.address, counts: true } };
  }
  return { step: isLazy(updater) ? Math.max(1, step + pushCount) : step + 1 };
}

/** Whether the block counts an update of all its rows. */
export function countsAll(updater: Updater): boolean {
  return !isLazy(updater);
}

/** The same for an update of some. */
export function countsSome(updater: Updater): boolean {
  return !updater.countsRows && countsAll(updater);
}

function isLazy({ spec }: Updater): boolean {
  return spec.type === "lazyAdam";
}
