// table-parameter — Goal: pushes to rows count as they should, whatever comes in between: other workers, deaths, a full
// arena; and what is refused leaves no trace.

import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_PUSHES, type PushReport } from "../../consistency/push-counts.ts";
import { cachePush } from "../../contracts/cached-rows.ts";
import { clockAdvance, clockJoin } from "../../contracts/clocks.ts";
import { parameterConfigure } from "../../contracts/parameters.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../../contracts/rows.ts";
import { floatsOf, ParameterStage } from "../../testing/parameter-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";

const SYNC = { updates: "sync", staleness: 0 } as const;

type Push = { readonly rank?: number; readonly clock?: number; readonly scale?: number; readonly pushNumber?: number };

function push(stage: ParameterStage, parameter: number, keys: Iterable<bigint>, gradients: ArrayLike<number>, at: Push = {}) {
  const { rank = 0, clock = 0, scale = 1, pushNumber = stage.pushes(rank).next(parameter, clock) } = at;
  const request = { parameter, clock, pushNumber, scale, keys: BigUint64Array.from(keys), gradients: Float32Array.from(gradients) };
  return stage.call(rank, rowsPush, request);
}

async function pull(stage: ParameterStage, parameter: number, keys: Iterable<bigint>, { rank = 0, clock = 0 }: Push = {}) {
  return [...floatsOf((await stage.call(rank, rowsPull, { parameter, clock, keys: BigUint64Array.from(keys) })).values)];
}

function* keysFrom(first: number, count: number): Iterable<bigint> {
  for (let key = first; key < first + count; key++) yield BigInt(key);
}

test("async pushes make rows and apply on arrival, times their scale; a pull makes none", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 2, init: { type: "constant", value: 1 } });
  await push(stage, t, [2n ** 64n - 1n, 0n], [1, 2, 3, 4], { scale: 2 });
  assert.deepEqual(await pull(stage, t, [0n, 5n, 2n ** 64n - 1n]), [7, 9, 1, 1, 3, 5]);
  assert.equal(stage.parameters.table(t).store.rowCount, 2);
});

test("what makes no sense is refused and changes nothing (TableParameter.T1)", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 2, rows: 10, optimizer: { type: "lazyAdam" } });
  await assert.rejects(push(stage, t, [1n], [1]), throwsCode("VALUE_LENGTH"));
  await assert.rejects(push(stage, t, [], [1]), throwsCode("VALUE_LENGTH"));
  await assert.rejects(push(stage, t, [1n, 10n], [1, 1, 1, 1]), throwsCode("OUT_OF_RANGE"));
  await assert.rejects(push(stage, t, [2n ** 32n], [1, 1]), throwsCode("OUT_OF_RANGE"));
  await assert.rejects(push(stage, t, [1n, 2n], [1, 1, Infinity, 1]), throwsCode("NOT_FINITE"));
  await assert.rejects(push(stage, t, [1n], [1, 1], { scale: NaN }), throwsCode("NOT_FINITE"));
  await assert.rejects(pull(stage, t, [10n]), throwsCode("OUT_OF_RANGE"));
  assert.equal(stage.parameters.table(t).store.rowCount, 0);
  assert.equal(stage.parameters.table(t).step, 0);
});

test("a push and pull whose rows cannot be read has pushed nothing", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 22 });
  const t = stage.create({ kind: "table", width: 64, rows: 1000 });
  const common = {
    parameter: t,
    clock: 0,
    pushNumber: 2,
    scale: 1,
    pushKeys: BigUint64Array.of(1n),
    gradients: new Float32Array(64).fill(1),
  };
  await push(stage, t, [1n], new Float32Array(64).fill(1));
  await assert.rejects(stage.call(0, rowsPushPull, { ...common, pullKeys: BigUint64Array.of(1000n) }), throwsCode("OUT_OF_RANGE"));
  const pullKeys = BigUint64Array.from(keysFrom(0, 1000));
  const room = stage.arena.allocate(2 ** 15); // for the request, not for the answer
  const free = stage.fillArena();
  stage.arena.release(room, 2 ** 15);
  await assert.rejects(stage.call(0, rowsPushPull, { ...common, pullKeys }), throwsCode("ARENA_FULL"));
  free();
  assert.equal((await pull(stage, t, [1n]))[0], 1);
  assert.equal(floatsOf((await stage.call(0, rowsPushPull, { ...common, pullKeys })).values)[64], 2);
});

