// event-waits — with stand-ins for events of a card.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { EventWaits } from "./event-waits.ts";

/** Done when it was asked so many times. */
function eventAfter(turns: number): { readonly isDone: boolean; asked: number } {
  return {
    asked: 0,
    get isDone(): boolean {
      return this.asked++ >= turns;
    },
  };
}

test("waits end in the order in which events are done, and an event that is done is not waited for", async () => {
  const waits = new EventWaits();
  const order: number[] = [];
  const note = (number: number) => (): void => void order.push(number);
  await Promise.all([
    waits.whenDone(eventAfter(5)).then(note(5)),
    waits.whenDone(eventAfter(2)).then(note(2)),
    waits.whenDone(eventAfter(0)).then(note(0)),
  ]);
  assert.deepEqual(order, [0, 2, 5]);
});

test("an event is asked for until it is done, however long that takes, and not afterwards (EventWaits.W1)", async () => {
  const waits = new EventWaits();
  const event = eventAfter(2_003); // beyond the turns after which the loop slows down
  await waits.whenDone(event);
  const { asked } = event;
  await waits.whenDone(eventAfter(3));
  assert.equal(event.asked, asked);
});

test("a wait ends by the failure of the card, by its signal, by its timeout and by close, and others go on (EventWaits.W2)", async () => {
  const waits = new EventWaits();
  const failing = {
    get isDone(): boolean {
      throw new WeighbridgeError("DEVICE_FAILED", "the card is lost");
    },
  };
  await assert.rejects(waits.whenDone(failing), throwsCode("DEVICE_FAILED", /lost/));
  const controller = new AbortController();
  const endless = waits.whenDone(eventAfter(Infinity), { signal: controller.signal });
  const other = waits.whenDone(eventAfter(10));
  controller.abort(new Error("enough"));
  await assert.rejects(endless, throwsCode("ABORTED", /enough/));
  await other;
  await assert.rejects(waits.whenDone(eventAfter(Infinity), { timeoutMs: 0 }), throwsCode("DEADLINE", /waited 0 ms for the card/));
  await waits.whenDone(eventAfter(0), { timeoutMs: 0 });
  const last = waits.whenDone(eventAfter(Infinity));
  waits.close();
  await assert.rejects(last, throwsCode("CLOSED"));
  await assert.rejects(waits.whenDone(eventAfter(0)), throwsCode("CLOSED"));
});
