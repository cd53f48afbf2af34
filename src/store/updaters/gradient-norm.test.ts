// Goal: what gradient-norm promises, field by field and at its edges.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { clipScale, gradientNorm, squaredNorm } from "./gradient-norm.ts";

test("the norm is Euclid's, for every length", () => {
  assert.equal(gradientNorm(Float32Array.of()), 0);
  assert.equal(gradientNorm(Float32Array.of(-3)), 3);
  assert.equal(gradientNorm(Float32Array.of(3, 4)), 5);
  assert.equal(gradientNorm(Float32Array.of(1, 1, 1, 1, 1, 1, 1, 1, 1)), 3);
});

test("it neither overflows nor drowns small elements in large ones", () => {
  assert.equal(gradientNorm(Float32Array.of(2 ** 127, 0, 0, 0)), 2 ** 127);
  const gradient = new Float32Array(1_000_001).fill(2 ** -12);
  gradient[0] = 1;
  assert.ok(Math.abs(squaredNorm(gradient) - (1 + 1_000_000 * 2 ** -24)) < 1e-10);
});

test("clipping scales a gradient down to the limit and leaves a short one alone", () => {
  const random = new Random(1);
  const gradient = Float32Array.from({ length: 1001 }, () => random.fraction() - 0.5);
  const norm = gradientNorm(gradient);
  const scale = clipScale(norm, 2);
  const clipped = gradientNorm(gradient.map((value) => value * scale));
  assert.ok(clipped <= 2 && clipped > 2 - 1e-5, `${clipped}`);
  assert.equal(clipScale(norm, norm + 1), 1);
  assert.equal(clipScale(0, 1), 1);
  assert.equal(clipScale(1e30, null), 1);
});

test("a gradient that is not finite has a norm that is not finite", () => {
  assert.ok(Number.isNaN(gradientNorm(Float32Array.of(1, Number.NaN))));
  assert.equal(gradientNorm(Float32Array.of(1, Number.NEGATIVE_INFINITY)), Number.POSITIVE_INFINITY);
});
