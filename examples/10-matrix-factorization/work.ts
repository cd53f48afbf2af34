// work — one of the threads: it has users of its own, with their ratings and factors; the factors of the items are in a
// table that all threads of all processes share.

import { parentPort, workerData } from "node:worker_threads";
import { attachTableThread, DenseUpdateBatch } from "weighbridge/tables";
import { Random } from "weighbridge/testing";
import { stragglerPause } from "../staleness/straggler.ts";
import { ITEMS, normal, RANK, ratingsOf, USERS } from "./ratings.ts";
import { CURVES, DOUBLES, doubles, FLOATS, floats, HISTORY, STALENESS } from "./tables.ts";

const RATE = 0.05;
const PENALTY = 0.02;
/** A thread goes through all of its ratings in so many clocks. */
const CLOCKS_PER_PASS = 6;

const { worker, workers, clocks } = workerData as { worker: number; workers: number; clocks: number };
const ratings = ratingsOf(worker, workers);
const thread = await attachTableThread({ [FLOATS]: floats, [DOUBLES]: doubles });
const history = thread.getTableOrDie(HISTORY, floats);
const curves = thread.getTableOrDie(CURVES, doubles);

for (const run of STALENESS.keys()) await evaluate(run, await train(run));
if (worker === 0) {
  const points: { objective: number; ms: number }[][] = [];
  for (const run of STALENESS.keys()) {
    points[run] = [];
    for (let clock = 0; clock <= clocks; clock++) {
      using row = await curves.get(rowOf(run, clock));
      const [objective = 0, ...ms] = row.toArray();
      points[run].push({ objective, ms: Math.max(...ms) }); // when the last one had ended the clock
    }
  }
  parentPort?.postMessage(points);
}
thread.deregisterThread();

/** Descends the gradient for some clocks. Returns this thread's users after each. */
async function train(run: number): Promise<Float32Array[]> {
  const table = thread.getTableOrDie(run, floats);
  const random = new Random(100 + worker);
  const users = Float32Array.from({ length: USERS * RANK }, () => 0.3 * normal(random));
  const added = new Float32Array(ITEMS * RANK); // what this thread has made of the items
  const items = new Float32Array(ITEMS * RANK); // as it sees them
  const change = new Float32Array(ITEMS * RANK);
  const addChange = (): void => {
    for (let item = 0; item < ITEMS; item++) {
      const updates = change.slice(item * RANK, (item + 1) * RANK);
      if (updates.some((update) => update !== 0)) table.denseBatchInc(item, new DenseUpdateBatch(0, updates));
    }
    for (let i = 0; i < change.length; i++) added[i]! += change[i]!;
    change.fill(0);
  };
  if (worker === 0) for (let i = 0; i < change.length; i++) change[i] = 0.3 * normal(random); // where the items begin
  addChange();
  thread.globalBarrier();
  await readItems();
  const startedAt = performance.now();
  const states = [users.slice()];
  record(0);
  for (let clock = 1; clock <= clocks; clock++) {
    await readItems(); // waits, if the slowest is further behind than the staleness allows
    const from = Math.floor(((clock - 1) % CLOCKS_PER_PASS) * (ratings.length / CLOCKS_PER_PASS));
    for (const { user, item, score } of ratings.slice(from, Math.floor(from + ratings.length / CLOCKS_PER_PASS))) {
      const [u, i] = [user * RANK, item * RANK];
      const error = score - dot(users, u, items, i);
      for (let k = 0; k < RANK; k++) {
        const step = RATE * (error * users[u + k]! - PENALTY * items[i + k]!);
        users[u + k]! += RATE * (error * items[i + k]! - PENALTY * users[u + k]!);
        items[i + k]! += step;
        change[i + k]! += step;
      }
    }
    await stragglerPause(worker, workers, clock);
    addChange();
    thread.clock(); // what was added leaves, one sum for each column
    states.push(users.slice());
    record(clock);
  }
  return states;

  /** All rows in one request: those that the cache has fresh enough do not travel. */
  async function readItems(): Promise<void> {
    const rows = await Promise.all(Array.from({ length: ITEMS }, (_, item) => table.get(item)));
    for (const row of rows) {
      row.toArray(items.subarray(row.rowId * RANK, (row.rowId + 1) * RANK));
      row.release();
    }
  }

  function record(clock: number): void {
    history.denseBatchInc(rowOf(run, clock), new DenseUpdateBatch(0, added.slice()));
    curves.inc(rowOf(run, clock), 1 + worker, performance.now() - startedAt);
  }
}

/** The objective after each clock, exactly: all ratings, and the factors with everything that was added by then. */
async function evaluate(run: number, states: readonly Float32Array[]): Promise<void> {
  thread.globalBarrier();
  for (const [clock, users] of states.entries()) {
    using row = await history.get(rowOf(run, clock));
    const items = row.toArray();
    let sum = 0;
    for (const { user, item, score } of ratings) {
      const [u, i] = [user * RANK, item * RANK];
      sum += (score - dot(users, u, items, i)) ** 2 + PENALTY * (dot(users, u, users, u) + dot(items, i, items, i));
    }
    curves.inc(rowOf(run, clock), 0, sum);
  }
  thread.globalBarrier();
}

function dot(a: Float32Array, i: number, b: Float32Array, j: number): number {
  let sum = 0;
  for (let k = 0; k < RANK; k++) sum += a[i + k]! * b[j + k]!;
  return sum;
}

function rowOf(run: number, clock: number): number {
  return run * (clocks + 1) + clock;
}
