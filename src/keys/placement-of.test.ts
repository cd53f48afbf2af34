// Goal: the few words that cross the wire give the same placement wherever they are read, and nonsense gives an error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { PART_COUNT } from "./placement.ts";
import { Placements, placementOf, rangePlacement } from "./placement-of.ts";
import { ringPlacement } from "./ring-placement.ts";

test("each policy gives its own placement, with the epoch and whatever ranks the servers have", () => {
  for (const servers of [[0], [0, 1, 2], [3, 1, 8]]) {
    assert.deepEqual(placementOf({ epoch: 7, policy: "ring", servers }), ringPlacement({ epoch: 7, servers }));
    assert.deepEqual(placementOf({ epoch: 7, policy: "range", servers }), rangePlacement({ epoch: 7, servers }));
  }
});

test("parts that were moved belong to the server that is named, all others to the policy's", () => {
  const words = { epoch: 2, policy: "ring", servers: [1, 4, 9] } as const;
  const before = placementOf(words);
  const after = placementOf({ ...words, moved: [0, 9, 17, 4, PART_COUNT - 1, 1] });
  for (let part = 0; part < PART_COUNT; part++) {
    const moved = new Map([
      [0, 9],
      [17, 4],
      [PART_COUNT - 1, 1],
    ]).get(part);
    assert.equal(after.ownerOf(part), moved ?? before.ownerOf(part));
  }
});

test("a part that there is not, and a server that takes no part, are refused", () => {
  for (const moved of [[PART_COUNT, 0], [-1, 0], [0.5, 0], [0, 2], [0]])
    assert.throws(
      () => placementOf({ epoch: 1, policy: "range", servers: [0, 1], moved }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
});

test("on the way from servers to servers the parts below one are where they go, the others where they were (PlacementOf.D1)", () => {
  for (const policy of ["ring", "range"] as const) {
    const [from, to] = [
      [0, 1],
      [1, 2, 5],
    ];
    const [before, after] = [placementOf({ epoch: 1, policy, servers: from }), placementOf({ epoch: 1, policy, servers: to })];
    for (const below of [0, 1, 2000, PART_COUNT]) {
      const placement = placementOf({ epoch: 2, policy, servers: [0, 1, 2, 5], move: { from, to, below } });
      for (let part = 0; part < PART_COUNT; part++)
        assert.equal(placement.ownerOf(part), (part < below ? after : before).ownerOf(part), `${policy}: part ${part} of ${below}`);
    }
  }
  for (const [servers, below] of [
    [[0, 1], 1],
    [[0, 1, 2, 3], 1],
    [[0, 1, 2], -1],
    [[0, 1, 2], PART_COUNT + 1],
    [[0, 1, 2], 0.5],
  ] as const)
    assert.throws(
      () => placementOf({ epoch: 1, policy: "range", servers, move: { from: [0, 1], to: [1, 2], below } }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
});

test("placements that one maker makes one after the other are those that it would make alone", () => {
  const placements = new Placements();
  for (let below = 0; below <= PART_COUNT; below += 512) {
    const description = { epoch: 2 + below, policy: "ring", servers: [0, 1, 2], move: { from: [0, 1], to: [0, 1, 2], below } } as const;
    assert.deepEqual(placements.of(description), placementOf(description));
  }
  assert.deepEqual(placements.of({ epoch: 9, policy: "ring", servers: [4, 7] }), ringPlacement({ epoch: 9, servers: [4, 7] }));
});
