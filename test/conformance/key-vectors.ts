// key-vectors — golden examples of what a client computes by itself before it can ask anybody: hashes of texts, keys of
// strings, mixed keys, the owners of parts and of raw keys, and the blocks of a tensor. scripts/make-vectors.ts writes
// them to spec/vectors/keys/, key-vectors.test.ts holds them against the formulas of spec/protocol.md.

import { plainMix } from "../../src/kernel/plain-partition-kernels.ts";
import { hashKey } from "../../src/keys/hash-key.ts";
import { evenRanges } from "../../src/keys/key-range.ts";
import { hashText } from "../../src/keys/mix.ts";
import { PART_COUNT, partOf } from "../../src/keys/placement.ts";
import type { PlacementDescription } from "../../src/keys/placement-description.ts";
import { placementOf } from "../../src/keys/placement-of.ts";
import { TensorShape } from "../../src/store/tensor-shape.ts";
import { DOCUMENTED } from "./functions/all.ts";

export type KeyVector = { readonly name: string; readonly about: string; readonly examples: readonly Readonly<Record<string, unknown>>[] };

const TEXTS: readonly string[] = ["", "w", "größe", "a→b", "😀", "wb/tensor/push"];
/** Of every length at which XXH64 does something else, in several scripts; of one letter in two forms. */
const STRINGS: readonly string[] = [
  ...["", "a", "17", "user", "user:5", "user:6", "item:1234", "größe", "a→b", "😀", "\u0000", "\u00e9", "e\u0301"],
  ...[7, 8, 11, 12, 16, 31, 32, 33, 36, 40, 63, 64, 100].map((length) => "0123456789abcdef".repeat(7).slice(0, length)),
];
const KEYS: readonly bigint[] = [0n, 1n, 7n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 32n + 5n, 123_456_789_012_345n, 2n ** 63n, 2n ** 64n - 1n];
const PLACEMENTS: readonly PlacementDescription[] = [
  { epoch: 1, policy: "range", servers: [0] },
  { epoch: 1, policy: "range", servers: [0, 1, 2] },
  { epoch: 4, policy: "range", servers: [7, 2], moved: [0, 7, 4095, 2] },
  { epoch: 1, policy: "ring", servers: [0] },
  { epoch: 1, policy: "ring", servers: [0, 1] },
  { epoch: 1, policy: "ring", servers: [0, 1, 2, 3, 4, 5, 6] },
  { epoch: 9, policy: "ring", servers: [30, 4, 9], moved: [17, 30, 18, 4] },
  { epoch: 10, policy: "ring", servers: [0, 1, 2], move: { from: [0, 1], to: [0, 1, 2], below: 1000 } },
  { epoch: 11, policy: "range", servers: [0, 1, 5], move: { from: [0, 1], to: [1, 5], below: 4096 } },
];
const SHAPES: readonly (readonly number[])[] = [
  ...[[], [1], [10], [131_072], [131_073], [1_000_000]],
  ...[
    [10, 4],
    [784, 128],
    [3, 131_072],
    [2, 131_073],
    [5, 100_000],
    [1000, 3, 3, 64],
  ],
];

export function makeKeyVectors(): KeyVector[] {
  const signatures = DOCUMENTED.flatMap(({ contract }) => (contract === undefined ? [] : [contract.signature])).slice(0, 3);
  return [
    {
      name: "hashes",
      about: "the hash of a text (A1)",
      examples: [...TEXTS, ...signatures].map((text) => ({ text, hash: hashText(text) })),
    },
    {
      name: "string-keys",
      about: "the key of a string (P15); keys are decimal",
      examples: STRINGS.map((string) => ({ string, key: hashKey(string).toString() })),
    },
    { name: "mixed-keys", about: "mix of a key, and the part that it belongs to (P1); keys are decimal", examples: KEYS.map(mixExample) },
    {
      name: "placements",
      about:
        "the owner of every part (P2 to P4): a digit for each of the 4,096, which is the position of its rank among the ascending ranks of the servers",
      examples: PLACEMENTS.map((words) => ({ ...words, owners: [...placementOf(words).owners].join("") })),
    },
    {
      name: "ranges",
      about: "the first raw key of each server, in the order of their ranks (K2)",
      examples: [1, 2, 3, 7].map((serverCount) => ({
        serverCount,
        firstKeys: evenRanges(serverCount).map(({ begin }) => begin.toString()),
      })),
    },
    { name: "blocks", about: "how a tensor is cut (B2)", examples: SHAPES.map(blockExample) },
  ];
}

function mixExample(key: bigint): Readonly<Record<string, unknown>> {
  const [low, high] = [Number(key & 0xffff_ffffn), Number(key >> 32n)];
  return { key: key.toString(), mix: plainMix(key).toString(), part: partOf(low, high) };
}

function blockExample(shape: readonly number[]): Readonly<Record<string, unknown>> {
  const cut = new TensorShape(shape);
  const { rowCount, width, hasRows, blockFloats: blockElements, blockCount } = cut;
  return { shape, rowCount, width, hasRows, blockElements, blockCount, lastBlockElements: cut.floatsOf(blockCount - 1) };
}

/** How many parts the placements are about. */
export const PARTS: number = PART_COUNT;
