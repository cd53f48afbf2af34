// key-list — key lists as the wire wants them, u64 and strictly ascending: whether a list is one, and which of its keys
// go to which server. Long lists are read by u32 halves, so no BigInt is made per key. The default slicer cuts a list
// at the servers' ranges; users may pass their own.

import { badArgument, WeighbridgeError } from "../base/errors.ts";
import type { Range } from "./key-range.ts";

/** Key lists up to this length are compared as BigInts: cheaper than making a view of their halves. */
const SHORT = 8;
/**
 * Turns the order of u32 into that of i32, which the engine keeps in a register: 16 instead of 70 µs for 10,000 keys.
 */
const SIGN = 1 << 31;

/** Low half at 2i, high half at 2i + 1: little-endian, which `assertLittleEndian` in node/ checks at start. */
export function halvesOf(keys: BigUint64Array): Int32Array {
  return new Int32Array(keys.buffer, keys.byteOffset, keys.length * 2);
}

/** Index of the first key that is not greater than the one before it; -1 if the list is strictly ascending. */
export function firstDescent(keys: BigUint64Array): number {
  if (keys.length <= SHORT) {
    for (let i = 1; i < keys.length; i++) if ((keys[i] as bigint) <= (keys[i - 1] as bigint)) return i;
    return -1;
  }
  return firstDescentOfHalves(halvesOf(keys));
}

function firstDescentOfHalves(halves: Int32Array): number {
  const { length } = halves; // otherwise the engine reads it from the view in every iteration
  let low = (halves[0] as number) ^ SIGN;
  let high = (halves[1] as number) ^ SIGN;
  for (let at = 2; at < length; at += 2) {
    const nextLow = (halves[at] as number) ^ SIGN;
    const nextHigh = (halves[at + 1] as number) ^ SIGN;
    if (nextHigh < high || (nextHigh === high && nextLow <= low)) return at >> 1;
    low = nextLow;
    high = nextHigh;
  }
  return -1;
}

/**
 * Throws BAD_ARGUMENT if the list is empty or no BigUint64Array, KEYS_NOT_ASCENDING if it is not strictly ascending.
 */
export function requireKeys(keys: BigUint64Array): void {
  if (!(keys instanceof BigUint64Array) || (keys.length !== 1 && (keys.length === 0 || firstDescent(keys) >= 0))) throw badKeys(keys);
}

/** A function of its own, so that V8 inlines the check. */
function badKeys(keys: BigUint64Array): WeighbridgeError {
  if (!(keys instanceof BigUint64Array)) return badArgument("keys are a BigUint64Array");
  if (keys.length === 0) return badArgument("a request needs at least one key");
  const at = firstDescent(keys);
  const found = `key ${at} of ${keys.length} is ${keys[at]} and follows ${keys[at - 1]}`;
  return new WeighbridgeError("KEYS_NOT_ASCENDING", `keys must be ascending and unique, but ${found}`);
}

/** Index of the first key that is at least `bound`; the list's length if there is none. */
export function lowerBound(keys: BigUint64Array, bound: bigint): number {
  let from = 0;
  let to = keys.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((keys[middle] as bigint) < bound) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Server i gets keys[cuts[i] … cuts[i + 1]): never falling, from 0 to the number of keys, one more than servers. */
export type Cuts = readonly number[];

/** Decides the cuts of one request. The values go with their keys. */
export type Slicer = (keys: BigUint64Array, ranges: readonly Range[]) => Cuts;

/** Cuts a request by the ranges of the servers, as ps-lite does by default. */
export const sliceByRange: Slicer = (keys, ranges) => {
  if (ranges.length === 1) return [0, keys.length];
  const cuts = new Array<number>(ranges.length + 1);
  cuts[0] = 0;
  for (let i = 1; i < ranges.length; i++) cuts[i] = lowerBound(keys, (ranges[i] as Range).begin);
  cuts[ranges.length] = keys.length;
  return cuts;
};

/**
 * The server that gets all keys, cut at the ranges; -1 if there are several. Makes no list: for requests of a few keys.
 */
export function soleOwner(keys: BigUint64Array, ranges: readonly Range[]): number {
  return ranges.length === 1 ? 0 : soleOwnerOfMany(keys, ranges);
}

function soleOwnerOfMany(keys: BigUint64Array, ranges: readonly Range[]): number {
  const first = keys[0] as bigint;
  let rank = ranges.length - 1;
  while (rank > 0 && first < (ranges[rank] as Range).begin) rank--;
  const next = ranges[rank + 1];
  return next === undefined || (keys[keys.length - 1] as bigint) < next.begin ? rank : -1;
}

/** What is wrong with these cuts, or undefined. */
export function problemWithCuts(cuts: Cuts, keyCount: number, serverCount: number): string | undefined {
  if (cuts.length !== serverCount + 1) return `${cuts.length} cuts for ${serverCount} servers; one more than servers is needed`;
  if (cuts[0] !== 0 || cuts[serverCount] !== keyCount)
    return `cuts from ${cuts[0]} to ${cuts[serverCount]}; they must cover 0 to ${keyCount}`;
  for (let i = 0; i < serverCount; i++) {
    const cut = cuts[i + 1] as number;
    if (!Number.isInteger(cut)) return `cut ${i + 1} as ${cut}, which is no position`;
    if (cut < (cuts[i] as number)) return `cut ${i + 1} below cut ${i}`;
  }
  return undefined;
}
