// parameter-snapshot — one parameter as it was at the cut, until it is written: blocks of a tensor are held, a table is
// frozen. Making one takes as long as naming the blocks; only what changes before it is written is copied
// (TensorStore.T1, TableFreeze.F2).
//
// Invariants:
//   ParameterSnapshot.S1. It writes the state at the moment of its making: values, slots, steps, versions (D3).
//   ParameterSnapshot.S2. Untouched blocks are written with their initial values: a checkpoint has every row of a
//       tensor.
//   ParameterSnapshot.S3. `close` releases everything at once, also during a write, which is then of no use.
//   ParameterSnapshot.S4. A parameter that is cleared or replaced after the cut is written as it was: it keeps its
//       memory until `close`.
//   ParameterSnapshot.S5. A chunk of a table names the parts of its rows, from the first to the last. The table is
//       walked in the order of parts, so each chunk of a large one has few, and a restoring server reads only those it
//       needs.

import { assert } from "../../base/assert.ts";
import { bytesOf } from "../../base/bytes.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { elementsAt, ROW_ELEMENTS } from "../../kernel/row-element.ts";
import { PART_COUNT, partOf } from "../../keys/part.ts";
import type { BlockSnapshot } from "../../store/block-span.ts";
import { encodeStaleness, type TableSpec } from "../../store/parameter-spec.ts";
import type { SavedColumns } from "../../store/row-types/ps-row-type.ts";
import { elementOf } from "../../store/row-types/row-type-spec.ts";
import { isSaved, ROW_STEPS_COLUMN, STEP_COLUMN, slotSpans, storedColumns } from "../../store/snapshot/describe-parameter.ts";
import {
  type ColumnRecord,
  columnBytesPerRow,
  KEYS_COLUMN,
  type ParameterRecord,
  VALUES_COLUMN,
} from "../../store/snapshot/parameter-record.ts";
import type { ShardSink } from "../../store/snapshot/snapshot-files.ts";
import type { TableFreeze, TakenColumn } from "../../store/table-freeze.ts";
import { encodeTraining } from "../../store/training-state.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { TableParameter } from "../parameters/table-parameter.ts";
import type { TensorParameter } from "../parameters/tensor-parameter.ts";

/** Chunks that are written side by side. */
export const LANES = 2;
/** How much of a table is copied in one turn of the event loop, at most a share of the reserve of a small arena. */
export const STAGE_BYTES: number = 1 << 20;
const STAGE_SHARE = 1 / 32;

export interface ParameterSnapshot {
  /** `rowCount` is the table's on this server, once it is written. */
  readonly record: ParameterRecord;
  write(sink: ShardSink): Promise<void>;
  /** Arena bytes that exist twice: rows set aside, values replaced. */
  readonly keptBytes: number;
  /** Later steps of a write fail with it. */
  lose(error: WeighbridgeError): void;
  /** ParameterSnapshot.S3 */
  close(): void;
}

/** Throws UNKNOWN_PARAMETER, ARENA_FULL. */
export function snapshotOf(name: string, parameters: Parameters, ownership: Ownership): ParameterSnapshot {
  const number = parameters.numberOf(name);
  const parameter = parameters.get(number);
  const { plugIns } = parameters.host;
  const described = plugIns.describe(parameter.spec);
  const consistency = changedConsistency(parameter) ?? described.consistency;
  const record = { ...described, consistency, schedule: scheduleOf(parameter), state: encodeTraining(parameter.training) };
  const snapshot =
    parameter instanceof TableParameter ? tableSnapshot(record, parameter) : new TensorSnapshot(record, parameter, number, ownership);
  return new KeptSnapshot(snapshot, parameters.keep(parameter));
}

function tableSnapshot(record: ParameterRecord, { host, spec, store }: TableParameter): TableSnapshot {
  const { arena, plugIns } = host;
  const save = plugIns.saverOf(spec);
  return new TableSnapshot({
    ...{ record, arena, stored: storedColumns(spec, plugIns.columnsOf(spec)), freeze: store.freeze() },
    save: save && ((columns, count) => save(columnsInHand(arena, spec, columns, count))),
  });
}