test("a push of several frames is one step, and one of no rows is none", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, optimizer: { type: "lazyAdam" } });
  await push(stage, t, [1n], [1]);
  await push(stage, t, [2n], [1], { pushNumber: 1 });
  await push(stage, t, [], []);
  assert.equal(stage.parameters.table(t).step, 1);
});

test("a push that was refused because its worker was no member is no step later, when the worker joins again; those before it are (PushCounts.C5)", async () => {
  const stage = new ParameterStage();
  const { pacer } = stage.parameters;
  const t = stage.create({ kind: "table", width: 1, optimizer: { type: "lazyAdam" } });
  const step = (): number => stage.parameters.table(t).step;
  const numbersUpTo = (number: number): PushReport => ({ ...NO_PUSHES, parameters: Uint32Array.of(t), numbers: Uint32Array.of(number) });
  await push(stage, t, [1n], [1], { pushNumber: 1 });
  pacer.died(stage.holder(0));
  await assert.rejects(push(stage, t, [1n], [1], { pushNumber: 3 }), throwsCode("NODE_DEAD")); // 2 had no row here
  await assert.rejects(push(stage, t, [2n], [1], { pushNumber: 3 }), throwsCode("NODE_DEAD")); // another frame of it
  pacer.revived(stage.holder(0));
  await assert.rejects(push(stage, t, [1n], [1], { pushNumber: 4 }), throwsCode("NOT_JOINED"));
  pacer.join(stage.holder(0), numbersUpTo(4));
  assert.equal(step(), 2);
  await push(stage, t, [1n], [1], { pushNumber: 5 });
  assert.equal(step(), 3);
  // A server that does not know the incarnation counts from the numbers that the join brings.
  const next = new ParameterStage({ workers: 1 });
  const made = next.create({ kind: "table", width: 1, optimizer: { type: "lazyAdam" } });
  await assert.rejects(push(next, made, [1n], [1], { rank: 1, pushNumber: 7 }), throwsCode("NOT_JOINED"));
  next.parameters.pacer.join(next.holder(1), numbersUpTo(7));
  await push(next, made, [1n], [1], { rank: 1, pushNumber: 8 });
  assert.equal(next.parameters.table(made).step, 1);
});

test("sync pushes are summed by key in rank order, whatever the order of arrival (TableParameter.T2)", async () => {
  const gradients = [1e8, 1, -1e8];
  const results = new Set<string>();
  for (const order of [
    [0, 1, 2],
    [2, 0, 1],
    [1, 2, 0],
  ]) {
    const stage = new ParameterStage({ workers: 3 });
    const t = stage.create({ kind: "table", width: 1, ...SYNC, optimizer: { type: "sgd", learningRate: 1 } });
    const counted = stage.create({ name: "counted", kind: "table", width: 1, ...SYNC, optimizer: { type: "lazyAdam" } });
    for (const rank of order) await push(stage, t, [7n, BigInt(rank)], [gradients[rank] as number, 1], { rank });
    for (const rank of order) await push(stage, counted, [7n], [1], { rank });
    assert.deepEqual(await pull(stage, t, [7n]), [0], "nothing counts before its round is complete");
    for (const rank of order) stage.advance(rank, 1);
    results.add((await pull(stage, t, [7n, 0n, 1n, 2n], { clock: 1 })).join());
    assert.deepEqual([stage.parameters.table(t).step, stage.parameters.table(counted).step], [0, 1], "only lazyAdam counts rounds");
  }
  assert.deepEqual([...results], [`${-Math.fround(Math.fround(1e8 + 1) - 1e8)},-1,-1,-1`.replace("-0,", "0,")]);
});

