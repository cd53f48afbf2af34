// Goal: a checkpoint lacks no row and has none twice, or says which.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { CheckpointManifest } from "./checkpoint-manifest.ts";
import { chunksByParameter, coverageProblems } from "./coverage.ts";
import type { Chunk } from "./shard-header.ts";

const MANIFEST = {
  parameters: [
    { name: "w", kind: "tensor", rowCount: 10 },
    { name: "t", kind: "table", rowCount: 7 },
    { name: "empty", kind: "tensor", rowCount: 0 },
  ],
} as unknown as CheckpointManifest;

const rows = (from: number, to: number): Chunk => ({
  file: `f${from}`,
  key: { kind: "rows", parameter: "w", from, to },
  rowCount: to - from,
  sections: new Map(),
});
const parts = (rowCount: number, ordinal: number): Chunk => ({
  file: "f",
  key: { kind: "parts", parameter: "t", from: 0, to: 4, ordinal },
  rowCount,
  sections: new Map(),
});
const problems = (...chunks: readonly Chunk[]): string[] => coverageProblems(MANIFEST, chunksByParameter(chunks));

test("chunks in any order that cover everything once are whole", () => {
  assert.deepEqual(problems(rows(6, 10), parts(3, 0), rows(0, 4), rows(4, 6), parts(4, 1), parts(0, 2)), []);
});

test("rows that are missing at the beginning, between or at the end are named", () => {
  const table = parts(7, 0);
  assert.deepEqual(problems(table, rows(2, 10)), ['parameter "w" has no rows 0 to 1 in any file']);
  assert.deepEqual(problems(table, rows(0, 4), rows(6, 10)), ['parameter "w" has no rows 4 to 5 in any file']);
  assert.deepEqual(problems(table, rows(0, 9)), ['parameter "w" has no rows 9 to 9 in any file']);
  assert.deepEqual(problems(table), ['parameter "w" has no rows 0 to 9 in any file']);
});

test("rows that are there twice are named, with a file", () => {
  assert.deepEqual(problems(parts(7, 0), rows(0, 5), rows(4, 10)), ['parameter "w" has row 4 twice, once in f4']);
});

test("a table has as many rows as the manifest says", () => {
  assert.deepEqual(problems(rows(0, 10), parts(3, 0), parts(3, 1)), ['parameter "t" has 6 rows in the files; the manifest says 7']);
});
