// push-numbers — numbers the pushes of a worker to each parameter, 1, 2, 3 …, so that servers can count them over the
// whole parameter, also those of which they have no row (consistency/push-counts.ts). One for all handles of a session.
//
// Invariants:
//   PushNumbers.N1. Every push has the next number, in the order in which pushes leave; all frames of a push have the
//       same.
//   PushNumbers.N2. What was pushed at a clock is told until every server has heard of it. Bounded: of more than
//       CLOCKS_KEPT clocks that some server has not heard of, the pushes of the oldest are told as those of the next.

import type { PushReport } from "../consistency/push-counts.ts";

const CLOCKS_KEPT = 64;

export class PushNumbers {
  /** Of the last push to each parameter. */
  readonly #last = new Map<number, number>();
  /** By rising clock and parameter: the number of the last push at that clock. */
  readonly #byClock = new Map<number, Map<number, number>>();

  /** The number of a push that is about to leave (N1). */
  next(parameter: number, clock: number): number {
    const number = this.last(parameter) + 1;
    this.#last.set(parameter, number);
    const pushed = this.#byClock.get(clock);
    if (pushed !== undefined) pushed.set(parameter, number);
    else this.#open(clock).set(parameter, number);
    return number;
  }

  /** That of the last push to the parameter; 0 before the first. */
  last(parameter: number): number {
    return this.#last.get(parameter) ?? 0;
  }

  /** All of them, for a server that is joined. */
  all(): Omit<PushReport, "clocks"> {
    return { parameters: Uint32Array.from(this.#last.keys()), numbers: Uint32Array.from(this.#last.values()) };
  }

  /** What was pushed at clocks below this one, and not heard of by all. */
  before(clock: number): PushReport {
    const entries = [...this.#byClock]
      .filter(([pushedAt]) => pushedAt < clock)
      .flatMap(([pushedAt, pushed]) => [...pushed].map(([parameter, number]) => ({ pushedAt, parameter, number })));
    return {
      clocks: Uint32Array.from(entries, ({ pushedAt }) => pushedAt),
      parameters: Uint32Array.from(entries, ({ parameter }) => parameter),
      numbers: Uint32Array.from(entries, ({ number }) => number),
    };
  }

  /** Every server has heard of the clocks below this one. */
  heard(clock: number): void {
    for (const pushedAt of this.#byClock.keys()) if (pushedAt < clock) this.#byClock.delete(pushedAt);
  }

  /** What was pushed at this clock or later to sync parameters is dropped everywhere, and pushed again. */
  drop(clock: number): void {
    for (const pushedAt of this.#byClock.keys()) if (pushedAt >= clock) this.#byClock.delete(pushedAt);
  }

  /** The parameter is no more. */
  cleared(parameter: number): void {
    for (const pushed of this.#byClock.values()) pushed.delete(parameter);
  }

  #open(clock: number): Map<number, number> {
    const pushed = new Map<number, number>();
    this.#byClock.set(clock, pushed);
    const [oldest, next] = this.#byClock.keys();
    if (this.#byClock.size > CLOCKS_KEPT && oldest !== undefined && next !== undefined) {
      const later = this.#byClock.get(next) as Map<number, number>;
      for (const [parameter, number] of this.#byClock.get(oldest) as Map<number, number>)
        if (!later.has(parameter)) later.set(parameter, number);
      this.#byClock.delete(oldest);
    }
    return pushed;
  }
}
