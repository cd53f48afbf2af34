// Goal: over a million operations no read is staler than its bound, every worker sees its own updates, the slowest
// never waits, and nobody waits for ever; sync rounds give the same bits whatever the delays; all of it also while
// consistencies change. The checks are in paced-record and paced-server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { reasonOf } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { type JobOptions, type JobOutcome, runJob } from "./paced-cluster.ts";

const MIXED = [
  { staleness: 0, isSync: true },
  { staleness: 0, isSync: false },
  { staleness: 2, isSync: true },
  { staleness: 3, isSync: false },
  { staleness: Infinity, isSync: false },
];

/** What all jobs of a test have done together. */
const totals = new Map<string, number>();
let operationCount = 0;

function runSeed(seed: number, options: Omit<JobOptions, "scriptSeed" | "delaySeed">): JobOutcome {
  try {
    const outcome = runJob({ ...options, scriptSeed: seed, delaySeed: seed });
    operationCount += outcome.record.operationCount;
    for (const [name, count] of Object.entries(outcome.record.counts)) totals.set(name, (totals.get(name) ?? 0) + count);
    return outcome;
  } catch (cause) {
    throw new Error(`seed ${seed}: ${reasonOf(cause)}`, { cause });
  }
}

type WorkerCounts = { readonly min: number; readonly max: number };

/** A cluster of chance. */
function anyCluster(random: Random, workers: WorkerCounts): Omit<JobOptions, "scriptSeed" | "delaySeed"> {
  return {
    serverCount: 1 + random.below(4),
    workerCount: workers.min + random.below(workers.max - workers.min + 1),
    clockTarget: 200,
    parameters: MIXED,
    delayMsMax: 1 + random.below(60),
  };
}

/**
 * One script run twice, with other delays and other servers: what was reduced and read has to be the same. Returns
 * both.
 */
function runTwice(seed: number, parameters: JobOptions["parameters"]): readonly [first: JobOutcome, second: JobOutcome] {
  const workerCount = 2 + new Random(seed).below(7);
  const options = { scriptSeed: seed, workerCount, clockTarget: 40, parameters, readsAll: true };
  const first = runJob({ ...options, delaySeed: seed, serverCount: 1, delayMsMax: 5 });
  const second = runJob({ ...options, delaySeed: seed + 77, serverCount: 3, delayMsMax: 80 });
  operationCount += first.record.operationCount + second.record.operationCount;
  assert.deepEqual(second.transcript.rounds, first.transcript.rounds, `seed ${seed}: every value after every round`);
  assert.deepEqual(second.transcript.reads, first.transcript.reads, `seed ${seed}: everything that was read at sync clocks`);
  assert.equal(first.transcript.rounds.size, parameters.length);
  return [first, second];
}

test("steady jobs of every size keep every bound", () => {
  for (let seed = 1; seed <= 100; seed++) {
    const random = new Random(seed);
    runSeed(seed, { ...anyCluster(random, { min: 1, max: 12 }), parkedReadsMax: random.chance(0.3) ? 1 : 1e6 });
  }
});

test("crashes, restarts, false alarms, late joins, early leaves and moving bounds break no promise", () => {
  for (let seed = 1001; seed <= 1240; seed++) {
    const random = new Random(seed);
    const cluster = anyCluster(random, { min: 2, max: 11 });
    const faults = { crashes: random.below(12), suspicions: random.below(8), joins: random.below(5), boundChanges: random.below(60) };
    runSeed(seed, { ...cluster, faults });
  }
});

test("consistencies that change at any moment, with crashes, restarts and moving bounds, break no promise", () => {
  for (let seed = 3001; seed <= 3120; seed++) {
    const random = new Random(seed);
    const cluster = anyCluster(random, { min: 2, max: 11 });
    const faults = { crashes: random.below(12), suspicions: random.below(8), joins: random.below(5), boundChanges: random.below(10) };
    runSeed(seed, { ...cluster, faults: { ...faults, modeChanges: 1 + random.below(80) } });
  }
});

test("what is BSP for a while reads and computes the same bits in those clocks, whatever the delays and however many servers", () => {
  const eras = [
    { from: 10, isSync: false, staleness: 2 },
    { from: 16, isSync: true, staleness: 0 },
    { from: 25, isSync: false, staleness: Infinity },
    { from: 31, isSync: true, staleness: 0 },
  ];
  const parameters = Array.from({ length: 4 }, (_, i) => {
    const later = eras.map(({ from, ...era }) => ({ ...era, from: from + i }));
    return { staleness: 0, isSync: true, later };
  });
  for (let seed = 4001; seed <= 4012; seed++) {
    const [first] = runTwice(seed, parameters);
    for (const rounds of first.transcript.rounds.values()) assert.ok(rounds.length <= 41 - 12, "rounds at sync clocks only");
  }
});

test("a BSP job reads and computes the same bits whatever the delays and however many servers", () => {
  const parameters = Array.from({ length: 4 }, () => ({ staleness: 0, isSync: true }));
  for (let seed = 2001; seed <= 2024; seed++) {
    const [first, second] = runTwice(seed, parameters);
    assert.ok(first.record.counts.parked !== second.record.counts.parked, `seed ${seed}: the two runs went differently`);
  }
});

test("that was more than a million operations, and everything that can happen happened", () => {
  assert.ok(operationCount >= 1_000_000, `${operationCount} operations`);
  for (const [name, count] of totals) assert.ok(count > 100, `${name}: ${count}`);
});
