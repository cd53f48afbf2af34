// Goal: metrics say what their definitions say, over several batches, and begin anew when they are cleared.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Activations } from "../../nn/activations.ts";
import { Workspace } from "../../nn/workspace.ts";
import { Accuracy, AreaUnderCurve, Confusion, MeanSquaredError, type Metric } from "./metrics.ts";

const workspace = new Workspace();

function outputs(rows: readonly (readonly number[])[]): Activations {
  const activations = new Activations(workspace, [rows[0]!.length], rows.length);
  activations.sampleCount = rows.length;
  activations.values.set(rows.flat());
  return activations;
}

function measured(
  metric: Metric,
  batches: readonly { readonly rows: readonly (readonly number[])[]; readonly labels: readonly number[] }[],
): number {
  metric.clear();
  for (const { rows, labels } of batches) metric.update(outputs(rows), labels);
  return metric.value;
}

const CLASSES = [
  {
    rows: [
      [1, 3, 2],
      [5, 0, 0],
    ],
    labels: [1, 0],
  },
  { rows: [[0, 0, 9]], labels: [0] },
];

test("accuracy counts greatest outputs, of one output its sign", () => {
  assert.equal(measured(new Accuracy(), CLASSES), 2 / 3);
  assert.equal(measured(new Accuracy(), [{ rows: [[0.4], [-2], [3], [0]], labels: [1, 0, 0, 0] }]), 0.75);
});

test("confusion counts what was taken for what", () => {
  const confusion = new Confusion(3);
  assert.equal(measured(confusion, CLASSES), 2 / 3);
  assert.deepEqual([...confusion.counts], [1, 0, 1, 0, 1, 0, 0, 0, 0]);
});

test("the area under the curve counts pairs in the right order, ties half", () => {
  assert.equal(
    measured(new AreaUnderCurve(), [
      { rows: [[0.1], [0.4]], labels: [0, 0] },
      { rows: [[0.35], [0.8]], labels: [1, 1] },
    ]),
    0.75,
  );
  assert.equal(measured(new AreaUnderCurve(), [{ rows: [[1], [1]], labels: [0, 1] }]), 0.5);
});

test("the mean squared error is one, and a cleared metric knows nothing", () => {
  const metric = new MeanSquaredError();
  assert.equal(measured(metric, [{ rows: [[1], [3]], labels: [0, 1] }]), 2.5);
  metric.clear();
  assert.ok(Number.isNaN(metric.value));
});
