// batches — decides which samples a worker uses in which step. Pure: seed, epoch, step and rank decide, so that a run
// can be repeated, resumed at any step, or divided among other workers.
//
// An epoch is a permutation of all samples, cut into global batches of `batchSize` (the last may be smaller); each of
// `shardCount` workers gets its contiguous part of every global batch.
//
// Invariants:
//   Batches.B1. In an epoch the shards together visit every sample exactly once.
//   Batches.B2. The samples of a global batch do not depend on the number of shards: n workers together do the steps of
//       one.

import { badArgument } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { checkCount } from "./layer.ts";

export type BatchesOptions = {
  readonly sampleCount: number;
  /** Of all shards together. */
  readonly batchSize: number;
  /** A whole number from 0 on. */
  readonly seed: number;
  /** This worker's number, 0 by default, of `shardCount`, 1 by default. */
  readonly shard?: number;
  readonly shardCount?: number;
};

/** Spreads epochs over the generator's seeds; odd, so that no two of 2^32 epochs have the same seed. */
const EPOCH_STRIDE = 0x9e37_79b1;

export class Batches {
  /** Steps of an epoch. */
  readonly batchCount: number;
  readonly #options: Required<BatchesOptions>;
  readonly #order: Uint32Array;
  #epoch = -1;

  /** Throws BAD_ARGUMENT. */
  constructor(options: BatchesOptions) {
    const { shard = 0, shardCount = 1 } = options;
    const sampleCount = checkCount("sampleCount", options.sampleCount);
    const batchSize = checkCount("batchSize", options.batchSize);
    checkCount("seed", options.seed, 0);
    checkCount("shardCount", shardCount);
    if (checkCount("shard", shard, 0) >= shardCount) {
      throw badArgument(`shard ${shard} is not one of ${shardCount}: they count from 0`);
    }
    if (batchSize < shardCount) {
      throw badArgument(`a batch of ${batchSize} leaves some of ${shardCount} shards without a sample`);
    }
    this.#options = { ...options, shard, shardCount };
    this.batchCount = Math.ceil(sampleCount / batchSize);
    this.#order = new Uint32Array(sampleCount);
  }

  /** How many samples the global batch of a step has: `batchSize`, or the rest for the last. */
  globalSize(step: number): number {
    const { sampleCount, batchSize } = this.#options;
    return Math.min(batchSize, sampleCount - this.#checkStep(step) * batchSize);
  }

  /**
   * This shard's samples of a step, by index: a view, valid until another epoch is requested. Empty if a last batch has
   * too few.
   */
  at(epoch: number, step: number): Uint32Array {
    const { batchSize, shard, shardCount } = this.#options;
    this.#shuffle(checkCount("epoch", epoch, 0));
    const size = this.globalSize(step);
    const start = step * batchSize;
    return this.#order.subarray(start + Math.floor((shard * size) / shardCount), start + Math.floor(((shard + 1) * size) / shardCount));
  }

  #checkStep(step: number): number {
    if (checkCount("step", step, 0) < this.batchCount) return step;
    throw badArgument(`an epoch has ${this.batchCount} steps, from 0 on; there is no step ${step}`);
  }

  #shuffle(epoch: number): void {
    if (epoch === this.#epoch) return;
    const order = this.#order;
    const random = new Random(this.#options.seed + Math.imul(epoch, EPOCH_STRIDE));
    for (let i = 0; i < order.length; i++) order[i] = i;
    for (let i = order.length - 1; i > 0; i--) {
      const j = random.below(i + 1);
      [order[i], order[j]] = [order[j]!, order[i]!];
    }
    this.#epoch = epoch;
  }
}
