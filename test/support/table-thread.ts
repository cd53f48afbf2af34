// table-thread — a thread of the system that uses tables, for src/node/tables-threads.test.ts: adds 1 to its column of
// every row in each clock, and checks that it sees all it added.

import { parentPort, workerData } from "node:worker_threads";
import { denseRow } from "../../src/faces/tables/rows/dense-row.ts";
import { attachTableThread } from "../../src/node/tables-threads.ts";

const { column, clocks, rows, isEndless } = workerData as { column: number; clocks: number; rows: number; isEndless: boolean };
const integers = denseRow("i32");
const thread = await attachTableThread({ 0: integers });
const table = thread.getTableOrDie(0, integers);

async function clockOnce(): Promise<void> {
  for (let row = 0; row < rows; row++) {
    table.inc(row, column, 1);
    using accessor = await table.get(row);
    const seen = accessor.get(column);
    if (seen !== thread.clocks + 1) throw new Error(`row ${row}: ${seen} of ${thread.clocks + 1} increments of column ${column}`);
  }
  thread.clock();
}

parentPort?.postMessage("started");
for (let clock = 0; isEndless || clock < clocks; clock++) {
  await clockOnce();
  if (isEndless) await new Promise((resolve) => setImmediate(resolve));
}
parentPort?.postMessage("done");
thread.deregisterThread();
