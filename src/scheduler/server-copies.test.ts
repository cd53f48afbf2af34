// server-copies — Goal: of two processes that hold a server rank one leads; they are apart, and alike.

import assert from "node:assert/strict";
import { test } from "node:test";
import { copyOf, RosterStage, requestOf } from "../testing/roster-stage.ts";
import { idOf } from "../wire/node-id.ts";
import type { CopyClaim, RegisterRequest } from "../wire/register.ts";

/** The label of who holds each slot: head 0, standby 0, head 1, standby 1. */
function slots({ roster }: RosterStage): (string | undefined)[] {
  const { nodes } = roster.view();
  return [0, 1].flatMap((rank) =>
    (["server", "standby"] as const).map((role) => nodes.find(({ node }) => node === idOf(role, rank))?.label),
  );
}

function registered(servers: readonly (readonly [name: string, request?: Partial<RegisterRequest>])[]): RosterStage {
  const stage = new RosterStage({ replicas: 2 });
  for (const name of ["w0", "w1"]) stage.register(name);
  for (const [name, request] of servers) stage.register(name, request);
  return stage;
}

const at = (host: string, process: string, settings: readonly string[] = []): { copy: CopyClaim } => ({
  copy: { replicas: 2, host, process, settings },
});

test("the first copy that asks for a rank leads, the second stands by", () => {
  assert.deepEqual(
    slots(
      registered([
        ["s1", { rank: 1 }],
        ["s0", { rank: 0 }],
        ["s0b", { rank: 0 }],
        ["s1b", { rank: 1 }],
      ]),
    ),
    [...["s0", "s0b"], ...["s1", "s1b"]],
  );
});

test("copies without ranks are on different hosts, or at least in different processes (ServerCopies.P1)", () => {
  const hosts = registered([
    ["s0", at("a", "1")],
    ["s1", at("a", "2")],
    ["s2", at("b", "1")],
    ["s3", at("b", "2")],
  ]);
  assert.deepEqual(slots(hosts), ["s0", "s2", "s1", "s3"]);
  const threads = registered([
    ["s0", at("a", "1")],
    ["s1", at("a", "1")],
    ["s2", at("a", "2")],
    ["s3", at("a", "2")],
  ]);
  assert.deepEqual(slots(threads), ["s0", "s2", "s1", "s3"]);
});

test("a copy without a rank joins one that asked for its rank, on another host if there is one", () => {
  const stage = registered([
    ["s0", { rank: 0, ...at("a", "1") }],
    ["s1", { rank: 1, ...at("b", "1") }],
    ["s2", at("a", "2")],
    ["s3", at("b", "2")],
  ]);
  assert.deepEqual(slots(stage), ["s0", "s3", "s1", "s2"]);
});

test("a job that has a rank without any copy is not complete, and its error names the copies that are missing", () => {
  const stage = registered([
    ["s0", { rank: 0 }],
    ["s1", { rank: 0 }],
  ]);
  assert.equal(stage.roster.phase, "forming");
  stage.nowMs = 60_000;
  const [decision] = stage.roster.tick(60_000);
  assert.ok(decision?.kind === "fail");
  assert.match(decision.error.message, /2 of 2 servers in 2 copies .* missing: server 1, standby 1/);
});

// A copy that dies before the job runs.

const FOUR = [
  ["s0", { rank: 0 }],
  ["s1", { rank: 1 }],
  ["s0b", { rank: 0 }],
  ["s1b", { rank: 1 }],
] as const;

test("a copy that registered and died is not waited for: the job starts with the other copy, which then leads", () => {
  const stage = registered(FOUR.slice(0, 3));
  stage.roster.withdraw("s0", 0);
  assert.deepEqual(stage.register("s1b", { rank: 1 }), [], "it may dial again");
  assert.equal(stage.dueMs(), 1000);
  assert.deepEqual(stage.tick(999), []);
  const decisions = stage.roster.tick(1000);
  assert.deepEqual(decisions[0], { kind: "run", lacking: [idOf("standby", 0)] });
  assert.deepEqual(slots(stage), ["s0b", "", "s1", "s1b"]);
  assert.deepEqual(stage.states().slice(-2), [`${idOf("standby", 0)} left 0`, `${idOf("standby", 1)} alive 1`]);
  assert.deepEqual(stage.register("s0c", { rank: 0 }), [`admit s0c as ${idOf("standby", 0)}/1 recovery`, "publish"]);
  assert.equal(stage.roster.view().nodes.find(({ node }) => node === idOf("standby", 0))?.isFilling, true, "it is filled");
});