test("what one worker pushes at one clock is one contribution, however many frames; the mean is over workers", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, ...SYNC, reduce: "mean" });
  await push(stage, t, [1n, 2n], [1, 1]);
  await push(stage, t, [2n], [2], { scale: 2, pushNumber: 1 });
  await push(stage, t, [1n], [10], { rank: 1 });
  for (const rank of [0, 1]) stage.advance(rank, 1);
  assert.deepEqual(await pull(stage, t, [1n, 2n], { clock: 1 }), [11 / 2, 5 / 2]);
});

test("rows that are pushed to again and again within one clock take the memory of a few pushes", async () => {
  const stage = new ParameterStage({ workers: 2 });
  const t = stage.create({ kind: "table", width: 4, ...SYNC });
  const [keys, ones] = [[...keysFrom(0, 2000)], new Float32Array(8000).fill(1)];
  let usedMax = 0;
  for (let i = 1; i <= 100; i++) {
    await push(stage, t, keys, ones);
    if (i === 10) usedMax = stage.arena.usedBytes;
    assert.ok(i < 10 || stage.arena.usedBytes <= usedMax, `after ${i} pushes ${stage.arena.usedBytes}, after 10 ${usedMax}`);
  }
  await push(stage, t, keys, ones, { rank: 1 });
  stage.advance(0, 1);
  stage.advance(1, 1);
  assert.ok((await pull(stage, t, keys, { clock: 1 })).every((value) => value === 101));
});

test("what a worker pushed to a row within one clock is added up first, whenever that is done, and then to what others pushed (UpdateRounds.U3)", async () => {
  const bitsOf = async (filler: number): Promise<number[]> => {
    const stage = new ParameterStage({ workers: 2 });
    const t = stage.create({ kind: "table", width: 1, ...SYNC });
    await push(stage, t, [7n], [2 ** 24]);
    for (let i = 0; i < 5; i++) {
      await push(stage, t, [7n], [1], { rank: 1 });
      // makes it worth joining
      if (filler > 0) await push(stage, t, keysFrom(1000, filler), new Float32Array(filler), { rank: 1 });
    }
    stage.advance(0, 1);
    stage.advance(1, 1);
    return await pull(stage, t, [7n], { clock: 1 });
  };
  const expected = [Math.fround(2 ** 24 + 5)]; // one after the other they would all be rounded away
  assert.deepEqual(await bitsOf(0), expected);
  assert.deepEqual(await bitsOf(3000), expected);
});

test("rounds of several clocks wait side by side and apply in their order", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, ...SYNC, optimizer: { type: "assign" } });
  for (const clock of [0, 1, 2]) {
    await push(stage, t, keysFrom(0, 100), new Float32Array(100).fill(clock + 1), { clock });
    stage.advance(0, clock + 1);
  }
  stage.advance(1, 2);
  assert.deepEqual(await pull(stage, t, [99n], { clock: 2 }), [2]);
  stage.advance(1, 3);
  assert.deepEqual(await pull(stage, t, [99n], { clock: 3 }), [3]);
});

