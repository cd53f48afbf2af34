// Goal: the slots of every optimizer have the names under which checkpoints have them, and begin with what it needs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OPTIMIZER_TYPES } from "../../testing/optimizer-types.ts";
import { type OptimizerSpec, resolveOptimizer } from "./optimizer-spec.ts";
import { rowSlotFloats, slotLayoutOf } from "./slot-layout.ts";

const OWNER = { kind: "table", width: 3 } as const;
const layoutOf = (spec: OptimizerSpec) => slotLayoutOf(resolveOptimizer(spec), OWNER);
const slotsOf = (spec: OptimizerSpec) => Object.fromEntries(layoutOf(spec).slots.map(({ name, start }) => [name, start]));

test("checkpoints find the slots of every optimizer by these names", () => {
  const names = OPTIMIZER_TYPES.map((type) => [type, Object.keys(slotsOf({ type })).join()]);
  assert.deepEqual(Object.fromEntries(names), {
    ...{ sum: "", assign: "", min: "", max: "", sgd: "" },
    ...{ momentum: "velocity", nesterov: "velocity", adagrad: "squares", rowWiseAdagrad: "squares" },
    ...{ adam: "moment1,moment2", lazyAdam: "moment1,moment2", adamW: "moment1,moment2" },
    ...{ rmsprop: "meanSquare", ftrl: "z,n", dcAsgd: "meanSquare,pulled" },
  });
  assert.deepEqual(Object.keys(slotsOf({ type: "rmsprop", momentum: 0.5 })), ["meanSquare", "velocity"]);
});

test("slots begin with 0, with the accumulator of the settings, or with the values", () => {
  assert.deepEqual(slotsOf({ type: "adam" }), { moment1: 0, moment2: 0 });
  assert.deepEqual(slotsOf({ type: "adagrad", initialAccumulator: 0.5 }), { squares: 0.5 });
  assert.deepEqual(slotsOf({ type: "ftrl", initialAccumulator: 0.5 }), { z: 0, n: 0.5 });
  assert.deepEqual(slotsOf({ type: "dcAsgd" }), { meanSquare: 0, pulled: "values" });
});

test("a slot has a float for each value, of row-wise AdaGrad one for each row", () => {
  assert.equal(rowSlotFloats(layoutOf({ type: "adam" })), 6);
  assert.equal(rowSlotFloats(layoutOf({ type: "rowWiseAdagrad" })), 1);
  assert.equal(rowSlotFloats(layoutOf({ type: "sgd" })), 0);
});
