// cached-rows — Goal: rows that workers hold and update themselves are, bit for bit, those that the servers would have made, however small the cache is and
// however many workers share it; and what goes wrong on the way loses nothing and hangs nobody.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Embedding } from "../api/embedding.ts";
import type { EmbeddingOptions } from "../api/parameter-options.ts";
import type { Session } from "../api/session.ts";
import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { EmbeddedCluster } from "../node/connect.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import { MemoryCollective, MemoryCollectives } from "../testing/memory-collective.ts";
import { CachedRows, type CachedRowsOptions } from "./cached-rows.ts";
import { RowMembers } from "./row-members.ts";
import { NO_SLOT, type RowSource } from "./row-source.ts";

const ROWS = 400;
const WIDTH = 6;
const IDS = 40;
const MIB = 2 ** 20;

type Batches = readonly (readonly number[])[];

/** Ids by Zipf's law, some of them out of range, the number of them different from step to step. */
function batchesOf(seed: number, steps: number, idCount: number = IDS): Batches {
  const random = new Random(seed);
  const sums: number[] = [];
  let sum = 0;
  for (let rank = 1; rank <= ROWS; rank++) {
    sum += rank ** -1.05;
    sums.push(sum);
  }
  const draw = (): number => {
    if (random.chance(0.03)) return random.chance(0.5) ? -1 - random.below(5) : ROWS + random.below(5);
    const share = random.fraction() * sum;
    return (sums.findIndex((upTo) => upTo > share) * 97) % ROWS;
  };
  return Array.from({ length: steps }, () => Array.from({ length: random.below(idCount) }, draw));
}

/** A gradient that depends on the values, so that a wrong bit spreads. */
function gradientOf(values: Float32Array, slot: number, out: Float32Array, at: number, step: number): void {
  for (let j = 0; j < WIDTH; j++)
    out[at + j] = Math.fround((values[slot * WIDTH + j] as number) * 0.3 + ((step * 7 + j * 3) % 11) / 16 - 0.2);
}

/** Takes, computes and gives as a layer would: the gradients of a slot's occurrences are added. */
async function step(source: RowSource, arena: Arena, ids: readonly number[], number: number, announced?: readonly number[]): Promise<void> {
  const slots = await source.take(ids);
  if (announced !== undefined) source.announce(announced);
  const values = arena.floats.subarray(source.address >>> 2, (source.address >>> 2) + source.slotCount * WIDTH) as Float32Array;
  const counts = new Map<number, number>();
  for (const [i, slot] of slots.entries()) {
    assert.equal(slot === NO_SLOT, !((ids[i] as number) >= 0 && (ids[i] as number) < ROWS), "R4");
    if (slot !== NO_SLOT) counts.set(slot, (counts.get(slot) ?? 0) + 1);
  }
  const distinct = Int32Array.from([...counts.keys()].sort((a, b) => a - b));
  const gradients = new Float32Array(distinct.length * WIDTH);
  for (const [i, slot] of distinct.entries()) gradientOf(values, slot, gradients, i * WIDTH, number * (counts.get(slot) as number));
  await source.give(distinct, gradients);
}

/** The same with pulls and pushes: what the cache is held against. */
async function plainStep(table: Embedding, ids: readonly number[], number: number): Promise<void> {
  const known = ids.filter((id) => id >= 0 && id < ROWS);
  const distinct = [...new Set(known)];
  const values = await table.pull(distinct);
  const gradients = new Float32Array(distinct.length * WIDTH);
  for (const [i, id] of distinct.entries()) gradientOf(values, i, gradients, i * WIDTH, number * known.filter((one) => one === id).length);
  if (distinct.length > 0) await table.push(distinct, gradients);
}

type Work = {
  readonly workers: number;
  readonly servers?: number;
  readonly steps: number;
  readonly optimizer: OptimizerSpec;
  readonly consistency?: EmbeddingOptions["consistency"];
  readonly batches?: (rank: number) => Batches;
};

function tableOptions({ optimizer, consistency = "bsp" }: Work): EmbeddingOptions {
  return { dim: WIDTH, rows: ROWS, init: { type: "normal", std: 0.5, seed: 3 }, optimizer, consistency };
}

const batchesFor = (work: Work, rank: number): Batches => work.batches?.(rank) ?? batchesOf(100 + rank, work.steps);