test("a worker that dies in a round is not part of it, and all memory of the round is free again", async () => {
  const stage = new ParameterStage({ workers: 3 });
  const t = stage.create({ kind: "table", width: 4, ...SYNC });
  for (const rank of [0, 1, 2]) await push(stage, t, keysFrom(0, 500), new Float32Array(2000), { rank });
  for (const rank of [0, 1, 2]) stage.advance(rank, 1); // the rows are there from now on
  const usedBytes = stage.arena.usedBytes;
  for (const rank of [0, 1, 2]) await push(stage, t, keysFrom(0, 500), new Float32Array(2000).fill(10 ** rank), { rank, clock: 1 });
  for (const rank of [0, 2]) stage.advance(rank, 2);
  const waiting = pull(stage, t, [499n], { clock: 2 });
  stage.parameters.pacer.died(stage.holder(1));
  assert.deepEqual(await waiting, [101, 101, 101, 101]);
  assert.equal(stage.arena.usedBytes, usedBytes);
  await push(stage, t, keysFrom(0, 10), new Float32Array(40), { clock: 2 });
  stage.parameters.pacer.died(stage.holder(0));
  assert.equal(stage.arena.usedBytes, usedBytes, "also of a round that nobody else is part of");
});

test("who pushed to other servers alone is one of those a mean is over, whoever dies and comes in between, and takes no memory", async () => {
  const stage = new ParameterStage({ workers: 4 });
  const t = stage.create({ kind: "table", width: 1, ...SYNC, reduce: "mean" });
  const counted = stage.create({ name: "counted", kind: "table", width: 1, ...SYNC, reduce: "mean", optimizer: { type: "lazyAdam" } });
  const elsewhere = (rank: number, clock = 0) => stage.pushes(rank).next(t, clock);
  await push(stage, t, keysFrom(0, 50), new Float32Array(50), { rank: 2 });
  await push(stage, counted, [1n], [1], { rank: 2 });
  for (const rank of [0, 1, 2, 3]) stage.advance(rank, 1); // the rows are there from now on
  const usedBytes = stage.arena.usedBytes;
  stage.pushes(0).next(counted, 1);
  elsewhere(0, 1);
  elsewhere(0, 1); // a second push of its own
  await push(stage, t, keysFrom(0, 50), new Float32Array(50).fill(1000), { rank: 1, clock: 1 });
  stage.parameters.pacer.died(stage.holder(1));
  await push(stage, t, keysFrom(0, 50), new Float32Array(50).fill(6), { rank: 2, clock: 1 });
  elsewhere(3, 1);
  await push(stage, t, [7n], [3], { rank: 3, clock: 1 }); // and then here, too
  for (const rank of [0, 2, 3]) stage.advance(rank, 2);
  assert.deepEqual(await pull(stage, t, [6n, 7n], { clock: 2 }), [2, 3]);
  elsewhere(0, 2);
  stage.pushes(0).next(counted, 2);
  for (const rank of [0, 2, 3]) stage.advance(rank, 3);
  assert.deepEqual(await pull(stage, t, [6n, 7n], { clock: 3 }), [2, 3]);
  assert.equal(stage.parameters.table(counted).step, 3, "a round of which no row is here is a step all the same");
  assert.equal(stage.arena.usedBytes, usedBytes);
});

test("a round that was taken applies in an arena without a free byte, however its frames were sized (TableParameter.T3)", async () => {
  for (const sizes of [[1024, 1024, 1024], [1, 1, 1, 1, 1], [700, 3, 2048], [4096]]) {
    const stage = new ParameterStage();
    const t = stage.create({ kind: "table", width: 4, ...SYNC, optimizer: { type: "adagrad", learningRate: 1 } });
    let first = 0;
    for (const size of sizes) {
      await push(stage, t, keysFrom(first, size), new Float32Array(4 * size).fill(2));
      await push(stage, t, keysFrom(first, size), new Float32Array(4 * size).fill(2), { rank: 1 });
      first += size;
    }
    const free = stage.fillArena();
    for (const rank of [0, 1]) stage.advance(rank, 1);
    free();
    const values = await pull(stage, t, keysFrom(0, first), { clock: 1 });
    assert.ok(
      values.every((value) => value === -1),
      `frames of ${sizes.join(", ")} rows`,
    );
  }
});

