// Goal: a server that is stopped again at any moment of its comeback loses nothing: before it has registered, what was
// left for it stays, and afterwards it is left anew. One that is stopped while the scheduler is away serves until that
// has heard of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "../../src/base/deferred.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { SCHEDULER_ID } from "../../src/wire/node-id.ts";
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

for (const awayMs of [0, 300, 2_000, 8_000]) {
  test(`a server that is stopped while the scheduler is away for ${awayMs} ms is waited for all the same: no call fails (PlannedStop.P7)`, async () => {
    await using stage = await new StopStage().open();
    const { cluster } = stage;
    for (let i = 0; i < 5; i++) await cluster.run(stage.push());
    cluster.kill(SCHEDULER_ID);
    const stopping = stage.stop();
    let isOver = false;
    const pushing = (async () => {
      for (; !isOver; await sleep(cluster.clock, 50)) await stage.push(); // served by this process, or by the next one
    })();
    await cluster.clock.advance(awayMs);
    await cluster.run(cluster.startNode(SCHEDULER_ID));
    await cluster.run(stopping);
    await cluster.clock.advance(1_000); // longer than the heartbeat timeout
    await cluster.run(stage.start());
    await cluster.clock.advance(1_000);
    isOver = true;
    await cluster.run(pushing);
    assert.equal(stage.isLost, false);
  });
}

test("a call waits for the next process of its server up to its own deadline, also one that is longer than the start timeout; without a deadline it ends (LinkMonitor.A7)", async () => {
  await using stage = await new StopStage({ startTimeoutMs: 5_000 }).open();
  const { cluster } = stage;
  await cluster.run(stage.push());
  await cluster.run(stage.stop());
  const patient = stage.push({ timeoutMs: 100_000 });
  await cluster.clock.advance(60_000);
  await cluster.run(stage.start());
  await cluster.run(patient);
  await cluster.run(stage.stop());
  const endless = cluster.run(assert.rejects(stage.push({}), (thrown) => isWeighbridgeError(thrown, "LINK_LOST")));
  await endless;
  await cluster.run(stage.start());
});
