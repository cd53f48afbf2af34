// Both copies of a server rank are stopped together, in every order that seeds and boundaries give (PlannedStop.P5).

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { forSeeds } from "./seeds.ts";
import { stopAtBoundary, stopCopiesWhileMoving, stopTogether, stopWhileReplaced, TogetherStage } from "./stopped-together.ts";

const STRIDE = 11;

for (const [what, options] of [
  ["both copies of a rank are stopped close to each other", {}],
  ["all copies of two ranks are stopped", { serverCount: 2 }],
  ["both copies of a rank are stopped while one is being filled", { areFilling: true }],
  ["both copies of a rank are stopped, and the scheduler is killed and started again", { dies: true }],
] as const)
  test(`${what}: one of each rank leaves all that was acknowledged, for 30 seeds (PlannedStop.P5)`, async () => {
    await forSeeds({ from: 1, count: 30 }, (seed) => stopTogether({ seed, ...options }));
  });

test("a head that is stopped while another standby comes hands over to that, or saves and fills nobody, for 30 seeds (PlannedStop.P5)", async () => {
  const outcomes = new Set<string>();
  await forSeeds({ from: 1, count: 30 }, async (seed) => void outcomes.add(await stopWhileReplaced(seed)));
  assert.equal(outcomes.size, 2);
});

test("both copies of a rank are stopped while parts move to it: one leaves all that was acknowledged, for 20 seeds (PlannedStop.P5)", async () => {
  await forSeeds({ from: 1, count: 20 }, stopCopiesWhileMoving);
});

for (const first of ["head", "standby"] as const)
  test(`the ${first} is stopped, and the other copy at every ${STRIDE}th boundary of that (PlannedStop.P5)`, async () => {
    let events = 0;
    while (!(await stopAtBoundary(first, events))) events += STRIDE;
    assert.ok(events > 10 * STRIDE, `over after ${events} events`);
  });

test("without a checkpoint directory both end at once, and calls fail, as those to a server without a standby", async () => {
  await using stage = await new TogetherStage({ seed: 1, hasDirectory: false }).open();
  const { cluster } = stage;
  await cluster.run(Promise.all([...stage.servers, ...stage.standbys].map((node) => stage.stop(node))));
  assert.match(stage.said.join("; "), /what this server has is lost with it/);
  await assert.rejects(stage.end(), throwsCode("NODE_DEAD"));
});

test("while the scheduler is away both end within the time that one of them has", async () => {
  await using stage = await new TogetherStage({ seed: 1 }).open();
  const { cluster } = stage;
  cluster.kill(SCHEDULER_ID);
  const fromMs = cluster.clock.nowMs();
  await cluster.run(Promise.all([...stage.servers, ...stage.standbys].map((node) => stage.stop(node))));
  assert.ok(cluster.clock.nowMs() - fromMs < 2500, `${cluster.clock.nowMs() - fromMs} ms`);
});
