// callback — the events of a training Model, and their listeners. Callbacks are called in order and awaited: they delay
// the training. One that returns false stops it.

import { badArgument } from "../../../base/errors.ts";
import type { Log } from "../../../base/log.ts";
import type { ExchangeTimes } from "../step-times.ts";

/** After every step of this worker. */
export type StepEvent = {
  /** From 1 on. */
  readonly epoch: number;
  /** How many epochs the training has, with those before it was resumed. */
  readonly epochCount: number;
  /** Steps of this worker in this epoch, from 1; more than there are batches if it does parts of a dead worker. */
  readonly step: number;
  /** Global batches of an epoch: about as many steps as this worker has in it. */
  readonly stepCount: number;
  /**
   * How far this worker is in the epoch: the furthest global batch that it has had a part of, from 1 to `stepCount`,
   * over all runs. Never decreases; it does not change while this worker does parts of a dead one.
   */
  readonly epochStep: number;
  /**
   * The step of the whole training, over all epochs and all workers: the clocks that have ended. Schedules and the
   * names of checkpoints go by it. It continues after a resume. Without a session it counts from what was loaded.
   */
  readonly globalStep: number;
  /** The mean of this worker's samples. */
  readonly loss: number;
  /** Of this worker, since the epoch began. */
  readonly samplesPerSec: number;
  /** The steps of this worker, since the epoch began. */
  readonly stepsPerSec: number;
  /** The share of its time, from 0 to 1, that this worker waited for parameters. */
  readonly waitShare: number;
  /** The share of its time that it handed gradients to its links; what is left of both it computed. */
  readonly sendShare: number;
  /** @internal Of the last clock whose values have been used. */
  readonly exchange?: ExchangeTimes | undefined;
};

/** After every epoch of this worker. */
export type EpochEvent = Omit<StepEvent, "loss"> & {
  /** The mean over this worker's samples of the epoch; NaN without any. */
  readonly loss: number;
  /** How long the epoch took at this worker. */
  readonly seconds: number;
  /** Units of this epoch that a dead worker had begun. */
  readonly repeatedCount: number;
  /** This worker came to the epoch when all of its units were done, perhaps long ago: it had no part in it. */
  readonly isMissed: boolean;
};

/** What a callback may use of its training. */
export interface TrainingView {
  /** This worker's number; 0 alone. */
  readonly rank: number;
  /** Whether parameters live on servers. */
  readonly isDistributed: boolean;
  /** Whether workers cache rows, which the servers have complete only at the end of an epoch. */
  readonly keepsRows: boolean;
  /** Saves the parameters on servers, as session.checkpoint does. Only if the training is distributed. */
  checkpoint(options: {
    readonly job: string;
    readonly keep: number | undefined;
  }): Promise<{ readonly path: string; readonly step: number }>;
  /** @internal Where warnings of the training go. */
  readonly log: Log;
  /** A safetensors file of the parameters in this process, with every update so far; undefined if there are none. */
  encode(): Promise<Uint8Array | undefined>;
}

/** `false`, or a promise of it, stops the training; all else lets it continue. */
// biome-ignore lint/suspicious/noConfusingVoidType: a hook that returns nothing has a promise of void
export type CallbackOutcome = void | boolean | Promise<void | boolean>;

/**
 * A hook may call `eval`, `predict` and `encode` of the model that is trained. One of `begin`, `stepEnd` and `epochEnd`
 * that returns false stops the training at all workers: one process, and workers that reduce among themselves, stop
 * after the step; other workers after the epoch. Workers of an asp training whose parameters are all on servers wait
 * for no other: each stops by its own callbacks. `train` then resolves with `hasStopped`. An epoch that was stopped
 * within has no `epochEnd`.
 */
export interface TrainingCallback {
  /** Called before the first step. */
  begin?(view: TrainingView): CallbackOutcome;
  /** Called after every step of this worker. */
  stepEnd?(event: StepEvent, view: TrainingView): CallbackOutcome;
  /** At every worker for every epoch, also one that it missed: callbacks may wait for each other. */
  epochEnd?(event: EpochEvent, view: TrainingView): CallbackOutcome;
  /** Called after the last epoch, also if the training failed, then with the error. */
  end?(view: TrainingView, error?: unknown): void | Promise<void>;
}

/** Prints the loss (MindSpore: LossMonitor). */
export class LossMonitor implements TrainingCallback {
  readonly #perPrintTimes: number;
  readonly #print: (line: string) => void;
  #stepCount = 0;
  /** Of the last line that was due. */
  #last = { epoch: 0, epochStep: 0 };

  /** A line for the first step and then for every `perPrintTimes`-th; 0: none. Throws BAD_ARGUMENT. */
  constructor(perPrintTimes = 1, print: (line: string) => void = (line) => console.log(line)) {
    if (!(Number.isSafeInteger(perPrintTimes) && perPrintTimes >= 0)) {
      throw badArgument(`perPrintTimes is a whole number from 0 on, not ${perPrintTimes}`);
    }
    this.#perPrintTimes = perPrintTimes;
    this.#print = print;
  }

  /** At most one line per step of the epoch: a part that is done for a dead worker has none. */
  stepEnd({ epoch, epochStep, loss }: StepEvent): void {
    if (epoch === this.#last.epoch && epochStep === this.#last.epochStep) return;
    this.#last = { epoch, epochStep };
    this.#stepCount++;
    if (this.#perPrintTimes === 0 || (this.#stepCount > 1 && this.#stepCount % this.#perPrintTimes !== 0)) return;
    this.#print(`epoch: ${epoch} step: ${epochStep}, loss is ${loss.toFixed(6)}`);
  }
}

/** Prints how long epochs take (MindSpore: TimeMonitor). */
export class TimeMonitor implements TrainingCallback {
  readonly #print: (line: string) => void;

  constructor(print: (line: string) => void = (line) => console.log(line)) {
    this.#print = print;
  }

  epochEnd({ seconds, step, isMissed }: EpochEvent): void {
    if (isMissed) return;
    const milliseconds = seconds * 1000;
    this.#print(`epoch time: ${milliseconds.toFixed(3)} ms, per step time: ${(milliseconds / Math.max(1, step)).toFixed(3)} ms`);
  }
}
