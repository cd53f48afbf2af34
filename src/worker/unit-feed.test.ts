// Goal: a worker has its next unit at hand before it needs it, tells what it has done in time, and never waits for
// ever.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { RunSet } from "../base/run-set.ts";
import { SimClock } from "../testing/sim-clock.ts";
import type { UnitsReply, UnitsRequest } from "../wire/units.ts";
import type { Assignment } from "../wire/units-claim.ts";
import { type LentUnit, UnitFeed } from "./unit-feed.ts";

const NOTHING: UnitsReply = { isOver: false, units: [], lost: [], repeatedCount: 0, inherited: undefined };

/** A feed whose asks the test answers. */
class Stage {
  readonly clock = new SimClock();
  readonly asked: UnitsRequest[] = [];
  readonly #replies: Deferred<UnitsReply>[] = [];
  endedCount = 0;
  #answeredCount = 0;
  readonly feed: UnitFeed;

  constructor(assignment: Assignment = "free") {
    this.feed = new UnitFeed({
      description: { name: "train", epoch: 0, batchCount: 50, partCount: 2, assignment },
      ...(assignment === "rounds" ? { firstClock: 0, partsMax: 2 } : {}),
      clock: this.clock,
      idleMs: 20,
      before: undefined,
      request: (request) => {
        this.asked.push(request);
        const reply = new Deferred<UnitsReply>();
        this.#replies.push(reply);
        return reply.promise;
      },
      ended: () => {
        this.endedCount++;
      },
    });
  }

  get last(): UnitsRequest {
    return this.asked.at(-1) as UnitsRequest;
  }

  /** Whether no request is open. */
  get isAnswered(): boolean {
    return this.#answeredCount === this.asked.length;
  }

  /** Answers the request that is open. */
  async answer(reply: Partial<UnitsReply> | Error): Promise<void> {
    const open = this.#replies.at(-1);
    assert.ok(open !== undefined);
    this.#answeredCount = this.asked.length;
    if (reply instanceof Error) open.reject(reply);
    else open.resolve({ ...NOTHING, ...reply });
    await this.clock.advance(0);
  }

  /** An open feed with these units in stock. */
  async stock(from: number, to: number): Promise<void> {
    const opened = this.feed.open({});
    await this.answer({ units: [from, to] });
    await opened;
  }

  async nextUnit(): Promise<LentUnit> {
    const unit = await this.feed.next();
    assert.ok(typeof unit === "object", JSON.stringify(unit));
    return unit;
  }
}

test("units come in their order, with batch and part, and more are asked for before the last is begun", async () => {
  const stage = new Stage();
  await stage.stock(4, 7);
  assert.deepEqual(await stage.nextUnit(), { unit: 4, batch: 2, part: 0 });
  assert.equal(stage.asked.length, 1, "two are left, as many as it keeps at first");
  assert.deepEqual(await stage.nextUnit(), { unit: 5, batch: 2, part: 1 });
  assert.deepEqual([stage.last.held, stage.last.waitMs], [[4, 7], 0]);
  await stage.answer({ units: [20, 21, 10, 12] });
  assert.deepEqual([(await stage.nextUnit()).unit, (await stage.nextUnit()).unit], [6, 10]);
});

test("what is done is told with the next request, or a little later, and again if that failed", async () => {
  const stage = new Stage();
  await stage.stock(0, 4);
  for (let i = 0; i < 3; i++) stage.feed.done((await stage.nextUnit()).unit);
  assert.equal(stage.asked.length, 2, "asked ahead once");
  assert.deepEqual(
    [stage.last.done, stage.last.held],
    [
      [0, 1],
      [1, 4],
    ],
  );
  await stage.answer(new WeighbridgeError("SCHEDULER_UNREACHABLE", "away", { retryable: true }));
  await stage.clock.advance(49);
  const before = stage.asked.length;
  await stage.clock.advance(1);
  assert.equal(stage.asked.length, before + 1);
  assert.deepEqual(
    [stage.last.done, stage.last.held],
    [
      [0, 3],
      [3, 4],
    ],
  );
  await stage.answer({});
  await stage.clock.advance(1000);
  assert.equal(stage.asked.length, before + 1, "nothing more to tell");
});

