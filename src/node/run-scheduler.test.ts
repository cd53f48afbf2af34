// What a scheduler says of its nodes as they come and go.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf, type Role } from "../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import { RosterChanges, readyLines, registrationLines } from "./run-scheduler.ts";

function entry(role: Role, state: NodeState, incarnation = 1): RosterEntry {
  return { node: idOf(role, 0), role, rank: 0, address: role === "server" ? "tcp://h:1" : "", incarnation, state, label: "me" };
}

test("tells who joins, and when all are there; in MindSpore's words, too, where they are asked for", () => {
  const nodes = [entry("worker", "alive"), entry("server", "alive")];
  const own = ["worker/0 ready  me", "server/0 ready  h:1  me", "the cluster is complete: 1 server, 1 worker"];
  assert.deepEqual(new RosterChanges({ serverCount: 1, workerCount: 1 }).since({ version: 1, nodes }), own);
  assert.deepEqual(readyLines(nodes), ["server/0 ready  h:1  me", "worker/0 ready  me"]);
  const changes = new RosterChanges({ serverCount: 1, workerCount: 1, logFormat: "mindspore" });
  assert.deepEqual(changes.since({ version: 1, nodes: [entry("worker", "alive"), entry("server", "alive")] }), [
    "worker/0 ready  me",
    "server/0 ready  h:1  me",
    "the cluster is complete: 1 server, 1 worker",
    "The server node id:me,node ip: h,node port:1 assign rank id:0",
    "The worker node id:me assign rank id:0",
    "Start the scheduler node is successful!",
  ]);
});

test("where only warnings are wanted MindSpore's lines are all that is told, once", () => {
  const nodes = [entry("worker", "alive"), entry("server", "alive")];
  const quiet = { serverCount: 1, workerCount: 1, isVerbose: false } as const;
  assert.deepEqual(new RosterChanges(quiet).since({ version: 1, nodes }), []);
  const changes = new RosterChanges({ ...quiet, logFormat: "mindspore" });
  assert.deepEqual(changes.since({ version: 1, nodes }), registrationLines(nodes));
  assert.deepEqual(changes.since({ version: 2, nodes: [entry("worker", "dead"), entry("server", "alive")] }), []);
});

test("tells of deaths, returns and departures, each once", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0 });
  const after = (state: NodeState, incarnation?: number) => changes.since({ version: 1, nodes: [entry("server", state, incarnation)] });
  after("alive");
  assert.deepEqual(after("alive"), []);
  assert.deepEqual(after("dead"), ["server/0 is dead"]);
  assert.deepEqual(after("alive"), ["server/0 is heard of again  h:1  me"]);
  assert.deepEqual(after("alive", 2), ["server/0 ready again  h:1  me  incarnation 2"]);
  assert.deepEqual(after("left", 2), ["server/0 has left"]);
  assert.deepEqual(changes.since({ version: 2, nodes: [] }), []);
});

test("tells of a server that was stopped, and goes on in another process, that it came back", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0 });
  const after = (one: RosterEntry) => changes.since({ version: 1, nodes: [one] });
  after(entry("server", "alive"));
  const dead = { ...entry("server", "dead"), returns: true };
  assert.deepEqual(after({ ...dead, isPlanned: true }), ["server/0 was stopped, and is awaited"]);
  assert.deepEqual(after({ ...entry("server", "alive", 2), continues: 1 }), ["server/0 came back  h:1  me  incarnation 2"]);
});

test("tells of a durable server that died that it is waited for", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0 });
  changes.since({ version: 1, nodes: [entry("server", "alive")] });
  const nodes = [{ ...entry("server", "dead"), returns: true }];
  assert.deepEqual(changes.since({ version: 2, nodes }), ["server/0 is dead, and is waited for"]);
});

test("tells of a server that was stopped that it handed over to its standby", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0, replicas: 2 });
  const standby = { ...entry("standby", "alive"), address: "tcp://h:2", label: "other", token: "t" };
  changes.since({ version: 1, nodes: [entry("server", "alive"), standby] });
  const promoted = { ...entry("server", "alive", 2), address: "tcp://h:2", label: "other", token: "t", continues: 1, isPlanned: true };
  assert.deepEqual(changes.since({ version: 2, nodes: [promoted, { ...standby, state: "left" }] }), [
    "server/0 handed over to its standby  h:2  other  incarnation 2",
  ]);
});

