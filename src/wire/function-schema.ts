// function-schema — what the request or the response of a PS function consists of: named scalars, strings and typed arrays, to bytes and back.
//
//   8 bytes for each field, in the order of the schema:   u32 i32 f32 f64 u64 bool: the value │ string, json, arrays: how many bytes, as u64
//   the bytes of strings, JSON texts and arrays in that order, each padded with zeros to 8 bytes
// A schema that is one array and nothing else is that array's bytes alone: an answer of that kind lands in the caller's array as it comes. A schema that is
// one json field and nothing else is that text alone.
//
// Invariants:
//   S1. Arrays are not copied: encoding refers to them, decoding gives views of the payload.
//   S2. Bytes that do not add up are refused before a handler sees any of them.
//   S3. What the bytes of keys and values mean the parameter decides, not the schema: u64 and f32 as they are, another
//       element type, or what the parameter's link makes of them (codecs.md). Encoding takes any array, decoding gives a
//       view of u64 or f32 where the length allows it, and of bytes otherwise.

import { AssertionError } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { showValue } from "../base/show-value.ts";
import { paddedBytes } from "./frame.ts";
import { type Check, decodeJson, encodeJson } from "./json-body.ts";

/** Which TypeScript type a field has, by its name in a schema. */
export type FieldTypes = {
  readonly u32: number;
  readonly i32: number;
  readonly f32: number;
  readonly f64: number;
  readonly u64: bigint;
  readonly bool: boolean;
  readonly string: string;
  readonly "u8[]": Uint8Array;
  readonly "i32[]": Int32Array;
  readonly "u32[]": Uint32Array;
  readonly "f32[]": Float32Array;
  readonly "f64[]": Float64Array;
  readonly "i64[]": BigInt64Array;
  readonly "u64[]": BigUint64Array;
  /** Keys and values of a parameter, as it carries them (S3). */
  readonly keys: ArrayBufferView;
  readonly values: ArrayBufferView;
};
export type FieldType = keyof FieldTypes;

/** A field that travels as JSON: lists, records and what may be left out. What a peer sends is checked as it is read. */
export type JsonField<T> = { readonly check: Check<T> };

export function json<T>(check: Check<T>): JsonField<T> {
  return { check };
}

export type Fields = Readonly<Record<string, FieldType | JsonField<unknown>>>;

type FieldValue<F> = F extends FieldType ? FieldTypes[F] : F extends JsonField<infer T> ? T : never;
/** The object that carries the values of these fields. */
export type FieldValues<F extends Fields> = { readonly [K in keyof F]: FieldValue<F[K]> };

type ArrayConstructor = {
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ArrayBufferView;
};

const ARRAYS: Readonly<Record<string, ArrayConstructor>> = {
  "u8[]": Uint8Array,
  "i32[]": Int32Array,
  "u32[]": Uint32Array,
  "f32[]": Float32Array,
  "f64[]": Float64Array,
  "i64[]": BigInt64Array,
  "u64[]": BigUint64Array,
  keys: BigUint64Array,
  values: Float32Array,
};
const PAYLOADS: ReadonlySet<string> = new Set(["keys", "values"]);
const SCALARS: ReadonlySet<string> = new Set(["u32", "i32", "f32", "f64", "u64", "bool", "string"]);
const FIELD_BYTES = 8;
const NO_BYTES = new Uint8Array(0);
const PADDING = new Uint8Array(FIELD_BYTES);
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

type Field = {
  readonly name: string;
  readonly type: FieldType | "json";
  readonly Elements: ArrayConstructor | undefined;
  /** An array without elements. */
  readonly none: ArrayBufferView | undefined;
  readonly check: Check<unknown> | undefined;
  /** Whether its value is in its 8 bytes, and not behind them. */
  readonly isScalar: boolean;
  /** Whether the parameter decides what its bytes mean (S3). */
  readonly isPayload: boolean;
};

/** The bytes of a request or response: chunks that are sent one after the other, multiples of 8 bytes but for the last. */
export type EncodedFields = { readonly chunks: readonly Uint8Array[]; readonly byteCount: number };

export class FunctionSchema<F extends Fields> {
  readonly #what: string;
  readonly #fields: readonly Field[];
  /** The one array, or JSON text, of a schema that has nothing else. */
  readonly #only: Field | undefined;
  /** The names of its fields that are keys, and values (S3). */
  readonly keyNames: readonly string[];
  readonly valueNames: readonly string[];

