// tables-model — Goal: whatever is evicted, pinned, parked, pushed or under way, a process sees exactly what its own
// threads added, and of others at least what the staleness asks for and never more than was added; and in the end
// everybody's increments are there, once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { reasonOf } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import { type Changes, keepChanging, moveAny } from "../../src/testing/change-placement.ts";
import { FLOATS, TableCluster } from "./tables.ts";

const ROWS = 6;

type Added = { readonly process: number; readonly stamp: number; readonly row: number; readonly amount: number };

type ModelOptions = {
  readonly config: TableGroupConfig;
  readonly operations: number;
  readonly processes: number;
  readonly threads: number;
  /** How many rows the process cache holds; as many as threads may hold, and one more, when left out. */
  readonly cachedRows?: number;
  /** Whether parts move between servers all the time. */
  readonly isMoving?: boolean;
};

/** Between two changes of the placement. */
const PAUSE_MS_MAX = 15;

async function runModel(seed: number, options: ModelOptions): Promise<number> {
  const { config, operations, processes, threads, cachedRows = 2 + threads, isMoving = false } = options;
  const random = new Random(seed);
  const staleness = random.below(4);
  const table = { staleness, rowCapacity: processes, processCacheCapacity: cachedRows, oplogCapacity: 1 + random.below(4) };
  const servers = isMoving ? 3 : 1 + random.below(3);
  const sim = isMoving ? ({ placement: "range" } as const) : {};
  const cluster = await TableCluster.simulate(seed, { processes, servers, threads, tables: [table], config }, sim);
  const changes: Changes = { count: 0 };
  // Or servers come and go.
  if (isMoving) keepChanging(cluster.cluster, random, PAUSE_MS_MAX, changes, seed % 2 === 0 ? moveAny : undefined);
  const added: Added[] = [];
  let reads = 0;
  let working = processes * threads;
  const sum = (row: number, process: number, below = Infinity): number =>
    added.filter((one) => one.row === row && one.process === process && one.stamp < below).reduce((total, { amount }) => total + amount, 0);

  const work = async (process: number, thread: number): Promise<void> => {
    const member = cluster.thread(process, thread);
    const rows = member.getTableOrDie(0, FLOATS);
    const own = new Random(1000 * seed + 10 * process + thread);
    const held: Disposable[] = [];
    for (let step = 0; step < operations; step++) {
      const row = own.below(ROWS);
      if (own.chance(0.5)) {
        const amount = 1 + own.below(3);
        added.push({ process, stamp: member.clocks, row, amount });
        rows.inc(row, process, amount);
      } else if (own.chance(0.6)) {
        const need = member.clocks - staleness;
        const accessor = await rows.get(row);
        reads++;
        for (let other = 0; other < processes; other++) {
          const [seen, all] = [accessor.get(other), sum(row, other)];
          const least = other === process ? all : sum(row, other, need);
          if (seen >= least && seen <= all) continue;
          const text = `seed ${seed}, step ${step} of ${process}.${thread} at clock ${member.clocks}, row ${row}, column ${other}`;
          assert.fail(`${text}: ${seen} is not from ${least} to ${all}`);
        }
        if (own.chance(0.1) && held.length === 0) held.push(accessor);
        else accessor.release();
        if (own.chance(0.3)) held.shift()?.[Symbol.dispose]();
      } else if (own.chance(0.7)) member.clock();
      else await new Promise<void>((resolve) => cluster.cluster.clock.after(own.below(20), resolve));
    }
    for (const accessor of held) accessor[Symbol.dispose]();
    // Others wait.
    for (working--; working > 0; member.clock()) await new Promise<void>((resolve) => cluster.cluster.clock.after(10, resolve));
  };
  const all = cluster.threads.flatMap((members, process) => members.map((_, thread) => work(process, thread)));
  await cluster.run(Promise.all(all));
  const highest = Math.max(...cluster.threads.flat().map(({ clocks }) => clocks));
  for (const member of cluster.threads.flat()) {
    while (member.clocks < highest) member.clock();
    member.globalBarrier();
  }
  for (let row = 0; row < ROWS; row++) {
    using accessor = await cluster.run(Promise.resolve(cluster.thread(0).getTableOrDie(0, FLOATS).get(row)));
    for (let process = 0; process < processes; process++)
      assert.equal(accessor.get(process), sum(row, process), `seed ${seed}: row ${row}, column ${process} in the end`);
  }
  if (isMoving) assert.ok(changes.count > 2, `${changes.count} changes of the placement`);
  else await cluster.shutDown();
  return reads;
}

async function runSeeds(count: number, options: ModelOptions): Promise<void> {
  for (let seed = 1; seed <= count; seed++) {
    try {
      assert.ok((await runModel(seed, options)) > 0);
    } catch (cause) {
      throw new Error(`seed ${seed}: ${reasonOf(cause)}`, { cause });
    }
  }
}

test("6 rows in a cache of 2 lose nothing in 10,000 operations by chance", async () => {
  await runSeeds(5, { config: {}, operations: 2000, processes: 1, threads: 1, cachedRows: 2 });
});

test("processes with several threads see exactly what they added and of others what the staleness asks for, for 25 seeds", async () => {
  await runSeeds(25, { config: {}, operations: 150, processes: 3, threads: 2 });
});

test("the same with pushes of servers, for 25 seeds", async () => {
  await runSeeds(25, { config: { consistencyModel: "SSPPush" }, operations: 150, processes: 3, threads: 2 });
});

for (const consistencyModel of ["SSP", "SSPPush"] as const)
  test(`the same while parts move from server to server at any moment (${consistencyModel}), for 4 seeds`, async () => {
    await runSeeds(4, { config: { consistencyModel }, operations: 120, processes: 2, threads: 2, isMoving: true });
  });

test("the same with updates that leave at every thread's clock, for 15 seeds", async () => {
  await runSeeds(15, { config: { aggressiveClock: true }, operations: 150, processes: 2, threads: 3 });
});

for (const updateSortPolicy of ["FIFO", "Random", "RelativeMagnitude"] as const)
  test(`the same with updates that leave before their clock ends (${updateSortPolicy}), for 5 seeds`, async () => {
    await runSeeds(5, { config: { consistencyModel: "SSPAggr", updateSortPolicy }, operations: 120, processes: 2, threads: 2 });
  });
