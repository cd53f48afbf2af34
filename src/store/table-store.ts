// table-store — an embedding table on one server: u64 key → row of `width` values with its optimizer's slots, made on
// first update. Not a protocol and not a policy: requests are addresses in the arena, with duplicates summed, clocks
// checked and gradients admitted.
//
//   row     [ key u64 | values × width | slots and words of the updater | version u32, if counted ]
//
// A call handles its keys in chunks whose rows fit the second-level cache: find the rows, start new ones, update or
// copy.
//
// Invariants:
//   TableStore.T1. An update is applied whole or not at all: without room for its new rows it throws before any change.
//   TableStore.T2. A pull inserts nothing: a key without a row reads as its initial value, version 0, which its first
//       update changes.
//   TableStore.T3. The first values of a row depend on its key alone (the initializer's duty): rows are the same on
//       every server and after a removal.
//   TableStore.T4. A row's version counts its updates, modulo 2^32.
//   TableStore.T5. Versions compare only within a generation: a restore or a removal begins a new one.

import { AssertionError, assert } from "../base/assert.ts";
import { arenaFull, stateFull } from "../kernel/arena.ts";
import { KEY_BYTES, WORD_BYTES } from "../kernel/elements.ts";
import { ROW_KEY_BYTES } from "../kernel/kernels.ts";
import { FOREIGN_COUNT, NO_ROOM_COUNT } from "../kernel/row-kernels.ts";
import type { KeyList, TablePull, TableSync, TableUpdate } from "./table-requests.ts";
import { TableState, type TableStateOptions } from "./table-state.ts";
import type { RowInitializer } from "./updaters/parameter-updater.ts";
import { type Trial, triedRow } from "./updaters/trial.ts";

const WORD_MAX = 0xffff_ffff;

export class TableStore extends TableState {
  readonly #initializer: RowInitializer;
  readonly #chunkRows: number;
  /** Two lists of chunkRows rows, as many keys, and as many spare rows for missing ones. */
  readonly #scratch: number;
  readonly #scratchBytes: number;
  readonly #fresh: number;
  readonly #freshKeys: number;
  readonly #spares: number;
  readonly #spareBytes: number;

  /** Throws BAD_ARGUMENT for an impossible width, ARENA_FULL. */
  constructor(options: TableStateOptions & { readonly initializer: RowInitializer }) {
    super(options);
    this.#initializer = options.initializer;
    this.#chunkRows = this.rows.chunkRows;
    this.#spareBytes = Math.ceil((ROW_KEY_BYTES + this.valueBytes) / KEY_BYTES) * KEY_BYTES;
    this.#scratchBytes = this.#chunkRows * (2 * WORD_BYTES + KEY_BYTES + this.#spareBytes);
    try {
      this.#scratch = this.arena.allocateState(this.#scratchBytes);
    } catch (thrown) {
      super.close();
      throw thrown;
    }
    this.#fresh = this.#scratch + this.#chunkRows * WORD_BYTES;
    this.#freshKeys = this.#fresh + this.#chunkRows * WORD_BYTES;
    this.#spares = this.#freshKeys + this.#chunkRows * KEY_BYTES;
  }

  /**
   * Makes missing rows, then applies one optimizer step to each named row, in order. False, and nothing changed, if the
   * outcome is not finite. Throws ARENA_FULL (TableStore.T1), NOT_FINITE.
   */
  update(update: TableUpdate): boolean {
    const { keys, keyCount } = update;
    this.#checkFurther(update);
    this.rows.frozen?.preserve(keys, keyCount);
    const missing = this.updater.isTried ? this.#missing(update) : [];
    this.#makeRoom(update);
    if (!this.updater.isTried) {
      this.#apply(update);
      return true;
    }
    return this.updater.attempt(
      (trial) => this.#apply(update, trial),
      () => {
        for (const key of missing) this.kernels.removeRows(this.table, key, 1);
      },
    );
  }

