// Goal: an Updater lays out slots, sets hyper-parameters and refuses what is not finite. That the arithmetic is right
// is shown in test/conformance.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Arena } from "../../kernel/arena.ts";
import { HYPER, HYPER_FLOATS, SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { putFloats, putWords, readFloats } from "../../testing/arena-lists.ts";
import { type OptimizerSpec, resolveOptimizer } from "./optimizer-spec.ts";
import { rowSlotFloats } from "./slot-layout.ts";
import { Updater } from "./updater.ts";

const AT = { step: 1, scheduleStep: 0, gradientScale: 1, workerRank: 0 };

function open(spec: OptimizerSpec, kind: "table" | "tensor" = "tensor", width = 4): { arena: Arena; updater: Updater } {
  const arena = new Arena({ bytesMax: 2 ** 18 });
  return { arena, updater: new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer(spec), { kind, width }) };
}

function hyperOf(arena: Arena, updater: Updater): Float64Array {
  return new Float64Array(arena.memory.buffer, updater.hyper, HYPER_FLOATS);
}

describe("slots", () => {
  test("each optimizer has the slots and words that its formula needs", () => {
    const floats = (spec: OptimizerSpec, kind: "table" | "tensor"): [number, number] => {
      const { layout } = open(spec, kind, 8).updater;
      return [rowSlotFloats(layout), layout.wordsPerRow];
    };
    assert.deepEqual(floats({ type: "sum" }, "table"), [0, 0]);
    assert.deepEqual(floats({ type: "sgd" }, "table"), [0, 0]);
    assert.deepEqual(floats({ type: "momentum" }, "table"), [8, 0]);
    assert.deepEqual(floats({ type: "adagrad" }, "table"), [8, 0]);
    assert.deepEqual(floats({ type: "rowWiseAdagrad" }, "table"), [1, 0]);
    assert.deepEqual(floats({ type: "adam" }, "table"), [16, 1]);
    assert.deepEqual(floats({ type: "adam" }, "tensor"), [16, 0]);
    assert.deepEqual(floats({ type: "lazyAdam" }, "table"), [16, 0]);
    assert.deepEqual(floats({ type: "adamW" }, "table"), [16, 1]);
    assert.deepEqual(floats({ type: "rmsprop" }, "table"), [8, 0]);
    assert.deepEqual(floats({ type: "rmsprop", momentum: 0.9 }, "table"), [16, 0]);
    assert.deepEqual(floats({ type: "ftrl" }, "table"), [16, 0]);
    assert.deepEqual(floats({ type: "dcAsgd" }, "table"), [16, 0]);
    assert.deepEqual(floats({ type: "dcAsgd" }, "tensor"), [16, 0]);
  });

  test("a new row starts with the initial accumulator, or with copies of its values", () => {
    const { arena, updater } = open({ type: "ftrl", initialAccumulator: 0.25 }, "table");
    const row = putFloats(arena, [1, 2, 3, 4, ...new Float32Array(updater.rowExtraBytes() / 4)]);
    updater.startRows(putWords(arena, [row]), 1);
    assert.deepEqual([...readFloats(arena, row, 12)], [1, 2, 3, 4, 0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25]);
    const dc = open({ type: "dcAsgd" }, "table");
    const other = putFloats(dc.arena, [1, 2, 3, 4, ...new Float32Array(dc.updater.rowExtraBytes() / 4)]);
    dc.updater.startRows(putWords(dc.arena, [other]), 1);
    assert.deepEqual([...readFloats(dc.arena, other, 12)], [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
  });

  test("a new block starts alike, whatever its memory held before", () => {
    const { arena, updater } = open({ type: "dcAsgd" });
    const values = putFloats(arena, [1, 2, 3, 4, 5, 6, 7, 8]);
    const slots = putFloats(arena, new Float32Array(updater.blockSlotBytes(2) / 4).fill(9));
    updater.startBlock(values, slots, 2);
    assert.deepEqual([...readFloats(arena, slots, 16)], [...new Float32Array(8), 1, 2, 3, 4, 5, 6, 7, 8]);
    const rowWise = open({ type: "rowWiseAdagrad", initialAccumulator: 0.5 });
    assert.equal(rowWise.updater.blockSlotBytes(2), 8);
    const sums = putFloats(rowWise.arena, [9, 9, 9]);
    rowWise.updater.startBlock(values, sums, 2);
    assert.deepEqual([...readFloats(rowWise.arena, sums, 3)], [0.5, 0.5, 9]);
  });
});

describe("a step", () => {
  test("has the rate of the schedule, the scale of the push and Adam's corrections", () => {
    const { arena, updater } = open({ type: "adam", learningRate: 0.1, schedule: { type: "step", every: 10, factor: 0.5 }, clipValue: 3 });
    updater.begin({ step: 2, scheduleStep: 25, gradientScale: 0.5, workerRank: 0 });
    const hyper = hyperOf(arena, updater);
    assert.equal(hyper[HYPER.learningRate], 0.025);
    assert.equal(hyper[HYPER.gradientScale], 0.5);
    assert.equal(hyper[HYPER.clipValue], 3);
    assert.ok(Math.abs(hyper[HYPER.correction1]! - 1 / (1 - 0.81)) < 1e-12);
    assert.ok(Math.abs(hyper[HYPER.correction2]! - 1 / Math.sqrt(1 - 0.998001)) < 1e-9);
  });

  test("follows a schedule that is changed in between", () => {
    const { updater } = open({ type: "sgd", learningRate: 1 });
    assert.equal(updater.rate.at(50), 1);
    updater.rate.setSchedule({ type: "step", every: 10, factor: 0.5 });
    assert.equal(updater.rate.at(50), 2 ** -5);
    assert.deepEqual(updater.rate.schedule, { type: "step", every: 10, factor: 0.5 });
  });

  test("refuses a schedule for an optimizer without a learning rate: FTRL's alpha is in the values themselves", () => {
    for (const type of ["ftrl", "sum", "assign"] as const) {
      const { updater } = open({ type });
      const before = updater.rate.at(50);
      const cosine = { type: "cosine", steps: 10, floor: 0 } as const;
      assert.throws(() => updater.rate.setSchedule(cosine), { code: "BAD_ARGUMENT", message: new RegExp(`no schedule of ${type}`) });
      assert.equal(updater.rate.at(50), before);
      updater.rate.setSchedule({ type: "constant" }); // as a checkpoint has it
    }
  });

  test("of two FTRL rows with one state the one whose alpha is halved becomes half the other for the same gradient: what a schedule would do", () => {
    const { arena, updater } = open({ type: "ftrl", alpha: 0.1, beta: 0 }, "table");
    const half = open({ type: "ftrl", alpha: 0.05, beta: 0 }, "table");
    const state = [0, 0, 0, 0, -2, -2, -2, -2, 4, 4, 4, 4]; // values 0: sigma adds nothing; z and n
    const became = [{ arena, updater }, half].map((one) => {
      const row = putFloats(one.arena, state);
      one.updater.begin(AT);
      one.updater.updateRows(putWords(one.arena, [row]), 1, putFloats(one.arena, [0, 0, 0, 0]));
      return readFloats(one.arena, row, 4)[0]!;
    });
    assert.ok(Math.abs(became[0]! - 0.1) < 1e-6 && Math.abs(became[1]! - 0.05) < 1e-6, String(became));
  });

  test("has a rate that is set from the next one on: 0 too, nothing below, and none where the optimizer has none", () => {
    const { arena, updater } = open({ type: "sgd", learningRate: 0.5 });
    updater.rate.set(0);
    assert.equal(hyperOf(arena, updater)[HYPER.learningRate], 0.5);
    updater.begin(AT);
    assert.equal(hyperOf(arena, updater)[HYPER.learningRate], 0);
    for (const rate of [-1e-9, Number.NaN, Number.POSITIVE_INFINITY]) assert.throws(() => updater.rate.set(rate), { code: "BAD_ARGUMENT" });
    assert.equal(updater.rate.value, 0);
    assert.throws(() => open({ type: "sum" }).updater.rate.set(0.1), { code: "BAD_ARGUMENT" });
  });

  test("without bounds leaves the gradient as it is", () => {
    const { arena, updater } = open({ type: "sum" });
    const values = putFloats(arena, [1, 2, 3, 4]);
    const gradients = putFloats(arena, [0.5, -3e38, 1e-45, -0]);
    updater.begin(AT);
    updater.updateBlock({ target: values, source: values, slots: 0, rowCount: 1 }, gradients);
    assert.deepEqual([...readFloats(arena, values, 4)], [1.5, Math.fround(2 - 3e38), 3, 4]);
  });

  test("of Adam does not divide by zero on a sparse row's first update (Hetu's did)", () => {
    for (const type of ["adam", "lazyAdam", "adamW"] as const) {
      const { arena, updater } = open({ type }, "table");
      const row = putFloats(arena, [1, 1, 1, 1, ...new Float32Array(updater.rowExtraBytes() / 4)]);
      updater.begin(AT);
      updater.updateRows(putWords(arena, [row]), 1, putFloats(arena, [1, -1, 0, 1e-20]));
      const values = readFloats(arena, row, 4);
      assert.ok(values.every(Number.isFinite), `${type}: ${values.join()}`);
      assert.ok(Math.abs(values[0]! - 0.999) < 2e-5 && Math.abs(values[1]! - 1.001) < 2e-5, `${type}: ${values.join()}`);
    }
  });

  test("of DC-ASGD compares with what that worker pulled last: its own pushes in between make it later, and a round of all is not late", () => {
    const { arena, updater } = open({ type: "dcAsgd", learningRate: 1, lambda: 1, decay: 0, epsilon: 1e-7 }, "tensor", 1);
    const values = putFloats(arena, [0]);
    const slots = arena.allocate(updater.blockSlotBytes(1));
    updater.startBlock(values, slots, 1);
    const push = (workerRank: number | undefined, pulled?: number): number => {
      updater.begin({ ...AT, workerRank });
      updater.updateBlock({ target: values, source: values, slots, rowCount: 1, pulled }, putFloats(arena, [1]));
      return arena.floats[values / 4]!;
    };
    const close = (found: number, expected: number): void => assert.ok(Math.abs(found - expected) < 1e-5, `${found} is not ${expected}`);
    close(push(0), -1); // nothing happened since the start
    close(push(0), -1 - (1 + 1 * (-1 - 0))); // its own push came in between
    const pulled = putFloats(arena, [arena.floats[values / 4]!]);
    close(push(0, pulled), -2);
    close(push(1), -2 - (1 + 1 * (-2 - 0))); // worker 1 saw 0; three updates came in between
    close(push(undefined), -2);
    close(push(2), -2 - (1 + 1 * (-2 - 0)));
    close(push(0, values), -2); // one who has just pulled
  });
});

describe("what is not finite", () => {
  const bad = [1, Number.NaN, 2, Number.POSITIVE_INFINITY];

  test("is refused with the element and counted, by default", () => {
    const { arena, updater } = open({ type: "sgd" });
    assert.throws(
      () => updater.admit(putFloats(arena, bad), 4),
      (thrown) => isWeighbridgeError(thrown, "NOT_FINITE") && thrown.message.startsWith("element 1 of 4 pushed is NaN"),
    );
    assert.equal(updater.admit(putFloats(arena, [1, -2]), 2), 2);
    assert.deepEqual(updater.counts, { refusedPushes: 1, skippedPushes: 0, zeroedElements: 0 });
  });

  test("is left out of a clock's sum and counted, where it would be refused: nobody is there to be told", () => {
    const { arena, updater } = open({ type: "sgd" });
    assert.equal(updater.admitSum(putFloats(arena, bad), 4), undefined);
    assert.equal(updater.admitSum(putFloats(arena, [1, 2]), 2), 2);
    assert.deepEqual(updater.counts, { refusedPushes: 1, skippedPushes: 0, zeroedElements: 0 });
  });

  test("is skipped and counted, where the spec says so", () => {
    const { arena, updater } = open({ type: "sgd", nonFinite: "skip" });
    assert.equal(updater.admit(putFloats(arena, bad), 4), undefined);
    assert.equal(updater.admit(putFloats(arena, [1]), 1), 1);
    assert.deepEqual(updater.counts, { refusedPushes: 0, skippedPushes: 1, zeroedElements: 0 });
  });

  test("counts as zero, element by element, where the spec says so", () => {
    const { arena, updater } = open({ type: "sgd", nonFinite: "zero" });
    const gradients = putFloats(arena, bad);
    assert.equal(updater.admit(gradients, 4), 2);
    assert.deepEqual([...readFloats(arena, gradients, 4)], [1, 0, 2, 0]);
    assert.deepEqual(updater.counts, { refusedPushes: 0, skippedPushes: 0, zeroedElements: 2 });
  });
});

test("an updater gives its memory back", () => {
  const arena = new Arena({ bytesMax: 2 ** 18 });
  const before = arena.usedBytes;
  new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer({ type: "adam" }), {
    kind: "table",
    width: 4,
  }).close();
  assert.equal(arena.usedBytes, before);
});
