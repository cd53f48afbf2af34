// codec-stage — an arena with both kinds of kernels on it, for tests of codecs.

import { Arena } from "../kernel/arena.ts";
import { simdCodecKernels } from "../kernel/codec-kernels.ts";
import { PlainCodecKernels } from "../kernel/plain-codec-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import type { CodecContext } from "../wire/codecs/value-codec.ts";

export function codecStage(kind: "simd" | "plain" = "simd"): CodecContext {
  const arena = new Arena({ bytesMax: 8 * 2 ** 20 });
  const codecKernels = kind === "simd" ? simdCodecKernels(arena) : new PlainCodecKernels(arena);
  return { arena, kernels: new SimdKernels(arena), codecKernels };
}
