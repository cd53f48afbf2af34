// tables-snapshots — Goal: a snapshot at clock k has the updates stamped before k and no others, also of processes that
// run ahead; a job that resumes goes on from there, on any number of servers; a snapshot that is not there is an error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Random } from "../../src/base/random.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SimDisk } from "./sim-disk.ts";
import { FLOATS, TableCluster, type TableClusterOptions } from "./tables.ts";

const ROOT = "/snapshots";
const EVERY = 3;

/** A cluster whose servers keep checkpoints on this disk. */
async function startOn(disk: SimDisk, seed: number, options: TableClusterOptions): Promise<TableCluster<SimCluster>> {
  const cluster: TableCluster<SimCluster> = await TableCluster.simulate(seed, options, {
    optionsOf: () => ({ checkpointFiles: new ServerFiles(ROOT, disk.mount(new SimClock(), 0).layer) }),
  });
  return cluster;
}

/** Every process adds to its own column of each row in each clock, as much as the clock says. */
async function train(cluster: TableCluster, clocks: number, random: Random): Promise<void> {
  const work = async (process: number): Promise<void> => {
    const thread = cluster.thread(process);
    const table = thread.getTableOrDie(0, FLOATS);
    while (thread.clocks < clocks) {
      for (let row = 0; row < 4; row++) {
        using accessor = await table.get(row);
        assert.equal(accessor.get(process), sumBelow(thread.clocks), `process ${process} sees its own, at clock ${thread.clocks}`);
        table.inc(row, process, thread.clocks + 1);
      }
      if (random.chance(0.3)) await new Promise<void>((resolve) => cluster.cluster.clock.after(random.below(50), resolve));
      thread.clock();
    }
  };
  await cluster.run(Promise.all(cluster.threads.map((_, process) => work(process))));
}

/** 1 + 2 + … of all clocks before this one. */
function sumBelow(clock: number): number {
  return (clock * (clock + 1)) / 2;
}

for (const consistencyModel of ["SSP", "SSPPush"] as const)
  test(`snapshots every 3 clocks are exact while processes run ahead, and are resumed on other numbers of servers (${consistencyModel}), for 6 seeds`, async () => {
    for (let seed = 1; seed <= 6; seed++) {
      const random = new Random(seed);
      const disk = new SimDisk(random, ROOT);
      const tables = [{ staleness: 2, processCacheCapacity: 3 }];
      const first = await startOn(disk, seed, {
        ...{ processes: 2, servers: 1 + random.below(3), tables },
        config: { snapshotClock: EVERY, consistencyModel },
      });
      await train(first, 10, random);
      await first.run(Promise.all(first.threads.flat().map((thread) => Promise.resolve(thread.globalBarrier()))));
      await first.cluster.clock.advance(1000);
      await first.shutDown();
      for (const resumeClock of [3, 6, 9]) {
        const again = await startOn(disk, 100 + seed, {
          ...{ processes: 2, servers: 1 + random.below(3), tables },
          config: { resumeClock, snapshotClock: 1000, consistencyModel },
        });
        const thread = again.thread(0);
        assert.equal(thread.clocks, resumeClock);
        for (let row = 0; row < 4; row++) {
          using accessor = await again.run(Promise.resolve(thread.getTableOrDie(0, FLOATS).get(row)));
          const text = `seed ${seed}: row ${row} of the snapshot at clock ${resumeClock}`;
          assert.deepEqual([accessor.get(0), accessor.get(1)], [sumBelow(resumeClock), sumBelow(resumeClock)], text);
        }
        await train(again, 12, random);
        const { sentBytes, receivedBytes, bytesPerClock } = again.groups[0]!.statistics.get(0)!;
        assert.equal(bytesPerClock, (sentBytes + receivedBytes) / (12 - resumeClock), "of the clocks since it resumed");
        await again.shutDown();
      }
    }
  });

test("a snapshot that is not there is an error, where Petuum begins empty", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  await assert.rejects(startOn(disk, 1, { processes: 1, config: { resumeClock: 4 } }), throwsCode("CHECKPOINT_MISSING"));
});

test("rows of a server that was restarted from a checkpoint are read at once, though it has taken less of this process than the one before", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  let isRestored = false;
  const cluster: SimCluster = new SimCluster({
    seed: 1,
    serverCount: 1,
    workerCount: 1,
    settle: () => setImmediate(),
    optionsOf: () => {
      const { layer } = disk.mount(cluster.clock, 1);
      const restoreFrom = isRestored ? { restoreFrom: () => openCheckpoint(ROOT, { layer }) } : {};
      return { checkpointFiles: new ServerFiles(ROOT, layer), ...restoreFrom };
    },
  });
  await cluster.start();
  const tables = await TableCluster.over(cluster, { processes: 1, tables: [{ staleness: 0 }] });
  const thread = tables.thread(0);
  const table = thread.getTableOrDie(0, FLOATS);
  const next = async (): Promise<number> => {
    thread.clock();
    using row = await tables.run(Promise.resolve(table.get(0)));
    return row.get(0);
  };
  table.inc(0, 0, 1);
  assert.equal(await next(), 1);
  await tables.run(tables.sessions[0]!.checkpoint({ step: 1 }));
  table.inc(0, 0, 1);
  assert.equal(await next(), 2);
  isRestored = true;
  cluster.kill(idOf("server", 0));
  await tables.run(cluster.startNode(idOf("server", 0)));
  await cluster.clock.advance(1000);
  assert.equal(await next(), 1, "what came after the checkpoint is lost");
  table.inc(0, 0, 5);
  assert.equal(await next(), 6);
  await tables.shutDown();
});
