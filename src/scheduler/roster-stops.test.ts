// Servers that are stopped to be started again: they are waited for, and what they left counts once, in its run.

import assert from "node:assert/strict";
import { test } from "node:test";
import { copyOf, OLD_ROSTER, RosterStage } from "../testing/roster-stage.ts";
import { idOf } from "../wire/node-id.ts";

const LEFT = { job: "job/new", node: 8, isStored: true } as const;

test("a server that has left its state is dead, and waited for; the next process of its rank continues it, once (PlannedStop.P2)", () => {
  const stage = new RosterStage().formed();
  const entry = () => stage.roster.view().nodes.find(({ node }) => node === 8);
  assert.equal(entry()?.returns, undefined);
  assert.deepEqual(stage.leave(8, 1, { returns: true }), ["died 8", "publish"]);
  assert.deepEqual([entry()?.state, entry()?.returns], ["dead", true]);
  assert.deepEqual(stage.resume("s0 again", LEFT, { rank: 0 }), ["admit s0 again as 8/2 recovery", "publish"]);
  assert.deepEqual([entry()?.state, entry()?.returns, entry()?.continues], ["alive", undefined, 1]);
  stage.linkDown(8, 2);
  assert.deepEqual(stage.resume("s0 third", LEFT, { rank: 0 }), ["refuse s0 third FENCED"], "what it did since is not in there");
});

test("a server that was stopped is told apart from one that died, until it is back, also by a restarted scheduler", () => {
  const stage = new RosterStage();
  for (const name of ["s0", "s1"]) stage.register(name, { rank: Number(name[1]), returns: true });
  for (const name of ["w0", "w1"]) stage.register(name, { rank: Number(name[1]) });
  const entry = (of: RosterStage = stage) => of.roster.view().nodes.find(({ node }) => node === 8);
  const dead = (): string => `${entry()?.state} ${entry()?.isPlanned}`;
  stage.nowMs = 4000;
  stage.hearAllBut(8);
  stage.tick(5000);
  assert.equal(dead(), "dead undefined");
  stage.resume("s0 again", LEFT, { rank: 0, returns: true });
  stage.leave(8, 2, { returns: true });
  assert.equal(dead(), "dead true");
  const restarted = new RosterStage();
  restarted.resume("w0", { node: 9, job: "job/new", roster: stage.roster.view() });
  assert.deepEqual([entry(restarted)?.state, entry(restarted)?.isPlanned], ["dead", true]);
  stage.resume("s0 third", { ...LEFT, incarnation: 2 }, { rank: 0, returns: true });
  assert.equal(dead(), "alive undefined");
});

test("of a rank that went over to a standby, and came back later from a stop, nobody is told to have taken over", () => {
  const stage = new RosterStage({ replicas: 2 }).formed();
  for (const [rank, name] of ["s2", "s3"].entries()) stage.register(name, { rank });
  stage.leave(8);
  const claim = { node: 8, job: "job/new", incarnation: 2, roster: stage.roster.view() };
  stage.resume("s2", claim, { address: "memory://s2", role: "server" });
  stage.leave(8, 2, { returns: true });
  stage.resume("s2 again", { ...LEFT, incarnation: 2 }, { rank: 0, copy: copyOf("s2 again") });
  const { state, continues, promotedAgoMs, isPlanned } = stage.roster.status(0).find(({ node }) => node === 8) ?? {};
  assert.deepEqual([state, continues, promotedAgoMs, isPlanned], ["alive", 1, undefined, undefined]);
});

test("a durable server comes back with what it wrote in any incarnation since its state began", () => {
  const stage = new RosterStage();
  for (const name of ["s0", "s1"]) stage.register(name, { rank: Number(name[1]), returns: true });
  for (const name of ["w0", "w1"]) stage.register(name, { rank: Number(name[1]) });
  for (const incarnation of [1, 2]) {
    stage.linkDown(8, incarnation);
    const decisions = stage.resume(`s0 after ${incarnation}`, LEFT, { rank: 0, returns: true });
    assert.ok(decisions.includes(`admit s0 after ${incarnation} as 8/${incarnation + 1} recovery`), decisions.join());
  }
});

test("a spare does not take the rank of a server that comes back with its state while calls wait for that (RankChoice.S4)", () => {
  const stage = new RosterStage({ mayScale: true, startTimeoutMs: 60_000 }).formed();
  assert.deepEqual(stage.register("spare"), ["spare"]);
  assert.deepEqual(stage.leave(8, 1, { returns: true }), ["died 8", "publish"]);
  assert.deepEqual(stage.register("s later"), ["spare"], "neither does one that comes later");
  stage.hearAllBut(8);
  assert.deepEqual(stage.resume("s0 again", LEFT, { rank: 0 }), ["admit s0 again as 8/2 recovery", "publish"]);
  // One that nobody brings back is replaced, by whoever asks for its rank at once.
  stage.leave(8, 2, { returns: true });
  stage.nowMs = 59_999;
  stage.hearAllBut(8);
  assert.ok(stage.states().includes("8 dead 2"));
  assert.deepEqual(stage.tick(60_000), ["admit spare as 8/3 recovery", "publish"]);
});

