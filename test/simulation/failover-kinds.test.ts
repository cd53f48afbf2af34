// failover-kinds — Goal: whatever a parameter is, by its optimizer, its codec, its type of rows or the face that it is
// used through, two heads that are killed in the middle of its requests change nothing: no call fails, and BSP has the
// bits of a run in which nobody dies (Availability.I2, Availability.I5).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { OwnerModel } from "../../src/faces/shared-model/owner-model.ts";
import type { TableRowType } from "../../src/faces/tables/table-row-type.ts";
import { TensorWorker } from "../../src/faces/tensors/tensor-worker.ts";
import { zstd } from "../../src/node/zstd.ts";
import { psRowType } from "../../src/store/row-types/ps-row-type.ts";
import { psUpdater } from "../../src/store/updaters/ps-updater.ts";
import { GRADIENT_TYPES, OPTIMIZER_TYPES } from "../../src/testing/optimizer-types.ts";
import { sessionServices } from "../../src/testing/session-services.ts";
import type { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { LinkEncoding } from "../../src/wire/codecs/link-encoding.ts";
import { idOf } from "../../src/wire/node-id.ts";
import type { ServicesGround, WorkerServices } from "../../src/worker/worker-services.ts";
import { DEADLINE, noise, ReplicatedJob, SERVERS, WORKERS } from "./replicated-job.ts";
import { TableCluster } from "./tables.ts";

const CLOCKS = 6;
const KEYS = Array.from({ length: 24 }, (_, i) => i * 7);
const DIM = 2;
const SIZE = 64;

const TABLE_LINKS: readonly Partial<LinkEncoding>[] = [
  ...(["fp16", "bf16", "int8", "int8-centred", "packed"] as const).map((codec) => ({ push: codec, pull: codec, keyCache: true })),
  { keys: "raw" },
  { push: "packed", compression: "zstd" },
];
const COMPRESSION = zstd();
const TAKING_TYPES = OPTIMIZER_TYPES.filter((type) => !GRADIENT_TYPES.includes(type));

/** An updater and a row type of a user's own. */
const runningMean = psUpdater({
  name: "runningMean",
  version: 1,
  deterministic: true,
  columns: () => ({ pushes: { dim: 1 } }),
  update: ({ elements, starts, columns, count, width }, gradients) => {
    for (let i = 0; i < count; i++) {
      const pushes = ++elements[columns.pushes![i]!]!;
      for (let j = 0; j < width; j++) {
        const at = starts[i]! + j;
        elements[at]! += (gradients.elements[gradients.starts[i]! + j]! - elements[at]!) / pushes;
      }
    }
  },
});
const residues = psRowType<"i32">({
  name: "residues",
  version: 1,
  deterministic: true,
  dtype: "i32",
  make: (dim) => new Int32Array(dim).fill(1),
  add: (sums, updates) => {
    for (let i = 0; i < sums.count; i++)
      for (let j = 0; j < sums.width; j++) {
        const at = sums.starts[i]! + j;
        sums.elements[at] = (sums.elements[at]! + updates.elements[updates.starts[i]! + j]!) % 101;
      }
  },
});
const PLUG_INS = { module: "own.ts", hash: "1", updaters: [runningMean as never], rowTypes: [residues as never] };

type Work = (session: Session, job: ReplicatedJob, strike: (clock: number) => void) => Promise<readonly ArrayLike<unknown>[]>;

/** What each worker read; `isCalm`: nobody dies. */
async function run(work: Work, isCalm: boolean): Promise<readonly (readonly ArrayLike<unknown>[])[]> {
  const network = { latencyMsMin: 0, latencyMsMax: 3, breakChance: 0 };
  const options = { digestEntries: 40, plugIns: [PLUG_INS], compression: COMPRESSION };
  const sessions = (ground: ServicesGround): WorkerServices => sessionServices(ground, { compression: COMPRESSION });
  const job = new ReplicatedJob({ seed: 1, random: new Random(1), network, options: { ...options, sessions } });
  const opened = await job.start();
  const outcomes = await job.cluster.run(
    Promise.all(
      opened.map((session, rank) => work(session, job, (clock) => (isCalm || rank > 0 ? undefined : strike(job.cluster, clock)))),
    ),
  );
  const heads = job.cluster.scheduler.roster.nodes.filter(({ role }) => role === "server");
  assert.deepEqual(
    heads.map(({ incarnation }) => incarnation),
    Array<number>(SERVERS).fill(isCalm ? 1 : 2),
    "who leads",
  );
  await job.end();
  return outcomes;
}

/** The heads die one after the other, while requests are under way, some of them acknowledged. */
function strike(cluster: SimCluster, clock: number): void {
  if (clock !== 2 && clock !== 4) return;
  cluster.clock.after(clock, () => cluster.kill(idOf("server", clock / 2 - 1)));
}

async function sameBits(work: Work): Promise<void> {
  assert.deepEqual(await run(work, false), await run(work, true));
}

test("BSP has the bits of a run in which nobody dies, for every optimizer, every codec and rows of every element", async () => {
  await sameBits(async (session, _, strikeAt) => {
    const { rank } = session;
    const optimized = GRADIENT_TYPES.map((type, i) => ({
      optimizer: { type },
      consistency: { bsp: true, reduce: i % 2 === 0 ? "sum" : "mean" } as const,
    }));
    const encoded = TABLE_LINKS.map((link) => ({ optimizer: { type: "adam" }, consistency: "bsp", link }) as const);
    const tables = await Promise.all(
      [...optimized, ...encoded].map((options, i) => session.embedding(`rows ${i}`, { dim: DIM, ...options, ...DEADLINE })),
    );
    const sparser = { optimizer: { type: "adam" }, consistency: "bsp", link: { push: { topK: 0.2 } } } as const;
    const tensors = await Promise.all(
      [...optimized, sparser].map((options, i) => session.tensor(`tensor ${i}`, { shape: [SIZE], ...options, ...DEADLINE })),
    );
    const taking = await Promise.all(TAKING_TYPES.map((type) => session.embedding(type, { dim: 1, optimizer: { type }, ...DEADLINE })));
    const doubles = await session.embedding("f64", { dim: 1, optimizer: "sum", dtype: "f64", consistency: "bsp" });
    const integers = await session.embedding("i32", { dim: 1, optimizer: "sum", dtype: "i32", consistency: "bsp" });
    const longs = await session.embedding("i64", { dim: 1, optimizer: "sum", dtype: "i64", consistency: "bsp" });
    const reads: ArrayLike<unknown>[] = [];
    for (let clock = 0; clock < CLOCKS; clock++) {
      const own = [1000 + rank];
      const pushes = [
        ...tables.map((table, i) => table.push(KEYS, noise(KEYS.length * DIM, i + rank + 3 * clock), DEADLINE)),
        ...tensors.map((tensor, i) => tensor.push(noise(SIZE, i - rank + 5 * clock), DEADLINE)),
        ...taking.map((table) => table.push(own, noise(1, rank + clock), DEADLINE)),
        doubles.push(own, Float64Array.of(0.1 * clock), DEADLINE),
        integers.push(own, Int32Array.of(2 ** 30), DEADLINE),
        longs.push(own, BigInt64Array.of(2n ** 61n), DEADLINE),
      ];
      strikeAt(clock);
      session.clock();
      for (const table of tables) reads.push(await table.pull(KEYS, DEADLINE));
      for (const tensor of tensors) reads.push(await tensor.pull(DEADLINE));
      for (const table of taking) reads.push(await table.pull(own, DEADLINE));
      for (const table of [doubles, integers, longs]) reads.push(await table.pull([1000, 1001], DEADLINE));
      await Promise.all(pushes);
    }
    return reads;
  });
});

test("updaters and row types of users, cached rows and SSP have what they have when nobody dies", async () => {
  await sameBits(async (session, _, strikeAt) => {
    const { rank } = session;
    const mean = { optimizer: runningMean.with(), consistency: "bsp" } as const;
    const rows = await session.embedding("mean rows", { dim: DIM, ...mean, ...DEADLINE });
    const tensor = await session.tensor("mean tensor", { shape: [SIZE], ...mean, ...DEADLINE });
    const modular = await session.embedding("residues", { dim: DIM, optimizer: "sum", dtype: residues, consistency: "bsp" });
    const adam = { dim: DIM, optimizer: { type: "adam" } } as const;
    const cache = (await session.embedding(`cached ${rank}`, { ...adam, versions: true, ...DEADLINE })).cached({ rows: 16, pushBound: 2 });
    const stale = await session.embedding(`stale ${rank}`, { ...adam, consistency: { ssp: 1 }, ...DEADLINE });
    const counts = await session.embedding("counts", { dim: 1, optimizer: "sum", consistency: { ssp: 1 }, ...DEADLINE });
    const reads: ArrayLike<unknown>[] = [];
    for (let clock = 0; clock < CLOCKS; clock++) {
      const gradients = noise(KEYS.length * DIM, rank + 3 * clock);
      const pushes = [
        rows.push(KEYS, gradients, DEADLINE),
        tensor.push(noise(SIZE, 5 * clock - rank), DEADLINE),
        modular.push(KEYS, new Int32Array(KEYS.length * DIM).fill(40 + rank + clock), DEADLINE),
        cache.push(KEYS, gradients, DEADLINE),
        stale.push(KEYS, gradients, DEADLINE),
        counts.push(KEYS, new Float32Array(KEYS.length).fill(1), DEADLINE),
      ];
      strikeAt(clock);
      session.clock();
      for (const table of [rows, modular]) reads.push(await table.pull(KEYS, DEADLINE));
      reads.push(await tensor.pull(DEADLINE));
      const seen = await counts.pull(KEYS, DEADLINE);
      assert.ok(
        seen.every((count) => count >= WORKERS * clock && count <= WORKERS * CLOCKS),
        `clock ${clock}: ${seen.join()}`,
      );
      await Promise.all(pushes);
      reads.push(await cache.pull(KEYS, DEADLINE));
    }
    await cache.close(DEADLINE);
    await session.barrier(DEADLINE);
    const sums = await counts.pull(KEYS, DEADLINE);
    assert.deepEqual(sums, new Float32Array(KEYS.length).fill(WORKERS * CLOCKS), "pushes are lost or doubled");
    return [...reads, await stale.pull(KEYS, DEADLINE), sums];
  });
});

test("the tensors face and a shared model read what they read when nobody dies", async () => {
  await sameBits(async (session, { cluster }, strikeAt) => {
    const worker = new TensorWorker(session);
    await worker.initTensor("dense", { length: SIZE }, DEADLINE);
    const model = new OwnerModel<Float32Array>(
      "dist",
      { session, consistency: "bsp", updater: { type: "sgd", learningRate: 0.1 } },
      { clock: cluster.clock, timeline: () => cluster.clock.nowMs() },
    );
    await model.init([0]);
    await model.initKey([SIZE], 0, 0);
    const read = new Float32Array(SIZE);
    const weights = new Float32Array(SIZE);
    const reads: ArrayLike<unknown>[] = [];
    for (let clock = 0; clock < CLOCKS; clock++) {
      model.push(noise(SIZE, clock + session.rank), 0, 0);
      const pushed = worker.push("dense", new Float32Array(SIZE).fill(1), DEADLINE);
      strikeAt(clock);
      model.pullReq(weights, 0, 0);
      await model.pullWait(0, 0);
      await pushed;
      reads.push(weights.slice());
    }
    await session.barrier();
    await worker.pull("dense", read, DEADLINE);
    await worker.wait("dense", DEADLINE);
    return [...reads, read];
  });
});

test("rows of every type of the tables face are whole when the head is killed", async () => {
  const tables = Array.from({ length: 8 }, (_, rowType) => ({ rowType, staleness: 0, oplogCapacity: 4 }));
  const read = async (isCalm: boolean): Promise<readonly unknown[]> => {
    const simulated = await TableCluster.simulate(1, { processes: 2, tables }, { replicas: 2 });
    const threads = [0, 1].map((process) => simulated.thread(process));
    for (let clock = 0; clock < CLOCKS; clock++) {
      for (const thread of threads)
        for (const table of tables.keys()) {
          const { element } = thread.getTableOrDie<TableRowType>(table).rowType;
          for (let row = 0; row < 3; row++) thread.getTableOrDie(table).inc(row, 1, (element === "i64" ? 2n : 2) as number);
        }
      if (!isCalm && clock === 3) simulated.cluster.kill(idOf("server", 0));
      for (const thread of threads) thread.globalBarrier();
    }
    const cells: unknown[] = [];
    for (const table of tables.keys())
      for (let row = 0; row < 3; row++) {
        using accessor = await simulated.run(Promise.resolve(threads[0]!.getTableOrDie(table).get(row)));
        cells.push((accessor as unknown as { get(column: number): unknown }).get(1));
      }
    return cells;
  };
  const cells = await read(false);
  assert.deepEqual(cells, await read(true));
  assert.equal(cells[0], 2 * 2 * CLOCKS);
});
