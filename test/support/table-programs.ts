// table-programs — two processes with three threads of the system each, which run programs drawn by seed on two tables
// and check what they read (table-program-thread.ts).

import assert from "node:assert/strict";
import { once } from "node:events";
import { join } from "node:path";
import { denseRow } from "../../src/faces/tables/rows/dense-row.ts";
import type { TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import { TableGroup } from "../../src/faces/tables/table-group.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import { startTableThread } from "../../src/node/tables-threads.ts";
import type { ProgramData } from "./table-program-thread.ts";

const SCRIPT = join(import.meta.dirname, "table-program-thread.ts");
const [PROCESSES, THREADS, ROWS] = [2, 3, 6];

/** Throws what a thread has found wrong. */
export async function runThreadPrograms(seed: number, config: TableGroupConfig): Promise<void> {
  await using cluster = await EmbeddedCluster.start({ workers: PROCESSES, servers: 1 + (seed % 2) });
  const stalenessOf = [seed % 3, (seed * 7) % 5];
  const sizes = { rowType: 0, rowCapacity: PROCESSES * THREADS, processCacheCapacity: 1 + (seed % 4), oplogCapacity: 1 + (seed % 3) };
  const opening = cluster.sessions.map(async (session) => {
    const group = new TableGroup(() => Promise.resolve(session));
    group.registerRow(0, denseRow("i32"));
    await group.init({ numTables: stalenessOf.length, numLocalAppThreads: THREADS + 1, ...config });
    for (const [id, staleness] of stalenessOf.entries()) await group.createTable(id, { ...sizes, staleness });
    await group.createTableDone();
    return group;
  });
  const groups = await Promise.all(opening);
  const members = groups.flatMap((group, process) =>
    Array.from({ length: THREADS }, (_, thread) => {
      const member = process * THREADS + thread;
      const data: ProgramData = { seed, members: PROCESSES * THREADS, member, clocks: 20, rows: ROWS, stalenessOf };
      return startTableThread(group, SCRIPT, { workerData: data });
    }),
  );
  // An error of the thread rejects.
  const ended = await Promise.allSettled(members.map((member) => once(member, "exit")));
  for (const one of ended) assert.ok(one.status === "fulfilled", String((one as PromiseRejectedResult).reason));
  await Promise.all(groups.map((group) => group.shutDown()));
}
