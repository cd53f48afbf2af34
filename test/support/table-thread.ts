// table-thread — a thread of the system that uses tables, for src/node/tables-threads.test.ts: adds 1 to its column of
// every row in each clock, and checks that it sees all it added; or adds batches, and checks that it sees them whole.

import { parentPort, workerData } from "node:worker_threads";
import { denseRow } from "../../src/faces/tables/rows/dense-row.ts";
import { DenseUpdateBatch, UpdateBatch } from "../../src/faces/tables/table.ts";
import { attachTableThread } from "../../src/node/tables-threads.ts";

type ThreadData = { column: number; clocks: number; rows: number; isEndless: boolean; isBatch: boolean };
const { column, clocks, rows, isEndless, isBatch } = workerData as ThreadData;
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

/** Adds batches that change nothing once they are whole, and looks whether anybody's is seen in part. */
async function batchOnce(): Promise<void> {
  table.batchInc(0, new UpdateBatch().update(0, 1).update(1, -1).update(0, -1).update(1, 1));
  table.denseBatchInc(0, new DenseUpdateBatch(0, Int32Array.of(1, -1)));
  using accessor = await table.get(0);
  if (accessor.get(0) + accessor.get(1) !== 0) throw new Error(`half a batch: ${accessor.get(0)} and ${accessor.get(1)}`);
}

parentPort?.postMessage("started");
for (let clock = 0; isEndless || clock < clocks; clock++) {
  await (isBatch ? batchOnce() : clockOnce());
  if (isEndless) await new Promise((resolve) => setImmediate(resolve));
}
parentPort?.postMessage("done");
thread.deregisterThread();
