// state-journal.test — Goal: what was written is appended in order, what may be told is durable, and what is stored is
// bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { applyRecord, emptyState, type RecordBody, type StateRecord } from "./scheduler-state.ts";
import { StateJournal } from "./state-journal.ts";
import type { StateStore } from "./state-store.ts";

const START: RecordBody = { kind: "start", job: "mnist/1", term: 4, serverCount: 2, workerCount: 3 };

/** Holds what is written until `finish`. */
class SlowStore implements StateStore {
  onLost: (error: WeighbridgeError) => void = () => {};
  isHeld = true;
  readonly standbys: readonly string[] = [];
  readonly location = "memory";
  records: readonly StateRecord[] = [];
  aside: readonly StateRecord[] = [];
  /** How many records each write had; negative for one that replaced all. */
  readonly writes: number[] = [];
  #pending: (() => void) | undefined;

  async open(): Promise<readonly StateRecord[]> {
    return this.records;
  }

  async append(records: readonly StateRecord[]): Promise<void> {
    await this.#done(records.length);
    this.records = [...this.records, ...records];
  }

  async replace(records: readonly StateRecord[], { keepsOld }: { readonly keepsOld: boolean }): Promise<void> {
    await this.#done(-records.length);
    if (keepsOld) this.aside = this.records;
    this.records = records;
  }

  async clear(): Promise<void> {
    this.records = [];
  }

  async close(): Promise<void> {
    this.isHeld = false;
  }

  async finish(): Promise<void> {
    await setImmediate();
    this.#pending?.();
    await setImmediate();
  }

  async #done(count: number): Promise<void> {
    assert.equal(this.#pending, undefined, "one write at a time (StateJournal.J1)");
    this.writes.push(count);
    const done = new Deferred<void>();
    this.#pending = done.resolve as () => void;
    await done.promise;
    this.#pending = undefined;
  }
}

test("what is decided in one turn is one write, and may be told when that is done (StateJournal.J2)", async () => {
  const store = new SlowStore();
  const journal = new StateJournal(store);
  await journal.open();
  const told: string[] = [];
  journal.told(() => told.push("nothing was written"));
  journal.write(START);
  journal.write({ kind: "incarnation", node: 8, incarnation: 1 });
  journal.told(() => told.push("first"));
  await setImmediate();
  journal.write({ kind: "incarnation", node: 10, incarnation: 1 });
  journal.told(() => told.push("second"));
  assert.deepEqual(told, ["nothing was written"]);
  await store.finish();
  assert.deepEqual(told, ["nothing was written", "first"]);
  await store.finish();
  assert.deepEqual(told, ["nothing was written", "first", "second"]);
  assert.deepEqual(store.writes, [-2, 1]);
  assert.equal(journal.whenDurable(), undefined);
});

test("answers and failures wait for what was written before them, and without a store for nothing", async () => {
  const store = new SlowStore();
  const journal = new StateJournal(store);
  journal.write(START);
  const settled: string[] = [];
  const note = (answer: unknown): void => void settled.push(String(answer));
  Promise.resolve(journal.answer(1)).then(note, note);
  Promise.resolve(journal.answer(Promise.resolve(2))).then(note, note);
  Promise.resolve(journal.answer(Promise.reject(new Error("three")))).then(note, note);
  await setImmediate();
  assert.equal(settled.length, 0);
  await store.finish();
  assert.deepEqual(new Set(settled), new Set(["1", "2", "Error: three"]));
  const plain = new StateJournal();
  plain.write(START);
  assert.equal(plain.answer(4), 4);
});

test("a scheduler that has lost its store tells nothing more", async () => {
  const store = new SlowStore();
  const journal = new StateJournal(store);
  const lost: string[] = [];
  journal.onLost(({ code }) => lost.push(code));
  journal.told(() => lost.push("told before"));
  store.onLost(new WeighbridgeError("FENCED", "another one leads"));
  journal.told(() => lost.push("told after"));
  journal.write(START);
  await setImmediate();
  assert.deepEqual([lost, store.writes], [["told before", "FENCED"], []]);
});

test("a scheduler whose lease is over by the clock tells nothing, before anybody has said so", async () => {
  const store = new SlowStore();
  const journal = new StateJournal(store);
  store.isHeld = false;
  let isTold = false;
  journal.told(() => {
    isTold = true;
  });
  await setImmediate();
  assert.equal(isTold, false);
});

test("what is stored gives the state, and is bounded by it (StateJournal.J3, SchedulerState.S4)", async () => {
  const store = new SlowStore();
  const journal = new StateJournal(store);
  journal.write(START, { kind: "placement", placement: { epoch: 2, policy: "range", servers: [0, 1], moved: [3, 1] } });
  await store.finish();
  for (let turn = 1; turn <= 3000; turn++) {
    const name = `p${turn % 7}`;
    journal.write({ kind: "parameter", name, number: 1 + (turn % 7), edition: turn, ...(turn % 3 === 0 ? {} : { spec: "{}" }) });
    if (turn % 50 === 0) journal.write({ kind: "incarnation", node: 8 + (turn % 4), incarnation: turn }, { kind: "dropped", name: "p3" });
    await store.finish();
    assert.ok(store.records.length < 1100, `${store.records.length} records`);
  }
  const stored = JSON.parse(JSON.stringify(store.records)) as StateRecord[];
  assert.deepEqual(stored.reduce(applyRecord, emptyState()), journal.state);
  const next = new StateJournal(store);
  assert.equal(await next.open(), true);
  assert.deepEqual(next.state, journal.state);
});

test("a job that begins anew keeps the term and nothing else, and what was there lies beside", async () => {
  const store = new SlowStore();
  const journal = new StateJournal(store);
  journal.write(START, { kind: "incarnation", node: 8, incarnation: 3 }, { kind: "highest", number: 9 });
  await store.finish();
  journal.setAside("mnist/2");
  await store.finish();
  const { job, term, incarnations, catalogue, serverCount } = journal.state;
  assert.deepEqual([job, term, incarnations.size, catalogue.highest, serverCount], ["mnist/2", 4, 0, 0, 2]);
  assert.deepEqual(store.records.reduce(applyRecord, emptyState()), journal.state);
  assert.equal(store.aside.reduce(applyRecord, emptyState()).job, "mnist/1");
});

test("a job that has ended is cleared; one that goes on without its scheduler is not", async () => {
  for (const isOver of [true, false]) {
    const store = new SlowStore();
    const journal = new StateJournal(store);
    journal.write(START);
    await store.finish();
    await journal.close({ isOver });
    assert.deepEqual([store.records.length, store.isHeld], [isOver ? 0 : 1, false]);
  }
});
