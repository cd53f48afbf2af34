// table-group — Goal: threads that wait for each other to register are never left waiting: not where there is nobody to
// wait for, and not when the group shuts down.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../api/session.ts";
import { MemoryCluster } from "../../testing/memory-cluster.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { denseRow } from "./rows/dense-row.ts";
import { TableGroup } from "./table-group.ts";

async function groupOf(cluster: MemoryCluster, numLocalAppThreads: number): Promise<TableGroup> {
  const group = new TableGroup(() => Session.open(cluster.worker(0).node));
  group.registerRow(0, denseRow("f32"));
  await cluster.run(group.init({ numLocalAppThreads }));
  await cluster.run(group.createTable(0, { rowType: 0, rowCapacity: 4, processCacheCapacity: 4 }));
  await cluster.run(group.createTableDone());
  return group;
}

async function shutDown(cluster: MemoryCluster, group: TableGroup): Promise<void> {
  await cluster.run(Promise.all([group.shutDown(), cluster.server().finalize(), cluster.scheduler.finalize()]));
}

test("with no thread that uses tables waitThreadRegister returns at once", async () => {
  const cluster = await MemoryCluster.start();
  const group = await groupOf(cluster, 1);
  await cluster.run(group.waitThreadRegister());
  await assert.rejects(group.registerThread(), throwsCode("COUNT_MISMATCH", /0 threads of this process/));
  await shutDown(cluster, group);
});

test("who waits for other threads to register is told CLOSED when the group shuts down", async () => {
  const cluster = await MemoryCluster.start();
  const group = await groupOf(cluster, 4);
  const waiting = [group.registerThread(), group.registerThread(), group.waitThreadRegister()];
  const told = waiting.map((wait) => assert.rejects(wait, throwsCode("CLOSED", /2 of 3 threads had registered/)));
  await shutDown(cluster, group);
  await cluster.run(Promise.all(told));
});

test("who asks for snapshots of a table without a bound is told that they are no exact cut", async () => {
  const cluster = await MemoryCluster.start();
  const group = new TableGroup(() => Session.open(cluster.worker(0).node));
  group.registerRow(0, denseRow("f32"));
  await cluster.run(group.init({ numLocalAppThreads: 1, numTables: 3, snapshotClock: 100 }));
  for (const [id, staleness] of [2, Infinity, Infinity].entries())
    await cluster.run(group.createTable(id, { rowType: 0, rowCapacity: 4, processCacheCapacity: 4, staleness }));
  await cluster.run(group.createTableDone());
  const told = cluster.logLines.filter((line) => line.includes("snapshots of tables"));
  assert.match(told.join("\n"), /^[^\n]*staleness Infinity may have updates of later clocks, too[^\n]*$/);
  await shutDown(cluster, group);
});
