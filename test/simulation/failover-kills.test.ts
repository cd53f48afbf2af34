// Somebody dies while a server with a standby serves, or while the standby takes over: some of the boundaries between
// two events; npm run soak takes every one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { calmTraining, FAILOVER_VICTIMS, killWhileTraining } from "./failover-kills.ts";

const STRIDE = 61;

for (const victim of FAILOVER_VICTIMS)
  test(`the ${victim} may die at any moment, and nothing is lost or computed otherwise, at every ${STRIDE}st boundary (Availability.I1)`, async () => {
    const expected = await calmTraining();
    let events = 1;
    while (!(await killWhileTraining(victim, events, expected))) events += STRIDE;
    assert.ok(events > 2 * STRIDE, `over after ${events} events`);
  });
