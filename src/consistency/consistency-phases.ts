// consistency-phases — the consistency that a parameter has at each clock, on one server: it may change from one clock
// on while the job runs. Pure.
//
//   clocks   0 ─────────────────► E₁ ────────────────► E₂ ───────►
//   phase    as it was created    since a change       since the next one, perhaps still to come
//
// Invariants (spec/consistency.md):
//   ConsistencyPhases.M1. Every clock has one consistency. An update or a read follows that of its clock, whenever it
//       arrives.
//   ConsistencyPhases.M2. A phase begins above every update that the server accepted before it knew of the phase: those
//       stay as they are, pending or applied.
//   ConsistencyPhases.M5. Of two changes the one with the higher (turn, worker) is the last, in whichever order they
//       come.
//   ConsistencyPhases.M6. Bounded: phases that no clock can have any more are dropped; at most PHASES_MAX others exist.

import { assert } from "../base/assert.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";

export type ConsistencyMode = {
  /** async: applied on arrival. sync: collected for each clock, reduced in rank order and applied once. */
  readonly updates: "async" | "sync";
  /** How a sync round becomes one gradient. */
  readonly reduce: "sum" | "mean";
  /** How many clocks a read may be behind; Infinity: any number. */
  readonly staleness: number;
};

type ConsistencyPhase = ConsistencyMode & {
  /** Its first clock. */
  readonly from: number;
};

/** The phases by rising clocks, and the last change. */
export type ConsistencyHistory = { readonly phases: readonly ConsistencyPhase[]; readonly turn: number; readonly turnWorker: number };

export type ConsistencyChange = {
  readonly mode: ConsistencyMode;
  /** No earlier than at this clock. */
  readonly clock: number;
  /** Above the turns of all changes that its worker knew of. */
  readonly turn: number;
  /** The worker that makes the change. */
  readonly worker: number;
};

/** Enough changes within the clocks by which the fastest worker is ahead of the slowest. */
export const PHASES_MAX = 64;

export class ConsistencyPhases {
  /** That of every clock; undefined while clocks differ. Nobody else writes it. */
  constant: ConsistencyPhase | undefined;
  /** The highest clock of an accepted update; -1 before the first. `take` raises it, or the caller for every push. */
  clockTop = -1;
  /** By rising clocks, never empty. Clocks before the first have it too. */
  #phases: readonly ConsistencyPhase[];
  #turn = 0;
  #turnWorker = 0;

  constructor(mode: ConsistencyMode) {
    this.#phases = [{ ...mode, from: 0 }];
    this.constant = this.#phases[0];
  }

  /** ConsistencyPhases.M1 */
  at(clock: number): ConsistencyPhase {
    const phases = this.#phases;
    let index = phases.length - 1;
    while (index > 0 && (phases[index] as ConsistencyPhase).from > clock) index--;
    return phases[index] as ConsistencyPhase;
  }

  /** The one that holds in the end, perhaps not yet. */
  get last(): ConsistencyPhase {
    return this.#phases.at(-1) as ConsistencyPhase;
  }

  get history(): ConsistencyHistory {
    return { phases: this.#phases, turn: this.#turn, turnWorker: this.#turnWorker };
  }

  /** The server accepts an update with this clock, as `at` says. */
  take(clock: number): void {
    if (clock > this.clockTop) this.clockTop = clock;
  }

  /**
   * Returns the clock at which the last phase then begins: that of the change, unless there was a later one
   * (ConsistencyPhases.M5). The same consistency again changes nothing. Throws QUEUE_FULL (ConsistencyPhases.M6).
   */
  change({ mode, clock, turn, worker }: ConsistencyChange): number {
    if (turn < this.#turn || (turn === this.#turn && worker <= this.#turnWorker)) return this.last.from;
    const from = Math.max(clock, this.clockTop + 1); // ConsistencyPhases.M2
    const isSame = isAlike(this.last, mode) && this.last.from <= from;
    const phases = isSame ? this.#phases : [...this.#phases.filter((phase) => phase.from < from), { ...mode, from }];
    if (phases.length > PHASES_MAX) throw tooMany();
    this.#set(phases);
    this.#turn = turn;
    this.#turnWorker = worker;
    return this.last.from;
  }

  /** Another bound for every clock, from now on. */
  setStaleness(staleness: number): void {
    this.#set(this.#phases.map((phase) => ({ ...phase, staleness })));
  }

  /** No update with a clock below this one comes or is pending any more (ConsistencyPhases.M6). */
  forgetBefore(clockMin: number): void {
    const first = this.#phases.indexOf(this.at(clockMin));
    if (first > 0) this.#set(this.#phases.slice(first));
  }

  /** Goes on where another left off. Throws BAD_REQUEST for phases that cannot be. */
  resume({ phases, turn, turnWorker }: ConsistencyHistory): void {
    const isRising = phases.every(({ from }, i) => i === 0 || from > (phases[i - 1] as ConsistencyPhase).from);
    if (phases.length === 0 || phases.length > PHASES_MAX || !isRising)
      throw badRequest(`${phases.length} phases of a consistency, which do not follow each other`);
    assert(this.clockTop < 0, "nothing was taken before");
    this.#set(phases);
    this.#turn = turn;
    this.#turnWorker = turnWorker;
  }

  #set(phases: readonly ConsistencyPhase[]): void {
    this.#phases = phases;
    this.constant = phases.length === 1 ? phases[0] : undefined;
  }
}

function isAlike(one: ConsistencyMode, other: ConsistencyMode): boolean {
  return one.updates === other.updates && one.reduce === other.reduce && one.staleness === other.staleness;
}

function tooMany(): WeighbridgeError {
  const text = `the consistency changed ${PHASES_MAX} times at clocks that the slowest worker has not come to: change it again later`;
  return new WeighbridgeError("QUEUE_FULL", text, { retryable: true });
}
