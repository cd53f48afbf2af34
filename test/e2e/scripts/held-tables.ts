// held-tables — two processes of tables. The first does not shut its group down, and ends its script behind updates of
// a clock that it has not ended: some that its other threads would see, and some of this thread's own. The second
// reads.

import { denseRow, TableGroup } from "weighbridge/tables";

const group = new TableGroup();
group.registerRow(0, denseRow("f32"));
const first = await group.init({ numTables: 1, numLocalAppThreads: 1 }, true);
await group.createTable(0, { rowType: 0, staleness: 0, rowCapacity: 2, processCacheCapacity: 8, oplogCapacity: 8 });
await group.createTableDone();
const table = group.getTableOrDie(0);
if (first < 1000) {
  table.inc(7, 0, 1);
  table.threadInc(7, 1, 2);
} else {
  group.clock(); // a read at clock 1 waits until the other process has ended clock 0, or has left
  {
    using row = await table.get(7);
    console.log(`row 7 is ${row.get(0)}, ${row.get(1)}`);
  }
  await group.shutDown();
}
