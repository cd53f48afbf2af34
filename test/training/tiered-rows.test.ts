// Goal: rows that workers hold and update themselves are, bit for bit, those that the servers would have made, however
// small the cache is and however many workers share it. What goes wrong on the way is tiered-rows-failures.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENT_LOG } from "../../src/base/log.ts";
import { RowMembers } from "../../src/faces/training/row-members.ts";
import { NO_SLOT } from "../../src/faces/training/row-source.ts";
import { TieredRows } from "../../src/faces/training/tiered-rows.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { MemoryCollective, MemoryCollectives } from "../../src/testing/memory-collective.ts";
import {
  type Batches,
  batchesFor,
  batchesOf,
  type CachedWork,
  cachedRun,
  IDS,
  MIB,
  openSource,
  plainRun,
  stateOf,
  step,
  tableOptions,
  type Work,
} from "./tiered-row-runs.ts";

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
      assert.equal(steps[0] === 0, optimizer.type !== "lazyAdam", "only lazyAdam counts the steps of a table");
      const { deviceHits, hostHits, serverReads, swappedOut, writtenBack } = (cached.sources[0] as TieredRows).statistics;
      for (const count of [deviceHits, hostHits, serverReads, swappedOut, writtenBack]) assert.ok(count > 0);
    });
  }
}

test("nobody prefetches, some do, or they prefetch what does not come: the bits are the same", async () => {
  const work = { workers: 2, optimizer: { type: "adam" }, steps: 12, vocabCacheSize: 50, hostRows: 50 } as const;
  const { rows } = await plainRun(work);
  const hints: NonNullable<CachedWork["prefetched"]>[] = [
    () => undefined,
    (rank, number, batches) => (rank === 0 ? batches[number + 1] : undefined),
    (rank, number, batches) => ((rank + number) % 3 === 0 ? [1, 2, 3] : batches[number + 1]),
  ];
  for (const prefetched of hints) assert.deepEqual((await cachedRun({ ...work, prefetched })).rows, rows);
});

test("a mean over workers counts all who gave rows, on whichever server these lie, as the servers do", async () => {
  const batches = (rank: number): Batches => batchesOf(500 + rank, 15, 4);
  const work: Work = {
    workers: 3,
    servers: 3,
    steps: 15,
    optimizer: { type: "lazyAdam" },
    consistency: { bsp: true, reduce: "mean" },
    batches,
  };
  const { rows, steps } = await plainRun(work);
  const cached = await cachedRun({ ...work, vocabCacheSize: 20 });
  assert.deepEqual(cached.rows, rows);
  assert.deepEqual(cached.steps, steps);
  assert.ok((steps[0] as number) > 0);
  assert.equal(new Set(steps).size, 1, "every server counts every round");
  assert.deepEqual((await plainRun({ ...work, servers: 1 })).rows, rows, "as with one server");
  const momentum = { ...work, optimizer: { type: "momentum" } } as const;
  assert.deepEqual((await cachedRun({ ...momentum, vocabCacheSize: 20 })).rows, (await plainRun(momentum)).rows);
});

test("gradients are clipped as a push of them would be", async () => {
  const optimizer = { type: "adagrad", learningRate: 0.1, clipNorm: 0.7, clipValue: 0.2 } as const;
  const work = { workers: 2, steps: 10, optimizer };
  const { rows } = await plainRun(work);
  assert.deepEqual((await cachedRun({ ...work, vocabCacheSize: 40 })).rows, rows);
});

for (const hostRows of [0, 3, 400]) {
  test(`a batch larger than the cache, with ${hostRows} rows on the host, is served directly, and told once (TieredRows.C3)`, async () => {
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
  const { source, arena } = await openSource(cluster.session, work, { log });
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

test("ids of a table without a fixed size go up to 2^53", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const embedding = await cluster.session.embedding("u", { dim: 1, optimizer: { type: "sgd", learningRate: 1 }, consistency: "bsp" });
  const arena = new Arena({ bytesMax: 4 * MIB });
  const source = await TieredRows.open({ embedding, arena, vocabCacheSize: 2, hostRows: 1, idCountMax: 8 });
  const ids = [2 ** 53 - 2, 2 ** 32, 0, 2 ** 32 + 1, -1, 0.5, 2 ** 32];
  const slots = await source.acquire(ids);
  assert.deepEqual([slots[1] === slots[6], slots[4], slots[5]], [true, NO_SLOT, NO_SLOT]);
  assert.equal(new Set(slots).size, 5);
  const distinct = new Int32Array(new Set(slots.filter((slot) => slot !== NO_SLOT))).sort();
  await source.push(
    distinct,
    Float32Array.from(distinct, () => -1),
  );
  cluster.session.clock();
  await source.close();
  assert.deepEqual([...(await embedding.pull([2 ** 53 - 2, 2 ** 32, 0, 2 ** 32 + 1, 1]))], [1, 1, 1, 1, 0]);
});

test("several tables of one worker take side by side", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2, servers: 2 });
  const shared = new MemoryCollectives([0, 1]);
  const work = { workers: 2, steps: 12, optimizer: { type: "adagrad" }, vocabCacheSize: 30 } as const;
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const arena = new Arena({ bytesMax: 64 * MIB });
      const members = new RowMembers(session.rank, new MemoryCollective(shared, session.rank));
      const sources: TieredRows[] = [];
      for (const name of ["e", "f"]) {
        const embedding = await session.embedding(name, tableOptions(work));
        sources.push(await TieredRows.open({ embedding, arena, vocabCacheSize: 30, idCountMax: IDS, members }));
      }
      for (const [number, ids] of batchesFor(work, session.rank).entries()) {
        await Promise.all(sources.map((source) => source.acquire(ids)));
        for (const source of sources) source.prefetch(batchesFor(work, session.rank)[number + 1] ?? []);
        await Promise.all(sources.map((source) => source.push(new Int32Array(0), new Float32Array(0))));
        session.clock();
      }
      await Promise.all(sources.map((source) => source.close()));
    }),
  );
});

test("two workers over the session's own collective: the same bits, also after a reform", async () => {
  const work = { workers: 2, steps: 10, optimizer: { type: "adam" }, vocabCacheSize: 40, hostRows: 40 } as const;
  const { rows } = await plainRun(work);
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const collective = await session.collective();
      const { source, arena } = await openSource(session, work, { members: new RowMembers(session.rank, collective) });
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