test("a fast worker comes to request many, a slow one for one at a time", async () => {
  for (const [stepMs, lease] of [
    [5, 20],
    [0, 64],
    [500, 1],
  ] as const) {
    const stage = new Stage();
    await stage.stock(0, 2);
    const leases: number[] = [2];
    for (let from = 2; leases.length < 10; ) {
      const { unit } = await stage.nextUnit();
      await stage.clock.advance(stepMs);
      stage.feed.done(unit);
      if (stage.isAnswered) continue;
      const { want, held } = stage.last;
      leases.push(want + RunSet.of(held).size - 1); // without the one that was just begun
      await stage.answer(want === 0 ? {} : { units: [from, from + want] });
      from += want;
    }
    assert.ok(
      leases.every((size, i) => size <= 2 ** (i + 1)),
      `it learns step by step: ${leases.join()}`,
    );
    assert.ok(Math.abs(Math.max(...leases.slice(-3)) - lease) <= 1, `steps of ${stepMs} ms: ${leases.join()}`);
  }
});

test("without units next waits for the scheduler, then says idle; when all is done, over", async () => {
  const stage = new Stage();
  await stage.stock(0, 1);
  stage.feed.done(await stage.nextUnit());
  const idle = stage.feed.next();
  await stage.answer({}); // it had asked ahead
  assert.equal(stage.last.waitMs, 20, "now it has nothing to do");
  assert.deepEqual(stage.last.done, [0, 1]);
  await stage.answer({});
  assert.equal(await idle, "idle");
  const over = stage.feed.next();
  await stage.answer({ isOver: true, repeatedCount: 7 });
  assert.equal(await over, "over");
  assert.deepEqual([stage.feed.repeatedCount, stage.feed.isOver, stage.endedCount], [7, true, 1]);
  assert.equal(await stage.feed.next(), "over", "without asking again");
});

test("next keeps its deadline and its signal while the scheduler is away, and tells what happened to it", async () => {
  const stage = new Stage();
  await stage.stock(0, 1);
  await stage.nextUnit();
  const late = stage.feed.next({ timeoutMs: 30 });
  late.catch(() => {});
  await stage.clock.advance(30);
  await assert.rejects(late, { code: "DEADLINE", message: 'waited 30 ms for a unit of "train"' });
  await assert.rejects(stage.feed.next({ signal: AbortSignal.abort() }), { code: "ABORTED" });
  const failed = stage.feed.next();
  failed.catch(() => {});
  await stage.answer(new WeighbridgeError("SCHEDULER_UNREACHABLE", "away", { retryable: true }));
  await assert.rejects(failed, { code: "SCHEDULER_UNREACHABLE" });
  const again = stage.feed.next();
  await stage.answer({ units: [9, 10] });
  assert.deepEqual(await again, { unit: 9, batch: 4, part: 1 });
});

test("only what was begun can be done, and once", async () => {
  const stage = new Stage();
  await stage.stock(0, 2);
  const message = 'unit 1 of epoch 0 of "train" is none that this worker has begun';
  await stage.nextUnit();
  assert.throws(() => stage.feed.done(1), { code: "BAD_ARGUMENT", message });
  stage.feed.done(0);
  assert.throws(() => stage.feed.done(0), { code: "BAD_ARGUMENT" });
});

test("what a worker lost while it was taken for dead is not begun any more; what it had begun may still be done", async () => {
  const stage = new Stage();
  await stage.stock(0, 4);
  const first = await stage.nextUnit();
  await stage.nextUnit();
  await stage.answer({}); // its first request ahead
  await stage.nextUnit();
  await stage.answer({ lost: [0, 4], units: [8, 9] });
  assert.equal((await stage.nextUnit()).unit, 8);
  stage.feed.done(first);
});

test("closing gives back what was not begun, tells what is done, and ends waits", async () => {
  const stage = new Stage();
  await stage.stock(0, 6);
  const first = await stage.nextUnit();
  await stage.nextUnit();
  stage.feed.done(first);
  const closing = stage.feed.close();
  await stage.clock.advance(0);
  assert.deepEqual([stage.last.leaves, stage.last.held, stage.last.unused, stage.last.done], [true, [], [2, 6], [0, 1]]);
  await stage.answer({});
  await closing;
  assert.equal(stage.endedCount, 1);
  await assert.rejects(stage.feed.next(), { code: "CLOSED" });
  await stage.clock.advance(1000);
  assert.equal(stage.asked.length, 2, "and says nothing more");
});