  /** The addresses of the keys that have no row. */
  #missing({ keys, keyCount, owners }: KeyList): readonly number[] {
    const missing: number[] = [];
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      const chunk = { keys: keys + from * KEY_BYTES, keyCount: count, owners };
      if (this.#find(chunk, WORD_BYTES) === 0) continue;
      for (let i = 0; i < count; i++) {
        if (this.arena.words[(this.#scratch >>> 2) + i] === 0) missing.push(keys + (from + i) * KEY_BYTES);
      }
    }
    return missing;
  }

  #apply({ keys, keyCount, owners, gradients, updateCounts = 0 }: TableUpdate, trial?: Trial): void {
    const { version } = this.columns;
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      this.#locate({ keys: keys + from * KEY_BYTES, keyCount: count, owners });
      if (trial !== undefined) this.#save(trial, count, gradients + from * this.valueBytes);
      this.#updateRows(keys + from * KEY_BYTES, count, gradients + from * this.valueBytes);
      if (version === undefined) continue;
      this.rowKernels.addWords(this.#scratch, count, version.offset, updateCounts === 0 ? 0 : updateCounts + from * WORD_BYTES);
    }
  }

  /** Updates the rows of `keys`, which the scratch lists. */
  #updateRows(keys: number, count: number, gradients: number): void {
    const { comparedRank } = this.updater;
    const pulled = this.#fresh;
    if (this.pulled === undefined || comparedRank === undefined) this.updater.updateRows(this.#scratch, count, gradients);
    else {
      const isKnown = this.pulled.find(comparedRank, { keys, keyCount: count, out: pulled });
      if (!isKnown) this.kernels.zero(pulled, count * WORD_BYTES);
      this.updater.updatePulledRows(this.#scratch, pulled, count, gradients, this.pulled.isLossy(comparedRank));
    }
  }

  /** Saves the rows that the scratch lists. */
  #save(trial: Trial, count: number, gradients: number): void {
    const rows = this.#scratch >>> 2;
    const { byteCount } = this.columns.payload;
    for (let i = 0; i < count; i++) {
      const row = this.arena.words[rows + i] as number;
      const at = { row, width: this.width, rowBytes: byteCount, gradient: gradients + i * this.valueBytes };
      trial.save(triedRow(this.updater.layout, at));
    }
  }

  /**
   * A worker pulls these rows now: some optimizers compare with them. A key without a row counts as its first values.
   */
  notePull({ keys, keyCount, owners }: KeyList, reader: { readonly worker: number }): void {
    if (this.pulled === undefined) return;
    this.#checkFurther({ keys, keyCount, owners });
    const { words } = this.arena;
    const list = this.#scratch >>> 2;
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      this.#find({ keys: keys + from * KEY_BYTES, keyCount: count, owners }, this.valueBytes);
      let found = 0;
      for (let i = 0; i < count; i++) if (words[list + i] !== 0) words[list + found++] = words[list + i] as number;
      this.rowKernels.readRows(this.#scratch, found, -ROW_KEY_BYTES, KEY_BYTES, this.#freshKeys);
      this.pulled.note(reader.worker, { keys: this.#freshKeys, keyCount: found, rows: this.#scratch });
    }
  }

  /** Makes missing rows, with their first values. Throws ARENA_FULL, none made. */
  touch(list: KeyList): void {
    const { keys, keyCount, owners } = list;
    this.#checkFurther(list);
    this.rows.frozen?.preserve(keys, keyCount);
    this.#makeRoom(list);
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      this.#locate({ keys: keys + from * KEY_BYTES, keyCount: Math.min(this.#chunkRows, keyCount - from), owners });
    }
  }

  /**
   * Gives rows these values, from an address, and makes missing ones; slots stay. With `isStart` only rows that were
   * missing. Returns how many it gave them. Throws ARENA_FULL, nothing changed.
   */
  set(list: KeyList, values: number, isStart: boolean): number {
    const { keys, keyCount } = list;
    const [rows, { version }] = [this.#scratch >>> 2, this.columns];
    this.rows.frozen?.preserve(keys, keyCount);
    const known = new Uint8Array(isStart ? keyCount : 0);
    for (let from = 0; from < known.length; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      this.#find({ keys: keys + from * KEY_BYTES, keyCount: count }, WORD_BYTES);
      for (let i = 0; i < count; i++) known[from + i] = this.arena.words[rows + i] === 0 ? 0 : 1;
    }
    this.#makeRoom(list);
    let takenCount = 0;
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      this.#locate({ keys: keys + from * KEY_BYTES, keyCount: count });
      for (let i = 0; i < count; i++) {
        if (known[from + i] === 1) continue;
        this.kernels.copy(this.arena.words[rows + i] as number, values + (from + i) * this.valueBytes, this.valueBytes);
        takenCount++;
      }
      if (version !== undefined) this.rowKernels.addWords(this.#scratch, count, version.offset, 0);
    }
    this.pulled?.remove(keys, keyCount);
    return takenCount;
  }

  /** Whether so many new rows certainly do not fit. */
  #isTooMany(newCount: number): boolean {
    const room = this.arena.stateBytesMax + this.arena.overdraftBytes - this.arena.stateUsedBytes;
    const rowBytes = ROW_KEY_BYTES + this.columns.payload.byteCount;
    return newCount * rowBytes > room && (newCount - this.rowKernels.spareRows(this.table)) * rowBytes > room;
  }

  /** How many of the keys have no row. */
  #missingCount({ keys, keyCount, owners }: KeyList): number {
    let missing = 0;
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      missing += this.#find({ keys: keys + from * KEY_BYTES, keyCount: count, owners }, WORD_BYTES);
    }
    return missing;
  }

