// roster-newcomers.test — Goal: who comes to a cluster that is complete gets a slot that is free, or an error that says
// who holds them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { OLD_ROSTER, RosterStage, requestOf, texts } from "../testing/roster-stage.ts";

test("a newcomer takes the slot of a dead node of its role, any number of times", () => {
  const book = new RosterStage().formed();
  for (let holder = 2; holder <= 5; holder++) {
    book.beatTo(book.nowMs + 6000, 10);
    book.tick(book.nowMs);
    assert.deepEqual(book.states().at(-1), `10 dead ${holder - 1}`);
    assert.deepEqual(book.register(`s${holder}`), [`admit s${holder} as 10/${holder} recovery`, "publish"]);
  }
});

test("a newcomer of the other role does not get the slot", () => {
  const book = new RosterStage({ startTimeoutMs: 60_000 }).formed();
  book.beatTo(4000, 10);
  book.tick(5000);
  assert.deepEqual(book.register("w2"), []);
  assert.deepEqual(book.register("s2"), ["admit s2 as 10/2 recovery", "publish"]);
});

test("a slot without a link goes at once to who asks for it, and after a second to anybody", () => {
  const book = new RosterStage().formed();
  book.linkDown(10);
  assert.deepEqual(book.register("s2", { rank: 1 }), ["died 10", "admit s2 as 10/2 recovery", "publish"]);
  book.linkDown(8);
  assert.deepEqual(book.register("s3"), []);
  assert.equal(book.dueMs(), 1000);
  assert.deepEqual(book.tick(999), []);
  assert.deepEqual(book.tick(1000), ["died 8", "admit s3 as 8/2 recovery", "publish"]);
});

test("a node whose link comes back keeps its slot from a newcomer", () => {
  const book = new RosterStage().formed();
  book.linkDown(10);
  book.register("s2");
  book.nowMs = 500;
  book.linkUp(10);
  assert.deepEqual(book.tick(1000), []);
});

test("a rank held by a node that proves alive is refused; by one that does not, given when it is dead", () => {
  const book = new RosterStage().formed();
  book.nowMs = 2000;
  assert.deepEqual(book.register("w2", { rank: 0 }), []);
  book.nowMs = 2500;
  assert.deepEqual(book.heard(9), ["refuse w2 RANK_TAKEN"]);
  assert.deepEqual(book.register("w3", { rank: 1 }), []);
  book.nowMs = 4000;
  for (const node of [8, 10, 9]) book.heard(node);
  assert.deepEqual(book.tick(5000), ["died 11", "admit w3 as 11/2 recovery", "publish"]);
});

test("without heartbeats a rank held by a connected node is refused at once", () => {
  const book = new RosterStage({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 }).formed();
  assert.deepEqual(book.register("w2", { rank: 0 }), ["refuse w2 RANK_TAKEN"]);
});

test("a newcomer with other counts or an impossible rank is refused alone", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.register("w2", { workerCount: 3 }), ["refuse w2 COUNT_MISMATCH"]);
  assert.deepEqual(book.register("w3", { rank: 2 }), ["refuse w3 BAD_CONFIG"]);
  assert.equal(book.roster.phase, "running");
});

test("a newcomer waits for a slot until its deadline, and can go away before", () => {
  const book = new RosterStage({ heartbeatTimeoutMs: 0, startTimeoutMs: 10_000 }).formed();
  book.nowMs = 100;
  assert.deepEqual([book.register("w2"), book.register("w3")], [[], []]);
  assert.equal(book.dueMs(), 10_100);
  book.roster.withdraw("w3", 0);
  assert.deepEqual(book.tick(10_099), []);
  assert.deepEqual(book.tick(10_100), ["refuse w2 DEADLINE"]);
  assert.equal(book.dueMs(), Infinity);
});

test("two newcomers get two slots, and a third waits", () => {
  const book = new RosterStage().formed();
  book.nowMs = 4000;
  book.hearAllBut(9, 11);
  book.tick(5000);
  assert.deepEqual(book.register("w2"), ["admit w2 as 9/2 recovery", "publish"]);
  assert.deepEqual(book.register("w3"), ["admit w3 as 11/2 recovery", "publish"]);
  assert.deepEqual(book.register("w4"), []);
});

test("the same process that registers again after its answer was lost keeps its slot and its incarnation", () => {
  const book = new RosterStage().formed();
  book.linkDown(10);
  const request = requestOf("s1", { rank: 1 });
  assert.deepEqual(texts(book.roster.register(request, "s1-again", 10)), ["admit s1-again as 10/1"]);
  assert.equal(book.roster.view().version, 1);
});

test("a worker that is allowed gets the next rank once all others are held (Roster.R9)", () => {
  const book = new RosterStage({ workerCountMax: 4 }).formed();
  const heardAll = (): string[] => {
    book.nowMs += 1;
    return [9, 11].flatMap((node) => book.heard(node));
  };
  assert.deepEqual(book.register("w2"), []);
  assert.deepEqual(heardAll(), ["admit w2 as 13/1 recovery", "publish"]);
  assert.deepEqual(book.register("w4", { rank: 4 }), ["refuse w4 BAD_CONFIG"]);
  book.linkDown(11);
  assert.deepEqual(book.register("w3"), [], "the holder of worker 1 may be dead");
  assert.deepEqual(book.tick(1001), ["died 11", "admit w3 as 11/2 recovery", "publish"]);
  assert.deepEqual(book.register("w5", { rank: 3 }), []);
  book.nowMs += 1;
  assert.deepEqual([book.heard(9), book.heard(11, 2), book.heard(13)].flat(), ["admit w5 as 15/1 recovery", "publish"]);
  assert.deepEqual(book.register("s2"), [], "servers have no range");
  assert.deepEqual(
    book.roster.view().nodes.map(({ node }) => node),
    [9, 11, 13, 15, 8, 10],
  );
});

