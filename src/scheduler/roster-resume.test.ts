// roster-resume.test — Goal: a scheduler that was restarted learns the job from the nodes, and gives nobody's slot away
// too soon.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OLD_ROSTER, RosterStage, requestOf } from "../testing/roster-stage.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { RosterView } from "../wire/roster.ts";

test("the first node that resumes brings the job and everybody's slot; all are answered at once", () => {
  const book = new RosterStage();
  assert.deepEqual(book.resume("w0", { node: 9 }), ["run", "admit w0 as 9/1", "publish"]);
  assert.deepEqual([book.roster.job, book.roster.isResumed], ["job/old", true]);
  assert.ok(book.roster.view().version > OLD_ROSTER.version);
  assert.equal(book.roster.view().nodes.find(({ node }) => node === 10)?.address, "memory://old-10");
  assert.deepEqual(book.resume("s1", { node: 10 }, { address: "memory://old-10", label: "old-10" }), ["admit s1 as 10/1"]);
});

test("a node that does not resume is dead after the timeout; one that does later is alive again", () => {
  for (const heartbeatTimeoutMs of [5000, 0]) {
    const book = new RosterStage({ heartbeatTimeoutMs });
    book.nowMs = 1000;
    book.resume("w0", { node: 9 });
    for (const node of [8, 10]) book.resume(`s${node}`, { node });
    book.nowMs = 5000;
    for (const node of [8, 9, 10]) book.heard(node);
    assert.deepEqual(book.tick(6000), ["died 11", "publish"]);
    assert.deepEqual(book.resume("w1", { node: 11 }), ["admit w1 as 11/1", "publish"]);
  }
});

test("a heartbeat of a node that has not resumed yet is not enough", () => {
  const book = new RosterStage();
  book.resume("w0", { node: 9 });
  assert.throws(() => book.heard(11), throwsCode("NO_ROUTE"));
  assert.deepEqual(book.linkUp(11), []);
});

test("a newcomer waits until the others had their time to resume, whether it came before them or after", () => {
  for (const comesFirst of [true, false]) {
    const book = new RosterStage();
    if (comesFirst) assert.deepEqual(book.register("s2", { rank: 1 }), []);
    book.resume("w0", { node: 9 });
    if (!comesFirst) assert.deepEqual(book.register("s2", { rank: 1 }), []);
    book.nowMs = 1000;
    book.resume("w1", { node: 11 });
    book.resume("s0", { node: 8 });
    book.nowMs = 4000;
    for (const node of [8, 9, 11]) book.heard(node);
    assert.deepEqual(book.tick(4999), []);
    assert.deepEqual(book.tick(5000), ["died 10", "admit s2 as 10/2 recovery", "publish"]);
  }
});

test("a newcomer gets the slot of one that was dead before the restart as soon as all others have resumed", () => {
  const nodes = OLD_ROSTER.nodes.map((entry) => (entry.node === 10 ? { ...entry, state: "dead" as const } : entry));
  const book = new RosterStage();
  const roster = { version: 9, nodes };
  book.resume("w0", { node: 9, roster });
  assert.deepEqual(book.register("s2"), []);
  book.resume("w1", { node: 11, roster });
  assert.deepEqual(book.resume("s0", { node: 8, roster }).slice(0, 2), ["admit s0 as 8/1", "admit s2 as 10/2 recovery"]);
});

test("a node of an earlier run of the job is fenced, and one of another job is told both names, also while the cluster forms", () => {
  const book = new RosterStage();
  book.resume("w0", { node: 9 });
  assert.deepEqual(book.resume("w1", { node: 11, job: "job/older" }), ["refuse w1 FENCED"]);
  for (const other of [book, new RosterStage()])
    assert.deepEqual(other.resume("w1", { node: 11, job: "another/old" }), ["refuse w1 WRONG_JOB"]);
  assert.deepEqual(new RosterStage().formed().resume("w1", { node: 11 }), ["refuse w1 FENCED"]);
});

test("an old incarnation that resumes after its successor is fenced, and before it as soon as that is known", () => {
  const newer: RosterView = {
    version: 8,
    nodes: OLD_ROSTER.nodes.map((entry) => (entry.node === 10 ? { ...entry, incarnation: 2, label: "s1b" } : entry)),
  };
  const after = new RosterStage();
  after.resume("s1b", { node: 10, incarnation: 2, roster: newer });
  assert.deepEqual(after.resume("s1", { node: 10 }), ["refuse s1 FENCED"]);
  const before = new RosterStage();
  before.resume("s1", { node: 10 });
  assert.deepEqual(before.resume("w0", { node: 9, roster: newer }).slice(0, 2), ["died 10", "admit w0 as 9/1"]);
  assert.throws(() => before.heard(10, 1), throwsCode("NO_ROUTE")); // not confirmed: its successor may still resume
  assert.deepEqual(before.resume("s1b", { node: 10, incarnation: 2, roster: newer }, { label: "s1b", address: "memory://old-10" }), [
    "admit s1b as 10/2",
  ]);
  assert.throws(() => before.heard(10, 1), throwsCode("FENCED"));
});

test("the newest memory wins for nodes that have not resumed, and the version rises above all of them", () => {
  const book = new RosterStage();
  book.resume("w0", { node: 9 });
  const nodes = OLD_ROSTER.nodes.map((entry) => (entry.node === 8 ? { ...entry, state: "left" as const } : entry));
  assert.deepEqual(book.resume("w1", { node: 11, roster: { version: 20, nodes } }).at(-1), "publish");
  assert.ok(book.roster.view().version > 20);
  assert.ok(book.states().includes("8 left 1"));
  book.resume("s1", { node: 10, roster: OLD_ROSTER }); // older: changes nothing
  assert.ok(book.states().includes("8 left 1"));
});

test("a scheduler restarted with other counts fails alone: the nodes may wait for a better one", () => {
  const book = new RosterStage({ workerCount: 3 });
  const [fail, refuse] = book.roster.register(
    requestOf("w0", { resume: { job: "job/old", node: 9, incarnation: 1, roster: OLD_ROSTER, passed: [] } }),
    "w0",
    0,
  );
  assert.deepEqual([fail?.kind, refuse?.kind], ["fail", "refuse"]);
  assert.ok(refuse?.kind === "refuse" && refuse.error.code === "COUNT_MISMATCH" && refuse.error.retryable);
});

test("a claim to a slot that does not exist is fenced", () => {
  assert.deepEqual(new RosterStage().resume("w9", { node: 99 }).at(1), "refuse w9 FENCED");
});
