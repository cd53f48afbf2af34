// Goal: on slots of a span the layer computes what an embedding with a table of its own computes, bit for bit, and its
// gradients have a row for each slot of the batch and no others (SlotEmbedding.S1, SlotEmbedding.S2).
//
// Goal: every member of an ascending list is found at its index, whatever lies behind the part that counts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { Activations } from "../activations.ts";
import { initializeParameters } from "../parameter.ts";
import { Workspace } from "../workspace.ts";
import { Embedding } from "./embedding.ts";
import { ascendingIndex, SlotEmbedding } from "./slot-embedding.ts";

const SHARED = { name: "e", width: 5, idsPerSample: 3, sampleCountMax: 6 } as const;
const ROWS = 11;

test("equals an embedding with a table of its own, forward and backward, with ids out of range among them", () => {
  const random = new Random(3);
  for (const combine of ["sum", "concat"] as const) {
    const workspace = new Workspace();
    const whole = new Embedding(workspace, { ...SHARED, combine, rowCount: ROWS, outOfRange: "zero" });
    const slots = new SlotEmbedding(workspace, { ...SHARED, combine });
    initializeParameters(workspace, [whole.weight], 2);
    const gradient = new Activations(workspace, whole.output.shape, 6);
    for (let step = 0; step < 20; step++) {
      const sampleCount = 1 + random.below(6);
      const ids = Int32Array.from({ length: sampleCount * 3 }, () => Math.max(-1, random.below(ROWS + 2) - 2));
      const span = { address: whole.weight.address, slotCount: ROWS };
      assert.deepEqual(slots.forward(ids, span).current, whole.forward(ids).current);
      gradient.sampleCount = sampleCount;
      for (let i = 0; i < gradient.floatCount; i++) gradient.values[i] = random.fraction() - 0.5;
      whole.backward(gradient, () => {});
      slots.backward(gradient);
      assert.deepEqual(slots.touchedSlots, whole.touchedRows);
      const rows = [...whole.touchedRows].flatMap((row) => [...whole.weight.gradient.subarray(row * 5, row * 5 + 5)]);
      assert.deepEqual([...slots.gradients], rows);
    }
  }
});

test("a batch without any row reads zeros and has no gradient", () => {
  const workspace = new Workspace();
  const slots = new SlotEmbedding(workspace, { ...SHARED, combine: "sum" });
  const span = workspace.floats(ROWS * 5);
  span.values.fill(7);
  assert.ok(slots.forward(new Int32Array(6).fill(-1), { address: span.address, slotCount: ROWS }).current.every((value) => value === 0));
  const gradient = new Activations(workspace, [5], 6);
  gradient.sampleCount = 2;
  gradient.values.fill(1);
  slots.backward(gradient);
  assert.deepEqual([slots.touchedSlots.length, slots.gradients.length], [0, 0]);
});

test("refuses slots that are no whole samples", () => {
  const workspace = new Workspace();
  const slots = new SlotEmbedding(workspace, { ...SHARED, combine: "sum" });
  assert.throws(
    () => slots.forward(new Int32Array(4), { address: 0, slotCount: 0 }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
});

test("each of the first numbers is found where it stands, in either kind of list", () => {
  for (const ascending of [Int32Array.of(-5, 0, 3, 9, 1, 1), Float64Array.of(-5, 0, 3, 2 ** 40, 1, 1)])
    for (let index = 0; index < 4; index++) assert.equal(ascendingIndex(ascending, 4, ascending[index]!), index);
});

test("of one number the index is 0", () => {
  assert.equal(ascendingIndex(Int32Array.of(7), 1, 7), 0);
});
