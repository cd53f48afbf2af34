// row-cache — what training's cache of rows (vocabCacheSize) is worth: hit rates of its tiers, and rows per second of
// steps that take and give, beside the same steps with pulls and pushes. A worker's script; servers are processes of
// their own:
//
//   weighbridge launch -s 2 -w 1 -- bench/row-cache.ts [--seconds 4] [--compute-ms 0]
//       [--warm-up-steps 150]
//
// A table of 200,000 × 64 floats under Adam (3 floats a value, and a count), batches of 4,096 ids drawn by Zipf's law
// with exponent 1.05, consistency "bsp"; caches of 10, 1 and 0.1 % of the table, ten times that on the host. All rows
// exist before. A step is: rows of the batch, gradients for all of them. With --compute-ms the worker computes for so
// long in every step, in slices of 1 ms, so that what travels meanwhile can show. The runs take turns; given are the
// medians of three. With -w 2 or more the workers share the rows, each with batches of its own.

import { parseArgs } from "node:util";
import { Random } from "../src/base/random.ts";
import { RowMembers } from "../src/faces/training/row-members.ts";
import type { RowSourceStatistics } from "../src/faces/training/row-source.ts";
import { TieredRows } from "../src/faces/training/tiered-rows.ts";
import { Arena } from "../src/kernel/arena.ts";
import { connect } from "../src/node/connect.ts";
import type { Embedding } from "../src/worker/embedding.ts";
import { quantile } from "./statistics.ts";
import { zipfDraws } from "./zipf.ts";

const ROWS = 200_000;
const WIDTH = 64;
const IDS = 4096;
const EXPONENT = 1.05;
const BATCHES = 64;
const ROUNDS = 3;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "4" },
    "compute-ms": { type: "string", default: "0" },
    "warm-up-steps": { type: "string", default: "150" },
  },
});
const roundMs = (Number(values.seconds) * 1000) / ROUNDS;
const computeMs = Number(values["compute-ms"]);

const session = await connect();
const isFirst = session.rank === 0;
const members = new RowMembers(session.rank, session.workerCount > 1 ? await session.collective() : undefined);
const gradients = new Float32Array(IDS * WIDTH).fill(0.01);
const batches = batchesOf(session.rank + 1);

/** Ids, shuffled so that neighbours are not of like frequency, and the distinct ones of each batch. */
function batchesOf(seed: number): { readonly ids: Float64Array; readonly keys: BigUint64Array }[] {
  const draw = zipfDraws(new Random(seed), { positionCount: ROWS, exponent: EXPONENT });
  return Array.from({ length: BATCHES }, () => {
    const ids = Float64Array.from({ length: IDS }, () => (draw() * 7919) % ROWS);
    return { ids, keys: BigUint64Array.from(new Set(ids), (id) => BigInt(id)) };
  });
}

async function compute(): Promise<void> {
  const end = performance.now() + computeMs;
  while (performance.now() < end) {
    const slice = performance.now() + 1;
    while (performance.now() < slice);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

type Round = { readonly rowsPerSecond: number; readonly waitShare: number; readonly statistics?: RowSourceStatistics };
type Step = (number: number) => Promise<{ readonly rows: number; readonly waitedMs: number }>;

/** All workers make the same number of steps. */
async function measure(step: Step, stepCount: number): Promise<Round> {
  await session.barrier();
  const began = performance.now();
  let [rows, waitedMs] = [0, 0];
  for (let number = 0; number < stepCount; number++) {
    const made = await step(number);
    rows += made.rows;
    waitedMs += made.waitedMs;
    session.clock();
  }
  const ms = performance.now() - began;
  return { rowsPerSecond: (rows / ms) * 1000, waitShare: waitedMs / ms };
}

function plainStep(table: Embedding): Step {
  const into = new Float32Array(IDS * WIDTH);
  return async (number) => {
    const { keys } = batches[number % BATCHES] as (typeof batches)[number];
    const began = performance.now();
    await table.pull(keys, { into: into.subarray(0, keys.length * WIDTH) });
    const pulled = performance.now();
    await compute();
    const computed = performance.now();
    await table.push(keys, gradients.subarray(0, keys.length * WIDTH));
    return { rows: keys.length, waitedMs: performance.now() - computed + pulled - began };
  };
}

function cachedStep(source: TieredRows): Step {
  return async (number) => {
    const began = performance.now();
    const slots = await source.acquire((batches[number % BATCHES] as (typeof batches)[number]).ids);
    const taken = performance.now();
    source.prefetch((batches[(number + 1) % BATCHES] as (typeof batches)[number]).ids);
    await compute();
    const distinct = distinctOf(slots);
    const computed = performance.now();
    await source.push(distinct, gradients.subarray(0, distinct.length * WIDTH));
    return { rows: distinct.length, waitedMs: performance.now() - computed + taken - began };
  };
}

/** As the layer lists its touched slots. */
function distinctOf(slots: Int32Array): Int32Array {
  const sorted = slots.slice().sort();
  let count = 0;
  for (let i = 0; i < sorted.length; i++) if (i === 0 || sorted[i] !== sorted[count - 1]) sorted[count++] = sorted[i] as number;
  return sorted.subarray(0, count);
}

async function fill(table: Embedding): Promise<void> {
  const count = 10_000;
  for (let from = 0; isFirst && from < ROWS; from += count) {
    const keys = BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));
    await table.push(keys, new Float32Array(count * WIDTH).fill(0.5));
  }
  session.clock();
  await session.barrier();
}

