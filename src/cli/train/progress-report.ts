// progress-report — reports a worker's progress to the process that shows the training: now and then how far it is, and
// the loss of some steps.

import type { EpochEvent, StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { type Progress, sendReport } from "./report.ts";
import type { TrainPlan } from "./train-plan.ts";
import type { Exchange } from "./wait-split.ts";

const PROGRESS_MS = 100;
/** The loss of this many first steps is always reported. */
const FIRST_STEPS = 3;

export type ProgressReportOptions = {
  readonly plan: TrainPlan;
  readonly rank: number;
  /** Whether this worker reports for all. */
  readonly isReporter: () => boolean;
  readonly send?: typeof sendReport;
  readonly now?: () => number;
  /** What to add to times of `performance.now()` for a clock that all processes of the machine share. */
  readonly machineMs?: number;
};

export class ProgressReport implements TrainingCallback {
  readonly #options: ProgressReportOptions;
  readonly #send: typeof sendReport;
  readonly #now: () => number;
  /** Of the epochs before this one. */
  #sampleCount = 0;
  #seconds = 0;
  #waitedSeconds = 0;
  #sentSeconds = 0;
  #stepCount = 0;
  #dueAt = 0;
  #latest: Progress = { epoch: 0, step: 0, loss: Number.NaN, sampleCount: 0, seconds: 0, waitShare: 0, sendShare: 0 };
  #exchanges: Exchange[] = [];

  constructor(options: ProgressReportOptions) {
    this.#options = options;
    this.#send = options.send ?? sendReport;
    this.#now = options.now ?? ((): number => performance.now());
  }

  get latest(): Progress {
    return this.#latest;
  }

  stepEnd(event: StepEvent): void {
    const { plan, rank, isReporter } = this.#options;
    const before = this.#latest;
    this.#stepCount++;
    this.#latest = this.#progressOf(event);
    this.#note(event);
    const { epoch, step, loss } = this.#latest;
    // Without bsp a worker may not take every n-th batch itself.
    const roundOf = (at: number): number => Math.floor(at / plan.every);
    // The same again: a part is made up for that a worker has left which died.
    const lastStep = epoch === before.epoch ? before.step : 0;
    const isDue = step > lastStep && (this.#stepCount <= FIRST_STEPS || roundOf(step) > roundOf(lastStep));
    if (plan.every > 0 && isDue && isReporter()) this.#send({ kind: "loss", epoch, step, loss });
    if (this.#now() < this.#dueAt) return;
    this.#dueAt = this.#now() + PROGRESS_MS;
    this.#send({ kind: "progress", rank, ...this.#latest, exchanges: this.#exchanges });
    this.#exchanges = [];
  }

  #note({ exchange }: StepEvent): void {
    if (exchange === undefined) return;
    const { clock, reachedAtMs, waitsFromMs, waitedMs } = exchange;
    const { machineMs = 0 } = this.#options;
    const us = (ms: number): number => Math.round(1000 * ms);
    this.#exchanges.push([clock, us(reachedAtMs + machineMs), us(waitsFromMs + machineMs), us(waitedMs)]);
  }

  epochEnd(event: EpochEvent): void {
    if (event.isMissed) return;
    this.#latest = this.#progressOf(event);
    this.#sampleCount = this.#latest.sampleCount;
    this.#seconds = this.#latest.seconds;
    this.#waitedSeconds = this.#latest.seconds * this.#latest.waitShare;
    this.#sentSeconds = this.#latest.seconds * this.#latest.sendShare;
  }

  /** A StepEvent only counts this run's steps of its epoch. */
  #progressOf({ epoch, step, epochStep, loss, samplesPerSec, stepsPerSec, waitShare, sendShare }: StepEvent): Progress {
    const ownSeconds = step === 0 ? 0 : step / stepsPerSec;
    const seconds = this.#seconds + ownSeconds;
    const shareOf = (part: number): number => (seconds === 0 ? 0 : part / seconds);
    return {
      epoch,
      step: epochStep,
      loss,
      sampleCount: this.#sampleCount + Math.round(samplesPerSec * ownSeconds),
      seconds,
      waitShare: shareOf(this.#waitedSeconds + waitShare * ownSeconds),
      sendShare: shareOf(this.#sentSeconds + sendShare * ownSeconds),
    };
  }
}
