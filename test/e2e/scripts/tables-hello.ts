// tables-hello — Petuum's hello_ssp: every thread adds 1 to its column in every clock, checks everybody's against the
// staleness, and all of them after a barrier. With mode=alone it goes on without whoever dies, and looks at the columns
// of nobody else.

import { WeighbridgeError } from "weighbridge";
import { denseRow, TableGroup } from "weighbridge/tables";

/** Arguments like clocks=100. */
const given = new Map(process.argv.slice(2).map((argument) => argument.split("=") as [string, string]));
const numberOf = (name: string, usual: number): number => Number(given.get(name) ?? usual);
const [staleness, clocks] = [numberOf("staleness", 1), numberOf("clocks", 100)];
const [threads, processes] = [numberOf("threads", 4), numberOf("processes", 2)];
const isAlone = given.get("mode") === "alone";
const columns = threads * processes;

const group = new TableGroup();
const counts = denseRow("i64");
group.registerRow(0, counts);
/** With ports=1,2 the processes are those of a host map, and start their servers themselves. */
const hostMap = given
  .get("ports")
  ?.split(",")
  .map((port, id) => ({ id, host: "127.0.0.1", port: Number(port) }));
const hosts = hostMap === undefined ? {} : { hostMap, clientId: numberOf("client", 0) };
const consistencyModel = (given.get("model") ?? "SSP") as "SSP";
const stats = given.get("stats");
const statsPath = stats === undefined ? {} : { statsPath: stats };
const first = await group.init({ numLocalAppThreads: threads + 1, consistencyModel, ...statsPath, ...hosts });
const rank = Math.floor(first / 1000);
await group.createTable(0, { rowType: 0, rowCapacity: columns, staleness, processCacheCapacity: 2, oplogCapacity: 2 });
await group.createTableDone();

/**
 * A process that was taken for dead is told so once, and continues with mode=alone: servers refuse its reads until it
 * has joined again.
 */
async function goingOn<T>(call: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (thrown) {
      if (!isAlone || !(thrown instanceof WeighbridgeError)) throw thrown;
      const isRefused = thrown.code === "NODE_DEAD" && (thrown.detail as { takenOut?: boolean } | undefined)?.takenOut === true;
      if (thrown.code !== "NOT_JOINED" && !isRefused) throw thrown;
      if (!isRefused) console.log(`taken out: ${thrown.message}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function work(index: number): Promise<void> {
  const thread = await group.registerThread();
  const table = thread.getTableOrDie(0, counts);
  for (let clock = 0; clock < clocks; clock++) {
    using row = await goingOn(() => table.get(0));
    for (let column = 0; column < columns && !isAlone; column++)
      if (row.get(column) < clock - staleness) throw new Error(`column ${column} is ${row.get(column)} at clock ${clock}`);
    await goingOn(() => table.inc(0, rank * threads + index, 1n));
    thread.clock();
    if ((clock === 20 || clock === 300) && index === 0) console.log(`at clock ${clock}`);
    if (isAlone) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  thread.globalBarrier();
  using row = await goingOn(() => table.get(0));
  const own = row.get(rank * threads + index);
  if (own !== BigInt(clocks)) throw new Error(`${own} increments are left of ${clocks}`);
  if (!isAlone && row.toArray().some((count) => count !== BigInt(clocks)))
    throw new Error(`after the barrier: ${row.toArray().join(", ")}`);
  thread.deregisterThread();
}

await Promise.all(Array.from({ length: threads }, (_, index) => work(index)));
console.log(`${threads} threads are done`);
await group.shutDown();
