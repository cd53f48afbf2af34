// wakeful-loop — keeps this thread's event loop from sleeping while the next input is near, by polling for it.
//
// A process that sleeps has to be woken. On a virtual machine that takes 50 µs and more on either side of a round trip,
// and costs more CPU time than the small request it is woken for. One poll (a turn of the event loop) takes 1 to 2 µs.
// So polls are paid for: input that comes while we poll earns about what waking would have cost, every poll spends one,
// and without credit the loop sleeps.
//
//   asleep ── START inputs, each soon after the one before ──▶ awake
//   asleep ── a request has left, and answers come soon ──▶ awake, for WAIT_MS
//   awake ── credit is spent, or others want the core ──▶ asleep
//
// A worker that trains computes for milliseconds, sends what it has, and waits for less than one: no input comes soon
// after another, and it would sleep in every step. It has nothing else to do, so it polls for the answer, as long as
// every node of this host has a core for itself.
//
// A worker, a head and its standby wait for each other on two cores. One that only polled would keep its core for a
// slice of the system's scheduler, milliseconds, from the one that it waits for: so it offers the core between polls
// (sched_yield, a native call through koffi where it is installed), which costs a microsecond. In a job without
// standbys it does not: there are as many nodes that wait for each other as cores, and offers cost 3 to 4 % of
// requests.
//
// Invariants:
//   WakefulLoop.W1. Polls that find nothing cost at most what earlier ones saved, and one poll per input that came
//       while the loop was asleep.
//   WakefulLoop.W2. After the last input there are at most CREDIT_MAX polls, about a millisecond.
//   WakefulLoop.W3. While others want our core it is theirs: a loop that does not get it while it is awake sleeps for
//       REST_MS.
//   WakefulLoop.W4. Who is ready to run on our core does so after RARELY polls in vain, and after one while others
//       share it, where the core can be offered. What comes back soon was not wanted in the sense of WakefulLoop.W3: a
//       node that we wait for had it.
//   WakefulLoop.W5. A client polls for the answer to what it has sent for WAIT_MS at most, if the last answers came
//       within that, and only while `hasOwnCore`.
//   WakefulLoop.W6. In a crowd nobody polls: the core is worth more to those that have something to do.

import { availableParallelism } from "node:os";
import type { Clock } from "../../base/clock.ts";
import { type SystemCallOptions, systemFunction } from "../native-calls.ts";

/** In polls: what makes the loop wake, what one input earns that was polled for, and the most credit. */
export const START = 64;
export const CREDIT_PER_INPUT = 96;
export const CREDIT_MAX = 1024;
/** Input that comes this soon after other input could have been waited for. */
export const SOON_MS = 0.4;
export const REST_MS = 500;
/** How often we check whether others want the core, and the share of it that we get if they do not. */
export const CHECK_MS = 64;
const CORE_SHARE_MIN = 0.6;
/** Who keeps a core that was offered for longer than this computes, and does not wait for us. */
export const SHORT_MS = 1;
/** So often within CHECK_MS, and others want the core. */
export const KEPT_MAX = 2;
/** Whoever took the core for longer than this may want it again at every poll so soon after. */
export const TAKEN_MS = 0.004;
const SHARED_OFFERS = 64;
/** An answer that comes this soon is worth waiting for; longer than it takes to wake, to work and to wake again. */
export const WAIT_MS = 1;
/** So many answers in a row that came soon, and the next one is waited for. */
export const ANSWERS_MIN = 8;
/** Nobody took it lately: it is offered at every so many polls. */
export const RARELY = 8;

export type WakefulLoopOptions = {
  readonly clock: Clock;
  /** CPU time of this thread so far. */
  readonly cpuMs: () => number;
};

export class WakefulLoop {
  readonly #clock: Clock;
  readonly #cpuMs: () => number;
  /** Whether every node of this host has a core for itself; for clients alone (WakefulLoop.W5). */
  hasOwnCore = false;
  /** Whether so many nodes of this host share its cores that none stays awake (WakefulLoop.W6). */
  isCrowded = false;
  /** Lets others run that are ready to, on the core of this thread; undefined: the loop keeps it. */
  offerCore: (() => void) | undefined;
  #isAwake = false;
  #credit = 0;
  /** Polls since the last input. */
  #polls = 0;
  /** All polls there ever were. */
  #turns = 0;
  #inputAtMs = Number.NEGATIVE_INFINITY;
  #restsUntilMs = Number.NEGATIVE_INFINITY;
  /** When we began to compare time with CPU time, and our CPU time then. */
  #sinceMs = 0;
  #cpuThenMs = 0;
  /** For how long others had the core since then that was offered to them, and gave it back soon. */
  #lentMs = 0;
  /** How often others kept it for longer. */
  #keptCount = 0;
  /** So many offers more are made at every poll. */
  #offersLeft = 0;
  /** When the request left whose answer is still to come; undefined: none is. */
  #askedAtMs: number | undefined;
  /** Answers in a row that came soon. */
  #soonCount = 0;
  /** Until then we poll without credit. */
  #waitsUntilMs = Number.NEGATIVE_INFINITY;

