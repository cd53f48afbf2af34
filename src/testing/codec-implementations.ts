// codec-implementations — every implementation of CodecKernels, each on its own memory: all pass the same tests.

import { Arena } from "../kernel/arena.ts";
import { type CodecKernels, simdCodecKernels } from "../kernel/codec-kernels.ts";
import { PlainCodecKernels } from "../kernel/plain-codec-kernels.ts";

const ARENA_BYTES_MAX = 8 * 2 ** 20;

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
