// shared-table — Goal: a thread that copies a row while others change it gets the row as it was in one moment.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { denseRow } from "../../faces/tables/rows/dense-row.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { RowCache } from "../cache/row-cache.ts";
import { rowMemory } from "./oplog.ts";
import { RowLocks } from "./row-locks.ts";
import { SharedTable } from "./shared-table.ts";
import { TableCounters } from "./table-statistics.ts";
import { booksMemory } from "./thread-books.ts";
import { ThreadLine, type ThreadPort } from "./thread-line.ts";

const ROW = 7;
const WIDTH = 4096;
/** How many states of the row the reader has to see. */
const STATES = 300;

/** Under the lock of the row, gives all its columns one value after the other; between two of them it counts. */
const WRITER = `
  const { workerData, parentPort } = require("node:worker_threads");
  import(workerData.module).then(({ RowLocks }) => {
    const locks = new RowLocks(workerData.locks);
    const cells = new Float64Array(workerData.rows.buffer, workerData.rows.rows + workerData.slot * workerData.rows.rowBytes, ${WIDTH});
    const stop = new Int32Array(workerData.stop);
    const group = locks.groupOf(${ROW});
    let counted = 0;
    parentPort.postMessage("ready");
    for (let value = 1; Atomics.load(stop, 0) === 0; value++) {
      locks.lock(group, 3);
      for (let i = 0; i < ${WIDTH}; i++) cells[i] = value;
      locks.unlock(group);
      for (let i = 0; i < 4 * ${WIDTH}; i++) counted += i & value;
    }
    parentPort.postMessage(counted);
  });
`;

test("a row that another thread changes meanwhile is copied whole (SharedTable.S1)", async () => {
  const rows = rowMemory({ slotCount: 4, rowBytes: WIDTH * Float64Array.BYTES_PER_ELEMENT, secret: 5 });
  const cache = new RowCache(rows);
  const slot = cache.takeFree();
  cache.fill(slot, ROW, 0);
  const { buffer: locks } = new RowLocks();
  const nobody: ThreadPort = { postMessage: () => {}, onmessage: null, close: () => {} };
  const line = new ThreadLine(2, nobody, new SimClock());
  const books = booksMemory("f64", { elements: WIDTH, rows: 1, secret: 5 });
  const counters = new ArrayBuffer(TableCounters.BYTES);
  const table = new SharedTable({ id: 0, name: "tables/0", staleness: 0, rows, locks, books, counters }, denseRow("f64"), line);
  const stop = new SharedArrayBuffer(4);
  const module = new URL("row-locks.ts", import.meta.url).href;
  const writer = new Worker(WRITER, { eval: true, workerData: { module, locks, rows, slot, stop } });
  try {
    await once(writer, "message");
    const seen = new Set<number>();
    while (seen.size < STATES) {
      const copy = table.pin(ROW);
      const { cells, start, length } = table.placeOf(copy);
      const first = cells[start] as number;
      for (let i = 1; i < length; i++) if (cells[start + i] !== first) assert.fail(`column 0 is ${first}, column ${i} ${cells[start + i]}`);
      seen.add(first);
      table.unpin(copy);
    }
  } finally {
    Atomics.store(new Int32Array(stop), 0, 1);
    await writer.terminate();
  }
});
