// process-tables — what tables with a process cache cost: an increment and a get of a cached row, clocks a second of
// two processes, how long workers wait when one of them is slow now and then, and reads through a cache of a tenth of
// the rows. Bösen's figures for the same (2 cores, loopback): 6.1 M incs/s, 10.8 M gets/s; clocks a second 1912, 2455,
// 3516 with staleness 0, 1, 4, and with SSPPush 1591, 2283, 2795.
//
//   node --expose-gc bench/process-tables.ts [inc get guide threads ahead clocks straggler zipf]     all when left out
//
// inc get    one thread of a process, cached rows of 64 floats, no network in between
// guide      gets as docs/guides/tables.md writes them, inside an async function, beside two other ways to write them
// threads    the same in a thread of the system: inc, and get as the guide writes it
// ahead      300 rows that are asked for before they are needed, and the wait for all
// clocks     of two processes. The rate from clock 1,500 to 7,500 beside the warm one, after WARM_CLOCKS
// straggler  and zipf: their functions say what they do

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import type { Session } from "../src/api/session.ts";
import { Random } from "../src/base/random.ts";
import { type DenseAccessor, type DenseRowType, denseRow } from "../src/faces/tables/rows/dense-row.ts";
import type { Table } from "../src/faces/tables/table.ts";
import type { ConsistencyModel, TableConfig, TableGroupConfig } from "../src/faces/tables/table-config.ts";
import { TableGroup } from "../src/faces/tables/table-group.ts";
import type { TableThread } from "../src/faces/tables/table-thread.ts";
import { EmbeddedCluster } from "../src/node/embedded-cluster.ts";
import { TableGroup as ProcessTableGroup } from "../src/node/tables-session.ts";
import { attachTableThread, startTableThread } from "../src/node/tables-threads.ts";
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

