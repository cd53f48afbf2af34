// row-counts — the statistics of a source that keeps nothing between batches.

import type { RowSourceStatistics } from "./row-source.ts";

export class RowCounts {
  #idCount = 0;
  #uniqueCount = 0;
  readonly #isRemote: boolean;

  /** Whether rows come from servers, or lie in this process. */
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