  /** Throws BAD_ARGUMENT for a type that does not exist; `what` is "the request of push". */
  constructor(fields: F, what: string) {
    this.#what = what;
    if (typeof fields !== "object" || fields === null)
      throw new WeighbridgeError("BAD_ARGUMENT", `${what}: its fields are an object of names and types, not ${showValue(fields)}`);
    this.#fields = Object.entries(fields).map(([name, type]): Field => {
      if (isJson(type))
        return { name, type: "json", Elements: undefined, none: undefined, check: type.check, isScalar: false, isPayload: false };
      const Elements = Object.hasOwn(ARRAYS, type) ? ARRAYS[type] : undefined;
      if (Elements === undefined && !SCALARS.has(type)) {
        const known = [...SCALARS, ...Object.keys(ARRAYS)];
        throw new WeighbridgeError(
          "BAD_ARGUMENT",
          `${what}: ${name} is of type ${showValue(type)}; there are ${known.join(", ")}${didYouMean(type, known)}`,
        );
      }
      const isScalar = Elements === undefined && type !== "string";
      const none = Elements === undefined ? undefined : new Elements(new ArrayBuffer(0), 0, 0);
      return { name, type, Elements, none, check: undefined, isScalar, isPayload: PAYLOADS.has(type) };
    });
    const namesOf = (type: FieldType): string[] => this.#fields.filter((field) => field.type === type).map(({ name }) => name);
    this.keyNames = namesOf("keys");
    this.valueNames = namesOf("values");
    const [first] = this.#fields;
    const isAlone = first?.Elements !== undefined || first?.check !== undefined;
    this.#only = this.#fields.length === 1 && isAlone ? first : undefined;
  }

  /** The schema in words: the same text, the same bytes. */
  get signature(): string {
    return `{${this.#fields.map(({ name, type }) => `${name}: ${type}`).join(", ")}}`;
  }

  get isEmpty(): boolean {
    return this.#fields.length === 0;
  }

  /** Whether the bytes are those of one array, so that they can land in one. */
  get isOneArray(): boolean {
    return this.#only?.Elements !== undefined;
  }

  /** Throws BAD_ARGUMENT for a field that is missing or of another type. The arrays are referred to, not copied (S1). */
  encode(values: FieldValues<F>): EncodedFields {
    if (typeof values !== "object" || values === null)
      throw new WeighbridgeError("BAD_ARGUMENT", `${this.#what}: an object with its fields is expected, not ${showValue(values)}`);
    if (this.#only !== undefined) {
      const bytes = this.#fieldBytes(this.#only, values[this.#only.name]);
      return { chunks: [bytes], byteCount: bytes.length };
    }
    const fixed = new DataView(new ArrayBuffer(this.#fields.length * FIELD_BYTES));
    const chunks: Uint8Array[] = [new Uint8Array(fixed.buffer)];
    let byteCount = fixed.byteLength;
    this.#fields.forEach((field, i) => {
      const bytes = this.#encodeField(field, values[field.name], fixed, i * FIELD_BYTES);
      if (bytes.length === 0) return;
      chunks.push(bytes);
      const padding = paddedBytes(bytes.length) - bytes.length;
      if (padding > 0) chunks.push(PADDING.subarray(0, padding));
      byteCount += bytes.length + padding;
    });
    return { chunks, byteCount };
  }

  /** Views of `byteCount` bytes at `at`, which is a multiple of 8 in its buffer (of the element's size, for one array). Throws BAD_REQUEST when they do not add up (S2). */
  decode(bytes: Uint8Array, at: number, byteCount: number): FieldValues<F> {
    const values: Record<string, unknown> = {};
    if (this.#only !== undefined) {
      values[this.#only.name] = this.#read(this.#only, bytes, at, byteCount);
      return values as FieldValues<F>;
    }
    if ((bytes.byteOffset + at) % FIELD_BYTES !== 0) throw new AssertionError("payloads are aligned to 8 bytes");
    const fixedBytes = this.#fields.length * FIELD_BYTES;
    if (byteCount < fixedBytes) throw this.#bad(`${byteCount} bytes, fewer than the ${fixedBytes} of its ${this.#fields.length} fields`);
    const fixed = new DataView(bytes.buffer, bytes.byteOffset + at, fixedBytes);
    const end = at + byteCount;
    let next = at + fixedBytes;
    this.#fields.forEach((field, i) => {
      const slot = i * FIELD_BYTES;
      if (field.isScalar) {
        values[field.name] = scalarAt(field.type, fixed, slot);
        return;
      }
      const length = Number(fixed.getBigUint64(slot, true));
      if (length > end - next) throw this.#bad(`${length} bytes of ${field.name}, but only ${end - next} are left`);
      values[field.name] = this.#read(field, bytes, next, length);
      next += paddedBytes(length);
    });
    if (next !== end) throw this.#bad(`${byteCount} bytes, of which its fields take ${next - at}`);
    return values as FieldValues<F>;
  }

  #encodeField(field: Field, value: unknown, fixed: DataView, slot: number): Uint8Array {
    if (field.isScalar) {
      this.#setScalar(field, value, fixed, slot);
      return NO_BYTES;
    }
    const bytes = this.#fieldBytes(field, value);
    fixed.setBigUint64(slot, BigInt(bytes.length), true);
    return bytes;
  }

  #fieldBytes(field: Field, value: unknown): Uint8Array {
    if (field.Elements !== undefined) return this.#arrayBytes(field, value);
    return field.check === undefined ? this.#textBytes(field, value) : encodeJson(value ?? null); // JSON knows no undefined
  }

  #read(field: Field, bytes: Uint8Array, at: number, length: number): unknown {
    if (field.Elements !== undefined) return this.#view(field, bytes, at, length);
    if (field.check === undefined) return this.#text(field, bytes, at, length);
    const what = this.#only === undefined ? `${this.#what}.${field.name}` : this.#what;
    return decodeJson(field.check, what, bytes.slice(at, at + length)); // a copy: shared memory cannot be decoded
  }

  #arrayBytes(field: Field, value: unknown): Uint8Array {
    const { Elements, isPayload } = field;
    if (Elements === undefined || !(value instanceof Elements || (isPayload && ArrayBuffer.isView(value)))) throw this.#wrong(field, value);
    const { buffer, byteOffset, byteLength } = value;
    if (byteLength === 0) return NO_BYTES;
    return new Uint8Array(buffer, byteOffset, byteLength);
  }

  #textBytes(field: Field, value: unknown): Uint8Array {
    if (typeof value !== "string") throw this.#wrong(field, value);
    return encoder.encode(value);
  }

  #setScalar(field: Field, value: unknown, fixed: DataView, slot: number): void {
    const { type } = field;
    if (type === "u64") {
      if (typeof value !== "bigint" || BigInt.asUintN(64, value) !== value) throw this.#wrong(field, value);
      fixed.setBigUint64(slot, value, true);
    } else if (type === "bool") {
      if (typeof value !== "boolean") throw this.#wrong(field, value);
      fixed.setUint8(slot, value ? 1 : 0);
    } else {
      if (typeof value !== "number") throw this.#wrong(field, value);
      if (type === "u32" && value >>> 0 === value) fixed.setUint32(slot, value, true);
      else if (type === "i32" && (value | 0) === value) fixed.setInt32(slot, value, true);
      else if (type === "f32") fixed.setFloat32(slot, value, true);
      else if (type === "f64") fixed.setFloat64(slot, value, true);
      else throw this.#wrong(field, value);
    }
  }

  #view({ name, Elements, none, isPayload }: Field, bytes: Uint8Array, at: number, length: number): ArrayBufferView {
    if (Elements === undefined || none === undefined) throw new AssertionError(`${name} is an array`);
    if (length === 0) return none;
    if (length % Elements.BYTES_PER_ELEMENT !== 0) {
      if (isPayload) return bytes.subarray(at, at + length);
      throw this.#bad(`${length} bytes of ${name}, which is no whole ${Elements.name}`);
    }
    return new Elements(bytes.buffer, bytes.byteOffset + at, length / Elements.BYTES_PER_ELEMENT);
  }

  #text({ name }: Field, bytes: Uint8Array, at: number, length: number): string {
    try {
      return decoder.decode(bytes.slice(at, at + length)); // a copy: shared memory cannot be decoded
    } catch (thrown) {
      throw this.#bad(`${name}, which is no UTF-8`, thrown);
    }
  }

  #wrong({ name, type }: Field, value: unknown): WeighbridgeError {
    const given = typeof value === "object" && value !== null ? showValue(value) : `${typeof value} ${showValue(value)}`;
    const expected = PAYLOADS.has(type) ? "a typed array" : (ARRAYS[type]?.name ?? type);
    return new WeighbridgeError("BAD_ARGUMENT", `${this.#what}: ${name} must be ${expected}, but is ${given}`);
  }

  #bad(what: string, cause?: unknown): WeighbridgeError {
    return new WeighbridgeError("BAD_REQUEST", `${this.#what} came with ${what}`, { cause });
  }
}

function isJson(type: FieldType | JsonField<unknown>): type is JsonField<unknown> {
  return typeof type === "object" && type !== null && typeof type.check === "function";
}

function scalarAt(type: Field["type"], fixed: DataView, slot: number): number | bigint | boolean {
  switch (type) {
    case "u32":
      return fixed.getUint32(slot, true);
    case "i32":
      return fixed.getInt32(slot, true);
    case "f32":
      return fixed.getFloat32(slot, true);
    case "f64":
      return fixed.getFloat64(slot, true);
    case "u64":
      return fixed.getBigUint64(slot, true);
    default:
      return fixed.getUint8(slot) !== 0;
  }
}
