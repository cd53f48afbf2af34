// chains — Goal: a standby takes over exactly when its head is gone and it has what the head acknowledged, and what was
// decided outlives the scheduler.

import assert from "node:assert/strict";
import { test } from "node:test";
import { copyOf, RosterStage } from "../testing/roster-stage.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";
import { applyRecord, emptyState, recordsOf } from "./scheduler-state.ts";
import { StateJournal } from "./state-journal.ts";

const HEAD = idOf("server", 0);
const STANDBY = idOf("standby", 0);

/** Two servers with standbys t0 and t1, and two workers. */
function replicated(): RosterStage {
  const stage = new RosterStage({ replicas: 2 }).formed();
  for (const rank of [0, 1]) stage.register(`t${rank}`, { role: "standby", rank, address: `memory://t${rank}` });
  return stage;
}

const entryOf = (stage: RosterStage, node: number): RosterEntry => {
  const entry = stage.roster.view().nodes.find((candidate) => candidate.node === node);
  assert.ok(entry !== undefined, `node ${node}`);
  return entry;
};

test("a cluster with replicas is complete when every server has its standby", () => {
  const stage = new RosterStage({ replicas: 2 }).formed();
  assert.equal(stage.roster.phase, "forming");
  stage.register("t1", { role: "standby", address: "memory://t1" });
  assert.deepEqual(stage.register("t0", { role: "standby", address: "memory://t0" })[0], "run");
  assert.deepEqual([entryOf(stage, STANDBY).label, entryOf(stage, STANDBY).state], ["t1", "alive"]);
});

test("a standby of a cluster without replicas is refused; one too many waits for a slot, and is told who holds them", () => {
  assert.ok(
    new RosterStage().register("t0", { role: "standby", address: "memory://t0", copy: copyOf("t0") }).includes("refuse t0 COUNT_MISMATCH"),
  );
  const stage = replicated();
  assert.deepEqual(stage.register("t2", { role: "standby", address: "memory://t2" }), []);
  for (const node of [HEAD, STANDBY, idOf("server", 1), idOf("standby", 1), idOf("worker", 0), idOf("worker", 1)])
    stage.roster.heard(node, 1, 59_000);
  assert.deepEqual(stage.tick(60_000), ["refuse t2 DEADLINE"]);
});

/** A stage whose standby of rank 0 has died, and t2 has taken its slot. */
function refilling(): RosterStage {
  const stage = replicated();
  stage.roster.standbyLost(HEAD, 1, 1, 0);
  assert.deepEqual(stage.register("t2", { role: "standby", address: "memory://t2" }), [`admit t2 as ${STANDBY}/2 recovery`, "publish"]);
  return stage;
}

test("a standby that comes later counts for nothing until its head says that it has everything (Chains.I4)", () => {
  const stage = refilling();
  assert.equal(entryOf(stage, STANDBY).isFilling, true);
  stage.linkDown(HEAD);
  stage.hearAllBut();
  stage.linkDown(HEAD);
  stage.beatTo(5000, HEAD);
  stage.tick(6000);
  assert.deepEqual([entryOf(stage, HEAD).state, entryOf(stage, HEAD).incarnation], ["dead", 1], "it took over from nobody");
});

test("once it has everything it takes over; a report of another incarnation, or of nobody's head, changes nothing (Chains.I4)", () => {
  const stage = refilling();
  for (const reported of [1, 3]) assert.deepEqual(stage.roster.standbyFilled(HEAD, 1, reported, 0), []);
  assert.deepEqual(stage.roster.standbyFilled(idOf("worker", 0), 1, 2, 0), []);
  assert.deepEqual(
    stage.roster.standbyFilled(HEAD, 1, 2, 0).map(({ kind }) => kind),
    ["publish"],
  );
  assert.deepEqual(stage.roster.standbyFilled(HEAD, 1, 2, 0), [], "heartbeats say it again");
  assert.equal(entryOf(stage, STANDBY).isFilling, undefined);
  stage.linkDown(HEAD);
  assert.ok(stage.tick(50).includes("promoted"));
  assert.deepEqual([entryOf(stage, HEAD).label, entryOf(stage, HEAD).continues], ["t2", 1]);
});

test("a copy that is unlike the head that is alone is refused, by what differs", () => {
  const stage = replicated();
  stage.roster.standbyLost(HEAD, 1, 1, 0);
  const copy = { ...copyOf("t2"), settings: ["modules other.ts"] };
  assert.deepEqual(stage.register("t2", { role: "server", address: "memory://t2", copy }), ["refuse t2 BAD_CONFIG"]);
  assert.deepEqual(stage.register("t3", { role: "server", address: "memory://t3", copy: copyOf("t3") }), [
    `admit t3 as ${STANDBY}/2 recovery`,
    "publish",
  ]);
});

