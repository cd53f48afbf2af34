// Goal: the bench cannot measure a broken path: a lost, repeated or misplaced value ends a round with an error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CaseRunner, type KeyValueClient } from "./case-runner.ts";
import type { BenchCase } from "./cases.ts";
import { KeySpace } from "./key-space.ts";

const RANGES = [
  { begin: 0n, end: 1n << 63n },
  { begin: 1n << 63n, end: (1n << 64n) - 1n },
];
const SPAN = { warmupMs: 0, measureMs: 1 };

/** Sums in memory and answers in a later turn. */
class FakeClient implements KeyValueClient {
  readonly rows = new Map<bigint, Float32Array>();

  push(keys: BigUint64Array, vals: Float32Array, { callback }: { callback?: (error?: Error) => void }): number {
    const width = vals.length / keys.length;
    for (const [i, key] of keys.entries()) {
      const row = this.rows.get(key) ?? new Float32Array(width);
      for (let column = 0; column < width; column++) row[column]! += vals[i * width + column]!;
      this.rows.set(key, row);
    }
    if (callback !== undefined) setImmediate(callback);
    return 0;
  }

  pull(keys: BigUint64Array, vals: Float32Array, { callback }: { callback?: (error?: Error) => void }): number {
    const width = vals.length / keys.length;
    for (const [i, key] of keys.entries()) vals.set(this.rows.get(key)!, i * width);
    if (callback !== undefined) setImmediate(callback);
    return 0;
  }

  wait(): Promise<void> {
    return Promise.resolve();
  }
}

type Shape = Pick<BenchCase, "direction" | "keyCount" | "universeKeyCount"> & Partial<BenchCase>;

function runnerOf(client: KeyValueClient, shape: Shape, workerRank: number): CaseRunner {
  const benchCase: BenchCase = {
    engine: "kv",
    choice: "uniform",
    keyLayout: "dense",
    isFresh: false,
    name: "test",
    width: 5,
    window: 3,
    nodesPerRole: 2,
    yardstick: "bandwidth",
    regimes: ["free"],
    firstKeyOffset: 7,
    ...shape,
  };
  return new CaseRunner(benchCase, new KeySpace(benchCase, RANGES, workerRank), client, workerRank);
}

async function filledRunner(client: KeyValueClient, shape: Shape): Promise<CaseRunner> {
  const runner = runnerOf(client, shape, 0);
  await runner.fill();
  return runner;
}

const RANDOM_PUSHES = { direction: "push", keyCount: 6, universeKeyCount: 40 } as const;
const DENSE_PUSHES = { direction: "push", keyCount: 8, universeKeyCount: 8 } as const;
const MIX = { direction: "mix", keyCount: 8, universeKeyCount: 8 } as const;
const FRESH_NEIGHBOURS = { direction: "pull", keyCount: 8, universeKeyCount: 12, isFresh: true } as const;
const FRESH_RANDOM = { direction: "pull", keyCount: 6, universeKeyCount: 40, isFresh: true, keyLayout: "spread" } as const;
const FRESH_PUSHES = { ...FRESH_RANDOM, direction: "push" } as const;
const DENSE_PULLS = { direction: "pull", keyCount: 8, universeKeyCount: 8 } as const;

test("accepts correct sums, round after round, for chosen and for all keys", async () => {
  for (const shape of [RANDOM_PUSHES, DENSE_PUSHES]) {
    const runner = await filledRunner(new FakeClient(), shape);
    for (let round = 0; round < 3; round++) {
      const { figure, pushCounts } = await runner.run(SPAN);
      assert.ok(figure.reqPerSec > 0);
      await runner.verifyPushes(pushCounts);
    }
  }
});

test("verifies the pushes of several workers by the sum of their counts", async () => {
  const client = new FakeClient();
  const first = await filledRunner(client, RANDOM_PUSHES);
  const second = runnerOf(client, RANDOM_PUSHES, 1);
  const [one, other] = await Promise.all([first.run(SPAN), second.run(SPAN)]);
  await first.verifyPushes(one.pushCounts.map((count, set) => count + other.pushCounts[set]!));
});

test("notices pushes that nobody counted", async () => {
  const runner = await filledRunner(new FakeClient(), DENSE_PUSHES);
  const { pushCounts } = await runner.run(SPAN);
  await assert.rejects(runner.verifyPushes(pushCounts.map((count) => count - 1)), /wrong value at key 0/);
});