test("a full arena refuses rows that would have to wait, and what was gathered before counts", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 22 });
  const t = stage.create({ kind: "table", width: 16, ...SYNC });
  await push(stage, t, keysFrom(0, 2000), new Float32Array(32_000).fill(1));
  const frame = stage.arena.allocate(144_000); // for the request, not for what is kept of it
  const free = stage.fillArena();
  stage.arena.release(frame, 144_000);
  const usedBytes = stage.arena.usedBytes;
  await assert.rejects(push(stage, t, keysFrom(0, 2000), new Float32Array(32_000).fill(1), { rank: 1 }), throwsCode("ARENA_FULL"));
  await assert.rejects(push(stage, t, keysFrom(0, 2000), new Float32Array(32_000).fill(1), { clock: 3 }), throwsCode("ARENA_FULL"));
  assert.equal(stage.arena.usedBytes, usedBytes);
  for (const rank of [0, 1]) stage.advance(rank, 1);
  free();
  assert.deepEqual((await pull(stage, t, [1999n], { clock: 1 })).slice(0, 2), [1, 1]);
});

test("a read that waits keeps its keys, though its frame is gone", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, ...SYNC });
  await push(stage, t, [3n, 4n], [7, 8]);
  stage.advance(0, 1);
  const usedBytes = stage.arena.usedBytes;
  const waiting = pull(stage, t, [4n, 3n, 9n], { clock: 1 });
  assert.ok(stage.arena.usedBytes > usedBytes, "the keys are kept");
  stage.advance(1, 1);
  assert.deepEqual(await waiting, [8, 7, 0]);
});

test("a pull that waits fails when its table is cleared; one that was admitted just before has its rows; and nothing is left", async () => {
  const stage = new ParameterStage();
  const usedBytes = stage.arena.usedBytes;
  const t = stage.create({ kind: "table", width: 3, ...SYNC });
  await push(stage, t, keysFrom(0, 100), new Float32Array(300).fill(1));
  stage.advance(0, 1);
  const waiting = pull(stage, t, [1n], { clock: 1 });
  stage.clear(t);
  await assert.rejects(waiting, throwsCode("UNKNOWN_PARAMETER"));
  assert.equal(stage.arena.usedBytes, usedBytes);

  const again = stage.create({ kind: "table", width: 3, ...SYNC });
  await push(stage, again, keysFrom(0, 100), new Float32Array(300).fill(1), { rank: 1 });
  const admitted = pull(stage, again, [99n], { clock: 1 });
  stage.advance(1, 1); // admits it …
  stage.clear(again); // … and comes in the same turn
  assert.deepEqual(await admitted, [1, 1, 1]);
  assert.equal(stage.arena.usedBytes, usedBytes);
});

test("a table that could not be made leaves no memory behind", () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 20 });
  const usedBytes = stage.arena.usedBytes;
  assert.throws(() => stage.create({ kind: "table", width: 131_073 }), throwsCode("BAD_ARGUMENT"));
  assert.equal(stage.arena.usedBytes, usedBytes);
  const free = stage.fillArena(2 ** 15);
  assert.throws(() => stage.create({ kind: "table", width: 4 }), throwsCode("ARENA_FULL"));
  free();
  assert.equal(stage.arena.usedBytes, usedBytes);
});

test("a push whose outcome is no float32 leaves no row behind, and rows of other frames' keys as they were", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, init: { type: "constant", value: 3e38 } });
  await push(stage, t, [1n], [-1]);
  await assert.rejects(push(stage, t, [1n, 2n], [-1e38, 3e38]), throwsCode("NOT_FINITE"));
  assert.equal(stage.parameters.table(t).store.rowCount, 1);
  assert.deepEqual(await pull(stage, t, [1n]), [Math.fround(3e38)]);
  assert.equal(stage.parameters.table(t).nonFinite.refusedPushes, 1);
});