/** All rows with their optimizer's slots, as the servers have them; and the steps that they counted. */
async function stateOf(session: Session): Promise<{ readonly rows: Uint32Array; readonly steps: readonly number[] }> {
  const table = await openTable(session);
  const raw = table.raw(new Arena({ bytesMax: 8 * MIB }));
  const rows = new Float32Array(ROWS * raw.rowFloats);
  await raw.read(
    BigUint64Array.from({ length: ROWS }, (_, i) => BigInt(i)),
    rows,
  );
  const { training } = await raw.claim();
  return { rows: new Uint32Array(rows.buffer), steps: training.map(({ step: count }) => count) };
}

async function openTable(session: Session): Promise<Embedding> {
  const [spec] = await session.parameters();
  assert.ok(spec?.kind === "table");
  const { name, width, rows, versions, initializer, optimizer, updates, reduce } = spec;
  const consistency = updates === "sync" ? ({ bsp: true, reduce } as const) : "asp";
  return await session.embedding(name, {
    dim: width,
    rows: rows as number,
    versions,
    init: initializer,
    optimizer: optimizer as OptimizerSpec,
    consistency,
  });
}

async function plainRun(work: Work): Promise<Awaited<ReturnType<typeof stateOf>>> {
  await using cluster = await EmbeddedCluster.start({ servers: work.servers ?? 2, workers: work.workers });
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const table = await session.embedding("e", tableOptions(work));
      await session.barrier();
      for (const [number, ids] of batchesFor(work, session.rank).entries()) {
        await plainStep(table, ids, number);
        session.clock();
      }
      await table.pull([0]); // of the clock after the last
      await session.barrier();
    }),
  );
  return await stateOf(cluster.session);
}

type CachedWork = Work & {
  readonly vocabCacheSize: number;
  readonly hostRows?: number;
  readonly flushEverySteps?: number;
  /** What a worker announces while step `number` goes on. */
  readonly announced?: (rank: number, number: number, batches: Batches) => readonly number[] | undefined;
};

async function cachedRun(work: CachedWork): Promise<Awaited<ReturnType<typeof stateOf>> & { readonly sources: readonly CachedRows[] }> {
  await using cluster = await EmbeddedCluster.start({ servers: work.servers ?? 2, workers: work.workers });
  const shared = new MemoryCollectives(cluster.sessions.map(({ rank }) => rank));
  const { announced = (_rank, number, batches) => batches[number + 1] } = work;
  const sources = await Promise.all(
    cluster.sessions.map(async (session) => {
      const { source, arena } = await openSource(session, work, shared);
      const batches = batchesFor(work, session.rank);
      for (const [number, ids] of batches.entries()) {
        await step(source, arena, ids, number, announced(session.rank, number, batches));
        session.clock();
      }
      await source.flush();
      await session.barrier();
      return source;
    }),
  );
  const state = await stateOf(cluster.session);
  return { ...state, sources };
}

async function openSource(
  session: Session,
  work: CachedWork,
  shared?: MemoryCollectives,
  rest: Partial<CachedRowsOptions> = {},
): Promise<{ readonly source: CachedRows; readonly arena: Arena }> {
  const arena = new Arena({ bytesMax: 64 * MIB });
  const embedding = await session.embedding("e", tableOptions(work));
  const { rank } = session;
  const members = shared === undefined ? undefined : new RowMembers(rank, new MemoryCollective(shared, rank));
  const { vocabCacheSize, hostRows, flushEverySteps } = work;
  const source = await CachedRows.open({ embedding, arena, vocabCacheSize, hostRows, flushEverySteps, idCountMax: IDS, members, ...rest });
  return { source, arena };
}

const OPTIMIZERS: readonly OptimizerSpec[] = [
  { type: "sgd", learningRate: 0.1, schedule: { type: "step", every: 4, factor: 0.5 } } as OptimizerSpec,
  { type: "adagrad", learningRate: 0.1, initialAccumulator: 0.1 },
  { type: "adam", learningRate: 0.05 },
  { type: "lazyAdam", learningRate: 0.05 },
];

