// element-kernels — what can be done with numbers of any of the ten types (elements.ts) in an arena: they add up. Addresses need no alignment. Rows and
// columns as in row-kernels.ts; PlainElementKernels is the reference.
//
// Invariants:
//   ElementKernels.E1. Integers wrap around, as they do in C++. Floats are added one by one and rounded to their own type.

import type { Arena } from "./arena.ts";
import type { ElementType } from "./elements.ts";

/** Numbers side by side, against the house rule: this is the WebAssembly boundary, and a call must not allocate. */
export interface ElementKernels {
  /** target[i] += source[i]. The two spans are the same or do not overlap. */
  addElements(type: ElementType, target: number, source: number, count: number): void;
  /**
   * The `width` elements at `offset` bytes after each listed address += what lies at `values`, one row after the other without gaps. No 0 in the list. An
   * address that is listed twice gets both.
   */
  addRowElements(type: ElementType, rows: number, rowCount: number, offset: number, width: number, values: number): void;
}

export function simdElementKernels(arena: Arena): ElementKernels {
  const { addElements, addRowElements } = arena.module;
  return { addElements, addRowElements };
}