test("without a range whoever comes to the running job joins it, whatever counts it was started with (Roster.R9)", () => {
  const book = new RosterStage({ mayScale: true }).formed();
  assert.deepEqual(book.register("w2", { workerCount: 7, serverCount: 5 }), [], "the others may be gone");
  book.nowMs = 10;
  assert.deepEqual(book.heard(9), []);
  assert.deepEqual(book.heard(11), ["admit w2 as 13/1 recovery", "publish"]);
});

test("a worker that asks for a rank beyond the next one waits for those before it, until its deadline", () => {
  const book = new RosterStage({ mayScale: true, heartbeatIntervalMs: 0 }).formed();
  assert.deepEqual(book.register("w3", { rank: 3 }), []);
  assert.deepEqual(book.register("w9", { rank: 9 }), []);
  assert.deepEqual(book.register("w2", { rank: 2 }), ["admit w2 as 13/1 recovery", "publish"]);
  assert.deepEqual(book.review(), ["admit w3 as 15/1 recovery", "publish"]);
  assert.deepEqual(book.tick(60_000), ["refuse w9 DEADLINE"]);
});

test("who comes in the slot of a worker that is silent gets its rank when it is dead, and no new one (RankChoice.S3)", () => {
  const book = new RosterStage({ mayScale: true }).formed();
  book.nowMs = 3000;
  assert.deepEqual(book.register("w2"), []);
  for (const node of [8, 10, 9]) book.heard(node);
  book.nowMs = 4000;
  for (const node of [8, 10, 9]) book.heard(node);
  assert.deepEqual(book.tick(5000), ["died 11", "admit w2 as 11/2 recovery", "publish"]);
});

test("at the start the counts are compared, and without a range one too many is refused", () => {
  const other = new RosterStage({ mayScale: true });
  assert.deepEqual(other.register("w0", { workerCount: 3 }), ["fail COUNT_MISMATCH", "refuse w0 COUNT_MISMATCH"]);
  const many = new RosterStage({ mayScale: true });
  for (const name of ["w0", "w1"]) many.register(name);
  assert.deepEqual(many.register("w2").at(-1), "refuse w2 COUNT_MISMATCH");
});

test("a worker that joined says to a scheduler that was restarted what the job began with, and keeps its rank", () => {
  const book = new RosterStage({ mayScale: true });
  const entry = OLD_ROSTER.nodes[0]!;
  const roster = { ...OLD_ROSTER, nodes: [...OLD_ROSTER.nodes, { ...entry, node: 13, rank: 2, label: "old-13" }] };
  assert.deepEqual(book.resume("w2", { node: 13, roster }, { rank: 2 }), ["run", "admit w2 as 13/1", "publish"]);
  const wrong = new RosterStage({ mayScale: true });
  assert.deepEqual(wrong.resume("w2", { node: 13, roster }, { workerCount: 3 }).at(-1), "refuse w2 COUNT_MISMATCH");
});

test("a worker beyond what is allowed waits for a rank, and is told who holds them", () => {
  const book = new RosterStage({ workerCountMax: 3, heartbeatIntervalMs: 0 }).formed();
  book.register("w2");
  assert.deepEqual(book.register("w3"), []);
  assert.deepEqual(book.tick(60_000), ["refuse w3 DEADLINE"]);
  assert.deepEqual(book.register("w4"), []);
  assert.deepEqual(book.leave(13), ["admit w4 as 13/2 recovery", "publish"]);
});

test("workers beyond the count that come while the cluster forms begin with it, without a gap between ranks (Formation.F4)", () => {
  const book = new RosterStage({ workerCountMax: 4 });
  for (const name of ["s0", "w0", "w1"]) book.register(name);
  book.register("w3", { rank: 3 });
  assert.deepEqual(book.register("s1"), [], "nobody has rank 2 yet");
  assert.deepEqual(book.register("w2"), [
    "run",
    "admit s0 as 8/1",
    "admit s1 as 10/1",
    "admit w0 as 9/1",
    "admit w1 as 11/1",
    "admit w3 as 15/1",
    "admit w2 as 13/1",
  ]);
});

test("an added worker that resumes after a restart of the scheduler keeps its rank, and so do those that have not come yet", () => {
  const book = new RosterStage({ workerCountMax: 4 });
  const entry = OLD_ROSTER.nodes[0]!;
  const added = [13, 15].map((node) => ({ ...entry, node, rank: (node - 9) >> 1, label: `old-${node}` }));
  const roster = { ...OLD_ROSTER, nodes: [...OLD_ROSTER.nodes, ...added] };
  assert.deepEqual(book.resume("w3", { node: 15, roster }), ["run", "admit w3 as 15/1", "publish"]);
  assert.deepEqual(book.register("w9"), [], "all may still come back");
  assert.deepEqual(book.resume("w2", { node: 13, roster }), ["admit w2 as 13/1", "publish"]);
});
