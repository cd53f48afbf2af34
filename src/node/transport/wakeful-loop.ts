// wakeful-loop — keeps this thread's event loop from going to sleep while the next input is near, by looking for it again and again.
//
// A process that sleeps has to be woken. On a virtual machine that takes 50 µs and more on either side of a round trip, and costs more CPU
// time than the small request it is woken for. One look (a turn of the event loop) takes 1 to 2 µs. So looks are paid for: input that came
// while we were looking earns about what waking us would have cost (CPU time and the caller's time), every look spends one, and without credit the loop sleeps.
//
//   asleep ── START inputs, each soon after the one before ──▶ awake ── credit is spent, or others want the core ──▶ asleep
//
// Invariants:
//   WakefulLoop.W1. Looks in vain cost at most what earlier ones saved, and one look per input that came while the loop was asleep.
//   WakefulLoop.W2. After the last input there are at most CREDIT_MAX looks, about a millisecond.
//   WakefulLoop.W3. While others want our core it is theirs: a loop that does not get it while it is awake sleeps for REST_MS.

import { availableParallelism } from "node:os";
import type { Clock } from "../../base/clock.ts";

/** In looks: what makes the loop wake, what one input earns that was waited for, and what can be saved up. */
export const START = 64;
export const CREDIT_PER_INPUT = 96;
export const CREDIT_MAX = 1024;
/** Input that comes this soon after other input could have been waited for. */
export const SOON_MS = 0.4;
export const REST_MS = 500;
/** How often we see whether others want the core, and how much of it we have to get for them not to. */
export const CHECK_MS = 64;
const CORE_SHARE_MIN = 0.6;

export type WakefulLoopOptions = {
  readonly clock: Clock;
  /** CPU time of this thread so far. */
  readonly cpuMs: () => number;
};

export class WakefulLoop {
  readonly #clock: Clock;
  readonly #cpuMs: () => number;
  #isAwake = false;
  #credit = 0;
  /** Looks since the last input. */
  #looks = 0;
  /** All looks there ever were. */
  #turns = 0;
  #inputAtMs = Number.NEGATIVE_INFINITY;
  #restsUntilMs = Number.NEGATIVE_INFINITY;
  /** When we began to compare time with CPU time, and our CPU time then. */
  #sinceMs = 0;
  #cpuThenMs = 0;

  constructor({ clock, cpuMs }: WakefulLoopOptions) {
    this.#clock = clock;
    this.#cpuMs = cpuMs;
  }

  get isAwake(): boolean {
    return this.#isAwake;
  }

  /** Something was read. */
  input(): void {
    if (!this.#isAwake) {
      this.#inputAsleep();
      return;
    }
    if (this.#looks > 1) this.#credit = Math.min(this.#credit + CREDIT_PER_INPUT, CREDIT_MAX); // else it had come before we could sleep
    this.#looks = 0;
  }

  #inputAsleep(): void {
    const nowMs = this.#clock.nowMs();
    const isSoon = nowMs - this.#inputAtMs <= SOON_MS;
    this.#inputAtMs = nowMs;
    if (!isSoon || nowMs < this.#restsUntilMs || ++this.#credit < START) return;
    this.#isAwake = true;
    this.#looks = 0;
    this.#sinceMs = nowMs;
    this.#cpuThenMs = this.#cpuMs();
    this.#clock.afterInput(this.#look);
  }

  /** Runs once per turn of the event loop, which looks for input between two of them, and does not sleep while a next one is due. */
  readonly #look = (): void => {
    this.#looks++;
    if (--this.#credit <= 0) this.#sleep();
    else if ((++this.#turns & 63) === 0 && this.#isCoreWanted()) {
      this.#sleep();
      this.#restsUntilMs = this.#inputAtMs + REST_MS;
    } else this.#clock.afterInput(this.#look);
  };

  #sleep(): void {
    this.#isAwake = false;
    this.#credit = 0;
    this.#inputAtMs = this.#clock.nowMs();
  }

  /** WakefulLoop.W3: a thread that is awake uses all of its core, unless it does not get it. */
  #isCoreWanted(): boolean {
    const nowMs = this.#clock.nowMs();
    const elapsedMs = nowMs - this.#sinceMs;
    if (elapsedMs < CHECK_MS) return false;
    const cpuMs = this.#cpuMs();
    const usedMs = cpuMs - this.#cpuThenMs;
    this.#sinceMs = nowMs;
    this.#cpuThenMs = cpuMs;
    return usedMs < elapsedMs * CORE_SHARE_MIN;
  }
}

/** The loop of a running process; undefined where it has one core only, which it would keep from whoever it waits for. */
export function wakefulLoop(clock: Clock): WakefulLoop | undefined {
  return availableParallelism() === 1 ? undefined : new WakefulLoop({ clock, cpuMs });
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e3;
}
