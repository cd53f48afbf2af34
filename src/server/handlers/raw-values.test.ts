// raw-values — Goal: a raw row that is read is what the next update would find, one that is written is what the
// next read finds, slots and step counts and all; and who was replaced writes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parameterConfigure } from "../../contracts/parameters.ts";
import { rawRowsClaim, rawRowsRead, rawRowsWrite } from "../../contracts/raw-values.ts";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import { floatsOf, ParameterStage } from "../../testing/parameter-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";

const WIDTH = 3;
const KEYS = BigUint64Array.of(7n, 2n ** 64n - 1n, 0n);
const OPTIMIZERS: readonly OptimizerSpec[] = [
  { type: "sgd" },
  { type: "adagrad", initialAccumulator: 0.5 },
  { type: "rowWiseAdagrad" },
  { type: "adam" },
  { type: "ftrl", initialAccumulator: 0.25 },
  { type: "dcAsgd" },
];

async function push(stage: ParameterStage, parameter: number, keys: BigUint64Array, clock = 0): Promise<void> {
  const gradients = Float32Array.from({ length: keys.length * WIDTH }, (_, i) => i / 4 + 0.1);
  await stage.call(0, rowsPush, { parameter, clock, pushNumber: stage.pushes(0).next(parameter, clock), scale: 1, keys, gradients });
}

const read = async (stage: ParameterStage, parameter: number, keys = KEYS): Promise<Float32Array> =>
  (await stage.call(0, rawRowsRead, { parameter, keys })).rows;

for (const optimizer of OPTIMIZERS) {
  test(`${optimizer.type}: rows moved raw to another table go on there as they would have here; new rows have their first slots`, async () => {
    const stage = new ParameterStage();
    const common = { kind: "table", width: WIDTH, optimizer, init: { type: "constant", value: 0.75 } } as const;
    const here = stage.create({ ...common, name: "here" });
    const there = stage.create({ ...common, name: "there" });
    const pushed = KEYS.slice(0, 2);
    await push(stage, here, pushed);
    await push(stage, here, pushed);
    const rows = await read(stage, here);
    assert.equal(stage.parameters.table(here).store.rowCount, 2, "a read makes no row (RawRowFunctions.W1)");
    await stage.call(0, rawRowsWrite, { parameter: there, clock: 0, claim: 0, keys: KEYS, rows });
    for (const table of [here, there]) await push(stage, table, KEYS);
    assert.deepEqual(new Uint32Array((await read(stage, there)).buffer), new Uint32Array((await read(stage, here)).buffer));
  });
}

test("what makes no sense is refused and changes nothing", async () => {
  const stage = new ParameterStage();
  const parameter = stage.create({ kind: "table", width: WIDTH, rows: 10, optimizer: { type: "adagrad" } });
  const write = (keys: BigUint64Array, floatCount: number): Promise<unknown> =>
    stage.call(0, rawRowsWrite, { parameter, clock: 0, claim: 1, keys, rows: new Float32Array(floatCount).fill(1) });
  await assert.rejects(write(BigUint64Array.of(1n), WIDTH), throwsCode("VALUE_LENGTH"));
  await assert.rejects(write(BigUint64Array.of(10n), 2 * WIDTH), throwsCode("OUT_OF_RANGE"));
  await assert.rejects(read(stage, parameter, BigUint64Array.of(10n)), throwsCode("OUT_OF_RANGE"));
  await assert.rejects(read(stage, stage.create({ kind: "tensor", name: "t", shape: [2] })), throwsCode("UNSUPPORTED"));
  assert.equal(stage.parameters.table(parameter).store.rowCount, 0);
});

test("rows of an older claim are refused, and so are those of a clock that is over (RawRowFunctions.W2)", async () => {
  const stage = new ParameterStage();
  const parameter = stage.create({ kind: "table", width: WIDTH });
  const { claim: first } = await stage.call(0, rawRowsClaim, { parameter, claim: 0, step: 0 });
  const { claim: second } = await stage.call(1, rawRowsClaim, { parameter, claim: 0, step: 0 });
  const rows = Float32Array.of(1, 2, 3);
  const write = (claim: number, clock = 0): Promise<unknown> =>
    stage.call(0, rawRowsWrite, { parameter, clock, claim, keys: BigUint64Array.of(5n), rows });
  await assert.rejects(write(first), throwsCode("FENCED"));
  await assert.rejects(stage.call(0, rawRowsClaim, { parameter, claim: first, step: 9 }), throwsCode("FENCED"));
  assert.equal(stage.parameters.table(parameter).store.rowCount, 0);
  await write(second);
  const { values } = await stage.call(1, rowsPull, { parameter, clock: 0, keys: BigUint64Array.of(5n) });
  assert.deepEqual([...floatsOf(values)], [1, 2, 3]);
  stage.advance(0, 3);
  await assert.rejects(write(second, 2), throwsCode("STALE_UPDATE"));
});

test("the steps of those who hold rows become the table's, which never counts back; they learn its settings", async () => {
  const stage = new ParameterStage();
  const parameter = stage.create({ kind: "table", width: WIDTH, optimizer: { type: "lazyAdam", learningRate: 0.5 } });
  const { claim } = await stage.call(0, rawRowsClaim, { parameter, claim: 0, step: 0 });
  const sync = async (step: number): Promise<{ step: number; learningRate: number }> =>
    JSON.parse((await stage.call(0, rawRowsClaim, { parameter, claim, step })).training) as { step: number; learningRate: number };
  const settings = JSON.stringify({ learningRate: 0.25 });
  await stage.call(0, parameterConfigure, { parameter, settings, consistency: "", clock: 0, turn: 0 });
  assert.deepEqual([(await sync(7)).step, (await sync(3)).step, (await sync(3)).learningRate], [7, 7, 0.25]);
});
