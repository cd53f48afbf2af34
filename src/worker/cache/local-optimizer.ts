// local-optimizer — what a cache can do by itself with its worker's own updates before and after a server has applied
// them.
//
// `sum` and `sgd` have no state but the row itself: a copy of the row, the summed gradients and the server's learning
// rate give the very bits that the server computes, by the same kernel. So a copy goes on being valid when the worker's
// own updates are pushed, and pending ones are laid over it when it is read. Every other optimizer has slots that only
// the server has, so that the row after a step cannot be known here: own updates show after they were pushed, a row
// with pending ones is pushed before it is read, and its copy counts for nothing until then. Rows that are read and not
// updated are cached all the same. (assign, min and max are not offered: a cache pushes sums.)

import { assert } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import { HYPER, HYPER_BYTES, HYPER_FLOATS, OPTIMIZER, SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { badField } from "../../store/bad-field.ts";
import { admitNotFinite, isFloat32, type ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { NonFiniteCounts } from "../../store/updaters/updater.ts";

export class LocalOptimizer {
  /** Whether own updates can be applied to copies of rows. */
  readonly isExact: boolean;
  /** What was not finite so far. */
  readonly nonFinite: NonFiniteCounts = { refusedPushes: 0, skippedPushes: 0, zeroedElements: 0 };
  readonly #arena: Arena;
  readonly #kernels: SimdOptimizerKernels;
  readonly #spec: ResolvedOptimizer;
  readonly #width: number;
  /** The kernels' hyper-parameters, in memory of its own until `close`. */
  readonly #hyper: number;
  readonly #numbers: Float64Array;

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, spec: ResolvedOptimizer, width: number) {
    this.isExact = spec.type === "sum" || spec.type === "sgd";
    this.#arena = arena;
    this.#kernels = new SimdOptimizerKernels(arena);
    this.#spec = spec;
    this.#width = width;
    this.#hyper = arena.allocateState(HYPER_BYTES);
    this.#numbers = new Float64Array(arena.memory.buffer, this.#hyper, HYPER_FLOATS).fill(0);
    this.#numbers[HYPER.learningRate] = spec.learningRate ?? 0;
    this.#numbers[HYPER.gradientScale] = 1;
    this.#numbers[HYPER.clipValue] = spec.clipValue ?? Infinity;
    this.#numbers[HYPER.weightDecay] = spec.weightDecay ?? 0;
  }

  /** Whether gradients count, as on the server: throws NOT_FINITE for "refuse", false for "skip", zeroes for "zero". */
  admit(gradients: number, floatCount: number): boolean {
    if (Number.isFinite(this.#kernels.greatestMagnitude(gradients, floatCount))) return true;
    const look = { arena: this.#arena, kernels: this.#kernels, policy: this.#spec.nonFinite, counts: this.nonFinite };
    return admitNotFinite(look, gradients, floatCount) !== undefined;
  }

  /** What servers multiply gradients with now, by their schedule. Throws BAD_ARGUMENT for what is no rate. */
  setRate(rate: number): void {
    if (this.#spec.learningRate === undefined) return;
    if (!(rate >= 0 && isFloat32(rate))) throw badField("learningRate", "a number of at least 0 that float32 can hold", rate);
    this.#numbers[HYPER.learningRate] = rate;
  }

  /** One step for each listed row, with gradients side by side. */
  apply(rows: number, rowCount: number, gradients: number): void {
    assert(this.isExact, "other optimizers have slots that only a server has");
    const number = this.#spec.type === "sgd" ? OPTIMIZER.sgd : OPTIMIZER.sum;
    this.#kernels.updateRows(number, rows, rowCount, this.#width, gradients, this.#hyper);
  }

  close(): void {
    this.#arena.release(this.#hyper, HYPER_BYTES);
  }
}
