// The order of simulated events, and how promises fit between them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as setTask } from "node:timers";
import { setImmediate } from "node:timers/promises";
import { waitFor } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { type Settling, SimClock, type SimClockOptions } from "./sim-clock.ts";

test("runs events by time, and at the same time in the order of the calls (SimClock.T2)", async () => {
  const clock = new SimClock();
  const seen: string[] = [];
  clock.after(5, () => seen.push(`b at ${clock.nowMs()}`));
  clock.after(1, () => seen.push(`a at ${clock.nowMs()}`));
  clock.after(5, () => seen.push(`c at ${clock.nowMs()}`));
  clock.after(-3, () => seen.push(`now at ${clock.nowMs()}`));
  await clock.run();
  assert.deepEqual(seen, ["now at 0", "a at 1", "b at 5", "c at 5"]);
  assert.equal(clock.nowMs(), 5);
  assert.equal(clock.pendingCount, 0);
});

test("runs soon before anything else, and afterInput after what is already due (SimClock.T1, SimClock.T2)", async () => {
  const clock = new SimClock();
  const seen: string[] = [];
  clock.after(0, () => {
    seen.push("input 1");
    clock.afterInput(() => seen.push("after input"));
    clock.soon(() => {
      seen.push("soon");
      clock.soon(() => seen.push("soon again"));
    });
    void Promise.resolve().then(() => seen.push("promise"));
  });
  clock.after(0, () => seen.push("input 2"));
  await clock.run();
  assert.deepEqual(seen, ["input 1", "soon", "soon again", "promise", "input 2", "after input"]);
});

test("keeps the order of thousands of random timers, with cancellations", async () => {
  const clock = new SimClock({ settle: setImmediate });
  const random = new Random(1);
  const fired: { atMs: number; index: number }[] = [];
  const cancels: (() => void)[] = [];
  let cancelledFired = 0;
  for (let index = 0; index < 5000; index++) {
    const atMs = random.below(500);
    const isCancelled = index % 5 !== 0;
    const cancel = clock.after(atMs, () => (isCancelled ? cancelledFired++ : fired.push({ atMs, index })));
    if (isCancelled) cancels.push(cancel);
  }
  for (const cancel of [...cancels, ...cancels]) cancel();
  assert.equal(clock.pendingCount, 1000);
  while (clock.step());
  assert.equal(cancelledFired, 0);
  assert.equal(fired.length, 1000);
  const sorted = fired.toSorted((a, b) => a.atMs - b.atMs || a.index - b.index);
  assert.deepEqual(fired, sorted);
});

test("advance runs what is due and leaves the rest", async () => {
  const clock = new SimClock();
  const seen: number[] = [];
  for (const atMs of [10, 20, 30]) clock.after(atMs, () => seen.push(atMs));
  await clock.advance(20);
  assert.deepEqual(seen, [10, 20]);
  assert.equal(clock.nowMs(), 20);
  await clock.advance(5);
  assert.equal(clock.nowMs(), 25);
  assert.equal(clock.pendingCount, 1);
});

test("step runs one event, and none when there is none", () => {
  const clock = new SimClock();
  let count = 0;
  clock.after(3, () => count++);
  clock.soon(() => count++);
  assert.equal(clock.step(), true);
  assert.equal(clock.nowMs(), 0);
  assert.equal(clock.step(), true);
  assert.equal(clock.nowMs(), 3);
  assert.equal(clock.step(), false);
  assert.equal(count, 2);
});

test("a cancelled timer does not fire, nor does one that never ends", async () => {
  const clock = new SimClock();
  const cancel = clock.after(1, () => assert.fail("cancelled"));
  cancel();
  cancel();
  clock.after(Infinity, () => assert.fail("never"))();
  await clock.run();
  assert.equal(clock.nowMs(), 0, "cancelled timers do not move the time");
});

test("promises settle between events, in long chains too (SimClock.T3)", async () => {
  for (const settle of [undefined, setImmediate]) {
    const clock = new SimClock(settle === undefined ? {} : { settle });
    const seen: string[] = [];
    const deep = async (depth: number): Promise<void> => (depth === 0 ? undefined : await deep(depth - 1));
    clock.after(1, () => void deep(20).then(() => seen.push("chain")));
    clock.after(1, () => seen.push("next event"));
    await clock.run();
    assert.deepEqual(seen, ["chain", "next event"]);
  }
});

