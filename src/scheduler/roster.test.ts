// roster.test — Goal: the scheduler's decisions, event by event, without a network: who gets which place, who is refused and why, who is dead.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import type { RegisterRequest, ResumeClaim } from "../wire/register.ts";
import type { RosterView } from "../wire/roster.ts";
import { type Decision, Roster, type RosterRules } from "./roster.ts";

const RULES: RosterRules = {
  serverCount: 2,
  workerCount: 2,
  heartbeatIntervalMs: 1000,
  heartbeatTimeoutMs: 5000,
  startTimeoutMs: 60_000,
};

/** A roster at time 0 whose tickets are names; `s0`, `w1` and the like register under those. */
class Book {
  readonly roster: Roster<string>;
  nowMs = 0;

  constructor(rules: Partial<RosterRules> = {}) {
    this.roster = new Roster({ rules: { ...RULES, ...rules }, job: "new-job", nowMs: 0 });
  }

  register(name: string, request: Partial<RegisterRequest> = {}): string[] {
    return texts(this.roster.register(requestOf(name, request), name, this.nowMs));
  }

  /** What a node of the old job says to a scheduler that was restarted. */
  resume(name: string, claim: Partial<ResumeClaim> & Pick<ResumeClaim, "node">, request: Partial<RegisterRequest> = {}): string[] {
    const resume: ResumeClaim = { job: "old-job", incarnation: 1, roster: OLD_ROSTER, passed: [], ...claim };
    return this.register(name, { ...request, resume });
  }

  tick(toMs: number): string[] {
    this.nowMs = toMs;
    return texts(this.roster.tick(toMs));
  }

  heard(node: number, incarnation = 1): string[] {
    return texts(this.roster.heard(node, incarnation, this.nowMs));
  }

  linkDown(node: number, incarnation = 1): string[] {
    return texts(this.roster.linkDown(node, incarnation, this.nowMs));
  }

  linkUp(node: number, incarnation = 1): string[] {
    return texts(this.roster.linkUp(node, incarnation, this.nowMs));
  }

  leave(node: number, incarnation = 1): string[] {
    return texts(this.roster.leave(node, incarnation, this.nowMs));
  }

  dueMs(): number {
    return this.roster.dueMs(this.nowMs);
  }

  /** "8 alive 1" and so on. */
  states(): string[] {
    return this.roster.view().nodes.map(({ node, state, incarnation }) => `${node} ${state} ${incarnation}`);
  }

  formed(): this {
    for (const [rank, name] of ["s0", "s1", "w0", "w1"].entries()) this.register(name, { rank: rank % 2 });
    return this;
  }

  /** Everybody but these nodes has just been heard of. */
  hearAllBut(...silent: number[]): void {
    for (const node of [8, 9, 10, 11]) if (!silent.includes(node)) this.heard(node);
  }
}

function requestOf(name: string, request: Partial<RegisterRequest>): RegisterRequest {
  const role = name.startsWith("s") ? "server" : "worker";
  const address = role === "server" ? `memory://${name}` : "";
  return { role, rank: undefined, address, serverCount: 2, workerCount: 2, label: name, token: name, resume: undefined, ...request };
}

/** What four nodes of an old job remember of it. */
const OLD_ROSTER: RosterView = {
  version: 7,
  nodes: [9, 11, 8, 10].map((node) => ({
    node,
    role: node % 2 === 0 ? ("server" as const) : ("worker" as const),
    rank: (node - 8) >> 1,
    address: node % 2 === 0 ? `memory://old-${node}` : "",
    incarnation: 1,
    state: "alive" as const,
    label: `old-${node}`,
  })),
};

function texts(decisions: readonly Decision<string>[]): string[] {
  return decisions.map((decision) => {
    switch (decision.kind) {
      case "admit":
        return `admit ${decision.ticket} as ${decision.node}/${decision.incarnation}${decision.recovery ? " recovery" : ""}`;
      case "refuse":
        return `refuse ${decision.ticket} ${decision.error.code}`;
      case "died":
        return `died ${decision.node}`;
      case "fail":
        return `fail ${decision.error.code}`;
      default:
        return decision.kind;
    }
  });
}

const throwsCode = (code: ErrorCode) => (error: unknown) => isWeighbridgeError(error, code);

// Forming.