test("a server refuses what makes no sense for values: a mean, top-k, a scale, sums from a cache", async () => {
  const stage = new ParameterStage();
  for (const type of ["assign", "min", "max"] as const) {
    const common = { kind: "table", width: 1, name: type, optimizer: { type } } as const;
    assert.throws(() => stage.create({ ...common, updates: "sync", reduce: "mean" }), throwsCode("BAD_ARGUMENT"));
    assert.throws(() => stage.create({ kind: "tensor", shape: [2], optimizer: { type }, reduce: "mean" }), throwsCode("BAD_ARGUMENT"));
    const topK = { kind: "tensor", shape: [2], optimizer: { type }, link: { push: { topK: 0.5 } } } as const;
    assert.throws(() => stage.create(topK), throwsCode("BAD_ARGUMENT"));
    const t = stage.create({ ...common, versions: true });
    await assert.rejects(push(stage, t, [1n], [1], { scale: 0.5 }), throwsCode("BAD_REQUEST"));
    const sums = { pushKeys: BigUint64Array.of(1n), gradients: Float32Array.of(1), updates: Uint32Array.of(2) };
    await assert.rejects(stage.call(0, cachePush, { parameter: t, clock: 0, pushNumber: 1, scale: 1, ...sums }), throwsCode("UNSUPPORTED"));
    const mean = JSON.stringify({ updates: "sync", reduce: "mean", staleness: 0 });
    const change = { parameter: t, settings: "", clock: 5, turn: 1, consistency: mean };
    await assert.rejects(stage.call(0, parameterConfigure, change), throwsCode("BAD_ARGUMENT"));
    assert.equal(stage.parameters.table(t).store.rowCount, 0);
  }
});

test("what a clock message tells of pushes in columns of different lengths is refused, and changes nothing", async () => {
  const stage = new ParameterStage();
  const columns = { clocks: Uint32Array.of(0, 0), parameters: Uint32Array.of(1), numbers: Uint32Array.of(1) };
  await assert.rejects(stage.call(0, clockAdvance, { clock: 1, leaves: false, ...columns }), throwsCode("BAD_REQUEST"));
  await assert.rejects(stage.call(0, clockAdvance, { clock: 1, leaves: true, ...columns }), throwsCode("BAD_REQUEST"));
  await assert.rejects(stage.call(0, clockJoin, { ...columns, numbers: new Uint32Array(0) }), throwsCode("BAD_REQUEST"));
  assert.deepEqual(
    stage.parameters.pacer.members().map(({ clock }) => clock),
    [0, 0],
  );
});

test("a key of another owner is refused with its push or pull, before anything changes, wherever it stands in the list", async () => {
  for (const mode of [{}, SYNC, { optimizer: { type: "dcAsgd" } } as const]) {
    const stage = new ParameterStage();
    const t = stage.create({ kind: "table", width: 64, ...mode });
    stage.ownership.adopt({ epoch: 2, policy: "range", servers: [0, 1] }, 0);
    const all = [...keysFrom(0, 12_000)];
    const owned = all.filter((key) => stage.ownership.ownsKey(Number(key), 0));
    const foreign = all.find((key) => !stage.ownership.ownsKey(Number(key), 0)) as bigint;
    for (const [count, at] of [
      [1, 0],
      [300, 299],
      [5000, 4999],
      [5000, 0],
    ] as const) {
      const keys = owned.slice(0, count).with(at, foreign);
      await assert.rejects(push(stage, t, keys, new Float32Array(count * 64).fill(1)), throwsCode("WRONG_OWNER"));
      await assert.rejects(pull(stage, t, keys), throwsCode("WRONG_OWNER"));
      assert.equal(stage.parameters.table(t).store.rowCount, 0);
      assert.equal(stage.parameters.pacer.rounds.contributionCount, 0);
    }
    await push(stage, t, owned.slice(0, 5000), new Float32Array(5000 * 64).fill(1));
    assert.equal(stage.parameters.table(t).store.rowCount, 5000);
  }
});