for (const workers of [1, 2, 3]) {
  for (const optimizer of OPTIMIZERS) {
    test(`rows and slots of ${optimizer.type} with ${workers} worker(s) are those of the uncached run, bit for bit`, async () => {
      const work = { workers, optimizer, steps: 20 };
      const { rows, steps } = await plainRun(work);
      const cached = await cachedRun({ ...work, vocabCacheSize: 60, hostRows: 90 });
      assert.deepEqual(cached.rows, rows);
      assert.deepEqual(cached.steps, steps);
      const { deviceHits, hostHits, serverReads, swappedOut, writtenBack } = (cached.sources[0] as CachedRows).statistics;
      for (const count of [deviceHits, hostHits, serverReads, swappedOut, writtenBack]) assert.ok(count > 0);
    });
  }
}

test("nobody announces, some do, or they announce what does not come: the bits are the same", async () => {
  const work = { workers: 2, optimizer: { type: "adam" }, steps: 12, vocabCacheSize: 50, hostRows: 50 } as const;
  const { rows } = await plainRun(work);
  const hints: NonNullable<CachedWork["announced"]>[] = [
    () => undefined,
    (rank, number, batches) => (rank === 0 ? batches[number + 1] : undefined),
    (rank, number, batches) => ((rank + number) % 3 === 0 ? [1, 2, 3] : batches[number + 1]),
  ];
  for (const announced of hints) assert.deepEqual((await cachedRun({ ...work, announced })).rows, rows);
});

test("a mean over workers counts those who have rows on a server, as the server does", async () => {
  const batches = (rank: number): Batches => batchesOf(500 + rank, 15, 4);
  const work: Work = {
    workers: 3,
    servers: 3,
    steps: 15,
    optimizer: { type: "momentum" },
    consistency: { bsp: true, reduce: "mean" },
    batches,
  };
  const { rows, steps } = await plainRun(work);
  const cached = await cachedRun({ ...work, vocabCacheSize: 20 });
  assert.deepEqual(cached.rows, rows);
  assert.deepEqual(cached.steps, steps);
  assert.ok(new Set(steps).size > 1, "servers saw different numbers of rounds");
});

test("gradients are clipped as a push of them would be", async () => {
  const optimizer = { type: "adagrad", learningRate: 0.1, clipNorm: 0.7, clipValue: 0.2 } as const;
  const work = { workers: 2, steps: 10, optimizer };
  const { rows } = await plainRun(work);
  assert.deepEqual((await cachedRun({ ...work, vocabCacheSize: 40 })).rows, rows);
});

for (const hostRows of [0, 3, 400]) {
  test(`a batch larger than the cache, with ${hostRows} rows on the host, is served directly, and told once (C3)`, async () => {
    const work = { workers: 2, steps: 14, optimizer: { type: "adam" } } as const;
    const { rows } = await plainRun(work);
    const cached = await cachedRun({ ...work, vocabCacheSize: 4, hostRows });
    assert.deepEqual(cached.rows, rows);
    for (const source of cached.sources) assert.ok(source.statistics.directBatches > 5, `${source.statistics.directBatches}`);
  });
}

test("a small cache warns once, with the sizes", async () => {
  await using cluster = await EmbeddedCluster.start();
  const warnings: unknown[] = [];
  const log = { ...SILENT_LOG, warn: (message: string, fields?: unknown) => void warnings.push([message, fields]) };
  const work = { workers: 1, steps: 3, optimizer: { type: "sgd" }, vocabCacheSize: 2 } as const;
  const { source, arena } = await openSource(cluster.session, work, undefined, { log });
  for (let number = 0; number < 3; number++) await step(source, arena, [1, 2, 3, 4], number);
  assert.equal(warnings.length, 1);
  assert.match(String(warnings[0]), /more rows of e than the cache has.*vocabCacheSize/);
  assert.equal(source.statistics.directBatches, 3);
  await source.close();
});

test("ids, distinct ones, hits and moves are counted", async () => {
  await using cluster = await EmbeddedCluster.start();
  const work = { workers: 1, steps: 0, optimizer: { type: "sgd" }, vocabCacheSize: 4, hostRows: 2 } as const;
  const { source, arena } = await openSource(cluster.session, work);
  await step(source, arena, [1, 1, 2, -1, 3, 1], 0); // 3 of the servers
  await step(source, arena, [3, 4, 5], 1); // 1 on the device, 2 of the servers, 1 goes to the host
  const { idCount, uniqueCount, deviceHits, hostHits, serverReads, swappedOut, writtenBack, directBatches } = source.statistics;
  assert.deepEqual([idCount, uniqueCount, deviceHits, hostHits, serverReads], [8, 6, 1, 0, 5]);
  assert.deepEqual([swappedOut, writtenBack, directBatches], [1, 0, 0]);
  await step(source, arena, [1], 2); // of the host
  assert.equal(source.statistics.hostHits, 1);
  await source.flush();
  assert.equal(source.statistics.writtenBack, 5);
  await source.flush();
  assert.equal(source.statistics.writtenBack, 5, "nothing changed since");
  await source.close();
});

