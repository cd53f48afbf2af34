// server-rows — a RowSource on an embedding of the servers: pulls exactly the rows of a batch into slots, and pushes
// their gradients. Between batches it keeps nothing but the span.
//
//   acquire: pull, or wait for the early pull ─► compute ─► push, and after it the early pull of the next batch
//
// Invariants:
//   ServerRows.S1. The early pull leaves after the push of the batch before, so that RowSource.R2 holds under every
//       consistency; the servers hold it back until the bound allows it.
//   ServerRows.S2. One pull at a time lands in the span, and none between `acquire` and `push`.

import type { WaitOptions } from "../../base/deferred.ts";
import type { FloatSpan, Workspace } from "../../nn/workspace.ts";
import type { Embedding } from "../../worker/embedding.ts";
import { BatchSlots } from "./batch-slots.ts";
import type { TableDescription } from "./local-rows.ts";
import { RowCounts, type RowSource, type RowSourceStatistics } from "./row-source.ts";

export type ServerRowsOptions = {
  readonly workspace: Workspace;
  readonly table: Pick<TableDescription, "vocabSize" | "width" | "idCountMax">;
  readonly embedding: Embedding;
  /** Of pushes and pulls; higher overtakes lower. */
  readonly priority: number;
};

export class ServerRows implements RowSource {
  readonly width: number;
  readonly address: number;
  readonly slotCount: number;
  readonly #options: ServerRowsOptions;
  readonly #span: FloatSpan;
  readonly #counts = new RowCounts({ isRemote: true });
  #current: BatchSlots;
  #next: BatchSlots;
  #isNextKnown = false;
  /** The early pull, of the rows of `#next`. */
  #early: Promise<unknown> | undefined;
  /** Pushes that were not acknowledged yet. */
  readonly #pushes = new Set<Promise<void>>();

  constructor(options: ServerRowsOptions) {
    const { workspace, table } = options;
    const { width, idCountMax, vocabSize } = table;
    this.#options = options;
    this.width = width;
    this.slotCount = idCountMax;
    this.#span = workspace.floats(idCountMax * width);
    this.address = this.#span.address;
    const batch = (): BatchSlots => new BatchSlots({ idCountMax, vocabSize, keys: new BigUint64Array(idCountMax) });
    this.#current = batch();
    this.#next = batch();
  }

  get statistics(): RowSourceStatistics {
    return this.#counts.statistics;
  }

  prefetch(ids: ArrayLike<number>): void {
    if (this.#early !== undefined) return;
    this.#next.assign(ids);
    this.#isNextKnown = true;
  }

  async acquire(ids: ArrayLike<number>, wait: WaitOptions = {}): Promise<Int32Array> {
    const early = this.#early;
    const isEarly = early !== undefined && this.#next.holds(ids);
    this.#early = undefined;
    this.#isNextKnown = false;
    try {
      await early;
    } catch (thrown) {
      // A failed pull of another batch does not matter: it is pulled again when it is acquired.
      if (isEarly) throw thrown;
    }
    if (isEarly) [this.#current, this.#next] = [this.#next, this.#current];
    else {
      this.#current.assign(ids);
      await this.#pull(this.#current, 0, wait);
    }
    this.#counts.add({ ids: ids.length, rows: this.#current.keys.length });
    return this.#current.slots;
  }

  /** Resolves when the servers have it; the gradients are read until then. */
  async push(slots: Int32Array, gradients: Float32Array, wait: WaitOptions = {}): Promise<void> {
    const { embedding, priority } = this.#options;
    const push = slots.length === 0 ? Promise.resolve() : embedding.push(this.#current.keysOf(slots), gradients, { ...wait, priority });
    this.#pushes.add(push);
    if (this.#isNextKnown) {
      this.#isNextKnown = false;
      this.#early = this.#pull(this.#next, 1, wait); // ServerRows.S1
      this.#early.catch(() => {}); // `acquire` reports it
    }
    await push.finally(() => this.#pushes.delete(push));
  }

  async flush(): Promise<void> {
    await Promise.all(this.#pushes);
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#pushes, this.#early]);
    this.#early = undefined;
  }

  async #pull(batch: BatchSlots, clocksAhead: number, wait: WaitOptions): Promise<void> {
    const { embedding, priority } = this.#options;
    const { keys } = batch;
    if (keys.length === 0) return;
    const into = this.#span.values.subarray(0, keys.length * this.width);
    await embedding.pull(keys, { into, ...wait, priority, clocksAhead });
  }
}
