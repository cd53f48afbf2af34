// Workers count words in tables with bounded staleness, in the terms of Petuum: a thread reads rows that are at most
// STALENESS clocks old, and its increments are sent once a clock. `npm start` launches this script in every worker.

import { denseRow, TableGroup } from "weighbridge/tables";

const WORDS = ["weigh", "bridge", "van", "cart"] as const;
const CLOCKS = 50;
const STALENESS = 2;

const group = new TableGroup();
const counts = denseRow("i32");
group.registerRow(0, counts);
await group.init({ numTables: 1, numLocalAppThreads: 2 }); // this one, which begins, and one that uses the table
const capacities = { rowCapacity: WORDS.length, processCacheCapacity: 10, oplogCapacity: 10 };
await group.createTable(0, { rowType: 0, staleness: STALENESS, ...capacities });
await group.createTableDone(); // on all workers

const thread = await group.registerThread();
const table = thread.getTableOrDie(0, counts);
for (let clock = 0; clock < CLOCKS; clock++) {
  table.inc(0, Math.floor(Math.random() * WORDS.length), 1); // nothing is sent: the sum goes with the clock
  thread.clock();
}
thread.globalBarrier();
using row = await table.get(0); // sees what all workers have added before the barrier
console.log(WORDS.map((word, i) => `${word} ${row.get(i)}`).join(", "));
thread.deregisterThread();
await group.shutDown();