test("with flushEverySteps the servers are never further behind than that", async () => {
  const work = { workers: 1, steps: 8, optimizer: { type: "sgd" }, vocabCacheSize: 300, flushEverySteps: 4 } as const;
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { source, arena } = await openSource(cluster.session, work);
  const batches = batchesOf(1, 10);
  for (let number = 0; number < 4; number++) {
    await step(source, arena, batches[number] as number[], number);
    cluster.session.clock();
  }
  const { rows } = await plainRun({ ...work, batches: () => batches.slice(0, 4) });
  assert.deepEqual((await stateOf(cluster.session)).rows, rows);
});

test("what its optimizer refuses is told to who gave it; the others' gradients count", async () => {
  const work = { workers: 2, steps: 1, optimizer: { type: "sgd", learningRate: 1 }, vocabCacheSize: 10 } as const;
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const shared = new MemoryCollectives([0, 1]);
  const sources = await Promise.all(cluster.sessions.map((session) => openSource(session, work, shared)));
  const slots = await Promise.all(sources.map(({ source }) => source.take([7])));
  const gradients = [new Float32Array(WIDTH).fill(Number.NaN), new Float32Array(WIDTH).fill(1)];
  const before = await (await cluster.session.embedding("e", tableOptions(work))).pull([7]);
  const [refused, taken] = await Promise.allSettled(
    sources.map(({ source }, i) => source.give(slots[i] as Int32Array, gradients[i] as Float32Array)),
  );
  assert.equal(taken?.status, "fulfilled");
  assert.ok(refused?.status === "rejected" && isWeighbridgeError(refused.reason, "NOT_FINITE"));
  await Promise.all(sources.map(({ source }) => source.close()));
  const after = await (await cluster.session.embedding("e", tableOptions(work))).pull([7]);
  assert.deepEqual(
    after,
    before.map((value) => Math.fround(value - 1)),
  );
});

test("arguments that make no sense are refused before anything is sent", async () => {
  await using cluster = await EmbeddedCluster.start();
  const work = { workers: 1, steps: 0, optimizer: { type: "sgd" }, vocabCacheSize: 4 } as const;
  const rejects = (promise: Promise<unknown>, code: ErrorCode): Promise<void> =>
    assert.rejects(promise, (error) => isWeighbridgeError(error, code));
  for (const bad of [{ vocabCacheSize: 0 }, { hostRows: -1 }, { idCountMax: 0.5 }, { flushEverySteps: 0 }])
    await rejects(openSource(cluster.session, work, undefined, bad), "BAD_ARGUMENT");
  const asp = await cluster.session.embedding("asp", { ...tableOptions(work), consistency: "asp" });
  await rejects(CachedRows.open({ embedding: asp, arena: new Arena({ bytesMax: MIB }), vocabCacheSize: 1, idCountMax: 1 }), "UNSUPPORTED");
  const { source } = await openSource(cluster.session, work);
  await rejects(source.give(new Int32Array(0), new Float32Array(0)), "BAD_ARGUMENT"); // nothing was taken
  await rejects(source.take(new Array(IDS + 1).fill(1)), "BAD_ARGUMENT");
  const [slot] = await source.take([5]);
  await rejects(source.give(Int32Array.of((slot as number) + 1), new Float32Array(WIDTH)), "BAD_ARGUMENT");
  await rejects(source.give(Int32Array.of(slot as number), new Float32Array(1)), "VALUE_LENGTH");
  await source.give(Int32Array.of(slot as number), new Float32Array(WIDTH));
  await rejects(source.give(Int32Array.of(slot as number), new Float32Array(WIDTH)), "BAD_ARGUMENT"); // twice
  await source.close();
  await rejects(source.take([1]), "CLOSED");
  await source.close();
});

