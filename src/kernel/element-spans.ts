// element-spans — a caller's array of elements as bytes that travel, and back: views, and sums of arrays that do not
// lie in a kernel's arena.

import { addRows } from "./element-loops.ts";
import { type ElementType, elementTypeOf } from "./elements.ts";
import { ELEMENT_NAMES, elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "./row-element.ts";

/** The type of an array's elements; undefined for what is no array of rows. */
function elementNameOf(values: unknown): RowElement | undefined {
  return ELEMENT_NAMES.find((name) => values instanceof ROW_ELEMENTS[name].Array);
}

/** The number of an array's type, -1 for what is no array of rows. */
export function reducedType(values: RowArray): ElementType | -1 {
  return elementNameOf(values) === undefined ? -1 : elementTypeOf(values);
}

/** The bytes of a range of elements, where they lie. */
export function bytesOf(values: RowArray, from: number, to: number): Uint8Array {
  const { buffer, byteOffset, BYTES_PER_ELEMENT: size } = values;
  return new Uint8Array(buffer, byteOffset + size * from, size * (to - from));
}

/** The elements of a payload, of the same type as `values`, where they lie: frames are aligned. */
export function elementsOf(values: RowArray, { buffer, byteOffset, byteLength }: Uint8Array): RowArray {
  return elementsAt(elementNameOf(values) ?? "f32", buffer, byteOffset, byteLength / values.BYTES_PER_ELEMENT);
}

/** values[from …] += addends, of one type; integers wrap around. */
export function addElements(values: RowArray, from: number, addends: RowArray): void {
  if (values instanceof Float32Array && addends instanceof Float32Array) {
    for (let i = 0; i < addends.length; i++) values[from + i] = (values[from + i] as number) + (addends[i] as number);
    return;
  }
  const [count, width] = [1, addends.length];
  addRows({ count, width, elements: values, starts: Uint32Array.of(from) }, { count, width, elements: addends, starts: Uint32Array.of(0) });
}
