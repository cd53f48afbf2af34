// pulled-rows — the rows of a table that each worker pulled last, for an optimizer that compares with them (DC-ASGD): a
// table for each worker, made at its first pull and freed with the worker. Checkpoints do not have it.
//
//   by rank     key → values, for those rows that were there when the worker pulled them
//
// Invariants:
//   PulledRows.M1. Nothing depends on how many workers there are, were or will be.
//   PulledRows.M2. Each worker has at most the rows of the store: rows that are removed there are removed here.
//   PulledRows.M3. A pull never fails for lack of memory here: its worker then counts as having just pulled whatever is
//       not remembered, until it is forgotten.

import { bytesOf } from "../base/bytes.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import { WORD_BYTES } from "../kernel/elements.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { NO_ROOM_COUNT, type RowKernels } from "../kernel/row-kernels.ts";
import { type PartMarks, TableParts } from "./table-parts.ts";
import type { RowImages } from "./table-requests.ts";

type PulledRowsOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  readonly valueBytes: number;
  readonly secret: () => bigint;
};

/** The rows of one worker. */
export type PulledImages = { readonly rank: number; readonly images: RowImages };

/** `table` is 0 if there was no room for one. */
type OfWorker = { table: number; isLossy: boolean };

export class PulledRows {
  readonly #options: PulledRowsOptions;
  readonly #workers = new Map<number, OfWorker>();

  constructor(options: PulledRowsOptions) {
    this.#options = options;
  }

  /** The ranks of the workers that have pulled. */
  get ranks(): readonly number[] {
    return [...this.#workers.keys()];
  }

  get usedBytes(): number {
    let bytes = 0;
    for (const table of this.#tables()) bytes += this.#options.kernels.tableBytes(table);
    return bytes;
  }

  /** A worker pulls these rows as they are now: `rows` lists their addresses, one for each key. */
  note(rank: number, { keys, keyCount, rows }: { readonly keys: number; readonly keyCount: number; readonly rows: number }): void {
    if (keyCount === 0) return;
    const { arena, kernels, rowKernels, valueBytes } = this.#options;
    const worker = this.#of(rank);
    const byteCount = keyCount * (WORD_BYTES + valueBytes);
    const listed = worker.table === 0 ? 0 : arena.tryAllocate(byteCount);
    if (listed !== 0 && this.#insert(worker, { keys, keyCount, listed })) {
      const values = listed + keyCount * WORD_BYTES;
      rowKernels.readRows(rows, keyCount, 0, valueBytes, values);
      rowKernels.writeRows(listed, keyCount, 0, valueBytes, values);
    } else {
      worker.isLossy = true; // PulledRows.M3
      if (worker.table !== 0) kernels.removeRows(worker.table, keys, keyCount); // older than what the worker has now
    }
    if (listed !== 0) arena.release(listed, byteCount);
  }

  /**
   * Lists at `out` the addresses of what the worker pulled, 0 for a key that is not remembered; false if it has no
   * table. A worker that `isLossy` counts as having just pulled those.
   */
  find(rank: number, { keys, keyCount, out }: { readonly keys: number; readonly keyCount: number; readonly out: number }): boolean {
    const { table } = this.#workers.get(rank) ?? { table: 0 };
    if (table === 0) return false;
    this.#options.rowKernels.findValues(table, keys, keyCount, this.#options.valueBytes, out, 0);
    return true;
  }

  isLossy(rank: number): boolean {
    return this.#workers.get(rank)?.isLossy === true;
  }

  /** The worker is gone. */
  forget(rank: number): void {
    const { table } = this.#workers.get(rank) ?? { table: 0 };
    this.#workers.delete(rank);
    if (table !== 0) this.#options.kernels.destroyTable(table);
  }

  /** PulledRows.M2 */
  remove(keys: number, keyCount: number): void {
    for (const table of this.#tables()) this.#options.kernels.removeRows(table, keys, keyCount);
  }

  dropPart(part: number): void {
    for (const table of this.#tables()) this.#options.kernels.dropPart(table, part);
  }

  /** Copies what is remembered of a part, for `load`. Throws ARENA_FULL. */
  *savePart(part: number): Iterable<PulledImages> {
    for (const [rank, { table }] of this.#workers) {
      if (table === 0) continue;
      for (const images of this.#partsOf(table).save(part)) yield { rank, images };
    }
  }

  /** As TableParts.mark. */
  markParts(marks: PartMarks): void {
    for (const table of this.#tables()) this.#partsOf(table).mark(marks);
  }

  /** Replaces rows by saved ones; idempotent. Throws ARENA_FULL. */
  load({ rank, images: { keys, payloads } }: PulledImages): void {
    const { arena, rowKernels, valueBytes } = this.#options;
    const worker = this.#of(rank);
    const keyCount = keys.length;
    const byteCount = keys.byteLength + payloads.length + keyCount * WORD_BYTES;
    const at = arena.allocate(byteCount);
    const [values, listed] = [at + keys.byteLength, at + keys.byteLength + payloads.length];
    arena.bytes.set(bytesOf(keys), at);
    arena.bytes.set(payloads, values);
    if (worker.table !== 0 && this.#insert(worker, { keys: at, keyCount, listed })) {
      rowKernels.writeRows(listed, keyCount, 0, valueBytes, values);
    } else worker.isLossy = true; // PulledRows.M3
    arena.release(at, byteCount);
  }

  close(): void {
    for (const rank of this.ranks) this.forget(rank);
  }

  #partsOf(table: number): TableParts {
    const { valueBytes, ...shared } = this.#options;
    return new TableParts({ ...shared, table, payloadBytes: valueBytes });
  }

  *#tables(): Iterable<number> {
    for (const { table } of this.#workers.values()) if (table !== 0) yield table;
  }

  #of(rank: number): OfWorker {
    const known = this.#workers.get(rank);
    if (known !== undefined && known.table !== 0) return known;
    const worker = known ?? { table: 0, isLossy: false };
    this.#workers.set(rank, worker);
    const { kernels, valueBytes, secret } = this.#options;
    try {
      worker.table = kernels.createTable({ payloadBytes: valueBytes, secret: secret() });
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "ARENA_FULL")) throw thrown;
    }
    return worker;
  }

  /** Lists the rows of these keys at `listed`, new ones made; false if there is no room. */
  #insert({ table }: OfWorker, { keys, keyCount, listed }: { keys: number; keyCount: number; listed: number }): boolean {
    const { rowKernels, valueBytes } = this.#options;
    if (rowKernels.insertValues(table, keys, keyCount, listed, 0) === NO_ROOM_COUNT) return false;
    rowKernels.findValues(table, keys, keyCount, valueBytes, listed, 0);
    return true;
  }
}
