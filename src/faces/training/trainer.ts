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

import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument } from "../../base/errors.ts";
import type { Rendezvous } from "../../worker/rendezvous-client.ts";
import type { Unit } from "../../worker/unit-feed.ts";
import type { EpochEvent, StepEvent, TrainingCallback, TrainingView } from "./callbacks/callback.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import { leaveEpoch } from "./epoch-end.ts";
import type { WaitMeter } from "./event-loop.ts";
import type { Network } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import type { StepRunner } from "./step-runner.ts";
import type { TrainingGroup } from "./training-group.ts";
import type { UnitFeed, UnitReader } from "./unit-feed.ts";

export type TrainerOptions = {
  readonly network: Network;
  readonly open: OpenNetwork;
  readonly runner: StepRunner;
  readonly reader: UnitReader;
  readonly meter: WaitMeter;
  /** Units of an epoch, which counts from 0. */
  readonly openFeed: (epoch: number) => Promise<UnitFeed>;
  /** Brings the clocks of all workers together, at the end of an epoch. */
  readonly align: (epoch: number) => Promise<void>;
  /** Where workers that make every step together wait for each other at the end of an epoch. */
  readonly rendezvousOf: (epoch: number) => Rendezvous;
  readonly epochCount: number;
  /** The first epoch, from 0. */
  readonly firstEpoch: number;
  readonly overlaps: boolean;
  readonly callbacks: readonly TrainingCallback[];
  readonly view: TrainingView;
  readonly wait: WaitOptions;
  /** Fires when this worker is to leave (Trainer.T5). */
  readonly leaving?: AbortSignal | undefined;
};

/** The result of a training. */
export type TrainingResult = {
  readonly epochCount: number;
  /** Of this worker. */
  readonly stepCount: number;
  readonly sampleCount: number;
  readonly seconds: number;
  readonly waitShare: number;
  /** The mean over this worker's samples of the last epoch that it had some of. */
  readonly loss: number;
  /** Units that a dead worker had begun, and those that this worker computed again for it. */
  readonly repeatedCount: number;
  /** How often something was retried after a transient failure. */
  readonly retryCount: number;
  /** This worker was asked to leave (`session.leaving`), and has stopped early: the others go on. Close its session. */
  readonly hasLeft: boolean;
};

type EpochOutcome = { readonly repeatedCount: number; readonly isMissed: boolean; readonly hasLeft: boolean };
type Progress = { stepCount: number; globalStep: number; sampleCount: number; lossSum: number };

export class Trainer {
  readonly #options: TrainerOptions;
  #feed: UnitFeed | undefined;
  /** The unit whose updates are not acknowledged yet. */
  #unacknowledged: Unit | undefined;
  /** The unit that was fetched ahead. */
  #ahead: Unit | undefined;
  /** Units that were computed again because a worker died meanwhile. */
  #redoneCount = 0;

  constructor(options: TrainerOptions) {
    this.#options = options;
  }

