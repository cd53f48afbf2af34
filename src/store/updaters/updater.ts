// updater — applies one parameter's optimizer on one server: turns its spec and the step in hand into the kernels' hyper-parameters, and calls
// them. Not the owner of values: stores pass addresses. A store with a kernel of its own (a table's probe and update in one) takes `number`
// and `hyper` and does without the update methods.
//
// Invariants:
//   P1. `begin` comes before the updates of a message; what it wrote holds until the next `begin`.
//   P2. A push that `admit` does not let through changes nothing.
//   P3. The updater owns the spans of the hyper-parameters and of Adam's powers until `close`.

import { assert } from "../../base/assert.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { BETA_POWERS_BYTES, writeBetaPowers } from "../../kernel/beta-powers.ts";
import {
  HYPER,
  HYPER_BYTES,
  HYPER_FLOATS,
  OPTIMIZER,
  type OptimizerKernels,
  type OptimizerNumber,
} from "../../kernel/optimizer-kernels.ts";
import { badField } from "../bad-field.ts";
import { CONSTANT_SCHEDULE, type ResolvedSchedule, rateShare } from "./learning-rate-schedule.ts";
import { isFloat32, type ResolvedOptimizer } from "./optimizer-spec.ts";
import { type SlotLayout, type SlotOwner, slotLayoutOf } from "./slot-layout.ts";

const FLOAT_BYTES = 4;

export type UpdateStep = {
  /** Which update of these values this is, from 1 on: Adam's bias correction. A table row of Adam counts its own. */
  readonly step: number;
  /** Where the schedule stands, from 0 on: the clock of the push. */
  readonly scheduleStep: number;
  /** Times the gradient: 1, or less where it was clipped by norm or is averaged. */
  readonly gradientScale: number;
  /** Who pushes: DC-ASGD's backup. */
  readonly workerRank: number;
};

/** What was pushed and not finite. */
export type NonFiniteCounts = { refusedPushes: number; skippedPushes: number; zeroedElements: number };