test("a cache that the arena has no room for is refused, and takes none", async () => {
  await using cluster = await EmbeddedCluster.start();
  const arena = new Arena({ bytesMax: 4 * MIB });
  const work = { workers: 1, steps: 0, optimizer: { type: "adam" }, vocabCacheSize: 20_000 } as const;
  await assert.rejects(openSource(cluster.session, work, undefined, { arena }), (error) => isWeighbridgeError(error, "ARENA_FULL"));
  const { source } = await openSource(cluster.session, { ...work, vocabCacheSize: 2000 }, undefined, { arena });
  assert.equal((await source.take([1])).length, 1);
  await source.close();
});

test("ids of a table without a fixed size go up to 2^53", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const embedding = await cluster.session.embedding("u", { dim: 1, optimizer: { type: "sgd", learningRate: 1 }, consistency: "bsp" });
  const arena = new Arena({ bytesMax: 4 * MIB });
  const source = await CachedRows.open({ embedding, arena, vocabCacheSize: 2, hostRows: 1, idCountMax: 8 });
  const ids = [2 ** 53 - 2, 2 ** 32, 0, 2 ** 32 + 1, -1, 0.5, 2 ** 32];
  const slots = await source.take(ids);
  assert.deepEqual([slots[1] === slots[6], slots[4], slots[5]], [true, NO_SLOT, NO_SLOT]);
  assert.equal(new Set(slots).size, 5);
  const distinct = new Int32Array(new Set(slots.filter((slot) => slot !== NO_SLOT))).sort();
  await source.give(
    distinct,
    Float32Array.from(distinct, () => -1),
  );
  cluster.session.clock();
  await source.close();
  assert.deepEqual([...(await embedding.pull([2 ** 53 - 2, 2 ** 32, 0, 2 ** 32 + 1, 1]))], [1, 1, 1, 1, 0]);
});

test("opening, using and closing gives all memory back", async () => {
  await using cluster = await EmbeddedCluster.start();
  const arena = new Arena({ bytesMax: 64 * MIB });
  const work = { workers: 1, steps: 0, optimizer: { type: "adam" }, vocabCacheSize: 8, hostRows: 8 } as const;
  const used: number[] = [];
  for (let round = 0; round < 3; round++) {
    const { source } = await openSource(cluster.session, work, undefined, { arena });
    for (const [number, ids] of batchesOf(round, 5).entries()) {
      await step(source, arena, ids, number, [1, 2]);
      cluster.session.clock();
    }
    source.announce([3, 4]);
    await source.close();
    used.push(arena.usedBytes);
  }
  const plannerBytes = (used[1] as number) - (used[0] as number);
  assert.ok(plannerBytes <= 32_768, `${plannerBytes} bytes: the planners' owners alone`);
  assert.equal((used[2] as number) - (used[1] as number), plannerBytes);
});

test("what fails at one worker is told to all of them, and the step may be repeated (C2)", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2, servers: 2 });
  const shared = new MemoryCollectives([0, 1]);
  const work = { workers: 2, steps: 3, optimizer: { type: "adam" }, vocabCacheSize: 30 } as const;
  const { rows } = await plainRun(work);
  const opened = await Promise.all(cluster.sessions.map((session) => openSource(session, work, shared)));
  for (let number = 0; number < work.steps; number++) {
    const { arena } = opened[1] as (typeof opened)[number];
    const spans: number[] = [];
    for (let bytes = 16 * MIB; bytes >= 64; bytes /= 2) {
      for (let address = arena.tryAllocate(bytes); address !== 0; address = arena.tryAllocate(bytes)) spans.push(address, bytes);
    }
    const failed = await Promise.allSettled(opened.map(({ source }, rank) => source.take(batchesFor(work, rank)[number] as number[])));
    for (const one of failed) assert.ok(one.status === "rejected" && isWeighbridgeError(one.reason, "ARENA_FULL"), String(one.status));
    for (let i = 0; i < spans.length; i += 2) arena.release(spans[i] as number, spans[i + 1] as number);
    await Promise.all(opened.map(({ source, arena: own }, rank) => step(source, own, batchesFor(work, rank)[number] as number[], number)));
    for (const session of cluster.sessions) session.clock();
  }
  await Promise.all(opened.map(({ source }) => source.close()));
  assert.deepEqual((await stateOf(cluster.session)).rows, rows);
});