test("nobody is answered before everybody has registered, then all are", () => {
  const book = new Book();
  for (const name of ["w0", "s0", "s1"]) assert.deepEqual(book.register(name), []);
  assert.deepEqual(book.register("w1"), ["run", "admit s0 as 8/1", "admit s1 as 10/1", "admit w0 as 9/1", "admit w1 as 11/1"]);
  assert.deepEqual(book.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 1"]);
  assert.deepEqual([book.roster.view().version, book.roster.phase, book.roster.job], [1, "running", "new-job"]);
});

test("who asks for a rank gets it, however late; the others get what is free, in the order they came", () => {
  const book = new Book({ serverCount: 4, workerCount: 0 });
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
    const book = new Book();
    book.register("w0", { rank: 0 });
    book.register("s0");
    assert.deepEqual(book.register("w1", culprit), [`fail ${code}`, `refuse w0 ${code}`, `refuse s0 ${code}`, `refuse w1 ${code}`]);
    assert.deepEqual(book.register("s1"), [`refuse s1 ${code}`]);
    assert.deepEqual([book.dueMs(), book.roster.phase, book.tick(1e6)], [Infinity, "failed", []]);
  }
});

test("one node too many while others are missing fails the start", () => {
  const book = new Book();
  book.register("w0");
  book.register("w1");
  assert.deepEqual(book.register("w2").at(0), "fail COUNT_MISMATCH");
});

test("a request that makes no sense is refused without harm to the others", () => {
  const book = new Book();
  book.register("w0");
  assert.deepEqual(book.register("x", { role: "scheduler" }), ["refuse x BAD_REQUEST"]);
  assert.deepEqual(book.register("s0", { address: "" }), ["refuse s0 BAD_REQUEST"]);
  assert.equal(book.roster.phase, "forming");
});

test("a cluster that is not complete at the deadline fails, and not before", () => {
  const book = new Book();
  book.register("w0");
  assert.equal(book.dueMs(), 60_000);
  assert.deepEqual(book.tick(59_999), []);
  assert.deepEqual(book.tick(60_000), ["fail DEADLINE", "refuse w0 DEADLINE"]);
});

test("who went away while the cluster forms is not counted, and its rank is free", () => {
  const book = new Book();
  book.register("w0", { rank: 0 });
  book.roster.withdraw("w0");
  assert.deepEqual(book.register("w0b", { rank: 0 }), []);
  assert.deepEqual(
    book.roster.waiting().map(({ label }) => label),
    ["w0b"],
  );
});

test("the same process that registers again while the cluster forms counts once", () => {
  const book = new Book();
  book.register("w0", { rank: 0 });
  assert.deepEqual(texts(book.roster.register(requestOf("w0", { rank: 0 }), "w0-again", 5)), ["refuse w0 ABORTED"]);
  book.register("s0");
  book.register("s1");
  assert.deepEqual(book.register("w1").at(3), "admit w0-again as 9/1");
});

// Death and return.