/** The best of five by CPU time of this thread, and how much more memory is in use afterwards. */
async function best(what: string, run: (count: number) => void | Promise<void>): Promise<void> {
  let seconds = Infinity;
  for (let i = 0; i < 3; i++) await run(OPERATIONS / 10);
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 5; i++) {
    const began = process.threadCpuUsage();
    await run(OPERATIONS);
    const { user, system } = process.threadCpuUsage(began);
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

/** As the guide writes it; `await table.get(…)` with and without `using` beside it. */
async function guide(): Promise<void> {
  await oneThread(async (table) => {
    let sum = 0;
    await best("get as the guide writes it", async (count) => {
      for (let i = 0; i < count; i++) {
        const row = table.tryGet(i & 511) ?? (await table.get(i & 511));
        sum += row.get(i & 63);
        row.release();
      }
    });
    await best("  await table.get(…), and release", async (count) => {
      for (let i = 0; i < count; i++) {
        const row = await table.get(i & 511);
        sum += row.get(i & 63);
        row.release();
      }
    });
    await best("  using row = await table.get(…)", async (count) => {
      for (let i = 0; i < count; i++) {
        using row = await table.get(i & 511);
        sum += row.get(i & 63);
      }
    });
    if (sum !== 0) throw new Error("nobody added anything");
  });
}

/** In a thread of the system. */
async function operationsThread(): Promise<void> {
  const thread = await attachTableThread({ 0: FLOATS });
  const table = thread.getTableOrDie(0, FLOATS);
  for (let row = 0; row < HELD; row++) (await table.get(row)).release();
  await best("inc of a cached dense row, thread", (count) => {
    for (let i = 0; i < count; i++) table.inc(i & 511, i & 63, 1);
  });
  let sum = 0;
  await best("get as the guide writes it, thread", async (count) => {
    for (let i = 0; i < count; i++) {
      const row = table.tryGet(i & 511) ?? (await table.get(i & 511));
      sum += row.get(i & 63);
      row.release();
    }
  });
  if (sum === 0) throw new Error("something was added");
  thread.deregisterThread();
}

async function threadOperations(): Promise<void> {
  await using cluster = await EmbeddedCluster.start();
  const group = new TableGroup(() => Promise.resolve(cluster.session));
  group.registerRow(0, FLOATS);
  await group.init({ numTables: 1, numLocalAppThreads: 2 });
  await group.createTable(0, { rowType: 0, rowCapacity: 64, processCacheCapacity: HELD, oplogCapacity: HELD });
  await group.createTableDone();
  await once(startTableThread(group, import.meta.filename, { workerData: { kind: "operations" } }), "exit");
}

async function gets(): Promise<void> {
  await oneThread(async (table) => {
    let sum = 0;
    await best("get, read and release of a cached row", (count) => {
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

const WARM_CLOCKS = Number(process.env.WARM_CLOCKS ?? 20_000);
/** The clocks of a process that has just begun: those behind the first ones. */
const FIRST_CLOCKS = 1500;
const EARLY_CLOCKS = 6000;

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
  const rate = async (count: number): Promise<number> => {
    const began = performance.now();
    await step(count);
    return count / ((performance.now() - began) / 1000);
  };
  await step(FIRST_CLOCKS);
  const early = await rate(EARLY_CLOCKS);
  await step(WARM_CLOCKS - FIRST_CLOCKS - EARLY_CLOCKS); // until the engine has compiled what a clock passes
  const cpu = process.cpuUsage();
  const warm = await rate(clocks);
  const { user, system } = process.cpuUsage(cpu);
  const share = `${(early / warm).toFixed(2)} of that`;
  say(
    `${warm.toFixed(0)} clocks/s, ${((user + system) / clocks).toFixed(0)} us of CPU a clock; clocks 1,500 to 7,500 ${early.toFixed(0)}, ${share}`,
  );
  thread.deregisterThread();
  await group.shutDown();
}

function launchClocks(): void {
  for (const model of ["SSP", "SSPPush"] as const) {
    for (const staleness of [0, 1, 4]) {
      const text = launched(2, ["process", model, `${staleness}`]);
      say(`2 processes, get + inc + clock, ${model} staleness ${staleness}: ${text}`);
    }
  }
}

const AHEAD = { rows: 300, rounds: 40, pauseMs: 20 };

/** A process that asks for rows that it never had, and waits for them. */
async function aheadProcess(): Promise<void> {
  const group = new ProcessTableGroup();
  group.registerRow(0, FLOATS);
  await group.init({ numTables: 1, numLocalAppThreads: 2 });
  const processCacheCapacity = AHEAD.rows * AHEAD.rounds;
  await group.createTable(0, { rowType: 0, rowCapacity: 64, processCacheCapacity, oplogCapacity: 10 });
  await group.createTableDone();
  const thread = await group.registerThread();
  const table = thread.getTableOrDie(0, FLOATS);
  const times: number[] = [];
  for (let round = 0; round < AHEAD.rounds; round++) {
    const began = performance.now();
    for (let i = 0; i < AHEAD.rows; i++) {
      const full = table.getAsync(round * AHEAD.rows + i);
      if (full !== undefined) await full;
    }
    await table.waitPendingAsyncGet();
    times.push(performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, AHEAD.pauseMs));
  }
  const warm = times.slice(AHEAD.rounds / 2).sort((a, b) => a - b);
  const ms = (time: number | undefined): string => `${time?.toFixed(2)} ms`;
  say(`the first time ${ms(times[0])}, the second ${ms(times[1])}, warm p50 ${ms(warm[warm.length >> 1])}`);
  thread.deregisterThread();
  await group.shutDown();
}

function launchAhead(): void {
  say(`${AHEAD.rows} getAsync of rows of 64 floats, and their wait: ${launched(1, ["process-ahead"])}`);
}

/** What this file says as the workers of a job with one server. */
function launched(workers: number, args: readonly string[]): string {
  const command = ["bin/weighbridge.mjs", "launch", "-s", "1", "-w", `${workers}`, "--", import.meta.filename, ...args];
  const { stdout, status } = spawnSync(process.execPath, command, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  if (status !== 0) throw new Error(`the launch ended with ${status}`);
  return stdout.trim().replaceAll("\n", "; ");
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

const ZIPF = { rows: 200_000, width: 64, exponent: 1.05, reads: 1_000_000, batch: 256, hits: 10_000_000, threads: 2 };
/** The staleness of the table, and the bound of the cache that it is compared with. */
const BOUND = 4;

/** What one of the threads of `zipf` has measured. */
type ZipfFigures = {
  readonly gets: number;
  readonly misses: number;
  readonly seconds: number;
  /** Of gets of rows that were there, in the same run: misses, and the time that they took, are taken out. */
  readonly hits: number;
  readonly hitSeconds: number;
  /** Of `ZIPF.hits` gets behind it, of all rows that the cache holds, by both threads at once. */
  readonly steadySeconds: number;
  readonly cpuSeconds: number;
  readonly heapMiB: number;
};

/** How many rows the process cache holds. */
const HELD_ROWS = ZIPF.rows / 10;

/** The rows that a thread reads, drawn of the first so many: ids are ranks. */
function zipfTrace(thread: number, positionCount: number = ZIPF.rows): Uint32Array {
  const draw = zipfDraws(new Random(7 + thread), { positionCount, exponent: ZIPF.exponent });
  return Uint32Array.from({ length: ZIPF.reads }, draw);
}

/** In a thread of the system: a batch of rows is fetched together, and then read one by one. */
async function zipfThread(index: number): Promise<void> {
  const thread = await attachTableThread({ 0: FLOATS });
  const table = thread.getTableOrDie(0, FLOATS);
  const ids = zipfTrace(index);
  let [sum, hits, hitMs, misses] = [0, 0, 0, 0];
  const readHits = (from: number, to: number): void => {
    for (let i = from; i < to; i++) {
      const row = table.get(ids[i]!);
      if (row instanceof Promise) late.push(row);
      else {
        sum += row.get(i & 63);
        row.release();
      }
    }
  };
  const late: Promise<DenseAccessor<"f32">>[] = [];
  const began = performance.now();
  for (let from = 0; from < ids.length; from += ZIPF.batch) {
    const to = Math.min(ids.length, from + ZIPF.batch);
    for (let i = from; i < to; i++) {
      const full = table.getAsync(ids[i]!);
      if (full !== undefined) await full;
    }
    await table.waitPendingAsyncGet();
    const at = performance.now();
    readHits(from, to);
    hitMs += performance.now() - at;
    hits += to - from - late.length;
    misses += late.length;
    for (const row of await Promise.all(late.splice(0))) row.release();
  }
  const seconds = (performance.now() - began) / 1000;
  await meet();
  await fetchAll(table);
  await meet(); // from here on nobody fetches anything, so nothing is evicted
  const cached = zipfTrace(index, HELD_ROWS);
  const steady = (count: number): void => {
    for (let i = 0, at = 0; i < count; i++, at = at + 1 === cached.length ? 0 : at + 1) {
      const row = table.get(cached[at]!) as DenseAccessor<"f32">;
      sum += row.get(i & 63);
      row.release();
    }
  };
  steady(ZIPF.hits / 10);
  globalThis.gc?.();
  await meet(); // both at once
  const heap = process.memoryUsage().heapUsed;
  const cpu = process.threadCpuUsage();
  const from = performance.now();
  steady(ZIPF.hits);
  const steadySeconds = (performance.now() - from) / 1000;
  const { user, system } = process.threadCpuUsage(cpu);
  globalThis.gc?.();
  const heapMiB = (process.memoryUsage().heapUsed - heap) / 2 ** 20;
  if (sum !== 0) throw new Error("nobody added anything");
  const figures: ZipfFigures = {
    gets: ids.length,
    misses,
    seconds,
    hits,
    hitSeconds: hitMs / 1000,
    steadySeconds,
    cpuSeconds: (user + system) / 1e6,
    heapMiB,
  };
  parentPort?.postMessage(figures);
  thread.deregisterThread();
}

/** Reads rows until the cache holds as many as it may, the most frequent ones. */
async function fetchAll(table: Floats): Promise<void> {
  for (let missed = 1; missed > 0; ) {
    missed = 0;
    for (let id = 0; id < HELD_ROWS; id++) {
      const row = table.get(id);
      if (row instanceof Promise) missed++;
      (await row).release();
    }
  }
}

/** Waits until both threads have come here. */
async function meet(): Promise<void> {
  parentPort?.postMessage("here");
  await once(parentPort!, "message");
}

/** What travelled since the last look, both ways. */
function bytesOf(session: Session): number {
  let bytes = 0;
  for (const { sentBytes, receivedBytes } of session.takeLoads().values()) bytes += sentBytes + receivedBytes;
  return bytes;
}

/**
 * The same trace, batch by batch in turn, through the cache of an embedding whose rows may be so many updates behind.
 */
async function hetBytes(): Promise<number> {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const table = await session.embedding("het", { dim: ZIPF.width, optimizer: "sum", versions: true });
  const cache = table.cached({ rows: HELD_ROWS, pullBound: BOUND, pushBound: BOUND });
  const traces = Array.from({ length: ZIPF.threads }, (_, thread) => zipfTrace(thread));
  session.startRecord();
  for (let from = 0; from < ZIPF.reads; from += ZIPF.batch)
    for (const ids of traces) await cache.pull(BigUint64Array.from(ids.subarray(from, from + ZIPF.batch), BigInt));
  return bytesOf(session);
}

async function zipf(): Promise<void> {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const group = new TableGroup(() => Promise.resolve(session));
  group.registerRow(0, FLOATS);
  await group.init({ numTables: 1, numLocalAppThreads: ZIPF.threads + 1 });
  await group.createTable(0, {
    rowType: 0,
    rowCapacity: ZIPF.width,
    processCacheCapacity: HELD_ROWS,
    oplogCapacity: 16,
    staleness: BOUND,
  });
  await group.createTableDone();
  session.startRecord();
  const threads = Array.from({ length: ZIPF.threads }, (_, index) =>
    startTableThread(group, import.meta.filename, { workerData: { kind: "zipf", index } }),
  );
  let [here, bytes] = [0, 0];
  const figures = await Promise.all(
    threads.map(
      (thread) =>
        new Promise<ZipfFigures>((resolve, reject) => {
          thread.on("error", reject);
          thread.on("message", (message: ZipfFigures | "here") => {
            if (message !== "here") resolve(message);
            else if (++here % ZIPF.threads === 0) {
              bytes ||= bytesOf(session);
              for (const one of threads) one.postMessage("go");
            }
          });
        }),
    ),
  );
  const what = `${ZIPF.rows / 1000} k rows x ${ZIPF.width} by ${ZIPF.threads} threads, Zipf ${ZIPF.exponent}, capacity 10 %`;
  for (const { gets, misses, seconds, hits, hitSeconds, steadySeconds, cpuSeconds, heapMiB } of figures)
    say(
      `${what}: hits alone ${(hits / hitSeconds / 1e6).toFixed(1)} M/s among misses, ${(ZIPF.hits / steadySeconds / 1e6).toFixed(1)} M/s of all that is cached (${((1e9 * cpuSeconds) / ZIPF.hits).toFixed(0)} ns of CPU each), heap ${heapMiB.toFixed(2)} MiB more over ${ZIPF.hits / 1e6} M; with misses ${(gets / seconds / 1e3).toFixed(0)} k gets/s (${misses} came late)`,
    );
  const het = await hetBytes();
  say(`bytes of that trace: process cache ${(bytes / 1e6).toFixed(1)} MB, HET cache with bound ${BOUND} ${(het / 1e6).toFixed(1)} MB`);
}

const [, , first, ...rest] = process.argv;
const inThread = workerData as { readonly kind: "operations" } | { readonly kind: "zipf"; readonly index: number };
if (!isMainThread) await (inThread.kind === "zipf" ? zipfThread(inThread.index) : operationsThread());
else if (first === "process-ahead") await aheadProcess();
else if (first === "process") await clockProcess(rest[0] as ConsistencyModel, Number(rest[1]), Number(process.env.CLOCKS ?? 10_000));
else {
  const asked = first === undefined ? ["inc", "get", "guide", "threads", "ahead", "clocks", "straggler", "zipf"] : [first, ...rest];
  if (asked.includes("inc")) await incs();
  if (asked.includes("get")) await gets();
  if (asked.includes("guide")) await guide();
  if (asked.includes("threads")) await threadOperations();
  if (asked.includes("ahead")) launchAhead();
  if (asked.includes("clocks")) launchClocks();
  if (asked.includes("straggler")) await stragglers();
  if (asked.includes("zipf")) await zipf();
}
