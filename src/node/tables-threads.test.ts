// tables-threads — Goal: threads of the system share one process cache: each sees what it and its siblings add at once,
// and one that is terminated in the middle of anything leaves no lock, no pin and no place in the clock behind.

import assert from "node:assert/strict";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import type { Worker } from "node:worker_threads";
import { runThreadPrograms } from "../../test/support/table-programs.ts";
import { Deferred } from "../base/deferred.ts";
import { Random } from "../base/random.ts";
import { denseRow } from "../faces/tables/rows/dense-row.ts";
import type { TableGroupConfig } from "../faces/tables/table-config.ts";
import { TableGroup } from "../faces/tables/table-group.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";
import { startTableThread } from "./tables-threads.ts";

const SCRIPT = join(import.meta.dirname, "../../test/support/table-thread.ts");
const ROWS = 3;
const SEEDS = 10;

async function groupOf(cluster: EmbeddedCluster, threads: number, config: TableGroupConfig = {}): Promise<TableGroup> {
  const group = new TableGroup(() => Promise.resolve(cluster.session));
  group.registerRow(0, denseRow("i32"));
  await group.init({ numLocalAppThreads: threads + 1, ...config });
  await group.createTable(0, { rowType: 0, rowCapacity: 32, staleness: 1, processCacheCapacity: 2, oplogCapacity: 2 });
  await group.createTableDone();
  return group;
}

type Started = {
  readonly worker: Worker;
  readonly started: Promise<void>;
  readonly done: Promise<void>;
  readonly exited: Promise<unknown>;
};

type ThreadSettings = { readonly clocks?: number; readonly isEndless?: boolean; readonly isBatch?: boolean };

/** A thread, and what it says. */
function start(group: TableGroup, column: number, settings: ThreadSettings): Started {
  const worker = startTableThread(group, SCRIPT, {
    workerData: { column, rows: ROWS, clocks: 0, isEndless: false, isBatch: false, ...settings },
  });
  const [started, done] = [new Deferred<void>(), new Deferred<void>()];
  worker.on("message", (message) => (message === "started" ? started : done).resolve());
  worker.on("error", (error) => {
    started.reject(error);
    done.reject(error);
  });
  return { worker, started: started.promise, done: done.promise, exited: once(worker, "exit").catch(() => {}) };
}

for (const consistencyModel of ["SSP", "SSPPush"] as const)
  test(`four threads of the system add to the same rows and see what they added (${consistencyModel})`, async () => {
    await using cluster = await EmbeddedCluster.start();
    const group = await groupOf(cluster, 4, { consistencyModel });
    const threads = [0, 1, 2, 3].map((column) => start(group, column, { clocks: 100 }));
    await Promise.all(threads.flatMap(({ done, exited }) => [done, exited]));
    const rows = await cluster.session.embedding("tables/0", { dim: 32, optimizer: "sum", dtype: "i32", consistency: { ssp: 1 } });
    for (let row = 0; row < ROWS; row++) assert.deepEqual([...(await rows.pull([row])).subarray(0, 5)], [100, 100, 100, 100, 0]);
    const counted = [...group.statistics.get(0)!.threads];
    assert.deepEqual(
      counted.map(([id, { gets, incs, clocks }]) => ({ id, gets, incs, clocks })),
      [201, 202, 203, 204].map((id) => ({ id, gets: 100 * ROWS, incs: 100 * ROWS, clocks: 100 })),
      "the group has the statistics of threads that have ended",
    );
    for (const [, { staleness, hits, misses, gets }] of counted)
      assert.deepEqual([staleness.reduce((sum, count) => sum + count), hits + misses], [gets, gets]);
  });

for (const [seed, config] of [
  [2, {}],
  [1, { consistencyModel: "SSPPush" }],
  [3, { aggressiveClock: true }],
] as const)
  test(`threads of two processes read of each other what the staleness asks for, and batches whole: programs drawn by seed, ${JSON.stringify(config)}`, async () => {
    await runThreadPrograms(seed, config);
  });

test("a batch of increments is seen whole by threads of the system", async () => {
  await using cluster = await EmbeddedCluster.start();
  const group = await groupOf(cluster, 2);
  const threads = [0, 1].map((column) => start(group, column, { clocks: 3000, isBatch: true }));
  await Promise.all(threads.flatMap(({ done, exited }) => [done, exited]));
});

test("a process has threads of one kind: async tasks or threads of the system", async () => {
  await using cluster = await EmbeddedCluster.start();
  const group = await groupOf(cluster, 2);
  const thread = start(group, 0, { isEndless: true });
  await assert.rejects(group.registerThread(), throwsCode("UNSUPPORTED", /not by both in one process/));
  await thread.worker.terminate();
});

test("200 threads that are terminated at moments by chance leave nothing behind: their siblings go on", async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = new Random(seed);
    await using cluster = await EmbeddedCluster.start();
    const group = await groupOf(cluster, 21);
    const survivor = start(group, 20, { clocks: 40 });
    const victims = Array.from({ length: 20 }, (_, column) => start(group, column, { isEndless: true }));
    await Promise.all(victims.map(({ started }) => started));
    for (const { worker: victim } of victims) {
      for (let turn = random.below(6); turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
      await victim.terminate();
    }
    await survivor.done;
    await survivor.exited;
    const rows = await cluster.session.embedding("tables/0", { dim: 32, optimizer: "sum", dtype: "i32", consistency: { ssp: 1 } });
    for (let row = 0; row < ROWS; row++) assert.equal((await rows.pull([row]))[20], 40, `seed ${seed}`);
  }
});