/** A snapshot whose parameter keeps its memory until it is closed (ParameterSnapshot.S4). */
class KeptSnapshot implements ParameterSnapshot {
  readonly #snapshot: ParameterSnapshot;
  #letGo: (() => void) | undefined;

  constructor(snapshot: ParameterSnapshot, letGo: () => void) {
    this.#snapshot = snapshot;
    this.#letGo = letGo;
  }

  get record(): ParameterRecord {
    return this.#snapshot.record;
  }

  get keptBytes(): number {
    return this.#snapshot.keptBytes;
  }

  async write(sink: ShardSink): Promise<void> {
    await this.#snapshot.write(sink);
    this.close();
  }

  lose(error: WeighbridgeError): void {
    this.#snapshot.lose(error);
  }

  close(): void {
    this.#snapshot.close();
    this.#letGo?.();
    this.#letGo = undefined;
  }
}

function scheduleOf({ training }: TableParameter | TensorParameter): ParameterRecord["schedule"] {
  const { type, ...settings } = training.schedule;
  return { kind: type, ...(settings as object) };
}

/** The consistency of the last phase, once there was a change. */
function changedConsistency({ training }: TableParameter | TensorParameter): ParameterRecord["consistency"] | undefined {
  const last = training.consistency?.phases.at(-1);
  return last && { kind: last.updates, reduce: last.reduce, staleness: encodeStaleness(last.staleness) };
}

type NamedFloats = { readonly name: string; readonly floats: Float32Array<ArrayBufferLike> };

class TensorSnapshot implements ParameterSnapshot {
  readonly record: ParameterRecord;
  readonly #tensor: TensorParameter;
  readonly #owned: readonly number[];
  readonly #held = new Map<number, BlockSnapshot>();
  #loss: WeighbridgeError | undefined;

