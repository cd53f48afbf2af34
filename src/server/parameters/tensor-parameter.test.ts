// tensor-parameter — Goal: pushes to a tensor count as they should, whatever comes in between: other workers, deaths, a
// full arena; and what is refused leaves no trace.

import assert from "node:assert/strict";
import { test } from "node:test";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../../contracts/tensors.ts";
import { ALL_ROWS, floatsOf, ParameterStage } from "../../testing/parameter-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";

const SYNC = { updates: "sync", staleness: 0 } as const;

type Push = { readonly rank?: number; readonly clock?: number; readonly block?: number; readonly scale?: number };

function push(stage: ParameterStage, parameter: number, gradients: readonly number[] | Float32Array, at: Push = {}) {
  const { rank = 0, clock = 0, block = 0, scale = 1 } = at;
  return stage.call(rank, tensorPush, {
    parameter,
    block,
    clock,
    pushNumber: stage.pushes(rank).next(parameter, clock),
    scale,
    rows: ALL_ROWS,
    gradients: Float32Array.from(gradients),
  });
}

function pushRows(stage: ParameterStage, parameter: number, rows: readonly number[], gradients: readonly number[], at: Push = {}) {
  const { rank = 0, clock = 0, block = 0, scale = 1 } = at;
  const pushNumber = stage.pushes(rank).next(parameter, clock);
  const request = { parameter, block, clock, pushNumber, scale, rows: Uint32Array.from(rows), gradients: Float32Array.from(gradients) };
  return stage.call(rank, tensorPush, request);
}

async function pull(stage: ParameterStage, parameter: number, { rank = 0, clock = 0, block = 0 }: Push = {}): Promise<number[]> {
  return [...floatsOf((await stage.call(rank, tensorPull, { parameter, block, clock, rows: ALL_ROWS })).values)];
}

test("async pushes apply on arrival, whole, by rows, and times their scale", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [3, 2], optimizer: { type: "sgd", learningRate: 0.5 } });
  await push(stage, w, [2, 2, 2, 2, 2, 2], { scale: 0.5 });
  await pushRows(stage, w, [2, 0], [4, 6, 8, 10], { rank: 1 });
  assert.deepEqual(await pull(stage, w), [-4.5, -5.5, -0.5, -0.5, -2.5, -3.5]);
});

test("what makes no sense is refused and changes nothing (TensorPushes.T1)", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [3, 2] });
  await assert.rejects(push(stage, w, [1, 1]), throwsCode("VALUE_LENGTH"));
  await assert.rejects(push(stage, w, [1], { block: 1 }), throwsCode("OUT_OF_RANGE"));
  await assert.rejects(push(stage, w, [1, 1, 1, 1, 1, NaN]), throwsCode("NOT_FINITE"));
  for (const scale of [NaN, Infinity]) await assert.rejects(push(stage, w, [1, 1, 1, 1, 1, 1], { scale }), throwsCode("NOT_FINITE"));
  await assert.rejects(pushRows(stage, w, [3], [1, 1]), throwsCode("OUT_OF_RANGE"));
  await assert.rejects(pushRows(stage, w, [0], [1, 1, 1]), throwsCode("VALUE_LENGTH"));
  await assert.rejects(pushRows(stage, w, [], [1, 1]), throwsCode("VALUE_LENGTH"));
  await assert.rejects(pushRows(stage, w, [0], [1, 1], { scale: NaN }), throwsCode("NOT_FINITE"));
  await assert.rejects(push(stage, 12_345, [1]), throwsCode("UNKNOWN_PARAMETER"));
  assert.deepEqual(await pull(stage, w), [0, 0, 0, 0, 0, 0]);
});

