// slow-steps — makes a worker take a multiple of its time for every step, as a slower machine would: for measuring what that costs the others.

import { setTimeout as sleep } from "node:timers/promises";
import type { StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";

export class SlowSteps implements TrainingCallback {
  readonly #factor: number;
  /** When the step before ended, and how long this worker had waited by then. */
  #endedAt = performance.now();
  #waitedMs = 0;

  constructor(factor: number) {
    this.#factor = factor;
  }

  async stepEnd({ step, stepsPerSec, waitShare }: StepEvent): Promise<void> {
    const now = performance.now();
    const waitedMs = (1000 * step * waitShare) / stepsPerSec;
    const busyMs = Math.max(0, now - this.#endedAt - Math.max(0, waitedMs - this.#waitedMs));
    this.#waitedMs = waitedMs;
    await sleep((this.#factor - 1) * busyMs);
    this.#endedAt = performance.now();
  }

  epochEnd(): void {
    this.#waitedMs = 0;
  }
}
