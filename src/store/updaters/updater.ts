// updater — applies one parameter's optimizer on one server: turns its spec and the current step into hyper-parameters,
// and calls the kernels. Stores own the values and pass addresses.
//
// Invariants:
//   Updater.P1. `begin` comes before the updates of a message; what it wrote holds until the next `begin`.
//   Updater.P2. A push that `admit` does not let through changes nothing.
//   Updater.P3. The updater owns the spans of the hyper-parameters and of Adam's powers until `close`.
//   Updater.P4. No update leaves a value or a slot that is not finite: one with very large numbers is tried (trial.ts),
//       and undone if it does. By the spec's policy it is then refused, skipped, or its elements count as 0; and
//       counted.

import { AssertionError } from "../../base/assert.ts";
import { badArgument, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import {
  BETA_POWERS_BYTES,
  HYPER,
  HYPER_BYTES,
  HYPER_FLOATS,
  OPTIMIZER,
  type OptimizerKernels,
  type OptimizerNumber,
  writeBetaPowers,
} from "../../kernel/optimizer-kernels.ts";
import { writeCorrections, writeSettings } from "./hyper-parameters.ts";
import { LearningRate } from "./learning-rate.ts";
import type { ResolvedOptimizer } from "./optimizer-spec.ts";
import { admitNotFinite } from "./optimizer-spec.ts";
import type { BlockAddresses, ParameterUpdater } from "./parameter-updater.ts";
import { rowSlotFloats, type SlotLayout, type SlotOwner, slotLayoutOf } from "./slot-layout.ts";
import { Trial } from "./trial.ts";

const STEP_MAX = 2 ** 32 - 1;

export type UpdateStep = {
  /** Which update of these values this is, from 1 on, for Adam's bias correction, beside the rows' own (`rowSteps`). */
  readonly step: number;
  /** Adam on a block whose rows count steps, too: where, and whether this update is one; otherwise `step` counts it. */
  readonly rowSteps?: { readonly address: number; readonly counts: boolean } | undefined;
  /** The step of the schedule, from 0 on: the clock of the push. */
  readonly scheduleStep: number;
  /** Multiplies the gradient: 1, or less if it was clipped by norm or is averaged. */
  readonly gradientScale: number;
  /** The worker that pushes: DC-ASGD compensates for updates since its last pull. Undefined: none, as in a round. */
  readonly workerRank: number | undefined;
  /** A bound of the gradient's magnitudes before the scale. Default: none. */
  readonly magnitude?: number | undefined;
};

/** Up to here no update of values up to STATE_LARGE comes near the float range, whatever the optimizer. */
const GRADIENT_LARGE = 2 ** 30;
const STATE_LARGE = 2 ** 40;
/** The same for settings. */
const SETTING_LARGE = 2 ** 20;
/** Below this a sum is finite, whatever its roundings were. */
const FINITE_BOUND = 2 ** 127;

/** Addresses of a block that is updated. */
export type UpdatedBlock = {
  readonly target: number;
  readonly source: number;
  readonly slots: number;
  readonly rowCount: number;
  /** DC-ASGD: the address of what the worker pulled of the block. Default: its first values. */
  readonly pulled?: number | undefined;
};

/** Counts of pushes that were not finite. */
export type NonFiniteCounts = {
  /** Pushes that were refused whole. */
  refusedPushes: number;
  /** Pushes that were dropped whole. */
  skippedPushes: number;
  /** Elements that counted as 0. */
  zeroedElements: number;
};

export class Updater implements ParameterUpdater {
  readonly spec: ResolvedOptimizer;
  readonly layout: SlotLayout;
  readonly width: number;
  readonly number: OptimizerNumber;
  /** DC-ASGD: whether the store keeps what workers pull. */
  readonly notesPulls: boolean;
  /** The address of the hyper-parameters of the current step (Updater.P1). */
  readonly hyper: number;
  readonly rate: LearningRate;
  readonly counts: NonFiniteCounts = { refusedPushes: 0, skippedPushes: 0, zeroedElements: 0 };
  readonly #arena: Arena;
  readonly #kernels: OptimizerKernels;
  readonly #numbers: Float64Array;
  /** Powers for rows that count their own steps: memory if rows may, written once one does. */
  readonly #betaPowers: number;
  #rowSteps = 0;
  #comparedRank: number | undefined;
  /** Whether values or slots may be above STATE_LARGE. */
  #isLarge = false;
  #isTried = true;

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, kernels: OptimizerKernels, spec: ResolvedOptimizer, owner: SlotOwner) {
    this.spec = spec;
    this.width = owner.width;
    this.layout = slotLayoutOf(spec, owner);
    this.number = numberOf(spec);
    this.notesPulls = spec.type === "dcAsgd";
    this.hyper = arena.allocateState(HYPER_BYTES);
    this.#arena = arena;
    this.#kernels = kernels;
    this.rate = new LearningRate(spec);
    this.#numbers = new Float64Array(arena.memory.buffer, this.hyper, HYPER_FLOATS);
    writeSettings(this.#numbers, spec);
    try {
      this.#betaPowers = this.countsRows || this.layout.wordsPerRow > 0 ? arena.allocateState(BETA_POWERS_BYTES) : 0;
    } catch (thrown) {
      arena.release(this.hyper, HYPER_BYTES);
      throw thrown;
    }
    if (this.layout.wordsPerRow > 0) this.countRows();
    this.begin({ step: 1, scheduleStep: 0, gradientScale: 1, workerRank: undefined });
  }

  /** Whether each row counts its own updates, and the parameter does not. */
  get countsRows(): boolean {
    return this.spec.type === "adam" || this.spec.type === "adamW";
  }

  /** Whether the parameter as a whole counts pushes. */
  get countsPushes(): boolean {
    return this.spec.type === "lazyAdam";
  }

  /** Prepares for rows that count their own steps. */
  countRows(): void {
    if (this.#numbers[HYPER.betaPowers] !== 0) return;
    writeBetaPowers(this.#arena, this.#betaPowers, this.spec.beta1 ?? 0, this.spec.beta2 ?? 0);
    this.#numbers[HYPER.betaPowers] = this.#betaPowers;
  }

  /** Sets the hyper-parameters for the updates that follow (Updater.P1). */
  begin(at: UpdateStep): void {
    if (!(at.step >= 1) && at.rowSteps?.counts !== true) throw new AssertionError(`updates count from 1, not ${at.step}`);
    const numbers = this.#numbers;
    const { type, lambda = 0 } = this.spec;
    const rate = this.rate.constant ?? this.rate.at(at.scheduleStep);
    numbers[HYPER.gradientScale] = at.gradientScale;
    numbers[HYPER.learningRate] = rate;
    this.#isTried = this.#isLarge || !this.#isHarmless(at, rate);
    this.#rowSteps = at.rowSteps?.address ?? 0;
    if (type === "adam" || type === "adamW" || type === "lazyAdam") {
      writeCorrections(numbers, this.spec, at.step);
      numbers[HYPER.stepBase] = this.#rowSteps === 0 ? 0 : Math.min(at.step, STEP_MAX);
      numbers[HYPER.stepIncrement] = at.rowSteps?.counts === false ? 0 : 1;
    } else if (type === "dcAsgd") {
      numbers[HYPER.backupSlot] = 1; // `slotStride` says where that is
      numbers[HYPER.lambda] = at.workerRank === undefined ? 0 : lambda;
      this.#comparedRank = at.workerRank;
    }
  }

  /** Whether the current update may overflow (Updater.P4): then it goes through `attempt`. */
  get isTried(): boolean {
    return this.#isTried;
  }

  /** Values or slots from elsewhere (an initializer, a start, a checkpoint, a worker) have magnitudes up to this. */
  noteMagnitude(magnitude: number): void {
    if (!(magnitude <= STATE_LARGE)) this.#isLarge = true;
  }

  /**
   * Updater.P4. `apply` saves what it is about to change, and changes it. If elements are set to 0, everything is
   * undone and `apply` called again. Returns whether the update counts. Throws NOT_FINITE for "refuse". Calls `undone`
   * if nothing of it is left.
   */
  attempt(apply: (trial: Trial) => void, undone: () => void = () => {}): boolean {
    const { nonFinite } = this.spec;
    const first = new Trial(this.#arena, this.#kernels);
    apply(first);
    if (this.#isKept(first)) return true;
    const blamed = nonFinite === "zero" ? first.blamed() : [];
    first.undo();
    const zeroed = blamed.filter((index) => this.#arena.floats[index] !== 0).length;
    if (zeroed > 0) {
      for (const index of blamed) this.#arena.floats[index] = 0;
      const second = new Trial(this.#arena, this.#kernels);
      apply(second);
      this.counts.zeroedElements += zeroed;
      if (this.#isKept(second)) return true;
      second.undo();
    }
    undone();
    if (nonFinite !== "refuse") {
      this.counts.skippedPushes++;
      return false;
    }
    this.counts.refusedPushes++;
    throw new WeighbridgeError(
      "NOT_FINITE",
      `${this.spec.type} would make of what was pushed more than a float32 holds: nothing of it counts`,
    );
  }

  #isKept(trial: Trial): boolean {
    const magnitude = trial.magnitude();
    if (magnitude === Infinity) return false;
    this.noteMagnitude(magnitude);
    return true;
  }

  /** Whether nothing can come near the float range. */
  #isHarmless({ gradientScale, magnitude = Infinity, workerRank }: UpdateStep, rate: number): boolean {
    const { type, clipValue, weightDecay = 0, lambda = 0, decay = 0, beta = 0, l2 = 0 } = this.spec;
    const gradient = Math.min(magnitude * Math.abs(gradientScale), clipValue ?? Infinity);
    if (type === "ftrl" && !(1 / rate <= SETTING_LARGE)) return false;
    // ftrl divides by this while the squares of gradients are 0
    if (type === "ftrl" && !(beta / rate + l2 >= 1 / SETTING_LARGE)) return false;
    if (type === "dcAsgd" && workerRank !== undefined) {
      // A compensation that exceeds its delay grows from push to push, however small the gradients. As s >= (1 - decay)
      // g², its share of the delay is at most this one.
      const share = (rate * lambda * gradient) / Math.sqrt(1 - decay);
      if (!(share <= 1) || weightDecay > 0) return false; // a decay makes the gradient grow with the values
    }
    return gradient * Math.max(1, rate) <= GRADIENT_LARGE && weightDecay <= 1 && rate * weightDecay <= 1 && lambda <= SETTING_LARGE;
  }

  /**
   * Whether a gradient may be applied, by the spec's policy: throws NOT_FINITE for "refuse", returns undefined for
   * "skip"; for "zero" sets NaN and infinities to 0. Otherwise returns the greatest magnitude.
   */
  admit(gradients: number, floatCount: number): number | undefined {
    const magnitude = this.#kernels.greatestMagnitude(gradients, floatCount);
    if (Number.isFinite(magnitude)) return magnitude;
    const look = { arena: this.#arena, kernels: this.#kernels, policy: this.spec.nonFinite, counts: this.counts };
    return admitNotFinite(look, gradients, floatCount);
  }

  /**
   * As `admit`, for the sum of a clock, with magnitudes up to `bound`: each of its gradients was admitted, but their
   * sum may overflow, and is then scanned. No caller waits, so "refuse" drops and counts it as "skip" does.
   */
  admitSum(gradients: number, floatCount: number, bound: number = Infinity): number | undefined {
    if (bound < FINITE_BOUND) return bound;
    return this.inRound(() => this.admit(gradients, floatCount));
  }

  inRound<T>(act: () => T): T | undefined {
    return unlessNotFinite(act);
  }

  /** Where the rows of the current block count their steps; 0 if they do not. */
  get rowSteps(): number {
    return this.#rowSteps;
  }

  /** DC-ASGD: the worker whose pulls the current step is compared with; undefined if none is. */
  get comparedRank(): number | undefined {
    return this.#comparedRank;
  }

  /** Updates table rows; `rows` lists the addresses of their first values. */
  updateRows(rows: number, rowCount: number, gradients: number): void {
    this.#kernels.updateRows(this.number, rows, rowCount, this.width, gradients, this.hyper);
  }

  /**
   * DC-ASGD: as `updateRows`; `pulled` lists the addresses of what the worker pulled of each row. 0: unknown, so the
   * row's first values count, or, if it has `justPulled`, the row as it is. The list is void afterwards.
   */
  updatePulledRows(rows: number, pulled: number, rowCount: number, gradients: number, justPulled: boolean): void {
    const { words } = this.#arena;
    const [row, seen] = [rows >>> 2, pulled >>> 2];
    for (let i = 0; justPulled && i < rowCount; i++) words[seen + i] ||= words[row + i] as number;
    this.#numbers[HYPER.pulledRows] = pulled;
    this.updateRows(rows, rowCount, gradients);
    this.#numbers[HYPER.pulledRows] = 0;
  }

  /** Updates a block of whole rows. Reads values at `source`, writes them at `target`. */
  updateBlock(block: UpdatedBlock, gradients: number): void {
    this.updateBlockRun(block, { from: 0, to: block.rowCount }, gradients);
  }

  /** As `updateBlock`, for its rows from `from` up to `to` alone; `gradients` has those of all its rows. */
  updateBlockRun(block: UpdatedBlock, { from, to }: { readonly from: number; readonly to: number }, gradients: number): void {
    const stride = this.#strideOf(block);
    const skipped = from * this.width * FLOAT_BYTES;
    const [target, source] = [block.target + skipped, block.source + skipped];
    const slots = block.slots + from * this.layout.slotFloats * FLOAT_BYTES;
    this.#numbers[HYPER.rowSteps] = this.#rowSteps === 0 ? 0 : this.#rowSteps + from * FLOAT_BYTES;
    this.#kernels.updateBlock(this.number, target, source, slots, stride, gradients + skipped, to - from, this.width, this.hyper);
  }

  /** Updates the rows of a block whose indexes within it `rows` lists. */
  updateBlockRows(block: BlockAddresses, rows: number, listed: number, gradients: number): void {
    const { values, slots } = block;
    const stride = this.#strideOf(block);
    this.#numbers[HYPER.rowSteps] = this.#rowSteps;
    this.#kernels.updateBlockRows(this.number, values, slots, stride, rows, listed, this.width, gradients, this.hyper);
  }

  /** Bytes from one slot of a block to the next. */
  slotStride(rowCount: number): number {
    return rowCount * this.layout.slotFloats * FLOAT_BYTES;
  }

  /** Bytes of all slots of a block; may be 0. */
  blockSlotBytes(rowCount: number): number {
    return this.layout.slots.length * this.slotStride(rowCount);
  }

  /** Bytes of a table row behind its values: slots and words. */
  rowExtraBytes(): number {
    return (rowSlotFloats(this.layout) + this.layout.wordsPerRow) * FLOAT_BYTES;
  }

  /** Sets the slots of new table rows, whose values are set already and whose slots and words are zero. */
  startRows(rows: number, rowCount: number): void {
    const { slots, slotFloats } = this.layout;
    for (const [k, { start }] of slots.entries()) {
      const offset = (this.width + k * slotFloats) * FLOAT_BYTES;
      if (start === "values") this.#kernels.repeatRows(rows, rowCount, offset, slotFloats);
      else if (start !== 0) this.#kernels.fillRows(rows, rowCount, offset, slotFloats, start);
    }
  }

  /** Sets the slots of a new block, whose values are set already. */
  startBlock(values: number, slots: number, rowCount: number): void {
    const stride = this.slotStride(rowCount);
    for (const [k, { start }] of this.layout.slots.entries()) {
      if (start === "values") this.#arena.module.copy(slots + k * stride, values, stride);
      else this.#kernels.fillFloats(slots + k * stride, stride / FLOAT_BYTES, start);
    }
  }

  close(): void {
    this.#arena.release(this.hyper, HYPER_BYTES);
    if (this.#betaPowers !== 0) this.#arena.release(this.#betaPowers, BETA_POWERS_BYTES);
  }

  /** DC-ASGD reads one slot beside its own, the next one: that may lie anywhere. */
  #strideOf({
    slots,
    rowCount,
    pulled,
  }: {
    readonly slots: number;
    readonly rowCount: number;
    readonly pulled?: number | undefined;
  }): number {
    return pulled === undefined ? this.slotStride(rowCount) : pulled - slots;
  }
}

/** Undefined for NOT_FINITE: for updates that no caller waits for. */
export function unlessNotFinite<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (thrown) {
    if (isWeighbridgeError(thrown, "NOT_FINITE")) return undefined;
    throw thrown;
  }
}

/** The kernel of an optimizer. Throws BAD_ARGUMENT for a user's own. */
export function numberOf(spec: ResolvedOptimizer): OptimizerNumber {
  if (spec.type === "custom")
    throw badArgument(`your updater ${JSON.stringify(spec.updater)} runs on servers, but workers apply this optimizer themselves`);
  return spec.type === "rmsprop" && (spec.momentum ?? 0) > 0 ? OPTIMIZER.rmspropMomentum : OPTIMIZER[spec.type];
}