test("a push and pull whose rows cannot be read has pushed nothing", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 22 });
  const w = stage.create({ kind: "tensor", shape: [1000, 64] });
  const rows = Uint32Array.of(1);
  const common = { parameter: w, block: 0, clock: 0, pushNumber: 1, scale: 1, pushRows: rows, gradients: new Float32Array(64).fill(1) };
  await assert.rejects(stage.call(0, tensorPushPull, { ...common, pullRows: Uint32Array.of(1000) }), throwsCode("OUT_OF_RANGE"));
  await pull(stage, w);
  const pullRows = Uint32Array.from({ length: 1000 }, (_, i) => i);
  const request = { ...common, pullRows };
  const placed = stage.arena.allocate(2 ** 14); // leaves room for the request, and none for the answer
  const free = stage.fillArena();
  stage.arena.release(placed, 2 ** 14);
  await assert.rejects(stage.call(0, tensorPushPull, request), throwsCode("ARENA_FULL"));
  free();
  assert.equal((await pull(stage, w))[64], 0);
  assert.equal(floatsOf((await stage.call(0, tensorPushPull, request)).values)[64], 1);
});

test("a push that names no rows is for the whole block: gradients for none are refused, and are no step, alone or with a pull", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [4], optimizer: { type: "adam" } });
  await assert.rejects(pushRows(stage, w, [], []), throwsCode("VALUE_LENGTH"));
  const nothing = { pushRows: ALL_ROWS, gradients: new Float32Array(0), pullRows: ALL_ROWS };
  const request = { parameter: w, block: 0, clock: 0, pushNumber: 1, scale: 1, ...nothing };
  await assert.rejects(stage.call(0, tensorPushPull, request), throwsCode("VALUE_LENGTH"));
  assert.deepEqual(await pull(stage, w), [0, 0, 0, 0]);
  assert.equal(stage.parameters.tensor(w).store.block(0).step, 0);
});

test("sync pushes wait for everybody and are added in rank order, whatever the order of arrival (TensorPushes.T2)", async () => {
  const gradients = [[1e8], [1], [-1e8]] as const;
  const results = new Set<number>();
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
  ]) {
    const stage = new ParameterStage({ workers: 3 });
    const w = stage.create({ kind: "tensor", shape: [1], ...SYNC });
    for (const rank of order) await push(stage, w, gradients[rank] ?? [], { rank });
    assert.deepEqual(await pull(stage, w), [0], "nothing counts before its round is complete");
    for (const rank of order) stage.advance(rank, 1);
    results.add((await pull(stage, w, { clock: 1 }))[0] as number);
  }
  assert.deepEqual([...results], [Math.fround(Math.fround(1e8 + 1) - 1e8)]);
});

test("what one worker pushes at one clock is one contribution, rows included; the mean is over workers", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [2, 1], ...SYNC, reduce: "mean" });
  await push(stage, w, [1, 1]);
  await push(stage, w, [2, 2], { scale: 0.5 });
  await pushRows(stage, w, [1], [6]);
  await pushRows(stage, w, [0], [4], { rank: 1, scale: 2 });
  for (const rank of [0, 1]) stage.advance(rank, 1);
  assert.deepEqual(await pull(stage, w, { clock: 1 }), [(2 + 8) / 2, 8 / 2]);
});

