// Goal: numbers are given once per incarnation, what is settled is forgotten from the front, and calls leave again in
// their order.

import assert from "node:assert/strict";
import { test } from "node:test";
import { simpleRequest } from "../contracts/kv.ts";
import type { Call } from "./call.ts";
import { PendingCalls } from "./frame-writer.ts";
import { functionCalls } from "./function-call.ts";

function call(): Call {
  const nothing = { fn: simpleRequest, request: { body: new Uint8Array(0) }, number: 0, priority: 0, scope: 0 };
  return functionCalls({ ...nothing, answered: () => {}, failed: () => {} })[0] as Call;
}

function added(count: number) {
  const pending = new PendingCalls();
  const calls = Array.from({ length: count }, call);
  for (const one of calls) pending.add(one);
  return { pending, calls };
}

test("calls are numbered as they leave, and found by their numbers until they are settled", () => {
  const { pending, calls } = added(3);
  assert.deepEqual(
    calls.map(({ request }) => request),
    [1, 2, 3],
  );
  assert.equal(pending.at(2), calls[1]);
  for (const request of [0, 4, -1, 99]) assert.equal(pending.at(request), undefined);
  pending.settle(2);
  assert.equal(pending.at(2), undefined);
  assert.deepEqual([pending.first, pending.next, pending.length, pending.openCount], [1, 4, 3, 2]);
  pending.settle(1);
  assert.deepEqual([pending.first, pending.length, pending.at(1), pending.at(3)], [3, 1, undefined, calls[2]]);
});

test("calls are found at their numbers while more are open than ever before, and while numbers go round (PendingCalls.C2)", () => {
  const pending = new PendingCalls();
  const open = new Map<number, Call>();
  let draw = 1;
  for (let step = 0; step < 5000; step++) {
    draw = (draw * 1103515245 + 12345) & 0x7fffffff;
    const grows = step % 1000 < 300;
    if (open.size === 0 || draw % 10 < (grows ? 7 : 4)) {
      const added = call();
      pending.add(added);
      open.set(added.request, added);
    } else {
      const settled = [...open.keys()][draw % open.size] as number;
      pending.settle(settled);
      open.delete(settled);
    }
    assert.equal(pending.first, Math.min(pending.next, ...open.keys()));
    assert.equal(pending.openCount, open.size);
    for (let request = pending.first - 1; request <= pending.next; request++) assert.equal(pending.at(request), open.get(request));
  }
});

test("calls leave again from the one named, in order, without those that are settled (PendingCalls.C3)", () => {
  const { pending, calls } = added(5);
  assert.equal(pending.isResending, false);
  assert.equal(pending.nextResend(), undefined);
  pending.settle(4);
  pending.resendFrom(3);
  assert.equal(pending.isResending, true);
  assert.deepEqual([pending.nextResend(), pending.nextResend(), pending.nextResend()], [calls[2], calls[4], undefined]);
  pending.resendFrom(0);
  pending.settle(1);
  assert.deepEqual([pending.nextResend(), pending.nextResend()], [calls[1], calls[2]], "what was settled meanwhile does not leave again");
});

test("numbers of calls that were given up are not used again in this incarnation, and begin anew in the next (PendingCalls.C1)", () => {
  const { pending, calls } = added(3);
  pending.settle(2);
  assert.deepEqual(pending.giveUp(), [calls[0], calls[2]]);
  assert.deepEqual(
    calls.map(({ request }) => request),
    [1, 2, 3],
    "whoever has them can still tell them apart",
  );
  const next = call();
  pending.add(next);
  assert.deepEqual([next.request, pending.first], [4, 4]);
  pending.giveUp();
  pending.restart();
  pending.add(next);
  assert.deepEqual([next.request, pending.first, pending.canResumeAt(1), pending.canResumeAt(3)], [1, 1, true, false]);
});

test("a node can go on at any number from the oldest open call to the next one; what was given up it may have seen or not", () => {
  const { pending } = added(5);
  pending.settle(1);
  pending.settle(2);
  const resumable = (): number[] => [0, 1, 2, 3, 4, 5, 6, 7, 8].filter((expects) => pending.canResumeAt(expects));
  assert.deepEqual(resumable(), [3, 4, 5, 6]);
  pending.giveUp();
  pending.add(call());
  assert.deepEqual(resumable(), [3, 4, 5, 6, 7]);
  pending.settle(6);
  assert.deepEqual(resumable(), [7], "it has answered a later one");
});

test("a call is overdue after the timeout, later each time it left", () => {
  const { pending, calls } = added(2);
  for (const one of calls) one.sendCount = 1;
  assert.equal(pending.overdue(99, 100), 0);
  assert.equal(pending.overdue(100, 100), 1);
  (calls[0] as Call).sendCount = 3;
  assert.equal(pending.overdue(100, 100), 2);
  assert.equal(pending.overdue(300, 100), 1);
});
