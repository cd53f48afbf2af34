// Goal: another number of workers is asked for within what the job allows, those that come and leave meet it, and what
// is left of it is known to a scheduler that is started again. Workers that do not come are not waited for forever.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import type { NodeState, RosterEntry, RosterView } from "../wire/roster.ts";
import { recordsOf } from "./scheduler-state.ts";
import { StateJournal } from "./state-journal.ts";
import { WorkerScaling } from "./worker-scaling.ts";

type Stage = {
  readonly workers: WorkerScaling;
  readonly clock: SimClock;
  readonly journal: StateJournal;
  /** What a launcher was told. */
  readonly told: (readonly number[])[];
  readonly dismissed: number[];
  set(rank: number, state: NodeState, incarnation?: number): void;
};

function stage({ isSettled = true, max = 5, workerCount = 2, journal = new StateJournal() } = {}): Stage {
  const clock = new SimClock();
  const [told, dismissed]: [(readonly number[])[], number[]] = [[], []];
  const states = new Map<number, { readonly state: NodeState; readonly incarnation: number }>();
  const entryOf = (rank: number): RosterEntry => ({
    ...{ node: idOf("worker", rank), role: "worker", rank, address: "", label: "" },
    ...states.get(rank)!,
  });
  const view = (): RosterView => ({ version: 1, nodes: [...states.keys()].map(entryOf) });
  const workers = new WorkerScaling({
    ...{ clock, log: SILENT_LOG, journal, view, isSettled: () => isSettled, workerCount, workerCountMax: max, changed: () => {} },
    dismiss: (node) => dismissed.push(node),
    onWorkers: (ranks) => told.push(ranks),
  });
  const set: Stage["set"] = (rank, state, incarnation = 1) => {
    states.set(rank, { state, incarnation });
    workers.review();
  };
  for (let rank = 0; rank < workerCount; rank++) set(rank, "alive");
  return { workers, clock, journal, told, dismissed, set };
}

test("more are waited for until they have come, whoever starts them", async () => {
  const { workers, clock, told, set } = stage();
  assert.deepEqual(workers.report(), { presentCount: 2, countMin: 2, countMax: 5, leaving: [] });
  assert.equal(workers.request({ to: 4 }).wishedCount, 4);
  assert.deepEqual(told, [[0, 1, 2, 3]]);
  set(2, "alive");
  assert.deepEqual([workers.report().presentCount, workers.report().wishedCount], [3, 4]);
  assert.equal(workers.request({ add: 1 }).wishedCount, 5, "counted from what was asked for before");
  const ended = workers.ended();
  for (const rank of [3, 4]) set(rank, "alive");
  assert.equal(workers.report().wishedCount, undefined);
  assert.deepEqual(await ended, { outcome: "done" });
  assert.deepEqual(await workers.ended(), { outcome: "done" }, "nothing is asked for");
  await clock.advance(120_000);
  assert.deepEqual(workers.report().ended, { outcome: "done" }, "and what has ended is not taken back");
});

test("workers that do not come are waited for until the timeout; then there are to be as many as before (WorkerScaling.W4)", async () => {
  const { workers, clock, told, journal, set } = stage();
  workers.request({ to: 5, timeoutMs: 30_000 });
  set(2, "alive");
  await clock.advance(10_000);
  assert.deepEqual([workers.report().presentCount, workers.report().wishedCount, workers.report().waitMs], [3, 5, 20_000]);
  const ended = workers.ended();
  await clock.advance(20_001);
  assert.deepEqual(workers.report(), { presentCount: 2, countMin: 2, countMax: 5, leaving: [2], wishedCount: 2, isBack: true });
  assert.deepEqual(told.at(-1), [0, 1]);
  assert.throws(() => workers.request({ to: 5, timeoutMs: 0 }), throwsCode("BAD_REQUEST", /at least 1 ms/));
  set(2, "left");
  const end = { outcome: "rolledBack", reason: "3 of 5 workers were there after 30000 ms" };
  assert.deepEqual(await ended, end);
  assert.deepEqual(workers.report(), { presentCount: 2, countMin: 2, countMax: 5, leaving: [], ended: end });
  const again = stage({ journal });
  assert.deepEqual(again.workers.report().ended, end, "a scheduler that is started again knows it");
  workers.request({ to: 3 });
  set(2, "alive", 2);
  assert.deepEqual(workers.report().ended, { outcome: "done" });
});