test("rows that nobody named in a round stay as they are, whatever the optimizer makes of the others, read or not meanwhile (TensorPushes.T4)", async () => {
  const optimizers = [
    { type: "assign" },
    { type: "min" },
    { type: "sgd", learningRate: 1, weightDecay: 0.5 },
    { type: "momentum", learningRate: 1 },
    { type: "rowWiseAdagrad", learningRate: 1, weightDecay: 0.5 },
    { type: "adamW", learningRate: 1, weightDecay: 0.5 },
    { type: "dcAsgd", learningRate: 1, weightDecay: 0.5 },
  ] as const;
  for (const optimizer of optimizers) {
    const stage = new ParameterStage();
    const init = { type: "constant", value: 5 } as const;
    const sync = stage.create({ kind: "tensor", name: "sync", shape: [5, 2], init, optimizer, ...SYNC });
    const async = stage.create({ kind: "tensor", name: "async", shape: [5, 2], init, optimizer });
    for (let clock = 0; clock < 3; clock++) {
      await pushRows(stage, sync, [3, 1], [3, 3, 1, 1], { clock });
      await pushRows(stage, sync, [1], [2, 2], { clock, rank: 1 });
      await pull(stage, async, { clock }); // a round is not late, and neither is who has just pulled
      const both = optimizer.type === "assign" ? 2 : optimizer.type === "min" ? 1 : 3;
      await pushRows(stage, async, [1, 3], [both, both, 3, 3], { clock });
      const held = clock === 1 ? stage.parameters.tensor(sync).store.hold(0) : undefined;
      for (const rank of [0, 1]) stage.advance(rank, clock + 1);
      held?.release();
    }
    assert.deepEqual(await pull(stage, sync, { clock: 3 }), await pull(stage, async, { clock: 3 }), optimizer.type);
    await push(stage, sync, new Float32Array(10).fill(1), { clock: 3 });
    await pushRows(stage, sync, [0], [1, 1], { clock: 3, rank: 1 });
    const both = optimizer.type === "assign" || optimizer.type === "min" ? 1 : 2;
    await push(stage, async, [both, both, 1, 1, 1, 1, 1, 1, 1, 1], { clock: 3 });
    for (const rank of [0, 1]) stage.advance(rank, 4);
    assert.deepEqual(await pull(stage, sync, { clock: 4 }), await pull(stage, async, { clock: 4 }), `${optimizer.type}, one of all rows`);
  }
});

test("DC-ASGD compares with the rows that a worker saw, whether it pulled them or the whole tensor", async () => {
  const results: (readonly number[])[] = [];
  for (const sees of ["rows", "all"] as const) {
    const stage = new ParameterStage();
    const w = stage.create({ kind: "tensor", shape: [3, 1], optimizer: { type: "dcAsgd", learningRate: 0.5 } });
    await push(stage, w, [1, 1, 1]);
    await push(stage, w, [2, 2, 2], { rank: 1 });
    if (sees === "all") await pull(stage, w);
    else await stage.call(0, tensorPull, { parameter: w, block: 0, clock: 0, rows: Uint32Array.of(2, 0) });
    await push(stage, w, [1, 1, 1]);
    results.push(await pull(stage, w));
  }
  const [[first, unseen, last] = [], all = []] = results;
  assert.deepEqual([first, last], [all[0], all[2]]);
  assert.notEqual(unseen, all[1]);
});

test("a worker that dies in a round is not part of it, and the memory it took is free again", async () => {
  const stage = new ParameterStage({ workers: 3 });
  const w = stage.create({ kind: "tensor", shape: [100], ...SYNC });
  await pull(stage, w);
  const usedBytes = stage.arena.usedBytes;
  for (const rank of [0, 1, 2]) await push(stage, w, new Float32Array(100).fill(10 ** rank), { rank });
  for (const rank of [0, 2]) stage.advance(rank, 1);
  const waiting = pull(stage, w, { clock: 1 });
  stage.parameters.pacer.died(stage.holder(1));
  assert.equal((await waiting)[99], 101);
  assert.equal(stage.arena.usedBytes, usedBytes);
  await assert.rejects(push(stage, w, new Float32Array(100), { rank: 1, clock: 1 }), throwsCode("NODE_DEAD"));
});

test("an update of a clock that its worker has passed is refused", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [1], ...SYNC });
  stage.advance(0, 2);
  await assert.rejects(push(stage, w, [1], { clock: 1 }), throwsCode("STALE_UPDATE"));
});

test("a full arena refuses a gradient that would have to wait, and applies the rounds that it took (TensorPushes.T3)", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 22 });
  const w = stage.create({ kind: "tensor", shape: [10_000], ...SYNC, optimizer: { type: "momentum", learningRate: 1, momentum: 0.5 } });
  const ones = new Float32Array(10_000).fill(1);
  await push(stage, w, ones);
  const frame = stage.arena.allocate(ones.byteLength); // what the frame of a request takes
  const free = stage.fillArena();
  stage.arena.release(frame, ones.byteLength);
  await assert.rejects(push(stage, w, ones, { rank: 1 }), throwsCode("ARENA_FULL"));
  const held = stage.parameters.tensor(w).store.hold(0); // a socket writes from it: the update needs another place
  for (const rank of [0, 1]) stage.advance(rank, 1);
  assert.equal(held.values[0], 0);
  held.release();
  free();
  assert.equal((await pull(stage, w, { clock: 1 }))[9_999], -1);
});

