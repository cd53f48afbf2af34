// Goal: every gradient is given once, not before it is final, large ones at once and small ones together (G1).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Parameter } from "../../nn/parameter.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";
import type { Stage } from "./network.ts";
import { GIVEN_BYTES_MIN, pushOrder } from "./push-order.ts";

type Named = Pick<Stage, "parameters" | "lookup">;
const LARGE = GIVEN_BYTES_MIN / 4;

function stage(names: string, floatCount: number): Named {
  const parameters = [...names].map((name) => ({ name, gradient: new Float32Array(floatCount) }) as Parameter);
  return { parameters };
}

const namesOf = (stages: readonly Named[]): string[] =>
  pushOrder(stages).map((group) => group.map((given) => ("lookup" in given ? given.lookup.name : given.parameter.name)).join(""));

test("a large gradient is given with its own stage, small ones with the first", () => {
  assert.deepEqual(namesOf([stage("a", 1), stage("", 0), stage("b", LARGE), stage("cd", 10)]), ["cda", "", "b", ""]);
});

test("small ones are given together as soon as there are enough of them", () => {
  assert.deepEqual(namesOf([stage("a", 1), stage("b", LARGE / 2), stage("c", LARGE / 2), stage("d", LARGE / 4)]), ["a", "dcb", "", ""]);
});

test("all of a small network is given after its first stage, in the order of the backward", () => {
  assert.deepEqual(namesOf([stage("ab", 6), stage("c", 3), stage("de", 2)]), ["decab", "", ""]);
  assert.deepEqual(namesOf([]), []);
});

test("rows of a lookup count as those of a batch of distinct ids", () => {
  const lookup = (name: string, width: number): Named => {
    const options = { sparse: true, idsPerSample: 4, sampleCountMax: 256, width };
    return { parameters: [], lookup: { name, options } as unknown as EmbeddingLookup };
  };
  assert.deepEqual(namesOf([stage("a", 1), lookup("L", 64), lookup("s", 1)]), ["sa", "L", ""]);
});
