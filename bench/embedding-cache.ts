// embedding-cache — which share of the bytes of plain pushes and pulls a cache saves, beside what Hetu's cache saves on
// the same work: a table of 100,000 × 128, batches of 3,328 ids drawn by Zipf's law, each looked up and then updated by
// one worker.
//
//   node bench/embedding-cache.ts [--servers n] [--cold] [--rows 100000] [--iterations n]
//
// Counted is every byte on the worker's links to the servers, frame headers and a flush at the end included (Hetu has
// no flush). All rows exist before the count begins, as they do in Hetu; with --cold none does. Time is not measured:
// everything runs in this process.

import { parseArgs } from "node:util";
import { Session } from "../src/api/session.ts";
import { SILENT_LOG } from "../src/base/log.ts";
import { Random } from "../src/base/random.ts";
import type { Postoffice } from "../src/faces/kv/postoffice.ts";
import { realClock } from "../src/node/real-clock.ts";
import { type OfficeOptions, startOffice } from "../src/testing/start-office.ts";
import { MemoryHub, MemoryTransport } from "../src/transport/memory-transport.ts";
import type { Role } from "../src/wire/node-id.ts";
import { POLICY_NAMES, type PolicyName } from "../src/worker/cache/eviction-order.ts";
import type { Embedding } from "../src/worker/embedding.ts";
import { CountingTransport } from "./counting-transport.ts";
import { shuffledPositions, zipfDraws } from "./zipf.ts";

const WIDTH = 128;
const BATCH = 3328;
const BOUNDS = [0, 10, 100];
const SEED = 7;

type Work = { readonly exponent: number; readonly iterations: number };
type Cache = { readonly rows: number; readonly policy: PolicyName; readonly bound: number };

const WORKS: readonly Work[] = [
  { exponent: 1.05, iterations: 150 },
  { exponent: 1.3, iterations: 600 },
  { exponent: 0, iterations: 60 }, // uniform: the worst there is for a cache
];
/** What Hetu's cache saves, in percent: the best of its policies, by exponent, share of rows cached and bound. */
const HETU: Readonly<Record<string, string>> = {
  "1.05/10/0": "24",
  "1.05/10/10": "50",
  "1.05/10/100": "53",
  "1.05/1/0": "below 0",
  "1.05/1/10": "below 0",
  "1.05/1/100": "below 0",
  "1.3/10/0": "36",
  "1.3/10/10": "70",
  "1.3/10/100": "76",
};

const { values } = parseArgs({
  options: {
    servers: { type: "string", default: "1" },
    cold: { type: "boolean", default: false },
    rows: { type: "string", default: "100000" },
    iterations: { type: "string" },
  },
});
const serverCount = Number(values.servers);
const ROWS = Number(values.rows);
const iterationsOf = ({ iterations }: Work): number => Number(values.iterations ?? iterations);

/** The ids of each batch. Which id is how frequent is shuffled. */
function batchesOf(work: Work): BigUint64Array[] {
  const { exponent } = work;
  const random = new Random(SEED);
  const draw = zipfDraws(random, { positionCount: ROWS, exponent });
  const ids = shuffledPositions(random, ROWS);
  return Array.from({ length: iterationsOf(work) }, () => BigUint64Array.from({ length: BATCH }, () => BigInt(ids[draw()]!)));
}

/** A cluster in this process whose worker's bytes are counted, with a new table. */
async function withTable<T>(run: (table: Embedding, counter: CountingTransport) => Promise<T>): Promise<T> {
  const hub = new MemoryHub();
  const clock = realClock();
  const counter = new CountingTransport(new MemoryTransport({ clock, hub }));
  const node = async (role: Role, rank: number, rest: Partial<OfficeOptions> = {}): Promise<Postoffice> =>
    await startOffice({
      role,
      ...(role === "scheduler" ? {} : { rank }),
      serverCount,
      workerCount: 1,
      schedulerAddress: "memory://scheduler",
      transport: new MemoryTransport({ clock, hub }),
      clock,
      log: SILENT_LOG,
      jobId: "embedding-cache",
      incarnation: 1,
      ...rest,
    });
  const servers = Array.from({ length: serverCount }, (_, rank) => node("server", rank, { listenAddress: `memory://server-${rank}` }));
  const offices = await Promise.all([node("scheduler", 0), ...servers, node("worker", 0, { transport: counter })]);
  try {
    const session = await Session.open((offices.at(-1) as Postoffice).node);
    const table = await session.embedding("e", { dim: WIDTH, optimizer: "sum", rows: ROWS, versions: true });
    if (!values.cold) await fill(table);
    return await run(table, counter);
  } finally {
    await Promise.all(offices.map((office) => office.close()));
  }
}

async function fill(table: Embedding): Promise<void> {
  const step = Math.min(ROWS, 10_000);
  for (let from = 0; from < ROWS; from += step) {
    const keys = BigUint64Array.from({ length: step }, (_, i) => BigInt(from + i));
    await table.push(keys, new Float32Array(step * WIDTH).fill(1));
  }
}

const gradients = new Float32Array(BATCH * WIDTH).fill(0.5);
const into = new Float32Array(BATCH * WIDTH);

async function plainBytes(batches: readonly BigUint64Array[]): Promise<number> {
  return await withTable(async (table, counter) => {
    const before = counter.byteCount;
    for (const keys of batches) {
      await table.pull(keys, { into });
      await table.push(keys, gradients);
    }
    return counter.byteCount - before;
  });
}

/** What the cache took, the flush at the end included, and its share of rows that were not cached. */
async function cachedBytes(
  batches: readonly BigUint64Array[],
  { rows, policy, bound }: Cache,
): Promise<{ bytes: number; missShare: number }> {
  return await withTable(async (table, counter) => {
    const cache = table.cached({ rows, policy, pullBound: bound, pushBound: bound });
    const before = counter.byteCount;
    for (const keys of batches) {
      await cache.pull(keys, { into });
      await cache.push(keys, gradients);
    }
    await cache.flush();
    const bytes = counter.byteCount - before;
    const { misses, rowsLookedUp } = cache.statistics();
    return { bytes, missShare: misses / rowsLookedUp };
  });
}

const percent = (share: number): string => (100 * share).toFixed(1).padStart(6);

process.stdout.write(`${serverCount} server(s), ${values.cold ? "no rows exist at first" : "all rows exist at first"}\n`);
for (const work of WORKS) {
  const batches = batchesOf(work);
  const plain = await plainBytes(batches);
  process.stdout.write(
    `\nZipf ${work.exponent}, ${iterationsOf(work)} iterations: ${(plain / 1e6).toFixed(1)} MB without a cache; saved, in percent:\n`,
  );
  process.stdout.write(`cache  bound  Hetu's   ${POLICY_NAMES.map((name) => name.padStart(8)).join("")}   missed by each\n`);
  for (const share of work.exponent === 0 ? [1] : [10, 1]) {
    for (const bound of BOUNDS) {
      const saved: string[] = [];
      const missed: string[] = [];
      for (const policy of POLICY_NAMES) {
        const { bytes, missShare } = await cachedBytes(batches, { rows: (ROWS * share) / 100, policy, bound });
        saved.push(percent(1 - bytes / plain).padStart(8));
        missed.push(percent(missShare));
      }
      const hetu = HETU[`${work.exponent}/${share}/${bound}`] ?? "–";
      process.stdout.write(`${`${share} %`.padEnd(7)}${String(bound).padEnd(7)}${hetu.padEnd(9)}${saved.join("")}   ${missed.join("")}\n`);
    }
  }
}