  /** 1 for each key that has a row, 0 for the others. The keys may lie anywhere. */
  whichExist(keys: BigUint64Array): Uint8Array<ArrayBuffer> {
    const found = new Uint8Array(keys.length);
    const chunk = this.#freshKeys >>> 3;
    for (let from = 0; from < keys.length; from += this.#chunkRows) {
      const some = keys.subarray(from, from + this.#chunkRows);
      new BigUint64Array(this.arena.memory.buffer).set(some, chunk);
      this.#find({ keys: this.#freshKeys, keyCount: some.length }, WORD_BYTES);
      for (let i = 0; i < some.length; i++) found[from + i] = this.arena.words[(this.#scratch >>> 2) + i] === 0 ? 0 : 1;
    }
    return found;
  }

  /**
   * out = the values of each key in turn, initial ones without a row (TableStore.T2). Also writes `versionsOut`, if
   * set.
   */
  pull(pull: TablePull): void {
    const { keys, keyCount, owners, out, versionsOut } = pull;
    const { version } = this.columns;
    if (versionsOut !== undefined && version === undefined) throw new AssertionError("this table counts no versions");
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      const chunk = keys + from * KEY_BYTES;
      const missing = this.#find({ keys: chunk, keyCount: count, owners }, this.valueBytes);
      if (versionsOut !== undefined && version !== undefined) {
        this.rowKernels.readRows(this.#scratch, count, version.offset, WORD_BYTES, versionsOut + from * WORD_BYTES);
      }
      if (missing > 0) this.#standIn(count, chunk, 0);
      this.rowKernels.readRows(this.#scratch, count, 0, this.valueBytes, out + from * this.valueBytes);
    }
  }

  /**
   * Pulls only rows that are more than `bound` updates ahead of the caller's versions (VERSION_NONE: it has none):
   * writes their indexes in `keys`, their versions and their values. Returns how many. Only for tables with versions.
   */
  sync(sync: TableSync): number {
    const { keys, keyCount, known, indexesOut, versionsOut, rowsOut } = sync;
    const { version } = this.columns;
    assert(version !== undefined, "this table counts no versions");
    const bound = Math.min(sync.bound, WORD_MAX);
    let total = 0;
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      this.#find({ keys: keys + from * KEY_BYTES, keyCount: count }, WORD_BYTES);
      const [indexes, versions] = [indexesOut + total * WORD_BYTES, versionsOut + total * WORD_BYTES];
      const theirs = known + from * WORD_BYTES;
      const stale = this.rowKernels.staleRows(this.#scratch, count, version.offset, theirs, bound, from, indexes, versions);
      this.#standIn(stale, keys, indexes);
      this.rowKernels.readRows(this.#scratch, stale, 0, this.valueBytes, rowsOut + total * this.valueBytes);
      total += stale;
    }
    return total;
  }

  /**
   * out = the payload of each key in turn, for `restore`; without a row, what its first update would find. Throws
   * ARENA_FULL.
   */
  readPayloads({ keys, keyCount, out }: { readonly keys: number; readonly keyCount: number; readonly out: number }): void {
    const { byteCount } = this.columns.payload;
    for (let from = 0; from < keyCount; from += this.#chunkRows) {
      const count = Math.min(this.#chunkRows, keyCount - from);
      const chunk = keys + from * KEY_BYTES;
      const missing = this.#find({ keys: chunk, keyCount: count }, byteCount);
      const target = out + from * byteCount;
      if (missing === 0) this.rowKernels.readRows(this.#scratch, count, 0, byteCount, target);
      else this.#readWithNew(chunk, { count, missing }, target);
    }
  }

  override close(): void {
    if (this.isClosed) return;
    super.close();
    this.arena.release(this.#scratch, this.#scratchBytes);
  }

  /**
   * After this, `locateValues` cannot fail for these keys: there is room for certain, or all have rows (TableStore.T1).
   */
  #makeRoom(made: KeyList): void {
    const { keys, keyCount, owners } = made;
    if (keyCount === 0 || this.rowKernels.hasCertainRoom(this.table, keyCount)) return;
    // nothing is begun that cannot end
    const isTooMany = this.#isTooMany(keyCount) && this.#isTooMany(this.#missingCount(made));
    const list = isTooMany ? -1 : this.arena.tryAllocate(keyCount * WORD_BYTES);
    const fresh = list <= 0 ? NO_ROOM_COUNT : this.rowKernels.insertValues(this.table, keys, keyCount, list, owners?.owned ?? 0);
    if (fresh > 0) this.#start(list, fresh);
    if (list > 0) this.arena.release(list, keyCount * WORD_BYTES);
    if (fresh === FOREIGN_COUNT) throw this.#foreignKey(made);
    if (fresh !== NO_ROOM_COUNT) return;
    if (this.arena.onFull(list === 0 ? "work" : "state", keyCount * WORD_BYTES)) {
      this.#makeRoom(made);
      return;
    }
    if (list === 0) throw arenaFull(this.arena, `a list of ${keyCount} rows`);
    throw stateFull(this.arena, `new rows among ${keyCount} keys of a table of ${this.rowCount} rows`);
  }

  /** Reads the payloads of a chunk that the scratch lists; spare rows, started as new ones, replace missing rows. */
  #readWithNew(keys: number, { count, missing }: { readonly count: number; readonly missing: number }, out: number): void {
    const { byteCount } = this.columns.payload;
    const rowBytes = Math.ceil((ROW_KEY_BYTES + byteCount) / KEY_BYTES) * KEY_BYTES;
    const rows = this.arena.allocate(missing * rowBytes);
    this.kernels.zero(rows, missing * rowBytes);
    const used = this.rowKernels.standIn(this.#scratch, count, keys, 0, rows, rowBytes, this.#fresh);
    assert(used === missing, `${used} rows stand in for ${missing}`);
    this.#start(this.#fresh, used);
    this.rowKernels.readRows(this.#scratch, count, 0, byteCount, out);
    this.arena.release(rows, missing * rowBytes);
  }

  /** Lists the rows of one chunk of keys in the scratch, new ones started. */
  #locate(list: KeyList): void {
    const { keys, keyCount, owners } = list;
    const { byteCount } = this.columns.payload;
    const fresh = this.rowKernels.locateValues(this.table, keys, keyCount, byteCount, this.#scratch, this.#fresh, owners?.owned ?? 0);
    if (fresh === FOREIGN_COUNT) throw this.#foreignKey(list);
    if (fresh > 0) this.#start(this.#fresh, fresh);
  }

  /**
   * Lists the rows of one chunk of keys in the scratch; returns how many have none. Throws for a key of another server.
   */
  #find(list: KeyList, touchBytes: number): number {
    const { keys, keyCount, owners } = list;
    const missing = this.rowKernels.findValues(this.table, keys, keyCount, touchBytes, this.#scratch, owners?.owned ?? 0);
    if (missing === FOREIGN_COUNT) throw this.#foreignKey(list);
    return missing;
  }

  /** The first chunk was checked before any change: checks the keys of the others. */
  #checkFurther({ keys, keyCount, owners }: KeyList): void {
    const further = keyCount - this.#chunkRows;
    if (owners === undefined || owners.owned === 0 || further <= 0) return;
    owners.checkKeys(this.#keysAt(keys + this.#chunkRows * KEY_BYTES, further));
  }

  #foreignKey({ keys, keyCount, owners }: KeyList): Error {
    owners?.checkKeys(this.#keysAt(keys, keyCount));
    return new Error("the owners say of a key that its part is not owned, and then that it is");
  }

  #keysAt(keys: number, keyCount: number): BigUint64Array {
    return new BigUint64Array(this.arena.memory.buffer, keys, keyCount);
  }

  #start(rows: number, rowCount: number): void {
    for (let from = 0; from < rowCount; from += this.#chunkRows) {
      this.#initialize(rows + from * WORD_BYTES, Math.min(this.#chunkRows, rowCount - from));
    }
    this.updater.startRows(rows, rowCount);
  }

  /** Gives at most chunkRows rows their first values. */
  #initialize(rows: number, rowCount: number): void {
    this.rowKernels.readRows(rows, rowCount, -ROW_KEY_BYTES, KEY_BYTES, this.#freshKeys);
    const { kernels, recipe } = this.#initializer;
    kernels.initializeRows(recipe, rows, this.#freshKeys, rowCount, this.width);
  }

  /** Replaces keys without a row in the scratch's list by spare rows with initial values (TableStore.T2). */
  #standIn(rowCount: number, keys: number, indexes: number): void {
    const count = this.rowKernels.standIn(this.#scratch, rowCount, keys, indexes, this.#spares, this.#spareBytes, this.#fresh);
    if (count > 0) this.#initialize(this.#fresh, count);
  }
}
