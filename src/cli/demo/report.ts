// report — what the workers of the demo tell the process that shows it: one JSON text per line of their standard output.

import type { Quality } from "./quality.ts";

export type Report =
  /** The cluster is complete and the data is there. */
  | { readonly kind: "ready"; readonly rank: number; readonly before: Quality }
  | { readonly kind: "progress"; readonly rank: number; readonly step: number; readonly loss: number }
  /** On data held out, now. */
  | { readonly kind: "quality"; readonly quality: Quality }
  | { readonly kind: "done"; readonly rank: number; readonly traffic: Traffic }
  | { readonly kind: "result"; readonly result: Result };

export type Traffic = {
  readonly seconds: number;
  readonly updateCount: number;
  /** Weights pushed and pulled, counted each time. */
  readonly weightCount: number;
  /** Of keys and values, in both directions. */
  readonly byteCount: number;
};

export type Result = {
  readonly after: Quality;
  /** Of the weights that the data was made with. */
  readonly best: Quality;
  /** How many of the model's keys each server holds. */
  readonly keysPerServer: readonly number[];
};

export function sendReport(report: Report): void {
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

/** Undefined for a line that is none. */
export function parseReport(line: string): Report | undefined {
  if (!line.startsWith('{"kind":')) return undefined;
  return JSON.parse(line) as Report; // Written by sendReport.
}
