// process-tables — what tables with a process cache cost: an increment and a get of a cached row, clocks a second of
// two processes, how long workers wait when one of them is slow now and then, and reads through a cache of a tenth of
// the rows. Bösen's figures for the same (2 cores, loopback): 6.1 M incs/s, 10.8 M gets/s; clocks a second 1912, 2455,
// 3516 with staleness 0, 1, 4, and with SSPPush 1591, 2283, 2795.
//
//   node bench/process-tables.ts [inc get clocks straggler zipf]        all of them when left out

import { spawnSync } from "node:child_process";
import type { Session } from "../src/api/session.ts";
import { Random } from "../src/base/random.ts";
import { type DenseRowType, denseRow } from "../src/faces/tables/rows/dense-row.ts";
import type { Table } from "../src/faces/tables/table.ts";
import type { ConsistencyModel, TableConfig, TableGroupConfig } from "../src/faces/tables/table-config.ts";
import { TableGroup } from "../src/faces/tables/table-group.ts";
import type { TableThread } from "../src/faces/tables/table-thread.ts";
import { EmbeddedCluster } from "../src/node/embedded-cluster.ts";
import { TableGroup as ProcessTableGroup } from "../src/node/tables-session.ts";
import { zipfDraws } from "./zipf.ts";

const FLOATS = denseRow("f32");
const HELD = 1000;
const OPERATIONS = 10_000_000;
const say = (text: string): void => void process.stdout.write(`${text}\n`);

type Floats = Table<DenseRowType<"f32">>;

async function groupOver(
  session: Session,
  table: TableConfig,
  threads: number,
  config: TableGroupConfig = {},
): Promise<readonly TableThread[]> {
  const group = new TableGroup(() => Promise.resolve(session));
  group.registerRow(0, FLOATS);
  await group.init({ numTables: 1, numLocalAppThreads: threads + 1, ...config });
  await group.createTable(0, table);
  await group.createTableDone();
  return await Promise.all(Array.from({ length: threads }, () => group.registerThread()));
}

async function oneThread(run: (table: Floats) => void | Promise<void>): Promise<void> {
  await using cluster = await EmbeddedCluster.start();
  const config = { rowType: 0, rowCapacity: 64, processCacheCapacity: HELD, oplogCapacity: HELD };
  const [thread] = (await groupOver(cluster.session, config, 1)) as [TableThread];
  const table = thread.getTableOrDie(0, FLOATS);
  for (let row = 0; row < HELD; row++) (await table.get(row)).release();
  await run(table);
}

/** The best of five by CPU time, and how much more memory is in use afterwards. */
function best(what: string, run: (from: number) => void): void {
  let seconds = Infinity;
  for (let i = 0; i < 3; i++) run(OPERATIONS / 10);
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 5; i++) {
    const began = process.cpuUsage();
    run(OPERATIONS);
    const { user, system } = process.cpuUsage(began);
    seconds = Math.min(seconds, (user + system) / 1e6);
  }
  globalThis.gc?.();
  const grown = (process.memoryUsage().heapUsed - before) / 2 ** 20;
  say(
    `${what.padEnd(44)} ${(OPERATIONS / seconds / 1e6).toFixed(1)} M/s, ${((seconds * 1e9) / OPERATIONS).toFixed(0)} ns, heap ${grown.toFixed(2)} MiB more`,
  );
}

async function incs(): Promise<void> {
  await oneThread((table) =>
    best("inc of a cached dense row, one thread", (count) => {
      for (let i = 0; i < count; i++) table.inc(i & 511, i & 63, 1);
    }),
  );
}

async function gets(): Promise<void> {
  await oneThread((table) => {
    let sum = 0;
    best("get, read and release of a cached row", (count) => {
      for (let i = 0; i < count; i++) {
        const row = table.get(i & 511);
        if (row instanceof Promise) throw new Error("a cached row is fresh");
        sum += row.get(i & 63);
        row.release();
      }
    });
    if (sum !== 0) throw new Error("nobody added anything");
  });
}

/** One of the processes of `clocks`: this file, launched. */
async function clockProcess(model: ConsistencyModel, staleness: number, clocks: number): Promise<void> {
  const group = new ProcessTableGroup();
  group.registerRow(0, FLOATS);
  const init = await group.init({ numTables: 1, numLocalAppThreads: 2, consistencyModel: model });
  await group.createTable(0, { rowType: 0, rowCapacity: 10, staleness, processCacheCapacity: 10, oplogCapacity: 10 });
  await group.createTableDone();
  const thread = await group.registerThread();
  const table = thread.getTableOrDie(0, FLOATS);
  const own = init >= 1000 ? 1 : 0;
  const step = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      using row = await table.get(0);
      if (row.get(1 - own) < thread.clocks - staleness) throw new Error(`${row.get(1 - own)} at clock ${thread.clocks}`);
      table.inc(0, own, 1);
      thread.clock();
    }
  };
  await step(clocks / 10);
  const began = performance.now();
  const cpu = process.cpuUsage();
  await step(clocks);
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - began) / 1000;
  say(`${(clocks / seconds).toFixed(0)} clocks/s, ${((user + system) / clocks).toFixed(0)} us of CPU a clock`);
  thread.deregisterThread();
  await group.shutDown();
}

