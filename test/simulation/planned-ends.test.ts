// planned-ends.test — Goal: a node that was stopped knows whether another process goes on with what it had, which is
// what the launcher hears (EndSignal.E3): then its end is no failure.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";
import { HEAD, STANDBY, StopStage } from "./planned-stops.ts";

test("a server that has saved its state, or has handed over, has a successor, and so has a standby", async () => {
  for (const [replicas, stopped] of [
    [1, HEAD],
    [2, HEAD],
    [2, STANDBY],
  ] as const) {
    await using stage = await new StopStage({ replicas }).open();
    const { cluster } = stage;
    await cluster.run(stage.push());
    const { node } = cluster.office(stopped);
    assert.equal(node.hasSuccessor, false);
    await cluster.run(node.leave());
    assert.equal(node.hasSuccessor, true, `${replicas} ${stopped}`);
  }
});

test("a server whose state is lost with it has none", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1, settle: SETTLING });
  await cluster.start();
  const { node } = cluster.server(0);
  await cluster.run(node.leave());
  assert.equal(node.hasSuccessor, false);
});
