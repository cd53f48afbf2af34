// Goal: a shared model of one machine is of every type of number, with sums and with the built-in updaters that there
// are for it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createSharedModel, type OptimizerSpec, type RowArray, type RowElement, type SharedModel } from "weighbridge/shared-model";
import { fillElements, ROW_ELEMENTS } from "../kernel/row-element.ts";
import { throwsCode } from "../testing/throws-code.ts";

test("numbers of every type are summed", async () => {
  for (const dtype of ["f32", "f64", "i32", "i64"] as const) {
    const model = createSharedModel<"f32" | "f64" | "i32" | "i64">("local", { dtype });
    await model.init([0, 1]);
    const data = [0, 1].map((device) => model.tensor([5], device));
    for (const [device, each] of data.entries()) {
      await model.initKey([5], 0, device);
      if (each instanceof BigInt64Array) each.fill(BigInt(device + 1));
      else each.fill(device + 1);
      model.push(each, 0, device);
      model.pullReq(each, 0, device);
    }
    await model.pullWait(0, 0);
    assert.deepEqual([...data[0]!].map(Number), [3, 3, 3, 3, 3]);
    await model.close();
  }
});

test("built-in updaters of f64, i32 and i64 do what those of f32 do, step by step, for short keys and long ones, and their weights can be set", async () => {
  const length = 9000; // rows of 4096, and a shorter one
  const optimizers = {
    f64: [
      { type: "sgd", learningRate: 0.5 },
      { type: "momentum", learningRate: 0.5, momentum: 0.5 },
      { type: "adagrad", learningRate: 0.5, initialAccumulator: 4 },
      { type: "sgd", learningRate: 0.5, schedule: { type: "step", every: 2, factor: 0.5 } },
      { type: "nesterov", learningRate: 0.5, momentum: 0.5 },
      { type: "rmsprop", learningRate: 0.5, momentum: 0.5 },
      { type: "adam", learningRate: 0.5 },
      { type: "adamW", learningRate: 0.5 },
    ],
    i32: [{ type: "sum" }, { type: "assign" }, { type: "min" }, { type: "max" }],
    i64: [{ type: "sum" }, { type: "max" }],
  } as const;
  const run = async (dtype: RowElement, updater: OptimizerSpec): Promise<readonly (readonly number[])[]> => {
    const { Array: View, bytes } = ROW_ELEMENTS[dtype];
    const filled = (value: number): RowArray => {
      const array: RowArray = new View(new ArrayBuffer(length * bytes));
      fillElements(array, value);
      return array;
    };
    const model = createSharedModel<RowElement>("local", { dtype, updater, initialWeight: 2 }) as SharedModel<RowArray>;
    await model.init([0, 1]);
    for (const device of [0, 1]) await model.initKey([length], 3, device);
    const seen: number[][] = [];
    for (let step = 0; step < 5; step++) {
      const data = [filled(step), filled(4 - step)];
      if (step === 3) await model.setWeight(filled(64), 3, 0);
      for (const device of [0, 1]) model.push(data[device]!, 3, device);
      for (const device of [0, 1]) model.pullReq(data[device]!, 3, device);
      for (const device of [0, 1]) await model.pullWait(3, device);
      seen.push([...new Set([...data[0]!, ...data[1]!].map(Number))]);
    }
    await model.close();
    return seen;
  };
  for (const [dtype, list] of Object.entries(optimizers))
    for (const updater of list) {
      const [ours, expected] = [await run(dtype as RowElement, updater), await run("f32", updater)];
      for (const [step, [value, ...others]] of ours.entries()) {
        assert.deepEqual(others, [], "all alike");
        assert.ok(Math.abs(value! - expected[step]![0]!) <= 1e-6 * Math.abs(value!), `${dtype} ${updater.type} ${step}: ${value}`);
      }
    }
});

test("ftrl has no weights that can be set: it computes them of what it has summed up, here as on servers", async () => {
  for (const dtype of ["f32", "f64"] as const) {
    const model = createSharedModel<RowElement>("local", { dtype, updater: { type: "ftrl" } }) as SharedModel<RowArray>;
    await model.init();
    const { Array: View, bytes } = ROW_ELEMENTS[dtype];
    await model.initKey([16 / bytes], 3, 0);
    await assert.rejects(model.setWeight(new View(new ArrayBuffer(16)), 3, 0), throwsCode("UNSUPPORTED", /key 3 .* ftrl computes them/));
    await model.close();
  }
});
