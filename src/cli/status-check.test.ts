// Goal: a cluster is well when all of it is there; what is not is named.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { StatusEntry, StatusReply } from "../wire/control.ts";
import { statusProblems } from "./status-check.ts";

const node = (id: number, fields: Partial<StatusEntry> = {}): StatusEntry => ({
  ...{ node: id, role: id % 2 === 0 ? "server" : "worker", rank: 0, address: "", incarnation: 1, state: "alive", label: "" },
  ...{ heartbeatAgeMs: 20, linked: true },
  ...fields,
});
const WELL: StatusReply = {
  ...{ job: "j", phase: "running", serverCount: 1, workerCount: 2, uptimeMs: 1, waiting: [] },
  nodes: [node(9), node(11), node(8)],
};

test("a complete cluster is well, also when workers have left it, or everybody has", () => {
  const left = { state: "left", linked: false } as const;
  assert.deepEqual(statusProblems(WELL), []);
  assert.deepEqual(statusProblems({ ...WELL, nodes: [node(9, left), node(11), node(8)] }), []);
  assert.deepEqual(statusProblems({ ...WELL, nodes: [node(9, left), node(11, left), node(8, left)] }), []);
});

test("a server that has left while workers are there is missing", () => {
  const nodes = [node(9, { state: "left", linked: false }), node(11), node(8, { state: "left", linked: false })];
  assert.deepEqual(statusProblems({ ...WELL, nodes }), ["server 0 has left, and there are still workers"]);
});

test("a dead node and one without a link are named", () => {
  const nodes = [node(9, { state: "dead", linked: false }), node(11, { linked: false }), node(8)];
  assert.deepEqual(statusProblems({ ...WELL, nodes }), ["worker 0 is dead", "worker 1 has no link to the scheduler"]);
});

test("a cluster that forms, and a job that has failed, are not well", () => {
  const waiting = [{ role: "server", rank: 0, address: "tcp://h:1", label: "a" }] as const;
  assert.deepEqual(statusProblems({ ...WELL, phase: "forming", nodes: [], waiting }), [
    "the cluster is not complete: 1 of 3 nodes are there",
  ]);
  assert.deepEqual(statusProblems({ ...WELL, phase: "failed" }), ["the job has failed"]);
});
