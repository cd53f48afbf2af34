// tables-snapshots — Goal: a snapshot at clock k has the updates stamped before k and no others, also of processes that
// run ahead; a job that resumes goes on from there, on any number of servers; a snapshot that is not there is an error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import type { TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { lineLog } from "../../src/testing/memory-cluster.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";
import { SimDisk } from "./sim-disk.ts";
import { FLOATS, TableCluster } from "./tables.ts";
import {
  checkResumed,
  EVERY,
  finish,
  ROOT,
  ROWS,
  runMovingSnapshots,
  type SnapshotTally,
  startOn,
  stepsOn,
  train,
} from "./tables-snapshots.ts";

for (const consistencyModel of ["SSP", "SSPPush"] as const)
  test(`snapshots every 3 clocks are exact while processes run ahead, and are resumed on other numbers of servers (${consistencyModel}), for 6 seeds`, async () => {
    await forSeeds({ from: 1, count: 6 }, async (seed) => {
      const random = new Random(seed);
      const disk = new SimDisk(random, ROOT);
      const tables = [{ staleness: 2, processCacheCapacity: 3 }];
      const first = await startOn(disk, seed, {
        ...{ processes: 2, servers: 1 + random.below(3), tables },
        config: { snapshotClock: EVERY, consistencyModel },
      });
      await train(first, 10, random);
      await finish(first);
      for (const resumeClock of [3, 6, 9]) {
        const again = await startOn(disk, 100 + seed, {
          ...{ processes: 2, servers: 1 + random.below(3), tables },
          config: { resumeClock, snapshotClock: 1000, consistencyModel },
        });
        await checkResumed(again, resumeClock, { clocks: 12, random });
        const { sentBytes, receivedBytes, bytesPerClock } = again.groups[0]!.statistics.get(0)!;
        assert.equal(bytesPerClock, (sentBytes + receivedBytes) / (12 - resumeClock), "of the clocks since it resumed");
        await again.shutDown();
      }
    });
  });

for (const config of [{}, { consistencyModel: "SSPPush" }, { aggressiveClock: true }] as const)
  test(`snapshots are exact, and all there, while parts move from server to server (${JSON.stringify(config)}), for 1 seed`, async () => {
    const tally: SnapshotTally = { taken: 0, asked: 0, changes: { count: 0 } };
    await forSeeds({ from: 1, count: 1 }, async (seed) => await runMovingSnapshots(seed, config, tally));
    const { taken, asked, changes } = tally;
    assert.equal(taken, asked, "snapshots that were taken");
    assert.ok(changes.count >= asked, `${asked} snapshots were taken, parts moved ${changes.count} times`);
  });

test("snapshots that come due while one is written are all taken, each an exact cut: quick clocks wait for the disk", async () => {
  const random = new Random(1);
  const disk = new SimDisk(random, ROOT);
  const tables = [{ staleness: 2, processCacheCapacity: 3 }];
  const first = await startOn(disk, 1, { processes: 2, servers: 2, tables, config: { snapshotClock: 10 } }, { diskDelayMsMax: 40 });
  const threads = first.threads.flat();
  for (const [process, thread] of threads.entries())
    while (thread.clocks < 37) {
      for (let row = 0; row < ROWS; row++) thread.getTableOrDie(0, FLOATS).inc(row, process, thread.clocks + 1);
      thread.clock(); // never waits
    }
  await first.shutDown();
  assert.deepEqual(await stepsOn(disk), [10, 20, 30]);
  for (const resumeClock of [10, 20, 30]) {
    const again = await startOn(disk, 100 + resumeClock, {
      processes: 2,
      servers: 1,
      tables,
      config: { resumeClock, snapshotClock: 1000 },
    });
    await checkResumed(again, resumeClock, { clocks: resumeClock + 2, random });
    await again.shutDown();
  }
});

test("a snapshot that is due when the last clock of a job has ended is taken before its process leaves", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  const tables = await startOn(disk, 1, { processes: 1, config: { snapshotClock: 2 } }, { diskDelayMsMax: 40 });
  for (let clock = 0; clock < 4; clock++) tables.thread(0).clock();
  tables.thread(0).deregisterThread();
  await tables.shutDown();
  assert.deepEqual(await stepsOn(disk), [2, 4]);
});

test("a snapshot that takes longer than clocks wait for it leaves the next ones out, with a warning that names each clock", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  const lines: string[] = [];
  const log = lineLog((_, message, { clock, reason } = {}) => lines.push(`${message} clock=${String(clock)} ${String(reason)}`));
  const tables = await startOn(disk, 1, { processes: 2, tables: [{ staleness: 8 }], config: { snapshotClock: 2 } }, { log });
  const [quick, slow] = [tables.thread(0), tables.thread(1)]; // the cut at clock 2 waits for the slow process
  for (let clock = 0; clock < 7; clock++) quick.clock();
  const left = (): string[] => lines.filter((line) => line.includes("a snapshot was left out"));
  await tables.cluster.clock.advance(59_000);
  assert.deepEqual([tables.sessions[0]!.clocks, left()], [4, []], "clock 4 ends when its cut was asked for");
  await tables.cluster.clock.advance(2000);
  assert.equal(tables.sessions[0]!.clocks, 7);
  assert.match(left().join("\n"), /^[^\n]*clock=4[^\n]*clock 2[^\n]*\n[^\n]*clock=6[^\n]*$/);
  for (let clock = 0; clock < 7; clock++) slow.clock();
  await tables.cluster.clock.advance(1000);
  await tables.shutDown();
  assert.deepEqual((await stepsOn(disk)).slice(0, 2), [2, 8], "the next one is at the last clock of all");
});

