// reduce-kernels — sums several spans and copies the sum to others, for devices that share a model. Addresses as in
// kernels.ts. A list is u32 addresses, side by side. PlainReduceKernels is the reference.
//
// Invariants:
//   ReduceKernels.D1. Sources are added in the order of the list, ((s0 + s1) + s2) + …, each sum rounded: the same bits
//       however the spans are cut.
//   ReduceKernels.D2. A target may be a source, or the result; otherwise spans do not overlap.
//   ReduceKernels.D3. Calls use no memory but what they name: threads that share a memory may make them at the same
//       time.

import type { Arena } from "./arena.ts";
import type { ElementType } from "./elements.ts";

/** Numbers side by side, against the house rule: this is the WebAssembly boundary, and a call must not allocate. */
export interface ReduceKernels {
  /**
   * The `byteCount` bytes at `result` = the sum of the `byteCount` bytes that lie `offset` bytes after each source;
   * then copies them to `offset` bytes after each target. Types of 4 and 8 bytes; whole elements.
   */
  reduceSpans(
    type: ElementType,
    result: number,
    sources: number,
    sourceCount: number,
    targets: number,
    targetCount: number,
    offset: number,
    byteCount: number,
  ): void;
  /** Copies `byteCount` bytes from `source` to `offset` bytes after each target. */
  copySpan(targets: number, targetCount: number, offset: number, source: number, byteCount: number): void;
}

export function simdReduceKernels(arena: Arena): ReduceKernels {
  const { reduceSpans, copySpan } = arena.module;
  return { reduceSpans, copySpan };
}