  constructor({ clock, cpuMs }: WakefulLoopOptions) {
    this.#clock = clock;
    this.#cpuMs = cpuMs;
  }

  get isAwake(): boolean {
    return this.#isAwake;
  }

  /** A request has left (WakefulLoop.W5). */
  asked(): void {
    if (!this.hasOwnCore) return;
    const nowMs = this.#clock.nowMs();
    this.#askedAtMs ??= nowMs;
    if (this.#soonCount < ANSWERS_MIN || nowMs < this.#restsUntilMs) return;
    this.#waitsUntilMs = nowMs + WAIT_MS;
    if (!this.#isAwake) this.#wake(nowMs);
  }

  /** Something was read. */
  input(): void {
    if (this.#askedAtMs !== undefined) this.#answered();
    if (!this.#isAwake) {
      this.#inputAsleep();
      return;
    }
    // else it came before any sleep
    if (this.#polls > 1) this.#credit = Math.min(this.#credit + CREDIT_PER_INPUT, CREDIT_MAX);
    this.#polls = 0;
  }

  #inputAsleep(): void {
    const nowMs = this.#clock.nowMs();
    const isSoon = nowMs - this.#inputAtMs <= SOON_MS;
    this.#inputAtMs = nowMs;
    if (isSoon && nowMs >= this.#restsUntilMs && ++this.#credit >= START && !this.isCrowded) this.#wake(nowMs);
  }

  #answered(): void {
    const isSoon = this.#clock.nowMs() - (this.#askedAtMs as number) <= WAIT_MS;
    this.#soonCount = isSoon ? Math.min(this.#soonCount + 1, 2 * ANSWERS_MIN) : Math.max(0, this.#soonCount - 2);
    this.#askedAtMs = undefined;
  }

  #wake(nowMs: number): void {
    this.#isAwake = true;
    this.#polls = 0;
    this.#begin(nowMs, this.#cpuMs());
    this.#clock.afterInput(this.#poll);
  }

  /** Time is compared with CPU time from now on. */
  #begin(nowMs: number, cpuMs: number): void {
    this.#sinceMs = nowMs;
    this.#cpuThenMs = cpuMs;
    this.#lentMs = 0;
    this.#keptCount = 0;
  }

  /** Runs once per turn of the event loop, which polls for input between two of them and does not sleep meanwhile. */
  readonly #poll = (): void => {
    this.#polls++;
    this.#credit = Math.max(0, this.#credit - 1);
    if (this.#credit === 0 && this.#clock.nowMs() >= this.#waitsUntilMs) this.#sleep();
    else if (this.#isTimeToCheck() && this.#isCoreWanted()) {
      this.#sleep();
      this.#restsUntilMs = this.#inputAtMs + REST_MS;
    } else this.#clock.afterInput(this.#poll);
  };

  /** Offers the core (WakefulLoop.W4). True now and then, and when others kept it. */
  #isTimeToCheck(): boolean {
    const isDue = (++this.#turns & 63) === 0;
    if (this.#polls === 1 || this.offerCore === undefined) return isDue;
    if (this.#offersLeft === 0 && this.#polls % RARELY !== 0) return isDue;
    const fromMs = this.#clock.nowMs();
    this.offerCore();
    const lentMs = this.#clock.nowMs() - fromMs;
    if (lentMs > TAKEN_MS) this.#offersLeft = SHARED_OFFERS;
    else if (this.#offersLeft > 0) this.#offersLeft--;
    if (lentMs <= SHORT_MS) this.#lentMs += lentMs;
    else this.#keptCount++;
    return isDue || lentMs > SHORT_MS;
  }

  #sleep(): void {
    this.#isAwake = false;
    this.#credit = 0;
    this.#inputAtMs = this.#clock.nowMs();
  }

  /** WakefulLoop.W3: a thread that is awake uses its whole core, unless others want it. */
  #isCoreWanted(): boolean {
    if (this.#keptCount >= KEPT_MAX) return true;
    const nowMs = this.#clock.nowMs();
    const elapsedMs = nowMs - this.#sinceMs;
    if (elapsedMs < CHECK_MS) return false;
    const cpuMs = this.#cpuMs();
    const usedMs = cpuMs - this.#cpuThenMs + this.#lentMs;
    this.#begin(nowMs, cpuMs);
    return usedMs < elapsedMs * CORE_SHARE_MIN;
  }
}

/** The loop of a running process; undefined on a single core, which it would keep from the process it waits for. */
export function wakefulLoop(clock: Clock): WakefulLoop | undefined {
  return availableParallelism() === 1 ? undefined : new WakefulLoop({ clock, cpuMs });
}

/** Undefined where the system cannot be asked: loops that poll keep their cores. */
export async function coreOffer(options: SystemCallOptions = {}): Promise<(() => void) | undefined> {
  return await systemFunction("int sched_yield()", options);
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e3;
}
