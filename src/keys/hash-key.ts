// hash-key — the 64-bit key of a string: XXH64 with seed 0 over its UTF-8 bytes (spec/protocol.md, P15; the reasons are
// in docs/decisions/0093). Computed on u32 halves, without a BigInt per step. Not a secret, and no protection against
// strings that were chosen to collide.
//
// Invariants:
//   HashKey.H1. A string that is not well-formed (half of a surrogate pair) has no UTF-8: it has no key.

import { badArgument, showValue } from "../base/errors.ts";
import { highProduct } from "./mix.ts";

// The five primes of XXH64, as halves.
const P1_LOW = 0x85eb_ca87 | 0;
const P1_HIGH = 0x9e37_79b1 | 0;
const P2_LOW = 0x27d4_eb4f;
const P2_HIGH = 0xc2b2_ae3d | 0;
const P3_LOW = 0x9e37_79f9 | 0;
const P3_HIGH = 0x1656_67b1;
const P4_LOW = 0xc2b2_ae63 | 0;
const P4_HIGH = 0x85eb_ca77 | 0;
const P5_LOW = 0x1656_67c5;
const P5_HIGH = 0x27d4_eb2f;

/** Strings of at least so many bytes are read in stripes of four lanes. */
const STRIPE_BYTES = 32;
const SCRATCH_BYTES = 64;
/** UTF-8 bytes of one UTF-16 unit, at most. */
const UNIT_BYTES = 3;

/**
 * The key that a table uses for a string: all 64 bits of XXH64 (seed 0) of its UTF-8 bytes. `pull(["user:5"])` reads
 * the row of `hashKey("user:5")`. The empty string and "17" are hashed like any other. Throws BAD_ARGUMENT for half of
 * a surrogate pair, which has no UTF-8.
 *
 * @example
 * const key = hashKey("user:5"); // 116_517_794_710_607_256n
 * await users.pull([key]); // the same row as users.pull(["user:5"])
 */
export function hashKey(text: string): bigint {
  if (typeof text !== "string") throw badArgument(`hashKey() takes a string, got ${showValue(text)}`);
  const keys = new BigUint64Array(1);
  if (new KeyHasher().hash([text], keys) >= 0) throw badArgument(`${showValue(text)} ${NOT_WELL_FORMED}`);
  return keys[0] as bigint;
}

/** Of a string. */
export const NOT_WELL_FORMED = "has half of a surrogate pair: it has no UTF-8, and so no key";

/** Hashes lists of strings, with memory that it keeps. */
export class KeyHasher {
  #scratch = new Scratch(SCRATCH_BYTES);

