// units — the units of an epoch as a loop: `for await (const unit of session.units(…))`. It opens a feed (unit-feed.ts)
// for its first unit, ends the clocks for which other workers may wait, and closes the feed behind the last one. Not
// for a loop that decides about its clocks itself: the training face reads the feed.
//
//   rounds        the loop ends all clocks: up to a unit's own before it is given, its own when the next one is asked
//                 for, and those of rounds without this worker while it is idle and at the end of the epoch
//   even, free    the body ends the clock of a unit; the loop ends one in each turn in which there is no unit
//
// Invariants:
//   Units.L1. No worker waits for the clock of one that has nothing to do.
//   Units.L2. A loop whose parameters no clocks bind, and whose body ends none, ends none either: a checkpoint of that
//       worker would wait for clocks that the others never end.
//   Units.L3. However the loop is left, the units that were not done are given back.
//   Units.L4. A worker that is asked to leave does what it was dealt in rounds, and then its loop ends.

import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { refuseFormer } from "../base/former-members.ts";
import { checkWaitOptions } from "../base/known-options.ts";
import { epochProblem } from "../wire/units.ts";
import type { Assignment, EpochDescription } from "../wire/units-claim.ts";
import type { SessionEvents } from "./session-events.ts";
import type { LentUnit, UnitFeed } from "./unit-feed.ts";
import type { WorkerClock } from "./worker-clock.ts";

/** An epoch of work that the scheduler hands out in units; `timeoutMs` bounds the wait for each of them. */
export type UnitOptions = WaitOptions & {
  /** The number of the epoch. */
  readonly epoch: number;
  /** Global batches of the epoch. */
  readonly batchCount: number;
  /** Into how many parts each is cut. */
  readonly partCount: number;
  /**
   * "even": worker r is given part r of every batch, the same in every run. "free": the next worker that asks gets the
   * next part. "rounds": every batch is one round, dealt to the workers that are there, each with a share and all at
   * one clock.
   */
  readonly assignment: Assignment;
  /** In rounds: the most parts of a batch that this worker has room for; all by default. */
  readonly partsMax?: number | undefined;
  /**
   * How long this worker waits for something to do before it counts as idle, and ends clocks for which the others may
   * wait. Defaults to 150: longer than the others need to report their last unit.
   */
  readonly idleMs?: number | undefined;
};

export const IDLE_MS = 150;

/** Throws BAD_ARGUMENT for a bad description of an epoch. */
export function checkUnits(name: string, options: UnitOptions): EpochDescription {
  const { epoch, batchCount, partCount, assignment, partsMax = partCount, idleMs = IDLE_MS } = options;
  const description: EpochDescription = { name, epoch, batchCount, partCount, assignment };
  const bounds = idleMs >= 0 && partsMax >= 1 ? undefined : `idleMs is a time, not ${idleMs}, and partsMax at least 1, not ${partsMax}`;
  const problem = epochProblem(description) ?? bounds;
  if (problem !== undefined) throw badArgument(problem);
  return description;
}

/** A unit of an epoch, as a worker does it: part `part` of batch `batch`. */
export class Unit {
  /** batch · partCount + part. */
  readonly index: number;
  /** From 0. */
  readonly batch: number;
  /** Of the batch, from 0. */
  readonly part: number;
  /** How many parts of the batch it has, from `part` on: one, but in rounds a worker's whole share of the batch. */
  readonly parts: number;
  /** In rounds: the clock of the round, the same for all that have a share of it. Else undefined. */
  readonly clock: number | undefined;
  readonly #feed: UnitFeed;

  /** @internal */
  constructor({ unit, batch, part, parts = 1, clock }: LentUnit, feed: UnitFeed) {
    this.index = unit;
    this.batch = batch;
    this.part = part;
    this.parts = parts;
    this.clock = clock;
    this.#feed = feed;
  }

  /**
   * To be called once the unit's updates are acknowledged: no other worker gets it then. May be called after the next
   * unit was taken, but not after the loop has ended: what is not done by then is given back, and done again.
   */
  done(): void {
    this.#feed.doneOnce(this.index);
  }
}

