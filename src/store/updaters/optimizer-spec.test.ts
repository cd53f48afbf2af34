// Goal: what optimizer-spec promises, field by field and at its edges.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { decodeOptimizer, type OptimizerSpec, resolveOptimizer } from "./optimizer-spec.ts";
import { type PsUpdater, psUpdater } from "./ps-updater.ts";

function refusal(spec: unknown): string {
  try {
    resolveOptimizer(spec as OptimizerSpec);
  } catch (thrown) {
    assert.ok(isWeighbridgeError(thrown, "BAD_ARGUMENT"), String(thrown));
    return thrown.message;
  }
  return assert.fail(`${JSON.stringify(spec)} was accepted`);
}

test("a bare type has PyTorch's defaults", () => {
  const guards = { clipValue: null, clipNorm: null, nonFinite: "refuse" };
  const schedule = { type: "constant" };
  assert.deepEqual(resolveOptimizer({ type: "sum" }), { type: "sum", ...guards });
  assert.deepEqual(resolveOptimizer({ type: "max" }), { type: "max", nonFinite: "refuse" });
  assert.deepEqual(resolveOptimizer({ type: "adam" }), {
    type: "adam",
    learningRate: 0.001,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weightDecay: 0,
    schedule,
    ...guards,
  });
  assert.deepEqual(resolveOptimizer({ type: "adagrad" }), {
    type: "adagrad",
    learningRate: 0.01,
    epsilon: 1e-10,
    initialAccumulator: 0,
    weightDecay: 0,
    schedule,
    ...guards,
  });
  assert.equal(resolveOptimizer({ type: "adamW" }).weightDecay, 0.01);
  assert.equal(resolveOptimizer({ type: "rmsprop" }).alpha, 0.99);
});

test("a bare name stands for the optimizer with its defaults", () => {
  for (const type of ["sum", "max", "adam", "rowWiseAdagrad"] as const)
    assert.deepEqual(resolveOptimizer(type), resolveOptimizer({ type }));
  assert.match(refusal("adma"), /^optimizer: expected one of sum, .*, not "adma"; did you mean adam\?$/);
  assert.match(refusal("custom"), /^optimizer: expected one of sum,/);
});

test("none is called sum, on the wire alone; there an optimizer is never a bare name", () => {
  assert.equal(refusal({ type: "none" }), 'optimizer.type: "none" is now called "sum"');
  assert.equal(refusal("none"), 'optimizer: "none" is now called "sum"');
  assert.deepEqual(decodeOptimizer({ type: "none" }, "optimizer"), resolveOptimizer("sum"));
  assert.throws(
    () => decodeOptimizer("sum", "optimizer"),
    throwsCode("BAD_ARGUMENT", /^optimizer: expected an object with a type, not "sum"$/),
  );
});

test("equal specs have equal JSON, in whatever order they were written, and resolving twice changes nothing", () => {
  const one = resolveOptimizer({ type: "momentum", momentum: 0.5, schedule: { type: "warmUp", steps: 5 }, clipNorm: 1 });
  const other = resolveOptimizer({ clipNorm: 1, schedule: { steps: 5, type: "warmUp", from: 0 }, momentum: 0.5, type: "momentum" });
  assert.equal(JSON.stringify(one), JSON.stringify(other));
  for (const type of ["sum", "min", "sgd", "nesterov", "rowWiseAdagrad", "lazyAdam", "rmsprop", "ftrl", "dcAsgd"] as const) {
    const resolved = resolveOptimizer({ type });
    assert.equal(JSON.stringify(resolveOptimizer(JSON.parse(JSON.stringify(resolved)))), JSON.stringify(resolved), type);
  }
});