test("a copy that registered and died is not waited for where copies ask for no rank", () => {
  const stage = registered([["s0"], ["s1"], ["s2"]]);
  stage.roster.withdraw("s1", 0);
  stage.register("s3");
  assert.equal(stage.tick(1000)[0], "run");
  assert.deepEqual(slots(stage), ["s0", "s3", "s2", ""]);
});

test("a copy whose link broke and that registers again is waited for as the others", () => {
  const stage = registered(FOUR.slice(0, 3));
  stage.roster.withdraw("s0", 0);
  stage.nowMs = 900;
  stage.roster.register({ ...requestOf("s0", { rank: 0 }), copy: copyOf("s0") }, "s0 again", 900);
  assert.equal(stage.dueMs(), 60_000);
  assert.deepEqual(stage.tick(1900), []);
  assert.deepEqual(stage.register("s1b", { rank: 1 })[0], "run");
  assert.deepEqual(slots(stage), ["s0b", "s0", "s1", "s1b"]);
});

test("a copy that has not come yet is waited for, though another one has died, and though that one was started again", () => {
  const stage = registered(FOUR.slice(0, 3));
  stage.roster.withdraw("s0", 0);
  assert.deepEqual(stage.tick(5000), []);
  assert.deepEqual(stage.register("s0c", { rank: 0 }), []);
  assert.deepEqual(stage.tick(10_000), []);
  assert.equal(stage.dueMs(), 60_000);
});

test("at the deadline of the start a job begins with one copy of each rank, and says which are missing", () => {
  const stage = registered(FOUR.slice(0, 3));
  assert.deepEqual(stage.tick(59_999), []);
  const decisions = stage.roster.tick(60_000);
  assert.deepEqual(decisions[0], { kind: "run", lacking: [idOf("standby", 1)] });
  assert.deepEqual(slots(stage), ["s0", "s0b", "s1", ""]);
  const withoutWorker = new RosterStage({ replicas: 2 });
  for (const [name, request] of FOUR) withoutWorker.register(name, request);
  withoutWorker.roster.withdraw("s0", 0);
  withoutWorker.register("w0");
  assert.deepEqual(withoutWorker.tick(60_000)[0], "fail DEADLINE");
});

test("a third copy of a rank, and one copy too many, are refused", () => {
  const stage = registered([
    ["s0", { rank: 0 }],
    ["s1", { rank: 0 }],
  ]);
  assert.deepEqual(stage.register("s2", { rank: 0 })[0], "fail RANK_TAKEN");
  const full = new RosterStage({ replicas: 2 });
  for (const name of ["s0", "s1", "s2", "s3"]) full.register(name);
  assert.deepEqual(full.register("s4")[0], "fail COUNT_MISMATCH");
});

test("two copies in one process, of two versions or configurations are refused by name (ServerCopies.P2)", () => {
  const refusal = (one: Partial<RegisterRequest>, other: Partial<RegisterRequest>): string => {
    const stage = registered([["s0", { rank: 0, ...one }]]);
    const request = { role: "server", address: "memory://s1", serverCount: 2, workerCount: 2, label: "s1", token: "s1", rank: 0 } as const;
    const [decision] = stage.roster.register({ resume: undefined, copy: copyOf("s1"), ...request, ...other }, "s1", 0);
    assert.ok(decision?.kind === "fail", JSON.stringify(decision));
    return `${decision.error.code} ${decision.error.message}`;
  };
  assert.match(
    refusal(at("a", "1"), at("a", "1")),
    /^BAD_CONFIG "s1" and "s0" cannot hold a server rank together: they are in one process/,
  );
  assert.match(refusal({ packageVersion: "1.0.0" }, { packageVersion: "1.0.1" }), /^VERSION_MISMATCH .*weighbridge 1.0.1, the other 1.0.0/);
  const [small, large] = [["arenaBytesMax 1"], ["arenaBytesMax 2"]] as const;
  assert.match(refusal(at("a", "1", small), at("a", "2", large)), /^BAD_CONFIG .*one has arenaBytesMax 2, the other arenaBytesMax 1/);
});

test("a server started with another number of replicas than the scheduler is refused by name", () => {
  assert.deepEqual(new RosterStage().register("s0", { copy: copyOf("s0") })[0], "fail COUNT_MISMATCH");
  assert.deepEqual(new RosterStage({ replicas: 2 }).register("s0", { copy: undefined })[0], "fail COUNT_MISMATCH");
});
