// scheduler-status — Goal: the counts that `weighbridge status` shows are those of the job as it is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RosterStage } from "../testing/roster-stage.ts";
import type { StatusReply } from "../wire/control.ts";
import { idOf } from "../wire/node-id.ts";
import { applyRecord, emptyState, recordsOf } from "./scheduler-state.ts";
import { type StatusSources, schedulerStatus } from "./scheduler-status.ts";

function countsOf({ journal, roster }: RosterStage, serves?: boolean): StatusReply {
  const peer = { incarnation: 1, packageVersion: "" };
  const sources = { counts: { serverCount: 2, workerCount: 2, serves }, peer, journal, roster, leaving: new Set<number>(), startedAtMs: 0 };
  return schedulerStatus({ ...sources, tools: { status: () => [] } } as unknown as StatusSources, 0);
}

function serverCountOf(stage: RosterStage): number {
  return countsOf(stage).serverCount;
}

test("a scheduler that is started again after the job has grown or shrunk shows its servers, also before a node has resumed", () => {
  for (const servers of [[0], [0, 1, 2]]) {
    const found = new RosterStage();
    found.journal.write({ kind: "placement", placement: { epoch: 7, policy: "ring", servers } });
    found.roster.open(0, { isFound: true });
    assert.equal(found.roster.phase, "forming");
    assert.equal(serverCountOf(found), servers.length);
  }
  assert.equal(serverCountOf(new RosterStage()), 2, "a new job has those that it waits for");
});

test("a server that has come to the job counts before it has parts, and one that is to leave does not", () => {
  const stage = new RosterStage({ mayScale: true }).formed();
  const wish = { number: 1, ask: { to: 3 }, timeoutMs: 1000, begun: { from: [0, 1], to: [0, 1, 2] } } as const;
  stage.journal.write({ kind: "wish", wish });
  stage.register("s2", { address: "memory://s2" });
  stage.review();
  assert.deepEqual(stage.states(), ["9 alive 1", "11 alive 1", "8 alive 1", "10 alive 1", "12 alive 1"]);
  assert.equal(serverCountOf(stage), 3);
  stage.journal.write({ kind: "placement", placement: { epoch: 2, policy: "ring", servers: [0, 1] } }, { kind: "retired", ranks: [2] });
  assert.equal(serverCountOf(stage), 2);
});

test("a scheduler that is started again shows the workers that had come, or those that were asked for last", () => {
  const found = new RosterStage();
  const come = (...ranks: number[]): void =>
    found.journal.write(...ranks.map((rank) => ({ kind: "incarnation", node: idOf("worker", rank), incarnation: 1 }) as const));
  const workerCount = (): number => countsOf(found).workerCount;
  found.roster.open(0, { isFound: true });
  assert.equal(workerCount(), 2);
  come(0, 1, 2, 3);
  assert.equal(workerCount(), 4, "two came by themselves");
  const wish = { count: 5, from: 4, timeoutMs: 1000, leaving: [] };
  found.journal.write({ kind: "workers", wish });
  assert.equal(workerCount(), 5, "one is waited for");
  come(4);
  found.journal.write({ kind: "workers", end: { outcome: "done" }, count: 5 });
  assert.equal(workerCount(), 5);
  found.journal.write({ kind: "workers", wish: { ...wish, count: 3, from: 5, leaving: [{ rank: 4, incarnation: 1 }] } });
  found.journal.write({ kind: "workers", end: { outcome: "done" }, count: 3 });
  assert.equal(workerCount(), 3, "those that were asked to leave are gone");
  const again = recordsOf(found.journal.state).reduce(applyRecord, emptyState());
  assert.deepEqual(again, found.journal.state);
});

test("whether a job continues without workers is shown: its servers are needed then", () => {
  const stage = new RosterStage();
  assert.equal(countsOf(stage).serves, undefined);
  assert.equal(countsOf(stage, true).serves, true);
});
