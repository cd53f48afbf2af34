// Goal: what waits goes exactly when it may, in order, once; and what may not wait any longer is told why.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { type ParkedReadId, ParkingLot } from "./parking-lot.ts";

/** A lot that writes down who was let go ("a") and who failed ("a:CODE"). */
function openLot({ readsMax = 100, bytesMax = 1000 } = {}) {
  const clock = new SimClock();
  const lot = new ParkingLot({ clock, readsMax, bytesMax, describeSlowest: () => "worker 7 at clock 1" });
  const events: string[] = [];
  const messages: string[] = [];
  const park = (
    name: string,
    { at = 5, staleness = 0, worker = 9, parameter = 0, bytes = 1, timeoutMs = 1000, afterwards = (): void => {} } = {},
  ): ParkedReadId =>
    lot.park({
      worker,
      parameter,
      clock: at,
      staleness,
      bytes,
      timeoutMs,
      read: {
        admitted: () => {
          events.push(name);
          afterwards();
        },
        failed: ({ code, message }) => {
          events.push(`${name}:${code}`);
          messages.push(message);
        },
      },
    });
  /** What happened since this was asked last. */
  const news = (): string[] => events.splice(0);
  return { clock, lot, park, news, messages };
}

test("lets go exactly those whose minimum has come (ParkingLot.P1)", () => {
  const { lot, park, news } = openLot();
  park("needs 5");
  park("needs 3", { staleness: 2 });
  park("needs 4", { staleness: 1 });
  lot.release(2);
  assert.deepEqual(news(), []);
  lot.release(4);
  assert.deepEqual(news(), ["needs 3", "needs 4"]);
  lot.release(4);
  assert.deepEqual([lot.readCount, lot.parkedBytes], [1, 1]);
  lot.release(9);
  assert.deepEqual(news(), ["needs 5"]);
});

test("is first in, first out among equals, whatever their bounds and parameters (ParkingLot.P2)", () => {
  const { lot, park, news } = openLot();
  park("first", { at: 5, staleness: 0, parameter: 1 });
  park("second", { at: 7, staleness: 2, parameter: 2 });
  park("third", { at: 5, staleness: 0, parameter: 1 });
  lot.release(5);
  assert.deepEqual(news(), ["first", "second", "third"]);
});

test("a raised bound lets go at once, a lowered one keeps longer, and only those of its parameter", () => {
  const { lot, park, news } = openLot();
  park("other", { parameter: 2 });
  park("a", { parameter: 1 });
  park("ahead", { parameter: 1, at: 9 });
  lot.changeStaleness({ parameter: 1, staleness: 3, clockMin: 2 });
  assert.deepEqual(news(), ["a"]);
  park("b", { parameter: 1, at: 6, staleness: 3 });
  lot.changeStaleness({ parameter: 1, staleness: 1, clockMin: 2 });
  lot.release(4);
  assert.deepEqual(news(), [], "b needs 5 now");
  lot.release(5);
  assert.deepEqual(news(), ["other", "b"], "in the order they came");
  lot.changeStaleness({ parameter: 1, staleness: Infinity, clockMin: 5 });
  assert.deepEqual(news(), ["ahead"]);
});

test("a deadline ends the wait with DEADLINE, naming who is behind, and leaves the others", async () => {
  const { clock, lot, park, news, messages } = openLot();
  park("patient", { timeoutMs: 500 });
  park("hasty", { timeoutMs: 100, worker: 11 });
  await clock.advance(99);
  assert.deepEqual(news(), []);
  await clock.advance(1);
  assert.deepEqual(news(), ["hasty:DEADLINE"]);
  assert.match(messages[0] as string, /worker 1 waited 100 ms at clock 5 for the slowest to reach clock 5: worker 7 at clock 1/);
  lot.release(5);
  assert.deepEqual(news(), ["patient"]);
  assert.equal(clock.pendingCount, 0, "no timer is left");
});

test("a read ends once (ParkingLot.P3): given up, it hears nothing; ended, giving it up does nothing", async () => {
  const { clock, lot, park, news } = openLot();
  const given = park("given up");
  const ended = park("ended");
  lot.cancel(given);
  lot.cancel(given);
  lot.release(5);
  lot.cancel(ended);
  await clock.run();
  assert.deepEqual(news(), ["ended"]);
  assert.deepEqual([lot.readCount, lot.parkedBytes, clock.pendingCount], [0, 0, 0]);
});

