// table-state — the rows of a table on a server as its state: how they are restored from a checkpoint, frozen for one,
// removed, and saved, loaded and dropped with their part. TableStore updates and reads them.

import { assert } from "../base/assert.ts";
import { badArgument } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import type { Arena } from "../kernel/arena.ts";
import { FLOAT_BYTES, WORD_BYTES } from "../kernel/elements.ts";
import type { Kernels } from "../kernel/kernels.ts";
import type { RowKernels } from "../kernel/row-kernels.ts";
import { type PulledImages, PulledRows } from "./pulled-rows.ts";
import { columnsOf, RowTable } from "./row-table.ts";
import type { TableFreeze, TakenColumn } from "./table-freeze.ts";
import type { PartMarks, TableParts } from "./table-parts.ts";
import type { RowColumns, RowImages, TableRestore } from "./table-requests.ts";
import type { RowUpdater } from "./updaters/parameter-updater.ts";

/** The widest row. */
const VALUE_BYTES_MAX = 512 * 1024;

export type TableStateOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  /** Elements of a row and bytes of each, by default those of f32. A row is whole words. */
  readonly width: number;
  readonly elementBytes?: number | undefined;
  readonly updater: RowUpdater;
  /** Whether rows count their updates, for caches that tolerate some. Defaults to false. */
  readonly versions?: boolean | undefined;
  /** Keys the hash of the table (a u64). Random when left out. */
  readonly secret?: bigint | undefined;
};

export class TableState {
  readonly width: number;
  /** Where the parts of a row lie, counted from its values: for checkpoints. */
  readonly columns: RowColumns;
  /** Its rows part by part. */
  readonly parts: TableParts;
  protected readonly arena: Arena;
  protected readonly kernels: Kernels;
  protected readonly rowKernels: RowKernels;
  protected readonly updater: RowUpdater;
  protected readonly rows: RowTable;
  /** Its address, for the kernels. */
  protected readonly table: number;
  /** What workers pulled last, for an optimizer that compares with it. */
  protected readonly pulled: PulledRows | undefined;
  protected readonly valueBytes: number;
  protected isClosed = false;
  /** Seeded by chance once: a word of the system's costs as much as a few hundred rows. */
  readonly #generations = new Random(crypto.getRandomValues(new Uint32Array(1))[0]!);
  #generation: number = this.#generations.uint32() || 1;

  /** Throws BAD_ARGUMENT for an impossible width, ARENA_FULL. */
  constructor(options: TableStateOptions) {
    const { arena, kernels, rowKernels, width, elementBytes = FLOAT_BYTES, updater, versions = false, secret } = options;
    const widthMax = VALUE_BYTES_MAX / elementBytes;
    if (!(Number.isInteger(width) && width >= 1 && width <= widthMax)) {
      throw badArgument(`rows of a table are 1 to ${widthMax} elements wide, not ${width}`);
    }
    this.width = width;
    this.arena = arena;
    this.kernels = kernels;
    this.rowKernels = rowKernels;
    this.updater = updater;
    this.valueBytes = width * elementBytes;
    assert(this.valueBytes % WORD_BYTES === 0, `rows of ${width} elements of ${elementBytes} bytes are no whole words`);
    this.columns = columnsOf(this.valueBytes, updater.rowExtraBytes(), versions);
    this.rows = new RowTable({ arena, kernels, rowKernels }, { payloadBytes: this.columns.payload.byteCount, secret });
    this.table = this.rows.address;
    this.parts = this.rows.parts;
    const pulled = { arena, kernels, rowKernels, valueBytes: this.valueBytes, secret: randomSecret };
    this.pulled = updater.notesPulls ? new PulledRows(pulled) : undefined;
  }

  get rowCount(): number {
    return this.rows.rowCount;
  }

  /** A random u32, never 0: versions of another generation are worthless (TableStore.T5). */
  get generation(): number {
    return this.#generation;
  }

