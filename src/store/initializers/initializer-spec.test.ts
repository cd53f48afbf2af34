// Goal: what initializer-spec promises, field by field and at its edges.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { drawOf, fansOf } from "./initializer-draw.ts";
import { decodeInitializer, type InitializerSpec, resolveInitializer } from "./initializer-spec.ts";

test("fields that are left out have their defaults", () => {
  assert.deepEqual(resolveInitializer({ type: "constant" }), { type: "constant", value: 0 });
  assert.deepEqual(resolveInitializer({ type: "uniform", high: 1 }), { type: "uniform", low: -0.05, high: 1, seed: 0 });
  assert.deepEqual(resolveInitializer({ type: "normal", seed: 5 }), { type: "normal", mean: 0, std: 0.05, seed: 5 });
  assert.deepEqual(resolveInitializer({ type: "xavier" }), { type: "xavier", distribution: "uniform", gain: 1, seed: 0 });
  assert.deepEqual(resolveInitializer({ type: "he" }), { type: "he", distribution: "normal", fan: "in", seed: 0 });
});

test("equal specs have equal JSON, and resolving twice changes nothing", () => {
  for (const type of ["constant", "uniform", "normal", "truncatedNormal", "xavier", "he"] as const) {
    const resolved = resolveInitializer({ type });
    assert.equal(JSON.stringify(resolveInitializer(JSON.parse(JSON.stringify(resolved)))), JSON.stringify(resolved));
  }
});

test("fans follow the shape as PyTorch counts them", () => {
  assert.deepEqual(fansOf([64]), { fanIn: 64, fanOut: 64 });
  assert.deepEqual(fansOf([10, 20]), { fanIn: 20, fanOut: 10 });
  assert.deepEqual(fansOf([8, 4, 3, 3]), { fanIn: 36, fanOut: 72 });
});

test("Xavier and He become draws of the known width", () => {
  const bound = Math.sqrt(6 / 30);
  const xavier = drawOf(resolveInitializer({ type: "xavier" }), [10, 20]);
  assert.ok(xavier.kind === "uniform" && Math.abs(xavier.high - bound) < 1e-15 && xavier.low === -xavier.high);
  assert.deepEqual(drawOf(resolveInitializer({ type: "he" }), [10, 50]), { kind: "normal", mean: 0, std: 0.2 });
  assert.deepEqual(drawOf(resolveInitializer({ type: "xavier", gain: 0 }), [10, 50]), { kind: "constant", value: 0 });
});

test("a fan that is given takes the place of the shape's, and leaves no trace in what servers get", () => {
  const drawn = (spec: InitializerSpec, shape: readonly number[]) => drawOf(resolveInitializer(spec), shape);
  for (const distribution of ["uniform", "normal", "truncatedNormal"] as const) {
    const [he, xavier] = [{ type: "he", distribution, seed: 3 } as const, { type: "xavier", distribution, gain: 2, seed: 3 } as const];
    assert.deepEqual(drawn({ ...he, fanIn: 784 }, [784, 128]), drawn(he, [128, 784]));
    assert.deepEqual(drawn({ ...he, fan: "out", fanOut: 128 }, [784, 128]), drawn({ ...he, fan: "out" }, [128, 784]));
    assert.deepEqual(drawn({ ...xavier, fanIn: 36, fanOut: 72 }, [3, 3, 4, 8]), drawn(xavier, [8, 4, 3, 3]));
    assert.deepEqual(
      resolveInitializer(decodeInitializer(resolveInitializer({ ...he, fanIn: 5 }), "init")),
      resolveInitializer({ ...he, fanIn: 5 }),
    );
    assert.equal((resolveInitializer({ ...he, fanIn: 5 }) as { seed?: number }).seed, 3);
  }
  assert.deepEqual(resolveInitializer({ type: "he", fanIn: 200 }), { type: "normal", mean: 0, std: 0.1, seed: 0 });
});

test("a fan that would not be read, or is no count, is refused; so is one on the wire", () => {
  const refused = (spec: unknown, message: RegExp): void =>
    assert.throws(() => resolveInitializer(spec as InitializerSpec), throwsCode("BAD_ARGUMENT", message));
  refused({ type: "xavier", fanIn: 5 }, /^init: xavier needs both fanIn and fanOut, or neither$/);
  refused({ type: "he", fanOut: 5 }, /^init: he with fan "in" reads fanIn, not fanOut$/);
  refused({ type: "he", fanIn: 0 }, /^init\.fanIn: expected a whole number from 1 up, not 0$/);
  refused({ type: "normal", fanIn: 5 }, /^init\.fanIn: there is no such field/);
  assert.throws(() => decodeInitializer({ type: "he", fanIn: 5 }, "init"), throwsCode("BAD_ARGUMENT", /^init\.fanIn/));
});

test("a wrong spec is refused with the field, what was expected and what was found", () => {
  const refused = (spec: unknown, message: RegExp): void =>
    assert.throws(
      () => resolveInitializer(spec as InitializerSpec),
      (thrown) => isWeighbridgeError(thrown, "BAD_ARGUMENT") && message.test(thrown.message),
    );
  refused(null, /^init: expected an object with a type, not null$/);
  refused({ type: "zeros" }, /^init\.type: expected one of constant, uniform, .*, not "zeros"; did you mean [a-z]+\?$/);
  refused({ type: "constant", seed: 1 }, /^init\.seed: there is no such field; constant has type, value; did you mean type\?$/);
  refused({ type: "constant", value: Number.NaN }, /^init\.value: expected a number that float32 can hold, not NaN$/);
  refused({ type: "uniform", low: 1, high: 1 }, /^init\.high: expected a float32 above low, which is 1, not 1$/);
  refused({ type: "uniform", low: 1, high: 1 + 1e-9 }, /^init\.high/);
  refused({ type: "uniform", low: -3e38, high: 3e38 }, /^init\.high: expected a range that float32 can hold/);
  refused({ type: "normal", std: -1 }, /^init\.std: expected a number of at least 0, not -1$/);
  refused({ type: "normal", std: 1e38 }, /^init\.std: expected mean ± 7 std within float32, not 1e\+38$/);
  refused({ type: "normal", seed: 0.5 }, /^init\.seed: expected a whole number from 0 to 2\^53 - 1, not 0\.5$/);
  refused(
    { type: "xavier", distribution: "cauchy" },
    /^init\.distribution: expected one of uniform, normal, truncatedNormal, not "cauchy"; did you mean [a-zA-Z]+\?$/,
  );
  refused({ type: "he", fan: "both" }, /^init\.fan: expected one of in, out, not "both"; did you mean out\?$/);
});
