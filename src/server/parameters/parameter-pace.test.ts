// parameter-pace — Goal: when a parameter's consistency changes, every update follows that of its clock, once, tensors
// and tables alike; and reads wait no longer than the bound of theirs asks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parameterConfigure, parameterState } from "../../contracts/parameters.ts";
import { rawRowsClaim } from "../../contracts/raw-values.ts";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import { tensorPull, tensorPush } from "../../contracts/tensors.ts";
import { ALL_ROWS, floatsOf, ParameterStage, type StageSpec } from "../../testing/parameter-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";

const BSP = { updates: "sync", reduce: "sum", staleness: 0 } as const;
const MEAN = { updates: "sync", reduce: "mean", staleness: 0 } as const;
const SSP = { updates: "async", reduce: "sum", staleness: 3 } as const;
const ASP = { updates: "async", reduce: "sum", staleness: "any" } as const;
type Mode = typeof BSP | typeof MEAN | typeof SSP | typeof ASP;

/** One number, as a tensor and as a row of a table. */
class OneNumber {
  readonly stage: ParameterStage;
  readonly parameter: number;
  readonly #kind: "tensor" | "table";
  #turn = 0;

  constructor(kind: "tensor" | "table", mode: Omit<StageSpec, "kind">, workers = 2) {
    this.#kind = kind;
    this.stage = new ParameterStage({ workers });
    const shape = kind === "tensor" ? ({ kind, shape: [1] } as const) : ({ kind, width: 1 } as const);
    this.parameter = this.stage.create({ ...shape, ...mode });
  }