  constructor(record: ParameterRecord, tensor: TensorParameter, number: number, ownership: Ownership) {
    this.record = record;
    this.#tensor = tensor;
    const { store } = tensor;
    this.#owned = Array.from({ length: store.shape.blockCount }, (_, block) => block).filter((block) => ownership.ownsBlock(number, block));
    const here = new Set(store.blockIndexes);
    // ParameterSnapshot.S1
    for (const block of this.#owned) if (here.has(block)) this.#held.set(block, store.holdBlock(block));
  }

  get keptBytes(): number {
    let bytes = 0;
    for (const { values, slots, isReplaced } of this.#held.values()) if (isReplaced) bytes += values.byteLength + slots.byteLength;
    return bytes;
  }

  async write(sink: ShardSink): Promise<void> {
    const blocks = this.#owned.values();
    await allOrFirstError(
      Array.from({ length: LANES }, async () => {
        for (const block of blocks) await this.#writeBlock(sink, block);
      }),
    );
  }

  lose(error: WeighbridgeError): void {
    this.#loss ??= error;
    this.close();
  }

  close(): void {
    for (const block of [...this.#held.keys()]) this.#release(block);
  }

  async #writeBlock(sink: ShardSink, block: number): Promise<void> {
    if (this.#loss !== undefined) throw this.#loss;
    const { store, spec } = this.#tensor;
    if (!this.#held.has(block)) this.#held.set(block, store.initialBlock(block)); // ParameterSnapshot.S2
    const held = this.#held.get(block) as BlockSnapshot;
    const { step, rowSteps } = held;
    const { width } = this.record;
    const [values, slots] = [held.values, held.slots];
    const from = store.shape.firstFloat(block) / width;
    const rowCount = values.length / width;
    const chunk = await sink.openRows(spec.name, { from, to: from + rowCount });
    const spans = slotSpans(spec, this.#tensor.host.plugIns.columnsOf(spec), rowCount);
    const columns = this.#savedColumns(
      [{ name: VALUES_COLUMN, floats: values }, ...spans.map(({ name, from: first, to }) => ({ name, floats: slots.subarray(first, to) }))],
      rowCount,
    );
    const countsRows = this.record.columns.some(({ name }) => name === ROW_STEPS_COLUMN);
    await allOrFirstError([
      ...columns.flatMap(({ name, floats }) => (isSaved(name) ? [chunk.write(name, bytesOf(floats))] : [])),
      chunk.write(STEP_COLUMN, bytesOf(BigUint64Array.of(BigInt(step)))),
      ...(countsRows ? [chunk.write(ROW_STEPS_COLUMN, bytesOf(rowSteps ?? new Uint32Array(rowCount)))] : []),
    ]);
    this.#release(block);
  }

  /** The columns as they are written: a plug-in that changes them gets copies, since held memory does not change. */
  #savedColumns(columns: readonly NamedFloats[], count: number): readonly NamedFloats[] {
    const save = this.#tensor.host.plugIns.saverOf(this.#tensor.spec);
    if (save === undefined) return columns;
    const copies = columns.map(({ name, floats }) => ({ name, floats: new Float32Array(floats) }));
    save({ count, columns: Object.fromEntries(copies.map(({ name, floats }) => [name, floats])) });
    return copies;
  }

  #release(block: number): void {
    const held = this.#held.get(block);
    this.#held.delete(block);
    held?.release();
  }
}

/** The rows of a table, frozen at the cut (ParameterSnapshot.S1). */
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
    await allOrFirstError(Array.from({ length: LANES }, () => this.#writeLane(sink)));
    this.close();
  }

  lose(error: WeighbridgeError): void {
    this.#freeze.lose(error);
  }

  close(): void {
    this.#freeze.close();
  }

  async #writeLane(sink: ShardSink): Promise<void> {
    const rowBytes = this.#record.columns.reduce((sum, column) => sum + columnBytesPerRow(column), 0);
    const { reserveBytes } = this.#arena;
    const stageBytes = reserveBytes === 0 ? STAGE_BYTES : Math.min(STAGE_BYTES, reserveBytes * STAGE_SHARE);
    const rowsMax = Math.max(1, Math.floor(stageBytes / rowBytes));
    const stage = this.#arena.allocate(rowsMax * rowBytes);
    try {
      const columns = stagedColumns(this.#stored, stage, rowsMax).filter(({ name }) => isSaved(name));
      for (let count = this.#fill(columns, rowsMax); count > 0; count = this.#fill(columns, rowsMax)) {
        this.#save?.(columns, count);
        const chunk = await sink.openParts(this.#record.name, { ...this.#partsOf(columns, count), rowCount: count });
        await allOrFirstError(
          columns.map(({ name, byteCount, address }) =>
            chunk.write(name, this.#arena.bytes.subarray(address, address + count * byteCount)),
          ),
        );
      }
    } finally {
      this.#arena.release(stage, rowsMax * rowBytes);
    }
  }

  /** The parts that staged rows are of (ParameterSnapshot.S5). */
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

/** Staged rows of a table, as plug-ins get them: without keys. */
export function columnsInHand(arena: Arena, spec: TableSpec, columns: readonly StagedColumn[], count: number): SavedColumns {
  const element = elementOf(spec);
  const views = columns
    .filter(({ name }) => name !== KEYS_COLUMN)
    .map(
      ({ name, address, byteCount }) =>
        [name, elementsAt(element, arena.memory.buffer, address, (count * byteCount) / ROW_ELEMENTS[element].bytes)] as const,
    );
  return { count, columns: Object.fromEntries(views) };
}

export type StagedColumn = TakenColumn & { readonly name: string };

/**
 * Where the columns of a table's rows lie in a row, counted from its values, and in a span of `rowsMax` rows, column
 * after column; those that are not saved take no room there.
 */
export function stagedColumns(columns: readonly ColumnRecord[], span: number, rowsMax: number): readonly StagedColumn[] {
  let [offset, address] = [0, span];
  return columns.map((column) => {
    const byteCount = columnBytesPerRow(column);
    const isKey = column.name === KEYS_COLUMN;
    const staged = { name: column.name, byteCount, address, offset: isKey ? -byteCount : offset };
    if (isSaved(column.name)) address += rowsMax * byteCount;
    if (!isKey) offset += byteCount;
    return staged;
  });
}

/** Waits for all, also if one fails: their memory is in use until then. */
export async function allOrFirstError(promises: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(promises)) if (outcome.status === "rejected") throw outcome.reason;
}