test("a wish for a minute, if nothing is said, and a scheduler that is started again waits as long again (WorkerScaling.W4)", async () => {
  const { workers, clock, journal } = stage();
  workers.request({ add: 1 });
  await clock.advance(59_000);
  assert.equal(workers.report().wishedCount, 3);
  workers.close(new WeighbridgeError("CLOSED", "killed"));
  await clock.advance(60_000);
  const again = stage({ journal });
  assert.equal(again.workers.report().waitMs, 60_000);
  await again.clock.advance(60_001);
  assert.equal(again.workers.report().wishedCount, undefined);
  assert.equal(again.workers.report().ended?.outcome, "rolledBack");
});

test("a rollback takes back what is waited for, and nothing else", async () => {
  const { workers, clock, set } = stage();
  await assert.rejects(workers.rollBack(), throwsCode("BAD_REQUEST", /no workers are waited for/));
  workers.request({ to: 4 });
  set(2, "alive");
  const back = workers.rollBack();
  assert.deepEqual(workers.report().leaving, [2]);
  set(2, "left");
  assert.equal(await back, 2);
  assert.deepEqual(workers.report().ended, { outcome: "rolledBack", reason: "its rollback was asked for" });
  workers.request({ to: 4 });
  set(2, "alive", 2);
  const slow = workers.rollBack();
  await clock.advance(10_001);
  assert.equal(await slow, 2, "who takes longer to leave keeps nobody waiting");
  set(2, "left", 2);
  for (const rank of [2, 3]) set(rank, "alive", 3);
  workers.request({ to: 2 });
  await assert.rejects(workers.rollBack(), throwsCode("BAD_REQUEST"), "those that were asked to leave may have begun to");
  set(1, "dead");
  await clock.advance(120_000);
  assert.deepEqual(workers.report().leaving, [2, 3], "they take their time");
  for (const rank of [2, 3]) set(rank, "left", 3);
  assert.deepEqual(workers.report().ended, { outcome: "done" }, "one that died meanwhile is not waited for");
});

test("those of the highest ranks leave, and a worker that comes later with such a rank stays (WorkerScaling.W3)", () => {
  const { workers, told, journal, set } = stage();
  for (const rank of [2, 3, 4]) set(rank, "alive");
  assert.deepEqual(workers.request({ to: 3 }), { presentCount: 3, countMin: 2, countMax: 5, leaving: [3, 4], wishedCount: 3 });
  assert.deepEqual(told, [[0, 1, 2]]);
  set(4, "left");
  assert.deepEqual(workers.report().leaving, [3]);
  assert.deepEqual(
    journal.state.workers,
    recordsOf(journal.state).flatMap((record) => (record.kind === "workers" ? [record.wish] : []))[0],
    "a scheduler that is started again knows it",
  );
  assert.deepEqual(workers.request({ to: 4 }).leaving, [3], "one that was asked leaves, and another one comes");
  assert.deepEqual(told.at(-1), [0, 1, 2, 4]);
  set(3, "left");
  set(3, "alive", 2);
  assert.deepEqual(workers.report(), { presentCount: 4, countMin: 2, countMax: 5, leaving: [], ended: { outcome: "done" } });
});

test("one that dies instead of leaving counts as having left, and nobody else that dies does (WorkerScaling.W3)", () => {
  const { workers, dismissed, set } = stage();
  set(2, "alive");
  workers.request({ leave: [0] });
  assert.deepEqual(workers.report().leaving, [0]);
  set(0, "dead");
  assert.deepEqual(dismissed, [idOf("worker", 0)]);
  assert.equal(workers.report().wishedCount, undefined);
  set(1, "dead");
  assert.equal(dismissed.length, 1);
});

