// roster.test — Goal: the scheduler's decisions, event by event, without a network: who gets which slot, who is refused
// and why, who is dead.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { RosterStage, requestOf, texts } from "../testing/roster-stage.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { Decision } from "./roster-decision.ts";

// Forming.

test("nobody is answered before everybody has registered, then all are", () => {
  const book = new RosterStage();
  for (const name of ["w0", "s0", "s1"]) assert.deepEqual(book.register(name), []);
  assert.deepEqual(book.register("w1"), ["run", "admit s0 as 8/1", "admit s1 as 10/1", "admit w0 as 9/1", "admit w1 as 11/1"]);
  assert.deepEqual(book.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 1"]);
  assert.deepEqual([book.roster.view().version, book.roster.phase, book.roster.job], [1, "running", "job/new"]);
});

test("who asks for a rank gets it, however late; the others get what is free, in the order they came", () => {
  const book = new RosterStage({ serverCount: 4, workerCount: 0 });
  const counts = { serverCount: 4, workerCount: 0 };
  book.register("sa", counts);
  book.register("sb", counts);
  book.register("sc", { ...counts, rank: 2 });
  assert.deepEqual(book.register("sd", { ...counts, rank: 0 }), [
    "run",
    "admit sa as 10/1",
    "admit sb as 14/1",
    "admit sc as 12/1",
    "admit sd as 8/1",
  ]);
});

test("a contradiction fails everybody who is there, the culprit and all who come later", () => {
  for (const [culprit, code] of [
    [{ serverCount: 3 }, "COUNT_MISMATCH"],
    [{ workerCount: 1 }, "COUNT_MISMATCH"],
    [{ rank: 0 }, "RANK_TAKEN"],
    [{ rank: 2 }, "BAD_CONFIG"],
  ] as const) {
    const book = new RosterStage();
    book.register("w0", { rank: 0 });
    book.register("s0");
    assert.deepEqual(book.register("w1", culprit), [`fail ${code}`, `refuse w0 ${code}`, `refuse s0 ${code}`, `refuse w1 ${code}`]);
    assert.deepEqual(book.register("s1"), [`refuse s1 ${code}`]);
    assert.deepEqual([book.dueMs(), book.roster.phase, book.tick(1e6)], [Infinity, "failed", []]);
  }
});

test("a node that says it cannot take part fails the start of everybody, and later only itself", () => {
  const failure = { code: "PORT_IN_USE", message: "cannot listen on tcp://192.0.2.1:7000" };
  const forming = new RosterStage();
  forming.register("w0");
  assert.deepEqual(forming.register("s1", { failure, address: "" }), [
    "fail PORT_IN_USE",
    "refuse w0 PORT_IN_USE",
    "refuse s1 PORT_IN_USE",
  ]);
  assert.deepEqual(forming.register("s0"), ["refuse s0 PORT_IN_USE"]);
  const running = new RosterStage().formed();
  running.linkDown(10);
  assert.deepEqual(running.register("s1b", { failure, rank: 1, address: "" }), ["refuse s1b PORT_IN_USE"]);
  assert.deepEqual(running.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 1"]);
});

test("one node too many while others are missing fails the start", () => {
  const book = new RosterStage();
  book.register("w0");
  book.register("w1");
  assert.deepEqual(book.register("w2").at(0), "fail COUNT_MISMATCH");
});

test("a request that makes no sense is refused without harm to the others", () => {
  const book = new RosterStage();
  book.register("w0");
  assert.deepEqual(book.register("x", { role: "scheduler" }), ["refuse x BAD_REQUEST"]);
  assert.deepEqual(book.register("s0", { address: "" }), ["refuse s0 BAD_REQUEST"]);
  assert.equal(book.roster.phase, "forming");
});

test("a cluster that is not complete at the deadline fails, and not before", () => {
  const book = new RosterStage();
  book.register("w0");
  assert.equal(book.dueMs(), 60_000);
  assert.deepEqual(book.tick(59_999), []);
  assert.deepEqual(book.tick(60_000), ["fail DEADLINE", "refuse w0 DEADLINE"]);
});

test("who went away while the cluster forms is not counted, and its rank is free", () => {
  const book = new RosterStage();
  book.register("w0", { rank: 0 });
  book.roster.withdraw("w0");
  assert.deepEqual(book.register("w0b", { rank: 0 }), []);
  assert.deepEqual(
    book.roster.waiting().map(({ label }) => label),
    ["w0b"],
  );
});

test("the same process that registers again while the cluster forms counts once", () => {
  const book = new RosterStage();
  book.register("w0", { rank: 0 });
  assert.deepEqual(texts(book.roster.register(requestOf("w0", { rank: 0 }), "w0-again", 5)), ["refuse w0 ABORTED"]);
  book.register("s0");
  book.register("s1");
  assert.deepEqual(book.register("w1").at(3), "admit w0-again as 9/1");
});

// Death and return.

test("a node is dead exactly when nothing was heard of it for the timeout", () => {
  const book = new RosterStage().formed();
  book.nowMs = 3000;
  book.hearAllBut(10);
  assert.equal(book.dueMs(), 5000);
  assert.deepEqual(book.tick(4999), []);
  assert.deepEqual(book.tick(5000), ["died 10", "publish"]);
  assert.deepEqual(book.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 dead 1"]);
  assert.deepEqual([book.roster.view().version, book.dueMs()], [2, 8000]);
});

test("a tick that comes late excuses silence, once and for four times as long, a timeout at most (Roster.R10)", () => {
  const book = new RosterStage().formed();
  book.nowMs = 3000;
  book.hearAllBut(10);
  assert.deepEqual(book.tick(5100, { lateMs: 100 }), []);
  assert.equal(book.dueMs(), 5500);
  assert.deepEqual(book.tick(5600, { lateMs: 100 }), ["died 10", "publish"]);
  book.nowMs = 5700;
  book.hearAllBut();
  assert.deepEqual(book.tick(60_000, { lateMs: 49_300 }), []);
  assert.equal(book.dueMs(), 65_000);
  assert.deepEqual(book.tick(65_000).filter((text) => text.startsWith("died")).length, 4);
});

test("a closed link alone is no death while heartbeats decide", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.linkDown(10), []);
  book.nowMs = 4000;
  book.hearAllBut();
  assert.deepEqual(book.tick(5000), []);
});

test("without heartbeats silence is no death, and a link that stays closed is", () => {
  for (const rules of [{ heartbeatTimeoutMs: 0 }, { heartbeatIntervalMs: 0 }]) {
    const book = new RosterStage(rules).formed();
    assert.deepEqual([book.dueMs(), book.tick(1e9)], [Infinity, []]);
    book.linkDown(10);
    book.linkDown(8);
    assert.equal(book.dueMs(), 1e9 + 5000);
    book.nowMs += 4000;
    book.linkUp(8);
    assert.deepEqual(book.tick(1e9 + 5000), ["died 10", "publish"]);
  }
});

test("a dead node that is heard of again, or connects again, is alive in the same incarnation", () => {
  const book = new RosterStage().formed();
  book.tick(5000);
  assert.deepEqual(book.heard(10), ["publish"]);
  assert.deepEqual(book.linkUp(8), ["publish"]);
  assert.deepEqual(book.states(), ["9 dead 1", "11 dead 1", "8 alive 1", "10 alive 1"]);
});

test("who has no slot, or no longer has it, is told so", () => {
  const book = new RosterStage();
  assert.throws(() => book.heard(10), throwsCode("NO_ROUTE"));
  book.formed();
  assert.throws(() => book.heard(-3), throwsCode("NO_ROUTE"));
  assert.throws(() => book.heard(10, 2), throwsCode("NO_ROUTE"));
  book.tick(5000);
  book.register("s1b");
  book.register("s0b");
  assert.throws(() => book.heard(10, 1), throwsCode("FENCED"));
  assert.throws(() => book.leave(10, 1), throwsCode("FENCED"));
  assert.deepEqual([book.linkUp(10, 1), book.linkDown(10, 1)], [[], []]);
});

// The end.

test("who has left is neither dead nor missing, and the job is over when all have", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.leave(9), ["publish"]);
  book.nowMs = 4000;
  book.hearAllBut(9);
  assert.deepEqual(book.tick(6000), []);
  assert.deepEqual([book.leave(8), book.leave(10)], [["publish"], ["publish"]]);
  assert.deepEqual(book.leave(11), ["publish", "finish"]);
  assert.deepEqual(book.tick(1e6), []);
});

