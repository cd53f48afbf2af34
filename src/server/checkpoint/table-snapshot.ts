// table-snapshot — the rows of a table as they were at the cut, until they are written: those of a parameter, or sums
// of one width. Rows are copied from the frozen table into a stage, and written from there.
//
// Invariants:
//   TableSnapshot.C1. A chunk names the parts of its rows, from the first to the last. The table is walked in the order
//       of parts, so each chunk of a large one has few, and a restoring server reads only those it needs.

import { assert } from "../../base/assert.ts";
import { allEnded } from "../../base/deferred.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { PART_COUNT, partOf } from "../../keys/part.ts";
import { isSaved } from "../../store/snapshot/describe-parameter.ts";
import { type ColumnRecord, KEYS_COLUMN, type ParameterRecord, rowBytesOf } from "../../store/snapshot/parameter-record.ts";
import type { ShardSink } from "../../store/snapshot/snapshot-files.ts";
import type { TableFreeze } from "../../store/table-freeze.ts";
import type { ParameterSnapshot } from "./parameter-snapshot.ts";
import { type StagedColumn, stagedColumns } from "./staged-columns.ts";

/** Chunks that are written side by side. */
const LANES = 2;
/** How much is copied in one turn of the event loop, at most a share of the reserve of a small arena. */
export const STAGE_BYTES: number = 1 << 20;
const STAGE_SHARE = 1 / 32;

/** Runs `lane` LANES times side by side. */
export async function inLanes(lane: () => Promise<void>): Promise<void> {
  await allEnded(Array.from({ length: LANES }, lane));
}

export class TableSnapshot implements ParameterSnapshot {
  readonly #record: ParameterRecord;
  readonly #arena: Arena;
  readonly #stored: readonly ColumnRecord[];
  readonly #freeze: TableFreeze;
  readonly #save: ((columns: readonly StagedColumn[], count: number) => void) | undefined;
  #rowCount = 0;

  /** `stored`: the columns of a row as it lies in the table. */
  constructor(options: {
    readonly record: ParameterRecord;
    readonly arena: Arena;
    readonly stored: readonly ColumnRecord[];
    readonly freeze: TableFreeze;
    /** Plug-ins may change rows before they are written. */
    readonly save?: ((columns: readonly StagedColumn[], count: number) => void) | undefined;
  }) {
    this.#record = options.record;
    this.#arena = options.arena;
    this.#stored = options.stored;
    this.#freeze = options.freeze;
    this.#save = options.save;
  }

  get keptBytes(): number {
    return this.#freeze.asideBytes;
  }

  get record(): ParameterRecord {
    return { ...this.#record, rowCount: this.#rowCount };
  }

  async write(sink: ShardSink): Promise<void> {
    await inLanes(() => this.#writeLane(sink));
    this.close();
  }

  lose(error: WeighbridgeError): void {
    this.#freeze.lose(error);
  }

  close(): void {
    this.#freeze.close();
  }

  async #writeLane(sink: ShardSink): Promise<void> {
    const rowBytes = rowBytesOf(this.#record.columns);
    const { reserveBytes } = this.#arena;
    const stageBytes = reserveBytes === 0 ? STAGE_BYTES : Math.min(STAGE_BYTES, reserveBytes * STAGE_SHARE);
    const rowsMax = Math.max(1, Math.floor(stageBytes / rowBytes));
    const stage = this.#arena.allocate(rowsMax * rowBytes);
    try {
      const columns = stagedColumns(this.#stored, stage, rowsMax).filter(({ name }) => isSaved(name));
      for (let count = this.#fill(columns, rowsMax); count > 0; count = this.#fill(columns, rowsMax)) {
        this.#save?.(columns, count);
        const chunk = await sink.openParts(this.#record.name, { ...this.#partsOf(columns, count), rowCount: count });
        await allEnded(
          columns.map(({ name, byteCount, address }) =>
            chunk.write(name, this.#arena.bytes.subarray(address, address + count * byteCount)),
          ),
        );
      }
    } finally {
      this.#arena.release(stage, rowsMax * rowBytes);
    }
  }

  /** The parts that staged rows are of (TableSnapshot.C1). */
  #partsOf(columns: readonly StagedColumn[], count: number): { readonly from: number; readonly to: number } {
    const keys = columns.find(({ name }) => name === KEYS_COLUMN);
    assert(keys !== undefined, "rows of a table have keys");
    const { words } = this.#arena;
    let [first, last] = [PART_COUNT, 0];
    for (let at = keys.address >>> 2, end = at + 2 * count; at < end; at += 2) {
      const part = partOf(words[at] as number, words[at + 1] as number);
      first = Math.min(first, part);
      last = Math.max(last, part);
    }
    return { from: first, to: last + 1 };
  }

  /** Takes rows until the stage is full; 0 at the end. */
  #fill(columns: readonly StagedColumn[], rowsMax: number): number {
    let filled = 0;
    while (filled < rowsMax) {
      const taken = this.#freeze.take(
        rowsMax - filled,
        columns.map((column) => ({ ...column, address: column.address + filled * column.byteCount })),
      );
      if (taken < 0) break;
      filled += taken;
    }
    this.#rowCount += filled;
    return filled;
  }
}