function launchClocks(): void {
  for (const model of ["SSP", "SSPPush"] as const) {
    for (const staleness of [0, 1, 4]) {
      const command = ["bin/weighbridge.mjs", "launch", "-s", "1", "-w", "2", "--", import.meta.filename, "process", model, `${staleness}`];
      const { stdout, status } = spawnSync(process.execPath, command, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
      if (status !== 0) throw new Error(`the launch ended with ${status}`);
      say(`2 processes, get + inc + clock, ${model} staleness ${staleness}: ${stdout.trim().replaceAll("\n", "; ")}`);
    }
  }
}

/** Four workers compute for 1 ms, one of them, drawn by seed, for 5: which share of the time do they wait? */
async function stragglers(): Promise<void> {
  for (const [what, isAlways] of [
    ["one drawn by seed in every clock", false],
    ["always the same one", true],
  ] as const) {
    const shares: string[] = [];
    for (const staleness of [0, 4])
      shares.push(`${(100 * (await waitingShare(staleness, isAlways))).toFixed(0)} % with staleness ${staleness}`);
    say(`four workers, ${what} takes 5 times as long: they wait ${shares.join(", ")}`);
  }
}

async function waitingShare(staleness: number, isAlways: boolean): Promise<number> {
  await using cluster = await EmbeddedCluster.start({ workers: 4 });
  const config = { rowType: 0, rowCapacity: 4, staleness, processCacheCapacity: 4 };
  const threads = (await Promise.all(cluster.sessions.map((session) => groupOver(session, config, 1)))).flat();
  const CLOCKS = 150;
  let waited = 0;
  const began = performance.now();
  await Promise.all(
    threads.map(async (thread, worker) => {
      const table = thread.getTableOrDie(0, FLOATS);
      for (let clock = 0; clock < CLOCKS; clock++) {
        (await table.get(0)).release();
        const isSlow = (isAlways ? 0 : new Random(clock + 1).below(4)) === worker;
        await new Promise((resolve) => setTimeout(resolve, isSlow ? 20 : 4));
        table.inc(0, worker, 1);
        thread.clock();
      }
      waited += table.statistics.waitMs;
    }),
  );
  return waited / (threads.length * (performance.now() - began));
}

async function zipf(): Promise<void> {
  const [ROWS, READS] = [200_000, 400_000];
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const threads = await groupOver(session, { rowType: 0, rowCapacity: 64, processCacheCapacity: ROWS / 10, staleness: 0 }, 2);
  session.startRecord();
  const began = performance.now();
  const tables = threads.map((thread) => thread.getTableOrDie(0, FLOATS));
  await Promise.all(
    tables.map(async (table, thread) => {
      const draw = zipfDraws(new Random(7 + thread), { positionCount: ROWS, exponent: 1.05 });
      const ids = Uint32Array.from({ length: READS }, draw);
      for (let i = 0; i < READS; i += 64) {
        for (let j = i; j < Math.min(READS, i + 64); j++) await table.getAsync(ids[j]!);
        await table.waitPendingAsyncGet(); // rows are fetched together
        for (let j = i; j < Math.min(READS, i + 64); j++) (await table.get(ids[j]!)).release();
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const { receivedBytes = 0 } = session.takeLoads().get("wb/tables/read") ?? {};
  const hits = tables.reduce((sum, { statistics }) => sum + statistics.hits, 0);
  const share = hits / (2 * READS);
  say(
    `200 k rows x 64 by 2 tasks, Zipf 1.05, capacity 10 %: ${((2 * READS) / seconds / 1e3).toFixed(0)} k gets/s with misses, ${(100 * share).toFixed(1)} % found, ${(receivedBytes / 1e6).toFixed(1)} MB fetched`,
  );
}

const [, , first, ...rest] = process.argv;
if (first === "process") await clockProcess(rest[0] as ConsistencyModel, Number(rest[1]), Number(process.env.CLOCKS ?? 5000));
else {
  const asked = first === undefined ? ["inc", "get", "clocks", "straggler", "zipf"] : [first, ...rest];
  if (asked.includes("inc")) await incs();
  if (asked.includes("get")) await gets();
  if (asked.includes("clocks")) launchClocks();
  if (asked.includes("straggler")) await stragglers();
  if (asked.includes("zipf")) await zipf();
}
