// store-stage — what tests of the store pass to tables and sums: kernels over an arena, and the parts of an updater
// that a test does not use.

import type { Arena } from "../kernel/arena.ts";
import { PlainKernels } from "../kernel/plain-kernels.ts";
import { PlainElementKernels, PlainRowKernels } from "../kernel/plain-row-kernels.ts";
import { simdElementKernels, simdRowKernels } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import type { SumHost } from "../store/sums/sum-requests.ts";
import type { RowUpdater } from "../store/updaters/parameter-updater.ts";

export const NEVER_TRIED: Omit<RowUpdater, "rowExtraBytes" | "startRows" | "updateRows"> = {
  isTried: false,
  layout: { slots: [], slotFloats: 0, wordsPerRow: 0 },
  attempt: () => true,
  notesPulls: false,
  comparedRank: undefined,
  updatePulledRows: () => undefined,
  noteMagnitude: () => undefined,
};

export function simdSumHost(arena: Arena): SumHost {
  return { arena, kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena), elements: simdElementKernels(arena) };
}

export function plainSumHost(arena: Arena): SumHost {
  const kernels = new PlainKernels(arena);
  return { arena, kernels, rowKernels: new PlainRowKernels(arena, kernels), elements: new PlainElementKernels(arena) };
}
