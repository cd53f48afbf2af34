// Goal: whoever describes a parameter otherwise than it is reads the difference in the words of its options.

import assert from "node:assert/strict";
import { test } from "node:test";
import { consistencyText } from "./consistency.ts";
import { resolveInitializer } from "./initializers/initializer-spec.ts";
import { decodeParameterSpec, type ParameterSpec, specDifferences, type TableSpec, type TensorSpec } from "./parameter-spec.ts";
import { resolveOptimizer } from "./updaters/optimizer-spec.ts";

const COMMON = {
  name: "w",
  initializer: resolveInitializer({ type: "constant", value: 0 }),
  optimizer: resolveOptimizer({ type: "sum" }),
  updates: "sync",
  reduce: "sum",
  staleness: 0,
} as const;
const TENSOR: TensorSpec = { ...COMMON, kind: "tensor", shape: [4, 2] };
const TABLE: TableSpec = { ...COMMON, kind: "table", width: 3, rows: undefined, versions: false };

test("specs that are alike have no differences", () => {
  const copy = (spec: ParameterSpec): ParameterSpec => structuredClone(spec);
  for (const spec of [TENSOR, TABLE]) assert.deepEqual(specDifferences(spec, copy(spec)), []);
});

test("a difference is told in the words of the options", () => {
  assert.deepEqual(specDifferences(TENSOR, { ...TENSOR, shape: [5, 2], updates: "async", staleness: undefined }), [
    "consistency is bsp and asp",
    "shape is [4,2] and [5,2]",
  ]);
  assert.deepEqual(specDifferences(TABLE, { ...TABLE, width: 4, updates: "async", staleness: 2 }), [
    "consistency is bsp and ssp:2",
    "dim is 3 and 4",
  ]);
  const other = resolveInitializer({ type: "constant", value: 1 });
  assert.deepEqual(specDifferences(TABLE, { ...TABLE, initializer: other }), ["init.value is 0 and 1"]);
});

test("of a tensor and an embedding nothing more is told", () => {
  assert.deepEqual(specDifferences(TENSOR, TABLE), ["kind is tensor and embedding"]);
  assert.deepEqual(specDifferences(TABLE, TENSOR), ["kind is embedding and tensor"]);
});

test("names that begin as those of sums in checkpoints are refused", () => {
  assert.throws(() => decodeParameterSpec(JSON.stringify({ ...TABLE, name: "wb/sums/kv/0/F32/1" })), {
    code: "BAD_REQUEST",
    message: /wb\/sums\//,
  });
  assert.equal(decodeParameterSpec(JSON.stringify({ ...TABLE, name: "wb/sum" })).name, "wb/sum");
});

test("every consistency has words of its own", () => {
  const all = (["async", "sync"] as const).flatMap((updates) =>
    (["sum", "mean"] as const).flatMap((reduce) =>
      [undefined, 0, 1, 2].map((staleness) => consistencyText({ updates, reduce, staleness })),
    ),
  );
  assert.equal(new Set(all).size, all.length);
  assert.ok(["bsp", "bsp mean", "asp", "ssp:2"].every((text) => all.includes(text)));
});
