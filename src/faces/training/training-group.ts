// training-group — the workers that train the same values together (the hybrid mode): what they agree on before each
// step, and how they continue when a member dies or joins.
//
//   agree ──► the same step at every worker ──► agree …          a member is gone: regroup ──► agree …
//
// Invariants:
//   TrainingGroup.W1. A step is made by all members or by none: those without samples take part with zeros.
//   TrainingGroup.W2. After `join` all members have the values, slots and step counts of the member with the most steps
//       (among equals the lowest rank), so that no step that a member has reported as done is lost.
//   TrainingGroup.W3. Operations of the Collective begin in the same order at every member.
//   TrainingGroup.W4. After `compare` all members have the highest clock of any: servers hold reads back while a member
//       that waits for the reader is behind, and rates follow the clock.
//   TrainingGroup.W5. Of all units that members have, those of the earliest round are the next step: a step has the
//       samples of one round, although members were dealt their shares at different times.

import { assert } from "../../base/assert.ts";
import { bytesOf } from "../../base/bytes.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { Collective } from "../../worker/collective.ts";
import type { ReducedRoute } from "./reduced-route.ts";
import { isTransient } from "./retry.ts";

/** What a worker has for the next step. */
export type StepOffer = {
  /** The clock of the round that its unit is of; undefined without a unit. */
  readonly round: number | undefined;
  readonly isOver: boolean;
  readonly hasNext: boolean;
  /** A callback of this worker has stopped the training. */
  readonly isStopping: boolean;
};

/** What all members know about the next step. */
export type StepAgreement = {
  /** At least one has a unit: all make a step. */
  readonly isStep: boolean;
  /** This worker's unit is of that step; if not, its round comes later (TrainingGroup.W5). */
  readonly isDue: boolean;
  /** None has a unit left. */
  readonly isOver: boolean;
  /** At least one of them stops the training: no member makes a further step. */
  readonly mustStop: boolean;
  /** All of them have a unit of this step, and know the one after it. */
  readonly allHaveNext: boolean;
};

/** The part of a worker's Collective that a group uses. */
export type GroupCollective = Pick<
  Collective,
  "members" | "newcomers" | "failure" | "isClosed" | "allReduce" | "exchange" | "broadcast" | "reform"
>;

/** The part of a session that a group uses. */
export type Clocked = { readonly clocks: number; advanceTo(clock: number): number };

const ATTEMPTS_MAX = 16;
/** A member's state before the step counts: veteran or not, its clock, its epoch, as float64 (exact up to 2^53). */
const STANDING_DOUBLES = 3;
/** CLOSED of another member shows as the failure of the Collective, and does not reject a `reform`. */
const OWN_END: ReadonlySet<ErrorCode> = new Set(["CLOSED", "FENCED", "SCHEDULER_UNREACHABLE", "DEADLINE"]);

export class TrainingGroup {
  readonly collective: GroupCollective;
  /** The epoch that this worker trains, from 0. */
  epoch = 0;
  readonly #wait: () => WaitOptions;
  /** The member whose values all have after `join`. */
  #leader: Standing | undefined;
  #epochFound: number | undefined;
  /** This worker has made steps, or has the values of a member that had. */
  #isVeteran = false;

  constructor(collective: GroupCollective, wait: () => WaitOptions) {
    this.collective = collective;
    this.#wait = wait;
  }

  /** A member is gone: nothing continues until `regroup`. */
  get isBroken(): boolean {
    return this.collective.failure !== undefined && !this.collective.isClosed;
  }

  /** Workers wait to join. */
  get hasNewcomers(): boolean {
    return !this.isBroken && this.collective.newcomers.length > 0;
  }

  /** Whether this failure is another member's end, and not this worker's own. */
  mayRecover(thrown: unknown): boolean {
    const isOwn = isWeighbridgeError(thrown) && OWN_END.has(thrown.code);
    return this.isBroken && !isOwn;
  }