test("a node is dead exactly when nothing was heard of it for the timeout", () => {
  const book = new Book().formed();
  book.nowMs = 3000;
  book.hearAllBut(10);
  assert.equal(book.dueMs(), 5000);
  assert.deepEqual(book.tick(4999), []);
  assert.deepEqual(book.tick(5000), ["died 10", "announce"]);
  assert.deepEqual(book.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 dead 1"]);
  assert.deepEqual([book.roster.view().version, book.dueMs()], [2, 8000]);
});

test("a closed link alone is no death while heartbeats decide", () => {
  const book = new Book().formed();
  assert.deepEqual(book.linkDown(10), []);
  book.nowMs = 4000;
  book.hearAllBut();
  assert.deepEqual(book.tick(5000), []);
});

test("without heartbeats silence is no death, and a link that stays closed is", () => {
  for (const rules of [{ heartbeatTimeoutMs: 0 }, { heartbeatIntervalMs: 0 }]) {
    const book = new Book(rules).formed();
    assert.deepEqual([book.dueMs(), book.tick(1e9)], [Infinity, []]);
    book.linkDown(10);
    book.linkDown(8);
    assert.equal(book.dueMs(), 1e9 + 5000);
    book.nowMs += 4000;
    book.linkUp(8);
    assert.deepEqual(book.tick(1e9 + 5000), ["died 10", "announce"]);
  }
});

test("a dead node that is heard of again, or connects again, is alive in the same life", () => {
  const book = new Book().formed();
  book.tick(5000);
  assert.deepEqual(book.heard(10), ["announce"]);
  assert.deepEqual(book.linkUp(8), ["announce"]);
  assert.deepEqual(book.states(), ["9 dead 1", "11 dead 1", "8 alive 1", "10 alive 1"]);
});

test("who has no place, or no longer has it, is told so", () => {
  const book = new Book();
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

// Newcomers.

test("a newcomer takes the place of a dead node of its role, any number of times", () => {
  const book = new Book().formed();
  for (let life = 2; life <= 5; life++) {
    book.nowMs += 3000;
    for (const node of [8, 9, 11]) book.heard(node);
    book.nowMs += 3000;
    for (const node of [8, 9, 11]) book.heard(node);
    book.tick(book.nowMs);
    assert.deepEqual(book.states().at(-1), `10 dead ${life - 1}`);
    assert.deepEqual(book.register(`s${life}`), [`admit s${life} as 10/${life} recovery`, "announce"]);
  }
});

test("a newcomer of the other role does not get the place", () => {
  const book = new Book({ startTimeoutMs: 60_000 }).formed();
  book.nowMs = 4000;
  book.hearAllBut(10);
  book.tick(5000);
  assert.deepEqual(book.register("w2"), []);
  assert.deepEqual(book.register("s2"), ["admit s2 as 10/2 recovery", "announce"]);
});

test("a place without a link goes at once to who asks for it, and after a second to anybody", () => {
  const book = new Book().formed();
  book.linkDown(10);
  assert.deepEqual(book.register("s2", { rank: 1 }), ["died 10", "admit s2 as 10/2 recovery", "announce"]);
  book.linkDown(8);
  assert.deepEqual(book.register("s3"), []);
  assert.equal(book.dueMs(), 1000);
  assert.deepEqual(book.tick(999), []);
  assert.deepEqual(book.tick(1000), ["died 8", "admit s3 as 8/2 recovery", "announce"]);
});

test("a node whose link comes back keeps its place from a newcomer", () => {
  const book = new Book().formed();
  book.linkDown(10);
  book.register("s2");
  book.nowMs = 500;
  book.linkUp(10);
  assert.deepEqual(book.tick(1000), []);
});

test("a rank held by a node that proves alive is refused; by one that does not, given when it is dead", () => {
  const book = new Book().formed();
  book.nowMs = 2000;
  assert.deepEqual(book.register("w2", { rank: 0 }), []);
  book.nowMs = 2500;
  assert.deepEqual(book.heard(9), ["refuse w2 RANK_TAKEN"]);
  assert.deepEqual(book.register("w3", { rank: 1 }), []);
  for (const node of [8, 10, 9]) book.heard(node);
  assert.deepEqual(book.tick(5000), ["died 11", "admit w3 as 11/2 recovery", "announce"]);
});

test("without heartbeats a rank held by a connected node is refused at once", () => {
  const book = new Book({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 }).formed();
  assert.deepEqual(book.register("w2", { rank: 0 }), ["refuse w2 RANK_TAKEN"]);
});

test("a newcomer with other counts or an impossible rank is refused alone", () => {
  const book = new Book().formed();
  assert.deepEqual(book.register("w2", { workerCount: 3 }), ["refuse w2 COUNT_MISMATCH"]);
  assert.deepEqual(book.register("w3", { rank: 2 }), ["refuse w3 BAD_CONFIG"]);
  assert.equal(book.roster.phase, "running");
});

test("a newcomer waits for a place until its deadline, and can go away before", () => {
  const book = new Book({ heartbeatTimeoutMs: 0, startTimeoutMs: 10_000 }).formed();
  book.nowMs = 100;
  assert.deepEqual([book.register("w2"), book.register("w3")], [[], []]);
  assert.equal(book.dueMs(), 10_100);
  book.roster.withdraw("w3");
  assert.deepEqual(book.tick(10_099), []);
  assert.deepEqual(book.tick(10_100), ["refuse w2 DEADLINE"]);
  assert.equal(book.dueMs(), Infinity);
});

test("two newcomers get two places, and a third waits", () => {
  const book = new Book().formed();
  book.nowMs = 4000;
  book.hearAllBut(9, 11);
  book.tick(5000);
  assert.deepEqual(book.register("w2"), ["admit w2 as 9/2 recovery", "announce"]);
  assert.deepEqual(book.register("w3"), ["admit w3 as 11/2 recovery", "announce"]);
  assert.deepEqual(book.register("w4"), []);
});

test("the same process that registers again after its answer was lost keeps its place and its life", () => {
  const book = new Book().formed();
  book.linkDown(10);
  const request = requestOf("s1", { rank: 1 });
  assert.deepEqual(texts(book.roster.register(request, "s1-again", 10)), ["admit s1-again as 10/1"]);
  assert.equal(book.roster.view().version, 1);
});

// The end.

test("who has left is neither dead nor missing, and the job is over when all have", () => {
  const book = new Book().formed();
  assert.deepEqual(book.leave(9), ["announce"]);
  book.nowMs = 4000;
  book.hearAllBut(9);
  assert.deepEqual(book.tick(6000), []);
  assert.deepEqual([book.leave(8), book.leave(10)], [["announce"], ["announce"]]);
  assert.deepEqual(book.leave(11), ["announce", "finish"]);
  assert.deepEqual(book.tick(1e6), []);
});

test("the job is over when the rest is dead, but not when all are", () => {
  const book = new Book().formed();
  book.tick(5000);
  assert.equal(book.states().filter((state) => state.includes("dead")).length, 4);
  book.heard(9);
  assert.deepEqual(book.leave(9), ["announce", "finish"]);
});

test("a place whose holder has left is given to a newcomer", () => {
  const book = new Book().formed();
  book.leave(11);
  assert.deepEqual(book.register("w2"), ["admit w2 as 11/2 recovery", "announce"]);
});

test("a job that fails later refuses everybody who comes", () => {
  const book = new Book().formed();
  book.register("w2");
  const error = new (class extends Error {
    code = "HANDLER_FAILED";
  })();
  assert.deepEqual(texts(book.roster.fail(error as never)), ["fail HANDLER_FAILED", "refuse w2 HANDLER_FAILED"]);
  assert.deepEqual(texts(book.roster.fail(error as never)), []);
});

// A restart of the scheduler.

test("the first node that resumes brings the job and everybody's place; all are answered at once", () => {
  const book = new Book();
  assert.deepEqual(book.resume("w0", { node: 9 }), ["run", "admit w0 as 9/1", "announce"]);
  assert.deepEqual([book.roster.job, book.roster.isResumed], ["old-job", true]);
  assert.ok(book.roster.view().version > OLD_ROSTER.version);
  assert.equal(book.roster.view().nodes.find(({ node }) => node === 10)?.address, "memory://old-10");
  assert.deepEqual(book.resume("s1", { node: 10 }, { address: "memory://old-10", label: "old-10" }), ["admit s1 as 10/1"]);
});

test("a node that does not resume is dead after the timeout; one that does later is alive again", () => {
  for (const heartbeatTimeoutMs of [5000, 0]) {
    const book = new Book({ heartbeatTimeoutMs });
    book.nowMs = 1000;
    book.resume("w0", { node: 9 });
    for (const node of [8, 10]) book.resume(`s${node}`, { node });
    book.nowMs = 5000;
    for (const node of [8, 9, 10]) book.heard(node);
    assert.deepEqual(book.tick(6000), ["died 11", "announce"]);
    assert.deepEqual(book.resume("w1", { node: 11 }), ["admit w1 as 11/1", "announce"]);
  }
});

test("a heartbeat of a node that has not resumed yet is not enough", () => {
  const book = new Book();
  book.resume("w0", { node: 9 });
  assert.throws(() => book.heard(11), throwsCode("NO_ROUTE"));
  assert.deepEqual(book.linkUp(11), []);
});

test("a newcomer waits until the others had their time to resume, whether it came before them or after", () => {
  for (const comesFirst of [true, false]) {
    const book = new Book();
    if (comesFirst) assert.deepEqual(book.register("s2", { rank: 1 }), []);
    book.resume("w0", { node: 9 });
    if (!comesFirst) assert.deepEqual(book.register("s2", { rank: 1 }), []);
    book.nowMs = 1000;
    book.resume("w1", { node: 11 });
    book.resume("s0", { node: 8 });
    book.nowMs = 4000;
    for (const node of [8, 9, 11]) book.heard(node);
    assert.deepEqual(book.tick(4999), []);
    assert.deepEqual(book.tick(5000), ["died 10", "admit s2 as 10/2 recovery", "announce"]);
  }
});

test("a newcomer gets the place of one that was dead before the restart as soon as all others have resumed", () => {
  const nodes = OLD_ROSTER.nodes.map((entry) => (entry.node === 10 ? { ...entry, state: "dead" as const } : entry));
  const book = new Book();
  const roster = { version: 9, nodes };
  book.resume("w0", { node: 9, roster });
  assert.deepEqual(book.register("s2"), []);
  book.resume("w1", { node: 11, roster });
  assert.deepEqual(book.resume("s0", { node: 8, roster }).slice(0, 2), ["admit s0 as 8/1", "admit s2 as 10/2 recovery"]);
});

test("a node of another job is fenced", () => {
  const book = new Book();
  book.resume("w0", { node: 9 });
  assert.deepEqual(book.resume("w1", { node: 11, job: "another" }), ["refuse w1 FENCED"]);
  assert.deepEqual(new Book().formed().resume("w1", { node: 11 }), ["refuse w1 FENCED"]);
});

test("an old life that resumes after its successor is fenced, and before it as soon as that is known", () => {
  const newer: RosterView = {
    version: 8,
    nodes: OLD_ROSTER.nodes.map((entry) => (entry.node === 10 ? { ...entry, incarnation: 2, label: "s1b" } : entry)),
  };
  const after = new Book();
  after.resume("s1b", { node: 10, incarnation: 2, roster: newer });
  assert.deepEqual(after.resume("s1", { node: 10 }), ["refuse s1 FENCED"]);
  const before = new Book();
  before.resume("s1", { node: 10 });
  assert.deepEqual(before.resume("w0", { node: 9, roster: newer }).slice(0, 2), ["died 10", "admit w0 as 9/1"]);
  assert.throws(() => before.heard(10, 1), throwsCode("NO_ROUTE")); // not confirmed: its successor may still resume
  assert.deepEqual(before.resume("s1b", { node: 10, incarnation: 2, roster: newer }, { label: "s1b", address: "memory://old-10" }), [
    "admit s1b as 10/2",
  ]);
  assert.throws(() => before.heard(10, 1), throwsCode("FENCED"));
});

test("the newest memory wins for nodes that have not resumed, and the version rises above all of them", () => {
  const book = new Book();
  book.resume("w0", { node: 9 });
  const nodes = OLD_ROSTER.nodes.map((entry) => (entry.node === 8 ? { ...entry, state: "left" as const } : entry));
  assert.deepEqual(book.resume("w1", { node: 11, roster: { version: 20, nodes } }).at(-1), "announce");
  assert.ok(book.roster.view().version > 20);
  assert.ok(book.states().includes("8 left 1"));
  book.resume("s1", { node: 10, roster: OLD_ROSTER }); // older: changes nothing
  assert.ok(book.states().includes("8 left 1"));
});

test("a scheduler restarted with other counts fails alone: the nodes may wait for a better one", () => {
  const book = new Book({ workerCount: 3 });
  const [fail, refuse] = book.roster.register(
    requestOf("w0", { resume: { job: "old-job", node: 9, incarnation: 1, roster: OLD_ROSTER, passed: [] } }),
    "w0",
    0,
  );
  assert.deepEqual([fail?.kind, refuse?.kind], ["fail", "refuse"]);
  assert.ok(refuse?.kind === "refuse" && refuse.error.code === "COUNT_MISMATCH" && refuse.error.retryable);
});

test("a claim to a place that does not exist is fenced", () => {
  assert.deepEqual(new Book().resume("w9", { node: 99 }).at(1), "refuse w9 FENCED");
});

// All of it at random.

test("for 300 seeds of events, every place has one holder, versions rise, and everybody who waits is answered in time", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const book = new Book({ heartbeatTimeoutMs: random.chance(0.2) ? 0 : 5000 }).formed();
    const waiting = new Map<string, number>();
    const lives = new Map<number, number>([8, 9, 10, 11].map((node) => [node, 1]));
    let version = 1;
    let newcomers = 0;
    const note = (decisions: readonly Decision<string>[]): void => {
      for (const decision of decisions) {
        if (decision.kind === "refuse") waiting.delete(decision.ticket);
        if (decision.kind !== "admit") continue;
        waiting.delete(decision.ticket);
        assert.equal(decision.incarnation, (lives.get(decision.node) ?? 0) + 1, `seed ${seed}: lives follow each other`);
        lives.set(decision.node, decision.incarnation);
      }
      const announced = decisions.some(({ kind }) => kind === "announce");
      const newVersion = book.roster.view().version;
      assert.equal(newVersion, announced ? version + 1 : version, `seed ${seed}: a version is a change that is told`);
      version = newVersion;
    };
    for (let step = 0; step < 200; step++) {
      const node = [8, 9, 10, 11][random.below(4)] as number;
      const life = lives.get(node) as number;
      const { roster } = book;
      const roll = random.below(10);
      if (roll < 4) note(roster.heard(node, life, book.nowMs));
      else if (roll === 4) note(roster.linkDown(node, life, book.nowMs));
      else if (roll === 5) note(roster.linkUp(node, life, book.nowMs));
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