  /** TableStore.T5 */
  #beginGeneration(): void {
    this.#generation = this.#generations.uint32() || 1;
  }

  /** Arena bytes of rows, slots and index, and of what workers pulled. */
  get usedBytes(): number {
    return this.rows.usedBytes + (this.pulled?.usedBytes ?? 0);
  }

  /** Removes the rows of these keys; returns how many. Their next update makes them anew (TableStore.T3). */
  remove(keys: number, keyCount: number): number {
    this.#beginGeneration();
    this.rows.frozen?.preserve(keys, keyCount);
    this.pulled?.remove(keys, keyCount);
    return this.kernels.removeRows(this.table, keys, keyCount);
  }

  /** As Kernels.listRows, with the addresses of the rows' values. */
  list(cursor: number, rowsOut: number): number {
    return this.parts.rowsOfPart("all", cursor, rowsOut);
  }

  /** As RowTable.dropPart. */
  dropPart(part: number): number {
    const rowCount = this.rows.dropPart(part);
    this.pulled?.dropPart(part);
    if (rowCount > 0) this.#beginGeneration();
    return rowCount;
  }

  /** As RowTable.loadRows. */
  loadRows(images: RowImages, look?: (payloads: number) => void): void {
    this.rows.loadRows(images, look);
    this.#beginGeneration();
  }

  /** Copies a column of listed rows to `out`, one after the other. */
  readColumn(rows: number, rowCount: number, column: keyof RowColumns, out: number): void {
    const at = this.columns[column];
    assert(at !== undefined, `this table has no ${column}`);
    this.rowKernels.readRows(rows, rowCount, at.offset, at.byteCount, out);
  }

  /** Gives each key a row with exactly this payload, as `readColumn` wrote it. Throws ARENA_FULL (TableStore.T1). */
  restore({ keys, keyCount, payloads }: TableRestore): void {
    this.restoreColumns(keys, keyCount, [{ ...this.columns.payload, address: payloads }]);
  }

  /** As RowTable.expect. */
  expect(byPart: Float64Array): void {
    this.rows.expect(byPart);
  }

  /** All expected rows are there. */
  settle(): void {
    this.rows.settle();
  }

  /** As `restoreColumns`, for rows of a checkpoint (`expect`). */
  restoreSaved(keys: number, keyCount: number, columns: readonly TakenColumn[]): void {
    this.arena.overdraw(() => this.restoreColumns(keys, keyCount, columns));
  }

  /** As `restore`, by columns, which make up the whole payload. */
  restoreColumns(keys: number, keyCount: number, columns: readonly TakenColumn[]): void {
    this.rows.restore(keys, keyCount, columns);
    this.#beginGeneration();
  }

  /** Restored values and slots have magnitudes up to this. */
  noteMagnitude(magnitude: number): void {
    this.updater.noteMagnitude(magnitude);
  }

  /** Whether updates set rows aside now, which needs memory. */
  get isFrozen(): boolean {
    return this.rows.frozen !== undefined;
  }

  /** As RowTable.freeze. */
  freeze(): TableFreeze {
    return this.rows.freeze();
  }

  /** The worker's pulls are of no use any more. */
  forgetPulls(workerRank: number): void {
    this.pulled?.forget(workerRank);
  }

  /** What workers pulled of a part, for `loadPulled`. Throws ARENA_FULL. */
  savePulled(part: number): Iterable<PulledImages> {
    return this.pulled?.savePart(part) ?? [];
  }

  /** As TableParts.mark, with what workers pulled. */
  markParts(marks: PartMarks): void {
    this.parts.mark(marks);
    this.pulled?.markParts(marks);
  }

  /** Throws ARENA_FULL. */
  loadPulled(pulled: PulledImages): void {
    this.pulled?.load(pulled);
  }

  /** Releases all memory. */
  close(): void {
    this.isClosed = true;
    this.rows.close();
    this.pulled?.close();
  }
}

function randomSecret(): bigint {
  return crypto.getRandomValues(new BigUint64Array(1))[0]!;
}
