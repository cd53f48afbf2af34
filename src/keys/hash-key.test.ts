// Goal: a string's key is XXH64 of its UTF-8, for strings of every length and script; what has no UTF-8 is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { hashKey, KeyHasher } from "./hash-key.ts";

const MASK = 2n ** 64n - 1n;
const [PRIME1, PRIME2, PRIME3, PRIME4, PRIME5]: readonly [bigint, bigint, bigint, bigint, bigint] = [
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n,
];

function turned(x: bigint, bits: bigint): bigint {
  return ((x << bits) | (x >> (64n - bits))) & MASK;
}

function round(lane: bigint, word: bigint): bigint {
  return (turned((lane + word * PRIME2) & MASK, 31n) * PRIME1) & MASK;
}

/** XXH64 as its specification has it, with seed 0. */
function xxh64(text: string): bigint {
  const bytes = Buffer.from(text);
  let at = 0;
  let hash = PRIME5;
  if (bytes.length >= 32) {
    let lanes = [(PRIME1 + PRIME2) & MASK, PRIME2, 0n, -PRIME1 & MASK];
    for (; at + 32 <= bytes.length; at += 32) lanes = lanes.map((lane, i) => round(lane, bytes.readBigUInt64LE(at + 8 * i)));
    hash = [1n, 7n, 12n, 18n].reduce((sum, bits, i) => (sum + turned(lanes[i] as bigint, bits)) & MASK, 0n);
    for (const lane of lanes) hash = ((hash ^ round(0n, lane)) * PRIME1 + PRIME4) & MASK;
  }
  hash = (hash + BigInt(bytes.length)) & MASK;
  for (; at + 8 <= bytes.length; at += 8) hash = (turned(hash ^ round(0n, bytes.readBigUInt64LE(at)), 27n) * PRIME1 + PRIME4) & MASK;
  if (at + 4 <= bytes.length) {
    hash = (turned(hash ^ ((BigInt(bytes.readUInt32LE(at)) * PRIME1) & MASK), 23n) * PRIME2 + PRIME3) & MASK;
    at += 4;
  }
  for (; at < bytes.length; at++) hash = (turned(hash ^ ((BigInt(bytes[at] as number) * PRIME5) & MASK), 11n) * PRIME1) & MASK;
  hash = ((hash ^ (hash >> 33n)) * PRIME2) & MASK;
  hash = ((hash ^ (hash >> 29n)) * PRIME3) & MASK;
  return hash ^ (hash >> 32n);
}

test("published values of XXH64 with seed 0", () => {
  assert.equal(hashKey(""), 0xef46db3751d8e999n);
  assert.equal(hashKey("a"), 0xd24ec4f1a98c6e5bn);
  assert.equal(hashKey("abc"), 0x44bc2cf5ad770999n);
});

test("strings of every length up to 200 bytes, of every script, have the key of the plain formula", () => {
  const random = new Random(1);
  const signs = ["a", "~", "0", ":", "ß", "ü", "→", "漢", "😀", "\u0000", "\u007f", "\u0080", "\u07ff", "\u0800", "\uffff", "\u{10ffff}"];
  for (let length = 0; length <= 200; length++) {
    const plain = Array.from({ length }, () => String.fromCharCode(random.below(128))).join("");
    const mixed = Array.from({ length }, () => signs[random.below(signs.length)]).join("");
    for (const text of [plain, mixed]) assert.equal(hashKey(text), xxh64(text), JSON.stringify(text));
  }
});

test("a hasher gives the same keys for long strings behind short ones, and the other way round", () => {
  const texts = ["user:5", "x".repeat(1000), "", "17", "größe".repeat(99), "user:5"];
  const keys = new BigUint64Array(texts.length);
  assert.equal(new KeyHasher().hash(texts, keys), -1);
  assert.deepEqual([...keys], texts.map(xxh64));
});

test("half of a surrogate pair has no key, wherever it stands; nor has what is no string", () => {
  for (const text of ["\ud800", "a\udc00", "\ud83dx", "x\ud83d", "\ude00\ud83d"])
    assert.throws(
      () => hashKey(text),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /surrogate/.test(error.message),
    );
  assert.throws(() => hashKey(5 as unknown as string), /hashKey\(\) takes a string, got 5/);
  assert.equal(new KeyHasher().hash(["a", "b", 7], new BigUint64Array(3)), 2);
});

test("a changed bit of a string changes about half of the bits of its key", () => {
  let [changed, pairs] = [0, 0];
  for (let i = 0; i < 500; i++) {
    const bytes = Buffer.from(`user:${i}`);
    for (let bit = 0; bit < 7 * bytes.length; bit++) {
      const other = Buffer.from(bytes);
      const at = Math.floor(bit / 7);
      other[at] = (other[at] as number) ^ (1 << (bit % 7));
      let difference = hashKey(bytes.toString()) ^ hashKey(other.toString());
      for (; difference !== 0n; difference &= difference - 1n) changed++;
      pairs++;
    }
  }
  const share = changed / pairs;
  assert.ok(Math.abs(share - 32) < 0.2, `${share} of 64 bits`);
});
