// sim-clock — a Clock whose time passes only in `run`: it jumps from event to event, so an hour costs nothing, and the
// same calls give the same run every time. One thread of events; it knows nothing of the network.
//
// Order:
//   SimClock.T1. `soon` runs before any other event, first in, first out: like Node's nextTick queue.
//   SimClock.T2. All else runs by time, and at the same time in the order of the calls. `afterInput` is an event at the
//       present time, so it runs after everything that was already due.
//   SimClock.T3. Promises settle between two events: `run` waits until the code that an event woke has come to rest.
//       Portable code cannot ask whether microtasks are left, so by default `run` waits for MICROTASK_ROUNDS of them: a
//       chain of up to that many awaits ends before the next event, a longer one goes on beside it (the same way every
//       time). In Node pass `settle: setImmediate` of node:timers/promises: it is exact, and ten times faster in a test
//       run, where Node traces every promise. A Settling is as exact, and settles promises without a turn of Node's
//       event loop after every event.

import { AssertionError, assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { type Complete, checkOptions } from "../base/known-options.ts";
import { RingQueue } from "../base/ring-queue.ts";

const MICROTASK_ROUNDS = 32;
const RESOLVED = Promise.resolve(); // Waiting for one and the same promise makes no new ones.
/** How often promises get the chance to go on, when no event is left, before what is awaited is taken for lost. */
const IDLE_SETTLES = 64;
const EVENTS_MAX_DEFAULT = 1_000_000;
/** So many events run at most before the event loop gets a turn. Counted, not timed: every run is the same. */
const EVENTS_PER_TASK = 256;

type Event = { readonly atMs: number; readonly sequence: number; run: (() => void) | undefined };

/** Settles promises on the spot, which a task of the event loop can do and code that a promise woke cannot. */
export type Settling = {
  /** Runs this as a task of its own, later. */
  readonly inTask: (task: () => void) => void;
  /** Called in such a task: returns once all promises that can settle by themselves have settled. */
  readonly settleNow: () => void;
};

/** How a simulated clock is made. */
export type SimClockOptions = {
  /** Resolves once all promises that can settle by themselves have settled (SimClock.T3). */
  readonly settle?: (() => Promise<void>) | Settling | undefined;
};

/** How far the clock runs. */
export type RunOptions = {
  /** Stops before the first event later than this, and leaves the clock there. By default no event stops the run. */
  readonly untilMs?: number | undefined;
  /** More events than this are taken for a livelock. */
  readonly maxEvents?: number | undefined;
};

type DriveOptions = Complete<RunOptions> & { readonly idleSettles: number; readonly done: () => boolean };
/** A run, and how far it is. */
type Drive = DriveOptions & { eventCount: number; idle: number };

const RUN_OPTIONS: readonly (keyof RunOptions)[] = ["untilMs", "maxEvents"];

/** Time that passes only when a test lets it. */
export class SimClock implements Clock {
  readonly #settle: (() => Promise<void>) | Settling;
  readonly #soon = new RingQueue<() => void>();
  /** A binary heap, the next event first. Cancelled ones stay until they come up or are too many. */
  #heap: Event[] = [];
  #cancelledCount = 0;
  #sequence = 0;
  #nowMs = 0;

  constructor(options: SimClockOptions = {}) {
    checkOptions(options, ["settle"], "the options of a SimClock");
    const { settle = settleMicrotasks } = options;
    this.#settle = settle;
  }

  /** The simulated time, in milliseconds. */
  nowMs(): number {
    return this.#nowMs;
  }

  /** Calls `fire` once, this many simulated milliseconds from now. Returns what cancels it. */
  after(delayMs: number, fire: () => void): CancelTimer {
    assert(!Number.isNaN(delayMs), "a delay is a number");
    if (delayMs === Infinity) return () => {};
    const event: Event = { atMs: this.#nowMs + Math.max(0, delayMs), sequence: this.#sequence++, run: fire };
    this.#push(event);
    return () => this.#cancel(event);
  }

  /** Calls this as the next event, at the present time. */
  soon(run: () => void): void {
    this.#soon.push(run);
  }

  /** Calls this once everything that has arrived is handled. */
  afterInput(run: () => void): void {
    this.after(0, run);
  }

  /** How many events are waiting, timers that were cancelled not counted. */
  get pendingCount(): number {
    return this.#soon.length + this.#heap.length - this.#cancelledCount;
  }

  /** Runs the next event; returns whether there was one. Does not wait for promises. */
  step(): boolean {
    const run = this.#soon.shift() ?? this.#nextTimed(Infinity);
    run?.();
    return run !== undefined;
  }

  /** Runs what happens in the next `ms` milliseconds. */
  async advance(ms: number): Promise<void> {
    await this.run({ untilMs: this.#nowMs + ms });
  }

  /** Runs events until none is left, or as the options say. */
  async run(options: RunOptions = {}): Promise<void> {
    checkOptions(options, RUN_OPTIONS, "the options of a run");
    const { untilMs = Infinity, maxEvents = EVENTS_MAX_DEFAULT } = options;
    await this.#drive({ untilMs, maxEvents, idleSettles: 4, done: () => false });
    if (untilMs !== Infinity) this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  /** Runs until `promise` settles; returns its outcome. Throws if no event is left that could settle it. */
  async runUntil<T>(promise: Promise<T>, options: RunOptions = {}): Promise<T> {
    checkOptions(options, RUN_OPTIONS, "the options of a run");
    const { untilMs = Infinity, maxEvents = EVENTS_MAX_DEFAULT } = options;
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    promise.then(mark, mark);
    await this.#drive({ untilMs, maxEvents, idleSettles: IDLE_SETTLES, done: () => settled });
    assert(settled, `the promise is still pending at ${this.#nowMs} ms, and ${this.pendingCount} events are left for later`);
    return await promise;
  }

  /** Runs events until `done`, or until none is left although promises had `idleSettles` chances to make new ones. */
  async #drive(options: DriveOptions): Promise<void> {
    const drive: Drive = { ...options, eventCount: 0, idle: 0 };
    const settle = this.#settle;
    if (typeof settle === "function") {
      do {
        this.#runSoon(drive);
        await settle();
      } while (this.#goesOn(drive));
      return;
    }
    for (let goesOn = true; goesOn; ) {
      const task = new Deferred<boolean>();
      settle.inTask(() => {
        try {
          task.resolve(this.#runTask(drive, settle));
        } catch (thrown) {
          task.reject(thrown);
        }
      });
      goesOn = await task.promise;
    }
  }

  /** The events of one task: it ends early when none is left, for what the event loop may bring. */
  #runTask(drive: Drive, { settleNow }: Settling): boolean {
    for (let count = 0; count < EVENTS_PER_TASK; count++) {
      this.#runSoon(drive);
      settleNow();
      if (!this.#goesOn(drive)) return false;
      if (drive.idle > 0) break;
    }
    return true;
  }

  #runSoon(drive: Drive): void {
    for (let event = this.#soon.shift(); event !== undefined; event = this.#soon.shift()) this.#runEvent(drive, event);
  }

  /** When promises have settled: runs the next timed event. Returns whether the run goes on. */
  #goesOn(drive: Drive): boolean {
    if (this.#soon.length > 0) return true;
    if (drive.done()) return false;
    const event = this.#nextTimed(drive.untilMs);
    if (event === undefined) {
      drive.idle++;
    } else {
      drive.idle = 0;
      this.#runEvent(drive, event);
    }
    return drive.idle < drive.idleSettles;
  }

  #runEvent(drive: Drive, event: () => void): void {
    drive.eventCount++;
    if (drive.eventCount > drive.maxEvents)
      throw new AssertionError(`more than ${drive.maxEvents} events without an end, at ${this.#nowMs} ms: a livelock?`);
    event();
  }

  /** Takes the next timed event that is not later than `untilMs` off the heap, and moves the time there. */
  #nextTimed(untilMs: number): (() => void) | undefined {
    for (let event = this.#heap[0]; event !== undefined && event.atMs <= untilMs; event = this.#heap[0]) {
      this.#pop();
      const { run } = event;
      event.run = undefined;
      if (run === undefined) {
        this.#cancelledCount--;
        continue;
      }
      this.#nowMs = event.atMs;
      return run;
    }
    return undefined;
  }

  #cancel(event: Event): void {
    if (event.run === undefined) return;
    event.run = undefined;
    this.#cancelledCount++;
    if (this.#cancelledCount < 1024 || this.#cancelledCount * 2 < this.#heap.length) return;
    // A sorted array is a heap.
    this.#heap = this.#heap.filter((kept) => kept.run !== undefined).sort((a, b) => (isBefore(a, b) ? -1 : 1));
    this.#cancelledCount = 0;
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = heap[parentAt] as Event;
      if (!isBefore(event, parent)) break;
      heap[at] = parent;
      at = parentAt;
    }
    heap[at] = event;
  }

  /** Removes the first event. */
  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let childAt = 2 * at + 1;
      if (childAt >= heap.length) break;
      const right = heap[childAt + 1];
      if (right !== undefined && isBefore(right, heap[childAt] as Event)) childAt++;
      const child = heap[childAt] as Event;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = childAt;
    }
    heap[at] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.sequence < b.sequence);
}

async function settleMicrotasks(): Promise<void> {
  for (let round = 0; round < MICROTASK_ROUNDS; round++) await RESOLVED;
}
