// consistency-phases — Goal: at every clock there is one consistency, no update that was taken is judged anew, and
// servers that hear of the same changes in any order end with the same one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { type ConsistencyMode, ConsistencyPhases, PHASES_MAX } from "./consistency-phases.ts";

const BSP: ConsistencyMode = { updates: "sync", reduce: "sum", staleness: 0 };
const MEAN: ConsistencyMode = { updates: "sync", reduce: "mean", staleness: 0 };
const SSP: ConsistencyMode = { updates: "async", reduce: "sum", staleness: 3 };
const ASP: ConsistencyMode = { updates: "async", reduce: "sum", staleness: Infinity };
const WORKER = 9;

const modeAt = (phases: ConsistencyPhases, clock: number): ConsistencyMode => {
  const { from: _from, ...mode } = phases.at(clock);
  return mode;
};

test("clocks before a change keep the old consistency, those from it on have the new one (ConsistencyPhases.M1)", () => {
  const phases = new ConsistencyPhases(BSP);
  assert.equal(phases.change({ mode: SSP, clock: 10, turn: 1, worker: WORKER }), 10);
  assert.equal(phases.change({ mode: MEAN, clock: 20, turn: 2, worker: WORKER }), 20);
  assert.deepEqual(
    [0, 9, 10, 19, 20, 1e9].map((clock) => modeAt(phases, clock)),
    [BSP, BSP, SSP, SSP, MEAN, MEAN],
  );
});

test("a change begins above every update that was taken (ConsistencyPhases.M2)", () => {
  const phases = new ConsistencyPhases(ASP);
  for (const clock of [3, 14, 7]) phases.take(clock);
  assert.equal(phases.clockTop, 14);
  assert.equal(phases.change({ mode: BSP, clock: 10, turn: 1, worker: WORKER }), 15);
  assert.deepEqual([modeAt(phases, 14), modeAt(phases, 15)], [ASP, BSP]);
  phases.take(15);
  assert.equal(phases.change({ mode: SSP, clock: 4, turn: 2, worker: WORKER }), 16);
});

test("a later change takes the place of one that is still to come, and the same one again changes nothing", () => {
  const phases = new ConsistencyPhases(ASP);
  phases.change({ mode: BSP, clock: 30, turn: 1, worker: WORKER });
  assert.equal(phases.change({ mode: SSP, clock: 10, turn: 2, worker: WORKER }), 10);
  assert.deepEqual(
    phases.history.phases.map(({ from }) => from),
    [0, 10],
  );
  assert.equal(phases.change({ mode: { ...SSP }, clock: 50, turn: 3, worker: WORKER }), 10, "it has it from 10 on");
  assert.equal(phases.change({ mode: { ...SSP }, clock: 8, turn: 4, worker: WORKER }), 8, "sooner is another change");
});

test("of two changes the one with the higher turn, and of equal turns that of the higher worker, is the last in every order (ConsistencyPhases.M5)", () => {
  const changes = [
    { mode: BSP, clock: 5, turn: 1, worker: 9 },
    { mode: SSP, clock: 6, turn: 2, worker: 11 },
    { mode: MEAN, clock: 7, turn: 2, worker: 9 },
  ];
  for (const order of [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ]) {
    const phases = new ConsistencyPhases(ASP);
    for (const i of order) phases.change(changes[i]!);
    assert.deepEqual([modeAt(phases, 100), phases.last.from], [SSP, 6], order.join());
  }
});

test("a bound of its own is set at every clock; the rest stays", () => {
  const phases = new ConsistencyPhases(BSP);
  phases.change({ mode: ASP, clock: 10, turn: 1, worker: WORKER });
  phases.setStaleness(4);
  assert.deepEqual(
    [modeAt(phases, 9), modeAt(phases, 10)],
    [
      { ...BSP, staleness: 4 },
      { ...ASP, staleness: 4 },
    ],
  );
});

test("what no clock can have any more is forgotten, and too many changes are refused until the slowest comes on (ConsistencyPhases.M6)", () => {
  const phases = new ConsistencyPhases(ASP);
  const change = (turn: number): number => phases.change({ mode: turn % 2 === 0 ? SSP : BSP, clock: turn * 10, turn, worker: WORKER });
  for (let turn = 1; turn < PHASES_MAX; turn++) change(turn);
  const before = phases.history;
  assert.throws(
    () => change(PHASES_MAX),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable,
  );
  assert.deepEqual(phases.history, before, "nothing changed");
  phases.forgetBefore(9);
  assert.equal(phases.history.phases.length, PHASES_MAX);
  phases.forgetBefore(25);
  assert.equal(phases.history.phases[0]?.from, 20);
  assert.equal(change(PHASES_MAX), PHASES_MAX * 10);
});

test("another goes on with the history of one, and with none that cannot be", () => {
  const one = new ConsistencyPhases(BSP);
  one.change({ mode: ASP, clock: 10, turn: 4, worker: WORKER });
  const other = new ConsistencyPhases(SSP);
  other.resume(one.history);
  assert.deepEqual(other.history, one.history);
  other.change({ mode: BSP, clock: 20, turn: 4, worker: WORKER });
  assert.equal(other.last.from, 10, "the turn came along");
  const [first, second] = one.history.phases;
  for (const phases of [[], [second!, first!], [first!, first!]]) {
    assert.throws(
      () => new ConsistencyPhases(ASP).resume({ phases, turn: 1, turnWorker: 0 }),
      (error) => isWeighbridgeError(error, "BAD_REQUEST"),
    );
  }
});

test("whatever is taken, changed and forgotten, an update keeps the consistency with which it was taken, for 300 seeds", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const modes = [BSP, MEAN, SSP, ASP];
    const phases = new ConsistencyPhases(modes[random.below(4)]!);
    const taken: { readonly clock: number; readonly mode: ConsistencyMode }[] = [];
    let clockMin = 0;
    for (let turn = 1; turn <= 60; turn++) {
      const clock = clockMin + random.below(12);
      if (random.chance(0.4)) phases.change({ mode: modes[random.below(4)]!, clock, turn, worker: WORKER });
      else if (random.chance(0.2)) {
        clockMin += random.below(4);
        phases.forgetBefore(clockMin);
      } else {
        phases.take(clock);
        taken.push({ clock, mode: modeAt(phases, clock) });
      }
      for (const { clock: at, mode } of taken) if (at >= clockMin) assert.deepEqual(modeAt(phases, at), mode, `seed ${seed}`);
    }
  }
});
