// report — what the workers of a training job send to the process that shows it: one line of JSON per report.

import type { Exchange } from "./wait-split.ts";

export type WorkerReport =
  /** The data is loaded and the network is built. */
  | { readonly kind: "ready"; readonly data: string; readonly model: string }
  /** A line for people: the loss of this worker's part of a step. Epochs and steps count from 1 here. */
  | { readonly kind: "loss"; readonly epoch: number; readonly step: number; readonly loss: number }
  | ({
      readonly kind: "progress";
      readonly rank: number;
      /** Since the report before. */
      readonly exchanges: readonly Exchange[];
    } & Progress)
  /** What one process makes of the same training. */
  | { readonly kind: "alone"; readonly stepsPerSec: number }
  /** Saved at the end of this epoch, or in the middle of the one after it. */
  | { readonly kind: "checkpoint"; readonly path: string; readonly epoch: number }
  | ({
      readonly kind: "done";
      readonly rank: number;
      readonly repeatedCount: number;
      readonly byteCount: number;
      /** Of a worker that caches rows. */
      readonly cache?: RowHits;
    } & Progress)
  | { readonly kind: "result"; readonly result: Result };

/** Of one worker, since it began. */
export type Progress = {
  readonly epoch: number;
  readonly step: number;
  readonly loss: number;
  readonly sampleCount: number;
  readonly seconds: number;
  /** The share of the time that it waited for parameters. */
  readonly waitShare: number;
  /** The share that it handed gradients to its links. */
  readonly sendShare: number;
};

/** Where the distinct rows of batches were found. */
export type RowHits = { readonly device: number; readonly host: number; readonly server: number };

/** How good the model is on data it was not trained on. */
export type Result = {
  readonly facts: readonly (readonly [name: string, text: string])[];
  /** A table with a head, if there is more to show. */
  readonly table?: readonly (readonly string[])[];
  /** The goal of the training, in words, and whether the model reached it. */
  readonly objective: { readonly text: string; readonly isReached: boolean };
};

export function sendReport(report: WorkerReport): void {
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

/** Undefined for a line that is not a report. */
export function parseReport(line: string): WorkerReport | undefined {
  if (!line.startsWith('{"kind":')) return undefined;
  return JSON.parse(line) as WorkerReport; // Written by sendReport.
}
