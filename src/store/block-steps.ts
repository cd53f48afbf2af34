// block-steps — which step an update of a block is to the optimizers of Adam's kind, and who counts it.
//
//   adam, adamW   each row its own updates: the block counts those of all rows, each row those beside them
//   lazyAdam      the pushes to the tensor: the tensor counts those that do not come to every block, the block the others
//   others        the block, and nobody asks

import { assert } from "../base/assert.ts";
import type { Updater, UpdateStep } from "./updaters/updater.ts";

/** lazyAdam: pushes that the tensor has counted for all its blocks, and whether this is one of them. Otherwise its blocks count it. */
export type TensorPushes = { readonly count: number; readonly hasThis: boolean };

/** The block's own count, and where its rows have theirs. */
type CountedBlock = { readonly step: number; readonly rowSteps: { readonly address: number } | undefined };

type Step = Pick<UpdateStep, "step" | "rowSteps">;

export function stepOfAll(updater: Updater, { step, rowSteps }: CountedBlock, pushes: TensorPushes): Step {
  const next = step + (countsAll(updater, pushes) ? 1 : 0);
  if (updater.countsRows && rowSteps !== undefined) return { step: next, rowSteps: { address: rowSteps.address, counts: false } };
  return { step: isLazy(updater) ? Math.max(1, next + pushes.count) : next };
}

/** The same for some rows of it. Rows that count their own were made ready to. */
export function stepOfSome(updater: Updater, { step, rowSteps }: CountedBlock, pushes: TensorPushes): Step {
  if (updater.countsRows) {
    assert(rowSteps !== undefined, "rows were made ready to count");
    return { step, rowSteps: { address: rowSteps.address, counts: true } };
  }
  return { step: isLazy(updater) ? Math.max(1, step + pushes.count) : step + 1 };
}

/** Whether the block counts an update of all its rows. */
export function countsAll(updater: Updater, { hasThis }: TensorPushes): boolean {
  return !(isLazy(updater) && hasThis);
}

/** The same for an update of some. */
export function countsSome(updater: Updater, pushes: TensorPushes): boolean {
  return !updater.countsRows && countsAll(updater, pushes);
}

function isLazy({ spec }: Updater): boolean {
  return spec.type === "lazyAdam";
}
