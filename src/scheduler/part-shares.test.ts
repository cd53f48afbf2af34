// Goal: how many parts each server owns, and how uneven that is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PART_COUNT } from "../keys/part.ts";
import type { PlacementView } from "../wire/roster.ts";
import { PartShares, skewOf } from "./part-shares.ts";

test("the shares and the skew are those of the placement; while there is none, of the last one", () => {
  const shares = new PartShares();
  assert.deepEqual(shares.of(undefined), { shares: [] });
  const view = (epoch: number, servers: readonly number[]): PlacementView => ({ epoch, policy: "range", servers });
  assert.deepEqual(shares.of(view(1, [0])), { shares: [{ rank: 0, parts: PART_COUNT }] }, "one server has no skew");
  const uneven = shares.of(view(2, [0, 1, 2]));
  assert.equal(uneven.skew, Math.max(...uneven.shares.map(({ parts }) => parts)) / (PART_COUNT / 3));
  assert.equal(shares.of(undefined), uneven);
});

test("the skew is that of the fullest server", () => {
  const [one, other] = [
    { rank: 0, parts: 3072 },
    { rank: 1, parts: 1024 },
  ];
  assert.equal(skewOf([one, other]), 1.5);
  assert.equal(skewOf([one]), undefined);
});
