// tables-snapshots — jobs on tables that take a snapshot every few clocks, in a simulated cluster with a disk: what
// they do, and what a snapshot must have. With `isMoving` parts move from server to server meanwhile, and in the job
// that resumes too.

import assert from "node:assert/strict";
import { Random } from "../../src/base/random.ts";
import type { TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import { CheckpointDirectory } from "../../src/node/checkpoint/checkpoint-directory.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { type Changes, keepChanging } from "../../src/testing/change-placement.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";
import { FLOATS, TableCluster, type TableClusterOptions } from "./tables.ts";

export const ROOT = "/snapshots";
export const EVERY = 3;
export const ROWS = 4;
const CLOCKS = 10;
/** Between two changes of the placement, which take about as long: servers exchange parts. */
const PAUSE_MS_MAX = 12;

/** A cluster whose servers keep checkpoints on this disk, which takes up to `diskDelayMsMax` for an operation. */
export async function startOn(
  disk: SimDisk,
  seed: number,
  options: TableClusterOptions,
  { diskDelayMsMax = 0, ...sim }: Parameters<typeof TableCluster.simulate>[2] & { readonly diskDelayMsMax?: number } = {},
): Promise<TableCluster<SimCluster>> {
  const cluster: SimCluster = new SimCluster({
    ...{ seed, serverCount: options.servers ?? 1, workerCount: options.processes, settle: SETTLING },
    ...sim,
    optionsOf: () => ({ checkpointFiles: new ServerFiles(ROOT, disk.mount(cluster.clock, diskDelayMsMax).layer) }),
  });
  await cluster.start();
  return await TableCluster.over(cluster, options);
}

/** The clocks of the snapshots on a disk. */
export async function stepsOn(disk: SimDisk): Promise<readonly number[]> {
  const stored = await new CheckpointDirectory({ root: ROOT, layer: disk.mount(new SimClock(), 0).layer }).list();
  return stored.map(({ step }) => step).sort((a, b) => a - b);
}

/**
 * Every process adds to its own column of each row in each clock, as much as the clock says, and sees of others whole
 * clocks, as many as the staleness asks for.
 */
export async function train(cluster: TableCluster, clocks: number, random: Random): Promise<void> {
  const work = async (process: number): Promise<void> => {
    const thread = cluster.thread(process);
    const table = thread.getTableOrDie(0, FLOATS);
    while (thread.clocks < clocks) {
      for (let row = 0; row < ROWS; row++) {
        using accessor = await table.get(row);
        assert.equal(accessor.get(process), sumBelow(thread.clocks), `process ${process} sees its own, at clock ${thread.clocks}`);
        const seen = accessor.get(1 - process);
        const need = Math.max(0, thread.clocks - table.staleness);
        const clock = Array.from({ length: clocks + 1 }, (_, at) => at).find((at) => sumBelow(at) === seen) ?? -1;
        assert.ok(clock >= need, `process ${process} sees ${seen} of the other one, the sum of ${clock} clocks, at clock ${thread.clocks}`);
        table.inc(row, process, thread.clocks + 1);
      }
      if (random.chance(0.3)) await new Promise<void>((resolve) => cluster.cluster.clock.after(random.below(50), resolve));
      thread.clock();
    }
  };
  await cluster.run(Promise.all(cluster.threads.map((_, process) => work(process))));
}

/** 1 + 2 + … of all clocks before this one. */
export function sumBelow(clock: number): number {
  return (clock * (clock + 1)) / 2;
}

/** All snapshots have their time, and everybody leaves. */
export async function finish(cluster: TableCluster<SimCluster>): Promise<void> {
  await cluster.run(Promise.all(cluster.threads.flat().map((thread) => Promise.resolve(thread.globalBarrier()))));
  await cluster.cluster.clock.advance(1000);
  await cluster.shutDown();
}

/** A job that begins with a snapshot finds the updates stamped before it and no others, and goes on from there. */
export async function checkResumed(
  again: TableCluster<SimCluster>,
  resumeClock: number,
  { clocks, random }: { readonly clocks: number; readonly random: Random },
): Promise<void> {
  const thread = again.thread(0);
  assert.equal(thread.clocks, resumeClock);
  for (let row = 0; row < ROWS; row++) {
    using accessor = await again.run(Promise.resolve(thread.getTableOrDie(0, FLOATS).get(row)));
    const sums = [accessor.get(0), accessor.get(1)];
    assert.deepEqual(sums, [sumBelow(resumeClock), sumBelow(resumeClock)], `row ${row} of the snapshot at clock ${resumeClock}`);
  }
  await train(again, clocks, random);
}

/** How many snapshots there are, of those that were asked for, and how often parts moved. */
export type SnapshotTally = { taken: number; asked: number; readonly changes: Changes };

export async function runMovingSnapshots(seed: number, config: TableGroupConfig, tally: SnapshotTally): Promise<void> {
  const random = new Random(seed);
  const disk = new SimDisk(random, ROOT);
  const tables = [{ staleness: random.below(4), processCacheCapacity: 3 }];
  const sim = { placement: "range", settle: SETTLING, network: { latencyMsMin: 0, latencyMsMax: 8 } } as const;
  // Each cluster is another job: servers that restore it take stamps of their own job for old ones.
  let job = 1000 * seed;
  const begin = async (servers: number, more: TableGroupConfig): Promise<{ cluster: TableCluster<SimCluster>; stop: () => void }> => {
    const cluster = await startOn(disk, job++, { processes: 2, servers, tables, config: { ...config, ...more } }, sim);
    return { cluster, stop: keepChanging(cluster.cluster, random, PAUSE_MS_MAX, tally.changes) };
  };
  const first = await begin(3, { snapshotClock: EVERY });
  await train(first.cluster, CLOCKS, random);
  first.stop();
  await finish(first.cluster);
  const stored = await new CheckpointDirectory({ root: ROOT, layer: disk.mount(new SimClock(), 0).layer }).list();
  for (const { step } of stored) {
    assert.equal(step % EVERY, 0);
    if (step > CLOCKS) continue;
    tally.taken++;
    const again = await begin(2 + random.below(3), { resumeClock: step, snapshotClock: 1000 });
    await checkResumed(again.cluster, step, { clocks: CLOCKS + 3, random });
    again.stop();
    await finish(again.cluster);
  }
  tally.asked += Math.floor(CLOCKS / EVERY);
}