test("a read that waits keeps its rows, though its frame is gone, and reads when it is admitted", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [5, 2], ...SYNC });
  await pushRows(stage, w, [3], [7, 8]);
  stage.advance(0, 1);
  const usedBytes = stage.arena.usedBytes;
  const waiting = stage.call(0, tensorPull, { parameter: w, block: 0, clock: 1, rows: Uint32Array.of(4, 3, 3) });
  assert.ok(stage.arena.usedBytes > usedBytes, "the rows are kept");
  stage.advance(1, 1);
  assert.deepEqual([...floatsOf((await waiting).values)], [0, 0, 7, 8, 7, 8]);
});

test("a pull that waits fails when its parameter is cleared, also in the same moment that admits it, and nothing is left", async () => {
  const stage = new ParameterStage();
  const usedBytes = stage.arena.usedBytes;
  const w = stage.create({ kind: "tensor", shape: [5, 2], ...SYNC });
  await push(stage, w, new Float32Array(10).fill(1));
  stage.advance(0, 1);
  const rows = stage.call(0, tensorPull, { parameter: w, block: 0, clock: 1, rows: Uint32Array.of(4) });
  stage.clear(w);
  await assert.rejects(rows, throwsCode("UNKNOWN_PARAMETER"));
  assert.equal(stage.arena.usedBytes, usedBytes);

  const again = stage.create({ kind: "tensor", shape: [5, 2], ...SYNC });
  await push(stage, again, new Float32Array(10).fill(1), { rank: 1 });
  const admitted = pull(stage, again, { clock: 1 });
  const admittedRows = stage.call(0, tensorPull, { parameter: again, block: 0, clock: 1, rows: Uint32Array.of(4) });
  stage.advance(1, 1); // admits them …
  stage.clear(again); // … and comes in the same turn
  assert.deepEqual(await admitted, new Array(10).fill(1));
  assert.deepEqual([...floatsOf((await admittedRows).values)], [1, 1]);
  assert.equal(stage.arena.usedBytes, usedBytes);
});

test("pushPull gives the values right after the push, and made again those of now, without a second push", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [2] });
  const request = {
    parameter: w,
    block: 0,
    clock: 0,
    pushNumber: 1,
    scale: 1,
    pushRows: ALL_ROWS,
    gradients: Float32Array.of(1, 2),
    pullRows: ALL_ROWS,
  };
  assert.deepEqual([...floatsOf((await stage.call(0, tensorPushPull, request)).values)], [1, 2]);
  assert.deepEqual([...floatsOf((await stage.call(0, tensorPushPull, request, { again: true })).values)], [1, 2]);
});

test("a tensor that could not be made leaves no memory behind", () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 20 });
  const recipe = stage.arena.allocate(64);
  const usedBytes = stage.arena.usedBytes - 64;
  const free = stage.fillArena();
  stage.arena.release(recipe, 64);
  for (let i = 0; i < 3; i++) assert.throws(() => stage.create({ kind: "tensor", shape: [4] }), throwsCode("ARENA_FULL"));
  free();
  assert.equal(stage.arena.usedBytes, usedBytes);
});

const start = (stage: ParameterStage, parameter: number, values: readonly number[], rank = 0) =>
  stage.call(rank, tensorStart, { parameter, block: 0, values: Float32Array.from(values) });

