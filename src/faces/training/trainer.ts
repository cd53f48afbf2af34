// trainer — runs the epochs of a training: fetches units from a feed, runs a step for each (step-runner.ts) and calls
// the callbacks. Parameters live where open-network.ts puts them.
//
// Invariants:
//   Trainer.T1. A unit is reported as done after its updates are acknowledged.
//   Trainer.T2. An epoch ends when the units of all workers are done; then the values here include all its updates.
//   Trainer.T3. Workers that make every step together leave an epoch together (epoch-end.ts), even if one of them dies.
//   Trainer.T4. Every worker comes to the end of every epoch, with its callbacks, also one that came when all units of
//               the epoch were done: others may wait for it there. What is over for all of them does not delay it.
//   Trainer.T5. A worker that is asked to leave does what others count on, and then stops, between two steps and
//               without the end of the epoch: no step of the others fails, and no unit is done again.
//   Trainer.T6. If a callback of one worker stops the training, all workers stop at one place: those of a group before
//               the same step, others after the same epoch. A worker alone stops after the step. Workers of an asp
//               training never wait for each other: each stops after an epoch by its own callbacks.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument } from "../../base/errors.ts";
import type { Rendezvous } from "../../worker/rendezvous-client.ts";
import type { LentUnit } from "../../worker/unit-feed.ts";
import type { EpochEvent, StepEvent } from "./callbacks/callback.ts";
import type { CallbackCalls } from "./callbacks/callback-calls.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import { leaveEpoch } from "./epoch-end.ts";
import type { Network } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import type { StepRunner } from "./step-runner.ts";
import type { StepTimes } from "./step-times.ts";
import type { TrainingGroup } from "./training-group.ts";
import type { UnitFeed, UnitReader } from "./unit-feed.ts";

export type TrainerOptions = {
  readonly network: Network;
  readonly open: OpenNetwork;
  readonly runner: StepRunner;
  readonly reader: UnitReader;
  readonly meter: StepTimes;
  /** Units of an epoch, which counts from 0. */
  readonly openFeed: (epoch: number) => Promise<UnitFeed>;
  /** Brings the clocks of all workers together, at the end of an epoch. */
  readonly align: (epoch: number) => Promise<void>;
  /** Where workers that make every step together wait for each other, at the end of an epoch or of the training. */
  readonly rendezvousOf: (epoch: number, isStopping: boolean) => Rendezvous;
  /** Whether any worker stops the training after this epoch: they tell each other, unless they are asynchronous. */
  readonly anyStops: (epoch: number, isStopping: boolean) => Promise<boolean>;
  readonly epochCount: number;
  /** The first epoch, from 0. */
  readonly firstEpoch: number;
  readonly overlaps: boolean;
  readonly callbacks: CallbackCalls;
  readonly wait: WaitOptions;
  /** Says when this worker is to leave (Trainer.T5). */
  readonly leaving?: Pick<Session, "isLeaving" | "addEventListener" | "removeEventListener"> | undefined;
};

/** The result of a training. */
export type TrainingResult = {
  /** How many epochs the training had, with those before it was resumed. */
  readonly epochCount: number;
  /** Of this worker. */
  readonly stepCount: number;
  /** The samples of this worker. */
  readonly sampleCount: number;
  /** How long the training took. */
  readonly seconds: number;
  /** The share of that time, from 0 to 1, that this worker waited for parameters. */
  readonly waitShare: number;
  /** The share that it handed gradients to its links. */
  readonly sendShare: number;
  /** The mean over this worker's samples of the last epoch that it had some of. */
  readonly loss: number;
  /** Units that a dead worker had begun, and those that this worker computed again for it. */
  readonly repeatedCount: number;
  /** How often something was retried after a transient failure. */
  readonly retryCount: number;
  /** This worker was asked to leave, and has stopped early: the others continue. Close its session. */
  readonly hasLeft: boolean;
  /** A callback, perhaps of another worker, has stopped the training (Trainer.T6). */
  readonly hasStopped: boolean;
};