test("the rank of a head without a standby is kept for its next process: a copy that has nothing waits, and stands by then (RankChoice.S4)", () => {
  const stage = new RosterStage({ replicas: 2 }).formed();
  for (const [rank, name] of ["s2", "s3"].entries()) stage.register(name, { rank });
  const standby = idOf("standby", 0);
  stage.leave(standby, 1);
  assert.deepEqual(stage.leave(8, 1, { returns: true }), ["died 8", "publish"]);
  assert.deepEqual(stage.register("s empty", { rank: 0 }), []);
  assert.deepEqual(stage.register("s other"), [], "neither does one that asks for no rank");
  const decisions = stage.resume("s0 again", LEFT, { rank: 0, copy: copyOf("s0 again") });
  assert.deepEqual(decisions, ["admit s0 again as 8/2 recovery", `admit s empty as ${standby}/2 recovery`, "publish"]);
  assert.equal(stage.roster.view().nodes.find(({ node }) => node === 8)?.continues, 1);
  // One that nobody brings back is begun anew.
  for (const incarnation of [2, 3]) stage.leave(standby, incarnation); // the second one was the other that waited
  stage.leave(8, 2, { returns: true });
  assert.deepEqual(stage.register("s late", { rank: 0 }), []);
  stage.nowMs = 59_999;
  stage.hearAllBut(8);
  stage.heard(idOf("standby", 1));
  assert.deepEqual(stage.tick(60_000), ["admit s late as 8/3 recovery", "publish"]);
});

test("a scheduler that begins does not learn a job from what a stopped server left, but from a durable one", () => {
  const claim = { ...LEFT, job: "job/old", roster: OLD_ROSTER };
  assert.deepEqual(new RosterStage().resume("s0", claim, { rank: 0 }), ["refuse s0 FENCED"]);
  assert.ok(new RosterStage().resume("s0", claim, { rank: 0, returns: true }).includes("admit s0 as 8/2 recovery"));
});

test("a server that leaves when nobody works any more has left, whatever it left behind", () => {
  const stage = new RosterStage().formed();
  for (const worker of [9, 11]) stage.leave(worker);
  stage.leave(8, 1, { returns: true });
  assert.ok(stage.states().includes("8 left 1"));
});

/** Two ranks with a head and a standby each. */
function copies(): RosterStage {
  const stage = new RosterStage({ replicas: 2 }).formed();
  for (const [rank, name] of ["s2", "s3"].entries()) stage.register(name, { rank });
  return stage;
}

const STANDBY = idOf("standby", 0);
const ASKS = { unlessNeeded: true } as const;

test("of two copies that ask to leave the first is let go and the second is needed, whichever is first (Chains.C4)", () => {
  const standbyFirst = copies();
  assert.deepEqual(standbyFirst.leave(STANDBY, 1, ASKS), ["publish"]);
  assert.deepEqual(standbyFirst.leave(8, 1, ASKS), ["needed"]);
  assert.ok(standbyFirst.states().includes("8 alive 1"), "it serves until it has saved what it has");
  assert.deepEqual(standbyFirst.leave(8, 1, { returns: true }), ["died 8", "publish"]);

  const headFirst = copies();
  assert.deepEqual(headFirst.leave(8, 1, ASKS), ["died 8", "promoted", "publish"]);
  assert.deepEqual(headFirst.leave(STANDBY, 1, ASKS), ["needed"], "it has not heard yet that it leads");
  assert.deepEqual(headFirst.leave(8, 2, ASKS), ["needed"]);
  assert.deepEqual(headFirst.leave(8, 2, { returns: true }), ["died 8", "publish"]);
});

test("a copy that asks to leave while the other one has no link is needed: that one is given up, or replaced (Chains.C4)", () => {
  const head = copies();
  head.linkDown(STANDBY);
  assert.deepEqual(head.leave(8, 1, ASKS), [`died ${STANDBY}`, "needed", "publish"]);
  assert.ok(head.states().includes(`${STANDBY} left 1`));

  const standby = copies();
  standby.linkDown(8);
  assert.deepEqual(standby.leave(STANDBY, 1, ASKS), ["died 8", "promoted", "needed", "publish"]);
  assert.ok(standby.states().includes("8 alive 2"));
});

test("a head whose standby has not everything is needed, and that standby is not (Chains.C4)", () => {
  const stage = copies();
  stage.leave(STANDBY, 1);
  stage.register("s later", { rank: 0 });
  assert.deepEqual(stage.leave(8, 1, ASKS), ["needed"]);
  assert.deepEqual(stage.leave(STANDBY, 2, ASKS), ["publish"]);
});

test("nobody is needed when nobody works any more (Chains.C4)", () => {
  const stage = copies();
  for (const worker of [9, 11]) stage.leave(worker);
  for (const node of [8, STANDBY]) assert.deepEqual(stage.leave(node, 1, ASKS), ["publish"]);
});
