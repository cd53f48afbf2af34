// freshness — of one parameter: which reads may be answered now, and which wait for the slowest worker. What waits is the pacer's; this only
// knows the parameter's own bound.

import { Deferred } from "../../base/deferred.ts";
import type { WorkerLife } from "../../consistency/worker-lives.ts";
import type { ServerPacer } from "./server-pacer.ts";

/** Longer than any worker should take for a clock; a caller's own deadline is shorter. */
const PARKED_MS_MAX = 600_000;

/** A read that may have to wait. */
export type Reading = {
  readonly life: WorkerLife;
  /** The reader's clock. */
  readonly clock: number;
  /** What it keeps while it waits. */
  readonly bytes: number;
};

export class Freshness {
  readonly #pacer: ServerPacer;
  readonly #parameter: number;
  #staleness: number;

  constructor(pacer: ServerPacer, parameter: number, staleness: number) {
    this.#pacer = pacer;
    this.#parameter = parameter;
    this.#staleness = staleness;
  }

  get staleness(): number {
    return this.#staleness;
  }

  /** Holds from now on, for those who wait as well. Throws BAD_ARGUMENT. */
  set staleness(staleness: number) {
    this.#pacer.changeStaleness(this.#parameter, staleness);
    this.#staleness = staleness;
  }

  admits(clock: number): boolean {
    return this.#pacer.clockMin >= clock - this.#staleness;
  }

  /**
   * Reads now, or at the very moment when the slowest worker has come far enough: a later frame may clear the parameter before a promise's
   * callbacks run. Throws QUEUE_FULL; rejects with DEADLINE.
   */
  when<T>({ life, clock, bytes }: Reading, read: () => T): T | Promise<T> {
    if (this.admits(clock)) return read();
    const answer = new Deferred<T>();
    const admitted = (): void => {
      try {
        answer.resolve(read());
      } catch (thrown) {
        answer.reject(thrown);
      }
    };
    this.#pacer.read({
      ...life,
      parameter: this.#parameter,
      clock,
      staleness: this.#staleness,
      bytes,
      deadlineMs: PARKED_MS_MAX,
      read: { admitted, failed: (error) => answer.reject(error) },
    });
    return answer.promise;
  }
}
