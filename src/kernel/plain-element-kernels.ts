// plain-element-kernels — the reference of ElementKernels: one element at a time, in JavaScript's own arrays. Slow; for tests.

import type { Arena } from "./arena.ts";
import type { ElementKernels } from "./element-kernels.ts";
import { type ElementArray, type ElementType, elementArrayOf, elementBytesOf } from "./elements.ts";

export class PlainElementKernels implements ElementKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  addElements(type: ElementType, target: number, source: number, count: number): void {
    const [sums, added] = [this.#copy(type, target, count), this.#copy(type, source, count)];
    for (let i = 0; i < count; i++) add(sums, added, i);
    this.#arena.bytes.set(new Uint8Array(sums.buffer), target);
  }

  addRowElements(type: ElementType, rows: number, rowCount: number, offset: number, width: number, values: number): void {
    const rowBytes = width * elementBytesOf(type);
    for (let i = 0; i < rowCount; i++) {
      this.addElements(type, this.#arena.words[rows / 4 + i]! + offset, values + i * rowBytes, width);
    }
  }

  #copy(type: ElementType, address: number, count: number): ElementArray {
    const bytes = this.#arena.bytes.slice(address, address + count * elementBytesOf(type));
    return new (elementArrayOf(type))(bytes.buffer, 0, count);
  }
}

/** Both have one type. */
function add(sums: ElementArray, added: ElementArray, i: number): void {
  if (sums instanceof BigInt64Array || sums instanceof BigUint64Array) sums[i] = (sums[i] as bigint) + (added[i] as bigint);
  else sums[i] = (sums[i] as number) + (added[i] as number);
}
