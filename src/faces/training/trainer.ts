// trainer — runs the epochs of a training: fetches units from a feed, runs a step for each (step-runner.ts) and calls
// the callbacks. Parameters live where open-network.ts puts them.
//
// Invariants:
//   Trainer.T1. A unit is reported as done after its updates are acknowledged.
//   Trainer.T2. An epoch ends when the units of all workers are done; then the values here include all its updates.
//   Trainer.T3. Workers that make every step together leave an epoch together (epoch-end.ts), even if one of them dies.

import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Rendezvous } from "../../worker/rendezvous-client.ts";
import type { EpochEvent, StepEvent, TrainingCallback, TrainingView } from "./callbacks/callback.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import { leaveEpoch } from "./epoch-end.ts";
import type { WaitMeter } from "./event-loop.ts";
import type { Network } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import type { StepRunner } from "./step-runner.ts";
import type { TrainingGroup } from "./training-group.ts";
import type { Unit, UnitFeed, UnitReader } from "./unit-feed.ts";

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
};

/** The result of a training. */
export type TrainingResult = {
  readonly epochCount: number;
  /** Of this worker. */
  readonly stepCount: number;
  readonly sampleCount: number;
  readonly seconds: number;
  readonly waitShare: number;
  /** The mean over this worker's samples of the last epoch. */
  readonly loss: number;
  /** Units that a dead worker had begun, and those that this worker computed again for it. */
  readonly repeatedCount: number;
  /** How often something was retried after a transient failure. */
  readonly retryCount: number;
};

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
    const { epochCount, firstEpoch, meter, open } = this.#options;
    const total = { stepCount: 0, sampleCount: 0, repeatedCount: 0, waitedSeconds: 0, seconds: 0 };
    let loss = Number.NaN;
    for (let epoch = open.group?.foundEpoch() ?? firstEpoch; epoch < epochCount; epoch++) {
      if (open.group !== undefined) open.group.epoch = epoch;
      meter.restart();
      const progress: Progress = { stepCount: 0, globalStep: 0, sampleCount: 0, lossSum: 0 };
      const redoneBefore = this.#redoneCount;
      const repeatedCount = (await this.#epoch(epoch, progress)) + this.#redoneCount - redoneBefore;
      loss = progress.lossSum / progress.sampleCount;
      const event: EpochEvent = { ...this.#event(epoch, progress, loss), seconds: meter.seconds, repeatedCount };
      total.stepCount += progress.stepCount;
      total.sampleCount += progress.sampleCount;
      total.repeatedCount += repeatedCount;
      total.seconds += event.seconds;
      total.waitedSeconds += event.seconds * event.waitShare;
      for (const callback of this.#options.callbacks) await callback.epochEnd?.(event, this.#options.view);
    }
    const { stepCount, sampleCount, repeatedCount, seconds, waitedSeconds } = total;
    const waitShare = seconds > 0 ? waitedSeconds / seconds : 0;
    return { epochCount, stepCount, sampleCount, seconds, waitShare, loss, repeatedCount, retryCount: open.retryCount };
  }

  /** Returns how many units were repeated. */
  async #epoch(epoch: number, progress: Progress): Promise<number> {
    const { runner, open, align } = this.#options;
    const feed = await this.#options.openFeed(epoch);
    this.#feed = feed;
    try {
      if (open.group === undefined) {
        await this.#stepsAlone(epoch, progress);
        await this.#acknowledge();
        await open.flush();
        await align(epoch);
      } else {
        do await this.#stepsTogether(epoch, progress, open.group);
        while (!(await this.#leaveTogether(epoch, open.group)));
      }
      await runner.refresh(); // T2
      return feed.repeatedCount;
    } finally {
      this.#feed = undefined;
      await feed.close();
    }
  }

  /** Only the servers synchronise the workers, if anything does. */
  async #stepsAlone(epoch: number, progress: Progress): Promise<void> {
    const { overlaps, runner, open } = this.#options;
    let isBehind = false;
    for (let unit = await this.#nextUnit(); unit !== "over"; unit = await this.#nextUnit()) {
      if (isBehind || unit === "idle") await this.#acknowledge();
      if (unit === "idle") {
        open.endClock(); // the others may wait for it; this worker does not wait, because they may be done
        isBehind = true;
        continue;
      }
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
      try {
        const next = overlaps && typeof unit !== "string" ? await this.#lookAhead() : undefined;
        const offer = { hasUnit: typeof unit !== "string", isOver: unit === "over", hasNext: next !== undefined };
        const { isStep, isOver, allHaveNext, mustRegroup } = await this.#options.meter.wait(group.agree(offer));
        if (mustRegroup) {
          await open.regroup();
          continue;
        }
        if (isOver) return;
        if (isStep && typeof unit === "string") await this.#skip();
        else if (isStep && typeof unit !== "string") {
          isBegun = true;
          await this.#step(epoch, unit, progress, allHaveNext ? next : undefined);
        }
        await this.#acknowledge(); // a step of all workers is complete, or is repeated
        unit = await this.#nextUnit();
      } catch (thrown) {
        if (!group.isBroken) throw thrown;
        if (isBegun) this.#redoneCount++;
        this.#unacknowledged = undefined;
        await open.regroup();
        await runner.drop(); // the unit is computed again
      }
    }
  }

  /** T3. False: not every worker knows that the epoch is over, and they agree once more. */
  async #leaveTogether(epoch: number, group: TrainingGroup): Promise<boolean> {
    const { open, rendezvousOf } = this.#options;
    await open.flush();
    return await leaveEpoch({
      rendezvous: rendezvousOf(epoch),
      isBroken: () => group.isBroken,
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
      await this.#acknowledge();
      await runner.settle();
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

  /** T1 */
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
  throw new WeighbridgeError(
    "BAD_ARGUMENT",
    `a training has a whole number of epochs from 1 on, and begins with one of them: not ${firstEpoch} of ${epochCount}`,
  );
}
