// Goal: MindSpore's lines, once, when the cluster is complete; after that only what a person has to know.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf, type Role } from "../../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../../wire/roster.ts";
import { RosterLines } from "./roster-lines.ts";

function entry(role: Role, rank: number, state: NodeState = "alive"): RosterEntry {
  const address = role === "server" ? `tcp://127.0.0.1:4${rank}` : "";
  return { node: idOf(role, rank), role, rank, address, incarnation: 1, state, label: `${role}-label` };
}

test("says who has which rank when all are there, and not before", () => {
  const news = new RosterLines({ serverCount: 1, workerCount: 2 });
  assert.deepEqual(news.tell({ version: 1, nodes: [entry("worker", 1), entry("server", 0)] }), []);
  const complete = [entry("worker", 1), entry("server", 0), entry("worker", 0)];
  assert.equal(news.tell({ version: 2, nodes: complete }).length, 4);
  assert.deepEqual(news.tell({ version: 3, nodes: complete }), []);
});

test("later says who died, and nothing of those who leave", () => {
  const news = new RosterLines({ serverCount: 0, workerCount: 2 });
  news.tell({ version: 1, nodes: [entry("worker", 0), entry("worker", 1)] });
  assert.deepEqual(news.tell({ version: 2, nodes: [entry("worker", 0, "left"), entry("worker", 1, "dead")] }), ["worker 1 is dead"]);
});