test("a tensor begins with the values that came first, its optimizer with them, whoever has read it before", async () => {
  const stage = new ParameterStage();
  for (const type of ["sgd", "momentum", "adam", "dcAsgd"] as const) {
    const init = { type: "constant", value: 3 } as const;
    const given = stage.create({ kind: "tensor", name: `${type} given`, shape: [2], optimizer: { type, learningRate: 0.5 } });
    const drawn = stage.create({ kind: "tensor", name: `${type} drawn`, shape: [2], init, optimizer: { type, learningRate: 0.5 } });
    assert.deepEqual(await pull(stage, given), [0, 0]);
    assert.deepEqual(await start(stage, given, [3, 3]), { isTaken: true });
    assert.deepEqual(await start(stage, given, [9, 9], 1), { isTaken: false });
    for (const parameter of [given, drawn]) await push(stage, parameter, [1, -2]);
    assert.deepEqual(await pull(stage, given), await pull(stage, drawn), type);
  }
});

test("a tensor that anybody has pushed to is not started any more, though its first round is still open", async () => {
  const stage = new ParameterStage();
  const later = stage.create({ kind: "tensor", name: "async", shape: [1] });
  await push(stage, later, [1]);
  assert.deepEqual(await start(stage, later, [5]), { isTaken: false });
  assert.deepEqual(await pull(stage, later), [1]);
  const open = stage.create({ kind: "tensor", name: "sync", shape: [1], ...SYNC });
  await push(stage, open, [1]);
  assert.deepEqual(await start(stage, open, [5]), { isTaken: false });
  assert.deepEqual(await pull(stage, open), [0]);
});

test("a tensor begins with no NaN and no other number of values, and what a reader holds stays as it was", async () => {
  const stage = new ParameterStage();
  const w = stage.create({ kind: "tensor", shape: [2] });
  await assert.rejects(start(stage, w, [1, NaN]), throwsCode("NOT_FINITE"));
  await assert.rejects(start(stage, w, [1]), throwsCode("VALUE_LENGTH"));
  const held = stage.parameters.tensor(w).store.hold(0);
  assert.deepEqual(await start(stage, w, [1, 2]), { isTaken: true });
  assert.deepEqual([...held.values], [0, 0]);
  held.release();
  assert.deepEqual(await pull(stage, w), [1, 2]);
});

test("an update that comes to no float32 leaves a block as it was, also one that is being sent meanwhile, async and in a round", async () => {
  for (const nonFinite of ["refuse", "skip"] as const) {
    const stage = new ParameterStage();
    const optimizer = { type: "adagrad", learningRate: 1, nonFinite } as const;
    const async = stage.create({ kind: "tensor", name: "async", shape: [2], optimizer });
    const sync = stage.create({ kind: "tensor", name: "sync", shape: [2], optimizer, ...SYNC });
    const twin = stage.create({ kind: "tensor", name: "twin", shape: [2], optimizer });
    for (const w of [async, sync, twin]) await push(stage, w, [1, 2]);
    for (const rank of [0, 1]) stage.advance(rank, 1);
    const held = [async, sync].map((w) => stage.parameters.tensor(w).store.hold(0));
    const huge = push(stage, async, [1, 3e38], { clock: 1 });
    await (nonFinite === "refuse" ? assert.rejects(huge, throwsCode("NOT_FINITE")) : huge);
    await push(stage, sync, [1, 3e38], { clock: 1 });
    for (const rank of [0, 1]) stage.advance(rank, 2);
    for (const one of held) one.release();
    const before = stage.arena.usedBytes;
    for (const w of [async, sync, twin]) await push(stage, w, [1, 2], { clock: 2 });
    for (const rank of [0, 1]) stage.advance(rank, 3);
    const expected = await pull(stage, twin, { clock: 3 });
    for (const w of [async, sync]) assert.deepEqual(await pull(stage, w, { clock: 3 }), expected, nonFinite);
    assert.equal(stage.arena.usedBytes, before);
    const counts = nonFinite === "refuse" ? [1, 0] : [0, 1];
    for (const w of [async, sync]) {
      const { refusedPushes, skippedPushes } = stage.parameters.tensor(w).nonFinite;
      assert.deepEqual([refusedPushes, skippedPushes], counts);
    }
  }
});
