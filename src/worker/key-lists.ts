// key-lists — the keys and rows of a table as callers give them, checked before anything is done with them.

import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { firstKeyFrom } from "../keys/first-key-from.ts";
import { wrongLength } from "./caller-array.ts";

/**
 * Keys of a table, as a caller may name them. Only a BigUint64Array is sent as it is; the others are copied into one.
 */
export type KeyList = BigUint64Array | Uint32Array | Int32Array | readonly (number | bigint)[];

/** How many keys or rows a list names. Throws BAD_ARGUMENT for a single key, and for floats. */
export function listLength(list: KeyList, name: string): number {
  if (Array.isArray(list) || list instanceof BigUint64Array || list instanceof Uint32Array || list instanceof Int32Array)
    return list.length;
  const what = "a BigUint64Array, a Uint32Array, an Int32Array or an array of whole numbers";
  throw badArgument(`${name}: keys and rows are named by ${what}, not by ${showValue(list)}`);
}

export class KeyLists {
  readonly #name: string;
  readonly #rowCountMax: number | undefined;

  /** Of the table of this name; with `rowCountMax` keys are below that. */
  constructor(name: string, rowCountMax: number | undefined) {
    this.#name = name;
    this.#rowCountMax = rowCountMax;
  }

  /** Throws BAD_ARGUMENT for what is no key, OUT_OF_RANGE. */
  arrayOf(keys: KeyList): BigUint64Array {
    if (!(keys instanceof BigUint64Array)) listLength(keys, this.#name);
    const list =
      keys instanceof BigUint64Array ? keys : BigUint64Array.from(keys as readonly (number | bigint)[], (key) => this.#keyOf(key));
    const beyond = this.#rowCountMax === undefined ? -1 : firstKeyFrom(this.#rowCountMax, list);
    if (beyond >= 0) throw this.#outOfRange(list[beyond] as bigint);
    return list;
  }

  /** Throws BAD_ARGUMENT unless `values` are floats, VALUE_LENGTH unless there are `width` for each key. */
  checkRows(values: Float32Array, { keyCount, width }: { readonly keyCount: number; readonly width: number }, what: string): void {
    if (!(values instanceof Float32Array)) throw badArgument(`${this.#name}: ${what} must be a Float32Array`);
    if (values.length !== keyCount * width) throw wrongLength(this.#name, what, { length: values.length, width, keyCount });
  }

  #keyOf(key: number | bigint): bigint {
    if (typeof key === "number" && Number.isSafeInteger(key) && key >= 0) return BigInt(key);
    if (typeof key === "bigint" && BigInt.asUintN(64, key) === key) return key;
    if (this.#rowCountMax !== undefined && (typeof key === "number" || typeof key === "bigint")) throw this.#outOfRange(key);
    throw badArgument(`${this.#name}: keys are whole numbers from 0 to 2^64 - 1 (as bigint above 2^53), not ${showValue(key)}`);
  }

  #outOfRange(key: number | bigint): WeighbridgeError {
    return new WeighbridgeError("OUT_OF_RANGE", `${this.#name} has rows 0 to ${(this.#rowCountMax ?? 0) - 1}; there is no row ${key}`);
  }
}
