// Goal: reads are admitted exactly when every worker has come far enough, and nothing that workers do moves the minimum
// back.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import { checkStaleness, StalenessController } from "./staleness-controller.ts";

const holderOf = (rank: number, incarnation = 1) => ({ worker: idOf("worker", rank), incarnation });

/** Workers 0, 1, 2 … at these clocks. */
function at(...clocks: number[]): StalenessController {
  const controller = new StalenessController({ expectedCount: clocks.length });
  for (const rank of clocks.keys()) controller.join(holderOf(rank));
  for (const [rank, clock] of clocks.entries()) controller.advance(holderOf(rank), clock);
  return controller;
}

test("staleness 0 admits a read when everybody has reached its clock (BSP)", () => {
  const controller = at(5, 4);
  assert.deepEqual([controller.admits(5, 0), controller.admits(4, 0)], [false, true]);
  controller.advance(holderOf(1), 5);
  assert.equal(controller.admits(5, 0), true);
});

test("staleness s admits a read exactly up to s clocks ahead of the slowest (StalenessController.W2)", () => {
  const controller = at(9, 4);
  for (let staleness = 0; staleness < 8; staleness++) assert.equal(controller.admits(9, staleness), staleness >= 5, `${staleness}`);
});

test("staleness Infinity admits everything (ASP)", () => {
  assert.equal(at(0, 0).admits(1e9, Infinity), true);
});

test("bounded delay τ: task t may start exactly when all tasks before t - τ are finished", () => {
  for (let tau = 0; tau < 4; tau++) {
    for (let task = 0; task < 8; task++) {
      for (let finished = 0; finished < 8; finished++) {
        const controller = at(task, finished); // The other worker has finished its tasks 0 to finished - 1.
        const allBefore = Array.from({ length: Math.max(0, task - tau) }, (_, t) => t).every((t) => t < finished && t < task);
        assert.equal(controller.admits(task, tau), allBefore, `τ ${tau}, task ${task}, finished ${finished}`);
      }
    }
  }
});

test("the slowest is admitted at any bound (StalenessController.W4)", () => {
  const controller = at(7, 3, 12);
  assert.equal(controller.admits(3, 0), true);
});

test("nobody who comes early runs away from those who are expected (StalenessController.W1)", () => {
  const controller = new StalenessController({ expectedCount: 2 });
  controller.join(holderOf(0));
  controller.advance(holderOf(0), 6);
  assert.deepEqual([controller.clockMin, controller.isFormed, controller.missingCount], [0, false, 1]);
  assert.equal(controller.join(holderOf(1)), 0);
  assert.deepEqual([controller.clockMin, controller.isFormed, controller.missingCount], [0, true, 0]);
  controller.advance(holderOf(1), 4);
  assert.equal(controller.clockMin, 4);
});

test("an expected worker that dies before it joined is not waited for", () => {
  const controller = new StalenessController({ expectedCount: 3 });
  controller.join(holderOf(0));
  controller.advance(holderOf(0), 6);
  assert.equal(controller.died(holderOf(1)), undefined);
  assert.equal(controller.isFormed, false);
  controller.leave(holderOf(2));
  assert.deepEqual([controller.isFormed, controller.clockMin], [true, 6]);
});

test("the set can be declared complete", () => {
  const controller = new StalenessController({ expectedCount: 3 });
  controller.join(holderOf(0));
  controller.advance(holderOf(0), 2);
  controller.form();
  assert.equal(controller.clockMin, 2);
});

test("a late worker joins at the minimum and holds it there (StalenessController.W5)", () => {
  const controller = at(7, 5);
  assert.equal(controller.join(holderOf(2)), 5);
  controller.advance(holderOf(1), 9);
  assert.equal(controller.clockMin, 5);
  controller.advance(holderOf(2), 8);
  assert.equal(controller.clockMin, 7);
  assert.equal(controller.join(holderOf(2)), 8, "who joins again is told its clock");
});

test("who leaves or dies is not waited for (StalenessController.W7)", () => {
  const controller = at(7, 3, 5);
  assert.equal(controller.died(holderOf(1)), 3);
  assert.equal(controller.clockMin, 5);
  assert.equal(controller.leave(holderOf(2)), 5);
  assert.equal(controller.clockMin, 7);
  assert.equal(controller.leave(holderOf(2)), undefined);
});

test("who leaves the set may join again, as often as it likes; who leaves the job may not (StalenessController.W7)", () => {
  const controller = at(7, 3);
  for (const clock of [3, 7, 7]) {
    assert.equal(controller.leave(holderOf(1)), clock);
    assert.throws(() => controller.checkUpdate(holderOf(1), 9), throwsCode("NOT_JOINED"));
    assert.equal(controller.join(holderOf(1)), 7);
  }
  assert.equal(controller.leaveJob(holderOf(1)), 7);
  assert.throws(() => controller.join(holderOf(1)), throwsCode("NODE_DEAD"));
});

test("who leaves the set and dies outside it does not join again, and neither does an incarnation that was replaced", () => {
  const controller = at(7, 3);
  controller.leave(holderOf(1));
  controller.died(holderOf(1));
  assert.throws(() => controller.join(holderOf(1)), throwsCode("NODE_DEAD"));
  controller.leave(holderOf(1));
  assert.throws(() => controller.join(holderOf(1)), throwsCode("NODE_DEAD"), "what it sent before its death changes nothing");
  controller.join(holderOf(1, 2));
  controller.leave(holderOf(1));
  assert.throws(() => controller.join(holderOf(1)), throwsCode("FENCED"));
});

