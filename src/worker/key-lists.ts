// key-lists — the keys and rows of a table as callers give them, checked before anything is done with them.

import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { firstKeyFrom } from "../keys/first-key-from.ts";
import { KeyHasher, NOT_WELL_FORMED } from "../keys/hash-key.ts";
import { wrongLength } from "./caller-array.ts";

/**
 * Keys of a table: all numbers (from 0 to 2^64 - 1, as bigint above 2^53) or all strings, which are hashed to 64 bits
 * (`hashKey`). Only a BigUint64Array is sent directly; every other list is copied into one.
 *
 * @example
 * await users.pull([17, 42]);
 * await users.pull(["user:17", "user:42"]);
 */
export type KeyList = BigUint64Array | Uint32Array | Int32Array | readonly (number | bigint)[] | readonly string[];

/** Some keys, and a row of gradients for each. */
export type KeysAndGradients<A = Float32Array> = {
  /** Which rows are updated. */
  readonly keys: KeyList;
  /** One gradient for each key, one after the other. */
  readonly gradients: A;
};

/** How many keys or rows a list names. Throws BAD_ARGUMENT for a single key, and for floats. */
export function listLength(list: KeyList, name: string): number {
  if (Array.isArray(list) || list instanceof BigUint64Array || list instanceof Uint32Array || list instanceof Int32Array)
    return list.length;
  const what = "a BigUint64Array, a Uint32Array, an Int32Array or an array";
  const isIterable = typeof list === "object" && list !== null && Symbol.iterator in list && !ArrayBuffer.isView(list);
  throw badArgument(`${name}: keys and rows are named by ${what}, got ${showValue(list)}${isIterable ? ": pass [...keys]" : ""}`);
}

/** The key that a caller names by one number. Undefined for what is no key. */
export function numberedKey(key: unknown): bigint | undefined {
  if (typeof key === "number") return Number.isSafeInteger(key) && key >= 0 ? BigInt(key) : undefined;
  return typeof key === "bigint" && BigInt.asUintN(64, key) === key ? key : undefined;
}

export class KeyLists {
  readonly #name: string;
  readonly #rowCountMax: number | undefined;
  /** For strings; undefined before the first. */
  #hasher: KeyHasher | undefined;

  /** Of the table of this name; with `rowCountMax` keys are below that. */
  constructor(name: string, rowCountMax: number | undefined) {
    this.#name = name;
    this.#rowCountMax = rowCountMax;
  }

  /** Throws BAD_ARGUMENT for what is no key, OUT_OF_RANGE. */
  arrayOf(keys: KeyList): BigUint64Array {
    const list = keys instanceof BigUint64Array ? keys : this.#copyOf(keys);
    const beyond = this.#rowCountMax === undefined ? -1 : firstKeyFrom(this.#rowCountMax, list);
    if (beyond >= 0) throw this.#outOfRange(list[beyond] as bigint);
    return list;
  }

  /** Throws BAD_ARGUMENT unless `values` are floats, VALUE_LENGTH unless there are `width` for each key. */
  checkRows(values: Float32Array, { keyCount, width }: { readonly keyCount: number; readonly width: number }, what: string): void {
    if (!(values instanceof Float32Array)) throw badArgument(`${this.#name}: ${what} must be a Float32Array`);
    if (values.length !== keyCount * width) throw wrongLength(this.#name, what, { length: values.length, width, keyCount });
  }

  #copyOf(keys: Exclude<KeyList, BigUint64Array>): BigUint64Array {
    listLength(keys, this.#name);
    if (typeof keys[0] === "string") return this.#hashed(keys as readonly string[]);
    return BigUint64Array.from(keys as readonly (number | bigint)[], (key, i) => this.#keyOf(key, i));
  }

  /** Throws BAD_ARGUMENT, also for a table whose rows are numbered. */
  #hashed(texts: readonly string[]): BigUint64Array {
    if (this.#rowCountMax !== undefined) {
      const rows = `rows 0 to ${this.#rowCountMax - 1}, which only numbers name`;
      throw badArgument(`${this.#name} has ${rows}, not ${showValue(texts[0])}: make a table without rows: for keys that are strings`);
    }
    const keys = new BigUint64Array(texts.length);
    this.#hasher ??= new KeyHasher();
    const fault = this.#hasher.hash(texts, keys);
    if (fault < 0) return keys;
    const text: unknown = texts[fault];
    if (typeof text === "string") throw badArgument(`${this.#name}: key ${fault}, ${showValue(text)}, ${NOT_WELL_FORMED}`);
    throw this.#mixed(fault, text, "a string");
  }

  #mixed(position: number, key: unknown, before: string): WeighbridgeError {
    const found = `key ${position} is ${showValue(key)}, and key 0 is ${before}`;
    return badArgument(`${this.#name}: keys must be all strings or all numbers, but ${found}`);
  }

  #keyOf(key: number | bigint, position: number): bigint {
    const known = numberedKey(key);
    if (known !== undefined) return known;
    if (this.#rowCountMax !== undefined && (typeof key === "number" || typeof key === "bigint")) throw this.#outOfRange(key);
    if (typeof key === "string" && position > 0) throw this.#mixed(position, key, "a number");
    const numbers = "whole numbers from 0 to 2^64 - 1 (as bigint above 2^53)";
    throw badArgument(`${this.#name}: keys must be ${numbers} or strings, got ${showValue(key)} (key ${position})`);
  }

  #outOfRange(key: number | bigint): WeighbridgeError {
    return new WeighbridgeError("OUT_OF_RANGE", `${this.#name} has rows 0 to ${(this.#rowCountMax ?? 0) - 1}; there is no row ${key}`);
  }
}
