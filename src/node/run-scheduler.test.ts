// What a scheduler says of its nodes as they come and go.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf, type Role } from "../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import { RosterChanges, registrationLines } from "./run-scheduler.ts";

function entry(role: Role, state: NodeState, incarnation = 1): RosterEntry {
  return { node: idOf(role, 0), role, rank: 0, address: role === "server" ? "tcp://h:1" : "", incarnation, state, label: "me" };
}

test("tells who joins, and when all are there", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 1 });
  assert.deepEqual(changes.since({ version: 1, nodes: [entry("worker", "alive"), entry("server", "alive")] }), [
    "worker 0 (me) joined",
    "server 0 at tcp://h:1 (me) joined",
    "the cluster is complete: 1 server, 1 worker",
    "The server node id:me,node ip: h,node port:1 assign rank id:0",
    "The worker node id:me assign rank id:0",
    "Start the scheduler node is successful!",
  ]);
});

test("tells of deaths, returns and departures, each once", () => {
  const changes = new RosterChanges({ serverCount: 1, workerCount: 0 });
  const after = (state: NodeState, incarnation?: number) => changes.since({ version: 1, nodes: [entry("server", state, incarnation)] });
  after("alive");
  assert.deepEqual(after("alive"), []);
  assert.deepEqual(after("dead"), ["server 0 is dead"]);
  assert.deepEqual(after("alive"), ["server 0 at tcp://h:1 (me) is heard of again"]);
  assert.deepEqual(after("alive", 2), ["server 0 at tcp://h:1 (me) took its place, incarnation 2"]);
  assert.deepEqual(after("left", 2), ["server 0 has left"]);
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
