// write-back — dirty rows on their way from a cache to the servers, as copies that are kept until every server has
// acknowledged them. A row counts as clean from the moment it was added: its copy takes over. For caches whose rows are
// newer than the servers'; those that keep what was added to a row apart have PendingUpdates.
//
//   open ──► add … add ──► send ──► settled: acknowledged, forgotten │ failed: kept, and sent again before anything
//   else happens
//
// Invariants:
//   WriteBack.B1. A row is forgotten when it was acknowledged, never before.
//   WriteBack.B2. One batch is on its way at a time, and nobody asks the servers for rows that could be in it:
//       `settled` comes first.
//   WriteBack.B3. What is kept is bounded: nothing can be added while a batch could not be written.

import { assert } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { ArenaSpans } from "../arena-spans.ts";
import type { RawRows } from "../raw-rows.ts";

export type RowWriter = Pick<RawRows, "rowFloats" | "write">;

type Batch = { readonly spans: ArenaSpans; readonly keys: number; readonly rows: number; readonly capacity: number; count: number };

export class WriteBack {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #writer: RowWriter;
  readonly #rowBytes: number;
  #batch: Batch | undefined;
  #sending: Promise<void> | undefined;

  constructor(arena: Arena, kernels: Kernels, writer: RowWriter) {
    this.#arena = arena;
    this.#kernels = kernels;
    this.#writer = writer;
    this.#rowBytes = writer.rowFloats * FLOAT_BYTES;
  }

  /** Rows that are not acknowledged. */
  get rowCount(): number {
    return this.#batch?.count ?? 0;
  }

  /** Makes room for up to so many rows. To be called when all is settled. Throws ARENA_FULL. */
  open(capacity: number): void {
    assert(this.#batch === undefined, "WriteBack.B2");
    const spans = new ArenaSpans(this.#arena);
    this.#batch = spans.guard(() => {
      return { spans, keys: spans.take(capacity * KEY_BYTES), rows: spans.take(capacity * this.#rowBytes), capacity, count: 0 };
    });
  }

  /** Copies the row at an address: it leaves with the next `send`. */
  add(low: number, high: number, row: number): void {
    const batch = this.#batch;
    assert(batch !== undefined && this.#sending === undefined && batch.count < batch.capacity, "WriteBack.B3");
    this.#arena.words.set([low, high], (batch.keys >>> 2) + 2 * batch.count);
    this.#kernels.copy(batch.rows + batch.count * this.#rowBytes, row, this.#rowBytes);
    batch.count++;
  }

  /** Begins to write what was added. `written` and `settled` say how it went. */
  send(): void {
    const batch = this.#batch;
    if (batch === undefined || this.#sending !== undefined) return;
    const { buffer } = this.#arena.memory;
    const rows = new Float32Array(buffer, batch.rows, batch.count * this.#writer.rowFloats);
    this.#sending = batch.count === 0 ? Promise.resolve() : this.#writer.write(new BigUint64Array(buffer, batch.keys, batch.count), rows);
    this.#sending.catch(() => {}); // `written` tells
  }

  /** Resolves when the servers have everything. Rejects with why they have not: it is kept (WriteBack.B1). */
  async written(): Promise<void> {
    this.send();
    try {
      await this.#sending;
    } catch (thrown) {
      this.#sending = undefined;
      throw thrown;
    }
    this.drop();
  }

  /** As `written`, but what could not be written is tried once more first. */
  async settled(): Promise<void> {
    await this.written().catch(async () => await this.written());
  }

  /** Forgets everything; nothing may be on its way. */
  drop(): void {
    this.#batch?.spans.release();
    this.#batch = undefined;
    this.#sending = undefined;
  }
}
