// Somebody dies while parts change hands, and each part has one owner all the same (Availability.I4): some of the
// boundaries between two events; npm run soak takes every one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { killWhileMoving, MOVING_VICTIMS, STOPPED_VICTIMS, stopWhileMoving } from "./moving-kills.ts";

const STRIDE = 29;

for (const victim of MOVING_VICTIMS) {
  test(`the ${victim} may die at any moment of a change: all parts are handed over, or none (PlacementChanges.C6), at every ${STRIDE}th boundary`, async () => {
    let events = 1;
    while (!(await killWhileMoving(victim, events))) events += STRIDE;
    assert.ok(events > 2 * STRIDE, `the change took ${events} events`);
  });
}

for (const victim of STOPPED_VICTIMS) {
  test(`the ${victim} may be stopped at any moment of a change, and started again: nothing is lost (PlannedStop.P6), at every ${STRIDE}th boundary`, async () => {
    let events = 1;
    while (!(await stopWhileMoving(victim, events))) events += STRIDE;
    assert.ok(events > 2 * STRIDE, `the change took ${events} events`);
  });
}
