// parameter-pace — how one parameter keeps pace with the clocks on a server: which reads it answers now, which wait for
// the slowest worker, and how a change of its consistency affects them. The pacer parks reads; this has the parameter's
// consistency at each clock (consistency/consistency-phases).
//
// Invariants (spec/consistency.md):
//   ParameterPace.M3. When the consistency changes, parked reads are re-evaluated at once.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import {
  type ConsistencyChange,
  type ConsistencyHistory,
  type ConsistencyMode,
  ConsistencyPhases,
} from "../../consistency/consistency-phases.ts";
import { Pacer } from "../../consistency/pacer.ts";
import type { PushCounter } from "../../consistency/push-counts.ts";
import { checkStaleness } from "../../consistency/staleness-controller.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";

/** Longer than any worker should take for a clock; a caller's own deadline is shorter. */
const PARKED_MS_MAX = 600_000;

/** A read that may have to wait. */
export type Reading = {
  readonly holder: WorkerIncarnation;
  /** The reader's clock. */
  readonly clock: number;
  /** The memory that it holds while it waits. */
  readonly bytes: number;
};

/** As in specs: no staleness is any number of clocks. */
type SpecifiedConsistency = Omit<ConsistencyMode, "staleness"> & { readonly staleness: number | undefined };

export class ParameterPace {
  readonly phases: ConsistencyPhases;
  readonly #pacer: ServerPacer;
  readonly #parameter: number;

  constructor(pacer: ServerPacer, parameter: number, { updates, reduce, staleness = Infinity }: SpecifiedConsistency) {
    this.#pacer = pacer;
    this.#parameter = parameter;
    this.phases = new ConsistencyPhases({ updates, reduce, staleness });
  }

  /** Changes the bound at every clock, also for parked reads. Throws BAD_ARGUMENT. */
  changeStaleness(staleness: number): void {
    checkStaleness(staleness);
    this.phases.setStaleness(staleness);
    this.#judgeAnew();
  }

  /**
   * The highest clock of an accepted update or of a worker, and the last change, for the worker that makes the next.
   */
  get survey(): { readonly clock: number; readonly turn: number } {
    return { clock: Math.max(this.phases.clockTop, this.#pacer.clockMax), turn: this.phases.history.turn };
  }

  /** What a checkpoint keeps: the last bound; the phases only once there was a change. */
  get training(): { readonly staleness: number; readonly consistency: ConsistencyHistory | undefined } {
    const { last, history } = this.phases;
    return { staleness: last.staleness, consistency: history.turn === 0 ? undefined : history };
  }

  /** Whether all future clocks have this consistency, in each of these fields. */
  isOnly(fields: Partial<ConsistencyMode>): boolean {
    this.phases.forgetBefore(this.#pacer.clockMin);
    return this.phases.history.phases.every((phase) =>
      Object.entries(fields).every(([name, value]) => phase[name as keyof ConsistencyMode] === value),
    );
  }

  /** Returns the clock from which on the last change holds here. Throws QUEUE_FULL. */
  change(change: ConsistencyChange): number {
    this.phases.forgetBefore(this.#pacer.clockMin);
    const from = this.phases.change(change);
    this.#judgeAnew();
    return from;
  }

  /** Continues from a checkpoint. Throws BAD_REQUEST. */
  resume(history: ConsistencyHistory): void {
    this.phases.resume(history);
  }

  /**
   * Reads now, or in the very turn in which the slowest worker has come far enough: a later frame may clear the
   * parameter before a promise's callbacks run. Throws QUEUE_FULL; rejects with DEADLINE.
   */
  when<T>({ holder, clock, bytes }: Reading, read: () => T): T | Promise<T> {
    if (this.#pacer.clocks.isFresh(clock, this.phases, holder)) return read();
    const answer = new Deferred<T>();
    const admitted = (): void => {
      try {
        answer.resolve(read());
      } catch (thrown) {
        answer.reject(thrown);
      }
    };
    this.#pacer.read({
      ...holder,
      parameter: this.#parameter,
      clock,
      staleness: this.phases.at(clock).staleness,
      bytes,
      timeoutMs: PARKED_MS_MAX,
      read: { admitted, failed: (error) => answer.reject(error) },
    });
    return answer.promise;
  }

  /** ParameterPace.M3 */
  #judgeAnew(): void {
    this.#pacer.changeStaleness(this.#parameter, (clock) => this.phases.at(clock).staleness);
  }
}

/** Of a block or of rows (consistency/update-rounds.ts). */
export interface ServerUpdate {
  applyRound(round: CompleteRound<ServerUpdate>): void;
  free(): void;
}

export type ServerPacer = Pacer<ServerUpdate>;

const PARKED_READS_MAX = 65_536;
const PARKED_BYTES_MAX = 2 ** 28;
const CONTRIBUTIONS_MAX = 2 ** 20;
const OPEN_BYTES_MAX = 2 ** 31;

export function serverPacer(clock: Clock, workerCount: number, counter: PushCounter): ServerPacer {
  return new Pacer<ServerUpdate>({
    clock,
    counter,
    expectedCount: workerCount,
    parkedReadsMax: PARKED_READS_MAX,
    parkedBytesMax: PARKED_BYTES_MAX,
    contributionsMax: CONTRIBUTIONS_MAX,
    openBytesMax: OPEN_BYTES_MAX,
  });
}
