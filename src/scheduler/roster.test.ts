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
  book.roster.withdraw("w0", 0);
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
  book.hearAllBut(10);
  assert.deepEqual(book.tick(5000), ["died 10", "publish"]);
  assert.deepEqual(book.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 dead 1"]);
  assert.deepEqual([book.roster.view().version, book.dueMs()], [2, 9999]);
});

test("a scheduler that was stopped judges nobody for one timeout after it woke up, neither by silence nor by a closed link (SilenceVerdicts.S3)", () => {
  const book = new RosterStage().formed();
  book.nowMs = 3000;
  book.hearAllBut(10);
  assert.deepEqual(book.tick(12_000, { lateMs: 7000 }), []);
  assert.equal(book.dueMs(), 17_000);
  book.linkDown(8);
  assert.deepEqual(book.register("w2"), [], "a closed link gives no slot to a newcomer");
  assert.deepEqual(book.tick(16_999), []);
  book.hearAllBut(10);
  assert.deepEqual(book.tick(17_000), ["died 10", "publish"]);
});

test("when no node is heard nobody is taken for dead before one is heard, and for one timeout after (SilenceVerdicts.S1)", () => {
  const book = new RosterStage().formed();
  assert.equal(book.dueMs(), 5000);
  assert.deepEqual(book.tick(5000), ["doubts"]);
  assert.deepEqual(book.roster.doubt(book.nowMs), { of: "all", silentSinceMs: 0 });
  assert.deepEqual([book.dueMs(), book.tick(1e6)], [Infinity, []]);
  assert.deepEqual(book.heard(9), ["doubtEnded"]);
  assert.equal(book.roster.doubt(book.nowMs), undefined);
  assert.deepEqual([book.dueMs(), book.tick(1e6 + 4999)], [1e6 + 5000, []]);
  book.hearAllBut(8);
  assert.deepEqual(book.tick(1e6 + 5000), ["died 8", "publish"]);
});

test("nodes whose links are all closed, as when all were killed, are dead two timeouts later (SilenceVerdicts.S6)", () => {
  const book = new RosterStage().formed();
  for (const node of [8, 9, 10, 11]) book.linkDown(node);
  assert.deepEqual(book.tick(5000), ["doubts"]);
  assert.deepEqual([book.dueMs(), book.tick(14_999)], [15_000, []]);
  assert.deepEqual(book.tick(15_000), ["died 9", "died 11", "died 8", "died 10", "publish"]);
});

test("servers that closed their links are waited for until nothing listens at their addresses, if that can be found out (SilenceVerdicts.S6)", () => {
  const book = new RosterStage({ probesServers: true }).formed();
  for (const node of [8, 9, 10, 11]) book.linkDown(node);
  assert.deepEqual(book.tick(5000), ["doubts"]);
  assert.deepEqual([book.dueMs(), book.tick(20_000)], [Infinity, []], "the network may have closed them");
  assert.equal(book.roster.lostServer(8, 1, 20_000), "memory://s0", "it is looked for as long as the doubt lasts");
  assert.equal(book.roster.lostServer(9, 1, 20_000), undefined, "a worker listens nowhere");
  book.roster.serverGone(8, 1, 20_000);
  assert.deepEqual([book.dueMs(), book.tick(40_000)], [Infinity, []], "the other one may be there");
  book.roster.serverGone(10, 1, 40_000);
  assert.deepEqual([book.dueMs(), book.tick(49_999)], [50_000, []]);
  assert.deepEqual(book.tick(50_000), ["died 9", "died 11", "died 8", "died 10", "publish"]);
});

test("a head whose standby has lost its link, too, is looked for while the scheduler hears nobody (SilenceVerdicts.S6)", () => {
  const book = new RosterStage({ probesServers: true, replicas: 2, serverCount: 1, workerCount: 1 });
  for (const name of ["s0", "s1", "w0"]) book.register(name, { serverCount: 1, workerCount: 1 });
  for (const { node } of book.roster.view().nodes) book.linkDown(node);
  assert.equal(book.roster.lostServer(8, 1, 4999), undefined, "one of them comes back (Chains.C1)");
  assert.deepEqual(book.tick(5000), ["doubts"]);
  assert.equal(book.roster.lostServer(8, 1, 5000), "memory://s0");
});

test("nodes that were lost all together are replaced by those that register since, a timeout later (SilenceVerdicts.S7)", () => {
  const book = new RosterStage().formed();
  book.tick(5000);
  book.nowMs = 60_000;
  assert.deepEqual(book.register("w2"), ["doubtEnded"]);
  assert.deepEqual(book.tick(65_000), ["died 9", "died 11", "died 8", "died 10", "admit w2 as 9/2 recovery", "publish"]);
});

