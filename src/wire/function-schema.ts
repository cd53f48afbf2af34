// function-schema — the fields of the request or response of a typed function: named scalars, strings, typed arrays and
// JSON. FieldCodec (frame.ts) makes bytes of them.

import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { type ArrayConstructor, type Field, FieldCodec, type ScalarType } from "./frame.ts";
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
  /** @internal */
  readonly keys: ArrayBufferView;
  /** @internal */
  readonly values: ArrayBufferView;
};
/** The type of a field, as a schema names it. */
export type FieldType = keyof FieldTypes;

/** A field that travels as JSON: lists, records, optional values. What a peer sends is checked as it is read. */
export type JsonField<T> = {
  /** Returns the value as it may be used. Throws for what it may not be. */
  readonly check: Check<T>;
};

export function json<T>(check: Check<T>): JsonField<T> {
  return { check };
}

/** The fields of a request or a response: their types by their names. */
export type Fields = Readonly<Record<string, FieldType | JsonField<unknown>>>;

/** The value of a field of this type. */
export type FieldValue<F> = F extends FieldType ? FieldTypes[F] : F extends JsonField<infer T> ? T : never;
/** The object that carries the values of these fields. */
export type FieldValues<F extends Fields> = { readonly [K in keyof F]: FieldValue<F[K]> };

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
const SCALARS: ReadonlySet<string> = new Set(["u32", "i32", "f32", "f64", "u64", "bool"]);
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export class FunctionSchema<F extends Fields> extends FieldCodec<FieldValues<F>> {
  /** The schema in words: the same text, the same bytes. */
  readonly signature: string;
  /** The names of its fields that are keys, and values (FieldCodec.F5). */
  readonly keyNames: readonly string[];
  readonly valueNames: readonly string[];

  /** Throws BAD_ARGUMENT for a type that does not exist; `what` is "the request of push". */
  constructor(fields: F, what: string) {
    if (typeof fields !== "object" || fields === null)
      throw badArgument(`${what}: its fields are an object of names and types, not ${showValue(fields)}`);
    const types = Object.entries(fields);
    const isOnly = types.length === 1;
    const made = types.map(([name, type]) =>
      isJson(type) ? jsonField(name, type, isOnly ? what : `${what}.${name}`) : fieldOf(name, type, what),
    );
    super(what, made, isOnly && (made[0]?.array !== undefined || types.every(([, type]) => isJson(type))) ? made[0] : undefined);
    this.signature = `{${types.map(([name, type]) => `${name}: ${isJson(type) ? "json" : type}`).join(", ")}}`;
    const namesOf = (wanted: FieldType): string[] => types.filter(([, type]) => type === wanted).map(([name]) => name);
    this.keyNames = namesOf("keys");
    this.valueNames = namesOf("values");
  }
}

function isJson(type: FieldType | JsonField<unknown>): type is JsonField<unknown> {
  return typeof type === "object" && type !== null && typeof type.check === "function";
}

function jsonField(name: string, { check }: JsonField<unknown>, what: string): Field {
  const text = {
    encode: (value: unknown): Uint8Array => encodeJson(value ?? null), // JSON knows no undefined
    decode: (bytes: Uint8Array): unknown => decodeJson(check, what, bytes),
  };
  return { name, scalar: undefined, array: undefined, text, expected: "json" };
}

function fieldOf(name: string, type: FieldType, what: string): Field {
  const Elements = Object.hasOwn(ARRAYS, type) ? ARRAYS[type] : undefined;
  if (Elements !== undefined) {
    const isPayload = PAYLOADS.has(type);
    const array = { Elements, none: new Elements(new ArrayBuffer(0), 0, 0), isPayload };
    return { name, scalar: undefined, array, text: undefined, expected: isPayload ? "a typed array" : Elements.name };
  }
  if (type === "string")
    return { name, scalar: undefined, array: undefined, text: stringCodec(`${what} came with ${name}`), expected: type };
  if (isScalar(type)) return { name, scalar: type, array: undefined, text: undefined, expected: type };
  const known = [...SCALARS, "string", ...Object.keys(ARRAYS)];
  throw badArgument(`${what}: ${name} is of type ${showValue(type)}; there are ${known.join(", ")}${didYouMean(type, known)}`);
}

function isScalar(type: unknown): type is ScalarType {
  return SCALARS.has(type as string);
}

function stringCodec(what: string): NonNullable<Field["text"]> {
  return {
    encode: (value) => (typeof value === "string" ? encoder.encode(value) : undefined),
    decode: (bytes) => {
      try {
        return decoder.decode(bytes);
      } catch (thrown) {
        throw new WeighbridgeError("BAD_REQUEST", `${what}, which is no UTF-8`, { cause: thrown });
      }
    },
  };
}
