// codec-stage — for tests of codecs: an arena with both kinds of kernels on it, and every implementation of
// CodecKernels, each on its own memory.

import { Arena } from "../kernel/arena.ts";
import { type CodecKernels, simdCodecKernels } from "../kernel/codec-kernels.ts";
import { PlainCodecKernels } from "../kernel/plain-codec-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import type { CodecContext } from "../wire/codecs/value-codec.ts";

const ARENA_BYTES_MAX = 8 * 2 ** 20;

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