test("guests are not forgotten while the scheduler hears nobody (SilenceVerdicts.S4)", () => {
  const book = new RosterStage().formed();
  const [admitted] = book.roster.register({ ...requestOf("g", { role: "guest" }), serverCount: 0, workerCount: 0 }, "g", 0);
  const node = admitted?.kind === "admit" ? admitted.node : assert.fail("a guest is let in");
  book.nowMs = 100;
  book.hearAllBut();
  assert.deepEqual(book.tick(5000), ["doubts"], "the guest is the first that is due");
  book.nowMs = 9000;
  assert.deepEqual(book.heard(9), ["doubtEnded"]);
  assert.deepEqual(texts(book.roster.heard(node, 1, book.nowMs)), []);
});

test("a closed link alone is no death while heartbeats decide", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.linkDown(10), []);
  book.nowMs = 4000;
  book.hearAllBut();
  assert.deepEqual(book.tick(5000), []);
});

test("a worker whose link is closed is dead after half the timeout without a word, as when it was killed; a server is not (RankSlot.D1)", () => {
  const book = new RosterStage().formed();
  book.nowMs = 1000;
  book.hearAllBut();
  book.linkDown(9);
  book.linkDown(8);
  assert.equal(book.dueMs(), 3500);
  book.nowMs = 3000;
  book.hearAllBut(9, 8);
  assert.deepEqual(book.tick(3499), []);
  assert.deepEqual(book.tick(3500), ["died 9", "publish"]);
  assert.equal(book.dueMs(), 6000, "the server is judged by its silence alone");
});

test("a server whose link is closed is dead after half the timeout if nothing listens at its address any more (RankSlot.D1)", () => {
  const book = new RosterStage().formed();
  assert.equal(book.roster.lostServer(8, 1, 0), undefined, "it has a link");
  book.linkDown(8);
  assert.equal(book.roster.lostServer(8, 1, 0), "memory://s0");
  book.roster.serverGone(8, 1, 0);
  book.nowMs = 2000;
  book.hearAllBut(8);
  assert.deepEqual(book.tick(2499), []);
  assert.deepEqual(book.tick(2500), ["died 8", "publish"]);
});

test("a worker whose link is closed lives while its pulse is heard, and when it has a link again (Roster.R12)", () => {
  const book = new RosterStage().formed();
  for (const node of [9, 11]) book.linkDown(node);
  book.nowMs = 2000;
  book.hearAllBut(9, 11);
  book.pulse(9, 1500);
  book.linkUp(11);
  book.nowMs = 4000;
  book.hearAllBut(9);
  assert.deepEqual(book.tick(4499), []);
  assert.deepEqual(book.tick(4500), ["died 9", "publish"]);
});

test("a worker whose link was closed before this scheduler heard it is dead after the whole timeout (Roster.R3)", () => {
  const restarted = new RosterStage();
  restarted.resume("s0", { node: 8 });
  restarted.linkDown(9);
  restarted.nowMs = 2000;
  restarted.heard(8);
  assert.deepEqual(restarted.tick(4999), []);
  assert.ok(restarted.tick(5000).includes("died 9"));
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
  book.allDie();
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
  book.allDie();
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
  book.allDie();
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
  book.nowMs = 5000;
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

// Processes that end without having closed their session.

test("nobody waits for a worker that says that its process ends: it has left, and the job can end without it", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.leave(9, 1, { unclosed: 0 }), ["unclosed", "publish"]);
  assert.deepEqual(book.states(), ["9 left 1", "11 alive 1", "8 alive 1", "10 alive 1"]);
  for (const node of [8, 10]) book.leave(node);
  assert.deepEqual(book.leave(11, 1, { unclosed: 0 }), ["unclosed", "publish", "finish"]);
});

test("a worker whose process ends with an error is dead as soon as it says so", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.leave(9, 1, { unclosed: 1 }), ["unclosed", "died 9", "publish"]);
  assert.deepEqual(book.states().at(0), "9 dead 1");
});

test("a worker whose rank gets another process is dead as soon as it says that its process ends", () => {
  const book = new RosterStage().formed();
  assert.deepEqual(book.leave(9, 1, { unclosed: 0, returns: true }), ["unclosed", "died 9", "publish"]);
  assert.deepEqual(book.states(), ["9 dead 1", "11 alive 1", "8 alive 1", "10 alive 1"]);
  assert.deepEqual(book.register("w0b", { rank: 0 }).at(0), "admit w0b as 9/2 recovery");
});
