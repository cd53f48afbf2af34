// Goal: every node works with the placement that the scheduler published, the newest epoch wins everywhere, and no
// epoch ever names two placements.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { ControlCluster } from "../testing/control-cluster.ts";
import { OLD_ROSTER, RosterStage } from "../testing/roster-stage.ts";
import { EPOCH_MAX } from "../wire/frame.ts";
import type { PlacementView } from "../wire/roster.ts";

const FIRST: PlacementView = { epoch: 1, policy: "ring", servers: [0, 1] };

test("a job begins with a ring of all its servers in epoch 1, or with ranges where the scheduler was told so", () => {
  assert.deepEqual(new RosterStage().formed().roster.view().placement, FIRST);
  assert.deepEqual(new RosterStage({ placement: "range" }).formed().roster.view().placement, { ...FIRST, policy: "range" });
});

test("a job without servers has no placement", () => {
  const book = new RosterStage({ serverCount: 0, workerCount: 1 });
  book.register("w0", { serverCount: 0, workerCount: 1 });
  assert.equal(book.roster.view().placement, undefined);
});

test("every node hears of the next placement, which has the next epoch", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  const heard: number[][] = [];
  for (const node of [...servers, ...workers]) {
    assert.deepEqual(node.placement, { ...FIRST, moved: undefined, move: undefined });
    const epochs: number[] = [];
    heard.push(epochs);
    node.onPlacement(({ epoch }) => epochs.push(epoch));
  }
  const changes = [scheduler.publishPlacement(), scheduler.publishPlacement({ policy: "range", servers: [1], moved: [] })];
  await cluster.clock.runUntil(Promise.all(changes));
  await cluster.clock.advance(100);
  for (const node of [...servers, ...workers])
    assert.deepEqual(node.placement, { epoch: 3, policy: "range", servers: [1], moved: undefined, move: undefined });
  for (const epochs of heard) assert.equal(epochs.at(-1), 3);
});

test("a placement of a server that there is not, or that makes no sense, is refused and told nobody", () => {
  const book = new RosterStage().formed();
  const { version } = book.roster.view();
  for (const change of [{ servers: [] }, { servers: [0, 2] }, { servers: [0, 0] }, { moved: [4096, 0] }])
    assert.throws(
      () => book.roster.publishPlacement(change),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
      JSON.stringify(change),
    );
  assert.deepEqual(book.roster.view().placement, FIRST);
  assert.equal(book.roster.view().version, version);
});

test("a scheduler that was restarted takes the highest epoch that its nodes know, whichever policy it was started with, and goes on from there", () => {
  const known = (epoch: number): { roster: typeof OLD_ROSTER } => ({
    roster: { ...OLD_ROSTER, placement: { epoch, policy: "range", servers: [0, 1] } },
  });
  const book = new RosterStage();
  book.resume("w0", { node: 9, ...known(4) });
  assert.equal(book.roster.view().placement?.epoch, 4);
  assert.throws(
    () => book.roster.publishPlacement({}),
    (error) => isWeighbridgeError(error, "NO_ROUTE") && error.retryable,
  );
  const version = book.roster.view().version;
  assert.ok(book.resume("s0", { node: 8, ...known(6) }).includes("publish"), "all are told of the newer one");
  assert.ok(book.roster.view().version > version);
  book.resume("s1", { node: 10, ...known(5) });
  book.resume("w1", { node: 11, ...known(5) });
  assert.deepEqual(book.roster.view().placement, { epoch: 6, policy: "range", servers: [0, 1] });
  book.roster.publishPlacement({});
  assert.equal(book.roster.view().placement?.epoch, 7);
});

test("nodes keep the placement that they have while a restarted scheduler knows an older one, and it learns theirs", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  await cluster.clock.runUntil(scheduler.publishPlacement({ policy: "range" }));
  await cluster.clock.advance(100);
  cluster.network.crash("scheduler");
  const next = await cluster.scheduler();
  await cluster.clock.advance(3000);
  assert.deepEqual(next.roster.placement, { epoch: 2, policy: "range", servers: [0, 1], moved: undefined, move: undefined });
  for (const node of [...servers, ...workers]) assert.deepEqual(node.placement, next.roster.placement);
});

test("a node that asks is told the placement at once", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  await cluster.clock.runUntil(scheduler.publishPlacement());
  await cluster.clock.runUntil(servers[0]!.fetchPlacement());
  assert.equal(servers[0]!.placement?.epoch, 2);
});

test("the last epoch that a header can carry is followed by none", () => {
  const book = new RosterStage();
  const roster = { ...OLD_ROSTER, placement: { ...FIRST, epoch: EPOCH_MAX } };
  for (const [i, name] of ["s0", "w0", "s1", "w1"].entries()) book.resume(name, { node: 8 + i, roster });
  assert.throws(
    () => book.roster.publishPlacement({}),
    (error) => isWeighbridgeError(error, "UNSUPPORTED"),
  );
});
