// row-source — where an embedding's rows come from and where their gradients go. The layer computes on slots of one span; which row lies in which
// slot, for how long, and who applies the optimizer is the source's business.
//
//   announce(next batch) ──► … ──► take(batch) ──► forward, backward on `values` at `slots` ──► give(gradient) ──► … ──► flush
//
// Invariants:
//   R1. Between `take` and `give` the rows of the batch stay in their slots and nobody changes them.
//   R2. A `take` sees all that this worker gave before, and of the others what the parameter's consistency says.
//   R3. Whatever was given is applied exactly once; `flush` resolves when the servers (or the process's own table) have all of it.
//   R4. An id outside the table has slot NO_SLOT: it reads as zeros and learns nothing.

import type { WaitOptions } from "../../base/deferred.ts";

/** The slot of an id that names no row. */
export const NO_SLOT = -1;

/** What a source was asked for, counted since it was opened. */
export type RowSourceStatistics = {
  /** Ids that were taken, and distinct ones of each batch, summed over batches. */
  readonly idCount: number;
  readonly uniqueCount: number;
  /** Where the distinct ids were found. */
  readonly deviceHits: number;
  readonly hostHits: number;
  readonly serverReads: number;
  /** Rows that moved from device to host, and from host to the servers, with their optimizer's slots. */
  readonly swappedOut: number;
  readonly writtenBack: number;
  /** Batches that did not fit the cache and went to the servers directly. */
  readonly directBatches: number;
};

export interface RowSource {
  readonly width: number;
  /** The span that slots count in: `address` in the workspace's arena, slot i at i · width floats. Fixed as long as the source is open. */
  readonly address: number;
  readonly slotCount: number;
  /** Says which ids the batch after the one that is taken now has, so that its rows can travel while this one computes. A hint. */
  announce(ids: ArrayLike<number>): void;
  /** Resolves with the slots of these ids, in their order, once their rows are there. The list is valid until the next `take`. */
  take(ids: ArrayLike<number>, wait?: WaitOptions): Promise<Int32Array>;
  /**
   * Gradients of the last `take`: of each distinct slot in `slots` (ascending) the `width` floats at the same place of `gradients`. Copied before this
   * returns, unless the promise is awaited before they are touched.
   */
  give(slots: Int32Array, gradients: Float32Array, wait?: WaitOptions): Promise<void>;
  flush(wait?: WaitOptions): Promise<void>;
  readonly statistics: RowSourceStatistics;
  close(): Promise<void>;
}