export type UnitsGround = {
  readonly open: (options: UnitOptions & { readonly firstClock: number }) => Promise<UnitFeed>;
  readonly time: Clock;
  readonly clock: Pick<WorkerClock, "value" | "advanceTo">;
  /** Whether clocks bind a parameter of this worker (Units.L2). */
  readonly isBoundByClocks: () => boolean;
  /** Units.L4 */
  readonly events: Pick<SessionEvents, "isLeaving" | "add" | "remove">;
};

/**
 * The units of one epoch that the scheduler lends to this worker, each once. A loop that is left early, and taken up
 * again, continues with those that are left.
 */
export class Units {
  readonly #ground: UnitsGround;
  readonly #name: string;
  readonly #options: UnitOptions;
  readonly #wait: WaitOptions;
  readonly #description: EpochDescription;
  #feed: UnitFeed | undefined;
  #isRetiring = false;
  #isClosed = false;

  /** @internal Throws BAD_ARGUMENT. */
  constructor(ground: UnitsGround, name: string, options: UnitOptions) {
    const { timeoutMs, signal } = options;
    this.#ground = ground;
    this.#name = name;
    this.#options = options;
    this.#wait = { timeoutMs, signal };
    this.#description = checkUnits(name, options);
  }

  /** Whether all units of the epoch are done, by whichever worker. */
  get isOver(): boolean {
    return this.#feed?.isOver ?? false;
  }

  /** Units of the epoch that were lent again, by any worker, because theirs died or gave them back unfinished. */
  get repeatedCount(): number {
    return this.#feed?.repeatedCount ?? 0;
  }

  /**
   * This worker is about to leave the epoch: its loop gets no more than the shares of rounds that it was dealt already,
   * and then ends. Called by itself when the job asks this worker to leave.
   */
  retire(): void {
    this.#isRetiring = true;
    this.#feed?.retire();
  }

  /**
   * Ends the loop: a unit that is waited for is not given, and the loop throws CLOSED. Waits for the scheduler to take
   * back what is not done, as long as `options` say, else as long as for a unit; it finds out by itself otherwise.
   */
  async close(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    this.#isClosed = true;
    await this.#feed?.close({ ...this.#wait, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Gives the units until the epoch is over. Throws SPEC_MISMATCH when another worker described it differently,
   * BAD_ARGUMENT when another loop of this worker reads it; DEADLINE when `timeoutMs` passes without a unit, with the
   * names of live workers that have asked for none; ABORTED, CLOSED, SCHEDULER_UNREACHABLE; QUEUE_FULL when more units
   * are taken than a worker can need: `done()` is missing.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Unit, void, undefined> {
    const { open, clock, events } = this.#ground;
    this.#checkOpen();
    const firstClock = clock.value;
    const feed = await open({ ...this.#options, firstClock });
    this.#feed = feed;
    const retire = (): void => this.retire();
    events.add("leaving", retire);
    if (events.isLeaving || this.#isRetiring) this.retire();
    try {
      this.#checkOpen(); // `close` found no feed
      for (;;) {
        const unit = await this.#next(feed, firstClock);
        if (unit === undefined) return;
        yield new Unit(unit, feed);
        if (unit.clock !== undefined) clock.advanceTo(unit.clock + 1); // before it waits for the scheduler
      }
    } finally {
      events.remove("leaving", retire);
      await feed.close(this.#wait); // Units.L3
    }
  }

  #checkOpen(): void {
    if (this.#isClosed)
      throw new WeighbridgeError("CLOSED", `the units of epoch ${this.#description.epoch} of "${this.#name}" were closed`);
  }

  /** Undefined at the end of the epoch. */
  async #next(feed: UnitFeed, firstClock: number): Promise<LentUnit | undefined> {
    const { clock, time, isBoundByClocks } = this.#ground;
    const sinceMs = time.nowMs();
    for (;;) {
      const unit = await feed.next(this.#wait, sinceMs);
      const isUnit = typeof unit !== "string";
      const due = isUnit ? unit.clock : feed.nextClock;
      if (due !== undefined) clock.advanceTo(due);
      // Units.L1
      else if (unit === "idle" && (isBoundByClocks() || clock.value > firstClock)) clock.advanceTo(clock.value + 1);
      if (isUnit) return unit;
      if (unit === "over") return undefined;
    }
  }
}

const LOOP = "for await (const unit of session.units(name, options))";
refuseFormer(Unit, { unit: "index" });
refuseFormer(Units, { next: LOOP, nextClock: `${LOOP}, which ends the clocks`, done: `unit.done() in ${LOOP}` });
