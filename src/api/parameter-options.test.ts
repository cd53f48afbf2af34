// Goal: making a parameter names its optimizer. Without one the error lists those that there are, and nothing is made.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { psUpdater } from "../store/updaters/ps-updater.ts";
import { OPTIMIZER_TYPES } from "../testing/optimizer-types.ts";
import { type EmbeddingOptions, embeddingSpec, type TensorOptions, tensorSpec } from "./parameter-options.ts";

function refusal(make: () => unknown): string {
  try {
    make();
  } catch (thrown) {
    assert.ok(isWeighbridgeError(thrown, "BAD_ARGUMENT"), String(thrown));
    return thrown.message;
  }
  return assert.fail("it was made");
}

test("a tensor without an optimizer is refused, and every choice is listed with what it is for", () => {
  const message = refusal(() => tensorSpec("w", { shape: [2] } as unknown as TensorOptions));
  assert.match(message, /^tensor w needs an optimizer/);
  assert.match(message, /"sum" \(adds what is pushed\)/);
  for (const name of OPTIMIZER_TYPES) assert.match(message, new RegExp(`"${name}" \\([^)]+\\)`));
  assert.match(message, /psUpdater\(\)/);
});

test("a table lists the optimizers that its rows can have", () => {
  assert.match(
    refusal(() => embeddingSpec("e", { dim: 2 } as EmbeddingOptions)),
    /^embedding e needs an optimizer.*"rowWiseAdagrad"/,
  );
  const ofCounts = refusal(() => embeddingSpec("counts", { dim: 2, dtype: "i64" } as EmbeddingOptions<"i64">));
  assert.match(ofCounts, /"sum" .*"assign" .*"min" .*"max" /);
  assert.doesNotMatch(ofCounts, /adam/);
});

test("a bare name, an object with settings and an updater name the optimizer", () => {
  assert.deepEqual(tensorSpec("w", { shape: [2], optimizer: "adam" }), tensorSpec("w", { shape: [2], optimizer: { type: "adam" } }));
  assert.equal(embeddingSpec("e", { dim: 2, optimizer: { type: "sgd", learningRate: 0.5 } }).optimizer.learningRate, 0.5);
  const own = psUpdater({ name: "own", version: 1, deterministic: true, dtypes: ["f32"], settings: {}, update: () => {} });
  assert.equal(embeddingSpec("e", { dim: 2, optimizer: own }).optimizer.updater, "own");
});

test("{ bsp: true } alone is bsp, the sum of a clock's updates", () => {
  const bsp = tensorSpec("w", { shape: [2], optimizer: "sum", consistency: "bsp" });
  assert.deepEqual(tensorSpec("w", { shape: [2], optimizer: "sum", consistency: { bsp: true } }), bsp);
});
