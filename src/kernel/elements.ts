// elements — the number types of keys, values and rows: their numbers on the wire, their sizes, their arrays. Not the
// arithmetic on them (row-kernels.ts).

/** A key is a u64, on the wire and in memory. */
export const KEY_BYTES = 8;
/** An f32. */
export const FLOAT_BYTES = 4;
/** An f64. */
export const DOUBLE_BYTES = 8;
/** What every row is made of, whatever its elements. */
export const WORD_BYTES = 4;
/** An index or an address in a list for kernels, a u32. */
export const INDEX_BYTES = 4;

/** The number of each type on the wire (spec/protocol.md, §9). */
export const ElementType = { F32: 0, F64: 1, I8: 2, U8: 3, I16: 4, U16: 5, I32: 6, U32: 7, I64: 8, U64: 9 } as const;
export type ElementType = (typeof ElementType)[keyof typeof ElementType];

/** An array of values of the kv face. */
export type ElementArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

type ElementArrayConstructor = {
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ElementArray;
};

/** Position is the number of the type. */
const ARRAYS: readonly ElementArrayConstructor[] = [
  Float32Array,
  Float64Array,
  Int8Array,
  Uint8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
];

/** The number of an array's type, or -1 when it has none, as what is no array. */
export function elementTypeOf(values: unknown): ElementType | -1 {
  if (values instanceof Float32Array) return ElementType.F32;
  if (!ArrayBuffer.isView(values)) return -1;
  return ARRAYS.indexOf(values.constructor as unknown as ElementArrayConstructor) as ElementType | -1;
}

export function isElementType(type: number): type is ElementType {
  return ARRAYS[type] !== undefined;
}

/** Undefined for a number that is no type's. */
export function elementArrayOf(type: ElementType): ElementArrayConstructor;
export function elementArrayOf(type: number): ElementArrayConstructor | undefined;
export function elementArrayOf(type: number): ElementArrayConstructor | undefined {
  return ARRAYS[type];
}

/** Bytes of one element. */
export function elementBytesOf(type: ElementType): number {
  return elementArrayOf(type).BYTES_PER_ELEMENT;
}