test("a head without a link for 50 ms is replaced by its standby, which goes on with the state (Chains.I6)", () => {
  const stage = replicated();
  stage.linkDown(HEAD);
  assert.equal(stage.dueMs(), 50);
  assert.deepEqual(stage.tick(50), [`died ${HEAD}`, "promoted", "publish"]);
  const { incarnation, continues, label, address, token, state } = entryOf(stage, HEAD);
  assert.deepEqual([incarnation, continues, label, address, token, state], [2, 1, "t0", "memory://t0", "t0", "alive"]);
  assert.equal(entryOf(stage, STANDBY).state, "left", "its slot is free, and nobody waits for it");
  assert.throws(() => stage.heard(HEAD, 1), throwsCode("FENCED", /was replaced by "t0"/));
  assert.deepEqual(stage.heard(STANDBY), [], "what it sent as a standby comes late");
});

test("a head at whose address nothing listens any more is replaced at once, but for one that has come back", () => {
  const stage = replicated();
  assert.equal(stage.roster.lostServer(HEAD, 1, 0), undefined, "it has a link");
  stage.linkDown(HEAD);
  assert.deepEqual([stage.roster.lostServer(HEAD, 1, 0), stage.roster.lostServer(HEAD, 2, 0)], ["memory://s0", undefined]);
  assert.deepEqual(stage.tick(10), []);
  stage.roster.serverGone(HEAD, 1, 10);
  assert.equal(stage.roster.dueMs(10), 10);
  assert.ok(stage.tick(10).includes("promoted"));
  const back = replicated();
  back.linkDown(HEAD);
  back.roster.serverGone(HEAD, 1, 0);
  back.nowMs = 1;
  back.linkUp(HEAD);
  back.nowMs = 2;
  back.linkDown(HEAD);
  assert.deepEqual(back.tick(51), [], "that was the process before");
});

test("a head without a standby at whose address nothing listens any more is dead after half the timeout (RankSlot.D1)", () => {
  const alone = refilling();
  alone.linkDown(HEAD);
  assert.equal(alone.roster.lostServer(HEAD, 1, 0), "memory://s0");
  alone.roster.serverGone(HEAD, 1, 0);
  alone.nowMs = 2000;
  alone.hearAllBut(HEAD);
  assert.deepEqual(alone.tick(2499), []);
  assert.ok(alone.tick(2500).includes(`died ${HEAD}`));
});

test("a head that comes back in time stays", () => {
  const stage = replicated();
  stage.linkDown(HEAD);
  stage.nowMs = 40;
  stage.linkUp(HEAD);
  assert.deepEqual(stage.tick(60), []);
  assert.equal(entryOf(stage, HEAD).incarnation, 1);
});

test("a standby that its head reports is given up, hears of it, and never takes over (Chains.I3)", () => {
  const stage = replicated();
  assert.deepEqual(stage.roster.standbyLost(HEAD, 1, 9, 0), [], "another incarnation of it");
  stage.roster.standbyLost(HEAD, 1, 1, 0);
  assert.equal(entryOf(stage, STANDBY).state, "left");
  assert.throws(() => stage.heard(STANDBY), throwsCode("FENCED", /was given up: its server goes on without it/));
  stage.linkDown(HEAD);
  stage.hearAllBut();
  stage.linkDown(HEAD);
  stage.beatTo(5000, HEAD);
  stage.tick(6000);
  assert.deepEqual([entryOf(stage, HEAD).state, entryOf(stage, HEAD).incarnation], ["dead", 1]);
});

test("while head and standby both cannot be reached nothing is decided; the first that comes back goes on (Chains.C1)", () => {
  const stage = replicated();
  stage.linkDown(STANDBY);
  stage.linkDown(HEAD);
  assert.deepEqual(stage.tick(200), []);
  stage.linkUp(STANDBY);
  assert.ok(stage.tick(200).includes("promoted"));
});

test("a head that leaves hands over, unless the whole job ends", () => {
  const stage = replicated();
  assert.ok(stage.leave(HEAD).includes("promoted"));
  const ending = replicated();
  ending.roster.ending(0);
  ending.leave(HEAD);
  assert.equal(entryOf(ending, HEAD).state, "left");
  const done = replicated();
  for (const rank of [0, 1]) done.leave(idOf("worker", rank));
  done.leave(HEAD);
  assert.equal(entryOf(done, HEAD).state, "left", "no worker is left to serve");
});

