// local-optimizer — what a cache can do by itself with its worker's own updates before and after a server has applied them.
//
// `sum` and `sgd` have no state but the row itself: a copy of the row, the summed gradients and the server's learning rate give the very bits
// that the server computes, by the same kernel. So a copy goes on being valid when the worker's own updates are pushed, and pending ones are
// laid over it when it is read. Every other optimizer has slots that only the server has, so that the row after a step cannot be known here: own
// updates show after they were pushed, a row with pending ones is pushed before it is read, and its copy counts for nothing until then. Rows
// that are read and not updated are cached all the same. (assign, min and max are not offered: a cache pushes sums.)

import type { Arena } from "../../kernel/arena.ts";
import { SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { CONSTANT_SCHEDULE } from "../../store/updaters/learning-rate-schedule.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { type NonFiniteCounts, Updater } from "../../store/updaters/updater.ts";

export class LocalOptimizer {
  /** Whether own updates can be applied to copies of rows. */
  readonly isExact: boolean;
  readonly #updater: Updater;

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, spec: ResolvedOptimizer, width: number) {
    this.isExact = spec.type === "sum" || spec.type === "sgd";
    const scheduled = spec.schedule === undefined ? spec : { ...spec, schedule: CONSTANT_SCHEDULE }; // servers say what it comes to
    this.#updater = new Updater(arena, new SimdOptimizerKernels(arena), scheduled, { kind: "table", width });
  }

  /** Whether gradients may count, as the server would decide: throws NOT_FINITE for "refuse", gives false for "skip", zeroes for "zero". */
  admit(gradients: number, floatCount: number): boolean {
    return this.#updater.admit(gradients, floatCount) !== undefined;
  }

  /** What was not finite so far. */
  get nonFinite(): Readonly<NonFiniteCounts> {
    return this.#updater.counts;
  }

  /** What servers multiply gradients with now. */
  setRate(rate: number): void {
    if (this.#updater.spec.learningRate === undefined) return;
    this.#updater.setLearningRate(rate);
    this.#updater.begin({ step: 1, scheduleStep: 0, gradientScale: 1, workerRank: undefined });
  }

  /** One step for each listed row, with gradients side by side. */
  apply(rows: number, rowCount: number, gradients: number): void {
    this.#updater.updateRows(rows, rowCount, gradients);
  }

  close(): void {
    this.#updater.close();
  }
}
