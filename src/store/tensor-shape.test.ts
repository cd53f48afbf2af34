// tensor-shape — Goal: blocks hold whole rows and cover a tensor once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { TensorShape } from "./tensor-shape.ts";

test("blocks hold whole rows and cover every element once", () => {
  for (const shape of [[], [1], [7], [131_072], [131_073], [1000, 1000], [3, 131_072], [5, 131_071], [2, 3, 4]]) {
    const tensor = new TensorShape(shape);
    let next = 0;
    for (let block = 0; block < tensor.blockCount; block++) {
      assert.equal(tensor.firstFloat(block), next);
      assert.equal(tensor.floatsOf(block) % tensor.width, 0, `[${shape.join(", ")}] block ${block}`);
      assert.ok(tensor.floatsOf(block) * 4 <= 512 * 1024);
      next += tensor.floatsOf(block);
    }
    assert.equal(next, tensor.floatCount);
    assert.equal(tensor.blockOfRow(tensor.rowCount - 1), tensor.blockCount - 1);
  }
});

test("rows longer than a block are cut, and the tensor has none of its own", () => {
  const tensor = new TensorShape([2, 131_073]);
  assert.equal(tensor.hasRows, false);
  assert.equal(tensor.blockCount, 3);
  assert.equal(tensor.floatsOf(2), 2);
});

test("a dimension that is no count is refused", () => {
  for (const shape of [[0], [-1], [1.5], [Number.NaN], [2 ** 30, 2 ** 30]]) {
    assert.throws(
      () => new TensorShape(shape),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
      `[${shape.join(", ")}]`,
    );
  }
});
