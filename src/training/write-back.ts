// write-back — rows that left the cache and are on their way to the servers, as copies that are kept until every server has acknowledged them.
//
//   open ──► add … add ──► send ──► settled: acknowledged, forgotten │ failed: kept, and sent again before anything else happens
//
// Invariants:
//   B1. A row is forgotten when it was acknowledged, never before.
//   B2. One batch is on its way at a time, and nobody asks the servers for rows that could be in it: `settled` comes first.
//   B3. What is kept is bounded: nothing can be added while a batch could not be written.

import { assert } from "../base/assert.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import type { RawRows } from "../worker/raw-rows.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;

export type RowWriter = Pick<RawRows, "rowFloats" | "write">;

type Batch = { readonly address: number; readonly byteCount: number; readonly rows: number; readonly capacity: number; count: number };

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
    assert(this.#batch === undefined, "B2");
    const keyBytes = Math.max(1, capacity) * KEY_BYTES;
    const byteCount = keyBytes + Math.max(1, capacity) * this.#rowBytes;
    const address = this.#arena.allocate(byteCount);
    this.#batch = { address, byteCount, rows: address + keyBytes, capacity, count: 0 };
  }

  /** Copies a row: it leaves with the next `send`. */
  add(key: number, row: number): void {
    const batch = this.#batch;
    assert(batch !== undefined && this.#sending === undefined && batch.count < batch.capacity, "B3");
    this.#kernels.copy(batch.address + batch.count * KEY_BYTES, key, KEY_BYTES);
    this.#kernels.copy(batch.rows + batch.count * this.#rowBytes, row, this.#rowBytes);
    batch.count++;
  }

  /** Begins to write what was added. Whoever awaits `settled` hears how it went. */
  send(): void {
    const batch = this.#batch;
    if (batch === undefined || this.#sending !== undefined) return;
    if (batch.count === 0) {
      this.drop();
      return;
    }
    const { buffer } = this.#arena.memory;
    const keys = new BigUint64Array(buffer, batch.address, batch.count);
    const rows = new Float32Array(buffer, batch.rows, batch.count * this.#writer.rowFloats);
    this.#sending = this.#writer.write(keys, rows);
    this.#sending.catch(() => {}); // `settled` tells
  }

  /** Resolves when nothing is on its way. What could not be written is tried once more first; rejects with the reason if that fails too, and may be called again. */
  async settled(): Promise<void> {
    this.send();
    if (this.#sending === undefined) return;
    try {
      await this.#sending;
    } catch {
      this.#sending = undefined;
      this.send();
      await this.#sending;
    }
    this.drop();
  }

  /** Forgets everything; nothing may be on its way. */
  drop(): void {
    const batch = this.#batch;
    if (batch !== undefined) this.#arena.release(batch.address, batch.byteCount);
    this.#batch = undefined;
    this.#sending = undefined;
  }
}
