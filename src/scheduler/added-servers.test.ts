// added-servers.test — Goal: servers beyond those of a job get a rank when one is asked for, wait as spares otherwise,
// and slots of servers that leave end with them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RosterStage } from "../testing/roster-stage.ts";
import { idOf } from "../wire/node-id.ts";
import type { CopyClaim } from "../wire/register.ts";
import { recordsOf } from "./scheduler-state.ts";

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

test("what a node that joins says of counts is not compared", () => {
  const stage = formed();
  assert.deepEqual(stage.register("s2", { serverCount: 4, workerCount: 7 }), ["spare"]);
  assert.deepEqual(stage.register("s3", { serverCount: 4, rank: 3 }), ["spare"]);
  assert.deepEqual(stage.register("w2", { serverCount: 4, workerCount: 3 }), [], "it waits for the others to be heard");
  const fixed = new RosterStage().formed(); // behind ps-lite's protocol
  assert.deepEqual(fixed.register("s2", { serverCount: 4 }), ["refuse s2 COUNT_MISMATCH"]);
  assert.deepEqual(fixed.register("w2", { workerCount: 3 }), ["refuse w2 COUNT_MISMATCH"]);
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
  assert.deepEqual(stage.review(), ["admit s2 as 12/1 recovery", "admit s3 as 14/1 recovery", "publish"]);
  assert.deepEqual(stage.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 1", "12 alive 1", "14 alive 1"]);
  assert.deepEqual(stage.review(), ["publish"]); // s9 waits on
});

test("a rank of a dead server is given first, and nobody gets one of a change that goes back", () => {
  const stage = formed();
  stage.journal.write({ kind: "wish", wish: { ...WISH, isBack: true } });
  stage.hearAllBut();
  assert.deepEqual(stage.register("s2"), ["spare"]);
  stage.beatTo(4000, 10);
  assert.deepEqual(stage.tick(5000), ["died 10", "admit s2 as 10/2 recovery", "publish"]);
});

test("a server without a rank replaces one that lost its link before it adds one, with and without heartbeats (AddedServers.A1)", () => {
  for (const heartbeats of [{}, { heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 }]) {
    const stage = new RosterStage({ mayScale: true, ...heartbeats }).formed();
    stage.journal.write({ kind: "wish", wish: WISH });
    stage.review();
    stage.linkDown(10);
    stage.nowMs = 10;
    assert.deepEqual(stage.register("s2"), ["spare"]);
    assert.deepEqual(stage.register("s3", { rank: 3 }), ["admit s3 as 14/1 recovery", "publish"]);
    assert.equal(stage.dueMs(), 1000);
    assert.deepEqual(stage.tick(1000), ["died 10", "admit s2 as 10/2 recovery", "publish"]);
    assert.deepEqual(stage.register("s4"), ["admit s4 as 12/1 recovery", "publish"]);
    const closed = new RosterStage({ mayScale: true, ...heartbeats }).formed();
    closed.linkDown(10);
    closed.nowMs = 10;
    assert.deepEqual(closed.register("s2"), ["spare"], "nobody asked for more servers");
    assert.deepEqual(closed.tick(1000), ["died 10", "admit s2 as 10/2 recovery", "publish"]);
  }
});

test("without heartbeats a server whose link is open is there: one without a rank waits as a spare, one with its rank is refused", () => {
  const stage = new RosterStage({ mayScale: true, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 }).formed();
  assert.deepEqual(stage.register("s2"), ["spare"]);
  assert.deepEqual(stage.register("s3", { rank: 1 }), ["refuse s3 RANK_TAKEN"]);
  assert.deepEqual(stage.tick(3_600_000), []);
  stage.linkDown(10); // its machine has told at last
  assert.deepEqual(stage.tick(3_601_000), ["died 10", "admit s2 as 10/2 recovery", "publish"]);
  assert.deepEqual(stage.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 2"]);
});

test("a retired server keeps its slot until it has left or is dead, and nobody takes it meanwhile", () => {
  for (const how of ["leaves", "dies"] as const) {
    const stage = formed();
    stage.journal.write({ kind: "retired", ranks: [1] });
    assert.deepEqual(stage.review(), ["publish"]);
    assert.equal(stage.roster.view().nodes.find(({ node }) => node === 10)?.isRetired, true);
    stage.linkDown(10);
    stage.nowMs = 2000;
    assert.deepEqual(stage.register("s2"), ["spare"]);
    stage.nowMs = 5000;
    stage.hearAllBut(10);
    assert.deepEqual(how === "leaves" ? stage.leave(10) : stage.tick(6000), how === "leaves" ? ["publish"] : ["died 10", "publish"]);
    assert.deepEqual(stage.states(), ["9 alive 1", "11 alive 1", "8 alive 1"]);
  }
});

test("a server that was added and cannot begin is refused its slot, and the job goes on", () => {
  const stage = formed();
  stage.journal.write({ kind: "placement", placement: { epoch: 2, policy: "ring", servers: [0, 1] } });
  stage.register("s2");
  stage.journal.write({ kind: "wish", wish: WISH });
  stage.review();
  assert.deepEqual(stage.leave(12, 1, { failure: { code: "CHECKPOINT_IO", message: "no disk" } }), ["publish"]);
  assert.equal(stage.roster.phase, "running");
});

// Ranks that are held by two processes.

const at = (host: string, process: string): { readonly copy: CopyClaim } => ({ copy: { replicas: 2, host, process, settings: [] } });

const JOB = [
  ["s0", 0],
  ["s1", 1],
  ["s0b", 0],
  ["s1b", 1],
  ["w0", 0],
  ["w1", 1],
] as const;

function replicated(): RosterStage {
  const stage = new RosterStage({ mayScale: true, replicas: 2 });
  for (const [name, rank] of JOB) stage.register(name, { rank });
  return stage;
}

/** "s2 s2b": who holds this rank. */
function holders({ roster }: RosterStage, rank: number): string {
  const { nodes } = roster.view();
  const entries = (["server", "standby"] as const).map((role) => nodes.find(({ node }) => node === idOf(role, rank)));
  return entries.map((entry) => (entry?.state === "alive" ? entry.label : "-")).join(" ");
}

/** A scheduler that has found this state; nobody has come back yet. */
function restarted(before: RosterStage): RosterStage {
  const after = new RosterStage({ mayScale: true, replicas: 2 });
  after.journal.write(...recordsOf(before.journal.state));
  after.roster.open(0, { isFound: true });
  return after;
}

test("a copy beyond those that are wished for waits as a spare, and fills the free slot of a standby", () => {
  const stage = replicated();
  assert.deepEqual(stage.register("s2"), ["spare"]);
  stage.nowMs = 4000;
  for (const node of [8, 9, 10, 11, idOf("standby", 0)]) stage.heard(node);
  assert.deepEqual(stage.tick(5000), [`died ${idOf("standby", 1)}`, `admit s2 as ${idOf("standby", 1)}/2 recovery`, "publish"]);
  assert.equal(stage.roster.view().nodes.find(({ label }) => label === "s2")?.isFilling, true);
});

test("the first copy of a rank that a change wants leads it, the second stands by, and is filled first (AddedServers.A1)", () => {
  for (const rank of [undefined, 2]) {
    const stage = replicated();
    stage.journal.write({ kind: "wish", wish: { ...WISH, begun: { from: [0, 1], to: [0, 1, 2] } } });
    stage.register("s2", { rank });
    assert.deepEqual([holders(stage, 2), stage.journal.state.chains.get(2)], ["s2 -", { since: 1, standby: 0 }]);
    stage.register("s2b", { rank });
    assert.equal(holders(stage, 2), "s2 s2b");
    assert.equal(stage.roster.view().nodes.find(({ label }) => label === "s2b")?.isFilling, true);
    stage.roster.standbyFilled(12, 1, 1, 0);
    assert.deepEqual(stage.journal.state.chains.get(2), { since: 1, standby: 1 });
    assert.deepEqual(stage.register("s2c", { rank }), rank === undefined ? ["spare"] : [], "for a rank that is held it waits as ever");
  }
});

test("two copies of a new rank are on different hosts where there is a choice, and never in one process (ServerCopies.P1)", () => {
  const stage = replicated();
  stage.journal.write({ kind: "wish", wish: WISH });
  for (const [name, where] of [
    ["a1", at("a", "1")],
    ["a2", at("a", "2")],
    ["b1", at("b", "1")],
    ["b2", at("b", "2")],
  ] as const)
    stage.register(name, { role: "server", address: "memory://x", ...where });
  assert.deepEqual([holders(stage, 2), holders(stage, 3)], ["a1 b1", "a2 b2"]);
  const threads = replicated();
  threads.journal.write({ kind: "wish", wish: { ...WISH, begun: { from: [0, 1], to: [0, 1, 2] } } });
  const [one, other] = ["t1", "t2"].map((name) => threads.register(name, { role: "server", address: "memory://x", ...at("a", "1") }));
  assert.deepEqual([one?.[0], other], ["admit t1 as 12/1 recovery", ["spare"]]);
  threads.register("t3", { role: "server", address: "memory://x", ...at("a", "2") });
  assert.equal(holders(threads, 2), "t1 t3", "on one host, if there is no other");
});

test("a retired rank keeps its slots until head and standby are gone; nobody takes over, nor takes its slots (AddedServers.A3, Chains.C3)", () => {
  for (const first of ["server", "standby"] as const) {
    const stage = replicated();
    stage.journal.write({ kind: "retired", ranks: [1] });
    stage.review();
    const { nodes } = stage.roster.view();
    assert.deepEqual(
      nodes.filter(({ isRetired }) => isRetired === true).map(({ label }) => label),
      ["s1", "s1b"],
    );
    assert.deepEqual(stage.leave(idOf(first, 1)), ["publish"]);
    assert.equal(holders(stage, 1), first === "server" ? "- s1b" : "s1 -");
    assert.deepEqual(stage.register("s2"), ["spare"]);
    assert.deepEqual(stage.leave(idOf(first === "server" ? "standby" : "server", 1)), ["publish"]);
    assert.equal(
      stage.roster.view().nodes.some(({ rank, role }) => role !== "worker" && rank === 1),
      false,
    );
  }
});

test("a retired head that dies is taken over by nobody, and its standby may leave (Chains.C3)", () => {
  const stage = replicated();
  stage.journal.write({ kind: "retired", ranks: [1] });
  stage.review();
  stage.linkDown(10);
  stage.nowMs = 4000;
  for (const node of [8, 9, 11, idOf("standby", 0), idOf("standby", 1)]) stage.heard(node);
  assert.deepEqual(stage.tick(5000), ["died 10", "publish"]);
  assert.equal(holders(stage, 1), "- s1b");
  stage.leave(idOf("standby", 1));
  assert.equal(
    stage.roster.view().nodes.some(({ rank, role }) => role !== "worker" && rank === 1),
    false,
  );
});

test("a restarted scheduler knows the ranks that have come, with their standbys, from its placement and from rosters", () => {
  const before = replicated();
  before.journal.write({ kind: "wish", wish: WISH });
  for (const [name, rank] of [
    ["s2", 2],
    ["s2b", 2],
    ["s3", 3],
  ] as const)
    before.register(name, { rank });
  before.journal.write({ kind: "placement", placement: { epoch: 2, policy: "ring", servers: [0, 1, 2] } });
  before.review();
  const after = restarted(before);
  const roster = before.roster.view();
  for (const { node, label, role, address } of roster.nodes)
    if (label !== "") after.resume(label, { node, job: "job/new", roster }, { role, address });
  assert.deepEqual([holders(after, 2), holders(after, 3)], ["s2 s2b", "s3 -"]);
  assert.ok(after.roster.hasHeardEverybody);
  after.register("s3b", { rank: 3 });
  assert.equal(holders(after, 3), "s3 s3b");
});

test("a server that comes to join a job whose scheduler is being restarted waits for that job (Roster.R5)", () => {
  const before = replicated();
  before.journal.write({ kind: "wish", wish: WISH });
  const after = restarted(before);
  assert.deepEqual(after.register("s3", { rank: 3 }), []);
  const roster = before.roster.view();
  for (const { node, label, role, address } of roster.nodes) after.resume(label, { node, job: "job/new", roster }, { role, address });
  assert.equal(holders(after, 3), "s3 -");
  const anew = restarted(before);
  assert.deepEqual(anew.register("s3", { rank: 3 }), []);
  for (const [name, rank] of JOB) anew.register(name, { rank });
  assert.deepEqual(anew.tick(5000).slice(0, 2), ["refuse s3 BAD_CONFIG", "setAside"]);
});

test("a rank that only its holder knows of is kept for it when the scheduler is restarted, while nodes may resume (AddedServers.A1)", () => {
  for (const comesBack of [true, false]) {
    const before = replicated();
    const roster = before.roster.view();
    before.journal.write({ kind: "wish", wish: { ...WISH, begun: { from: [0, 1], to: [0, 1, 2] } } });
    before.register("s2", { rank: 2 });
    const after = restarted(before);
    for (const { node, label, role, address } of roster.nodes) after.resume(label, { node, job: "job/new", roster }, { role, address });
    assert.deepEqual(after.register("s2b", { rank: 2 }), ["spare"]);
    after.nowMs = 4000;
    if (comesBack) after.resume("s2", { node: 12, job: "job/new", roster: before.roster.view() });
    for (const { node } of roster.nodes) after.heard(node);
    assert.equal(holders(after, 2), comesBack ? "s2 s2b" : "- -");
    after.nowMs = 5000;
    for (const { node } of roster.nodes) after.heard(node);
    assert.equal(holders(after, 2), comesBack ? "s2 s2b" : "s2b -");
  }
});
