// Goal: a round is handed out once, complete, in the order of the workers; what cannot be in it is refused or given
// back, never lost in silence.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { ParkingLot } from "./parking-lot.ts";
import { PushCounts } from "./push-counts.ts";
import { StalenessController } from "./staleness-controller.ts";
import { type CompleteRound, type RoundKey, type SyncUpdate, UpdateRounds } from "./update-rounds.ts";

const stamp = ({ worker = 9, incarnation = 1, parameter = 0, clock = 0 } = {}): RoundKey => ({ worker, incarnation, parameter, clock });
type Named = SyncUpdate<Named> & { readonly name: string };
const named = (name: string): Named => ({ name, applyRound: () => {}, free: () => {} });
const nameOf = ({ name }: Named): string => name;

function rounds({ contributionsMax = 100, bytesMax = 1000 } = {}): UpdateRounds<Named> {
  const lot = new ParkingLot({ clock: new SimClock(), readsMax: 0, bytesMax: 0, describeSlowest: () => "" });
  const pushes = new PushCounts({ pushed: () => undefined, roundOver: () => {} });
  return new UpdateRounds({ contributionsMax, bytesMax, clocks: new StalenessController(), lot, pushes });
}

/** "clock/parameter: handles" of each. */
const texts = (complete: readonly CompleteRound<Named>[]): string[] =>
  complete.map(
    ({ clock, parameter, contributions }) => `${clock}/${parameter}: ${contributions.map(({ handle }) => handle.name).join(" ")}`,
  );

test("a round is handed out when the minimum has passed its clock, once (UpdateRounds.U1)", () => {
  const gathered = rounds();
  gathered.put(stamp({ clock: 3 }), named("a"), 8);
  assert.deepEqual(texts(gathered.complete(3)), []);
  assert.deepEqual(texts(gathered.complete(4)), ["3/0: a"]);
  assert.deepEqual(texts(gathered.complete(5)), []);
  assert.deepEqual([gathered.contributionCount, gathered.openBytes], [0, 0]);
});

test("contributions are in the order of workers and lives, rounds in that of clocks and parameters, however they came (UpdateRounds.U2)", () => {
  const random = new Random(1);
  const all = [9, 11, 13, 29].flatMap((worker) =>
    [1, 2].flatMap((incarnation) => [0, 7].flatMap((parameter) => [2, 3].map((clock) => stamp({ worker, incarnation, parameter, clock })))),
  );
  const inOrder = "9.1 9.2 11.1 11.2 13.1 13.2 29.1 29.2";
  for (let run = 0; run < 50; run++) {
    const gathered = rounds();
    for (const left = [...all]; left.length > 0; ) {
      const [next] = left.splice(random.below(left.length), 1) as [RoundKey];
      gathered.put(next, named(`${next.worker}.${next.incarnation}`), 1);
    }
    assert.deepEqual(texts(gathered.complete(9)), [`2/0: ${inOrder}`, `2/7: ${inOrder}`, `3/0: ${inOrder}`, `3/7: ${inOrder}`]);
  }
});

test("what one incarnation pushes at one clock is one contribution, found again to be added to (UpdateRounds.U3)", () => {
  const gathered = rounds();
  assert.equal(gathered.find(stamp()), undefined);
  gathered.put(stamp(), named("sum"), 8);
  assert.equal(gathered.find(stamp())?.name, "sum");
  for (const other of [{ worker: 11 }, { incarnation: 2 }, { parameter: 1 }, { clock: 1 }]) {
    assert.equal(gathered.find(stamp(other)), undefined, JSON.stringify(other));
  }
  assert.throws(() => gathered.put(stamp(), named("another"), 8), /one incarnation has one contribution/);
});

test("an incarnation that died keeps what it had finished, and gets the rest back (UpdateRounds.U4)", () => {
  const gathered = rounds();
  for (const clock of [4, 5, 6]) gathered.put(stamp({ clock }), named(`old ${clock}`), 8);
  gathered.put(stamp({ clock: 5, incarnation: 2 }), named("new 5"), 8);
  gathered.put(stamp({ clock: 5, worker: 11 }), named("other 5"), 8);
  assert.deepEqual(gathered.drop(stamp(), 5).map(nameOf).sort(), ["old 5", "old 6"]);
  assert.deepEqual([gathered.contributionCount, gathered.openBytes], [3, 24]);
  assert.deepEqual(texts(gathered.complete(7)), ["4/0: old 4", "5/0: new 5 other 5"]);
});

test("nothing joins a round that was handed out, nor one that had nothing in it (UpdateRounds.U5)", () => {
  const gathered = rounds();
  gathered.complete(4);
  const isStale = (error: unknown): boolean =>
    isWeighbridgeError(error, "STALE_UPDATE") && error.retryable && /clock 3/.test(error.message);
  assert.throws(() => gathered.find(stamp({ clock: 3 })), isStale);
  assert.throws(() => gathered.checkRoom(stamp({ clock: 3 }), 1), isStale);
  assert.throws(() => gathered.put(stamp({ clock: 3 }), named("late"), 1), isStale);
  gathered.put(stamp({ clock: 4 }), named("in time"), 1);
});

test("is bounded, but the oldest open round always has room: somebody must be able to finish it (UpdateRounds.U6)", () => {
  const gathered = rounds({ contributionsMax: 2, bytesMax: 100 });
  const isFull = (error: unknown): boolean => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable;
  gathered.put(stamp({ clock: 1 }), named("a"), 60);
  assert.throws(() => gathered.checkRoom(stamp({ clock: 1, worker: 11 }), 41), isFull);
  gathered.put(stamp({ clock: 1, worker: 11 }), named("b"), 40);
  assert.throws(() => gathered.put(stamp({ clock: 2 }), named("c"), 0), isFull);
  gathered.put(stamp({ clock: 0 }), named("slow"), 500);
  assert.equal(gathered.find(stamp({ clock: 1 }))?.name, "a", "what is there can still be added to");
  assert.deepEqual(texts(gathered.complete(2)), ["0/0: slow", "1/0: a b"]);
  gathered.put(stamp({ clock: 2 }), named("c"), 70);
});

test("what a contribution grows by counts too, and the oldest round grows without a bound (UpdateRounds.U6)", () => {
  const gathered = rounds({ contributionsMax: 10, bytesMax: 100 });
  gathered.put(stamp({ clock: 1 }), named("a"), 60);
  gathered.grow(stamp({ clock: 1 }), 40);
  assert.throws(() => gathered.grow(stamp({ clock: 1 }), 1), { code: "QUEUE_FULL", retryable: true });
  gathered.put(stamp({ clock: 0 }), named("slow"), 1);
  gathered.grow(stamp({ clock: 0 }), 500);
  assert.equal(gathered.openBytes, 601);
  gathered.complete(2);
  assert.equal(gathered.openBytes, 0);
});

test("a parameter that is no more gives everything back", () => {
  const gathered = rounds();
  gathered.put(stamp({ parameter: 1, clock: 0 }), named("a"), 8);
  gathered.put(stamp({ parameter: 1, clock: 2 }), named("b"), 8);
  gathered.put(stamp({ parameter: 2 }), named("c"), 8);
  assert.deepEqual(gathered.dropParameter(1).map(nameOf).sort(), ["a", "b"]);
  assert.deepEqual(texts(gathered.complete(5)), ["0/2: c"]);
});
