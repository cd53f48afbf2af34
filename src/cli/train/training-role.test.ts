// Goal: a job is judged by its workers and servers alone, and by nothing that may still change for the better.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import { idOf, type Role } from "../../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../../wire/roster.ts";
import { type JobState, jobState, RosterLines, serverPosition, whenFenced } from "./training-role.ts";

function judge(servers: readonly NodeState[], workers: readonly NodeState[], workerCount: number = workers.length): JobState {
  const entry = (role: "server" | "worker", rank: number, state: NodeState): RosterEntry => ({
    node: idOf(role, rank),
    role,
    rank,
    address: "",
    incarnation: 1,
    state,
    label: "",
  });
  const nodes = [
    ...servers.map((state, rank) => entry("server", rank, state)),
    ...workers.map((state, rank) => entry("worker", rank, state)),
  ];
  return jobState({ version: 1, nodes }, { workerCount });
}

test("a job runs while a worker is at work, whoever else of them left or died", () => {
  for (const others of [[], ["left"], ["dead"], ["left", "dead"]] as NodeState[][]) {
    assert.deepEqual(judge(["alive", "alive"], ["alive", ...others]), { kind: "running" });
  }
});

test("a job is done when the last worker has left, also when others died (TrainingRole.V1)", () => {
  assert.deepEqual(judge(["alive"], ["left", "left"]), { kind: "done" });
  assert.deepEqual(judge(["alive"], ["dead", "left"]), { kind: "done" });
  assert.deepEqual(judge(["dead"], ["left"]), { kind: "done" }); // after the end nobody needs it
});

test("a job fails with the last worker, by name (TrainingRole.V2)", () => {
  assert.deepEqual(judge(["alive"], ["dead", "dead"]), { kind: "failed", reason: "no worker is left: worker 0, worker 1 died" });
});

test("a job fails with a server, by name (TrainingRole.V2)", () => {
  assert.deepEqual(judge(["alive", "dead"], ["alive"]), { kind: "failed", reason: "server 1 died, and the parameters with it" });
});

test("a server's process ends when it is FENCED, also before it listens, and not when it closes (TrainingRole.V3)", async () => {
  const fenced = new WeighbridgeError("FENCED", "server 0 was replaced");
  const closed = new WeighbridgeError("CLOSED", "this node was closed");
  const listeners: ((error: WeighbridgeError) => void)[] = [];
  const whenOver = (ended: (error: WeighbridgeError) => void): (() => boolean) => {
    listeners.push(ended);
    return () => false;
  };
  const later = whenFenced({ failure: undefined, whenOver });
  for (const error of [closed, fenced]) listeners[0]?.(error);
  assert.equal(await later, fenced);
  assert.equal(await whenFenced({ failure: fenced, whenOver }), fenced);
});

test("of the two processes of a server that stop, one says that it is the standby", () => {
  assert.equal(serverPosition(idOf("server", 1), 7), "after clock 7");
  assert.equal(serverPosition(idOf("standby", 1), 7), "as its standby after clock 7");
});

test("a cluster that is not complete is waited for", () => {
  assert.deepEqual(judge(["alive"], [], 2), { kind: "running" });
  assert.deepEqual(judge(["alive"], ["dead"], 2), { kind: "running" });
});

function entry(role: Role, rank: number, state: NodeState = "alive"): RosterEntry {
  const address = role === "server" ? `tcp://127.0.0.1:4${rank}` : "";
  return { node: idOf(role, rank), role, rank, address, incarnation: 1, state, label: `${role}-label` };
}

test("says who has which rank when all are there, and not before", () => {
  const news = new RosterLines({ serverCount: 1, workerCount: 2 });
  assert.deepEqual(news.since({ version: 1, nodes: [entry("worker", 1), entry("server", 0)] }), []);
  const complete = [entry("worker", 1), entry("server", 0), entry("worker", 0)];
  assert.deepEqual(news.since({ version: 2, nodes: complete }), [
    "server/0 ready  127.0.0.1:40  server-label",
    "worker/0 ready  worker-label",
    "worker/1 ready  worker-label",
  ]);
  const mindspore = new RosterLines({ serverCount: 1, workerCount: 2, logFormat: "mindspore" });
  assert.equal(mindspore.since({ version: 1, nodes: complete }).at(-1), "Start the scheduler node is successful!");
  assert.deepEqual(news.since({ version: 3, nodes: complete }), []);
});

test("says nothing of processes that end when the job is done, whoever died before", () => {
  const news = new RosterLines({ serverCount: 1, workerCount: 2, replicas: 2 });
  const nodes = (...workers: NodeState[]): RosterEntry[] => workers.map((state, rank) => entry("worker", rank, state));
  const [server, standby] = [entry("server", 0), { ...entry("standby", 0), token: "t" }];
  news.since({ version: 1, nodes: [...nodes("alive", "alive"), server, standby] });
  assert.deepEqual(news.since({ version: 2, nodes: [...nodes("dead", "alive"), server, standby] }), ["worker/0 is dead"]);
  assert.deepEqual(news.since({ version: 3, nodes: [...nodes("dead", "left"), server, { ...standby, state: "left" }] }), []);
  const promoted: RosterEntry = { ...server, incarnation: 2, token: "t", continues: 1 };
  assert.deepEqual(news.since({ version: 4, nodes: [...nodes("dead", "left"), promoted, { ...standby, state: "left" }] }), []);
});

test("later says who died, and nothing of those who leave", () => {
  const news = new RosterLines({ serverCount: 0, workerCount: 2 });
  news.since({ version: 1, nodes: [entry("worker", 0), entry("worker", 1)] });
  assert.deepEqual(news.since({ version: 2, nodes: [entry("worker", 0, "left"), entry("worker", 1, "dead")] }), ["worker/1 is dead"]);
});