test("without members the minimum is the highest clock anybody finished (StalenessController.W1)", () => {
  const controller = at(7, 3);
  controller.died(holderOf(0));
  assert.equal(controller.clockMin, 3, "worker 1 is still there");
  controller.died(holderOf(1));
  assert.equal(controller.clockMin, 7);
  assert.equal(controller.join(holderOf(1, 2)), 7);
  controller.leave(holderOf(1, 2));
  assert.equal(controller.clockMin, 8, "who leaves has finished its clock");
});

test("a worker that was restarted joins at the minimum, and news of its old incarnation changes nothing", () => {
  const controller = at(7, 3);
  assert.equal(controller.join(holderOf(1, 2)), 7, "its old incarnation has died first");
  assert.equal(controller.died(holderOf(1, 1)), undefined);
  assert.equal(controller.clockMin, 7);
  assert.throws(() => controller.advance(holderOf(1, 1), 9), throwsCode("FENCED"));
  assert.throws(() => controller.join(holderOf(1, 1)), throwsCode("FENCED"));
});

test("an incarnation that is over joins only after it was heard of again (WorkerIncarnations.L2)", () => {
  const controller = at(7, 3);
  controller.died(holderOf(1));
  assert.throws(() => controller.join(holderOf(1)), throwsCode("NODE_DEAD"));
  assert.throws(() => controller.advance(holderOf(1), 4), throwsCode("NODE_DEAD"));
  controller.revived(holderOf(1));
  assert.throws(() => controller.advance(holderOf(1), 4), throwsCode("NOT_JOINED"));
  assert.equal(controller.join(holderOf(1)), 7);
});

test("updates are taken from members only, at their clock or later (StalenessController.W6)", () => {
  const controller = at(7, 3);
  controller.checkUpdate(holderOf(1), 3);
  controller.checkUpdate(holderOf(1), 4);
  assert.throws(
    () => controller.checkUpdate(holderOf(1), 2),
    (error) => isWeighbridgeError(error, "STALE_UPDATE") && error.retryable && /worker 1.*clock 2.*stands at 3/.test(error.message),
  );
  assert.throws(() => controller.checkUpdate(holderOf(5), 7), throwsCode("NOT_JOINED"));
  assert.throws(() => controller.checkMember(holderOf(5)), throwsCode("NOT_JOINED"));
});

test("a clock that is no clock is refused, and one that is old says nothing", () => {
  const controller = at(7, 3);
  for (const clock of [-1, 0.5, Number.NaN, Infinity, 2 ** 53]) {
    assert.throws(() => controller.advance(holderOf(1), clock), throwsCode("BAD_REQUEST"), `${clock}`);
    assert.throws(() => controller.checkUpdate(holderOf(1), clock), throwsCode("BAD_REQUEST"), `${clock}`);
  }
  controller.advance(holderOf(1), 1);
  assert.equal(controller.memberAt(holderOf(1).worker)?.clock, 3);
});

test("a bound is a whole number of clocks or Infinity", () => {
  for (const staleness of [0, 1, 2 ** 40, Infinity]) checkStaleness(staleness);
  for (const staleness of [-1, 0.5, Number.NaN, -Infinity]) assert.throws(() => checkStaleness(staleness), throwsCode("BAD_ARGUMENT"));
});

test("who holds everybody up is named", () => {
  assert.equal(at(7, 3, 3).describeSlowest(), "worker 1, worker 2 at clock 3");
  assert.equal(at(0, 0, 0, 0, 0, 0).describeSlowest(), "worker 0, worker 1, worker 2, worker 3 and 2 more at clock 0");
  assert.equal(new StalenessController({ expectedCount: 2 }).describeSlowest(), "2 of 2 workers have not joined");
  assert.equal(new StalenessController().describeSlowest(), "nobody is there, and the clock stands at 0");
});

test("for any history the minimum is that of the members, and never falls (StalenessController.W1)", () => {
  const step = fc.record({
    what: fc.constantFrom("join", "advance", "advance", "advance", "leave", "leaveJob", "died", "withdraw", "revived"),
    rank: fc.integer({ min: 0, max: 3 }),
    incarnation: fc.integer({ min: 1, max: 3 }),
    ticks: fc.integer({ min: 0, max: 3 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const controller = new StalenessController();
      let before = 0;
      for (const { what, rank, incarnation, ticks } of steps) {
        const holder = holderOf(rank, incarnation);
        try {
          if (what === "advance") controller.advance(holder, (controller.memberAt(holder.worker)?.clock ?? 0) + ticks);
          else controller[what](holder);
        } catch (error) {
          assert.ok(isWeighbridgeError(error), String(error));
        }
        const clocks = [0, 1, 2, 3].flatMap((r) => controller.memberAt(holderOf(r).worker)?.clock ?? []);
        assert.ok(controller.clockMin >= before);
        before = controller.clockMin;
        if (clocks.length > 0) assert.equal(controller.clockMin, Math.min(...clocks));
        assert.equal(controller.memberCount, clocks.length);
      }
    }),
    { seed: 1, numRuns: 2000 },
  );
});