test("the job is over when the rest is dead, but not when all are", () => {
  const book = new RosterStage().formed();
  book.tick(5000);
  assert.equal(book.states().filter((state) => state.includes("dead")).length, 4);
  book.heard(9);
  assert.deepEqual(book.leave(9), ["publish", "finish"]);
});

test("a slot whose holder has left is given to a newcomer", () => {
  const book = new RosterStage().formed();
  book.leave(11);
  assert.deepEqual(book.register("w2"), ["admit w2 as 11/2 recovery", "publish"]);
});

test("after the last barrier nobody takes the slot of who leaves, and who waits is refused when all have left (Roster.R4)", () => {
  const book = new RosterStage().formed();
  book.register("w2");
  assert.deepEqual(texts(book.roster.ending(book.nowMs)), []);
  assert.deepEqual(book.leave(11), ["publish"]);
  assert.deepEqual(book.register("w3"), []);
  for (const node of [8, 10]) assert.deepEqual(book.leave(node), ["publish"]);
  assert.deepEqual(book.leave(9), ["publish", "refuse w2 NO_ROUTE", "refuse w3 NO_ROUTE", "finish"]);
  assert.deepEqual(book.register("s2"), ["refuse s2 NO_ROUTE"]);
});

test("after the last barrier the slot of a dead node is still given: its successor may have words to say", () => {
  const book = new RosterStage().formed();
  book.roster.ending(book.nowMs);
  book.nowMs = 3000;
  book.hearAllBut(11);
  assert.deepEqual(book.tick(6000), ["died 11", "publish"]);
  assert.deepEqual(book.register("w2"), ["admit w2 as 11/2 recovery", "publish"]);
});

