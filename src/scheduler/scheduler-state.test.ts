// scheduler-state.test — Goal: records alone change the state, in order, and nothing that must not fall falls.

import assert from "node:assert/strict";
import { test } from "node:test";
import { applyRecord, emptyState, type RecordBody, type StateRecord } from "./scheduler-state.ts";
import { StateJournal } from "./state-journal.ts";

const START: RecordBody = { kind: "start", job: "mnist", term: 4, serverCount: 2, workerCount: 3 };

test("a journal applies what is written and shows each record, in order", () => {
  const journal = new StateJournal();
  const records: StateRecord[] = [];
  journal.onRecord = (record) => records.push(record);
  journal.write(START, { kind: "incarnation", node: 8, incarnation: 1 });
  journal.write({ kind: "job", job: "cifar" }, { kind: "parameter", name: "w", number: 1, edition: 1, spec: "{}" });
  const { state } = journal;
  assert.deepEqual([state.job, state.term, state.serverCount, state.workerCount], ["cifar", 4, 2, 3]);
  assert.equal(state.incarnations.get(8), 1);
  assert.equal(state.catalogue.entries.get("w")?.number, 1);
  assert.deepEqual(
    records.map(({ version, kind }) => [version, kind]),
    [
      [1, "start"],
      [1, "incarnation"],
      [1, "job"],
      [1, "parameter"],
    ],
  );
});

test("terms, incarnations, epochs and the highest number never fall (SchedulerState.S2)", () => {
  const journal = new StateJournal();
  const placement = { epoch: 3, policy: "ring", servers: [0, 1] } as const;
  journal.write(START, { kind: "incarnation", node: 8, incarnation: 5 }, { kind: "highest", number: 9 }, { kind: "placement", placement });
  journal.write({ kind: "term", term: 2 }, { kind: "incarnation", node: 8, incarnation: 3 }, { kind: "highest", number: 7 });
  journal.write({ kind: "placement", placement: { ...placement, epoch: 2 } });
  const { term, incarnations, catalogue, placement: kept } = journal.state;
  assert.deepEqual([term, incarnations.get(8), catalogue.highest, kept?.epoch], [4, 5, 9, 3]);
});

test("a record of a later version is refused, not guessed", () => {
  assert.throws(() => applyRecord(emptyState(), { version: 2, kind: "job", job: "x" }), {
    code: "VERSION_MISMATCH",
    message: /version 2; this one reads 1/,
  });
});