  async run(): Promise<TrainingResult> {
    const { epochCount, firstEpoch, meter, open, leaving } = this.#options;
    const total = { stepCount: 0, sampleCount: 0, repeatedCount: 0, waitedSeconds: 0, seconds: 0 };
    let [loss, hasLeft] = [Number.NaN, false];
    for (let epoch = open.group?.foundEpoch() ?? firstEpoch; epoch < epochCount && !hasLeft; epoch++) {
      hasLeft = leaving?.aborted === true;
      if (hasLeft) break;
      if (open.group !== undefined) open.group.epoch = epoch;
      meter.restart();
      const progress: Progress = { stepCount: 0, globalStep: 0, sampleCount: 0, lossSum: 0 };
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
      if (!hasLeft) for (const callback of this.#options.callbacks) await callback.epochEnd?.(event, this.#options.view);
    }
    const { stepCount, sampleCount, repeatedCount, seconds, waitedSeconds } = total;
    const waitShare = seconds > 0 ? waitedSeconds / seconds : 0;
    return { epochCount, stepCount, sampleCount, seconds, waitShare, loss, repeatedCount, retryCount: open.retryCount, hasLeft };
  }

  /** Trainer.T4 */
  async #epoch(epoch: number, progress: Progress): Promise<EpochOutcome> {
    const { runner, open, align, leaving } = this.#options;
    const feed = await this.#options.openFeed(epoch);
    const isMissed = feed.isOver;
    const retire = (): void => feed.retire();
    leaving?.addEventListener("abort", retire);
    if (leaving?.aborted === true) retire();
    this.#feed = feed;
    try {
      if (open.group === undefined) {
        await this.#stepsAlone(epoch, progress);
        while (open.clocks < (feed.nextClock ?? 0)) open.endClock(); // the others may wait for it in rounds without it
        await this.#acknowledge();
        await open.flush();
        if (!feed.hasRetired) await align(epoch);
      } else {
        do await this.#stepsTogether(epoch, progress, open.group);
        while (!feed.hasRetired && !(await this.#leaveTogether(epoch, open.group)));
        if (feed.hasRetired) await open.flush();
      }
      const { repeatedCount, hasRetired: hasLeft } = feed;
      if (!hasLeft) await runner.refresh(); // Trainer.T2
      return { repeatedCount, isMissed, hasLeft };
    } finally {
      leaving?.removeEventListener("abort", retire);
      this.#feed = undefined;
      await feed.close();
    }
  }

  /** Only the servers synchronise the workers, if anything does. */
  async #stepsAlone(epoch: number, progress: Progress): Promise<void> {
    const { overlaps, runner, open } = this.#options;
    let isBehind = false;
    for (let unit = await this.#nextUnit(); unit !== "over"; unit = await this.#nextUnit()) {
      const clock = unit === "idle" ? (this.#feed?.nextClock ?? open.clocks + 1) : (unit.clock ?? 0);
      isBehind ||= clock > open.clocks; // rounds that this worker has no share of
      if (isBehind || unit === "idle") await this.#acknowledge();
      // The others may wait for it; this worker does not wait, because they may be done.
      while (open.clocks < clock) open.endClock();
      if (unit === "idle") continue;
      if (isBehind) await runner.refresh();
      isBehind = false;
      await this.#step(epoch, unit, progress, overlaps ? await this.#lookAhead() : undefined);
    }
  }

  /** Workers make every step together, also those without samples. */
  async #stepsTogether(epoch: number, progress: Progress, group: TrainingGroup): Promise<void> {
    const { overlaps, open, runner } = this.#options;
    let unit: Unit | "idle" | "over" = await this.#nextUnit();
    for (let isBegun = false; ; isBegun = false) {
      if (unit === "over" && this.#feed?.hasRetired === true) return; // Trainer.T5
      try {
        const next: Unit | undefined = overlaps && typeof unit !== "string" ? await this.#lookAhead() : undefined;
        const round: number | undefined = typeof unit === "string" ? undefined : (unit.clock ?? 0);
        const offer = { round, isOver: unit === "over", hasNext: next !== undefined };
        const { isStep, isDue, isOver, allHaveNext, mustRegroup } = await this.#options.meter.wait(group.agree(offer));
        if (mustRegroup) {
          await open.regroup();
          continue;
        }
        if (isOver) return;
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
  async #leaveTogether(epoch: number, group: TrainingGroup): Promise<boolean> {
    const { open, rendezvousOf } = this.#options;
    await open.flush();
    return await leaveEpoch({
      rendezvous: rendezvousOf(epoch),
      isBroken: () => group.isBroken || group.hasNewcomers, // who waits for the group is waited for at the rendezvous
      regroup: (signal) => open.regroup(signal),
    });
  }

  async #step(epoch: number, unit: Unit, progress: Progress, next: Unit | undefined): Promise<void> {
    const { network, reader, runner, open, overlaps } = this.#options;
    const takesIds = network.idsPerSample > 0;
    const nextIds = takesIds && next !== undefined ? reader.readIds(epoch, next) : undefined;
    if (reader.sizeOf(epoch, unit) === 0) {
      await this.#acknowledge();
      await this.#skip(nextIds); // the others prefetch theirs too
      this.#feed?.done(unit.unit);
      return;
    }
    const ids = takesIds ? reader.readIds(epoch, unit) : undefined;
    const samples = reader.read(epoch, unit);
    await this.#acknowledge(); // of the unit before: it had time while these were read
    const where = `epoch ${epoch + 1}, step ${unit.batch + 1}`;
    const loss = await runner.run({ ...samples, ids, nextIds, where });
    open.endClock();
    this.#unacknowledged = unit;
    if (!overlaps) {
      await runner.acknowledge();
      await runner.settle(); // before the unit is done: others end clocks for it only while the epoch is not over
      await this.#acknowledge();
    }
    progress.stepCount++;
    progress.globalStep = Math.max(progress.globalStep, unit.batch + 1);
    progress.sampleCount += samples.sampleCount;
    progress.lossSum += loss * samples.sampleCount;
    const event = this.#event(epoch, progress, loss);
    for (const callback of this.#options.callbacks) await callback.stepEnd?.(event, this.#options.view);
  }

  /** A step without samples, beside workers that have some. */
  async #skip(nextIds?: IdBatch): Promise<void> {
    const { runner, open } = this.#options;
    await runner.skip(nextIds);
    open.endClock();
  }

  /** The unit after the current one, for networks whose rows can be fetched early. */
  async #lookAhead(): Promise<Unit | undefined> {
    const { network, wait } = this.#options;
    if (network.idsPerSample === 0 || this.#feed === undefined || this.#ahead !== undefined) return this.#ahead;
    const ahead = await this.#feed.next(wait);
    if (typeof ahead === "string") return undefined; // `next` is called again when this unit is done
    this.#ahead = ahead;
    return ahead;
  }

  async #nextUnit(): Promise<Unit | "idle" | "over"> {
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

  #event(epoch: number, { stepCount, globalStep, sampleCount }: Progress, loss: number): StepEvent {
    const { meter, reader, epochCount } = this.#options;
    const seconds = Math.max(meter.seconds, 1e-9);
    return {
      epoch: epoch + 1,
      epochCount,
      step: stepCount,
      stepCount: reader.batchCount,
      globalStep,
      loss,
      samplesPerSec: sampleCount / seconds,
      stepsPerSec: stepCount / seconds,
      waitShare: meter.share,
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
