// Goal: losses equal their definitions in f64, their gradients are the differences of these, and labels that do not
// exist are refused.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { Activations } from "../activations.ts";
import { Workspace } from "../workspace.ts";
import { BinaryCrossEntropy } from "./binary-cross-entropy.ts";
import { SoftmaxCrossEntropy } from "./softmax-cross-entropy.ts";
import { SquaredError } from "./squared-error.ts";

const SAMPLE_COUNT = 7;
const isRefused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT");

function noise(workspace: Workspace, width: number, scale: number): Activations {
  const random = new Random(3);
  const logits = new Activations(workspace, [width], SAMPLE_COUNT);
  logits.sampleCount = SAMPLE_COUNT;
  for (let i = 0; i < logits.floatCount; i++) logits.values[i] = (random.fraction() - 0.5) * scale;
  return logits;
}

/** In f64 throughout, so that a short reach is exact enough. */
function assertGradient(loss: (logits: number[]) => number, logits: Float32Array, gradient: Float32Array): void {
  const reach = 1e-4;
  for (let i = 0; i < logits.length; i++) {
    const moved = (by: number): number => loss([...logits].with(i, logits[i]! + by));
    const expected = (moved(reach) - moved(-reach)) / (2 * reach);
    assert.ok(Math.abs(gradient[i]! - expected) < 1e-6, `gradient[${i}] is ${gradient[i]}, differences say ${expected}`);
  }
}

describe("softmax cross-entropy", () => {
  const labels = [0, 4, 2, 2, 1, 3, 0];
  const reference = (logits: readonly number[], divisor = SAMPLE_COUNT): number =>
    labels.reduce((loss, label, i) => {
      const row = logits.slice(i * 5, i * 5 + 5);
      return loss + (Math.log(row.reduce((sum, value) => sum + Math.exp(value), 0)) - row[label]!) / divisor;
    }, 0);

  test("is the mean of -log softmax, with the gradient that differences say", () => {
    for (const scale of [1, 20]) {
      const workspace = new Workspace();
      const logits = noise(workspace, 5, scale);
      const loss = new SoftmaxCrossEntropy(workspace, { classCount: 5, sampleCountMax: SAMPLE_COUNT });
      assert.ok(Math.abs(loss.compute(logits, labels) - reference([...logits.current])) < 1e-5);
      assertGradient((moved) => reference(moved), logits.current, loss.gradient.current);
      assert.ok(Math.abs(loss.compute(logits, labels, 20) - reference([...logits.current], 20)) < 1e-5);
      assertGradient((moved) => reference(moved, 20), logits.current, loss.gradient.current);
    }
  });

  test("stays finite for logits far apart, and says NaN for NaN", () => {
    const workspace = new Workspace();
    const logits = noise(workspace, 5, 1e4);
    const loss = new SoftmaxCrossEntropy(workspace, { classCount: 5, sampleCountMax: SAMPLE_COUNT });
    assert.ok(Number.isFinite(loss.compute(logits, labels)));
    assert.ok(loss.gradient.current.every(Number.isFinite));
    logits.values[3] = Number.NaN;
    assert.ok(Number.isNaN(loss.compute(logits, labels)));
  });

  test("refuses labels that are no class, and others than one for each sample", () => {
    const workspace = new Workspace();
    const logits = noise(workspace, 5, 1);
    const loss = new SoftmaxCrossEntropy(workspace, { classCount: 5, sampleCountMax: SAMPLE_COUNT });
    for (const bad of [5, -1, 1.5, Number.NaN, 255]) assert.throws(() => loss.compute(logits, labels.with(3, bad)), isRefused, String(bad));
    assert.throws(() => loss.compute(logits, labels.slice(1)), isRefused);
    assert.throws(() => loss.compute(logits, [...labels, 0]), isRefused);
    assert.throws(() => loss.compute(noise(workspace, 4, 1), labels), isRefused);
    assert.throws(() => loss.compute(logits, labels, 0), isRefused);
  });
});

describe("binary cross-entropy", () => {
  const targets = [0, 1, 1, 0, 1, 0.25, 0];
  const reference = (logits: readonly number[], divisor = SAMPLE_COUNT): number =>
    targets.reduce((loss, target, i) => {
      const p = 1 / (1 + Math.exp(-logits[i]!));
      return loss - (target * Math.log(p) + (1 - target) * Math.log(1 - p)) / divisor;
    }, 0);

  test("is the mean of -log of the probability of the target, with the gradient that differences say", () => {
    const workspace = new Workspace();
    const logits = noise(workspace, 1, 8);
    const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: SAMPLE_COUNT });
    assert.ok(Math.abs(loss.compute(logits, targets) - reference([...logits.current])) < 1e-6);
    assertGradient((moved) => reference(moved), logits.current, loss.gradient.current);
    assert.ok(Math.abs(loss.compute(logits, targets, 3) - reference([...logits.current], 3)) < 1e-6);
    assertGradient((moved) => reference(moved, 3), logits.current, loss.gradient.current);
  });

  test("stays finite for logits far from 0", () => {
    const workspace = new Workspace();
    const logits = noise(workspace, 1, 1e4);
    const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: SAMPLE_COUNT });
    assert.ok(Number.isFinite(loss.compute(logits, targets)));
    assert.ok(loss.gradient.current.every(Number.isFinite));
  });

  test("refuses targets outside 0 to 1, and others than one for each sample", () => {
    const workspace = new Workspace();
    const logits = noise(workspace, 1, 1);
    const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: SAMPLE_COUNT });
    for (const bad of [2, -1, Number.NaN]) assert.throws(() => loss.compute(logits, targets.with(3, bad)), isRefused, String(bad));
    assert.throws(() => loss.compute(logits, targets.slice(1)), isRefused);
    assert.throws(() => loss.compute(noise(workspace, 2, 1), targets), isRefused);
    assert.throws(() => loss.compute(logits, targets, Number.NaN), isRefused);
  });
});

describe("squared error", () => {
  const targets = [0, 1, -3, 0.5, 2, 100, -0.25];
  const reference = (outputs: readonly number[], divisor = SAMPLE_COUNT): number =>
    targets.reduce((loss, target, i) => loss + (outputs[i]! - target) ** 2 / divisor, 0);

  test("is the mean of the squares, with the gradient that differences say", () => {
    const workspace = new Workspace();
    const outputs = noise(workspace, 1, 4);
    const loss = new SquaredError(workspace, { sampleCountMax: SAMPLE_COUNT });
    const small = targets.map((target) => target / 100);
    assert.ok(Math.abs(loss.compute(outputs, targets) - reference([...outputs.current])) < 1e-9);
    loss.compute(outputs, small, 3);
    const smallLoss = (moved: readonly number[]): number => small.reduce((sum, target, i) => sum + (moved[i]! - target) ** 2 / 3, 0);
    assertGradient(smallLoss, outputs.current, loss.gradient.current);
  });

  test("refuses targets that are no numbers, and others than one for each sample", () => {
    const workspace = new Workspace();
    const outputs = noise(workspace, 1, 1);
    const loss = new SquaredError(workspace, { sampleCountMax: SAMPLE_COUNT });
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) assert.throws(() => loss.compute(outputs, targets.with(3, bad)), isRefused);
    assert.throws(() => loss.compute(outputs, targets.slice(1)), isRefused);
    assert.throws(() => loss.compute(noise(workspace, 2, 1), targets), isRefused);
    assert.throws(() => loss.compute(outputs, targets, -1), isRefused);
  });
});
