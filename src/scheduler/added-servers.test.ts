// added-servers.test — Goal: servers beyond those of a job get a rank when one is asked for, wait as spares otherwise,
// and slots of servers that leave end with them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RosterStage } from "../testing/roster-stage.ts";

const WISH = { number: 1, ask: { to: 4 }, timeoutMs: 1000, begun: { from: [0, 1], to: [0, 1, 2, 3] } } as const;

function formed(): RosterStage {
  return new RosterStage({ mayScale: true }).formed();
}

test("a server that comes to a full job is a spare, hears of it once, and waits for longer than a start may take", () => {
  const stage = formed();
  assert.deepEqual(stage.register("s2"), ["spare"]);
  stage.hearAllBut();
  assert.deepEqual(stage.tick(4000), []);
  stage.nowMs = 100_000;
  stage.hearAllBut();
  assert.deepEqual(stage.tick(100_000), []);
  assert.equal(stage.roster.waiting().length, 1);
});

test("what a server that joins says of counts is not compared; a worker's number of workers is", () => {
  const stage = formed();
  assert.deepEqual(stage.register("s2", { serverCount: 4, workerCount: 7 }), ["spare"]);
  assert.deepEqual(stage.register("s3", { serverCount: 4, rank: 3 }), ["spare"]);
  assert.deepEqual(stage.register("w2", { serverCount: 4, workerCount: 3 }), ["refuse w2 COUNT_MISMATCH"]);
  const fixed = new RosterStage().formed(); // behind ps-lite's protocol
  assert.deepEqual(fixed.register("s2", { serverCount: 4 }), ["refuse s2 COUNT_MISMATCH"]);
  assert.deepEqual(fixed.register("s2"), []);
});

test("spares get the ranks that a change wants, each the one it asks for, and no others", () => {
  const stage = formed();
  for (const [name, rank] of [
    ["s2", undefined],
    ["s3", 3],
    ["s9", 9],
  ] as const)
    stage.register(name, { rank });
  stage.journal.write({ kind: "wish", wish: WISH });
  assert.deepEqual(stage.review(), ["admit s2 as 12/1 recovery", "admit s3 as 14/1 recovery", "announce"]);
  assert.deepEqual(stage.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 1", "12 alive 1", "14 alive 1"]);
  assert.deepEqual(stage.review(), ["announce"]); // s9 waits on
});

test("a rank of a dead server is given first, and nobody gets one of a change that goes back", () => {
  const stage = formed();
  stage.journal.write({ kind: "wish", wish: { ...WISH, isBack: true } });
  stage.hearAllBut();
  assert.deepEqual(stage.register("s2"), ["spare"]);
  stage.nowMs = 4000;
  stage.hearAllBut(10);
  assert.deepEqual(stage.tick(5000), ["died 10", "admit s2 as 10/2 recovery", "announce"]);
});

test("a retired server keeps its slot until it has left or is dead, and nobody takes it meanwhile", () => {
  for (const how of ["leaves", "dies"] as const) {
    const stage = formed();
    stage.journal.write({ kind: "retired", ranks: [1] });
    assert.deepEqual(stage.review(), ["announce"]);
    assert.equal(stage.roster.view().nodes.find(({ node }) => node === 10)?.isRetired, true);
    stage.linkDown(10);
    stage.nowMs = 2000;
    assert.deepEqual(stage.register("s2"), ["spare"]);
    stage.nowMs = 4000;
    stage.hearAllBut(10);
    assert.deepEqual(how === "leaves" ? stage.leave(10) : stage.tick(6000), how === "leaves" ? ["announce"] : ["died 10", "announce"]);
    assert.deepEqual(stage.states(), ["9 alive 1", "11 alive 1", "8 alive 1"]);
  }
});

test("a server that was added and cannot begin is refused its slot, and the job goes on", () => {
  const stage = formed();
  stage.journal.write({ kind: "placement", placement: { epoch: 2, policy: "ring", servers: [0, 1] } });
  stage.register("s2");
  stage.journal.write({ kind: "wish", wish: WISH });
  stage.review();
  assert.deepEqual(stage.leave(12, 1, { failure: { code: "CHECKPOINT_IO", message: "no disk" } }), ["announce"]);
  assert.equal(stage.roster.phase, "running");
});
