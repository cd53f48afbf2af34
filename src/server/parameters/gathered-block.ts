// gathered-block — what one worker pushed at one clock to a block of a tensor with sync updates, until everybody's has come. Not the decision when that
// is (consistency/pacer), nor what the optimizer makes of it.
//
// Gradients add up. Updates that are values (assign, min, max) do not: of what is pushed to one row the last, the least or the greatest counts, in the
// order of the pushes and then of the workers' ranks. That is what the optimizer itself does to a row, so its kernel does it here.
//
// Invariants:
//   G1. A row that no push names is named by nobody: it is 0 in the sum, and is not looked at where values are put together.
//   G2. `magnitude` is at least what any element of it is.

import { assert } from "../../base/assert.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";
import type { MergeNumber } from "../../kernel/duplicate-kernels.ts";
import { type RowMarks, runsOf } from "../../store/row-marks.ts";
import type { BlockUpdate } from "../../store/tensor-store.ts";
import type { ParameterHost } from "./parameter-host.ts";
import type { ServerUpdate } from "./server-pacer.ts";

const FLOAT_BYTES = 4;

/** What gathered blocks are applied to. */
export type BlockTarget = {
  /** How values are put together; undefined for gradients. */
  readonly merge: MergeNumber | undefined;
  readonly pace: { reduceAt(clock: number): "sum" | "mean" };
  /** How many workers pushed to the tensor at this clock, to whichever of its blocks. */
  pusherCount(clock: number): number;
  applyRound(block: number, update: Omit<BlockUpdate, "pushCount">, named: RowMarks | undefined): void;
};

/** A block's gradient or values in the arena, and which of its rows a push names; left out: all. */
export type PushedBlock = { readonly address: number; readonly magnitude: number; readonly named: RowMarks | undefined };

/** What a worker pushed at one clock to a block; `named` as of a PushedBlock. */
export type GatheredBlockImage = { readonly gradients: Float32Array; readonly magnitude: number; readonly named: RowMarks | undefined };

export type GatheredPlace = {
  readonly block: number;
  readonly clock: number;
  readonly rowCount: number;
  readonly width: number;
  readonly first: PushedBlock;
};

export class GatheredBlock implements ServerUpdate {
  readonly address: number;
  readonly #target: BlockTarget;
  readonly #host: ParameterHost;
  readonly #place: GatheredPlace;
  /** G1. Undefined once all rows are named. */
  #named: RowMarks | undefined;
  /** G2 */
  #magnitude: number;

  /** The memory of its first push is its own from here on. */
  constructor(target: BlockTarget, host: ParameterHost, place: GatheredPlace) {
    this.#target = target;
    this.#host = host;
    this.#place = place;
    this.address = place.first.address;
    this.#named = place.first.named;
    this.#magnitude = place.first.magnitude;
  }

  /** Another push of the same clock, times `scale`. */
  join(pushed: PushedBlock, scale = 1): void {
    const { merge } = this.#target;
    if (merge === undefined) this.#host.kernels.axpy(this.address, pushed.address, scale, this.#floatCount);
    else this.#merge(merge, pushed);
    this.#magnitude =
      merge === undefined ? this.#magnitude + pushed.magnitude * Math.abs(scale) : Math.max(this.#magnitude, pushed.magnitude);
    this.#name(pushed.named);
  }

  /** In the order of the contributions (TensorParameter T2). */
  applyRound({ contributions }: CompleteRound<ServerUpdate>): void {
    const { block, clock } = this.#place;
    for (const { handle } of contributions) {
      if (handle === this || !(handle instanceof GatheredBlock)) continue;
      this.join({ address: handle.address, magnitude: handle.#magnitude, named: handle.#named });
      handle.free();
    }
    const gradientScale =
      this.#target.pace.reduceAt(clock) === "mean" ? 1 / Math.max(contributions.length, this.#target.pusherCount(clock)) : 1;
    const update = { gradients: this.address, gradientScale, scheduleStep: clock, workerRank: undefined, magnitude: this.#magnitude };
    this.#target.applyRound(block, update, this.#named);
  }

  /** What it has, copied. */
  save(): GatheredBlockImage {
    const from = this.address >>> 2;
    const gradients = new Float32Array(this.#host.arena.floats.subarray(from, from + this.#floatCount));
    return { gradients, magnitude: this.#magnitude, named: this.#named?.slice() };
  }

  free(): void {
    this.#host.arena.release(this.address, this.#floatCount * FLOAT_BYTES);
  }

  get #floatCount(): number {
    return this.#place.rowCount * this.#place.width;
  }

  /** Rows that both name are put together, those that only the other names are taken over. */
  #merge(merge: MergeNumber, { address, named }: PushedBlock): void {
    const { rowCount, width } = this.#place;
    const { kernels, optimizers } = this.#host;
    const put = (from: number, to: number, isKnown: boolean): void => {
      const offset = from * width * FLOAT_BYTES;
      const [target, source] = [this.address + offset, address + offset];
      if (isKnown) optimizers.updateBlock(merge, target, target, 0, 0, source, to - from, width, 0);
      else kernels.copy(target, source, (to - from) * width * FLOAT_BYTES);
    };
    const runs = named === undefined ? [{ from: 0, to: rowCount }] : runsOf(named, 1);
    for (const { from, to } of runs) {
      const own = this.#named;
      if (own === undefined) put(from, to, true);
      else for (let row = from; row < to; row++) put(row, row + 1, own[row] === 1);
    }
  }

  #name(named: RowMarks | undefined): void {
    if (named === undefined) this.#named = undefined;
    if (this.#named === undefined || named === undefined) return;
    assert(this.#named.length === named.length, "marks are of one block");
    for (const { from, to } of runsOf(named, 1)) this.#named.fill(1, from, to);
  }
}
