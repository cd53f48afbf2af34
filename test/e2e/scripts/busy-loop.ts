// busy-loop — two workers of a job, of which the second computes for longer than the heartbeat timeout in one turn of
// its loop. With mode=tables it does so between an increment and its clock, with mode=model before a round.

import { createSharedModel } from "weighbridge/shared-model";
import { denseRow, TableGroup } from "weighbridge/tables";

const given = new Map(process.argv.slice(2).map((argument) => argument.split("=") as [string, string]));
const busyMs = Number(given.get("busy"));
const isBusy = process.env.WEIGHBRIDGE_RANK === "1";

function compute(): void {
  if (!isBusy) return;
  console.log("computing");
  const endMs = performance.now() + busyMs;
  while (performance.now() < endMs);
  console.log("computed");
}

if (given.get("mode") === "tables") {
  const group = new TableGroup();
  const counts = denseRow("i64");
  group.registerRow(0, counts);
  await group.init({ numLocalAppThreads: 2 });
  await group.createTable(0, { rowType: 0, rowCapacity: 1, staleness: 0, processCacheCapacity: 2, oplogCapacity: 2 });
  await group.createTableDone();
  const thread = await group.registerThread();
  const table = thread.getTableOrDie(0, counts);
  table.inc(0, 0, 1n);
  compute();
  thread.clock();
  {
    using row = await table.get(0);
    console.log(`read ${row.get(0)}`);
  }
  thread.globalBarrier();
  using row = await table.get(0);
  console.log(`read ${row.get(0)} behind the barrier`);
  thread.deregisterThread();
  await group.shutDown();
} else {
  const model = createSharedModel("dist", { consistency: "bsp", updater: { type: "sum" } });
  await model.init([1]);
  await model.initKey([1], 0, 1);
  for (let round = 1; round <= 2; round++) {
    if (round === 2) compute();
    const data = Float32Array.of(1);
    model.push(data, 0, 1);
    model.pullReq(data, 0, 1);
    await model.pullWait(0, 1);
    console.log(`round ${round}: ${data[0]}`);
  }
  await model.close();
}