test("runUntil drives code that awaits timers, and hands on its outcome", async () => {
  const clock = new SimClock();
  const sleep = (ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, resolve));
  const work = async (): Promise<number> => {
    for (let i = 0; i < 10; i++) await sleep(100);
    return clock.nowMs();
  };
  assert.equal(await clock.runUntil(work()), 1000);
  await assert.rejects(clock.runUntil(waitFor(new Promise(() => {}), "nothing", clock, { timeoutMs: 50 })), (error) =>
    isWeighbridgeError(error, "DEADLINE"),
  );
  assert.equal(clock.nowMs(), 1050);
});

test("runUntil says so when the promise waits for something that never comes", async () => {
  const clock = new SimClock();
  await assert.rejects(clock.runUntil(new Promise(() => {})), /still pending at 0 ms/);
  clock.after(500, () => {});
  await assert.rejects(clock.runUntil(new Promise(() => {}), { untilMs: 100 }), /still pending .* 1 events are left/);
});

test("a livelock is an error that names the limit", async () => {
  const clock = new SimClock();
  const again = (): void => void clock.after(0, again);
  again();
  await assert.rejects(clock.run({ maxEvents: 100 }), /more than 100 events .* at 0 ms: a livelock\?/);
  const soonAgain = (): void => clock.soon(soonAgain);
  soonAgain();
  await assert.rejects(clock.run({ maxEvents: 100 }), /more than 100 events/);
});

test("what an event throws comes out of run, and the clock can go on", async () => {
  const clock = new SimClock();
  let ran = false;
  clock.after(1, () => {
    throw new Error("boom");
  });
  clock.after(2, () => {
    ran = true;
  });
  await assert.rejects(clock.run(), /boom/);
  await clock.run();
  assert.ok(ran);
});

/** As a host with tasks and microtasks has it (test/support/settling.ts is Node's). */
const { _tickCallback: settleNow } = process as typeof process & { readonly _tickCallback: () => void };
let turns = 0;
const COUNTED: Settling = {
  inTask: (task) => {
    turns++;
    setTask(task);
  },
  settleNow: () => settleNow(),
};

test("a Settling gives the same run as a turn of the event loop per event, with few turns (SimClock.T3)", async () => {
  const runOf = async (settle: NonNullable<SimClockOptions["settle"]>): Promise<readonly string[]> => {
    const clock = new SimClock({ settle });
    const random = new Random(7);
    const seen: string[] = [];
    const wander = async (name: string): Promise<void> => {
      for (let step = 0; step < 200; step++) {
        await new Promise<void>((resolve) => clock.after(random.below(5), resolve));
        for (let awaits = random.below(60); awaits > 0; awaits--) await Promise.resolve();
        if (random.chance(0.3)) clock.soon(() => seen.push(`${name} soon at ${clock.nowMs()}`));
        seen.push(`${name} ${step} at ${clock.nowMs()}`);
      }
    };
    await clock.runUntil(Promise.all(["a", "b", "c"].map(wander)));
    return seen;
  };
  const expected = await runOf(setImmediate);
  turns = 0;
  assert.deepEqual(await runOf(COUNTED), expected);
  assert.ok(turns < expected.length / 20, `${turns} turns for ${expected.length} events`);
});

test("with a Settling too, what an event throws ends the run, a livelock is told, and a lost promise is not waited for", async () => {
  const clock = new SimClock({ settle: COUNTED });
  clock.after(1, () => {
    throw new Error("thrown by an event");
  });
  await assert.rejects(clock.run(), /thrown by an event/);
  const again = (): void => void clock.after(1, again);
  again();
  await assert.rejects(clock.run({ maxEvents: 1000 }), /a livelock\?/);
  const idle = new SimClock({ settle: COUNTED });
  await assert.rejects(idle.runUntil(new Promise(() => {})), /still pending/);
});

test("with a Settling a run waits for what the event loop brings while no event is left", async () => {
  const clock = new SimClock({ settle: COUNTED });
  const brought = setImmediate().then(async () => {
    await setImmediate();
    await new Promise<void>((resolve) => clock.after(5, resolve));
    return clock.nowMs();
  });
  assert.equal(await clock.runUntil(brought), 5);
});
