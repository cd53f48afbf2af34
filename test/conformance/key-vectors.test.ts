// Goal: what a client computes by itself is what spec/protocol.md says, word by word: its formulas, written out plainly
// here, give the golden examples.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeKeyVectors, PARTS } from "./key-vectors.ts";

const directory = join(import.meta.dirname, "..", "..", "spec", "vectors", "keys");
const MASK = 2n ** 64n - 1n;
const FACTOR = 0xd6e8feb86659fd93n;

function examples<T>(name: string): readonly T[] {
  return (JSON.parse(readFileSync(join(directory, `${name}.json`), "utf8")) as { readonly examples: readonly T[] }).examples;
}

/** spec/protocol.md, P1 */
function mix(key: bigint): bigint {
  let x = key ^ (key >> 32n);
  x = (x * FACTOR) & MASK;
  x ^= x >> 32n;
  x = (x * FACTOR) & MASK;
  return x ^ (x >> 32n);
}

/** spec/protocol.md, A1 */
function hash(text: string): bigint {
  const u32 = (x: bigint): bigint => x & 0xffff_ffffn;
  let h = 0x811c9dc5n;
  for (let i = 0; i < text.length; i++) {
    const unit = BigInt(text.charCodeAt(i));
    for (const byte of [unit & 0xffn, unit >> 8n]) h = u32((h ^ byte) * 0x01000193n);
  }
  h = u32((h ^ (h >> 16n)) * 0x85ebca6bn);
  h = u32((h ^ (h >> 13n)) * 0xc2b2ae35n);
  return h ^ (h >> 16n);
}

type Words = {
  readonly policy: string;
  readonly servers: readonly number[];
  readonly moved?: readonly number[];
  readonly move?: { readonly from: readonly number[]; readonly to: readonly number[]; readonly below: number };
};

/** The rank of the owner of every part (spec/protocol.md, P2 to P4). */
function owners({ policy, servers, moved = [], move }: Words): number[] {
  if (move !== undefined) {
    const [before, after] = [owners({ policy, servers: move.from }), owners({ policy, servers: move.to })];
    return before.map((owner, part) => (part < move.below ? (after[part] ?? -1) : owner));
  }
  const ranks = [...servers].sort((a, b) => a - b);
  const made =
    policy === "range" ? Array.from({ length: PARTS }, (_, part) => ranks[Math.floor((part * ranks.length) / PARTS)] ?? -1) : ring(ranks);
  for (let i = 0; i < moved.length; i += 2) made[moved[i] ?? 0] = moved[i + 1] ?? -1;
  return made;
}

function ring(ranks: readonly number[]): number[] {
  const points = ranks
    .flatMap((rank) => Array.from({ length: 1024 }, (_, i) => ({ point: mix((BigInt(rank) << 32n) + BigInt(i)) >> 32n, rank })))
    .sort((a, b) => Number(a.point - b.point) || a.rank - b.rank);
  const mean = PARTS / ranks.length;
  const shareMax = Math.max(Math.ceil(mean), Math.floor(1.05 * mean));
  const shares = new Map<number, number>();
  return Array.from({ length: PARTS }, (_, part) => {
    const own = mix(((2n ** 32n - 1n) << 32n) + BigInt(part)) >> 32n;
    const first = points.findIndex(({ point }) => point >= own);
    for (let i = Math.max(first, 0); ; i = (i + 1) % points.length) {
      const { rank } = points[i] ?? { rank: -1 };
      const share = shares.get(rank) ?? 0;
      if (share >= shareMax) continue;
      shares.set(rank, share + 1);
      return rank;
    }
  });
}

test("the code gives the golden examples, and there are no others", () => {
  const made = makeKeyVectors();
  assert.deepEqual(readdirSync(directory).sort(), made.map(({ name }) => `${name}.json`).sort());
  for (const vector of made)
    assert.deepEqual(JSON.parse(readFileSync(join(directory, `${vector.name}.json`), "utf8")), vector, vector.name);
});

test("hashes of texts are those of the rule (protocol.md, A1)", () => {
  for (const { text, hash: expected } of examples<{ text: string; hash: number }>("hashes"))
    assert.equal(Number(hash(text)), expected, text);
});

test("keys of strings are XXH64 of their UTF-8 (protocol.md, P15), as every other library has it", () => {
  const published = { "": "ef46db3751d8e999", a: "d24ec4f1a98c6e5b" };
  const keys = new Map(examples<{ string: string; key: string }>("string-keys").map(({ string, key }) => [string, BigInt(key)]));
  for (const [string, hex] of Object.entries(published)) assert.equal(keys.get(string)?.toString(16), hex, string);
  assert.equal(new Set(keys.values()).size, keys.size, "one key for each");
});

test("mixed keys and parts are those of the rule (protocol.md, P1)", () => {
  for (const { key, mix: mixed, part } of examples<{ key: string; mix: string; part: number }>("mixed-keys")) {
    assert.equal(mix(BigInt(key)), BigInt(mixed), key);
    assert.equal(Number(mix(BigInt(key)) >> 52n), part, key);
  }
});

test("owners of all parts are those of the rules (protocol.md, P2 to P4), for both policies, ranks with gaps, parts that were moved and parts that are on their way", () => {
  for (const example of examples<Words & { readonly owners: string }>("placements")) {
    const ranks = [...example.servers].sort((a, b) => a - b);
    assert.equal(
      owners(example)
        .map((rank) => ranks.indexOf(rank))
        .join(""),
      example.owners,
      JSON.stringify(example.servers),
    );
  }
});

test("ranges of raw keys are those of the rule (protocol.md, K2)", () => {
  for (const { serverCount, firstKeys } of examples<{ serverCount: number; firstKeys: string[] }>("ranges"))
    assert.deepEqual(
      firstKeys.map(BigInt),
      Array.from({ length: serverCount }, (_, i) => (MASK / BigInt(serverCount)) * BigInt(i)),
    );
});

test("blocks of tensors are those of the rule (protocol.md, B2)", () => {
  type Cut = {
    shape: number[];
    rowCount: number;
    width: number;
    hasRows: boolean;
    blockElements: number;
    blockCount: number;
    lastBlockElements: number;
  };
  for (const cut of examples<Cut>("blocks")) {
    const [rowCount = 1, ...rest] = cut.shape;
    const width = rest.reduce((product, size) => product * size, 1);
    const hasRows = width <= 131_072;
    const blockElements = hasRows ? Math.floor(131_072 / width) * width : 131_072;
    const blockCount = Math.ceil((rowCount * width) / blockElements);
    const lastBlockElements = rowCount * width - (blockCount - 1) * blockElements;
    assert.deepEqual({ ...cut, rowCount, width, hasRows, blockElements, blockCount, lastBlockElements }, cut, cut.shape.join(" × "));
  }
});
