// array-tree — Goal: every tree of arrays comes back as it was, with names that say where its arrays are.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { buildTree, flattenTree, type JaxArray } from "./array-tree.ts";

const array = (...shape: number[]): JaxArray => ({ shape, dtype: "float32", data: () => Promise.resolve(new Float32Array(0)) });

test("arrays are named by their way from the root, in the order of the fields", () => {
  const tree = { layers: [{ kernel: array(2, 3), bias: array(3) }, [array(1)]], scale: array() };
  const { names, arrays, structure } = flattenTree(tree);
  assert.deepEqual(names, ["layers/0/kernel", "layers/0/bias", "layers/1/0", "scale"]);
  assert.deepEqual(
    arrays.map(({ shape }) => shape),
    [[2, 3], [3], [1], []],
  );
  assert.deepEqual(structure, { layers: [{ kernel: 0, bias: 1 }, [2]], scale: 3 });
});

test("a tree that is built has the structure and the given arrays, the very same", () => {
  for (const tree of [array(2), [array(1), [array(2)], {}], { a: array(1), b: { c: [array(2), array(3)] }, empty: [] }]) {
    const { arrays, structure } = flattenTree(tree);
    assert.deepEqual(buildTree(structure, arrays), tree);
    const others = arrays.map(({ shape }) => array(...shape, 7));
    assert.deepEqual(flattenTree(buildTree(structure, others)).arrays, others);
  }
});

test("a single array is a tree", () => {
  assert.deepEqual(flattenTree(array(2)).names, ["value"]);
});

test("what is no tree of arrays is refused with its place", () => {
  const refused = (tree: unknown, pattern: RegExp) =>
    assert.throws(
      () => flattenTree(tree),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && pattern.test(error.message),
    );
  refused(undefined, /^the tree is no array/);
  refused({ a: [array(1), 3] }, /^a\/1 is no array/);
  refused({ a: null }, /^a is no array/);
  refused({ a: new Map() }, /^a is no array/);
  refused({ a: new Float32Array(2) }, /^a is no array/);
  refused({ "a/b": array(1), a: { b: array(1) } }, /two arrays of the tree are "a\/b"/);
});