/** `isCut`: stopped within. */
type EpochOutcome = { readonly repeatedCount: number; readonly isMissed: boolean; readonly hasLeft: boolean; readonly isCut: boolean };
type Progress = { stepCount: number; epochStep: number; sampleCount: number; lossSum: number };

export class Trainer {
  readonly #options: TrainerOptions;
  #feed: UnitFeed | undefined;
  /** The unit whose updates are not acknowledged yet. */
  #unacknowledged: LentUnit | undefined;
  /** The unit that was fetched ahead. */
  #ahead: LentUnit | undefined;
  /** Units that were computed again because a worker died meanwhile. */
  #redoneCount = 0;

  constructor(options: TrainerOptions) {
    this.#options = options;
  }

  async run(): Promise<TrainingResult> {
    const { epochCount, firstEpoch, meter, open, leaving, callbacks } = this.#options;
    const total = { stepCount: 0, sampleCount: 0, repeatedCount: 0, waitedSeconds: 0, sentSeconds: 0, seconds: 0 };
    let [loss, hasLeft, hasStopped] = [Number.NaN, false, this.#stopsAlone];
    for (let epoch = open.group?.foundEpoch() ?? firstEpoch; epoch < epochCount && !hasLeft && !hasStopped; epoch++) {
      hasLeft = leaving?.isLeaving === true;
      if (hasLeft) break;
      if (open.group !== undefined) open.group.epoch = epoch;
      meter.restart();
      const progress: Progress = { stepCount: 0, epochStep: 0, sampleCount: 0, lossSum: 0 };
      const redoneBefore = this.#redoneCount;
      const outcome = await this.#epoch(epoch, progress);
      const repeatedCount = outcome.repeatedCount + this.#redoneCount - redoneBefore;
      const { isMissed } = outcome;
      hasLeft = outcome.hasLeft;
      const epochLoss = progress.lossSum / progress.sampleCount;
      if (progress.sampleCount > 0) loss = epochLoss;
      const event: EpochEvent = { ...this.#event(epoch, progress, epochLoss), seconds: meter.seconds, repeatedCount, isMissed };
      total.stepCount += progress.stepCount;
      total.sampleCount += progress.sampleCount;
      total.repeatedCount += repeatedCount;
      total.seconds += event.seconds;
      total.waitedSeconds += event.seconds * event.waitShare;
      total.sentSeconds += event.seconds * event.sendShare;
      hasStopped = outcome.isCut;
      if (hasLeft || hasStopped) break;
      await callbacks.epochEnd(event);
      hasStopped = this.#stopsAlone || (epoch + 1 < epochCount && (await this.#anyStops(epoch)));
    }
    const { stepCount, sampleCount, repeatedCount, seconds, waitedSeconds, sentSeconds } = total;
    const shareOf = (part: number): number => (seconds > 0 ? part / seconds : 0);
    return {
      epochCount,
      stepCount,
      sampleCount,
      seconds,
      waitShare: shareOf(waitedSeconds),
      sendShare: shareOf(sentSeconds),
      loss,
      repeatedCount,
      retryCount: open.retryCount,
      hasLeft,
      hasStopped,
    };
  }

  /** Trainer.T6 */
  get #stopsAlone(): boolean {
    const { open, callbacks } = this.#options;
    return callbacks.isStopping && open.group === undefined && (open.session === undefined || open.session.workerCount === 1);
  }

  /** Trainer.T6. Members of a group agree before their next step. */
  async #anyStops(epoch: number): Promise<boolean> {
    const { open, anyStops, callbacks } = this.#options;
    return open.group === undefined && (await anyStops(epoch, callbacks.isStopping));
  }