  /**
   * Writes the key of each string. Returns the position of the first element that is no string or not well-formed
   * (HashKey.H1), where it stops; -1 if there is none.
   */
  hash(texts: readonly unknown[], keys: BigUint64Array): number {
    const halves = new Int32Array(keys.buffer, keys.byteOffset, 2 * keys.length);
    for (let i = 0; i < texts.length; i++) {
      const text = texts[i];
      if (typeof text !== "string") return i;
      if (UNIT_BYTES * text.length > this.#scratch.bytes.length) this.#scratch = new Scratch(2 * UNIT_BYTES * text.length);
      const byteCount = encode(text, this.#scratch.bytes);
      if (byteCount < 0) return i;
      hashBytes(this.#scratch, byteCount, halves, 2 * i);
    }
    return -1;
  }
}

/** Where the bytes of one string after the other are hashed. */
class Scratch {
  readonly bytes: Uint8Array;
  /** The same memory. */
  readonly words: Int32Array;
  /** The four lanes of a long string, low half first. */
  readonly lanes: Int32Array = new Int32Array(8);

  constructor(byteCount: number) {
    this.bytes = new Uint8Array((byteCount + 7) & ~7);
    this.words = new Int32Array(this.bytes.buffer);
  }
}

/** Writes the UTF-8 of a string; returns how many bytes it has, -1 if it is not well-formed (HashKey.H1). */
function encode(text: string, bytes: Uint8Array): number {
  const { length } = text;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0x80) return encodeFrom(text, i, bytes);
    bytes[i] = unit;
  }
  return length;
}

/** `encode` from the first unit that is not ASCII. */
function encodeFrom(text: string, from: number, bytes: Uint8Array): number {
  let at = from;
  for (let i = from; i < text.length; i++) {
    const code = text.codePointAt(i) as number;
    if (code < 0x80) bytes[at++] = code;
    else if (code < 0x800) {
      bytes[at++] = 0xc0 | (code >> 6);
      bytes[at++] = 0x80 | (code & 0x3f);
    } else if (code < 0x1_0000) {
      if (code >= 0xd800 && code < 0xe000) return -1;
      bytes[at++] = 0xe0 | (code >> 12);
      bytes[at++] = 0x80 | ((code >> 6) & 0x3f);
      bytes[at++] = 0x80 | (code & 0x3f);
    } else {
      i++;
      bytes[at++] = 0xf0 | (code >> 18);
      bytes[at++] = 0x80 | ((code >> 12) & 0x3f);
      bytes[at++] = 0x80 | ((code >> 6) & 0x3f);
      bytes[at++] = 0x80 | (code & 0x3f);
    }
  }
  return at;
}

/** The high half of (low, high) × (factorLow, factorHigh); the low half is Math.imul(low, factorLow). */
function productHigh(low: number, high: number, factorLow: number, factorHigh: number): number {
  return (highProduct(low >>> 0, factorLow >>> 0) + Math.imul(high, factorLow) + Math.imul(low, factorHigh)) | 0;
}

/** The carry of a sum of two u32, of which one is `term`. */
function carryOf(sum: number, term: number): number {
  return sum >>> 0 < term >>> 0 ? 1 : 0;
}

/** XXH64 of the first `byteCount` bytes, seed 0, written as two halves. */
function hashBytes(scratch: Scratch, byteCount: number, halves: Int32Array, to: number): void {
  const { bytes, words } = scratch;
  let low = P5_LOW;
  let high = P5_HIGH;
  let at = 0;
  if (byteCount >= STRIPE_BYTES) {
    at = hashStripes(scratch, byteCount);
    low = scratch.lanes[0] as number;
    high = scratch.lanes[1] as number;
  }
  const start = low;
  low = (low + byteCount) | 0;
  high = (high + carryOf(low, start)) | 0;
  for (; at + 8 <= byteCount; at += 8) {
    const wordLow = words[at >> 2] as number;
    const wordHigh = words[(at >> 2) + 1] as number;
    const scaledLow = Math.imul(wordLow, P2_LOW);
    const scaledHigh = productHigh(wordLow, wordHigh, P2_LOW, P2_HIGH);
    const turnedLow = (scaledLow << 31) | (scaledHigh >>> 1);
    const turnedHigh = (scaledHigh << 31) | (scaledLow >>> 1);
    low ^= Math.imul(turnedLow, P1_LOW);
    high ^= productHigh(turnedLow, turnedHigh, P1_LOW, P1_HIGH);
    const nextLow = (low << 27) | (high >>> 5);
    const nextHigh = (high << 27) | (low >>> 5);
    low = (Math.imul(nextLow, P1_LOW) + P4_LOW) | 0;
    high = (productHigh(nextLow, nextHigh, P1_LOW, P1_HIGH) + P4_HIGH + carryOf(low, P4_LOW)) | 0;
  }
  if (at + 4 <= byteCount) {
    const word = words[at >> 2] as number;
    low ^= Math.imul(word, P1_LOW);
    high ^= productHigh(word, 0, P1_LOW, P1_HIGH);
    const nextLow = (low << 23) | (high >>> 9);
    const nextHigh = (high << 23) | (low >>> 9);
    low = (Math.imul(nextLow, P2_LOW) + P3_LOW) | 0;
    high = (productHigh(nextLow, nextHigh, P2_LOW, P2_HIGH) + P3_HIGH + carryOf(low, P3_LOW)) | 0;
    at += 4;
  }
  for (; at < byteCount; at++) {
    const byte = bytes[at] as number;
    low ^= Math.imul(byte, P5_LOW);
    high ^= productHigh(byte, 0, P5_LOW, P5_HIGH);
    const nextLow = (low << 11) | (high >>> 21);
    const nextHigh = (high << 11) | (low >>> 21);
    low = Math.imul(nextLow, P1_LOW);
    high = productHigh(nextLow, nextHigh, P1_LOW, P1_HIGH);
  }
  low ^= high >>> 1; // h ^= h >> 33
  high = productHigh(low, high, P2_LOW, P2_HIGH);
  low = Math.imul(low, P2_LOW);
  low ^= (low >>> 29) | (high << 3); // h ^= h >> 29
  high ^= high >>> 29;
  high = productHigh(low, high, P3_LOW, P3_HIGH);
  low = Math.imul(low, P3_LOW);
  halves[to] = low ^ high; // h ^= h >> 32
  halves[to + 1] = high;
}

/** XXH64's stripes: leaves the hash so far in the first lane, and returns how many bytes are in it. */
function hashStripes({ words, lanes }: Scratch, byteCount: number): number {
  set(lanes, 0, P1_LOW, P1_HIGH);
  add(lanes, 0, P2_LOW, P2_HIGH);
  set(lanes, 2, P2_LOW, P2_HIGH);
  set(lanes, 4, 0, 0);
  set(lanes, 6, -P1_LOW, ~P1_HIGH);
  let at = 0;
  for (; at + STRIPE_BYTES <= byteCount; at += STRIPE_BYTES)
    for (let lane = 0; lane < 8; lane += 2) {
      const word = (at >> 2) + lane;
      step(lanes, lane, words[word] as number, words[word + 1] as number);
    }
  const [low1 = 0, high1 = 0, low2 = 0, high2 = 0, low3 = 0, high3 = 0, low4 = 0, high4 = 0] = lanes;
  const ended = [low1, high1, low2, high2, low3, high3, low4, high4];
  set(lanes, 0, (low1 << 1) | (high1 >>> 31), (high1 << 1) | (low1 >>> 31));
  add(lanes, 0, (low2 << 7) | (high2 >>> 25), (high2 << 7) | (low2 >>> 25));
  add(lanes, 0, (low3 << 12) | (high3 >>> 20), (high3 << 12) | (low3 >>> 20));
  add(lanes, 0, (low4 << 18) | (high4 >>> 14), (high4 << 18) | (low4 >>> 14));
  for (let lane = 0; lane < 8; lane += 2) {
    set(lanes, 2, 0, 0);
    step(lanes, 2, ended[lane] as number, ended[lane + 1] as number);
    set(lanes, 0, (lanes[0] as number) ^ (lanes[2] as number), (lanes[1] as number) ^ (lanes[3] as number));
    multiply(lanes, 0, P1_LOW, P1_HIGH);
    add(lanes, 0, P4_LOW, P4_HIGH);
  }
  return at;
}

/** One lane takes 8 bytes (spec/protocol.md, P15: take). */
function step(lanes: Int32Array, lane: number, wordLow: number, wordHigh: number): void {
  add(lanes, lane, Math.imul(wordLow, P2_LOW), productHigh(wordLow, wordHigh, P2_LOW, P2_HIGH));
  const low = lanes[lane] as number;
  const high = lanes[lane + 1] as number;
  set(lanes, lane, (low << 31) | (high >>> 1), (high << 31) | (low >>> 1));
  multiply(lanes, lane, P1_LOW, P1_HIGH);
}

function set(lanes: Int32Array, lane: number, low: number, high: number): void {
  lanes[lane] = low;
  lanes[lane + 1] = high;
}

function add(lanes: Int32Array, lane: number, low: number, high: number): void {
  const sum = ((lanes[lane] as number) + low) | 0;
  set(lanes, lane, sum, (lanes[lane + 1] as number) + high + carryOf(sum, low));
}

function multiply(lanes: Int32Array, lane: number, factorLow: number, factorHigh: number): void {
  const low = lanes[lane] as number;
  set(lanes, lane, Math.imul(low, factorLow), productHigh(low, lanes[lane + 1] as number, factorLow, factorHigh));
}
