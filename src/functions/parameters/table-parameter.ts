// table-parameter — a table of rows by u64 keys on a server as its functions see it. As tensor-parameter, for rows.
//
// Invariants:
//   T1. A push that makes no sense, or is refused for a NaN, changes nothing.
//   T2. Sync pushes of one clock are put together in the order of the workers' ranks and summed by key in that order: the same bits in every run.
//   T3. Applying a round finds the memory it needs: rows were made, and as much as the work takes was set aside, when its updates came.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Contribution } from "../../consistency/update-rounds.ts";
import type { WorkerLife } from "../../consistency/worker-lives.ts";
import { duplicateScratchBytes } from "../../kernel/duplicate-kernels.ts";
import { CURSOR_BYTES, LIST_ROWS_MAX } from "../../kernel/kernels.ts";
import type { Initializer } from "../../store/initializers/initializer.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import type { TableStore } from "../../store/table-store.ts";
import type { Updater } from "../../store/updaters/updater.ts";
import { Freshness, type Reading } from "./freshness.ts";
import { type Kept, keepKeys, type ParameterHost } from "./parameter-host.ts";
import type { DecodedSettings } from "./parameter-settings.ts";
import type { GatheredUpdate } from "./server-pacer.ts";

const FLOAT_BYTES = 4;
const KEY_BYTES = 8;
const INDEX_BYTES = 4;

/** Gradients for rows, each key once. */
export type RowsPush = {
  readonly life: WorkerLife;
  readonly clock: number;
  readonly scale: number;
  /** The first frame of a push. */
  readonly opens: boolean;
  /** In the arena, as the gradients. */
  readonly keys: BigUint64Array;
  readonly gradients: Float32Array;
  /** How many updates of the worker each gradient sums up, for tables that count versions. One each when left out. */
  readonly updates?: Uint32Array | undefined;
};

/** Which rows a cache asks about: what it has of each, and how far behind it may be. */
export type RowsSync = {
  readonly keys: BigUint64Array;
  /** VERSION_NONE where it has none. */
  readonly versions: Uint32Array;
  readonly bound: number;
};

/** The rows that were too far behind: their positions in the list of keys, versions and values. */
export type FreshRows = { readonly indexes: Uint32Array; readonly versions: Uint32Array; readonly rows: Float32Array };

/** A row of a table, copied. */
export type TableRow = { readonly key: bigint; readonly values: Float32Array };

type RowsUpdate = {
  readonly gradients: number;
  readonly gradientScale: number;
  readonly scheduleStep: number;
  readonly updateCounts?: number | undefined;
};

type Holder = { hold(held: { release(): void }): void };

export class TableParameter {
  readonly spec: TableSpec;
  readonly store: TableStore;
  readonly freshness: Freshness;
  readonly #id: number;
  readonly #host: ParameterHost;
  readonly #unit: number;
  readonly #updater: Updater;
  readonly #initializer: Initializer;
  #step = 0;

