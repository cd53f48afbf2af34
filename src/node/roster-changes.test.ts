// What a scheduler says of its nodes as they come and go.

import assert from "node:assert/strict";
import test from "node:test";
import { idOf, type Role } from "../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import { RosterChanges } from "./roster-changes.ts";

function entry(role: Role, state: NodeState, incarnation = 1): RosterEntry {
  return { node: idOf(role, 0), role, rank: 0, address: role === "server" ? "tcp://h:1" : "", incarnation, state, label: "me" };
}

test("tells who joins, and when all are there", () => {
  const teller = new RosterChanges({ serverCount: 1, workerCount: 1 });
  assert.deepEqual(teller.tell({ version: 1, nodes: [entry("worker", "alive"), entry("server", "alive")] }), [
    "worker 0 (me) joined",
    "server 0 at tcp://h:1 (me) joined",
    "the cluster is complete: 1 server, 1 worker",
    "The server node id:me,node ip: h,node port:1 assign rank id:0",
    "The worker node id:me assign rank id:0",
    "Start the scheduler node is successful!",
  ]);
});

test("tells of deaths, returns and departures, each once", () => {
  const teller = new RosterChanges({ serverCount: 1, workerCount: 0 });
  const tell = (state: NodeState, incarnation?: number) => teller.tell({ version: 1, nodes: [entry("server", state, incarnation)] });
  tell("alive");
  assert.deepEqual(tell("alive"), []);
  assert.deepEqual(tell("dead"), ["server 0 is dead"]);
  assert.deepEqual(tell("alive"), ["server 0 at tcp://h:1 (me) is heard of again"]);
  assert.deepEqual(tell("alive", 2), ["server 0 at tcp://h:1 (me) took its place, incarnation 2"]);
  assert.deepEqual(tell("left", 2), ["server 0 has left"]);
});
