// store-stage — what tests of the store and of codecs pass to them: kernels over an arena, the parts of an updater that
// a test does not use, and every implementation of CodecKernels, each on its own memory.

import { Arena } from "../kernel/arena.ts";
import { type CodecKernels, simdCodecKernels } from "../kernel/codec-kernels.ts";
import { PlainCodecKernels } from "../kernel/plain-codec-kernels.ts";
import { PlainKernels } from "../kernel/plain-kernels.ts";
import { PlainElementKernels, PlainRowKernels } from "../kernel/plain-row-kernels.ts";
import { simdElementKernels, simdRowKernels } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import type { SumHost } from "../store/sums/sum-requests.ts";
import type { RowUpdater } from "../store/updaters/parameter-updater.ts";
import type { CodecContext } from "../wire/codecs/value-codec.ts";

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

const ARENA_BYTES_MAX = 8 * 2 ** 20;

/** An arena with both kinds of kernels on it. */
export function codecStage(kind: "simd" | "plain" = "simd"): CodecContext {
  const arena = new Arena({ bytesMax: ARENA_BYTES_MAX });
  const codecKernels = kind === "simd" ? simdCodecKernels(arena) : new PlainCodecKernels(arena);
  return { arena, kernels: new SimdKernels(arena), codecKernels };
}

/** All of them pass the same tests. */
export type CodecImplementation = {
  readonly name: string;
  readonly fresh: () => { readonly arena: Arena; readonly kernels: CodecKernels };
};

export const CODEC_IMPLEMENTATIONS: readonly CodecImplementation[] = [
  { name: "PlainCodecKernels", shared: true, open: (arena: Arena) => new PlainCodecKernels(arena) },
  { name: "simdCodecKernels", shared: true, open: simdCodecKernels },
  { name: "simdCodecKernels on plain memory", shared: false, open: simdCodecKernels },
].map(({ name, shared, open }) => ({
  name,
  fresh: () => {
    const arena = new Arena({ bytesMax: ARENA_BYTES_MAX, shared });
    return { arena, kernels: open(arena) };
  },
}));