  /** TrainingGroup.W1, TrainingGroup.W5. Also detects a worker that waits to join. */
  async agree({ round = Infinity, isOver, hasNext, isStopping }: StepOffer): Promise<StepAgreement & { readonly mustRegroup: boolean }> {
    const isAwaited = this.collective.newcomers.length > 0;
    const parts = await this.#tellAll([round, Number(isOver), Number(hasNext), Number(isAwaited), Number(isStopping)]);
    const votes = parts.map((part) => new Float64Array(part.slice().buffer));
    const first = Math.min(...votes.map((vote) => vote[0] ?? Infinity));
    const isStep = first < Infinity;
    return {
      isStep,
      isDue: isStep && round === first,
      isOver: votes.every((vote) => vote[1] === 1),
      mustStop: votes.some((vote) => vote[4] === 1),
      allHaveNext: isStep && votes.every((vote) => vote[0] === first && vote[2] === 1),
      mustRegroup: votes.some((vote) => vote[3] === 1),
    };
  }

  /** Resolves with the numbers of all members, as float64, by position. */
  async #tellAll(numbers: readonly number[]): Promise<readonly Uint8Array[]> {
    const own = bytesOf(Float64Array.from(numbers));
    const outgoing = this.collective.members.map(() => own);
    return await this.collective.exchange(outgoing, this.#wait());
  }

  /** The next generation, of the live members. Rejects if none forms, and with ABORTED when `signal` fires. */
  async regroup(signal?: AbortSignal): Promise<void> {
    const wait = this.#wait();
    const signals = [wait.signal, signal].filter((one) => one !== undefined);
    for (let attempt = 1; ; attempt++) {
      try {
        await this.collective.reform({ ...wait, signal: signals.length > 1 ? AbortSignal.any(signals) : signals[0] });
        return;
      } catch (thrown) {
        if (!isTransient(thrown) || attempt >= ATTEMPTS_MAX) throw thrown;
      }
    }
  }

  /** The epoch of the others, if this worker joined them since the last call; else undefined. */
  foundEpoch(): number | undefined {
    const epoch = this.#epochFound;
    this.#epochFound = undefined;
    return epoch;
  }

  /** Exchanges the standings of all members (TrainingGroup.W4). Before `join`, in every generation. */
  async compare(routes: readonly ReducedRoute[], session: Clocked): Promise<void> {
    const { members } = this.collective;
    const steps = routes.map(({ updater }) => updater.step);
    const parts = await this.#tellAll([Number(this.#isVeteran), session.clocks, this.epoch, ...steps]);
    const standings = parts.map((part, i) => standingOf(part, members[i]!, routes.length));
    this.#leader = standings.reduce((best, other) => (isAhead(other, best) ? other : best));
    const epoch = Math.max(...standings.filter(({ isVeteran }) => isVeteran).map(({ epoch }) => epoch));
    if (!this.#isVeteran && Number.isFinite(epoch)) this.#epochFound = epoch;
    const clocks = Math.max(...standings.map(({ clocks }) => clocks));
    session.advanceTo(clocks);
  }

  /** TrainingGroup.W2 */
  async join(routes: readonly ReducedRoute[]): Promise<void> {
    assert(this.#leader !== undefined, "members compare before they join");
    const { rank: from, steps } = this.#leader;
    for (const [i, { parameter, updater }] of routes.entries()) {
      await this.collective.broadcast(parameter.values, from, this.#wait());
      if (updater.slots.length > 0) await this.collective.broadcast(updater.slots, from, this.#wait());
      updater.step = steps[i]!;
    }
    this.#isVeteran = true;
  }
}

/** A member's progress. */
type Standing = {
  readonly rank: number;
  readonly isVeteran: boolean;
  readonly clocks: number;
  readonly epoch: number;
  /** Of each route. */
  readonly steps: readonly number[];
};

/** Throws SPEC_MISMATCH for a part that another network, or another version of this code, has sent. */
function standingOf(part: Uint8Array, rank: number, routeCount: number): Standing {
  const count = part.length / Float64Array.BYTES_PER_ELEMENT - STANDING_DOUBLES;
  if (count !== routeCount) {
    throw new WeighbridgeError(
      "SPEC_MISMATCH",
      `worker ${rank} has another network or version of this code: by the ${part.length} bytes that it sent it reduces ${count}, not ${routeCount} parameters`,
    );
  }
  const [veteran = 0, clocks = 0, epoch = 0, ...steps] = new Float64Array(part.slice().buffer);
  return { rank, isVeteran: veteran === 1, clocks, epoch, steps };
}

/** A veteran is before a newcomer, which may have trained something else. */
function isAhead(one: Standing, other: Standing): boolean {
  const stepCount = ({ steps }: Standing): number => steps.reduce((sum, step) => sum + step, 0);
  return one.isVeteran === other.isVeteran ? stepCount(one) > stepCount(other) : one.isVeteran;
}
