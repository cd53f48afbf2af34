// plain-reduce-kernels — the reference of ReduceKernels: element after element. Slow; for tests.

import { assert } from "../base/assert.ts";
import type { Arena } from "./arena.ts";
import { type ElementType, elementArrayOf, WORD_BYTES } from "./elements.ts";
import type { ReduceKernels } from "./reduce-kernels.ts";

export class PlainReduceKernels implements ReduceKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  reduceSpans(
    type: ElementType,
    result: number,
    sources: number,
    sourceCount: number,
    targets: number,
    targetCount: number,
    offset: number,
    byteCount: number,
  ): void {
    const { words, memory } = this.#arena;
    const TypedArray = elementArrayOf(type);
    const count = byteCount / TypedArray.BYTES_PER_ELEMENT;
    assert(sourceCount >= 1 && Number.isInteger(count), "a sum has sources, of whole elements");
    const list = Array.from({ length: sourceCount }, (_, i) => words[sources / WORD_BYTES + i]! + offset);
    const spans = list.map((address) => new TypedArray(memory.buffer, address, count));
    const sum = new TypedArray(new ArrayBuffer(byteCount), 0, count) as Float64Array; // any of them: the loop is alike
    for (const [i, span] of (spans as Float64Array[]).entries())
      for (let k = 0; k < count; k++) sum[k] = i === 0 ? span[k]! : sum[k]! + span[k]!;
    new Uint8Array(memory.buffer, result, byteCount).set(new Uint8Array(sum.buffer));
    this.copySpan(targets, targetCount, offset, result, byteCount);
  }

  copySpan(targets: number, targetCount: number, offset: number, source: number, byteCount: number): void {
    const { words, bytes } = this.#arena;
    for (let i = 0; i < targetCount; i++) bytes.copyWithin(words[targets / WORD_BYTES + i]! + offset, source, source + byteCount);
  }
}