test("fails what a worker waits for, or what a parameter is waited for, or everything", () => {
  const { lot, park, news } = openLot();
  park("a", { worker: 9, at: 8 });
  park("b", { worker: 11, parameter: 1 });
  park("c", { worker: 9, at: 6 });
  park("d", { worker: 13 });
  lot.failWorker(9, new WeighbridgeError("NODE_DEAD", "gone"));
  assert.deepEqual(news(), ["a:NODE_DEAD", "c:NODE_DEAD"]);
  lot.failParameter(1, new WeighbridgeError("NO_ROUTE", "no such parameter"));
  assert.deepEqual(news(), ["b:NO_ROUTE"]);
  lot.failEverybody(new WeighbridgeError("CLOSED", "over"));
  assert.deepEqual(news(), ["d:CLOSED"]);
  assert.deepEqual([lot.readCount, lot.parkedBytes], [0, 0]);
});

test("is bounded in reads and in bytes: one too many is QUEUE_FULL, and may try again (ParkingLot.P4)", () => {
  const { lot, park, news } = openLot({ readsMax: 2, bytesMax: 10 });
  const isFull = (error: unknown): boolean => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable;
  park("a", { bytes: 6 });
  assert.throws(() => park("too big", { bytes: 5 }), isFull);
  park("b", { bytes: 4 });
  assert.throws(() => park("too many", { bytes: 0 }), isFull);
  lot.release(5);
  park("again", { bytes: 10 });
  assert.deepEqual(news(), ["a", "b"]);
});

test("a deadline that is no time is refused", () => {
  const { park, lot } = openLot();
  for (const timeoutMs of [Number.NaN, -1]) {
    assert.throws(
      () => park("a", { timeoutMs }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
  }
  assert.equal(lot.readCount, 0);
});

test("who is let go may park, give up others and move bounds at once", () => {
  const { lot, park, news } = openLot();
  const victims: ParkedReadId[] = [];
  const act = (): void => {
    for (const victim of victims) lot.cancel(victim);
    park("next", { at: 9 });
    lot.changeStaleness({ parameter: 0, staleness: 3, clockMin: 5 });
  };
  park("actor", { afterwards: act });
  victims.push(park("victim"));
  park("bystander", { at: 8 });
  lot.release(5);
  assert.deepEqual(news(), ["actor", "bystander"]);
  assert.equal(lot.readCount, 1);
});

test("agrees with a plain list for any history", () => {
  const random = new Random(4);
  const { lot, park, news } = openLot({ readsMax: 1e6, bytesMax: 1e9 });
  let model: { name: string; at: number; staleness: number; parameter: number; parked: ParkedReadId }[] = [];
  let clockMin = 0;
  const expectGone = (): void => {
    const need = (entry: { at: number; staleness: number }): number => entry.at - entry.staleness;
    const gone = model.filter((entry) => need(entry) <= clockMin).sort((a, b) => need(a) - need(b)); // A stable sort.
    model = model.filter((entry) => !gone.includes(entry));
    assert.deepEqual(
      news(),
      gone.map(({ name }) => name),
    );
    assert.equal(lot.readCount, model.length);
  };
  for (let step = 0; step < 5000; step++) {
    const dice = random.below(10);
    if (dice < 6) {
      const entry = { name: `${step}`, at: clockMin + 1 + random.below(6), staleness: 0, parameter: random.below(3) };
      model.push({ ...entry, parked: park(entry.name, entry) });
    } else if (dice < 7 && model.length > 0) {
      const [given] = model.splice(random.below(model.length), 1);
      lot.cancel((given as { parked: ParkedReadId }).parked);
    } else if (dice < 9) {
      clockMin += random.below(2);
      lot.release(clockMin);
    } else {
      const change = { parameter: random.below(3), staleness: random.below(5) };
      for (const entry of model) if (entry.parameter === change.parameter) entry.staleness = change.staleness;
      lot.changeStaleness({ ...change, clockMin });
    }
    expectGone();
  }
});

test("a wait of 5 s is told once for the minimum that a worker needs, and no timer is left when the last read ends (ParkingLot.P5)", async () => {
  const { clock, lot, park } = openLot();
  const told: [number, string][] = [];
  lot.onLongWait = (worker, waits) => void told.push([worker, waits]);
  const long = { timeoutMs: Infinity };
  park("a", long);
  park("deeper", { ...long, at: 6 });
  await clock.advance(3000);
  park("other worker", { ...long, worker: 8 });
  await clock.advance(1999);
  assert.deepEqual(told, []);
  await clock.advance(1);
  const waits = (at: number): string => `at clock ${at} for the slowest to reach clock ${at}: worker 7 at clock 1`;
  assert.deepEqual(told.splice(0), [[9, waits(6)]]);
  await clock.advance(60_000);
  assert.deepEqual(told.splice(0), [[8, waits(5)]]);
  lot.release(6);
  assert.equal(clock.pendingCount, 0);
});
