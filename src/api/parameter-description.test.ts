// Goal: what session.parameters() tells of a parameter is in the words in which it was made, and makes an equal one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { psRowType } from "../store/row-types/ps-row-type.ts";
import { describeParameter } from "./parameter-description.ts";
import { embeddingSpec, tensorSpec } from "./parameter-options.ts";

const CONSISTENCIES = [
  "asp",
  "bsp",
  { ssp: 3 },
  { bsp: true, reduce: "mean", staleness: 0 },
  { bsp: true, reduce: "sum", staleness: 2 },
] as const;

test("a tensor is described by name, shape, init, optimizer, consistency and link", () => {
  const options = { shape: [2, 3], optimizer: "adam", init: { type: "he" }, consistency: "bsp", link: { push: "fp16" } } as const;
  const described = describeParameter(tensorSpec("w", options));
  assert.ok(described.kind === "tensor");
  assert.deepEqual(described.shape, [2, 3]);
  assert.deepEqual(described.init, { type: "he", distribution: "normal", fan: "in", seed: 0 });
  assert.equal(described.optimizer.type, "adam");
  assert.equal(described.consistency, "bsp");
  assert.equal(described.link?.push, "fp16");
});

test("what is described makes the same parameter again, with every consistency", () => {
  for (const consistency of CONSISTENCIES) {
    const spec = tensorSpec("w", { shape: [4], optimizer: { type: "sgd", learningRate: 0.5 }, consistency });
    const described = describeParameter(spec);
    assert.ok(described.kind === "tensor");
    const { kind: _kind, name, link: _link, ...options } = described;
    assert.deepEqual(tensorSpec(name, options), spec);
    assert.deepEqual(described.consistency, consistency);
  }
});

test("an embedding is described by dim and dtype, also with rows of a user's own type", () => {
  const pairs = psRowType({ name: "pairs", version: 2, deterministic: true, dtype: "f64", elements: (dim) => 2 * dim, add: () => {} });
  const plain = describeParameter(embeddingSpec("users", { dim: 16, rows: 100, optimizer: "sum" }));
  assert.ok(plain.kind === "embedding");
  assert.deepEqual([plain.dim, plain.dtype, plain.rows, plain.versions], [16, "f32", 100, false]);
  const counts = describeParameter(embeddingSpec("counts", { dim: 1, dtype: "i64", optimizer: "sum" }));
  assert.equal(counts.kind === "embedding" && counts.dtype, "i64");
  const own = describeParameter(embeddingSpec("own", { dim: 3, dtype: pairs, optimizer: "sum" }));
  assert.deepEqual(own.kind === "embedding" && own.dtype, { name: "pairs", version: 2, dtype: "f64", elements: 6 });
});
