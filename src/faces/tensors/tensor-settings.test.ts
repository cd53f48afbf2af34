// tensor-settings — Goal: Hetu's numbers mean here what they mean there, and numbers that mean nothing are refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { dimensionsOf, InitType, initializerOf, OptType, optimizerOf, ParamType, type TensorSettings } from "./tensor-settings.ts";

const settings = (rest: Partial<TensorSettings>): TensorSettings => ({ length: 4, ...rest });
const isBad = (pattern: RegExp) => (error: unknown) => isWeighbridgeError(error, "BAD_ARGUMENT") && pattern.test(error.message);

test("optimizers take their arguments in Hetu's order, and its defaults for those that are left out", () => {
  assert.deepEqual(optimizerOf(settings({})), { type: "sum" });
  assert.deepEqual(optimizerOf(settings({ opt: OptType.SGD, optArgs: [0.5] })), { type: "sgd", learningRate: 0.5 });
  assert.deepEqual(optimizerOf(settings({ opt: OptType.Momentum, optArgs: [0.5, 0.8] })), {
    type: "momentum",
    learningRate: 0.5,
    momentum: 0.8,
  });
  assert.deepEqual(optimizerOf(settings({ opt: OptType.Nesterov })), { type: "nesterov", learningRate: 0.01, momentum: 0.9 });
  assert.deepEqual(optimizerOf(settings({ opt: OptType.AdaGrad, optArgs: Float64Array.of(0.1, 0.2) })), {
    type: "adagrad",
    learningRate: 0.1,
    initialAccumulator: 0.2,
    epsilon: 1e-7,
  });
  assert.deepEqual(optimizerOf(settings({ opt: OptType.Adam, optArgs: [0.1, 0.8, 0.9, 1e-6] })), {
    type: "adam",
    learningRate: 0.1,
    beta1: 0.8,
    beta2: 0.9,
    epsilon: 1e-6,
  });
  assert.deepEqual(optimizerOf(settings({ opt: { type: "adamW" } })), { type: "adamW" });
});

test("AdamW's arguments under the number of None are refused, not dropped", () => {
  assert.throws(() => optimizerOf(settings({ opt: OptType.None, optArgs: [0.1, 0.9, 0.999, 1e-8, 0.01] })), isBad(/AdamW/));
  assert.throws(() => optimizerOf(settings({ opt: OptType.SGD, optArgs: [1, 2] })), isBad(/learningRate/));
  assert.throws(() => optimizerOf(settings({ opt: { type: "sgd" }, optArgs: [1] })), isBad(/optArgs/));
  assert.throws(() => optimizerOf(settings({ opt: 6 as OptType })), isBad(/not 6/));
});

test("initializers take a and b as Hetu's do", () => {
  assert.deepEqual(initializerOf(settings({})), { type: "constant", value: 0 });
  assert.deepEqual(initializerOf(settings({ init: InitType.constant, a: 3, b: 9 })), { type: "constant", value: 3 });
  assert.deepEqual(initializerOf(settings({ init: InitType.uniform, a: -1, b: 2, seed: 5 })), {
    type: "uniform",
    low: -1,
    high: 2,
    seed: 5,
  });
  assert.deepEqual(initializerOf(settings({ init: InitType.normal, a: 5.6, b: 2 })), { type: "normal", mean: 5.6, std: 2, seed: 0 });
  assert.deepEqual(initializerOf(settings({ init: InitType.truncatedNormal, a: 1, b: 2 })), {
    type: "truncatedNormal",
    mean: 1,
    std: 2,
    seed: 0,
  });
  assert.deepEqual(initializerOf(settings({ init: { type: "he" } })), { type: "he" });
  assert.throws(() => initializerOf(settings({ init: 4 as InitType })), isBad(/not 4/));
});

test("dimensions are whole numbers from 1 up, and a kParam has one", () => {
  assert.deepEqual(dimensionsOf(settings({})), { paramType: ParamType.kParam, length: 4, width: 1 });
  assert.throws(() => dimensionsOf(settings({ width: 2 })), isBad(/kParam2D/));
  assert.throws(() => dimensionsOf(settings({ paramType: 3 as ParamType })), isBad(/paramType/));
  for (const size of [0, -1, 1.5, NaN, 2 ** 60]) {
    assert.throws(() => dimensionsOf({ length: size }), isBad(/length/));
    assert.throws(() => dimensionsOf({ paramType: ParamType.kParam2D, length: 1, width: size }), isBad(/width/));
  }
});
