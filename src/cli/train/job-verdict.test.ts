// Goal: a job is judged by its workers and servers alone, and by nothing that may still change for the better.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf } from "../../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../../wire/roster.ts";
import { type JobVerdict, judgeJob } from "./job-verdict.ts";

function judge(servers: readonly NodeState[], workers: readonly NodeState[], workerCount: number = workers.length): JobVerdict {
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
  return judgeJob({ version: 1, nodes }, { workerCount });
}

test("a job runs while a worker is at work, whoever else of them left or died", () => {
  for (const others of [[], ["left"], ["dead"], ["left", "dead"]] as NodeState[][]) {
    assert.deepEqual(judge(["alive", "alive"], ["alive", ...others]), { kind: "running" });
  }
});

test("a job is done when the last worker has left, also when others died (V1)", () => {
  assert.deepEqual(judge(["alive"], ["left", "left"]), { kind: "done" });
  assert.deepEqual(judge(["alive"], ["dead", "left"]), { kind: "done" });
  assert.deepEqual(judge(["dead"], ["left"]), { kind: "done" }); // after the end nobody needs it
});

test("a job fails with the last worker, by name (V2)", () => {
  assert.deepEqual(judge(["alive"], ["dead", "dead"]), { kind: "failed", reason: "no worker is left: worker 0, worker 1 died" });
});

test("a job fails with a server, by name (V2)", () => {
  assert.deepEqual(judge(["alive", "dead"], ["alive"]), { kind: "failed", reason: "server 1 died, and the parameters with it" });
});

test("a cluster that is not complete is waited for", () => {
  assert.deepEqual(judge(["alive"], [], 2), { kind: "running" });
  assert.deepEqual(judge(["alive"], ["dead"], 2), { kind: "running" });
});
