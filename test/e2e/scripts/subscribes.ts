// subscribes — a process of tables whose rows servers push (SSPPush), which does not shut its group down.

import { denseRow, TableGroup } from "weighbridge/tables";

const group = new TableGroup();
group.registerRow(0, denseRow("f32"));
await group.init({ numTables: 1, numLocalAppThreads: 1, consistencyModel: "SSPPush" }, true);
await group.createTable(0, { rowType: 0, staleness: 0, rowCapacity: 4, processCacheCapacity: 8, oplogCapacity: 8 });
await group.createTableDone();
console.log("connected");
