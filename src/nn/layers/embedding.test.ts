// Goal: an embedding sums or lists the rows that its ids name, its gradient is what differences say and lies in the
// touched rows alone (Embedding.E1), and an id without a row is refused or is a row of zeros, as asked for
// (Embedding.E2).

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Activations } from "../activations.ts";
import { initializeParameters } from "../parameter.ts";
import { Workspace } from "../workspace.ts";
import { Embedding, type EmbeddingOptions } from "./embedding.ts";

const OPTIONS: EmbeddingOptions = { name: "e", rowCount: 6, width: 3, idsPerSample: 2, sampleCountMax: 4, combine: "sum" };

function opened(options: Partial<EmbeddingOptions> = {}): { workspace: Workspace; embedding: Embedding; row: (id: number) => number[] } {
  const workspace = new Workspace();
  const embedding = new Embedding(workspace, { ...OPTIONS, ...options });
  initializeParameters(workspace, [embedding.weight], 3);
  return { workspace, embedding, row: (id) => [...embedding.weight.values.subarray(id * 3, id * 3 + 3)] };
}

/** Gradient i of the output is i + 1. */
function rampFor(workspace: Workspace, embedding: Embedding): Activations {
  const gradient = new Activations(workspace, embedding.output.shape, 4);
  gradient.sampleCount = embedding.output.sampleCount;
  for (let i = 0; i < gradient.floatCount; i++) gradient.values[i] = i + 1;
  return gradient;
}

describe("embedding", () => {
  test("sums the rows of a sample", () => {
    const { embedding, row } = opened();
    const [left, right] = [row(1), row(4)];
    const expected = [...left.map((value, i) => Math.fround(value + right[i]!)), ...row(0).map((value) => Math.fround(value + value))];
    assert.deepEqual([...embedding.forward([1, 4, 0, 0]).current], expected);
  });

  test("lists the rows of a sample side by side", () => {
    const { embedding, row } = opened({ combine: "concat" });
    assert.deepEqual([...embedding.forward([5, 2]).current], [...row(5), ...row(2)]);
    assert.deepEqual(embedding.output.shape, [6]);
  });

  test("has the gradient that differences say, in the touched rows alone, also in the second step", () => {
    for (const combine of ["sum", "concat"] as const) {
      const { workspace, embedding } = opened({ combine });
      const step = (ids: number[]): void => {
        embedding.forward(ids);
        embedding.backward(rampFor(workspace, embedding), () => {});
      };
      step([0, 1, 5, 5]);
      assert.deepEqual([...embedding.touchedRows], [0, 1, 5]);
      const ids = [4, 2, 2, 3];
      step(ids);
      assert.deepEqual([...embedding.touchedRows], [2, 3, 4]);
      const { values, gradient } = embedding.weight;
      const loss = (): number => embedding.forward(ids).current.reduce((sum, value, i) => sum + (i + 1) * value, 0);
      for (let i = 0; i < values.length; i++) {
        const value = values[i]!;
        values[i] = value + 1;
        const above = loss();
        values[i] = value - 1;
        const below = loss();
        values[i] = value;
        assert.ok(Math.abs(gradient[i]! - (above - below) / 2) < 1e-5, `${combine}, weight[${i}]: ${gradient[i]}`);
      }
    }
  });

  test("has no gradient of rows that other workers touched: their sum was left in it (Embedding.E1)", () => {
    const { workspace, embedding } = opened();
    embedding.forward([1, 2]);
    embedding.weight.gradient.fill(9); // the sum of all workers
    embedding.backward(rampFor(workspace, embedding), () => {});
    const { gradient } = embedding.weight;
    assert.ok(
      gradient.every((value, i) => value === 0 || (i >= 3 && i < 9)),
      String(gradient),
    );
    assert.ok(!gradient.includes(9));
  });

  test("refuses an id without a row before anything is computed", () => {
    const { embedding } = opened();
    const before = [...embedding.forward([1, 2]).current];
    for (const id of [-1, 6, 2 ** 31 - 1, 2 ** 32 + 1, 2 ** 53, Number.NaN, Infinity]) {
      assert.throws(
        () => embedding.forward([0, id]),
        (error) => isWeighbridgeError(error, "OUT_OF_RANGE") && error.message.includes(String(id)),
      );
    }
    assert.deepEqual([...embedding.output.current], before);
  });

  test("takes an id without a row for a row of zeros where it was told so", () => {
    const { workspace, embedding, row } = opened({ outOfRange: "zero" });
    assert.deepEqual([...embedding.forward([3, -1, 6, -7]).current], [...row(3), 0, 0, 0]);
    embedding.backward(rampFor(workspace, embedding), () => {});
    assert.deepEqual([...embedding.touchedRows], [3]);
    assert.deepEqual([...embedding.weight.gradient.subarray(9, 12)], [1, 2, 3]);
    assert.ok(embedding.weight.gradient.every((value, i) => value === 0 || (i >= 9 && i < 12)));
  });

  test("refuses an id that is no whole number, also where ids without a row are zeros", () => {
    for (const outOfRange of ["refuse", "zero"] as const) {
      const { embedding } = opened({ outOfRange });
      assert.throws(
        () => embedding.forward([0, 1.5]),
        (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /id 1\.5 at 1 is no whole number/.test(error.message),
      );
    }
  });

  test("refuses ids that are no whole samples, too many, or none", () => {
    const { embedding } = opened();
    for (const ids of [[1], [1, 2, 3], Array.from({ length: 10 }, () => 0), []]) {
      assert.throws(
        () => embedding.forward(ids),
        (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
      );
    }
  });
});