test("with snapshots and pushes a row that was read before an update of its clock was applied is pushed when it is", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  const config = { snapshotClock: 1000, consistencyModel: "SSPPush" } as const;
  const tables = await startOn(disk, 1, { processes: 2, tables: [{ staleness: 0 }], config });
  const [reader, writer] = [tables.thread(0), tables.thread(1)];
  const table = reader.getTableOrDie(0, FLOATS);
  const cell = async (row: number): Promise<number> => {
    using accessor = await tables.run(Promise.resolve(table.get(row)));
    return accessor.get(0);
  };
  for (const row of [0, 1]) writer.getTableOrDie(0, FLOATS).inc(row, 0, 7);
  writer.clock();
  await tables.cluster.clock.advance(100); // the server has the updates, and applies them at the end of the clock
  assert.deepEqual([await cell(0), await cell(1)], [0, 0]);
  reader.clock();
  assert.deepEqual([await cell(0), await cell(1)], [7, 7]);
  await tables.shutDown();
});

test("a snapshot that is not there is an error, where Petuum begins empty", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  await assert.rejects(startOn(disk, 1, { processes: 1, config: { resumeClock: 4 } }), throwsCode("CHECKPOINT_MISSING"));
});

/** Two processes of a job whose only server was restarted from a checkpoint, which `before` comes before. */
async function restarted(
  processes: number,
  config: TableGroupConfig,
  before: (tables: TableCluster<SimCluster>) => Promise<void>,
): Promise<TableCluster<SimCluster>> {
  const disk = new SimDisk(new Random(1), ROOT);
  let isRestored = false;
  const cluster: SimCluster = new SimCluster({
    ...{ seed: 1, serverCount: 1, workerCount: processes, settle: SETTLING },
    optionsOf: () => {
      const { layer } = disk.mount(cluster.clock, 1);
      const restoreFrom = isRestored ? { restoreFrom: () => openCheckpoint(ROOT, { layer }) } : {};
      return { checkpointFiles: new ServerFiles(ROOT, layer), ...restoreFrom };
    },
  });
  await cluster.start();
  const tables = await TableCluster.over(cluster, { processes, tables: [{ staleness: 0 }], config });
  await before(tables);
  isRestored = true;
  cluster.kill(idOf("server", 0));
  await tables.run(cluster.startNode(idOf("server", 0)));
  await cluster.clock.advance(1000);
  return tables;
}

test("rows of a server that was restarted from a checkpoint are read at once, though it has taken less of this process than the one before", async () => {
  const next = async (tables: TableCluster, add: number): Promise<number> => {
    const thread = tables.thread(0);
    const table = thread.getTableOrDie(0, FLOATS);
    if (add > 0) table.inc(0, 0, add);
    thread.clock();
    using row = await tables.run(Promise.resolve(table.get(0)));
    return row.get(0);
  };
  const tables = await restarted(1, {}, async (started) => {
    assert.equal(await next(started, 1), 1);
    await started.run(started.sessions[0]!.checkpoint({ step: 1 }).saved);
    assert.equal(await next(started, 1), 2);
  });
  assert.equal(await next(tables, 0), 1, "what came after the checkpoint is lost");
  assert.equal(await next(tables, 5), 6);
  await tables.shutDown();
});

test("a row that a server pushed before it was restarted is not taken for unchanged: the new one knows of no subscription to it", async () => {
  const cellOf = async (tables: TableCluster, row: number): Promise<number> => {
    using accessor = await tables.run(Promise.resolve(tables.thread(0).getTableOrDie(0, FLOATS).get(row)));
    return accessor.get(0);
  };
  const clockAll = (tables: TableCluster): void => {
    for (const thread of tables.threads.flat()) thread.clock();
  };
  const tables = await restarted(2, { consistencyModel: "SSPPush" }, async (started) => {
    assert.deepEqual([await cellOf(started, 0), await cellOf(started, 1)], [0, 0]);
    clockAll(started);
    await started.run(started.sessions[0]!.checkpoint({ step: 1 }).saved);
  });
  const addAll = (): void => {
    for (const row of [0, 1]) tables.thread(1).getTableOrDie(0, FLOATS).inc(row, 0, 1);
    clockAll(tables);
  };
  for (let clock = 1; clock <= 3; clock++) {
    addAll();
    assert.equal(await cellOf(tables, 1), clock, "the new server pushes this row");
  }
  assert.equal(await cellOf(tables, 0), 3, "and knows nothing of that one");
  addAll();
  assert.deepEqual([await cellOf(tables, 0), await cellOf(tables, 1)], [4, 4]);
  await tables.shutDown();
});
