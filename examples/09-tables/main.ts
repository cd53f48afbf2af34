// 09-tables — Petuum's hello_ssp: every thread adds 1 to its own column in every clock, and looks how far all others
// are.

import { env } from "node:process";
import { denseRow, TableGroup } from "weighbridge/tables";

const THREADS = 2; // of each process
const CLOCKS = 100;
const STALENESS = 1;
const ROW = 0;

const group = new TableGroup();
const counts = denseRow("i32");
group.registerRow(0, counts);

// Who am I? `weighbridge launch` says it in the environment. Servers and the scheduler serve in this call, and end with
// it.
const initThread = await group.init({ numTables: 1, numLocalAppThreads: THREADS + 1 });
const process = Math.floor(initThread / 1000);
const columns = Number(env.WEIGHBRIDGE_WORKER_COUNT) * THREADS; // one for each thread of all processes

// The process keeps up to 10 rows.
await group.createTable(0, { rowType: 0, rowCapacity: columns, staleness: STALENESS, processCacheCapacity: 10, oplogCapacity: 10 });
await group.createTableDone(); // on all processes

async function work(index: number): Promise<void> {
  const thread = await group.registerThread(); // waits for all threads of this process
  const table = thread.getTableOrDie(0, counts);
  const column = process * THREADS + index;
  for (let clock = 0; clock < CLOCKS; clock++) {
    // At once while the row in the process's cache is fresh enough; otherwise this waits for the slowest thread of all.
    using row = await table.get(ROW);
    if (row.get(column) !== clock)
      throw new Error(`column ${column} is ${row.get(column)} at clock ${clock}: my own increments are missing`);
    for (let other = 0; other < columns; other++)
      if (row.get(other) < clock - STALENESS) throw new Error(`column ${other} is ${row.get(other)} at clock ${clock}`);
    table.inc(ROW, column, 1); // nothing is sent: the sum goes with the clock
    thread.clock(); // never waits
  }
  thread.globalBarrier();
  using row = await table.get(ROW); // sees everything that was added before the barrier
  if (row.get(column) !== CLOCKS) throw new Error(`column ${column} is ${row.get(column)} after ${CLOCKS} clocks`);
  const { hits, gets } = table.statistics;
  console.log(`thread ${thread.id}: ${CLOCKS} clocks, every column at most ${STALENESS} behind; ${hits} of ${gets} gets from the cache`);
  thread.deregisterThread();
}

await Promise.all(Array.from({ length: THREADS }, (_, index) => work(index)));
await group.shutDown();
