// Goal: what goes wrong with cached rows loses nothing that is not said to be lost, is told to everybody it concerns,
// and hangs nobody.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../src/base/errors.ts";
import { TieredRows } from "../../src/faces/training/tiered-rows.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import { MemoryCollectives } from "../../src/testing/memory-collective.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { batchesFor, batchesOf, IDS, MIB, openSource, openTable, plainRun, stateOf, step, tableOptions, WIDTH } from "./tiered-row-runs.ts";

test("what its optimizer refuses is told to who gave it; the others' gradients count", async () => {
  const work = { workers: 2, steps: 1, optimizer: { type: "sgd", learningRate: 1 }, vocabCacheSize: 10 } as const;
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const shared = new MemoryCollectives([0, 1]);
  const sources = await Promise.all(cluster.sessions.map((session) => openSource(session, work, { shared })));
  const slots = await Promise.all(sources.map(({ source }) => source.acquire([7])));
  const gradients = [new Float32Array(WIDTH).fill(Number.NaN), new Float32Array(WIDTH).fill(1)];
  const before = await (await cluster.session.embedding("e", tableOptions(work))).pull([7]);
  const [refused, taken] = await Promise.allSettled(
    sources.map(({ source }, i) => source.push(slots[i] as Int32Array, gradients[i] as Float32Array)),
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
  const rejects = (promise: Promise<unknown>, code: ErrorCode): Promise<void> => assert.rejects(promise, throwsCode(code));
  for (const bad of [{ vocabCacheSize: 0 }, { hostRows: -1 }, { idCountMax: 0.5 }, { flushEverySteps: 0 }])
    await rejects(openSource(cluster.session, work, bad), "BAD_ARGUMENT");
  const asp = await cluster.session.embedding("asp", { ...tableOptions(work), consistency: "asp" });
  await rejects(TieredRows.open({ embedding: asp, arena: new Arena({ bytesMax: MIB }), vocabCacheSize: 1, idCountMax: 1 }), "UNSUPPORTED");
  const { source } = await openSource(cluster.session, work);
  await rejects(source.push(new Int32Array(0), new Float32Array(0)), "BAD_ARGUMENT"); // nothing was taken
  await rejects(source.acquire(new Array(IDS + 1).fill(1)), "BAD_ARGUMENT");
  const [slot] = await source.acquire([5]);
  await rejects(source.push(Int32Array.of((slot as number) + 1), new Float32Array(WIDTH)), "BAD_ARGUMENT");
  await rejects(source.push(Int32Array.of(slot as number), new Float32Array(1)), "VALUE_LENGTH");
  await source.push(Int32Array.of(slot as number), new Float32Array(WIDTH));
  await rejects(source.push(Int32Array.of(slot as number), new Float32Array(WIDTH)), "BAD_ARGUMENT"); // twice
  await source.close();
  await rejects(source.acquire([1]), "CLOSED");
  await source.close();
});

test("a cache that the arena has no room for is refused, and takes none", async () => {
  await using cluster = await EmbeddedCluster.start();
  const arena = new Arena({ bytesMax: 4 * MIB });
  const work = { workers: 1, steps: 0, optimizer: { type: "adam" }, vocabCacheSize: 20_000 } as const;
  await assert.rejects(openSource(cluster.session, work, { arena }), throwsCode("ARENA_FULL"));
  const { source } = await openSource(cluster.session, { ...work, vocabCacheSize: 2000 }, { arena });
  assert.equal((await source.acquire([1])).length, 1);
  await source.close();
});

test("opening, using and closing gives all memory back", async () => {
  await using cluster = await EmbeddedCluster.start();
  const arena = new Arena({ bytesMax: 64 * MIB });
  const work = { workers: 1, steps: 0, optimizer: { type: "adam" }, vocabCacheSize: 8, hostRows: 8 } as const;
  const used: number[] = [];
  for (let round = 0; round < 3; round++) {
    const { source } = await openSource(cluster.session, work, { arena });
    for (const [number, ids] of batchesOf(round, 5).entries()) {
      await step(source, arena, ids, number, [1, 2]);
      cluster.session.clock();
    }
    source.prefetch([3, 4]);
    await source.close();
    used.push(arena.usedBytes);
  }
  const plannerBytes = (used[1] as number) - (used[0] as number);
  assert.ok(plannerBytes <= 32_768, `${plannerBytes} bytes: the planners' owners alone`);
  assert.equal((used[2] as number) - (used[1] as number), plannerBytes);
});

test("what fails at one worker is told to all of them, and the step may be repeated (TieredRows.C2)", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2, servers: 2 });
  const shared = new MemoryCollectives([0, 1]);
  const work = { workers: 2, steps: 3, optimizer: { type: "adam" }, vocabCacheSize: 30 } as const;
  const { rows } = await plainRun(work);
  const opened = await Promise.all(cluster.sessions.map((session) => openSource(session, work, { shared })));
  for (let number = 0; number < work.steps; number++) {
    const { arena } = opened[1] as (typeof opened)[number];
    const spans: number[] = [];
    for (let bytes = 16 * MIB; bytes >= 64; bytes /= 2) {
      for (let address = arena.tryAllocate(bytes); address !== 0; address = arena.tryAllocate(bytes)) spans.push(address, bytes);
    }
    const failed = await Promise.allSettled(opened.map(({ source }, rank) => source.acquire(batchesFor(work, rank)[number] as number[])));
    for (const one of failed) assert.ok(one.status === "rejected" && isWeighbridgeError(one.reason, "ARENA_FULL"), String(one.status));
    for (let i = 0; i < spans.length; i += 2) arena.release(spans[i] as number, spans[i + 1] as number);
    await Promise.all(opened.map(({ source, arena: own }, rank) => step(source, own, batchesFor(work, rank)[number] as number[], number)));
    for (const session of cluster.sessions) session.clock();
  }
  await Promise.all(opened.map(({ source }) => source.close()));
  assert.deepEqual((await stateOf(cluster.session)).rows, rows);
});