export class Updater {
  readonly spec: ResolvedOptimizer;
  readonly layout: SlotLayout;
  readonly width: number;
  readonly number: OptimizerNumber;
  /** The address of the hyper-parameters of the step in hand (P1). */
  readonly hyper: number;
  readonly counts: NonFiniteCounts = { refusedPushes: 0, skippedPushes: 0, zeroedElements: 0 };
  readonly #arena: Arena;
  readonly #kernels: OptimizerKernels;
  readonly #owner: SlotOwner;
  readonly #numbers: Float64Array;
  /** For rows that count their own steps; 0 for others. */
  readonly #betaPowers: number;
  #schedule: ResolvedSchedule;
  #learningRate: number;

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, kernels: OptimizerKernels, spec: ResolvedOptimizer, owner: SlotOwner) {
    this.spec = spec;
    this.width = owner.width;
    this.layout = slotLayoutOf(spec, owner);
    this.number = numberOf(spec);
    this.hyper = arena.allocateState(HYPER_BYTES);
    try {
      this.#betaPowers = this.layout.wordsPerRow > 0 ? arena.allocateState(BETA_POWERS_BYTES) : 0;
    } catch (thrown) {
      arena.release(this.hyper, HYPER_BYTES);
      throw thrown;
    }
    if (this.#betaPowers !== 0) writeBetaPowers(arena, this.#betaPowers, spec.beta1 ?? 0, spec.beta2 ?? 0);
    this.#arena = arena;
    this.#kernels = kernels;
    this.#owner = owner;
    this.#schedule = spec.schedule ?? CONSTANT_SCHEDULE;
    this.#learningRate = spec.learningRate ?? spec.alpha ?? 0;
    this.#numbers = new Float64Array(arena.memory.buffer, this.hyper, HYPER_FLOATS);
    this.#writeSettings();
    this.begin({ step: 1, scheduleStep: 0, gradientScale: 1, workerRank: 0 });
  }

  get schedule(): ResolvedSchedule {
    return this.#schedule;
  }

  /** Of the schedule's full share; 0 for optimizers without one. */
  get learningRate(): number {
    return this.#learningRate;
  }

  /** From the next `begin` on. Throws BAD_ARGUMENT for an optimizer without a learning rate, unless it is constant. */
  setSchedule(schedule: ResolvedSchedule): void {
    if (this.spec.learningRate === undefined && schedule.type !== "constant")
      throw badField("schedule", `no schedule of ${this.spec.type}, which has no learning rate`, schedule);
    this.#schedule = schedule;
  }

  /** From the next `begin` on. Throws BAD_ARGUMENT for an optimizer without one, or a rate that cannot be. */
  setLearningRate(learningRate: number): void {
    if (this.spec.learningRate === undefined) throw badField("learningRate", `no learning rate of ${this.spec.type}`, learningRate);
    if (!(learningRate >= 0 && isFloat32(learningRate)))
      throw badField("learningRate", "a number of at least 0 that float32 can hold", learningRate);
    this.#learningRate = learningRate;
  }

  /** The learning rate at a step of the schedule; 0 for optimizers without one. */
  learningRateAt(scheduleStep: number): number {
    return this.#learningRate * rateShare(this.#schedule, scheduleStep);
  }

  /** Sets the hyper-parameters for the updates that follow (P1). */
  begin(at: UpdateStep): void {
    assert(at.step >= 1, `updates count from 1, not ${at.step}`);
    const numbers = this.#numbers;
    const { type, beta1 = 0, beta2 = 0, epsilon = 0 } = this.spec;
    numbers[HYPER.gradientScale] = at.gradientScale;
    numbers[HYPER.learningRate] = this.learningRateAt(at.scheduleStep);
    if (type === "adam" || type === "adamW" || type === "lazyAdam") {
      const correction2 = 1 / Math.sqrt(1 - beta2 ** at.step);
      numbers[HYPER.correction1] = 1 / (1 - beta1 ** at.step);
      numbers[HYPER.correction2] = correction2;
      if (type === "lazyAdam") numbers[HYPER.epsilon] = epsilon * correction2; // SparseAdam adds it to the uncorrected root
    } else if (type === "dcAsgd") {
      numbers[HYPER.backupSlot] = 1 + this.#backupOf(at.workerRank);
    }
  }

  /**
   * Whether a pushed gradient may be applied, by the spec's policy: throws NOT_FINITE for "refuse", gives false for "skip"; for "zero"
   * changes the gradient's NaN and infinities to 0.
   */
  admit(gradients: number, floatCount: number): boolean {
    const { nonFinite } = this.spec;
    if (nonFinite === "zero") {
      this.counts.zeroedElements += this.#kernels.zeroNonFinite(gradients, floatCount);
      return true;
    }
    const index = this.#kernels.checkFinite(gradients, floatCount);
    if (index < 0) return true;
    if (nonFinite === "skip") {
      this.counts.skippedPushes++;
      return false;
    }
    this.counts.refusedPushes++;
    const value = this.#arena.floats[gradients / FLOAT_BYTES + index]!;
    throw new WeighbridgeError("NOT_FINITE", `element ${index} of ${floatCount} pushed is ${value}: expected finite numbers`);
  }

  /**
   * As `admit`, for the sum of a clock: each of its gradients was admitted, and together they may still be more than a float holds. Nobody is there to be told, so that
   * "refuse" leaves it out and counts it, as "skip" does.
   */
  admitSum(gradients: number, floatCount: number): boolean {
    try {
      return this.admit(gradients, floatCount);
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "NOT_FINITE")) return false;
      throw thrown;
    }
  }

  /** Updates table rows; `rows` lists the addresses of their first values. */
  updateRows(rows: number, rowCount: number, gradients: number): void {
    this.#kernels.updateRows(this.number, rows, rowCount, this.width, gradients, this.hyper);
  }

  /** Updates a block of whole rows. Reads values at `source`, writes them at `target`. */
  updateBlock(block: { target: number; source: number; slots: number; rowCount: number }, gradients: number): void {
    this.updateBlockRun(block, { from: 0, to: block.rowCount }, gradients);
  }

  /** As `updateBlock`, for its rows from `from` up to `to` alone; `gradients` has those of all its rows. */
  updateBlockRun(
    block: { target: number; source: number; slots: number; rowCount: number },
    { from, to }: { readonly from: number; readonly to: number },
    gradients: number,
  ): void {
    const stride = this.slotStride(block.rowCount);
    const skipped = from * this.width * FLOAT_BYTES;
    const [target, source] = [block.target + skipped, block.source + skipped];
    const slots = block.slots + from * this.layout.slotFloats * FLOAT_BYTES;
    this.#kernels.updateBlock(this.number, target, source, slots, stride, gradients + skipped, to - from, this.width, this.hyper);
  }

  /** Updates the rows of a block whose indexes within it `rows` lists. */
  updateBlockRows(block: { values: number; slots: number; rowCount: number }, rows: number, listed: number, gradients: number): void {
    const { values, slots, rowCount } = block;
    const stride = this.slotStride(rowCount);
    this.#kernels.updateBlockRows(this.number, values, slots, stride, rows, listed, this.width, gradients, this.hyper);
  }

  /** Bytes from one slot of a block to the next. */
  slotStride(rowCount: number): number {
    return rowCount * this.layout.slotFloats * FLOAT_BYTES;
  }

  /** Bytes of all slots of a block; may be 0. */
  blockSlotBytes(rowCount: number): number {
    return this.layout.starts.length * this.slotStride(rowCount);
  }

  /** Bytes of a table row behind its values: slots and words. */
  rowExtraBytes(): number {
    return (this.layout.starts.length * this.layout.slotFloats + this.layout.wordsPerRow) * FLOAT_BYTES;
  }

  /** Sets the slots of new table rows, whose values are set already and whose slots and words are zero. */
  startRows(rows: number, rowCount: number): void {
    const { starts, slotFloats } = this.layout;
    for (const [k, start] of starts.entries()) {
      const offset = (this.width + k * slotFloats) * FLOAT_BYTES;
      if (start === "values") this.#kernels.repeatRows(rows, rowCount, offset, slotFloats);
      else if (start !== 0) this.#kernels.fillRows(rows, rowCount, offset, slotFloats, start);
    }
  }

  /** Sets the slots of a new block, whose values are set already. */
  startBlock(values: number, slots: number, rowCount: number): void {
    const stride = this.slotStride(rowCount);
    for (const [k, start] of this.layout.starts.entries()) {
      if (start === "values") this.#arena.module.copy(slots + k * stride, values, stride);
      else this.#kernels.fillFloats(slots + k * stride, stride / FLOAT_BYTES, start);
    }
  }

  /** Whether `notePull` does anything. */
  get notesPulls(): boolean {
    return this.spec.type === "dcAsgd" && this.#owner.kind === "tensor";
  }

  /** DC-ASGD on tensors: remembers that a worker saw the rows of a block from `from` up to `to`. Nothing to do for the others. */
  notePull(
    block: { values: number; slots: number; rowCount: number },
    workerRank: number,
    { from, to }: { readonly from: number; readonly to: number },
  ): void {
    if (!this.notesPulls) return;
    const rowBytes = this.width * FLOAT_BYTES;
    const backup = block.slots + (1 + this.#backupOf(workerRank)) * this.slotStride(block.rowCount);
    this.#arena.module.copy(backup + from * rowBytes, block.values + from * rowBytes, (to - from) * rowBytes);
  }

  close(): void {
    this.#arena.release(this.hyper, HYPER_BYTES);
    if (this.#betaPowers !== 0) this.#arena.release(this.#betaPowers, BETA_POWERS_BYTES);
  }

  #backupOf(workerRank: number): number {
    if (this.#owner.kind === "table") return 0;
    assert(workerRank >= 0 && workerRank < this.#owner.workerCount, `worker ${workerRank} of ${this.#owner.workerCount}`);
    return workerRank;
  }

  #writeSettings(): void {
    const { spec } = this;
    const numbers = this.#numbers;
    numbers.fill(0);
    numbers[HYPER.clipValue] = spec.clipValue ?? Number.POSITIVE_INFINITY;
    numbers[HYPER.weightDecay] = spec.weightDecay ?? 0;
    numbers[HYPER.epsilon] = spec.epsilon ?? 0;
    numbers[HYPER.beta1] = spec.beta1 ?? spec.momentum ?? 0;
    numbers[HYPER.beta2] = spec.beta2 ?? (spec.type === "rmsprop" ? spec.alpha : spec.decay) ?? 0;
    numbers[HYPER.betaPowers] = this.#betaPowers;
    numbers[HYPER.l1] = spec.l1 ?? 0;
    numbers[HYPER.l2] = spec.l2 ?? 0;
    numbers[HYPER.ftrlBeta] = spec.beta ?? 0;
    numbers[HYPER.lambda] = spec.lambda ?? 0;
    numbers[HYPER.backupIsOld] = this.#owner.kind === "table" ? 1 : 0;
  }
}

function numberOf(spec: ResolvedOptimizer): OptimizerNumber {
  return spec.type === "rmsprop" && (spec.momentum ?? 0) > 0 ? OPTIMIZER.rmspropMomentum : OPTIMIZER[spec.type];
}
