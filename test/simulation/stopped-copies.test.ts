// Goal: a replicated server that is stopped while it has no standby leaves its state in its checkpoint directory, as an
// unreplicated one does: calls wait, the next process of the rank goes on from there, and fills the standby that comes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf } from "../../src/wire/node-id.ts";
import { HEAD, STANDBY, StopStage } from "./planned-stops.ts";

/** A head whose standby has died. */
async function alone(): Promise<StopStage> {
  const stage = await new StopStage({ replicas: 2 }).open();
  const { cluster } = stage;
  await cluster.run(stage.push());
  cluster.kill(STANDBY);
  await cluster.run(stage.push());
  while (stage.entry(STANDBY)?.state === "alive") await cluster.clock.advance(10);
  return stage;
}

/** Pushes until the scheduler counts on the standby, and then lets it take over. */
async function fail(stage: StopStage): Promise<void> {
  const { cluster } = stage;
  await cluster.run(cluster.startNode(STANDBY));
  const isCounted = (): boolean => stage.entry(STANDBY)?.state === "alive" && stage.entry(STANDBY)?.isFilling === undefined;
  while (!isCounted()) await cluster.run(stage.push());
  cluster.kill(HEAD);
  await cluster.run(stage.push());
}

test("a head without a standby saves what it has: calls wait, the next process goes on, and a standby that comes is filled (PlannedStop.P1)", async () => {
  await using stage = await alone();
  const { cluster } = stage;
  const pushing = (async (): Promise<void> => {
    for (let i = 0; i < 20; i++) await stage.push();
  })();
  await cluster.run(stage.stop());
  assert.deepEqual([stage.entry(HEAD)?.state, stage.entry(HEAD)?.returns, stage.isLost], ["dead", true, false], stage.said.join("\n"));
  await cluster.run(cluster.startNode(HEAD));
  await cluster.run(pushing);
  const { incarnation, continues } = stage.entry(HEAD) ?? {};
  assert.deepEqual([incarnation, continues], [2, 1]);
  await fail(stage);
  assert.equal(stage.entry(HEAD)?.incarnation, 3);
});

test("a standby that comes while its head saves waits for the next one, which fills it", async () => {
  await using stage = await alone();
  const { cluster } = stage;
  for (let i = 0; i < 20; i++) await cluster.run(stage.push());
  const { server } = cluster.office(HEAD);
  const stopped = stage.stop();
  while (server?.replica?.log.isOn !== true) await cluster.clock.advance(0.1);
  await cluster.run(Promise.all([stopped, cluster.startNode(STANDBY)]));
  assert.equal(stage.isLost, false, stage.said.join("\n"));
  await cluster.run(cluster.startNode(HEAD));
  await cluster.run(stage.push());
  while (stage.entry(STANDBY)?.isFilling === true) await cluster.run(stage.push());
  assert.equal(stage.entry(STANDBY)?.state, "alive");
  cluster.kill(HEAD);
  await cluster.run(stage.push());
});

test("a head that cannot reach the standby it fills saves what it has", async () => {
  await using stage = await alone();
  const { cluster } = stage;
  for (let i = 0; i < 20; i++) await cluster.run(stage.push());
  const { server } = cluster.office(HEAD);
  await cluster.run(cluster.startNode(STANDBY));
  while (server?.replica?.isFillingStandby !== true) cluster.clock.step();
  cluster.network.isolate(cluster.hostOf(STANDBY));
  cluster.network.breakLinks(cluster.hostOf(STANDBY));
  await cluster.run(stage.stop());
  assert.deepEqual([stage.entry(HEAD)?.returns, stage.isLost], [true, false], stage.said.join("\n"));
  await cluster.run(cluster.startNode(HEAD));
  await cluster.run(stage.push());
});

test("a head with a standby hands over, and saves nothing; its standby saves nothing when it is stopped", async () => {
  await using stage = await new StopStage({ replicas: 2 }).open();
  const { cluster } = stage;
  await cluster.run(stage.push());
  await cluster.run(stage.stop());
  await cluster.run(stage.push());
  assert.deepEqual([stage.entry(HEAD)?.incarnation, stage.entry(HEAD)?.returns], [2, undefined]);
  cluster.takenOver(0);
  assert.equal(await stage.savedFiles(), 0);
  await cluster.run(cluster.startNode(STANDBY));
  while (stage.entry(STANDBY)?.isFilling === true) await cluster.run(stage.push());
  await cluster.run(cluster.office(STANDBY).node.leave());
  await cluster.run(stage.push());
  assert.deepEqual([stage.entry(STANDBY)?.state, await stage.savedFiles()], ["left", 0]);
  assert.equal(stage.entry(idOf("server", 0))?.state, "alive");
});

test("a scheduler that is started again meanwhile takes the claim of the next process", async () => {
  await using stage = await alone();
  const { cluster } = stage;
  await cluster.run(stage.stop());
  const pushing = stage.push();
  cluster.kill(1);
  await cluster.run(cluster.startNode(1));
  await cluster.run(cluster.startNode(HEAD));
  await cluster.run(pushing);
  assert.equal(stage.entry(HEAD)?.incarnation, 2);
});