test("notices a push that never arrived", async () => {
  const client = new FakeClient();
  const runner = await filledRunner(client, RANDOM_PUSHES);
  const push = client.push.bind(client);
  let calls = 0;
  client.push = (keys, vals, options) => push(keys, calls++ === 1 ? new Float32Array(vals.length) : vals, options);
  const { pushCounts } = await runner.run(SPAN);
  await assert.rejects(runner.verifyPushes(pushCounts), /wrong value/);
});

test("notices pulled values that are shifted, missing or of another key", async () => {
  for (const spoil of [
    (vals: Float32Array) => vals.copyWithin(1, 0),
    (vals: Float32Array) => vals.fill(Number.NaN, 39),
    (vals: Float32Array) => vals.copyWithin(0, 5, 10),
  ]) {
    const client = new FakeClient();
    const runner = await filledRunner(client, DENSE_PULLS);
    await runner.run(SPAN);
    const pull = client.pull.bind(client);
    client.pull = (keys, vals, options) => {
      const timestamp = pull(keys, vals, options);
      spoil(vals);
      return timestamp;
    };
    await assert.rejects(runner.run(SPAN), /wrong value/);
  }
});

test("mixes and fresh pulls read exactly what was pushed before them, and fresh pushes add up, round after round", async () => {
  for (const shape of [MIX, FRESH_NEIGHBOURS, FRESH_RANDOM, FRESH_PUSHES]) {
    const runner = await filledRunner(new FakeClient(), shape);
    for (let round = 0; round < 3; round++) {
      const { figure, pushCounts } = await runner.run(SPAN);
      assert.ok(figure.reqPerSec > 0);
      assert.deepEqual(pushCounts, [], "the worker has verified its own");
    }
  }
});

test("notices a mix or a fresh pull that is answered with what was there before the push", async () => {
  for (const shape of [MIX, FRESH_NEIGHBOURS, FRESH_RANDOM]) {
    const client = new FakeClient();
    const runner = await filledRunner(client, shape);
    const start = new Map([...client.rows].map(([key, row]) => [key, row.slice()]));
    client.pull = (keys, vals, { callback }) => {
      for (const [i, key] of keys.entries()) vals.set(start.get(key)!, i * 5);
      if (callback !== undefined) setImmediate(callback);
      return 0;
    };
    await assert.rejects(runner.run(SPAN), /wrong value/);
  }
});

test("notices a fresh push that never arrived, and every one carries another list", async () => {
  const client = new FakeClient();
  const runner = await filledRunner(client, FRESH_PUSHES);
  const push = client.push.bind(client);
  const lists: string[] = [];
  client.push = (keys, vals, options) => {
    if (options.callback !== undefined) lists.push(keys.join());
    return push(keys, lists.length === 2 ? new Float32Array(vals.length) : vals, options);
  };
  await assert.rejects(runner.run(SPAN), /wrong value/);
  assert.ok(lists.length > 2 && lists.every((list, i) => list !== lists[i + 1]));
});

test("a mix pushes and pulls the same keys in turn, and ends with a pull in every slot", async () => {
  const client = new FakeClient();
  const runner = await filledRunner(client, MIX);
  const requests = { push: 0, pull: 0 };
  for (const kind of ["push", "pull"] as const) {
    const request = client[kind].bind(client);
    client[kind] = (keys, vals, options) => {
      if (options.callback !== undefined) requests[kind]++;
      return request(keys, vals, options);
    };
  }
  await runner.run(SPAN);
  assert.ok(requests.push > 0);
  assert.equal(requests.pull, requests.push);
});

test("every fresh pull carries keys that were pushed to since they were last pulled, in a list that is not the last one", async () => {
  for (const shape of [FRESH_NEIGHBOURS, FRESH_RANDOM]) {
    const client = new FakeClient();
    const runner = await filledRunner(client, shape);
    const pull = client.pull.bind(client);
    let last = "";
    client.pull = (keys, vals, options) => {
      if (options.callback !== undefined) assert.notEqual(keys.join(), last);
      last = keys.join();
      return pull(keys, vals, options);
    };
    await runner.run(SPAN);
  }
});

test("passes on the error of a request", async () => {
  const client = new FakeClient();
  const runner = await filledRunner(client, DENSE_PULLS);
  client.pull = (_keys, _vals, { callback }) => {
    setImmediate(() => callback?.(new Error("server 1 is dead")));
    return 0;
  };
  await assert.rejects(runner.run(SPAN), /server 1 is dead/);
});