  constructor(host: ParameterHost, id: number, spec: TableSpec) {
    this.spec = spec;
    this.#id = id;
    this.#host = host;
    this.#unit = host.nextUnit();
    this.freshness = new Freshness(host.pacer, id, spec.staleness ?? Infinity);
    this.#updater = host.updater(spec, spec.width);
    this.#initializer = host.initializer(spec);
    this.store = host.tableStore(spec, this.#updater, this.#initializer);
  }

  /** Pushes that were applied. */
  get step(): number {
    return this.#step;
  }

  /** Throws VALUE_LENGTH, OUT_OF_RANGE, NOT_FINITE, ARENA_FULL, and for who may not push now STALE_UPDATE, NOT_JOINED, FENCED or QUEUE_FULL. */
  push(push: RowsPush): void {
    const { life, clock, scale, opens, keys, gradients, updates } = push;
    this.#check(keys);
    if (updates !== undefined) this.#checkUpdates(updates, keys.length);
    const expected = keys.length * this.spec.width;
    if (gradients.length !== expected)
      throw new WeighbridgeError("VALUE_LENGTH", `${gradients.length} gradients came for ${this.spec.name}; ${expected} were expected`);
    this.#host.pacer.checkUpdate(life, clock);
    if (!this.#updater.admit(gradients.byteOffset, gradients.length)) return;
    if (this.spec.updates === "sync") {
      this.#gather(push);
      return;
    }
    if (opens) this.#step++;
    const update = { gradients: gradients.byteOffset, gradientScale: scale, scheduleStep: clock, updateCounts: updates?.byteOffset };
    this.#apply(keys.byteOffset, keys.length, update);
  }

  /** The rows one after the other, in memory that `holder` holds until they have left. */
  pull(keys: BigUint64Array, holder: Holder): { readonly values: Float32Array } {
    this.#check(keys);
    const { arena } = this.#host;
    const byteCount = keys.length * this.spec.width * FLOAT_BYTES;
    if (byteCount === 0) return { values: new Float32Array(0) };
    const out = arena.allocate(byteCount);
    holder.hold({ release: () => arena.release(out, byteCount) });
    this.store.pull({ keys: keys.byteOffset, keyCount: keys.length, out });
    return { values: arena.floats.subarray(out >>> 2, (out + byteCount) >>> 2) as Float32Array };
  }

  /** The rows that are more than `bound` updates ahead of what a cache has, in memory that `holder` holds. Throws UNSUPPORTED, VALUE_LENGTH. */
  sync({ keys, versions, bound }: RowsSync, holder: Holder): FreshRows {
    this.#check(keys);
    this.#checkUpdates(versions, keys.length);
    const { arena } = this.#host;
    const { length: keyCount } = keys;
    if (keyCount === 0) return { indexes: new Uint32Array(0), versions: new Uint32Array(0), rows: new Float32Array(0) };
    const byteCount = keyCount * (2 * INDEX_BYTES + this.spec.width * FLOAT_BYTES);
    const indexesOut = arena.allocate(byteCount);
    holder.hold({ release: () => arena.release(indexesOut, byteCount) });
    const versionsOut = indexesOut + keyCount * INDEX_BYTES;
    const rowsOut = versionsOut + keyCount * INDEX_BYTES;
    const known = versions.byteOffset;
    const count = this.store.sync({ keys: keys.byteOffset, keyCount, known, bound, indexesOut, versionsOut, rowsOut });
    const { buffer } = arena.memory;
    return {
      indexes: new Uint32Array(buffer, indexesOut, count),
      versions: new Uint32Array(buffer, versionsOut, count),
      rows: new Float32Array(buffer, rowsOut, count * this.spec.width),
    };
  }

  isFresh(clock: number): boolean {
    return this.freshness.admits(clock);
  }

  whenFresh<T>(reading: Reading, read: () => T): T | Promise<T> {
    return this.freshness.when(reading, read);
  }

  /** All rows that are here. Those that come or go meanwhile may be missed. */
  *rows(): Iterable<TableRow> {
    const { arena } = this.#host;
    const { width } = this.spec;
    const cursor = arena.allocate(CURSOR_BYTES);
    const listed = arena.allocate(LIST_ROWS_MAX * INDEX_BYTES);
    try {
      this.#host.kernels.zero(cursor, CURSOR_BYTES);
      for (let count = this.store.list(cursor, listed); count >= 0; count = this.store.list(cursor, listed)) {
        for (const address of arena.words.slice(listed >>> 2, (listed >>> 2) + count)) {
          const at = address >>> 2;
          const key = (BigInt(arena.words[at - 1] as number) << 32n) | BigInt(arena.words[at - 2] as number);
          yield { key, values: new Float32Array(arena.floats.subarray(at, at + width)) };
        }
      }
    } finally {
      arena.release(cursor, CURSOR_BYTES);
      arena.release(listed, LIST_ROWS_MAX * INDEX_BYTES);
    }
  }

  /** A copy that outlives its frame. */
  keep(keys: BigUint64Array): Kept<BigUint64Array> {
    return keepKeys(this.#host.arena, keys);
  }

  /** Throws BAD_ARGUMENT. */
  configure({ learningRate, schedule, staleness }: DecodedSettings): void {
    if (learningRate !== undefined) this.#updater.setLearningRate(learningRate);
    if (schedule !== undefined) this.#updater.setSchedule(schedule);
    if (staleness !== undefined) this.freshness.staleness = staleness;
  }

  close(): void {
    const error = new WeighbridgeError("UNKNOWN_PARAMETER", `${this.spec.name} was cleared`);
    this.#host.pacer.forget(this.#id, error);
    this.#host.pacer.forget(this.#unit, error);
    this.store.close();
    this.#updater.close();
    this.#initializer.close();
  }

  /** A round, summed: one step. */
  applyRound(keys: number, keyCount: number, update: RowsUpdate): void {
    this.#step++;
    this.#apply(keys, keyCount, update);
  }

  #apply(keys: number, keyCount: number, { gradients, gradientScale, scheduleStep, updateCounts }: RowsUpdate): void {
    this.#updater.begin({ step: Math.max(1, this.#step), scheduleStep, gradientScale, workerRank: 0 });
    const rowCount = this.store.rowCount;
    this.store.update({ keys, keyCount, gradients, updateCounts });
    if (this.store.rowCount !== rowCount) this.#host.noteGrowth();
  }

  #gather({ life, clock, scale, keys, gradients }: RowsPush): void {
    const { pacer, kernels } = this.#host;
    const stamp = { ...life, parameter: this.#unit, clock };
    const byteCount = keys.byteLength + gradients.byteLength;
    const known = pacer.gathered(stamp);
    if (known === undefined) pacer.checkRoom(stamp, byteCount);
    this.store.touch(keys.byteOffset, keys.length); // T3
    const chunk = new RowsChunk(this.#host, keys.length, this.spec.width);
    kernels.copy(chunk.keys, keys.byteOffset, keys.byteLength);
    kernels.zero(chunk.gradients, gradients.byteLength);
    kernels.axpy(chunk.gradients, gradients.byteOffset, scale, gradients.length);
    if (known instanceof GatheredRows) known.chunks.push(chunk);
    else pacer.gather(stamp, new GatheredRows(this, this.#host, clock, chunk), byteCount);
  }

  #checkUpdates(numbers: Uint32Array, keyCount: number): void {
    const { name, versions, updates } = this.spec;
    if (!versions) throw new WeighbridgeError("UNSUPPORTED", `${name} counts no versions of its rows: create it with versions`);
    if (updates === "sync") throw new WeighbridgeError("UNSUPPORTED", `${name} has sync updates; rows of those are not cached`);
    if (numbers.length === keyCount) return;
    throw new WeighbridgeError("VALUE_LENGTH", `${numbers.length} versions or counts came for ${keyCount} rows of ${name}`);
  }

  /** T1 */
  #check(keys: BigUint64Array): void {
    const { rows, name } = this.spec;
    if (rows === undefined) return;
    const limit = BigInt(rows);
    for (const key of keys) {
      if (key < limit) continue;
      throw new WeighbridgeError("OUT_OF_RANGE", `${name} has rows 0 to ${rows - 1}; there is no row ${key}`);
    }
  }
}

/** Keys and gradients of one frame, and memory set aside for the work on them. */
class RowsChunk {
  readonly keyCount: number;
  readonly keys: number;
  readonly gradients: number;
  readonly #host: ParameterHost;
  readonly #byteCount: number;
  readonly #reserve: number;
  readonly #reserveBytes: number;

  constructor(host: ParameterHost, keyCount: number, width: number) {
    const { arena } = host;
    this.#host = host;
    this.keyCount = keyCount;
    this.#byteCount = keyCount * (KEY_BYTES + width * FLOAT_BYTES);
    this.keys = arena.allocate(this.#byteCount);
    this.gradients = this.keys + keyCount * KEY_BYTES;
    this.#reserveBytes = this.#byteCount + keyCount * INDEX_BYTES + duplicateScratchBytes(keyCount);
    this.#reserve = arena.tryAllocate(this.#reserveBytes);
    if (this.#reserve === 0) {
      arena.release(this.keys, this.#byteCount);
      arena.allocate(this.#reserveBytes); // throws, saying how much there is
    }
  }

  releaseReserve(): void {
    this.#host.arena.release(this.#reserve, this.#reserveBytes);
  }

  release(): void {
    this.#host.arena.release(this.keys, this.#byteCount);
  }
}

/** What one worker pushed at one clock. */
class GatheredRows implements GatheredUpdate {
  readonly chunks: RowsChunk[];
  readonly #table: TableParameter;
  readonly #host: ParameterHost;
  readonly #clock: number;

  constructor(table: TableParameter, host: ParameterHost, clock: number, chunk: RowsChunk) {
    this.#table = table;
    this.#host = host;
    this.#clock = clock;
    this.chunks = [chunk];
  }

  /** T2 */
  applyRound(contributions: readonly Contribution<GatheredUpdate>[]): void {
    const { arena, kernels, duplicates, secret } = this.#host;
    const { width, reduce } = this.#table.spec;
    const chunks = contributions.flatMap(({ handle }) => (handle instanceof GatheredRows ? handle.chunks : []));
    for (const chunk of chunks) chunk.releaseReserve(); // T3
    const keyCount = chunks.reduce((count, chunk) => count + chunk.keyCount, 0);
    const rowBytes = width * FLOAT_BYTES;
    const keys = arena.allocate(keyCount * KEY_BYTES);
    const rows = arena.allocate(keyCount * rowBytes);
    const indexes = arena.allocate(keyCount * INDEX_BYTES);
    const scratchBytes = duplicateScratchBytes(keyCount);
    const scratch = arena.allocate(scratchBytes);
    let at = 0;
    for (const chunk of chunks) {
      kernels.copy(keys + at * KEY_BYTES, chunk.keys, chunk.keyCount * KEY_BYTES);
      kernels.copy(rows + at * rowBytes, chunk.gradients, chunk.keyCount * rowBytes);
      at += chunk.keyCount;
      chunk.release();
    }
    const uniqueCount = duplicates.findDuplicates(keys, keyCount, Number(secret & 0xffff_ffffn), scratch, keys, indexes);
    if (uniqueCount < keyCount) duplicates.sumDuplicates(rows, keyCount, width, indexes, rows);
    const gradientScale = reduce === "mean" ? 1 / contributions.length : 1;
    this.#table.applyRound(keys, uniqueCount, { gradients: rows, gradientScale, scheduleStep: this.#clock });
    arena.release(scratch, scratchBytes);
    arena.release(indexes, keyCount * INDEX_BYTES);
    arena.release(rows, keyCount * rowBytes);
    arena.release(keys, keyCount * KEY_BYTES);
  }

  free(): void {
    for (const chunk of this.chunks) {
      chunk.releaseReserve();
      chunk.release();
    }
  }
}
