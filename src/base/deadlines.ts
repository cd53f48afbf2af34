// deadlines — many deadlines, one timer. What waits (the calls of a training step, the reads that are parked for it)
// begins and ends dozens at a time, and a timer for each costs more than what waits.
//
// Invariants:
//   Deadlines.D1. While anything waits the timer is due at the first deadline, or before it. It goes with `rest`, once
//       nothing waits.
//   Deadlines.D2. What is added with equal delays is in the order of its deadlines: then nobody looks at all of it.

import type { CancelTimer, Clock } from "./clock.ts";

/** What waits, until when at most. */
export type Deadline = { readonly untilMs: number };

export class Deadlines<E extends Deadline> {
  readonly #clock: Clock;
  readonly #expired: (entry: E) => void;
  readonly #entries = new Set<E>();
  /** Whether the entries are in the order of their deadlines (Deadlines.D2). */
  #isInOrder = true;
  #lastMs = -Infinity;
  #cancelTimer: CancelTimer | undefined;
  #timerAtMs = Infinity;

  /** `expired`: called for each whose deadline has come, and which is not there any more. It may add and delete. */
  constructor(clock: Clock, expired: (entry: E) => void) {
    this.#clock = clock;
    this.#expired = expired;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The last deadline; 0 when nothing waits. */
  get lastMs(): number {
    let lastMs = 0;
    for (const { untilMs } of this.#entries) lastMs = Math.max(lastMs, untilMs);
    return lastMs;
  }

  add(entry: E): void {
    const { untilMs } = entry;
    if (untilMs < this.#lastMs) this.#isInOrder = false;
    else this.#lastMs = untilMs;
    this.#entries.add(entry);
    if (this.#cancelTimer === undefined || untilMs < this.#timerAtMs) this.#startTimer(untilMs);
  }

  /** It ended before its deadline, or was none. */
  delete(entry: E): void {
    this.#entries.delete(entry);
  }

  /** Stops the timer if nothing waits. */
  rest(): void {
    if (this.#entries.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAtMs = Infinity;
    this.#isInOrder = true;
    this.#lastMs = -Infinity;
  }

  /** Deadlines.D1 */
  #startTimer(atMs: number): void {
    this.#cancelTimer?.();
    this.#timerAtMs = atMs;
    this.#cancelTimer = this.#clock.after(Math.max(0, atMs - this.#clock.nowMs()), () => this.#due(atMs));
  }

  /** A real timer may come a fraction early: what is due is what it was set for. */
  #due(atMs: number): void {
    this.#cancelTimer = undefined;
    this.#timerAtMs = Infinity;
    const dueMs = Math.max(atMs, this.#clock.nowMs());
    for (const entry of this.#until(dueMs)) {
      if (this.#entries.delete(entry)) this.#expired(entry);
    }
    let nextMs = Infinity;
    for (const { untilMs } of this.#entries) {
      nextMs = Math.min(nextMs, untilMs);
      if (this.#isInOrder) break;
    }
    if (this.#entries.size > 0 && nextMs < this.#timerAtMs) this.#startTimer(nextMs);
    else this.rest();
  }

  #until(dueMs: number): E[] {
    const due: E[] = [];
    for (const entry of this.#entries) {
      if (entry.untilMs <= dueMs) due.push(entry);
      else if (this.#isInOrder) break;
    }
    return due;
  }
}
