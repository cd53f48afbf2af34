// Goal: while workers push, pull, end clocks and lose links, and parts go from server to server, every acknowledged
// update counts once, every worker reads its own writes, no read is staler than its bound, and BSP gives the bits of a
// run in which nothing moves.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { type Changes, keepChanging, moveAny } from "../../src/testing/change-placement.ts";
import { GRADIENT_TYPES } from "../../src/testing/optimizer-types.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

export const SERVERS = 3;
export const WORKERS = 2;
const ROUNDS = 8;
/** In which heads die. */
const KILL_MS_MAX = 300;
/** Between two changes. */
const PAUSE_MS_MAX = 20;
const SIZE = 3000;
const KEYS = BigUint64Array.from({ length: 100 }, (_, i) => BigInt(i) * 7919n);
const RAW_KEYS = BigUint64Array.from({ length: 6 }, (_, i) => (2n ** 64n / 6n) * BigInt(i));

/** A ring takes longer to make. */
export const optionsOf = (): { readonly placement: "range" } => ({ placement: "range" });

/** What changes meanwhile: nothing, who owns which parts, or also which servers have any. */
export type Changing = "nothing" | "parts" | "servers";

/** Runs what each worker does; returns how often parts moved meanwhile. */
async function runAll<T>(
  seed: number,
  changing: Changing,
  job: (cluster: SimCluster, rank: number) => Promise<T>,
  isReplicated = false,
): Promise<{ readonly outcomes: readonly T[]; readonly changes: Changes; readonly refusedCount: number }> {
  const common = { seed, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING } as const;
  const replicated = {
    replicas: 2,
    heartbeatIntervalMs: 50,
    heartbeatTimeoutMs: 500,
    optionsOf: () => ({ ...optionsOf(), digestEntries: 7 }),
  };
  const cluster = new SimCluster(isReplicated ? { ...common, ...replicated } : { ...common, optionsOf });
  await cluster.start();
  for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 0);
  if (isReplicated) killHeads(cluster, new Random(seed * 3 + 1));
  const changes: Changes = { count: 0 };
  if (changing !== "nothing") keepChanging(cluster, new Random(seed), PAUSE_MS_MAX, changes, changing === "parts" ? undefined : moveAny);
  const outcomes = await cluster.run(Promise.all(Array.from({ length: WORKERS }, (_, rank) => job(cluster, rank))));
  const servers = Array.from({ length: SERVERS }, (_, rank) => cluster.running(idOf("server", rank)));
  const refusedCount = servers.map((server) => server?.metrics.requestsFailed ?? 0).reduce((a, b) => a + b);
  return { outcomes, changes: { ...changes }, refusedCount };
}

/** The heads of two ranks die, at any moment; their standbys go on. */
function killHeads(cluster: SimCluster, random: Random): void {
  const first = random.below(SERVERS);
  for (const rank of [first, (first + 1) % SERVERS])
    cluster.clock.after(random.below(KILL_MS_MAX), () => cluster.kill(idOf(random.chance(0.7) ? "server" : "standby", rank)));
}

async function work(cluster: SimCluster, rank: number, { seed, hasKv }: { readonly seed: number; readonly hasKv: boolean }): Promise<void> {
  const random = new Random(seed * 100 + rank);
  const session = await Session.open(cluster.worker(rank).node);
  const kv = new KVWorker(cluster.worker(rank), 0);
  const link = { push: "fp16", pull: "fp16", keys: "delta", keyCache: true } as const;
  const [own, shared, encoded, tensor] = await Promise.all([
    session.embedding(`own ${rank}`, { dim: 2, optimizer: { type: "sum" }, versions: true }),
    session.embedding("shared", { dim: 2, optimizer: { type: "sum" } }),
    session.embedding("encoded", { dim: 2, optimizer: { type: "sum" }, link }),
    session.tensor("tensor", { shape: [SIZE], optimizer: { type: "sum" } }),
  ]);
  const cache = own.cached({ rows: 16 });
  const ones = new Float32Array(2 * KEYS.length).fill(1);
  for (let round = 1; round <= ROUNDS; round++) {
    const pushes = [own.push(KEYS, ones), shared.push(KEYS, ones), encoded.push(KEYS, ones), tensor.push(new Float32Array(SIZE).fill(1))];
    const kvPush = hasKv ? kv.wait(kv.push(RAW_KEYS, new Float32Array(RAW_KEYS.length).fill(1))) : undefined;
    if (random.chance(0.2)) cluster.network.breakLinks(`worker-${rank}`, `server-${random.below(SERVERS)}`);
    const seen = await own.pull(KEYS);
    assert.ok(
      seen.every((value) => value === round),
      `worker ${rank} reads its own ${round} pushes`,
    );
    const copies = await cache.pull(KEYS.subarray(0, 10));
    assert.ok(
      copies.every((value) => value === round),
      `so does its cache`,
    );
    await Promise.all([...pushes, kvPush]);
  }
  await session.barrier();
  for (const table of [shared, encoded])
    assert.deepEqual(await table.pull(KEYS), new Float32Array(2 * KEYS.length).fill(WORKERS * ROUNDS), table.name);
  assert.deepEqual(await tensor.pull(), new Float32Array(SIZE).fill(WORKERS * ROUNDS));
  if (!hasKv) return await session.barrier();
  const raw = new Float32Array(RAW_KEYS.length);
  await kv.wait(kv.pull(RAW_KEYS, raw));
  assert.deepEqual(raw, new Float32Array(RAW_KEYS.length).fill(WORKERS * ROUNDS));
  await session.barrier();
}

