// Bars, columns and numbers, at their edges.

import assert from "node:assert/strict";
import test from "node:test";
import { barText, columnsText, compactNumber, percent } from "./figures.ts";

test("numbers get three digits and a prefix", () => {
  assert.deepEqual([0, 12, 999, 1000, 12_345_678, 999_999].map(compactNumber), ["0 ", "12 ", "999 ", "1.00 k", "12.3 M", "1.00 M"]);
});

test("bars fill by halves and never overflow", () => {
  assert.deepEqual(
    [0, 0.25, 0.5, 1, 2, -1].map((share) => barText(share, 2)),
    ["──", "╸─", "━─", "━━", "━━", "──"],
  );
});

test("columns line up, numbers at their ends", () => {
  assert.deepEqual(
    columnsText([
      ["name", "a"],
      ["x", "123"],
    ]),
    ["name     a", "x      123"],
  );
});

test("a share that nobody knows is a dash", () => {
  assert.deepEqual([percent(0.1234), percent(undefined)], ["12.3 %", "-"]);
});
