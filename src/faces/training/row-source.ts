// row-source — where an embedding's rows come from and where their gradients go. The layer computes on slots of one
// span; the source decides which row is in which slot, for how long, and where the optimizer runs.
//
//   prefetch(next batch) ─► … ─► acquire(batch) ─► forward, backward at `slots` ─► push(gradients) ─► … ─► flush
//
// Invariants:
//   RowSource.R1. Between `acquire` and `push` the rows of the batch stay in their slots and nobody changes them.
//   RowSource.R2. An `acquire` sees all earlier pushes of this worker, and of others what the consistency says.
//   RowSource.R3. Every push is applied exactly once; `flush` resolves when the servers (or the local table) have all.
//   RowSource.R4. An id outside the table has slot NO_SLOT: it reads as zeros and learns nothing.

import type { WaitOptions } from "../../base/deferred.ts";

/** The slot of an id that names no row. */
export const NO_SLOT = -1;

/** What a source has served since it was opened. */
export type RowSourceStatistics = {
  /** Ids of all batches. */
  readonly idCount: number;
  /** The distinct ids of each batch, summed over batches. */
  readonly uniqueCount: number;
  /** Distinct ids whose rows were on the device already. */
  readonly deviceHits: number;
  /** Distinct ids whose rows were in the cache of this process. */
  readonly hostHits: number;
  /** Distinct ids whose rows came from the servers. */
  readonly serverReads: number;
  /** Rows that moved from the device to the host, with their optimizer's slots. */
  readonly swappedOut: number;
  /** Rows that moved from the host to the servers, with their optimizer's slots. */
  readonly writtenBack: number;
  /** Batches that did not fit the cache and went to the servers directly. */
  readonly directBatches: number;
};

export interface RowSource {
  readonly width: number;
  /** The span of the slots: `address` in the workspace's arena, slot i at i · width floats. Fixed until `close`. */
  readonly address: number;
  readonly slotCount: number;
  /** A hint: the ids of the next batch, so that its rows can travel while the current one computes. */
  prefetch(ids: ArrayLike<number>): void;
  /** Resolves with the slots of these ids, in order, once their rows have arrived. Valid until the next `acquire`. */
  acquire(ids: ArrayLike<number>, wait?: WaitOptions): Promise<Int32Array>;
  /**
   * Gradients of the last `acquire`: for each distinct slot in `slots` (ascending) the `width` floats at the same index
   * of `gradients`. Copied before this returns, unless the promise is awaited before they are touched.
   */
  push(slots: Int32Array, gradients: Float32Array, wait?: WaitOptions): Promise<void>;
  flush(wait?: WaitOptions): Promise<void>;
  readonly statistics: RowSourceStatistics;
  close(): Promise<void>;
}

export class RowCounts {
  #idCount = 0;
  #uniqueCount = 0;
  readonly #isRemote: boolean;

  /** Whether rows come from servers, or are in this process. */
  constructor(options: { readonly isRemote: boolean }) {
    this.#isRemote = options.isRemote;
  }

  add(counts: { readonly ids: number; readonly rows: number }): void {
    this.#idCount += counts.ids;
    this.#uniqueCount += counts.rows;
  }

  get statistics(): RowSourceStatistics {
    return {
      idCount: this.#idCount,
      uniqueCount: this.#uniqueCount,
      deviceHits: this.#isRemote ? 0 : this.#uniqueCount,
      hostHits: 0,
      serverReads: this.#isRemote ? this.#uniqueCount : 0,
      swappedOut: 0,
      writtenBack: 0,
      directBatches: 0,
    };
  }
}
