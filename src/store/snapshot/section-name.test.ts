// Goal: a section's name says which stretch and column of which parameter it is, for every name a parameter may have.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ChunkKey, isColumnName, parseSectionName, sectionName } from "./section-name.ts";

test("names read as they are documented", () => {
  assert.equal(sectionName({ kind: "rows", parameter: "layer1/w", from: 0, to: 4096 }, "values"), "layer1/w/rows/0:4096/values");
  assert.equal(sectionName({ kind: "parts", parameter: "users", from: 8, to: 16, ordinal: 2 }, "keys"), "users/parts/8:16/2/keys");
});

const count = fc.nat({ max: Number.MAX_SAFE_INTEGER - 1 });
/** Names that look like our own are the hard ones. */
const parameter = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.constantFrom("a", "rows", "parts", "0:1", "3", "values", "", "keys"), { maxLength: 8 }).map((words) => words.join("/")),
);
const key: fc.Arbitrary<ChunkKey> = fc
  .record({ parameter, from: count, more: fc.integer({ min: 1, max: 1000 }), ordinal: fc.option(count) })
  .map(({ parameter: name, from, more, ordinal }) => {
    const to = Math.min(from + more, Number.MAX_SAFE_INTEGER);
    return ordinal === null ? { kind: "rows", parameter: name, from, to } : { kind: "parts", parameter: name, from, to, ordinal };
  });

test("every name comes back as what it was made of (SectionName.N1)", () => {
  fc.assert(
    fc.property(key, fc.constantFrom("keys", "values", "slot_0", "momentum", "rows"), (chunk, column) => {
      assert.deepEqual(parseSectionName(sectionName(chunk, column)), { key: chunk, column });
    }),
    { numRuns: 2000 },
  );
});

test("what is no name of ours is not taken for one", () => {
  const strange = ["", "w", "w/values", "w/rows/0:4", "w/rows/4:0/values", "w/rows/4:4/values", "w/rows/00:4/values", "w/rows/0-4/values"];
  for (const name of [...strange, "w/rows/0:4/Va lues", "w/rows/0:4/", "w/parts/0:4/keys", "w/rows/-1:4/values", "rows/0:4/values"]) {
    assert.equal(parseSectionName(name), undefined, name);
  }
});

test("a column's name is a word", () => {
  assert.ok(["keys", "slot_0", "a-b", "exponentialAverage"].every(isColumnName));
  assert.ok(!["", "a/b", "0", "A", "a b", "a".repeat(65)].some(isColumnName));
});
