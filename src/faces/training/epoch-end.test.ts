// Goal: workers leave an epoch together, whoever has heard that it is over when one of them dies, and nobody waits for one that has left it (E1, E2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import { leaveEpoch } from "./epoch-end.ts";

/** A meeting that is held from the n-th ask on, each of which takes a turn. */
function meetingFrom(heldFrom: number): { readonly isHeld: () => Promise<boolean>; readonly asks: () => number } {
  let asks = 0;
  const isHeld = async (): Promise<boolean> => {
    await new Promise(setImmediate);
    return ++asks >= heldFrom;
  };
  return { isHeld, asks: () => asks };
}

const never = async (): Promise<void> => await Promise.reject(new Error("nobody has to regroup"));
const untilAborted = async (signal: AbortSignal): Promise<void> =>
  await new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new WeighbridgeError("ABORTED", "the wait was aborted")));
  });

test("a meeting that is held ends the epoch, also where the circle is broken by then", async () => {
  assert.equal(await leaveEpoch({ meeting: meetingFrom(3), isBroken: () => false, regroup: never }), true);
  assert.equal(await leaveEpoch({ meeting: meetingFrom(1), isBroken: () => true, regroup: never }), true);
});

test("those in the meeting regroup with the one that lost the word, and agree once more (E1)", async () => {
  const meeting = meetingFrom(Infinity);
  let isRegrouped = false;
  const regroup = async (): Promise<void> => {
    await new Promise(setImmediate);
    isRegrouped = true;
  };
  assert.equal(await leaveEpoch({ meeting, isBroken: () => meeting.asks() > 1, regroup }), false);
  assert.ok(isRegrouped);
});

test("nobody waits in a regrouping for those who have left, because the meeting was held (E2)", async () => {
  const meeting = meetingFrom(5);
  assert.equal(await leaveEpoch({ meeting, isBroken: () => true, regroup: untilAborted }), true);
});

test("who regroups with one that is in the next epoch leaves this one (E2)", async () => {
  let isRegrouped = false;
  const isHeld = async (): Promise<boolean> => {
    const wasRegrouped = isRegrouped;
    await new Promise(setImmediate);
    return wasRegrouped; // an ask that began before knows nothing of it
  };
  const regroup = async (): Promise<void> => {
    await new Promise(setImmediate);
    isRegrouped = true;
  };
  assert.equal(await leaveEpoch({ meeting: { isHeld }, isBroken: () => true, regroup }), true);
});

test("a regrouping that fails by itself ends the training", async () => {
  const regroup = async (): Promise<void> => await Promise.reject(new WeighbridgeError("FENCED", "this worker was taken for dead"));
  await assert.rejects(leaveEpoch({ meeting: meetingFrom(Infinity), isBroken: () => true, regroup }), { code: "FENCED" });
});
