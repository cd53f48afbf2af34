// element-loops — adds, copies, minimizes and maximizes rows of any element type, element by element, in plain
// TypeScript: f32 has kernels. And a caller's array, which lies in no kernel's arena, as bytes that travel, and back.

import { type ElementType, elementTypeOf, WORD_BYTES } from "./elements.ts";
import { ELEMENT_NAMES, elementsAt, ROW_ELEMENTS, type RowArray, type RowElement, type RowSpans } from "./row-element.ts";

type NumberElement = Exclude<RowElement, "i64">;

/** Calls `pair` with the index of each element of the rows and of the update for it. */
export function eachPair({ starts, count, width }: RowSpans, pushed: RowSpans, pair: (at: number, from: number) => void): void {
  for (let i = 0; i < count; i++) {
    const [row, update] = [starts[i] as number, pushed.starts[i] as number];
    for (let j = 0; j < width; j++) pair(row + j, update + j);
  }
}

/** Stores wrap integers around. */
function addNumbers(rows: RowSpans<NumberElement>, pushed: RowSpans<NumberElement>): void {
  const [elements, from] = [rows.elements as Float64Array, pushed.elements as Float64Array];
  for (let i = 0; i < rows.count; i++) {
    const [row, update] = [rows.starts[i] as number, pushed.starts[i] as number];
    for (let j = 0; j < rows.width; j++) elements[row + j] = (elements[row + j] as number) + (from[update + j] as number);
  }
}

/** By halves, with a carry: no bigint is made. */
function addWide(rows: RowSpans<"i64">, pushed: RowSpans<"i64">): void {
  const [words, from] = [wordsAt(rows.elements), wordsAt(pushed.elements)];
  for (let i = 0; i < rows.count; i++) {
    const [row, update] = [2 * (rows.starts[i] as number), 2 * (pushed.starts[i] as number)];
    for (let j = 0; j < 2 * rows.width; j += 2) {
      const low = (words[row + j] as number) + (from[update + j] as number);
      words[row + j] = low;
      words[row + j + 1] = (words[row + j + 1] as number) + (from[update + j + 1] as number) + (low > 0xffff_ffff ? 1 : 0);
    }
  }
}

/** The memory of elements as 32-bit words. */
function wordsAt({ buffer, byteOffset, byteLength }: RowSpans["elements"]): Uint32Array {
  return new Uint32Array(buffer, byteOffset, byteLength / WORD_BYTES);
}

function isWide(rows: RowSpans): rows is RowSpans<"i64"> {
  return rows.elements instanceof BigInt64Array;
}

export function addRows(rows: RowSpans, pushed: RowSpans): void {
  if (isWide(rows)) addWide(rows, pushed as RowSpans<"i64">);
  else addNumbers(rows as RowSpans<NumberElement>, pushed as RowSpans<NumberElement>);
}

/** Word by word: no bigint is made. */
export function copyRows(rows: RowSpans, pushed: RowSpans): void {
  const scale = rows.elements.BYTES_PER_ELEMENT / WORD_BYTES;
  const [words, from] = [wordsAt(rows.elements), wordsAt(pushed.elements)];
  for (let i = 0; i < rows.count; i++) {
    const [row, update] = [scale * (rows.starts[i] as number), scale * (pushed.starts[i] as number)];
    for (let j = 0; j < scale * rows.width; j++) words[row + j] = from[update + j] as number;
  }
}

/** Of each element the lesser, or the greater. */
function takeNumbers(rows: RowSpans, pushed: RowSpans, isGreater: boolean): void {
  const [elements, from] = [rows.elements as Float64Array, pushed.elements as Float64Array]; // of one kind
  eachPair(rows, pushed, (at, source) => {
    const [there, pushedValue] = [elements[at] as number, from[source] as number];
    if (isGreater ? pushedValue > there : pushedValue < there) elements[at] = pushedValue;
  });
}

/** By halves: the upper one has the sign. */
function takeWide(rows: RowSpans, pushed: RowSpans, isGreater: boolean): void {
  const [words, from] = [wordsAt(rows.elements), wordsAt(pushed.elements)];
  eachPair(rows, pushed, (at, source) => {
    const [low, high] = [words[2 * at] as number, (words[2 * at + 1] as number) | 0];
    const [givenLow, givenHigh] = [from[2 * source] as number, (from[2 * source + 1] as number) | 0];
    const isLess = givenHigh < high || (givenHigh === high && givenLow < low);
    const isSame = givenHigh === high && givenLow === low;
    if (isSame || isLess === isGreater) return;
    words[2 * at] = givenLow;
    words[2 * at + 1] = givenHigh;
  });
}

export function takeLesser(rows: RowSpans, pushed: RowSpans): void {
  if (isWide(rows)) takeWide(rows, pushed, false);
  else takeNumbers(rows, pushed, false);
}

export function takeGreater(rows: RowSpans, pushed: RowSpans): void {
  if (isWide(rows)) takeWide(rows, pushed, true);
  else takeNumbers(rows, pushed, true);
}

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
