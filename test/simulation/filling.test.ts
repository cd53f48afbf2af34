// Standbys that come later: what they get, and what happens when somebody dies meanwhile. npm run soak takes many more
// seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { type FillingCounts, FillingStage, killWhileFilling, runFilling } from "./filling.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 2;
/** npm run soak takes every boundary. */
const STRIDE = 150;
const HEAD = idOf("server", 0);
const STANDBY = idOf("standby", 0);

test(`training goes on, exactly, while processes die and others are filled, for ${SEEDS} seeds`, async () => {
  const sum: FillingCounts = { fills: 0, takeovers: 0, differing: 0 };
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const { fills, takeovers, differing } = await runFilling(seed);
    sum.fills += fills;
    sum.takeovers += takeovers;
    sum.differing += differing;
  });
  assert.ok(sum.fills > 0 && sum.takeovers > 0, JSON.stringify(sum));
  assert.equal(sum.differing, 0, "no standby differed from its head");
});

test("a standby that was filled has the bits of its head, and output waits for it (Fill.F4)", async () => {
  const stage = new FillingStage();
  await stage.open();
  await stage.cluster.run(stage.cluster.startNode(STANDBY));
  while (!stage.isCounted) await stage.push();
  for (let i = 0; i < 3; i++) await stage.push();
  assert.deepEqual(stage.digests(STANDBY), stage.digests(HEAD));
  const { log } = stage.serverOf(HEAD).replica ?? {};
  assert.deepEqual([log?.isOn, log?.holdsBack], [true, true]);
  await stage.close();
});

test("a head that is told to stop while its standby is being filled hands over when that has everything: no call fails", async () => {
  const stage = new FillingStage(3);
  await stage.open();
  const { cluster } = stage;
  for (let i = 0; i < 20; i++) await stage.push();
  await cluster.run(cluster.startNode(STANDBY));
  while (stage.serverOf(HEAD).replica?.isFillingStandby !== true) await cluster.clock.advance(1);
  const left = cluster.office(HEAD).node.leave();
  for (let i = 0; i < 20; i++) await stage.push();
  await cluster.run(left);
  for (let i = 0; i < 3; i++) await stage.push();
  assert.equal(cluster.scheduler.roster.nodes.find(({ node }) => node === HEAD)?.incarnation, 2, "the standby leads");
  const rows = await cluster.run(stage.session.embedding("rows", { dim: 8, optimizer: "sum" }));
  assert.deepEqual([...(await cluster.run(rows.pull([1]))).slice(0, 2)], [2, 2], "of two pushes");
  await stage.close();
});

test("a standby without memory for the state leaves, and pushes go on", async () => {
  const stage = new FillingStage(2, { arenaBytesMax: 2 ** 21 });
  await stage.open();
  const { cluster, session } = stage;
  const large = await cluster.run(session.tensor("large", { shape: [1024, 1024], optimizer: "sum", consistency: "asp" }));
  await cluster.run(large.push(new Float32Array(1024 * 1024).fill(1)));
  await cluster.run(cluster.startNode(STANDBY));
  for (let i = 0; i < 20; i++) await stage.push();
  assert.equal(stage.isCounted, false);
  assert.equal(cluster.scheduler.roster.nodes.find(({ node }) => node === STANDBY)?.state, "left");
  assert.equal(stage.serverOf(HEAD).replica?.log.isOn, false);
  await stage.close();
});

test("a standby that comes right after one that was silent is filled at once: its head does not confuse the two", async () => {
  const stage = new FillingStage(5);
  await stage.open();
  const { cluster } = stage;
  await cluster.run(cluster.startNode(STANDBY));
  while (!stage.isCounted) await stage.push();
  cluster.network.isolate(cluster.hostOf(STANDBY));
  cluster.kill(STANDBY); // nobody sees it: it is silent, until its head opens the link anew
  const next = cluster.startNode(STANDBY, "standby-0-next");
  await cluster.clock.advance(10);
  await stage.push();
  await cluster.run(next);
  const { replica } = stage.serverOf(HEAD);
  while (replica?.isFillingStandby !== true) cluster.clock.step();
  while (!stage.isCounted) {
    assert.equal(replica.log.isOn, true, "it is not given up");
    await stage.push();
  }
  await stage.close();
});

test("with a head that dies while its standby is being filled the rank is dead: calls fail with NODE_DEAD, and the standby leaves", async () => {
  const stage = new FillingStage(3);
  await stage.open();
  const { cluster } = stage;
  await cluster.run(cluster.startNode(STANDBY));
  const { replica } = stage.serverOf(STANDBY);
  while (replica?.repeater.isFilling !== true) cluster.clock.step();
  cluster.kill(HEAD);
  await assert.rejects(stage.push(), throwsCode("NODE_DEAD"));
  await cluster.clock.advance(1000);
  assert.equal(cluster.scheduler.roster.nodes.find(({ node }) => node === STANDBY)?.state, "left");
  await stage.close();
});

for (const victim of ["head", "standby", "scheduler"] as const) {
  test(`the ${victim} may die at any moment of the copy: every ${STRIDE}th boundary between two events`, async () => {
    let events = 1;
    while (!(await killWhileFilling(victim, events))) events += STRIDE;
    assert.ok(events > 2 * STRIDE, `the copy took ${events} events`);
  });
}