test("a job that fails later refuses everybody who comes", () => {
  const book = new RosterStage().formed();
  book.register("w2");
  const error = new (class extends Error {
    code = "HANDLER_FAILED";
  })();
  assert.deepEqual(texts(book.roster.fail(error as never)), ["fail HANDLER_FAILED", "refuse w2 HANDLER_FAILED"]);
  assert.deepEqual(texts(book.roster.fail(error as never)), []);
});

// All of it at random.

test("for 300 seeds of events, every slot has one holder, versions rise, and everybody who waits is answered in time", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const book = new RosterStage({ heartbeatTimeoutMs: random.chance(0.2) ? 0 : 5000 }).formed();
    const waiting = new Map<string, number>();
    const holders = new Map<number, number>([8, 9, 10, 11].map((node) => [node, 1]));
    let version = 1;
    let newcomers = 0;
    const note = (decisions: readonly Decision<string>[]): void => {
      for (const decision of decisions) {
        if (decision.kind === "refuse") waiting.delete(decision.caller);
        if (decision.kind !== "admit") continue;
        waiting.delete(decision.caller);
        assert.equal(decision.incarnation, (holders.get(decision.node) ?? 0) + 1, `seed ${seed}: lives follow each other`);
        holders.set(decision.node, decision.incarnation);
      }
      const published = decisions.some(({ kind }) => kind === "publish");
      const newVersion = book.roster.view().version;
      assert.equal(newVersion, published ? version + 1 : version, `seed ${seed}: a version is a change that is told`);
      version = newVersion;
    };
    for (let step = 0; step < 200; step++) {
      const node = [8, 9, 10, 11][random.below(4)] as number;
      const holder = holders.get(node) as number;
      const { roster } = book;
      const roll = random.below(10);
      if (roll < 4) note(roster.heard(node, holder, book.nowMs));
      else if (roll === 4) note(roster.linkDown(node, holder, book.nowMs));
      else if (roll === 5) note(roster.linkUp(node, holder, book.nowMs));
      else if (roll === 6 && waiting.size < 3) {
        const name = `${random.chance(0.5) ? "s" : "w"}-${++newcomers}`;
        waiting.set(name, book.nowMs);
        note(roster.register(requestOf(name, { rank: random.chance(0.3) ? random.below(2) : undefined }), name, book.nowMs));
      } else {
        book.nowMs = Math.min(book.nowMs + random.below(3000), Math.max(book.nowMs, book.dueMs()));
        note(roster.tick(book.nowMs));
      }
      assert.ok(book.dueMs() > book.nowMs, `seed ${seed}, step ${step}: what was due is done`);
      for (const [name, sinceMs] of waiting) assert.ok(book.nowMs - sinceMs < 60_000, `seed ${seed}: ${name} was forgotten`);
    }
  }
});