test("when a worker dies the others write back, deal its rows out anew and go on; what it had not written is lost", async () => {
  const work = { workers: 3, steps: 0, optimizer: { type: "sgd", learningRate: 1 }, vocabCacheSize: 64 } as const;
  await using cluster = await EmbeddedCluster.start({ workers: 3, servers: 2 });
  const shared = new MemoryCollectives([0, 1, 2]);
  const opened = await Promise.all(cluster.sessions.map((session) => openSource(session, work, { shared })));
  const ids = Array.from({ length: IDS }, (_, i) => i);
  const before = await (await openTable(cluster.session)).pull(ids);
  /** Everybody's gradient is 1 for all rows. */
  const all = (members: readonly (typeof opened)[number][]): Promise<unknown> =>
    Promise.all(
      members.map(async ({ source }) => {
        const slots = (await source.acquire(ids)).toSorted();
        await source.push(slots, new Float32Array(slots.length * WIDTH).fill(1));
      }),
    );
  await all(opened);
  await Promise.all(opened.map(({ source }) => source.flush()));
  await all(opened);
  const [first, second, third] = opened as [(typeof opened)[number], (typeof opened)[number], (typeof opened)[number]];
  const waiting = Promise.allSettled([first.source.acquire(ids), second.source.acquire(ids)]);
  shared.kill(2);
  for (const outcome of await waiting) assert.ok(outcome.status === "rejected" && isWeighbridgeError(outcome.reason, "NODE_DEAD"));
  shared.reform([0, 1]);
  await assert.rejects(first.source.acquire(ids), throwsCode("ABORTED"), "not before its rows are assigned anew");
  await Promise.all([first.source.reform(), second.source.reform()]);
  await all([first, second]);
  await assert.rejects(third.source.flush(), throwsCode("FENCED"), "its rows belong to others now");
  await Promise.all([first.source.close(), second.source.close()]);
  const after = await (await openTable(cluster.session)).pull(ids);
  const steps = ids.map((_, i) => Math.round((before[i * WIDTH] as number) - (after[i * WIDTH] as number)));
  assert.deepEqual(new Set(steps), new Set([3 + 3 + 2, 3 + 2]), "rows of the dead worker lack the step after its flush, no row lacks more");
});