  /** Trainer.T4 */
  async #epoch(epoch: number, progress: Progress): Promise<EpochOutcome> {
    const { runner, open, align, leaving } = this.#options;
    const feed = await this.#options.openFeed(epoch);
    const isMissed = feed.isOver;
    let isCut = false;
    const retire = (): void => feed.retire();
    leaving?.addEventListener("leaving", retire);
    if (leaving?.isLeaving === true) retire();
    this.#feed = feed;
    try {
      if (open.group === undefined) {
        isCut = await this.#stepsAlone(epoch, progress);
        // The others may wait for it in rounds without it.
        while (!isCut && open.clocks < (feed.nextClock ?? 0)) this.#endClock();
        await this.#acknowledge();
        await open.flush();
        if (!feed.hasRetired && !isCut) await align(epoch);
      } else {
        do isCut = await this.#stepsTogether(epoch, progress, open.group);
        while (!feed.hasRetired && !(await this.#leaveTogether(epoch, open.group, isCut)));
        if (feed.hasRetired) await open.flush();
      }
      const { repeatedCount, hasRetired: hasLeft } = feed;
      if (!hasLeft) await runner.refresh(); // Trainer.T2
      return { repeatedCount, isMissed, hasLeft, isCut: isCut && !hasLeft };
    } finally {
      leaving?.removeEventListener("leaving", retire);
      this.#feed = undefined;
      await feed.close();
    }
  }

  /** Only the servers synchronise the workers, if anything does. True: a callback has stopped the training. */
  async #stepsAlone(epoch: number, progress: Progress): Promise<boolean> {
    const { overlaps, runner, open } = this.#options;
    let isBehind = false;
    for (let unit = await this.#nextUnit(); unit !== "over"; unit = await this.#nextUnit()) {
      if (this.#stopsAlone) return true;
      const clock = unit === "idle" ? (this.#feed?.nextClock ?? open.clocks + 1) : (unit.clock ?? 0);
      isBehind ||= clock > open.clocks; // rounds that this worker has no share of
      if (isBehind || unit === "idle") await this.#acknowledge();
      // The others may wait for it; this worker does not wait, because they may be done.
      while (open.clocks < clock) this.#endClock();
      if (unit === "idle") continue;
      if (isBehind) await runner.refresh();
      isBehind = false;
      await this.#step(epoch, unit, progress, overlaps ? await this.#lookAhead() : undefined);
    }
    return false;
  }

  /** Workers make every step together, also those without samples. True: a callback has stopped the training. */
  async #stepsTogether(epoch: number, progress: Progress, group: TrainingGroup): Promise<boolean> {
    const { overlaps, open, runner, callbacks } = this.#options;
    let unit: LentUnit | "idle" | "over" = await this.#nextUnit();
    for (let isBegun = false; ; isBegun = false) {
      if (unit === "over" && this.#feed?.hasRetired === true) return false; // Trainer.T5
      try {
        const next: LentUnit | undefined = overlaps && typeof unit !== "string" ? await this.#lookAhead() : undefined;
        const round: number | undefined = typeof unit === "string" ? undefined : (unit.clock ?? 0);
        const offer = { round, isOver: unit === "over", hasNext: next !== undefined, isStopping: callbacks.isStopping };
        const { isStep, isDue, isOver, allHaveNext, mustRegroup, mustStop } = await this.#options.meter.wait(group.agree(offer));
        if (mustRegroup) {
          await open.regroup();
          continue;
        }
        if (isOver) return false;
        if (mustStop) {
          callbacks.isStopping = true;
          this.#ahead = undefined; // the feed takes back what is not done
          return true;
        }
        if (isDue && typeof unit !== "string") {
          isBegun = true;
          await this.#step(epoch, unit, progress, allHaveNext ? next : undefined);
        } else if (isStep) await this.#skip();
        await this.#acknowledge(); // a step of all workers is complete, or is repeated
        if (isDue || typeof unit === "string") unit = await this.#nextUnit();
      } catch (thrown) {
        if (!group.isBroken) throw thrown;
        if (isBegun) this.#redoneCount++;
        this.#unacknowledged = undefined;
        await open.regroup();
        await runner.drop(); // the unit is computed again
      }
    }
  }

  /** Trainer.T3. False: not every worker knows that the epoch is over, and they agree once more. */
  async #leaveTogether(epoch: number, group: TrainingGroup, isStopping: boolean): Promise<boolean> {
    const { open, rendezvousOf } = this.#options;
    await open.flush();
    return await leaveEpoch({
      rendezvous: rendezvousOf(epoch, isStopping),
      isBroken: () => group.isBroken || group.hasNewcomers, // who waits for the group is waited for at the rendezvous
      regroup: (signal) => open.regroup(signal),
    });
  }

  async #step(epoch: number, unit: LentUnit, progress: Progress, next: LentUnit | undefined): Promise<void> {
    const { network, reader, runner, overlaps, wait } = this.#options;
    const { signal } = wait;
    const takesIds = network.idsPerSample > 0;
    const nextIds = takesIds && next !== undefined ? await reader.readIds(epoch, next, signal) : undefined;
    if (reader.sizeOf(epoch, unit) === 0) {
      await this.#acknowledge();
      await this.#skip(nextIds); // the others prefetch theirs too
      this.#feed?.done(unit.unit);
      return;
    }
    const ids = takesIds ? await reader.readIds(epoch, unit, signal) : undefined;
    const samples = await reader.read(epoch, unit, signal);
    await this.#acknowledge(); // of the unit before: it had time while these were read
    const where = `epoch ${epoch + 1}, step ${unit.batch + 1}`;
    const loss = await runner.run({ ...samples, ids, nextIds, where });
    this.#endClock();
    this.#unacknowledged = unit;
    if (!overlaps) {
      await runner.acknowledge();
      await runner.settle(); // before the unit is done: others end clocks for it only while the epoch is not over
      await this.#acknowledge();
    }
    progress.stepCount++;
    progress.epochStep = Math.max(progress.epochStep, unit.batch + 1);
    progress.sampleCount += samples.sampleCount;
    progress.lossSum += loss * samples.sampleCount;
    await this.#options.callbacks.stepEnd(this.#event(epoch, progress, loss));
  }

