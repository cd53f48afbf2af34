// typed-sums — the default handle's values of types other than Float32Array (ps-lite: KVServerDefaultHandle<double>, <int>): pushes are
// summed, pulls read, by whole requests. Rows lie on the heap and are added one by one: floats, which come in bulk, have store-handle.ts.
//
// Invariants:
//   Y1. All values have one type, that of the first push; integers wrap around as they do in C++.
//   Y2. A key has one length for life; every other one is refused with VALUE_LENGTH.
//   Y3. A push is applied whole or not at all.
//   Y4. A pull creates nothing: an unknown key reads as zeros.
//   Y5. Rows take `bytesMax` bytes at most, with what it takes to keep them.

import { WeighbridgeError } from "../../base/errors.ts";
import { elementArrayOf, elementTypeOf } from "../../kernel/elements.ts";
import type { Values } from "../../wire/kv-message.ts";
import { answerWhole, type WholeRequest } from "./whole-requests.ts";

/** What a row takes beside its values: its key, its place among the others, the array. */
const ROW_COST_BYTES = 256;
/** A Map holds no more. */
const ROWS_MAX = 2 ** 24;

export class TypedSums {
  /** Number of the type that is held, from the first push on. Nobody else writes it. */
  dtype: number | undefined;
  readonly #bytesMax: number;
  readonly #rows = new Map<bigint, Values>();
  #usedBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Throws UNSUPPORTED, VALUE_LENGTH or ARENA_FULL with nothing applied and nothing answered. */
  serve(request: WholeRequest): void {
    const { isPush, isPull, values } = request;
    const dtype = elementTypeOf(values);
    if (this.dtype !== undefined && dtype !== this.dtype) throw otherType(this.dtype, dtype); // Y1
    if (isPush) {
      this.#check(request);
      this.#add(request);
      this.dtype = dtype;
    }
    if (!isPull) answerWhole(request, undefined, undefined);
    else {
      const lens = this.#lensOf(request);
      answerWhole(request, this.#read(request, lens), lens);
    }
  }

  /** Y2, Y3, Y5 */
  #check(request: WholeRequest): void {
    const { keys, values } = request;
    let newBytes = 0;
    let newCount = 0;
    for (let i = 0; i < keys.length; i++) {
      const length = pushedLength(request, i);
      const row = this.#rows.get(keys[i] as bigint);
      if (row === undefined && length > 0) {
        newBytes += ROW_COST_BYTES + length * values.BYTES_PER_ELEMENT;
        newCount++;
      } else if (row !== undefined && length > 0 && row.length !== length) throw otherLength(keys[i] as bigint, row.length, length);
    }
    if (this.#usedBytes + newBytes <= this.#bytesMax && this.#rows.size + newCount <= ROWS_MAX) return;
    const used = `${this.#usedBytes} of ${this.#bytesMax} bytes and ${this.#rows.size} of ${ROWS_MAX} keys are in use`;
    throw new WeighbridgeError("ARENA_FULL", `no room for a push of ${keys.length} keys: ${used}`);
  }

  #add(request: WholeRequest): void {
    const { keys, values } = request;
    for (let i = 0, from = 0; i < keys.length; i++) {
      const length = pushedLength(request, i);
      const part = values.subarray(from, from + length);
      const row = this.#rows.get(keys[i] as bigint);
      from += length;
      if (row !== undefined) addTo(row, part);
      else if (length > 0) {
        this.#rows.set(keys[i] as bigint, part.slice());
        this.#usedBytes += ROW_COST_BYTES + part.byteLength;
      }
    }
  }

  /** How many values the answer has for each key. An unknown one has as many as the first that is known, or as the asker expects. */
  #lensOf(request: WholeRequest): Int32Array {
    const { keys, width, wantsLens, isPush } = request;
    if (isPush) return Int32Array.from(keys, (_, i) => pushedLength(request, i));
    const lens = Int32Array.from(keys, (key) => this.#rows.get(key)?.length ?? 0);
    if (!wantsLens) {
      const wrong = lens.findIndex((length) => length !== 0 && length !== width);
      if (wrong >= 0) throw otherLength(keys[wrong] as bigint, lens[wrong] as number, width);
      return lens.fill(width);
    }
    const unknown = width === 0 ? 0 : (lens.find((length) => length > 0) ?? width);
    return lens.map((length) => (length === 0 ? unknown : length));
  }

  /** Y4 */
  #read({ keys, values }: WholeRequest, lens: Int32Array): Values {
    const Element = elementArrayOf(elementTypeOf(values)) ?? Float64Array;
    const count = lens.reduce((sum, length) => sum + length, 0);
    const out = new Element(new ArrayBuffer(count * Element.BYTES_PER_ELEMENT), 0, count);
    for (let i = 0, at = 0; i < keys.length; i++) {
      const row = this.#rows.get(keys[i] as bigint);
      if (row !== undefined && lens[i] !== 0) copyTo(out, row, at);
      at += lens[i] as number;
    }
    return out;
  }
}

/** UNSUPPORTED: an application has values of one type. */
export function otherType(held: number, asked: number): WeighbridgeError {
  const [heldName, askedName] = [held, asked].map((dtype) => elementArrayOf(dtype)?.name ?? `type ${dtype}`);
  const message = `the default handle holds ${heldName} values here, from the first push on, and no ${askedName}: use another application, or set a request handle`;
  return new WeighbridgeError("UNSUPPORTED", message);
}

function pushedLength({ keys, values, lens }: WholeRequest, index: number): number {
  return lens === undefined ? values.length / keys.length : (lens[index] as number);
}

function otherLength(key: bigint, expected: number, actual: number): WeighbridgeError {
  return new WeighbridgeError("VALUE_LENGTH", `key ${key} has ${expected} values, the request has ${actual}`);
}

/** Both have one type and length. */
function addTo(row: Values, part: Values): void {
  if (isBig(row)) for (let i = 0; i < row.length && isBig(part); i++) row[i] = (row[i] as bigint) + (part[i] as bigint);
  else for (let i = 0; i < row.length; i++) row[i] = (row[i] as number) + (part[i] as number);
}

function copyTo(out: Values, row: Values, at: number): void {
  if (isBig(out)) {
    if (isBig(row)) out.set(row, at);
  } else if (!isBig(row)) out.set(row, at);
}

function isBig(values: Values): values is BigInt64Array | BigUint64Array {
  return values instanceof BigInt64Array || values instanceof BigUint64Array;
}
