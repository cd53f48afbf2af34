// Goal: the bench measures exactly the cases it promises, and what a name says is what a request carries.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CASES, MEMORY_CASE, valueBytes } from "./cases.ts";
import { KeySpace } from "./key-space.ts";

const SMALL = ["push-4B-w1", "pull-4B-w1", "push-4B-w64", "pull-4B-w64"];
const LARGE = [
  "push-64KB-w16",
  "pull-64KB-w16",
  "push-1MB-w8",
  "pull-1MB-w8",
  "push-16MB-w4",
  "pull-16MB-w4",
  "push-10kx64-w4",
  "pull-10kx64-w4",
  "push-random-10k-of-200kx64-w4",
  "pull-random-10k-of-200kx64-w4",
  "push-random-10k-of-1Mx1-w4",
];
const PARAMETERS = [
  ...["uniform", "zipf"].flatMap((choice) =>
    [16, 64].flatMap((width) => [`push-table-${choice}-10kx${width}-w4`, `pull-table-${choice}-10kx${width}-w4`]),
  ),
  "push-adam-16MB-w4",
  "pull-adam-16MB-w4",
];
const ONE_SERVER = [{ begin: 0n, end: 2n ** 64n - 1n }];
const TWO_SERVERS = [
  { begin: 0n, end: 2n ** 63n },
  { begin: 2n ** 63n, end: 2n ** 64n - 1n },
];

const SPREAD = [
  ...["push-10kx64-w4", "pull-10kx64-w4", "mix-10kx64-w4"],
  ...["push-random-10k-of-200kx64-w4", "pull-random-10k-of-200kx64-w4", "push-random-10k-of-1Mx1-w4"],
].map((name) => `${name}-spread`);

function freshTwins(names: readonly string[]): readonly string[] {
  return names.filter((name) => name.startsWith("pull") || /^push.*10k/.test(name)).map((name) => `${name}-fresh`);
}

test("has every promised case: twins of pulls, keys from everywhere, mixes, and the large ones with two servers and two workers", () => {
  assert.deepEqual(
    CASES.map(({ name }) => name),
    [
      ...[...SMALL, ...freshTwins(SMALL)],
      ...[...LARGE, ...freshTwins(LARGE), "mix-10kx64-w4"],
      ...[...SPREAD, ...freshTwins(SPREAD)],
      ...[...LARGE, "mix-10kx64-w4"].map((name) => `${name}-2x2`),
      ...[...PARAMETERS, ...freshTwins(PARAMETERS)],
    ],
  );
});

test("spreads keys over the whole 64-bit range, and keeps the keys of two workers of a mix apart", () => {
  const spread = CASES.find(({ name }) => name === "push-random-10k-of-200kx64-w4-spread")!;
  const { keys } = new KeySpace(spread, ONE_SERVER).slice(0, spread.universeKeyCount);
  for (let eighth = 0n; eighth < 8n; eighth++) {
    const inside = keys.filter((key) => key >> 61n === eighth).length;
    assert.ok(Math.abs(inside - 25_000) < 1_000, `eighth ${eighth} has ${inside} of 200,000 keys`);
  }
  const mix = CASES.find(({ name }) => name === "mix-10kx64-w4-2x2")!;
  const keysOfBoth = [0, 1].flatMap((rank) => [...new KeySpace(mix, TWO_SERVERS, rank).slice(0, mix.universeKeyCount).keys]);
  assert.equal(new Set(keysOfBoth).size, 2 * mix.universeKeyCount);
});

test("carries the bytes and keeps the window that the name says", () => {
  const bytes = {
    "4B": 4,
    "64KB": 65_536,
    "1MB": 1_048_576,
    "16MB": 16_777_216,
    "10kx16": 640_000,
    "10kx64": 2_560_000,
    "200kx64": 2_560_000,
    "1Mx1": 40_000,
  };
  for (const benchCase of CASES) {
    const [, label, window] =
      /(4B|64KB|1MB|16MB|10kx16|10kx64|200kx64|1Mx1)-w(\d+)(?:-spread)?(?:-fresh)?(?:-2x2)?$/.exec(benchCase.name) ?? [];
    assert.equal(valueBytes(benchCase), bytes[label as keyof typeof bytes], benchCase.name);
    assert.equal(benchCase.window, Number(window), benchCase.name);
  }
  assert.equal(MEMORY_CASE.universeKeyCount, 1_000_000);
});

test("spreads the keys of a request evenly over the servers, ascending, inside their ranges", () => {
  for (const benchCase of CASES.filter(({ nodesPerRole }) => nodesPerRole === 2)) {
    const { keys } = new KeySpace(benchCase, TWO_SERVERS).slice(0, benchCase.universeKeyCount);
    assert.equal(keys.filter((key) => key < 2n ** 63n).length, keys.length / 2, benchCase.name);
    assert.ok(
      keys.every((key, i) => i === 0 || key > keys[i - 1]!),
      benchCase.name,
    );
  }
});

test("chooses distinct random keys, the same ones in every process and others for every request", () => {
  const benchCase = CASES.find(({ name }) => name === "push-random-10k-of-200kx64-w4")!;
  const { requestSets } = new KeySpace(benchCase, ONE_SERVER);
  for (const { indices } of requestSets) {
    assert.equal(indices.length, 10_000);
    assert.ok(indices.every((index, i) => index < 200_000 && (i === 0 || index > indices[i - 1]!)));
  }
  assert.notDeepEqual(requestSets[0], requestSets[1]);
  assert.deepEqual(requestSets, new KeySpace(benchCase, ONE_SERVER).requestSets);
});

test("gives no key to two cases", () => {
  const byStart = [...CASES].sort((a, b) => a.firstKeyOffset - b.firstKeyOffset);
  for (const [i, benchCase] of byStart.entries()) {
    const next = byStart[i + 1];
    assert.ok(next === undefined || benchCase.firstKeyOffset + benchCase.universeKeyCount <= next.firstKeyOffset, benchCase.name);
  }
});