test("that a head handed over was planned, and a death after it was not; a restarted scheduler knows it", () => {
  const stage = replicated();
  const planned = (): (boolean | undefined)[] =>
    [entryOf(stage, HEAD), stage.roster.status(0).find(({ node }) => node === HEAD)].map((entry) => entry?.isPlanned);
  assert.deepEqual(planned(), [undefined, undefined]);
  const decisions = stage.roster.leave(HEAD, 1, 0);
  assert.deepEqual(
    decisions.flatMap((decision) => (decision.kind === "died" || decision.kind === "promoted" ? [decision.isPlanned] : [])),
    [true, true],
  );
  assert.deepEqual(planned(), [true, true]);
  const again = recordsOf(stage.journal.state).reduce(applyRecord, emptyState());
  assert.equal(again.chains.get(0)?.isPlanned, true);
  const claim = { node: HEAD, job: "job/new", incarnation: 2, roster: stage.roster.view() };
  stage.resume("t0", claim, { address: "memory://t0", role: "server" });
  stage.register("t2", { role: "standby", address: "memory://t2" });
  stage.roster.standbyFilled(HEAD, 2, 2, 0);
  assert.deepEqual(planned(), [true, true], "another standby changes nothing of it");
  stage.linkDown(HEAD, 2);
  assert.ok(stage.tick(50).includes("promoted"));
  assert.deepEqual(planned(), [undefined, undefined]);
});

test("nobody takes over from a head that is gone once the job ends (Chains.C5)", () => {
  const stage = replicated();
  stage.roster.ending(0);
  stage.linkDown(HEAD);
  stage.roster.serverGone(HEAD, 1, 0);
  assert.deepEqual(stage.tick(1000), []);
  assert.deepEqual([entryOf(stage, HEAD).state, entryOf(stage, HEAD).incarnation], ["alive", 1]);
  stage.nowMs = 2000;
  stage.hearAllBut(HEAD);
  stage.heard(STANDBY);
  stage.heard(idOf("standby", 1));
  assert.deepEqual(stage.tick(2500), [`died ${HEAD}`, "publish"]);
});

test("a newcomer gets the slot of a standby that took over when that one has spoken as the head, and not before", () => {
  const stage = replicated();
  stage.register("s2", { rank: 0 });
  stage.linkDown(HEAD);
  assert.deepEqual(stage.tick(50), [`died ${HEAD}`, "promoted", "publish"], "it would be cut off before it hears of it");
  const claim = { node: HEAD, job: "job/new", incarnation: 2, roster: stage.roster.view() };
  assert.deepEqual(stage.resume("t0", claim, { address: "memory://t0", role: "server" }), [
    `admit t0 as ${HEAD}/2`,
    `admit s2 as ${STANDBY}/2 recovery`,
    "publish",
  ]);
});

test("a scheduler that has less written down than a node knows decides nothing (Roster.R7)", () => {
  const nodes = [entryOf(replicated(), HEAD)];
  const none = new RosterStage({ replicas: 2 });
  assert.deepEqual(none.resume("s0", { node: HEAD, roster: { version: 1, nodes } }), ["fail STATE_CORRUPT", "refuse s0 STATE_CORRUPT"]);
  const older = new RosterStage({ replicas: 2 });
  const promoted = nodes.map((entry) => ({ ...entry, incarnation: 2, continues: 1 }));
  const claim = { node: HEAD, job: "job/new", incarnation: 2, roster: { version: 9, nodes: promoted } };
  assert.deepEqual(older.resume("s0", claim), ["fail STATE_CORRUPT", "refuse s0 STATE_CORRUPT"]);
});

test("who stands by is in the state, and survives its records", () => {
  const journal = new StateJournal();
  journal.write({ kind: "chain", rank: 1, since: 3, standby: 2 }, { kind: "chain", rank: 0, since: 1, standby: 0 });
  const again = recordsOf(journal.state).reduce(applyRecord, emptyState());
  assert.deepEqual(again.chains, journal.state.chains);
  assert.deepEqual(again.chains.get(1), { since: 3, standby: 2 });
});

test("how long ago a standby took over is told by a scheduler that was restarted since, also when another stands by", () => {
  let dateMs = 1_000_000;
  const agoMs = (stage: RosterStage): number | undefined =>
    stage.roster.status(stage.nowMs).find(({ node }) => node === HEAD)?.promotedAgoMs;
  const before = new RosterStage({ replicas: 2, dateMs: () => dateMs }).formed();
  for (const rank of [0, 1]) before.register(`t${rank}`, { role: "standby", rank, address: `memory://t${rank}` });
  assert.equal(agoMs(before), undefined);
  before.linkDown(HEAD);
  assert.ok(before.tick(50).includes("promoted"));
  dateMs += 4000;
  assert.equal(agoMs(before), 4000);
  const claim = { node: HEAD, job: "job/new", incarnation: 2, roster: before.roster.view() };
  before.resume("t0", claim, { address: "memory://t0", role: "server" });
  before.register("t2", { role: "standby", address: "memory://t2" });
  before.roster.standbyFilled(HEAD, 2, 2, 0);
  assert.equal(before.journal.state.chains.get(0)?.standby, 2);
  const after = new RosterStage({ replicas: 2, dateMs: () => dateMs + 100 });
  after.journal.write(...recordsOf(before.journal.state));
  after.resume("t0", { ...claim, roster: before.roster.view() }, { address: "memory://t0", role: "server" });
  assert.equal(agoMs(after), 4100);
});
