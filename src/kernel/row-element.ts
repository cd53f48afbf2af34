// row-element — the types of number that rows of a table are made of, and how each lies in memory. Tensors are of f32.
//
// Invariants:
//   RowElement.E1. An element is a whole number of 32-bit words: rows of every type are moved as words.
//   RowElement.E2. An element that is a float is f32 or f64. Initializers draw f32, which rows of f64 widen in place.

import { assert } from "../base/assert.ts";
import { ElementType, elementBytesOf, WORD_BYTES } from "./elements.ts";

/** By their names: which array holds them. */
export type RowArrays = { readonly f32: Float32Array; readonly f64: Float64Array; readonly i32: Int32Array; readonly i64: BigInt64Array };
/** What rows of a table are made of: 32-bit and 64-bit floats and integers. */
export type RowElement = keyof RowArrays;
/** The array that carries values of such rows. */
export type RowArray<E extends RowElement = RowElement> = RowArrays[E];
/** One element: of i64 a bigint, of all others a number. */
export type RowNumber<E extends RowElement> = E extends "i64" ? bigint : number;

type ArrayType<A> = { new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): A; readonly name: string };

/** RowElement.E2 */
type FloatElement = "f32" | "f64";

type ElementFacts<E extends RowElement> = {
  readonly bytes: number;
  /** Its name in a checkpoint. */
  readonly dtype: Uppercase<E>;
  readonly isFloat: E extends FloatElement ? true : false;
  readonly Array: ArrayType<RowArray<E>>;
};

export const ROW_ELEMENTS: { readonly [E in RowElement]: ElementFacts<E> } = {
  f32: { bytes: elementBytesOf(ElementType.F32), dtype: "F32", isFloat: true, Array: Float32Array },
  f64: { bytes: elementBytesOf(ElementType.F64), dtype: "F64", isFloat: true, Array: Float64Array },
  i32: { bytes: elementBytesOf(ElementType.I32), dtype: "I32", isFloat: false, Array: Int32Array },
  i64: { bytes: elementBytesOf(ElementType.I64), dtype: "I64", isFloat: false, Array: BigInt64Array },
};

export const ELEMENT_NAMES: readonly RowElement[] = Object.keys(ROW_ELEMENTS) as RowElement[];

/** As a message names them: f32, f64, i32 and i64. */
export const ELEMENT_LIST: string = ELEMENT_NAMES.join(", ").replace(/, (\w+)$/, " and $1");

// RowElement.E1
for (const name of ELEMENT_NAMES) assert(ROW_ELEMENTS[name].bytes % WORD_BYTES === 0, `${name} is whole words`);

export function isRowElement(value: unknown): value is RowElement {
  return typeof value === "string" && Object.hasOwn(ROW_ELEMENTS, value);
}

/** A view of `count` elements at a byte of a buffer. */
export function elementsAt<E extends RowElement>(element: E, buffer: ArrayBufferLike, byteOffset: number, count: number): RowArray<E> {
  const { Array: View } = ROW_ELEMENTS[element] as ElementFacts<E>;
  return new View(buffer, byteOffset, count);
}

/** A number that fits the element; a whole one for integers. */
export function rowNumber<E extends RowElement>(element: E, value: number): RowNumber<E> {
  return (element === "i64" ? BigInt(value) : value) as RowNumber<E>;
}

/** Sets elements from `from` up to `to`, or all, to a number that fits them; a whole one for integers. */
export function fillElements(elements: RowArray, value: number, from?: number, to?: number): void {
  if (elements instanceof BigInt64Array) elements.fill(BigInt(value), from, to);
  else elements.fill(value, from, to);
}

/** Copies elements of one type to the beginning of a target. */
export function copyElements(target: RowArray, source: RowArray): void {
  (target as Float64Array).set(source as Float64Array); // any of them: `set` is alike
}

/** The same bytes as 32-bit words: how rows of every type are moved. */
export function wordsOf({ buffer, byteOffset, byteLength }: RowArray): Float32Array {
  return new Float32Array(buffer, byteOffset, byteLength / WORD_BYTES);
}

/** Words of floats, as what they are. */
export function floatsOf(element: RowElement, words: Float32Array): Float32Array | Float64Array {
  return element === "f64" ? new Float64Array(words.buffer, words.byteOffset, words.length / 2) : words;
}

/** As many spans of `width` elements as `count` says: rows, updates for rows, or room for rows. */
export type RowSpans<E extends RowElement = RowElement> = {
  /** How many rows there are. */
  readonly count: number;
  /** Elements of a row. */
  readonly width: number;
  /** The memory that they lie in. */
  readonly elements: RowArray<E>;
  /** Where in `elements` each begins: the first `count` of these. */
  readonly starts: Uint32Array;
};
