// parameters — Goal: what workers tell of their pushes is counted as soon as anything depends on it, and no sooner;
// that there were updates is always known.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { clockAdvance } from "../../contracts/clocks.ts";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import { floatsOf, ParameterStage } from "../../testing/parameter-stage.ts";

const SYNC = { updates: "sync", staleness: 0 } as const;
const KEYS = BigUint64Array.of(7n);

/** The worker ends the clock before this one, at which its pushes to the parameter came to this number. */
function advance(stage: ParameterStage, rank: number, clock: number, parameter: number, number: number): Promise<unknown> {
  const report = { clocks: Uint32Array.of(clock - 1), parameters: Uint32Array.of(parameter), numbers: Uint32Array.of(number) };
  return stage.call(rank, clockAdvance, { clock, leaves: false, ...report });
}

test("a report of pushes whose rows lie elsewhere counts nothing for sums, and a change of the consistency begins above it (ConsistencyPhases.M2)", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, optimizer: { type: "sgd", learningRate: 1 } });
  await advance(stage, 0, 5, t, 3);
  const table = stage.parameters.table(t);
  assert.deepEqual([stage.parameters.pacer.pushes.isCounted, table.step, table.phases.clockTop], [false, 0, 4]);
  const mode = { updates: "sync", reduce: "sum", staleness: 0 } as const;
  assert.equal(table.change({ mode, clock: 2, turn: 1, worker: stage.holder(0).worker }), 5);
});

test("lazyAdam's steps count pushes of which no row is here (HostedParameter.H1)", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, optimizer: { type: "lazyAdam" } });
  await advance(stage, 0, 1, t, 3);
  await advance(stage, 1, 1, t, 2);
  assert.equal(stage.parameters.table(t).step, 5);
});

test("a mean that a sum was changed to is over all who pushed, from its first clock on (HostedParameter.H2)", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 1, reduce: "sum", ...SYNC });
  const push = { parameter: t, scale: 1, keys: KEYS, gradients: Float32Array.of(6) };
  await stage.call(0, rowsPush, { ...push, clock: 0, pushNumber: 1 });
  await advance(stage, 0, 1, t, 1);
  const mode = { updates: "sync", reduce: "mean", staleness: 0 } as const;
  assert.equal(stage.parameters.table(t).change({ mode, clock: 1, turn: 1, worker: stage.holder(0).worker }), 1);
  await advance(stage, 1, 1, t, 1);
  await stage.call(0, rowsPush, { ...push, clock: 1, pushNumber: 2 });
  await advance(stage, 0, 2, t, 2);
  await advance(stage, 1, 2, t, 2); // its rows lie elsewhere
  const { values } = await stage.call(0, rowsPull, { parameter: t, clock: 2, keys: KEYS });
  assert.deepEqual([...floatsOf(values)], [6 + 6 / 2]);
});

test("a report whose lists differ in length is refused", async () => {
  const stage = new ParameterStage();
  const report = { clocks: Uint32Array.of(0), parameters: Uint32Array.of(1), numbers: new Uint32Array(0) };
  await assert.rejects(stage.call(0, clockAdvance, { clock: 1, leaves: false, ...report }), (error) =>
    isWeighbridgeError(error, "BAD_REQUEST"),
  );
});
