// callback — what is told while a Model trains, and to whom. Callbacks are called in their order, and awaited: what they do delays the training.

/** After every step of this worker. */
export type StepEvent = {
  /** From 1 on. */
  readonly epoch: number;
  readonly epochCount: number;
  /** Of this worker in this epoch, from 1 on. A worker that does the parts of one that died makes more of them than there are batches. */
  readonly step: number;
  /** Global batches of an epoch: about as many steps as this worker has in it. */
  readonly stepCount: number;
  /**
   * How far this worker is in the epoch: the furthest global batch that it has had a part of, from 1 to `stepCount`, in whichever run. Never goes back; it stays where
   * it is while a part is made up for that somebody else has left.
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
  /** A safetensors file of all that lives in this process: undefined when nothing does. Every update that was given is in. */
  encode(): Promise<Uint8Array | undefined>;
}

export interface TrainingCallback {
  begin?(view: TrainingView): void | Promise<void>;
  stepEnd?(event: StepEvent, view: TrainingView): void | Promise<void>;
  epochEnd?(event: EpochEvent, view: TrainingView): void | Promise<void>;
  /** After the last epoch, also when it ended with an error, which is given then. */
  end?(view: TrainingView, error?: unknown): void | Promise<void>;
}
