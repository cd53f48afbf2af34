// Goal: another number of workers is asked for within what the job allows, those that come and leave meet it, and what
// is left of it is known to a scheduler that is started again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import type { NodeState, RosterEntry, RosterView } from "../wire/roster.ts";
import { recordsOf } from "./scheduler-state.ts";
import { StateJournal } from "./state-journal.ts";
import { WorkerScaling } from "./worker-scaling.ts";

type Stage = {
  readonly workers: WorkerScaling;
  readonly journal: StateJournal;
  /** What a launcher was told. */
  readonly told: (readonly number[])[];
  readonly dismissed: number[];
  set(rank: number, state: NodeState, incarnation?: number): void;
};

function stage({ isSettled = true, max = 5 } = {}): Stage {
  const journal = new StateJournal();
  const [told, dismissed]: [(readonly number[])[], number[]] = [[], []];
  const states = new Map<number, { readonly state: NodeState; readonly incarnation: number }>();
  const entryOf = (rank: number): RosterEntry => ({
    ...{ node: idOf("worker", rank), role: "worker", rank, address: "", label: "" },
    ...states.get(rank)!,
  });
  const view = (): RosterView => ({ version: 1, nodes: [...states.keys()].map(entryOf) });
  const workers = new WorkerScaling({
    ...{ journal, view, isSettled: () => isSettled, workerCount: 2, workerCountMax: max, changed: () => {} },
    dismiss: (node) => dismissed.push(node),
    onWorkers: (ranks) => told.push(ranks),
  });
  const set: Stage["set"] = (rank, state, incarnation = 1) => {
    states.set(rank, { state, incarnation });
    workers.review();
  };
  for (const rank of [0, 1]) set(rank, "alive");
  return { workers, journal, told, dismissed, set };
}

test("more are waited for until they have come, whoever starts them", async () => {
  const { workers, told, set } = stage();
  assert.deepEqual(workers.report(), { presentCount: 2, countMin: 2, countMax: 5, leaving: [] });
  assert.equal(workers.ask({ to: 4 }).wishedCount, 4);
  assert.deepEqual(told, [[0, 1, 2, 3]]);
  set(2, "alive");
  assert.deepEqual([workers.report().presentCount, workers.report().wishedCount], [3, 4]);
  assert.equal(workers.ask({ add: 1 }).wishedCount, 5, "counted from what was asked for before");
  const met = workers.met();
  for (const rank of [3, 4]) set(rank, "alive");
  assert.equal(workers.report().wishedCount, undefined);
  await met;
  await workers.met(); // nothing is asked for
});

test("those of the highest ranks leave, and a worker that comes later with such a rank stays (WorkerScaling.W3)", () => {
  const { workers, told, journal, set } = stage();
  for (const rank of [2, 3, 4]) set(rank, "alive");
  assert.deepEqual(workers.ask({ to: 3 }), { presentCount: 3, countMin: 2, countMax: 5, leaving: [3, 4], wishedCount: 3 });
  assert.deepEqual(told, [[0, 1, 2]]);
  set(4, "left");
  assert.deepEqual(workers.report().leaving, [3]);
  assert.deepEqual(
    journal.state.workers,
    recordsOf(journal.state).flatMap((record) => (record.kind === "workers" ? [record.wish] : []))[0],
    "a scheduler that is started again knows it",
  );
  assert.deepEqual(workers.ask({ to: 4 }).leaving, [3], "one that was asked leaves, and another one comes");
  assert.deepEqual(told.at(-1), [0, 1, 2, 4]);
  set(3, "left");
  set(3, "alive", 2);
  assert.deepEqual(workers.report(), { presentCount: 4, countMin: 2, countMax: 5, leaving: [] });
});

test("one that dies instead of leaving counts as having left, and nobody else that dies does (WorkerScaling.W3)", () => {
  const { workers, dismissed, set } = stage();
  set(2, "alive");
  workers.ask({ leave: [0] });
  assert.deepEqual(workers.report().leaving, [0]);
  set(0, "dead");
  assert.deepEqual(dismissed, [idOf("worker", 0)]);
  assert.equal(workers.report().wishedCount, undefined);
  set(1, "dead");
  assert.equal(dismissed.length, 1);
});

test("a job has as many workers as its range allows, and a request says one thing (WorkerScaling.W2)", () => {
  const { workers } = stage();
  assert.throws(() => workers.ask({ to: 6 }), throwsCode("BAD_REQUEST", /this job has 2 to 5 workers; 6 were asked for/));
  assert.throws(() => workers.ask({ to: 1 }), throwsCode("BAD_REQUEST", /2 to 5 workers; 1 were/));
  assert.throws(() => workers.ask({ leave: [1] }), throwsCode("BAD_REQUEST", /2 to 5 workers; 1 were/));
  assert.throws(() => workers.ask({ leave: [7] }), throwsCode("BAD_REQUEST", /the job has worker 0, 1, and no worker 7/));
  assert.throws(() => workers.ask({}), throwsCode("BAD_REQUEST", /says one thing/));
  assert.throws(() => workers.ask({ to: 3, add: 1 }), throwsCode("BAD_REQUEST", /says one thing/));
  assert.throws(() => stage({ max: 2 }).workers.ask({ to: 3 }), throwsCode("BAD_REQUEST", /no more and no fewer: start it with a range/));
  assert.throws(() => stage({ isSettled: false }).workers.ask({ to: 3 }), throwsCode("NO_ROUTE"));
  assert.equal(workers.report().wishedCount, undefined, "nothing has changed");
});
