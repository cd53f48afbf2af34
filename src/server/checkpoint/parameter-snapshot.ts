// parameter-snapshot — one parameter as it was at the cut, until it is written: blocks of a tensor are held, a table is
// frozen. Making one takes as long as naming the blocks; only what changes before it is written is copied
// (TensorStore.T1, TableFreeze.F2).
//
// Invariants:
//   ParameterSnapshot.S1. It writes the state at the moment of its making: values, slots, steps, versions
//       (spec/consistency.md, D3).
//   ParameterSnapshot.S2. Untouched blocks are written with their initial values: a checkpoint has every row of a
//       tensor.
//   ParameterSnapshot.S3. `close` releases everything at once, also during a write, which is then of no use.
//   ParameterSnapshot.S4. A parameter that is cleared or replaced after the cut is written as it was: it keeps its
//       memory until `close`.

import { bytesOf } from "../../base/bytes.ts";
import { allEnded } from "../../base/deferred.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { BlockSnapshot } from "../../store/block-span.ts";
import { encodeStaleness } from "../../store/parameter-spec.ts";
import { isSaved, ROW_STEPS_COLUMN, STEP_COLUMN, slotSpans, storedColumns } from "../../store/snapshot/describe-parameter.ts";
import { type ParameterRecord, VALUES_COLUMN } from "../../store/snapshot/parameter-record.ts";
import type { ShardSink } from "../../store/snapshot/snapshot-files.ts";
import { encodeTraining } from "../../store/training-state.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { TableParameter } from "../parameters/table-parameter.ts";
import type { TensorParameter } from "../parameters/tensor-parameter.ts";
import { columnsInHand } from "./staged-columns.ts";
import { inLanes, TableSnapshot } from "./table-snapshot.ts";

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
    await inLanes(async () => {
      for (const block of blocks) await this.#writeBlock(sink, block);
    });
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
    await allEnded([
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