const open = async (name: string): Promise<Embedding> =>
  await session.embedding(name, { dim: WIDTH, rows: ROWS, optimizer: { type: "adam" }, consistency: "bsp" });
const say = (line: string): void => void (isFirst && process.stdout.write(`${line}\n`));
const median = (list: readonly number[]): number => quantile(Float64Array.from(list).sort(), 0.5);
const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`.padStart(8);

const plainTable = await open("plain");
await fill(plainTable);
const plain = plainStep(plainTable);
const distinct = batches.reduce((sum, { keys }) => sum + keys.length, 0) / BATCHES;
say(
  `${session.serverCount} servers, ${session.workerCount} worker(s), ${computeMs} ms of computing a step; ${IDS} ids, ${distinct.toFixed(0)} distinct`,
);
say("cache      device    host  servers    swapped  written    rows/s, uncached   cached          waiting, uncached   cached");
for (const share of [0.1, 0.01, 0.001]) {
  const table = await open(`cached-${share}`);
  await fill(table);
  const arena = new Arena({ bytesMax: 2 ** 31 });
  const vocabCacheSize = ROWS * share;
  const source = await TieredRows.open({ embedding: table, arena, vocabCacheSize, idCountMax: IDS, members, flushEverySteps: Infinity });
  const cached = cachedStep(source);
  const { rowsPerSecond } = await measure(plain, 20);
  const stepCount = Math.max(10, Math.round((rowsPerSecond * roundMs) / 2000 / distinct / 10) * 10);
  await measure(cached, Number(values["warm-up-steps"]));
  const before = source.statistics;
  const rounds: { readonly plain: Round; readonly cached: Round }[] = [];
  for (let round = 0; round < ROUNDS; round++)
    rounds.push({ plain: await measure(plain, stepCount), cached: await measure(cached, stepCount) });
  const { statistics } = source;
  const since = (name: keyof RowSourceStatistics): number => statistics[name] - before[name];
  const looked = since("deviceHits") + since("hostHits") + since("serverReads");
  const of = (name: "plain" | "cached", field: "rowsPerSecond" | "waitShare"): number => median(rounds.map((round) => round[name][field]));
  const [mPlain, mCached] = [of("plain", "rowsPerSecond"), of("cached", "rowsPerSecond")].map((rate) =>
    `${(rate / 1e6).toFixed(2)} M`.padStart(8),
  );
  say(
    `${percent(share, 1)} ${percent(since("deviceHits"), looked)}${percent(since("hostHits"), looked)}${percent(since("serverReads"), looked)} ` +
      `${percent(since("swappedOut"), looked)}${percent(since("writtenBack"), looked)}   ${mPlain}          ${mCached} (× ${(of("cached", "rowsPerSecond") / of("plain", "rowsPerSecond")).toFixed(1)})` +
      `      ${percent(of("plain", "waitShare"), 1)}        ${percent(of("cached", "waitShare"), 1)}`,
  );
  await source.close();
  await session.barrier();
}
await session.close();