  /** A step without samples, beside workers that have some. */
  async #skip(nextIds?: IdBatch): Promise<void> {
    await this.#options.runner.skip(nextIds);
    this.#endClock();
  }

  #endClock(): void {
    const { open, meter } = this.#options;
    open.endClock();
    meter.reached(open.clocks);
  }

  /** The unit after the current one, for networks whose rows can be fetched early. */
  async #lookAhead(): Promise<LentUnit | undefined> {
    const { network, wait } = this.#options;
    if (network.idsPerSample === 0 || this.#feed === undefined || this.#ahead !== undefined) return this.#ahead;
    const ahead = await this.#feed.next(wait);
    if (typeof ahead === "string") return undefined; // `next` is called again when this unit is done
    this.#ahead = ahead;
    return ahead;
  }

  async #nextUnit(): Promise<LentUnit | "idle" | "over"> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead !== undefined) return ahead;
    const feed = this.#feed!;
    if (!feed.isStocked) await this.#acknowledge(); // the end of the epoch may wait for this worker's own last unit
    return await feed.next(this.#options.wait);
  }

  /** Trainer.T1 */
  async #acknowledge(): Promise<void> {
    await this.#options.runner.acknowledge();
    const unit = this.#unacknowledged;
    this.#unacknowledged = undefined;
    if (unit !== undefined) this.#feed?.done(unit.unit);
  }

  #event(epoch: number, { stepCount, epochStep, sampleCount }: Progress, loss: number): StepEvent {
    const { open, meter, reader, epochCount } = this.#options;
    const seconds = Math.max(meter.seconds, 1e-9);
    return {
      epoch: epoch + 1,
      epochCount,
      step: stepCount,
      stepCount: reader.batchCount,
      epochStep,
      globalStep: open.clocks,
      loss,
      samplesPerSec: sampleCount / seconds,
      stepsPerSec: stepCount / seconds,
      ...meter.shares,
      exchange: meter.lastExchange,
    };
  }
}

/** Throws BAD_ARGUMENT. */
export function checkEpochs(epochCount: number, firstEpoch: number): void {
  if (
    Number.isSafeInteger(epochCount) &&
    epochCount >= 1 &&
    Number.isSafeInteger(firstEpoch) &&
    firstEpoch >= 0 &&
    firstEpoch <= epochCount
  )
    return;
  throw badArgument(`a training has a whole number of epochs from 1 on, and begins with one of them: not ${firstEpoch} of ${epochCount}`);
}
