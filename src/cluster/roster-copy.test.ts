// Goal: a node's copy of the roster never goes back, and neither does its placement, whatever a restarted scheduler
// knows.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { PlacementView } from "../wire/roster.ts";
import { RosterCopy } from "./roster-copy.ts";

const placement = (epoch: number): PlacementView => ({ epoch, policy: "ring", servers: [0, 1] });

test("a newer roster with an older placement, or none, leaves the placement as it is, and nobody is told of one (RosterCopy.C2)", () => {
  const copy = new RosterCopy();
  const heard: number[] = [];
  copy.listenPlacement(({ epoch }) => heard.push(epoch));
  copy.adopt({ version: 1, nodes: [], placement: placement(3) });
  copy.adopt({ version: 2, nodes: [], placement: placement(2) });
  assert.equal(copy.view.placement?.epoch, 3);
  copy.adopt({ version: 3, nodes: [] });
  assert.deepEqual([copy.view.version, copy.view.placement?.epoch], [3, 3]);
  copy.adopt({ version: 2, nodes: [], placement: placement(9) });
  assert.equal(copy.view.placement?.epoch, 3, "an older roster is not looked at (RosterCopy.C1)");
  copy.adopt({ version: 4, nodes: [], placement: placement(4) });
  assert.deepEqual(heard, [3, 4]);
});

test("a placement that came without a roster is taken if it is newer", () => {
  const copy = new RosterCopy();
  const heard: number[] = [];
  copy.listenPlacement(({ epoch }) => heard.push(epoch));
  for (const epoch of [2, 1, 2, 5]) copy.adoptPlacement(placement(epoch));
  assert.deepEqual([copy.view.version, copy.view.placement?.epoch, heard], [0, 5, [2, 5]]);
});