test("several tables of one worker take side by side", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2, servers: 2 });
  const shared = new MemoryCollectives([0, 1]);
  const work = { workers: 2, steps: 12, optimizer: { type: "adagrad" }, vocabCacheSize: 30 } as const;
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const arena = new Arena({ bytesMax: 64 * MIB });
      const members = new RowMembers(session.rank, new MemoryCollective(shared, session.rank));
      const sources: CachedRows[] = [];
      for (const name of ["e", "f"]) {
        const embedding = await session.embedding(name, tableOptions(work));
        sources.push(await CachedRows.open({ embedding, arena, vocabCacheSize: 30, idCountMax: IDS, members }));
      }
      for (const [number, ids] of batchesFor(work, session.rank).entries()) {
        await Promise.all(sources.map((source) => source.take(ids)));
        for (const source of sources) source.announce(batchesFor(work, session.rank)[number + 1] ?? []);
        await Promise.all(sources.map((source) => source.give(new Int32Array(0), new Float32Array(0))));
        session.clock();
      }
      await Promise.all(sources.map((source) => source.close()));
    }),
  );
});

test("when a worker dies the others write back, deal its rows out anew and go on; what it had not written is lost", async () => {
  const work = { workers: 3, steps: 0, optimizer: { type: "sgd", learningRate: 1 }, vocabCacheSize: 64 } as const;
  await using cluster = await EmbeddedCluster.start({ workers: 3, servers: 2 });
  const shared = new MemoryCollectives([0, 1, 2]);
  const opened = await Promise.all(cluster.sessions.map((session) => openSource(session, work, shared)));
  const ids = Array.from({ length: IDS }, (_, i) => i);
  const before = await (await openTable(cluster.session)).pull(ids);
  /** Everybody's gradient is 1 for all rows. */
  const all = (members: readonly (typeof opened)[number][]): Promise<unknown> =>
    Promise.all(
      members.map(async ({ source }) => {
        const slots = (await source.take(ids)).toSorted();
        await source.give(slots, new Float32Array(slots.length * WIDTH).fill(1));
      }),
    );
  await all(opened);
  await Promise.all(opened.map(({ source }) => source.flush()));
  await all(opened);
  const [first, second, third] = opened as [(typeof opened)[number], (typeof opened)[number], (typeof opened)[number]];
  const waiting = Promise.allSettled([first.source.take(ids), second.source.take(ids)]);
  shared.kill(2);
  for (const outcome of await waiting) assert.ok(outcome.status === "rejected" && isWeighbridgeError(outcome.reason, "NODE_DEAD"));
  shared.reform([0, 1]);
  await assert.rejects(first.source.take(ids), (error) => isWeighbridgeError(error, "ABORTED"), "not before its rows are dealt out anew");
  await Promise.all([first.source.reform(), second.source.reform()]);
  await all([first, second]);
  await assert.rejects(third.source.flush(), (error) => isWeighbridgeError(error, "FENCED"), "its rows belong to others now");
  await Promise.all([first.source.close(), second.source.close()]);
  const after = await (await openTable(cluster.session)).pull(ids, undefined);
  const steps = ids.map((_, i) => Math.round((before[i * WIDTH] as number) - (after[i * WIDTH] as number)));
  assert.deepEqual(new Set(steps), new Set([3 + 3 + 2, 3 + 2]), "rows of the dead worker lack the step after its flush, no row lacks more");
});

test("two workers over the session's own collective: the same bits, also after a reform", async () => {
  const work = { workers: 2, steps: 10, optimizer: { type: "adam" }, vocabCacheSize: 40, hostRows: 40 } as const;
  const { rows } = await plainRun(work);
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const collective = await session.collective();
      const { source, arena } = await openSource(session, work, undefined, { members: new RowMembers(session.rank, collective) });
      const batches = batchesFor(work, session.rank);
      for (const [number, ids] of batches.entries()) {
        if (number === 6) {
          await session.barrier();
          await collective.reform();
          await source.reform();
        }
        await step(source, arena, ids, number, number === 5 ? undefined : batches[number + 1]);
        session.clock();
      }
      await source.close();
      await session.barrier();
    }),
  );
  assert.deepEqual((await stateOf(cluster.session)).rows, rows);
});