test("a wrong spec is refused with the field, what was expected and what was found", () => {
  assert.match(refusal(undefined), /^optimizer: expected the name of an optimizer, or an object with a type, not undefined$/);
  assert.match(refusal(5), /^optimizer: expected the name of an optimizer, or an object/);
  assert.match(refusal({ type: "adan" }), /^optimizer\.type: expected one of sum, .*adam.*, not "adan"; did you mean adam\?$/);
  assert.match(refusal({ type: "toString" }), /^optimizer\.type/);
  assert.match(
    refusal({ type: "sgd", lr: 0.1 }),
    /^optimizer\.lr: there is no such field; sgd has type, learningRate, .*, nonFinite; did you mean learningRate\?$/,
  );
  assert.match(
    refusal({ type: "sgd", learningrate: 0.1 }),
    /^optimizer\.learningrate: there is no such field; .*; did you mean learningRate\?$/,
  );
  assert.match(refusal({ type: "sgd", momentum: 0.9 }), /^optimizer\.momentum: there is no such field/);
  assert.match(refusal({ type: "sgd", learningRate: -1 }), /^optimizer\.learningRate: expected a number of at least 0, not -1$/);
  assert.match(refusal({ type: "sgd", learningRate: Number.NaN }), /learningRate: .* not NaN$/);
  assert.match(refusal({ type: "sgd", learningRate: "0.1" }), /learningRate: .* not "0\.1"$/);
  assert.match(refusal({ type: "adam", beta2: 1 }), /^optimizer\.beta2: expected a number in \[0, 1\), not 1$/);
  assert.match(refusal({ type: "adam", epsilon: 0 }), /^optimizer\.epsilon: expected a number above 0, not 0$/);
  assert.match(refusal({ type: "ftrl", alpha: 0 }), /^optimizer\.alpha: expected a number above 0, not 0$/);
  assert.match(refusal({ type: "ftrl", schedule: { type: "constant" } }), /^optimizer\.schedule: there is no such field/);
  assert.match(refusal({ type: "sgd", clipValue: 0 }), /^optimizer\.clipValue: expected a number above 0, or null, not 0$/);
  assert.match(refusal({ type: "min", clipNorm: 1 }), /^optimizer\.clipNorm: there is no such field/);
  assert.match(
    refusal({ type: "sgd", nonFinite: "ignore" }),
    /^optimizer\.nonFinite: expected one of refuse, skip, zero, not "ignore"; did you mean refuse\?$/,
  );
  assert.match(refusal({ type: "sgd", schedule: { type: "cosine" } }), /^optimizer\.schedule\.steps: expected a whole number/);
});

test("a number that is something else in float32 is refused: finite gradients never become NaN for it (OptimizerSpec.S3)", () => {
  assert.match(
    refusal({ type: "sgd", learningRate: 1e39 }),
    /^optimizer\.learningRate: expected a number of at least 0, in float32 too, not 1e\+39$/,
  );
  assert.match(refusal({ type: "adagrad", epsilon: 1e-60 }), /^optimizer\.epsilon: expected a number above 0, in float32 too/);
  assert.match(refusal({ type: "adam", beta2: 1 - 1e-9 }), /^optimizer\.beta2: expected a number in \[0, 1\), in float32 too/);
  assert.match(refusal({ type: "ftrl", alpha: 1e-60 }), /^optimizer\.alpha/);
  for (const clip of [1e39, 1e-60]) assert.match(refusal({ type: "sum", clipValue: clip }), /^optimizer\.clipValue/);
  assert.equal(resolveOptimizer({ type: "adam", beta2: 0.9999999, epsilon: 1e-40 }).beta2, 0.9999999);
});

test("an updater of users' own has the learning rate of sgd when none is said", () => {
  const { learningRate, schedule } = resolveOptimizer({ type: "custom", updater: "clamped", settings: {} });
  assert.deepEqual({ learningRate, schedule }, { learningRate: 0.01, schedule: { type: "constant" } });
});

test("an updater that is passed as it is has its own settings, and one that something was added to is refused with the way to do it", () => {
  const signs = psUpdater({ name: "signs", version: 2, deterministic: true, settings: { momentum: 0.5 }, update: () => {} });
  assert.deepEqual(resolveOptimizer(signs), resolveOptimizer(signs.with()));
  assert.throws(
    () => resolveOptimizer({ ...signs, learningRate: 0.5 } as PsUpdater),
    throwsCode(
      "BAD_ARGUMENT",
      /^optimizer\.learningRate: .*call signs\.with\(\{ … \}\) first, as in \{ \.\.\.signs\.with\(\), learningRate: … \}$/,
    ),
  );
});
