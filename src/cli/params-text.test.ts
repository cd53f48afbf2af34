// params-text — Goal: parameters, their shares and their values are readable in a terminal, and complete as JSON.

import assert from "node:assert/strict";
import { test } from "node:test";
import { resolveInitializer } from "../store/initializers/initializer-spec.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import { resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import { jsonValues, listText, parameterFields, parameterText, valuesText, valueText } from "./params-text.ts";
import { widthOf } from "./text-width.ts";

const common = { updates: "async", reduce: "sum", staleness: undefined } as const;
const init = resolveInitializer({ type: "normal", std: 0.1, seed: 1 });
const optimizer = resolveOptimizer({ type: "adagrad", learningRate: 0.1 });
const USERS: ParameterSpec = {
  ...common,
  kind: "table",
  name: "users",
  width: 4,
  rows: undefined,
  versions: false,
  initializer: init,
  optimizer,
};
const W: ParameterSpec = {
  ...common,
  kind: "tensor",
  name: "w",
  shape: [3, 2],
  initializer: init,
  optimizer,
  updates: "sync",
  staleness: 0,
};
const [users, w] = [parameterFields(USERS), parameterFields(W)];

test("the list names each parameter's kind, shape, dtype, optimizer and consistency", () => {
  assert.equal(
    listText("ads", [users, w]),
    [
      "job ads: 2 parameters",
      "",
      "name   kind       shape     dtype  optimizer  consistency",
      "users  embedding  keys × 4  f32    adagrad    asp",
      "w      tensor     3 × 2     f32    adagrad    bsp",
    ].join("\n"),
  );
  assert.equal(listText("ads", []), "job ads has no parameters");
  const long = { ...users, name: "点击".repeat(10) };
  assert.deepEqual(listText("ads", [long, w], 60).split("\n").slice(2), [
    "name      kind       shape     dtype  optimizer  consistency",
    "点击点…   embedding  keys × 4  f32    adagrad    asp",
    "w         tensor     3 × 2     f32    adagrad    bsp",
  ]);
});

test("a list fits its terminal, whatever the names and shapes", () => {
  const long = { ...users, name: "点击".repeat(10), optimizer: { type: "custom", updater: "momentum-with-restarts-of-every-epoch@2" } };
  const deep = { ...w, shape: [1024, 1024, 512, 3, 3, 3, 3, 3, 3, 3, 3, 3], dtype: "a-row-type-of-a-user-with-a-long-name" };
  for (const columns of [60, 80, 120]) {
    for (const line of listText("ads", [long, deep], columns).split("\n")) assert.ok(widthOf(line) <= columns, `${columns}: ${line}`);
  }
});

test("one parameter is shown with its settings, and its share of each server", () => {
  const servers = [
    { server: 0, count: 3000, bytes: 98_304 },
    { server: 1, count: 1000, bytes: 32_768 },
  ];
  assert.equal(
    parameterText(users, servers, 60),
    [
      "users: embedding of f32, keys × 4",
      "",
      "rows         4,000",
      "memory       128.0 KiB",
      "optimizer    adagrad, learningRate 0.1, epsilon 1e-10,",
      "             initialAccumulator 0, weightDecay 0",
      "consistency  asp",
      "init         normal, mean 0, std 0.1, seed 1",
      "",
      "server     rows   share                          memory",
      "server/0  3,000  75.0 %  ━━━━━━━━━━━━━━━─────  96.0 KiB",
      "server/1  1,000  25.0 %  ━━━━━───────────────  32.0 KiB",
    ].join("\n"),
  );
});

test("a parameter without rows has no shares", () => {
  assert.match(parameterText(users, [{ server: 0, count: 0, bytes: 0 }]), /\nserver\/0 {5}0 {6}- {2}─{20} {5}0 B$/);
});

test("rows are cut where the line is full, and keys without a row are marked", () => {
  const rows = [
    { label: "17", values: Float32Array.of(0.5, -0.25, 1 / 3, 1e-7) },
    { label: "5000", values: Float32Array.of(1, 2, 3, 4), isMissing: true },
  ];
  assert.equal(
    valuesText(users, rows, 0, 24),
    [
      "users: embedding of f32, keys × 4",
      "",
      "   17  0.5 -0.25 …",
      "5000*  1 2 3 4",
      "",
      "* no row yet: what its first update would find",
    ].join("\n"),
  );
  assert.match(valuesText(users, rows), /\n {3}17 {2}0\.5 -0\.25 0\.333333 1e-7\n/);
  assert.match(valuesText(w, [{ label: "0", values: Float32Array.of(1, 2) }], 2), /\n0 {2}1 2\n… 2 more rows$/);
  assert.match(valuesText(w, [{ label: "", values: Float32Array.of(1, 2) }], 1), /\n1 2\n… 1 more element$/);
});

test("numbers have six digits, and integers all of theirs", () => {
  const shown = [0, -1.5, 1 / 3, 123_456.7, 1_234_567.8, 0.000_123_4, 0.000_012_34, Number.NaN, -Infinity].map(valueText);
  assert.deepEqual(shown, ["0", "-1.5", "0.333333", "123457", "1.23457e+6", "0.0001234", "1.234e-5", "NaN", "-Infinity"]);
  assert.deepEqual([valueText(2n ** 62n), valueText(1_234_567)], ["4611686018427387904", "1234567"]);
});

test("in JSON, what it has no numbers for is a string", () => {
  assert.deepEqual(jsonValues(BigInt64Array.of(5n)), ["5"]);
  assert.deepEqual(jsonValues(Float64Array.of(0.5, Number.NaN)), [0.5, "NaN"]);
});
