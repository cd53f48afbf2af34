// callback — what is told while a Model trains, and to whom. Callbacks are called in their order, and awaited: what
// they do delays the training.

import { WeighbridgeError } from "../../../base/errors.ts";

/** After every step of this worker. */
export type StepEvent = {
  /** From 1 on. */
  readonly epoch: number;
  readonly epochCount: number;
  /** Steps of this worker in this epoch, from 1; more than there are batches if it does parts of a dead worker. */
  readonly step: number;
  /** Global batches of an epoch: about as many steps as this worker has in it. */
  readonly stepCount: number;
  /**
   * How far this worker is in the epoch: the furthest global batch that it has had a part of, from 1 to `stepCount`, in
   * whichever run. Never goes back; it stays where it is while a part is made up for that somebody else has left.
   */
  readonly globalStep: number;
  /** The mean of this worker's samples. */
  readonly loss: number;
  /** Of this worker, since the epoch began. */
  readonly samplesPerSec: number;
  readonly stepsPerSec: number;
  /** The share of its time, from 0 to 1, that this worker waited for parameters. */
  readonly waitShare: number;
};

export type EpochEvent = Omit<StepEvent, "loss"> & {
  /** The mean over this worker's samples of the epoch. */
  readonly loss: number;
  readonly seconds: number;
  /** Units of this epoch that a worker had begun which died. */
  readonly repeatedCount: number;
};

/** What a callback may ask of the training that it hears of. */
export interface TrainingView {
  /** This worker's number; 0 alone. */
  readonly rank: number;
  /** Whether parameters live on servers. */
  readonly isDistributed: boolean;
  /** Whether workers keep rows that the servers have whole at the end of an epoch alone. */
  readonly keepsRows: boolean;
  /** Saves what lives on servers, as session.checkpoint does. Only where it is distributed. */
  checkpoint(options: {
    readonly job: string;
    readonly keep: number | undefined;
  }): Promise<{ readonly path: string; readonly step: number }>;
  /** A safetensors file of what lives in this process, with every update so far; undefined if nothing does. */
  encode(): Promise<Uint8Array | undefined>;
}

export interface TrainingCallback {
  begin?(view: TrainingView): void | Promise<void>;
  stepEnd?(event: StepEvent, view: TrainingView): void | Promise<void>;
  epochEnd?(event: EpochEvent, view: TrainingView): void | Promise<void>;
  /** After the last epoch, also when it ended with an error, which is given then. */
  end?(view: TrainingView, error?: unknown): void | Promise<void>;
}

export class LossMonitor implements TrainingCallback {
  readonly #perPrintTimes: number;
  readonly #print: (line: string) => void;
  #stepCount = 0;
  /** Of the last line that was due. */
  #last = { epoch: 0, globalStep: 0 };

  /** A line for the first step and then for every `perPrintTimes`-th; 0: none. Throws BAD_ARGUMENT. */
  constructor(perPrintTimes = 1, print: (line: string) => void = (line) => console.log(line)) {
    if (!(Number.isSafeInteger(perPrintTimes) && perPrintTimes >= 0)) {
      throw new WeighbridgeError("BAD_ARGUMENT", `perPrintTimes is a whole number from 0 on, not ${perPrintTimes}`);
    }
    this.#perPrintTimes = perPrintTimes;
    this.#print = print;
  }

  /** Of each global step one line at most: a part that is made up for after a death is none of its own. */
  stepEnd({ epoch, globalStep, loss }: StepEvent): void {
    if (epoch === this.#last.epoch && globalStep === this.#last.globalStep) return;
    this.#last = { epoch, globalStep };
    this.#stepCount++;
    if (this.#perPrintTimes === 0 || (this.#stepCount > 1 && this.#stepCount % this.#perPrintTimes !== 0)) return;
    this.#print(`epoch: ${epoch} step: ${globalStep}, loss is ${loss.toFixed(6)}`);
  }
}

export class TimeMonitor implements TrainingCallback {
  readonly #print: (line: string) => void;

  constructor(print: (line: string) => void = (line) => console.log(line)) {
    this.#print = print;
  }

  epochEnd({ seconds, step }: EpochEvent): void {
    const milliseconds = seconds * 1000;
    this.#print(`epoch time: ${milliseconds.toFixed(3)} ms, per step time: ${(milliseconds / Math.max(1, step)).toFixed(3)} ms`);
  }
}
