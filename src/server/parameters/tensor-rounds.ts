// tensor-rounds — the open rounds of a tensor with sync updates, block by block: what each worker pushed to a block at a clock that is not over, until the
// round is applied, or moves with the block's part to another server. Not the decision when a round is over (consistency/pacer), nor what the optimizer
// makes of it.
//
// Gradients add up. Updates that are values (assign, min, max) do not: of what is pushed to one row the last, the least or the greatest counts, in the
// order of the pushes and then of the workers' ranks. That is what the optimizer itself does to a row, so its kernel does it here.
//
// Invariants:
//   TensorRounds.R1. What a round needs is taken when its updates come, or come from another server: applying it cannot fail.
//   TensorRounds.R2. A contribution to a block is in its round once, however often it is loaded.
//   TensorRounds.R3. A row that no push names is named by nobody: it is 0 in the sum, and is not looked at where values are put together.
//   TensorRounds.R4. `magnitude` is at least what any element of a contribution is.

import { assert } from "../../base/assert.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { ConsistencyPhases } from "../../consistency/consistency-phases.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";
import type { MergeNumber } from "../../kernel/duplicate-kernels.ts";
import { type RowMarks, runsOf } from "../../store/row-marks.ts";
import type { BlockUpdate, TensorStore } from "../../store/tensor-store.ts";
import type { ParameterHost } from "./parameter-host.ts";
import type { GatheredBlockPage, GatheredBy } from "./part-page.ts";
import type { ServerUpdate } from "./server-pacer.ts";

const FLOAT_BYTES = 4;

/** What gathered blocks are applied to. */
type BlockTarget = {
  /** How values are put together; undefined for gradients. */
  readonly merge: MergeNumber | undefined;
  readonly phases: ConsistencyPhases;
  readonly store: TensorStore;
  /** How many workers pushed to the tensor at this clock, to whichever of its blocks. */
  pusherCount(clock: number): number;
  applyRound(block: number, update: Omit<BlockUpdate, "pushCount">, named: RowMarks | undefined): void;
};

/** A block's gradient or values in the arena, and which of its rows a push names; left out: all. */
export type PushedBlock = { readonly address: number; readonly magnitude: number; readonly named: RowMarks | undefined };

/** What a worker pushed at one clock to a block; `named` as of a PushedBlock. */
export type GatheredBlockImage = { readonly gradients: Float32Array; readonly magnitude: number; readonly named: RowMarks | undefined };

type GatheredPlace = {
  readonly block: number;
  readonly clock: number;
  readonly rowCount: number;
  readonly width: number;
  readonly first: PushedBlock;
};

export class TensorRounds {
  readonly #target: BlockTarget;
  readonly #host: ParameterHost;
  /** Floats of a row, as the optimizer sees it. */
  readonly #width: number;
  /** By block: its number among all that is reduced as one. */
  readonly #units = new Map<number, number>();

  constructor(target: BlockTarget, host: ParameterHost, width: number) {
    this.#target = target;
    this.#host = host;
    this.#width = width;
  }

  /** Whether anybody has pushed to the block. */
  has(block: number): boolean {
    return this.#units.has(block);
  }

  /** Throws ARENA_FULL, QUEUE_FULL, and for who may not push now as the pacer does; nothing gathered. */
  gather({ life, clock, block, scale }: GatheredBy & { readonly block: number; readonly scale: number }, pushed: PushedBlock): void {
    const { pacer, arena, kernels } = this.#host;
    const { store } = this.#target;
    const stamp = { ...life, parameter: this.#unitOf(block), clock };
    const floatCount = store.blocks.get(block)?.floatCount ?? store.shape.floatsOf(block);
    const byteCount = floatCount * FLOAT_BYTES;
    const known = pacer.rounds.find(stamp);
    if (known === undefined) pacer.rounds.checkRoom(stamp, byteCount);
    store.touch(block, pushed.named !== undefined); // R1
    if (known instanceof GatheredBlock) {
      known.join(pushed, scale);
      return;
    }
    const address = arena.tryAllocateBeyond(byteCount) || arena.allocate(byteCount);
    if (scale === 1) kernels.copy(address, pushed.address, byteCount);
    else {
      kernels.zero(address, byteCount);
      kernels.axpy(address, pushed.address, scale, floatCount);
    }
    const first = { address, magnitude: pushed.magnitude * Math.abs(scale), named: pushed.named };
    pacer.rounds.put(stamp, this.#first(block, clock, first), byteCount);
  }

  /** What waits for these blocks, copied. */
  *save(blocks: Iterable<number>): Iterable<GatheredBlockPage> {
    for (const block of blocks) {
      const unit = this.#units.get(block);
      if (unit === undefined) continue;
      for (const { clock, worker, incarnation, handle } of this.#host.pacer.rounds.openOf(unit)) {
        if (!(handle instanceof GatheredBlock)) continue;
        yield { kind: "gatheredBlock", block, life: { worker, incarnation }, clock, image: handle.save() };
      }
    }
  }

  /** R2. Throws ARENA_FULL, STALE_UPDATE for a round that is over here, QUEUE_FULL. */
  load({ block, life, clock, image }: GatheredBlockPage): void {
    const { arena, pacer } = this.#host;
    const { byteLength } = image.gradients;
    const stamp = { ...life, parameter: this.#unitOf(block), clock };
    pacer.rounds.find(stamp);
    this.#target.store.touch(block, image.named !== undefined); // R1
    const address = arena.tryAllocateBeyond(byteLength) || arena.allocate(byteLength);
    arena.floats.set(image.gradients, address >>> 2);
    const first = { address, magnitude: image.magnitude, named: image.named?.slice() };
    try {
      pacer.adopt(stamp, this.#first(block, clock, first), byteLength);
    } catch (thrown) {
      arena.release(address, byteLength);
      throw thrown;
    }
  }

  /** What was gathered for a block counts here no more. */
  drop(block: number): void {
    const unit = this.#units.get(block);
    if (unit !== undefined) this.#host.pacer.dropRounds(unit);
    this.#units.delete(block);
  }

  /** The tensor is no more. */
  forget(error: WeighbridgeError): void {
    for (const unit of this.#units.values()) this.#host.pacer.forget(unit, error);
  }

  #first(block: number, clock: number, first: PushedBlock): GatheredBlock {
    const width = this.#width;
    const rowCount = this.#target.store.block(block).floatCount / width;
    return new GatheredBlock(this.#target, this.#host, { block, clock, rowCount, width, first });
  }

  #unitOf(block: number): number {
    const known = this.#units.get(block);
    if (known !== undefined) return known;
    const unit = this.#host.nextUnit();
    this.#units.set(block, unit);
    return unit;
  }
}

/** What one worker pushed at one clock to a block, until everybody's has come. */
class GatheredBlock implements ServerUpdate {
  readonly address: number;
  readonly #target: BlockTarget;
  readonly #host: ParameterHost;
  readonly #place: GatheredPlace;
  /** R3. Undefined once all rows are named. */
  #named: RowMarks | undefined;
  /** R4 */
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
    const { phases } = this.#target;
    const isMean = (phases.constant ?? phases.at(clock)).reduce === "mean";
    const gradientScale = isMean ? 1 / Math.max(contributions.length, this.#target.pusherCount(clock)) : 1;
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
