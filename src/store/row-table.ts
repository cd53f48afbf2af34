// row-table — a kernel table in the arena, u64 key → payload, that can be frozen for a checkpoint, filled from one, and
// walked, saved, moved and dropped part by part. Tables with optimizers (table-store.ts) and sums (sums/) share it. It
// does not know what rows mean: callers call `frozen.preserve` before they change, add or remove rows.
//
// Invariants:
//   RowTable.R1. A call that lacks memory changes nothing, and releases what it allocated.

import { assert } from "../base/assert.ts";
import { bytesOf } from "../base/bytes.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type Arena, stateFull } from "../kernel/arena.ts";
import { KEY_BYTES, WORD_BYTES } from "../kernel/elements.ts";
import { type Kernels, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import { NO_ROOM_COUNT, type RowKernels } from "../kernel/row-kernels.ts";
import { PART_BITS } from "../keys/part.ts";
import { TableFreeze, type TakenColumn } from "./table-freeze.ts";
import { TableParts } from "./table-parts.ts";
import type { RowColumns, RowImages } from "./table-requests.ts";

/** What tables are made of. */
export type RowTableHost = { readonly arena: Arena; readonly kernels: Kernels; readonly rowKernels: RowKernels };

export class RowTable {
  /** Its address, for the kernels. */
  readonly address: number;
  readonly payloadBytes: number;
  /** How many rows one step handles. */
  readonly chunkRows: number;
  /** Its rows part by part. */
  readonly parts: TableParts;
  /** While a checkpoint is being saved: it sees changes first. Nobody else writes it. */
  frozen: TableFreeze | undefined;
  readonly #host: RowTableHost;

  /** Throws ARENA_FULL. */
  constructor(
    host: RowTableHost,
    { payloadBytes, secret = randomSecret() }: { readonly payloadBytes: number; readonly secret?: bigint | undefined },
  ) {
    this.#host = host;
    this.payloadBytes = payloadBytes;
    this.chunkRows = chunkRowsFor(ROW_KEY_BYTES + payloadBytes);
    this.address = host.kernels.createTable({ payloadBytes, secret });
    this.parts = new TableParts({ ...host, table: this.address, payloadBytes });
  }

  get rowCount(): number {
    return this.#host.kernels.rowCount(this.address);
  }

  get usedBytes(): number {
    return this.#host.kernels.tableBytes(this.address);
  }

  /** The table as it is now, read out while it changes. One at a time; the caller closes it. Throws ARENA_FULL. */
  freeze(): TableFreeze {
    assert(this.frozen === undefined, "a table is frozen once at a time");
    this.frozen = new TableFreeze({
      ...this.#host,
      table: this.address,
      payloadBytes: this.payloadBytes,
      chunkRows: this.chunkRows,
      secret: randomSecret(),
      ended: () => {
        this.frozen = undefined;
      },
    });
    return this.frozen;
  }

  /**
   * Removes the rows of a part; returns how many. Later rows of the table reuse their memory. Throws ARENA_FULL,
   * nothing changed, if a checkpoint is being saved and there is no room to list them.
   */
  dropPart(part: number): number {
    if (this.frozen !== undefined) this.parts.eachKeys(part, (keys, keyCount) => this.frozen?.preserve(keys, keyCount));
    return this.parts.drop(part);
  }

  /**
   * Prepares an empty table for the rows of a checkpoint, `byPart` as far as known: until `settle` they need no more
   * memory than in a table that grew, in any order, and may use memory reserved for work (Arena.A4). Throws ARENA_FULL.
   */
  expect(byPart: Float64Array): void {
    const { arena, kernels } = this.#host;
    const total = Math.round(byPart.reduce((sum, count) => sum + count, 0));
    if (total === 0 || this.rowCount > 0) return;
    kernels.expectRows(this.address, total);
    if (!arena.overdraw(() => splitFor(kernels, this.address, byPart))) throw stateFull(arena, `an index of ${total} rows`);
  }

  /** All expected rows are there. */
  settle(): void {
    this.#host.kernels.settleRows(this.address);
  }

  /**
   * Gives each key a row with these columns, counted from its payload; the rest of new rows is zero. Throws ARENA_FULL.
   */
  restore(keys: number, keyCount: number, columns: readonly TakenColumn[]): void {
    if (keyCount === 0) return;
    const { arena, rowKernels } = this.#host;
    this.frozen?.preserve(keys, keyCount);
    const listBytes = keyCount * WORD_BYTES;
    const list = arena.allocateBulk(listBytes); // no holes among the rows
    try {
      while (rowKernels.insertValues(this.address, keys, keyCount, list, 0) === NO_ROOM_COUNT) {
        if (!arena.onFull("state", keyCount * this.payloadBytes)) throw stateFull(arena, `${keyCount} rows that were saved`);
      }
      rowKernels.findValues(this.address, keys, keyCount, this.payloadBytes, list, 0);
      for (const { offset, byteCount, address } of columns) rowKernels.writeRows(list, keyCount, offset, byteCount, address);
    } finally {
      arena.release(list, listBytes);
    }
  }

  /**
   * Replaces rows by saved ones; idempotent. Calls `look` with the address of their payloads. Throws ARENA_FULL,
   * nothing changed.
   */
  loadRows({ keys, payloads }: RowImages, look: (payloads: number) => void = () => {}): void {
    assert(payloads.length === keys.length * this.payloadBytes, "rows are those of a table of this kind");
    if (keys.length === 0) return;
    const { arena } = this.#host;
    const byteCount = keys.byteLength + payloads.length;
    const at = arena.allocate(byteCount);
    try {
      arena.bytes.set(bytesOf(keys), at);
      arena.bytes.set(payloads, at + keys.byteLength);
      this.restore(at, keys.length, [{ offset: 0, byteCount: this.payloadBytes, address: at + keys.byteLength }]);
      look(at + keys.byteLength);
    } finally {
      arena.release(at, byteCount);
    }
  }

  /** Releases all memory. */
  close(): void {
    this.frozen?.lose(new WeighbridgeError("UNKNOWN_PARAMETER", "the table was cleared while it was saved"));
    this.#host.kernels.destroyTable(this.address);
  }
}

function randomSecret(): bigint {
  return crypto.getRandomValues(new BigUint64Array(1))[0]!;
}

/** Rows of one chunk: a small share of a second-level cache, next to gradients or results. */
const CHUNK_BYTES = 73_728;
/** The kernels probe this many keys together. */
const PROBED_TOGETHER = 128;
const CHUNK_ROWS_MAX = 8 * PROBED_TOGETHER;

export function columnsOf(valueBytes: number, extraBytes: number, versions: boolean): RowColumns {
  const versionBytes = versions ? WORD_BYTES : 0;
  return {
    key: { offset: -ROW_KEY_BYTES, byteCount: KEY_BYTES },
    values: { offset: 0, byteCount: valueBytes },
    slots: { offset: valueBytes, byteCount: extraBytes },
    version: versions ? { offset: valueBytes + extraBytes, byteCount: WORD_BYTES } : undefined,
    payload: { offset: 0, byteCount: valueBytes + extraBytes + versionBytes },
  };
}

/** As many rows as fit a chunk: at least one, whole batches of the kernels where there are several. */
function chunkRowsFor(rowBytes: number): number {
  const rows = Math.max(1, Math.min(CHUNK_ROWS_MAX, Math.floor(CHUNK_BYTES / rowBytes)));
  return rows < PROBED_TOGETHER ? rows : rows - (rows % PROBED_TOGETHER);
}

/** A segment that gets slightly more than it holds is split then, as in a table that grew. */
const FULLNESS_MAX = 1.1;
/** Bits of a hash that choose a segment, at most (kernels/table-growth.as.ts, DEPTH_MAX). */
const DEPTH_MAX = 24;
const HASH_BITS = 32;

/**
 * Splits the index of an empty table for rows that are about to come, as it is once they are there: the rows of a
 * checkpoint come by part, and an index that is split meanwhile would take half as much again
 * (TableGrowth.G5). `byPart` has the rows of each part. False when there is no room.
 */
export function splitFor(kernels: Kernels, table: number, byPart: Float64Array): boolean {
  const rowsMax = kernels.segmentRowsMax(table) * FULLNESS_MAX;
  const upTo = new Float64Array(byPart.length + 1);
  for (const [part, count] of byPart.entries()) upTo[part + 1] = (upTo[part] as number) + count;
  const countOf = (prefix: number, depth: number): number => {
    const parts = 2 ** (PART_BITS - depth);
    if (parts < 1) return (byPart[Math.floor(prefix * parts)] as number) * parts; // below a part rows are spread evenly
    return (upTo[(prefix + 1) * parts] as number) - (upTo[prefix * parts] as number);
  };
  const split = (prefix: number, depth: number): boolean => {
    if (depth < DEPTH_MAX && countOf(prefix, depth) > rowsMax) return split(2 * prefix, depth + 1) && split(2 * prefix + 1, depth + 1);
    return kernels.splitTo(table, (prefix * 2 ** (HASH_BITS - depth)) >>> 0, depth);
  };
  return split(0, 0);
}