test("a scheduler that is away cannot keep a feed from closing", async () => {
  const stage = new Stage();
  await stage.stock(0, 2);
  const closing = stage.feed.close({ timeoutMs: 100 });
  await stage.clock.advance(100);
  await closing;
  assert.equal(stage.endedCount, 1);
});

test("a restarted scheduler is told what is done here, what others had done that are gone, and what is held", async () => {
  const stage = new Stage();
  const opened = stage.feed.open({});
  await stage.answer({ units: [6, 9], inherited: { version: 2, done: [0, 5], suspect: [5, 6] }, repeatedCount: 1 });
  await opened;
  stage.feed.done(await stage.nextUnit());
  const { done, held, suspect, repeatedCount } = stage.feed.account();
  assert.deepEqual({ done, held, suspect, repeatedCount }, { done: [0, 5, 6, 7], held: [7, 9], suspect: [5, 6], repeatedCount: 1 });
});

test("who is idle because others live and do not ask is told their names after its deadline (UnitFeed.F5)", async () => {
  const stage = new Stage();
  const opened = stage.feed.open({});
  await stage.answer({});
  await opened;
  const idle = async (awaited: readonly number[] | undefined, timeoutMs: number): Promise<unknown> => {
    const next = stage.feed.next({ timeoutMs });
    next.catch(() => {}); // it is awaited below
    await stage.clock.advance(40);
    await stage.answer({ awaited });
    return await next;
  };
  assert.equal(await idle([3, 5], 100), "idle");
  assert.equal(await idle([3, 5], 100), "idle");
  assert.equal(await idle(undefined, 100), "idle", "they have asked");
  assert.equal(await idle([5], 100), "idle");
  assert.equal(await idle([5], 100), "idle");
  assert.equal(await idle([5], 100), "idle");
  await assert.rejects(
    idle([5], 100),
    (error) => isWeighbridgeError(error, "DEADLINE") && error.message.includes("worker 5 to ask for units of epoch 0"),
  );
});

test("a worker that is about to leave does what it was dealt in rounds, and then it is over for it (UnitFeed.F6)", async () => {
  const stage = new Stage("rounds");
  const opened = stage.feed.open({});
  await stage.answer({ units: [0, 2], clock: 0 });
  await opened;
  stage.feed.retire();
  assert.deepEqual(await stage.nextUnit(), { unit: 0, batch: 0, part: 0, parts: 2, clock: 0 });
  assert.equal(stage.last.retires, true);
  await stage.answer({ units: [2, 3], clock: 1 }); // it was dealt before the scheduler heard of it
  stage.feed.done(0);
  assert.deepEqual([(await stage.nextUnit()).unit, stage.feed.hasRetired], [2, false]);
  await stage.answer({ clock: 2 });
  stage.feed.done(2);
  assert.deepEqual([await stage.feed.next(), stage.feed.hasRetired], ["over", true]);
});

test("to a scheduler that was restarted it tells at which clocks its shares of rounds are due", async () => {
  const stage = new Stage("rounds");
  const opened = stage.feed.open({});
  await stage.answer({ units: [0, 1, 2, 3], clock: 4 });
  await opened;
  assert.deepEqual(await stage.nextUnit(), { unit: 0, batch: 0, part: 0, parts: 1, clock: 4 });
  stage.feed.done(0);
  const { held, dues, clock } = stage.feed.account();
  assert.deepEqual([held, dues, clock], [[2, 3], [4, 0, 1, 5, 2, 3], 6]);
  await stage.answer({ lost: [2, 3] });
  assert.deepEqual(stage.feed.account().dues, [4, 0, 1]);
});

test("in other assignments it is over at once, and what it has not begun is given back (UnitFeed.F6)", async () => {
  const stage = new Stage();
  await stage.stock(4, 7);
  await stage.nextUnit();
  stage.feed.done(4);
  stage.feed.retire();
  assert.equal(await stage.feed.next(), "over");
  const closed = stage.feed.close();
  await stage.answer({});
  if (!stage.isAnswered) await stage.answer({});
  await closed;
  assert.deepEqual([stage.last.done, stage.last.unused, stage.last.leaves], [[4, 5], [5, 7], true]);
});
