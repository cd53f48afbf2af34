// tables-statistics — Goal: whoever subscribes to the channel of tables hears of every clock what tables and threads
// did; without subscribers nothing is put together; statistics are written where `statsPath` says.

import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../test/support/temporary-directory.ts";
import { Session } from "../api/session.ts";
import { denseRow } from "../faces/tables/rows/dense-row.ts";
import { TableGroup } from "../faces/tables/table-group.ts";
import { MemoryCluster } from "../testing/memory-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { TableReport } from "../worker/tables/table-statistics.ts";
import { statisticsChannel, statisticsFile } from "./tables-statistics.ts";

test("a report for each clock of the process and one at the end go to subscribers of weighbridge:tables", async () => {
  const cluster = await MemoryCluster.start();
  const floats = denseRow("f32");
  const group = new TableGroup(() => Session.open(cluster.worker().node), statisticsChannel);
  group.registerRow(0, floats);
  await cluster.run(group.init({ numLocalAppThreads: 1 }, true));
  await cluster.run(group.createTable(0, { rowType: 0, rowCapacity: 4, staleness: 2, processCacheCapacity: 4 }));
  await cluster.run(group.createTableDone());
  const table = group.getTableOrDie(0, floats);
  const clockOnce = async (): Promise<void> => {
    using row = await cluster.run(Promise.resolve(table.get(7)));
    table.inc(row.rowId, 0, 1);
    group.clock();
  };
  await clockOnce(); // nobody listens
  const reports: TableReport[] = [];
  const listener = (message: unknown): void => void reports.push(message as TableReport);
  subscribe("weighbridge:tables", listener);
  try {
    await clockOnce();
    await clockOnce();
    await cluster.run(Promise.all([group.shutDown(), cluster.server().finalize(), cluster.scheduler.finalize()]));
  } finally {
    unsubscribe("weighbridge:tables", listener);
  }
  assert.deepEqual(
    reports.map(({ rank, clock, isLast }) => ({ rank, clock, isLast })),
    [
      { rank: 0, clock: 2, isLast: false },
      { rank: 0, clock: 3, isLast: false },
      { rank: 0, clock: 3, isLast: true },
    ],
  );
  const { threads, sentBytes, receivedBytes, bytesPerClock } = reports.at(-1)!.statistics.get(0)!;
  const { gets, hits, misses, incs, clocks, staleness } = threads.get(200)!;
  assert.deepEqual({ gets, hits, misses, incs, clocks }, { gets: 3, hits: 2, misses: 1, incs: 3, clocks: 3 });
  assert.deepEqual(staleness.slice(0, 4), [1, 1, 1, 0]);
  assert.ok(sentBytes > 0 && receivedBytes > 0 && bytesPerClock === (sentBytes + receivedBytes) / 3);
});

test("statistics are written to the path with the rank, in a folder that is made; a path that cannot be written is refused", async () => {
  const folder = temporaryDirectory("statistics");
  const write = await statisticsFile(join(folder, "runs", "first"));
  await write(3, "table 0:\n");
  assert.equal(await readFile(join(folder, "runs", "first.3.yaml"), "utf8"), "table 0:\n");
  await writeFile(join(folder, "file"), "");
  await assert.rejects(statisticsFile(join(folder, "file", "first")), throwsCode("BAD_ARGUMENT", /statsPath: .*file.first/));
});