test("tells of a server that no roster lists any more that it has left", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0 });
  changes.since({ version: 1, nodes: [entry("server", "alive")] });
  assert.deepEqual(changes.since({ version: 2, nodes: [] }), ["server/0 has left"]);
  assert.deepEqual(changes.since({ version: 3, nodes: [] }), []);
});

test("tells that a standby took over, or was given up", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0, replicas: 2 });
  const standby = { ...entry("standby", "alive"), address: "tcp://h:2", label: "other", token: "t" };
  const after = (...nodes: RosterEntry[]) => changes.since({ version: 1, nodes });
  assert.ok(after(entry("server", "alive"), standby).includes("the cluster is complete: 1 server, 1 standby, 0 workers"));
  const promoted = { ...entry("server", "alive", 2), address: "tcp://h:2", label: "other", token: "t", continues: 1 };
  assert.deepEqual(after(promoted, { ...standby, state: "left" }), ["server/0 taken over by its standby  h:2  other  incarnation 2"]);
  const next = { ...standby, incarnation: 2, token: "u" };
  assert.deepEqual(after(promoted, next), ["standby/0 ready again  h:2  other  incarnation 2"]);
  assert.deepEqual(after(promoted, { ...next, state: "left" }), ["server/0 has no standby now"]);
});

test("at the end of a job a standby has left, and no server goes on without it", () => {
  const standby = { ...entry("standby", "alive"), address: "tcp://h:2", label: "other", token: "t" };
  const changes = (): RosterChanges => {
    const begun = new RosterChanges({ serverCount: 1, workerCount: 1, replicas: 2 });
    begun.since({ version: 1, nodes: [entry("server", "alive"), standby, entry("worker", "alive")] });
    return begun;
  };
  const nodes = (worker: NodeState): RosterEntry[] => [entry("server", "alive"), { ...standby, state: "left" }, entry("worker", worker)];
  assert.deepEqual(changes().since({ version: 2, nodes: nodes("alive") }), ["server/0 has no standby now"]);
  assert.deepEqual(changes().since({ version: 2, nodes: nodes("left") }), ["standby/0 has left", "worker/0 has left"]);
  assert.deepEqual(changes().since({ version: 2, nodes: nodes("alive"), isEnding: true }), ["standby/0 has left"]);
});

test("of a rank that comes and leaves, both processes are told of, and no slot that nobody has had", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0, replicas: 2 });
  const after = (...nodes: RosterEntry[]) => changes.since({ version: 1, nodes });
  after(entry("server", "alive"), { ...entry("standby", "alive"), token: "t" });
  const added = (role: Role): RosterEntry => ({ ...registered(role, 2), address: "tcp://h:3", label: role });
  const [server, standby] = [added("server"), added("standby")];
  assert.deepEqual(after(server, { ...standby, state: "left", incarnation: 0, label: "" }).slice(0, 1), ["server/2 ready  h:3  server"]);
  assert.deepEqual(after(server, standby), ["standby/2 ready  h:3  standby"]);
  const retired = { ...server, isRetired: true };
  assert.deepEqual(after(retired, { ...standby, isRetired: true, state: "left" }), ["standby/2 has left"]);
  assert.deepEqual(after(), ["server/2 has left"]);
});

function registered(role: Role, rank: number): RosterEntry {
  const address = role === "server" ? `tcp://127.0.0.1:4${rank}` : "";
  return { node: idOf(role, rank), role, rank, address, incarnation: 1, state: "alive", label: `${role}-label` };
}

test("says who has which rank, servers first", () => {
  assert.deepEqual(registrationLines([registered("worker", 1), registered("server", 0), registered("worker", 0)]), [
    "The server node id:server-label,node ip: 127.0.0.1,node port:40 assign rank id:0",
    "The worker node id:worker-label assign rank id:0",
    "The worker node id:worker-label assign rank id:1",
    "Start the scheduler node is successful!",
  ]);
});

test("a server on a unix socket is told by its address", () => {
  const [line] = registrationLines([{ ...registered("server", 0), address: "unix:///tmp/1.sock" }]);
  assert.match(String(line), /node ip: unix:\/\/\/tmp\/1\.sock,node port:- assign rank id:0$/);
});