  async push(rank: number, clock: number, value: number): Promise<void> {
    const { stage, parameter } = this;
    const gradients = Float32Array.of(value);
    const pushNumber = stage.pushes(rank).next(parameter, clock);
    if (this.#kind === "tensor")
      await stage.call(rank, tensorPush, { parameter, block: 0, clock, pushNumber, scale: 1, rows: ALL_ROWS, gradients });
    else await stage.call(rank, rowsPush, { parameter, clock, pushNumber, scale: 1, keys: BigUint64Array.of(7n), gradients });
  }

  async pull(rank: number, clock: number): Promise<number> {
    const { stage, parameter } = this;
    if (this.#kind === "tensor")
      return floatsOf((await stage.call(rank, tensorPull, { parameter, block: 0, clock, rows: ALL_ROWS })).values)[0] as number;
    return floatsOf((await stage.call(rank, rowsPull, { parameter, clock, keys: BigUint64Array.of(7n) })).values)[0] as number;
  }

  /** What is there, whatever the bound: as somebody reads who is at the beginning. */
  now(): Promise<number> {
    return this.pull(0, 0);
  }

  async change(mode: Mode, clock: number): Promise<number> {
    this.#turn++;
    const request = { parameter: this.parameter, clock, turn: this.#turn, settings: "", consistency: JSON.stringify(mode) };
    return (await this.stage.call(0, parameterConfigure, request)).clock;
  }

  advance(clock: number, ranks: readonly number[] = [0, 1]): void {
    for (const rank of ranks) this.stage.advance(rank, clock);
  }
}

for (const kind of ["tensor", "table"] as const) {
  test(`${kind}: from sync to async: rounds below the change are still completed, in rank order; from it on updates apply on arrival`, async () => {
    const one = new OneNumber(kind, { updates: "sync", staleness: 0 }, 3);
    await one.push(2, 0, -1e8);
    assert.equal(await one.change(ASP, 2), 2);
    await one.push(1, 0, 1);
    await one.push(0, 1, 4);
    assert.equal(await one.now(), 0, "clocks 0 and 1 are sync");
    await one.push(0, 2, 0.5);
    assert.equal(await one.now(), 0.5, "clock 2 is not");
    await one.push(0, 0, 1e8);
    one.advance(1, [0, 1, 2]);
    assert.equal(await one.now(), 0.5 + Math.fround(Math.fround(1e8 + 1) - 1e8), "by rank, though they came the other way round");
    one.advance(2, [0, 1, 2]);
    assert.equal(await one.now(), 0.5 + Math.fround(Math.fround(1e8 + 1) - 1e8) + 4);
  });

  test(`${kind}: from async to sync: updates below the change apply on arrival, and before the first round does`, async () => {
    const one = new OneNumber(kind, {});
    assert.equal(await one.change(MEAN, 1), 1);
    await one.push(0, 1, 10);
    await one.push(0, 0, 1);
    assert.equal(await one.now(), 1);
    one.advance(2, [0]);
    await one.push(1, 0, 1);
    await one.push(1, 1, 20);
    assert.equal(await one.now(), 2);
    one.advance(1, [1]);
    assert.equal(await one.pull(0, 1), 2, "all below the change, and no round");
    one.advance(2, [1]);
    assert.equal(await one.pull(0, 2), 2 + 15);
  });

  test(`${kind}: a change that comes late begins above what was taken, which counts once`, async () => {
    const one = new OneNumber(kind, {});
    await one.push(0, 5, 1);
    assert.equal(await one.change(BSP, 2), 6);
    await one.push(1, 4, 1);
    await one.push(1, 5, 1);
    assert.equal(await one.now(), 3);
    await one.push(1, 6, 1);
    assert.equal(await one.now(), 3);
    assert.equal(await one.change(ASP, 0), 7);
    one.advance(7);
    assert.equal(await one.pull(0, 7), 4, "the round that was open");
  });

  test(`${kind}: rounds that are completed at once are each reduced as at their clock`, async () => {
    const one = new OneNumber(kind, { updates: "sync", staleness: 0 });
    await one.change(MEAN, 1);
    for (const rank of [0, 1]) for (const clock of [0, 1]) await one.push(rank, clock, 10);
    one.advance(2, [0]);
    one.advance(2, [1]);
    assert.equal(await one.pull(0, 2), 20 + 10);
  });

  test(`${kind}: an incarnation that dies takes its open sync updates along and leaves its async ones; nothing is held for it`, async () => {
    const one = new OneNumber(kind, {});
    await one.push(0, 0, 1); // what the row and the block take
    await one.change(BSP, 1);
    const before = one.stage.arena.usedBytes;
    await one.push(1, 0, 2);
    await one.push(1, 1, 4);
    await one.push(0, 1, 8);
    one.stage.parameters.pacer.died(one.stage.holder(1));
    one.advance(2, [0]);
    assert.equal(await one.pull(0, 2), 1 + 2 + 8);
    assert.equal(one.stage.arena.usedBytes, before);
    assert.equal(one.stage.parameters.pacer.rounds.contributionCount, 0);
  });
}

test("reads that wait are judged anew: those from the change on by its bound, the others by theirs (ParameterPace.M3)", async () => {
  const one = new OneNumber("tensor", { updates: "sync", staleness: 0 });
  const ended: number[] = [];
  const waiting = [1, 3, 4].map((clock) => one.pull(0, clock).then(() => ended.push(clock)));
  const settled = async (): Promise<readonly number[]> => {
    await new Promise(setImmediate);
    return ended;
  };
  assert.deepEqual(await settled(), []);
  await one.change(SSP, 2);
  assert.deepEqual(await settled(), [3], "3 clocks behind is fresh enough from clock 2 on");
  await assert.rejects(one.change({ ...SSP, staleness: -1 as 3 }, 2), throwsCode("BAD_REQUEST"));
  await one.change(BSP, 4);
  one.advance(1);
  assert.deepEqual(await settled(), [3, 1]);
  await one.change(ASP, 0);
  await Promise.all(waiting);
  assert.deepEqual(await settled(), [3, 1, 4]);
});

test("the slowest never waits, whatever the change", async () => {
  const one = new OneNumber("tensor", {});
  await one.change(BSP, 3);
  one.advance(5, [0]);
  for (const clock of [0, 1, 2, 3, 4]) {
    one.advance(clock, [1]);
    assert.equal(await one.pull(1, clock), 0);
  }
});

test("a survey names the highest clock of a worker or an update, and the turn of the last change", async () => {
  const one = new OneNumber("table", {});
  const survey = async (): Promise<{ readonly clock: number; readonly turn: number }> => {
    const { clock, turn } = await one.stage.call(0, parameterState, { parameter: one.parameter, name: "w" });
    return { clock, turn };
  };
  assert.deepEqual(await survey(), { clock: 0, turn: 0 });
  one.advance(3, [1]);
  assert.deepEqual(await survey(), { clock: 3, turn: 0 });
  await one.push(0, 8, 1);
  await one.change(BSP, 20);
  assert.deepEqual(await survey(), { clock: 8, turn: 1 });
});

test("who describes the parameter as it was created is let in after a change; who describes what it is now is not", async () => {
  const one = new OneNumber("tensor", { updates: "sync", staleness: 0 });
  const { spec } = one.stage.parameters.get(one.parameter);
  await one.change(ASP, 0);
  const numbered = { number: one.parameter, edition: 1 };
  one.stage.parameters.create(JSON.stringify(spec), numbered);
  const now = JSON.stringify({ ...spec, updates: "async", staleness: undefined });
  assert.throws(() => one.stage.parameters.create(now, numbered), /bsp and asp/);
});

test("what is saved of a change, begun or to come, is resumed", async () => {
  const one = new OneNumber("table", { updates: "sync", staleness: 0 });
  await one.change(SSP, 4);
  await one.change(MEAN, 9);
  const other = new OneNumber("table", { updates: "sync", staleness: 0 });
  const tables = [one, other].map(({ stage, parameter }) => stage.parameters.table(parameter));
  tables[1]!.resume(tables[0]!.training);
  assert.deepEqual(tables[1]!.training, tables[0]!.training);
  await other.push(0, 4, 1);
  assert.equal(await other.now(), 1);
  for (const rank of [0, 1]) await other.push(rank, 9, 10);
  other.advance(10);
  assert.equal(await other.now(), 11);
});

test("a change that makes no sense is refused, and so is one that caches or holders of rows could not be told of", async () => {
  const one = new OneNumber("tensor", {});
  const { stage, parameter } = one;
  const change = (number: number, turn: number, consistency: string) =>
    stage.call(0, parameterConfigure, { parameter: number, settings: "", clock: 1, turn, consistency });
  for (const wrong of [" ", "7", "{}", '{"updates":"both","reduce":"sum","staleness":0}', '{"updates":"async","reduce":"sum"}'])
    await assert.rejects(change(parameter, 1, wrong), throwsCode("BAD_REQUEST"), wrong);
  await assert.rejects(change(parameter, 0, JSON.stringify(BSP)), throwsCode("BAD_REQUEST"));
  await assert.rejects(change(12_345, 1, JSON.stringify(BSP)), throwsCode("UNKNOWN_PARAMETER"));
  const cached = stage.create({ kind: "table", width: 1, versions: true, name: "cached" });
  for (const mode of [BSP, SSP]) await assert.rejects(change(cached, 1, JSON.stringify(mode)), throwsCode("UNSUPPORTED"));
  await change(cached, 1, JSON.stringify(ASP));
  const held = stage.create({ kind: "table", width: 1, name: "held", updates: "sync", staleness: 0 });
  await stage.call(0, rawRowsClaim, { parameter: held, claim: 0, step: 0 });
  await assert.rejects(change(held, 1, JSON.stringify(ASP)), throwsCode("UNSUPPORTED"));
  await change(held, 1, JSON.stringify(MEAN));
  const changed = stage.create({ kind: "table", width: 1, name: "changed", updates: "sync", staleness: 0 });
  await change(changed, 1, JSON.stringify(ASP));
  await assert.rejects(stage.call(0, rawRowsClaim, { parameter: changed, claim: 0, step: 0 }), throwsCode("UNSUPPORTED"));
  assert.deepEqual(stage.parameters.get(parameter).training.consistency, undefined, "nothing changed");
});