test("a job has as many workers as its range allows, and a request says one thing (WorkerScaling.W2)", () => {
  const { workers } = stage();
  assert.throws(() => workers.request({ to: 6 }), throwsCode("BAD_REQUEST", /this job has 2 to 5 workers; 6 were asked for/));
  assert.throws(() => workers.request({ to: 1 }), throwsCode("BAD_REQUEST", /2 to 5 workers; 1 were/));
  assert.throws(() => workers.request({ leave: [1] }), throwsCode("BAD_REQUEST", /2 to 5 workers; 1 were/));
  assert.throws(() => workers.request({ leave: [7] }), throwsCode("BAD_REQUEST", /the job has worker 0, 1, and no worker 7/));
  assert.throws(() => workers.request({}), throwsCode("BAD_REQUEST", /says one thing/));
  assert.throws(() => workers.request({ to: 3, add: 1 }), throwsCode("BAD_REQUEST", /says one thing/));
  assert.throws(
    () => stage({ max: 2 }).workers.request({ to: 3 }),
    throwsCode("BAD_REQUEST", /no more and no fewer: start it with a range/),
  );
  assert.throws(() => stage({ isSettled: false }).workers.request({ to: 3 }), throwsCode("NO_ROUTE"));
  assert.equal(workers.report().wishedCount, undefined, "nothing has changed");
});

test("more that are asked for while others leave are waited for, and those that are there meanwhile stay (WorkerScaling.W4)", async () => {
  for (const doCome of [true, false]) {
    const { workers, clock, set } = stage();
    for (const rank of [2, 3, 4]) set(rank, "alive");
    workers.request({ to: 3 });
    const { wishedCount, waitMs, presentCount, leaving } = workers.request({ to: 4, timeoutMs: 30_000 });
    assert.deepEqual([wishedCount, waitMs, presentCount, leaving], [4, 30_000, 3, [3, 4]]);
    for (const rank of [3, 4]) set(rank, "left");
    assert.equal(workers.report().wishedCount, 4, "three of four are there");
    if (doCome) set(3, "alive", 2);
    else await clock.advance(30_001);
    const end = { outcome: "rolledBack", reason: "3 of 4 workers were there after 30000 ms" };
    const ended = doCome ? { outcome: "done" } : end;
    assert.deepEqual(workers.report(), { presentCount: doCome ? 4 : 3, countMin: 2, countMax: 5, leaving: [], ended });
  }
});

test("more that are asked for while others are waited for are taken back with them (WorkerScaling.W4)", async () => {
  const { workers, clock, set } = stage();
  workers.request({ to: 4 });
  set(2, "alive");
  workers.request({ to: 5, timeoutMs: 30_000 });
  await clock.advance(30_001);
  const { wishedCount, leaving } = workers.report();
  assert.deepEqual([wishedCount, leaving], [2, [2]]);
});

test("as many more as were asked for already, and have not come, are refused without an id of their own", async () => {
  const { workers, clock, journal, set } = stage({ max: 9 });
  workers.request({ add: 1 });
  workers.request({ add: 2 });
  for (const { workers: those } of [{ workers }, stage({ journal, max: 9 })])
    for (const add of [1, 2])
      assert.throws(
        () => those.request({ add }),
        throwsCode("BAD_REQUEST", new RegExp(`adds ${add} to the workers has not ended; .*request_id`)),
      );
  assert.equal(workers.request({ add: 1, requestId: "another one" }).wishedCount, 6);
  set(2, "alive");
  await clock.advance(60_001);
  assert.equal(workers.report().isBack, true);
  assert.throws(() => workers.request({ add: 2 }), throwsCode("BAD_REQUEST"), "it is on its way back");
  set(2, "left");
  assert.equal(workers.request({ add: 2 }).wishedCount, 4, "it has ended");
});

test("a job that was started without workers says so, and takes none", () => {
  const { workers } = stage({ workerCount: 0 });
  const refused = throwsCode("BAD_REQUEST", /without workers \(--workers 0\)/);
  for (const request of [{ to: 3 }, { add: 1 }, { to: 0 }]) assert.throws(() => workers.request(request), refused);
});
