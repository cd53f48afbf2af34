// Goal: MindSpore's lines, once, when the cluster is complete; after that only what a person has to know.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf, type Role } from "../../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../../wire/roster.ts";
import { RegistrationLines } from "./registration-lines.ts";

function entry(role: Role, rank: number, state: NodeState = "alive"): RosterEntry {
  const address = role === "server" ? `tcp://127.0.0.1:4${rank}` : "";
  return { node: idOf(role, rank), role, rank, address, incarnation: 1, state, label: `${role}-label` };
}

test("says who has which rank when all are there, and not before", () => {
  const lines = new RegistrationLines({ serverCount: 1, workerCount: 2 });
  assert.deepEqual(lines.tell({ version: 1, nodes: [entry("worker", 1), entry("server", 0)] }), []);
  const complete = [entry("worker", 1), entry("server", 0), entry("worker", 0)];
  assert.deepEqual(lines.tell({ version: 2, nodes: complete }), [
    "The server node id:server-label, node ip: 127.0.0.1, node port:40 assign rank id:0",
    "The worker node id:worker-label assign rank id:0",
    "The worker node id:worker-label assign rank id:1",
    "Start the scheduler node is successful!",
  ]);
  assert.deepEqual(lines.tell({ version: 3, nodes: complete }), []);
});

test("later says who died, and nothing of those who leave", () => {
  const lines = new RegistrationLines({ serverCount: 0, workerCount: 2 });
  lines.tell({ version: 1, nodes: [entry("worker", 0), entry("worker", 1)] });
  assert.deepEqual(lines.tell({ version: 2, nodes: [entry("worker", 0, "left"), entry("worker", 1, "dead")] }), ["worker 1 is dead"]);
});

test("a server on a unix socket is told by its address", () => {
  const lines = new RegistrationLines({ serverCount: 1, workerCount: 0 });
  const [line] = lines.tell({ version: 1, nodes: [{ ...entry("server", 0), address: "unix:///tmp/1.sock" }] });
  assert.match(String(line), /node ip: unix:\/\/\/tmp\/1\.sock, node port:- assign rank id:0$/);
});
