// Goal: the name of a column says which processes train, and what is none is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { COLUMN_NAMES, parseColumn } from "./training-column.ts";

test("the columns of the first table", () => {
  const told = COLUMN_NAMES.map(parseColumn).map(({ aloneCount, servers, workers, onServers, devices }) => [
    ...[aloneCount, servers, workers, devices],
    onServers,
  ]);
  assert.deepEqual(told, [
    [1, 0, 0, 1, false],
    [2, 0, 0, 1, false],
    [0, 1, 1, 1, true],
    [0, 1, 2, 1, true],
    [0, 2, 2, 1, true],
    [0, 2, 4, 1, true],
    [0, 1, 2, 1, false],
    [0, 1, 1, 2, true],
  ]);
});

test("threads and overlap stand behind any of them", () => {
  const { devices, overlap } = parseColumn("2x2-overlap");
  assert.deepEqual({ devices, overlap }, { devices: 1, overlap: true });
  assert.deepEqual(parseColumn("one-devices2"), { ...parseColumn("one"), name: "one-devices2", devices: 2 });
});

for (const name of ["", "three", "2x", "0x1", "1x0", "2x2-devices", "2x2-fast"])
  test(`"${name}" is no column`, () => assert.throws(() => parseColumn(name)));
