// Goal: a server that is stopped again at any moment of its comeback loses nothing: before it has registered, what was
// left for it stays, and afterwards it is left anew.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StopStage } from "./planned-stops.ts";

test("a server that is stopped while it comes back leaves its state again, at whichever moment (PlannedStop.P4)", async () => {
  await using stage = await new StopStage().open();
  const { cluster } = stage;
  for (let i = 0; i < 5; i++) await cluster.run(stage.push());
  await cluster.run(stage.stop());
  let startingCount = 0;
  for (let afterMs = 0, isStarting = true; isStarting; afterMs += 3, startingCount++) {
    const pushing = stage.push(); // waits for the process that stays
    isStarting = await cluster.run(stage.startAndStop(afterMs));
    assert.equal(stage.isLost, false, `stopped after ${afterMs} ms: ${stage.said.join("; ")}`);
    await cluster.run(stage.start());
    await cluster.run(pushing);
    await cluster.run(stage.stop());
  }
  assert.ok(startingCount > 4, `${startingCount} moments`);
  await cluster.run(stage.start());
});
