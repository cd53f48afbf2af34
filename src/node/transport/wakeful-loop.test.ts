// Tests for wakeful-loop: WakefulLoop.W1 to W6, on a thread whose turns are taken by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ANSWERS_MIN,
  CHECK_MS,
  CREDIT_MAX,
  CREDIT_PER_INPUT,
  coreOffer,
  KEPT_MAX,
  RARELY,
  REST_MS,
  SHORT_MS,
  SOON_MS,
  START,
  TAKEN_MS,
  WAIT_MS,
  WakefulLoop,
} from "./wakeful-loop.ts";

/** A thread whose turns are taken one by one. Each takes `turnMs`, of which it gets `coreShare` on its core. */
class StubThread {
  nowMs = 0;
  cpuMs = 0;
  turnMs = 0.0015;
  coreShare = 1;
  /** For how long others keep the core that is offered to them. */
  lentMs = 0;
  offerCount = 0;
  #due: (() => void) | undefined;
  readonly loop: WakefulLoop = new WakefulLoop({
    clock: {
      nowMs: () => this.nowMs,
      after: () => assert.fail("no timer is needed"),
      soon: () => assert.fail("nothing is put before further input"),
      afterInput: (run) => {
        assert.equal(this.#due, undefined, "one look at a time");
        this.#due = run;
      },
    },
    cpuMs: () => this.cpuMs,
  });

  constructor() {
    this.loop.offerCore = () => {
      this.offerCount++;
      this.nowMs += this.lentMs;
    };
  }

  pass(ms: number): void {
    this.nowMs += ms;
    this.cpuMs += ms * this.coreShare;
  }

  /** One turn of the event loop; false when the thread would have slept instead. */
  turn(): boolean {
    const run = this.#due;
    this.#due = undefined;
    if (run === undefined) return false;
    this.pass(this.turnMs);
    run();
    return true;
  }

  /** Turns until the thread sleeps. */
  turnsUntilAsleep(): number {
    let count = 0;
    while (this.turn()) count++;
    return count;
  }

  inputs(count: number, gapMs: number): void {
    for (let i = 0; i < count; i++) {
      this.pass(gapMs);
      this.loop.input();
    }
  }

  /** Input after every `lookCount` looks, as often as `count` says. */
  inputsWaitedFor(count: number, lookCount: number): void {
    for (let i = 0; i < count; i++) {
      for (let look = 0; look < lookCount; look++) assert.ok(this.turn(), `awake at input ${i}`);
      this.loop.input();
    }
  }
}

test("wakes after inputs that follow each other soon, and not before", () => {
  const thread = new StubThread();
  thread.inputs(1 + START - 1, SOON_MS / 2);
  assert.equal(thread.loop.isAwake, false);
  thread.inputs(1, SOON_MS / 2);
  assert.equal(thread.loop.isAwake, true);
});

test("sleeps through inputs that come now and then", () => {
  const thread = new StubThread();
  thread.inputs(100 * START, SOON_MS * 1.1);
  assert.equal(thread.turnsUntilAsleep(), 0);
});

test("looks in vain no more often than inputs came while it was asleep", () => {
  const thread = new StubThread();
  thread.inputs(1 + START, SOON_MS / 2);
  assert.equal(thread.turnsUntilAsleep(), START);
  thread.inputs(START - 1, SOON_MS / 2);
  assert.equal(thread.turnsUntilAsleep(), 0, "nothing was saved up");
});

test("stays awake as long as input comes while it looks, and about a millisecond longer", () => {
  const thread = new StubThread();
  thread.inputs(1 + START, SOON_MS / 2);
  thread.inputsWaitedFor(10_000, CREDIT_PER_INPUT / 2);
  assert.ok(thread.turnsUntilAsleep() <= CREDIT_MAX);
  assert.equal(thread.loop.isAwake, false);
});

test("earns nothing by input that was there before it could have slept", () => {
  const thread = new StubThread();
  thread.inputs(1 + START, SOON_MS / 2);
  for (let i = 0; i < START - 1; i++) {
    assert.ok(thread.turn());
    thread.loop.input();
  }
  assert.equal(thread.turnsUntilAsleep(), 1);
});

test("gives the core away for a while when it does not get it", () => {
  const thread = new StubThread();
  thread.coreShare = 0.5;
  thread.inputs(1 + START, SOON_MS / 2);
  let lookCount = 0;
  while (thread.turn()) if (++lookCount % 10 === 0) thread.loop.input();
  const awakeMs = lookCount * thread.turnMs;
  assert.ok(awakeMs >= CHECK_MS - 1 && awakeMs < 2 * CHECK_MS, `awake for ${awakeMs} ms`);
  thread.inputs(Math.floor((REST_MS * 0.9) / SOON_MS), SOON_MS);
  assert.equal(thread.loop.isAwake, false);
  thread.inputs(Math.ceil((REST_MS * 0.2) / SOON_MS) + START, SOON_MS / 2);
  assert.equal(thread.loop.isAwake, true);
});

test("keeps the core as long as it gets it", () => {
  const thread = new StubThread();
  thread.inputs(1 + START, SOON_MS / 2);
  thread.inputsWaitedFor(Math.ceil((10 * CHECK_MS) / (10 * thread.turnMs)), 10);
  assert.equal(thread.loop.isAwake, true);
});

test("offers the core now and then, and before every further look once somebody took it (WakefulLoop.W4)", () => {
  const thread = new StubThread();
  thread.inputs(1 + START, SOON_MS / 2);
  for (let look = 1; look <= 2 * RARELY; look++) assert.ok(thread.turn());
  assert.equal(thread.offerCount, 2);
  thread.lentMs = 2 * TAKEN_MS;
  for (let look = 1; look <= RARELY; look++) assert.ok(thread.turn());
  assert.equal(thread.offerCount, 3);
  for (let look = 1; look <= RARELY; look++) assert.ok(thread.turn());
  assert.equal(thread.offerCount, 3 + RARELY);
  thread.loop.input();
  assert.ok(thread.turn());
  assert.equal(thread.offerCount, 3 + RARELY, "what comes next may be there already");
});

for (const [lentMs, isAwake] of [
  [SHORT_MS / 2, true],
  [SHORT_MS * 3, false],
] as const) {
  test(`a core that comes back after ${lentMs} ms is ${isAwake ? "not " : ""}wanted by others (WakefulLoop.W3, WakefulLoop.W4)`, () => {
    const thread = new StubThread();
    thread.lentMs = lentMs;
    thread.inputs(1 + START, SOON_MS / 2);
    const untilMs = thread.nowMs + 1.5 * CHECK_MS;
    for (let look = 1; thread.nowMs < untilMs && thread.turn(); look++) if (look % 10 === 0) thread.loop.input();
    assert.equal(thread.loop.isAwake, isAwake);
  });
}

test("who keeps the core twice wants it: the loop sleeps at once, and for a while (WakefulLoop.W3, WakefulLoop.W4)", () => {
  const thread = new StubThread();
  thread.inputs(1 + START, SOON_MS / 2);
  thread.inputsWaitedFor(10, 2);
  thread.lentMs = 2 * SHORT_MS;
  for (let look = 1; thread.turn(); look++) if (look % (2 * RARELY) === 0) thread.loop.input();
  assert.ok(thread.offerCount <= KEPT_MAX);
  thread.inputs(10 * START, SOON_MS / 2);
  assert.equal(thread.loop.isAwake, false);
});

test("a loop that has nobody to offer its core to keeps it (WakefulLoop.W4)", () => {
  const thread = new StubThread();
  thread.loop.offerCore = undefined;
  for (let i = 0; i < START; i++) {
    thread.pass(SOON_MS / 2);
    thread.loop.input();
  }
  while (thread.turn());
  assert.equal(thread.offerCount, 0);
});

test("without the native call there is nothing to offer the core with", async () => {
  const missing = (): Promise<never> => Promise.reject(new Error("koffi is not installed"));
  assert.equal(await coreOffer({ platform: "linux", nativeCalls: missing }), undefined);
  assert.equal(await coreOffer({ platform: "win32" }), undefined);
});

/** A training: computes, asks, and sleeps or polls until the answer comes. Returns whether it was awake then. */
function step(thread: StubThread, answerMs: number): boolean {
  thread.pass(5);
  thread.turnsUntilAsleep();
  thread.loop.asked();
  const answerAtMs = thread.nowMs + answerMs;
  while (thread.nowMs < answerAtMs && thread.turn());
  const { isAwake } = thread.loop;
  thread.nowMs = Math.max(thread.nowMs, answerAtMs);
  thread.loop.input();
  return isAwake;
}

test("who waits for an answer polls for it once the last ones came soon, and no longer than WAIT_MS (WakefulLoop.W5)", () => {
  const thread = new StubThread();
  thread.loop.hasOwnCore = true;
  for (let i = 0; i < ANSWERS_MIN; i++) assert.ok(!step(thread, WAIT_MS / 2), `answer ${i}`);
  assert.ok(step(thread, WAIT_MS / 2));
  thread.pass(5);
  thread.turnsUntilAsleep();
  thread.loop.asked();
  const fromMs = thread.nowMs;
  assert.ok(thread.turnsUntilAsleep() > 100);
  assert.ok(thread.nowMs - fromMs < WAIT_MS + 2 * thread.turnMs, "an answer that does not come is not waited for longer");
  thread.loop.input();
  for (let i = 0; i < 2 * ANSWERS_MIN; i++) step(thread, 3 * WAIT_MS);
  assert.ok(!step(thread, 3 * WAIT_MS), "answers that come late are not waited for");
});

test("who shares the cores of this host with more nodes than there are sleeps (WakefulLoop.W5)", () => {
  const thread = new StubThread();
  for (let i = 0; i < 4 * ANSWERS_MIN; i++) assert.ok(!step(thread, WAIT_MS / 2));
});

test("in a crowd nobody stays awake, whatever comes (WakefulLoop.W6)", () => {
  const thread = new StubThread();
  thread.loop.isCrowded = true;
  thread.inputs(10 * START, SOON_MS / 2);
  assert.equal(thread.loop.isAwake, false);
  thread.loop.isCrowded = false;
  thread.inputs(1 + START, SOON_MS / 2);
  assert.equal(thread.loop.isAwake, true);
});