/** Acknowledged = applied. Returns how many requests were refused. */
export async function runAcknowledged(seed: number, changing: Changing = "parts"): Promise<number> {
  const about = { seed, hasKv: changing !== "servers" }; // which refuses a change of the servers
  const { refusedCount } = await runAll(seed, changing, (cluster, rank) => work(cluster, rank, about));
  return refusedCount;
}

const STALENESS = 2;

async function keepPace(cluster: SimCluster, rank: number): Promise<void> {
  const session = await Session.open(cluster.worker(rank).node);
  const table = await session.embedding("counts", { dim: WORKERS, optimizer: { type: "sum" }, consistency: { ssp: STALENESS } });
  const tensor = await session.tensor("tensor", { shape: [WORKERS], optimizer: { type: "sum" }, consistency: { ssp: STALENESS } });
  const one = Float32Array.from({ length: WORKERS }, (_, i) => (i === rank ? 1 : 0));
  const rows = Float32Array.from({ length: WORKERS * KEYS.length }, (_, i) => one[i % WORKERS] as number);
  for (let clock = 1; clock <= 2 * ROUNDS; clock++) {
    const pushes = [table.push(KEYS, rows), tensor.push(one)];
    session.clock();
    for (const values of [await table.pull(KEYS), await tensor.pull()]) {
      for (const [i, count] of values.entries()) {
        if (i % WORKERS === rank) assert.equal(count, clock, `worker ${rank} reads its own ${clock} pushes`);
        else assert.ok(count >= clock - STALENESS, `worker ${rank} reads ${count} pushes at clock ${clock}`);
      }
    }
    await Promise.all(pushes);
  }
  await session.barrier();
}

/** No read under SSP misses a push that its bound promises. Returns how often parts moved. */
export async function runPace(seed: number, changing: Changing = "parts"): Promise<number> {
  return (await runAll(seed, changing, keepPace)).changes.count;
}

/**
 * Steps whose gradients depend on what was read. Pushes are not waited for before the clock ends. Returns all that was
 * read.
 */
async function train(cluster: SimCluster, rank: number): Promise<readonly Float32Array[]> {
  const session = await Session.open(cluster.worker(rank).node);
  const tables = await Promise.all(
    GRADIENT_TYPES.map((type, i) =>
      session.embedding(type, { dim: 2, optimizer: { type }, consistency: { bsp: true, reduce: i % 2 === 0 ? "sum" : "mean" } }),
    ),
  );
  const tensors = await Promise.all(
    (["adam", "momentum"] as const).map((type) =>
      session.tensor(`dense ${type}`, { shape: [7], optimizer: { type }, consistency: { bsp: true, reduce: "mean" } }),
    ),
  );
  const reads: Float32Array[] = [];
  let pushes: Promise<void>[] = [];
  for (let clock = 0; clock < ROUNDS; clock++) {
    const rows = await Promise.all(tables.map((table) => table.pull(KEYS)));
    const blocks = await Promise.all(tensors.map((tensor) => tensor.pull()));
    reads.push(...rows, ...blocks);
    await Promise.all(pushes);
    const gradientOf = (values: Float32Array, turn: number): Float32Array =>
      values.map((value, i) => Math.sin(i + 3 * rank + 7 * clock + turn) + value / 100);
    // Each worker leaves out some of the rows, and pushes some twice in a clock.
    const some = KEYS.filter((_, i) => i % 5 !== (clock + rank) % 5);
    pushes = [0, 1].flatMap((turn) => [
      ...tables.map((table, i) => table.push(some, gradientOf((rows[i] as Float32Array).subarray(0, 2 * some.length), turn))),
      ...tensors.map((tensor, i) => tensor.push(gradientOf(blocks[i] as Float32Array, turn))),
    ]);
    session.clock();
  }
  await Promise.all(pushes);
  for (const table of tables) reads.push(await table.pull(KEYS));
  await session.barrier();
  return reads;
}

/** What is read under BSP while nothing moves, by worker. */
export async function undisturbedReads(): Promise<readonly (readonly Float32Array[])[]> {
  return (await runAll(1, "nothing", train)).outcomes;
}

/** BSP reads the same bits. Returns how often parts moved. */
export async function runBits(
  seed: number,
  expected: readonly (readonly Float32Array[])[],
  changing: Changing = "parts",
  { isReplicated = false }: { readonly isReplicated?: boolean } = {},
): Promise<number> {
  const { outcomes, changes } = await runAll(seed, changing, train, isReplicated);
  for (const [rank, reads] of outcomes.entries())
    for (const [i, values] of reads.entries()) {
      const name = [...GRADIENT_TYPES, "dense adam", "dense momentum"][i % (GRADIENT_TYPES.length + 2)];
      assert.deepEqual(values, expected[rank]?.[i], `worker ${rank}: ${name} at clock ${Math.floor(i / (GRADIENT_TYPES.length + 2))}`);
    }
  return changes.count;
}
