// value-store — the state behind the kv face's default handle: u64 key -> f32 values, of a width that each key keeps from its first push;
// pushes add up. Not a protocol: requests come as addresses in the arena, already framed and aligned.
//
// Narrow values (under 16 KiB) are rows of one table per width; wider ones are LargeValues. While all keys have one narrow width that table
// is all there is. From the second width on a further table, `widths`, maps every key to its width.
//
// Invariants:
//   V1. A key has one width for life; every other one is refused with VALUE_LENGTH.
//   V2. A push is applied whole or not at all; what it inserted before it met a full arena it takes back.
//   V3. Either `widths` is 0 and at most one table exists, the sole one, or every key is in `widths` and in the table of its width.
//   V4. A pull creates nothing: an unknown key reads as zeros.
//   V5. Every push tells what is kept of earlier pulls (kept-values, K1) before it changes anything, or takes memory.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type Arena, arenaFull } from "../kernel/arena.ts";
import { DONE, type Kernels, NO_ROOM, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import { copyKeys } from "./copy-keys.ts";
import { KeptValues, type KeyList, type RowsHold } from "./kept-values.ts";
import { type BlockHold, blockCountOf, blockFloatsOf, type LargeValue } from "./large-value.ts";
import { LargeValues } from "./large-values.ts";
import { LISTED_KEYS_MIN, RowMemory } from "./row-memory.ts";
import { checkLengths, FLOAT_BYTES, KEY_BYTES, keyText, runEnd, type ValueBatch, widthAt, withoutZeroLengths } from "./value-batch.ts";
import type { Pull, PullVariable, Push, PushBlock, PushVariable } from "./value-requests.ts";

/** From this many floats on a value is large: it has blocks, and can be pushed and held block by block. */
export const LARGE_WIDTH_MIN = 4096;

const NO_WIDTH = -1;
const WIDTH_BYTES = 4;

export type ValueStoreOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  /** Keys the hash of the tables (a u64). Random when left out. */
  readonly secret?: bigint | undefined;
};

export class ValueStore {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  #secret: bigint;
  /** Width -> table of narrow values. */
  readonly #tables = new Map<number, number>();
  #soleWidth = NO_WIDTH;
  #soleTable = 0;
  #widths = 0;
  #large: LargeValues | undefined;
  readonly #rows: RowMemory;
  readonly #kept: KeptValues;
  #closed = false;

  constructor(options: ValueStoreOptions) {
    this.#arena = options.arena;
    this.#kernels = options.kernels;
    this.#rows = new RowMemory(options.arena, options.kernels);
    this.#kept = new KeptValues(options.arena);
    this.#secret = options.secret ?? crypto.getRandomValues(new BigUint64Array(1))[0]!;
  }

  get keyCount(): number {
    if (this.#widths !== 0) return this.#kernels.rowCount(this.#widths);
    return this.#soleTable === 0 ? 0 : this.#kernels.rowCount(this.#soleTable);
  }

  /** Arena bytes of all keys, values and indexes. */
  get usedBytes(): number {
    let bytes = (this.#large?.usedBytes ?? 0) + this.#rows.usedBytes + this.#kept.usedBytes;
    for (const table of this.#tables.values()) bytes += this.#kernels.tableBytes(table);
    return this.#widths === 0 ? bytes : bytes + this.#kernels.tableBytes(this.#widths);
  }

  /** Adds one row of `width` floats to each key. Throws KEYS_NOT_ASCENDING, VALUE_LENGTH or ARENA_FULL with nothing applied (V2). */
  push(push: Push): void {
    const { keys, keyCount, width, values } = push;
    this.requireAscending(keys, keyCount);
    this.#kept.changed(); // V5
    if (width === this.#soleWidth) {
      if (this.#kernels.addRows(this.#soleTable, keys, keyCount, values) === NO_ROOM) throw this.#full(keyCount);
      return;
    }
    if (!(width >= 1)) throw new WeighbridgeError("BAD_REQUEST", `values are at least 1 float wide, not ${width}`);
    if (keyCount === 0) return;
    const table = this.#tables.get(width);
    if (table !== undefined && this.#kernels.addKnownRows(table, keys, keyCount, values) === DONE) return;
    this.#pushBatch({ keys, keyCount, lens: 0, width, values });
  }

  /** As `push`, with a width for each key. Also throws BAD_REQUEST when the lengths make no sense. */
  pushVariable(push: PushVariable): void {
    const { keys, keyCount, lens, values, valueCount } = push;
    const zeroCount = checkLengths(this.#arena, lens, keyCount, valueCount);
    this.requireAscending(keys, keyCount);
    this.#kept.changed();
    if (keyCount === 0) return;
    const batch = { keys, keyCount, lens, width: 0, values };
    if (zeroCount !== 0) withoutZeroLengths(this.#arena, batch, keyCount - zeroCount, (kept) => this.#pushBatch(kept));
    else if (runEnd(this.#arena, batch, 0) === keyCount) this.push({ keys, keyCount, width: widthAt(this.#arena, batch, 0), values });
    else this.#pushBatch(batch);
  }

  /** Adds one block of one large value, which is made if the key is unknown. Throws BAD_REQUEST, VALUE_LENGTH or ARENA_FULL. */
  pushBlock(push: PushBlock): void {
    const { key, width, blockIndex, values, floatCount } = push;
    this.#requireBlock(width, blockIndex);
    const floatCountDue = blockFloatsOf(width, blockIndex);
    if (floatCount !== floatCountDue) {
      throw new WeighbridgeError("BAD_REQUEST", `block ${blockIndex} of ${width} floats has ${floatCountDue} floats, not ${floatCount}`);
    }
    this.#kept.changed();
    const value = this.#largeValue(key, width) ?? this.#createLarge(key, width, blockIndex);
    if (!value.reserve(blockIndex)) throw this.#full(1);
    value.add(blockIndex, values);
  }

  /** Writes `width` floats for each key. Throws VALUE_LENGTH. */
  pull(pull: Pull): void {
    const { keys, keyCount, width, out } = pull;
    if (keyCount >= LISTED_KEYS_MIN && this.#pullListed(pull)) return;
    if (width === this.#soleWidth) this.#kernels.gatherRows(this.#soleTable, keys, keyCount, out);
    else this.#pullRun(keys, keyCount, width, out);
  }

  /**
   * The values of the keys, `width` floats for each, in memory that stays as it is until the hold's `release`, whatever is pushed meanwhile.
   * Throws VALUE_LENGTH, or ARENA_FULL.
   */
  holdRows(list: KeyList): RowsHold {
    return this.#kept.hold(list, (out) => this.pull({ ...list, out }));
  }

  /** lensOut[i] (i32) = the width of key i, 0 when it is unknown. Returns their sum. */
  lengths(keys: number, keyCount: number, lensOut: number): number {
    const { words } = this.#arena;
    if (this.#widths !== 0) this.#kernels.gatherRows(this.#widths, keys, keyCount, lensOut);
    else if (this.#soleTable !== 0) this.#kernels.findRows(this.#soleTable, keys, keyCount, lensOut);
    else this.#kernels.zero(lensOut, keyCount * WIDTH_BYTES);
    let sum = 0;
    for (let at = lensOut >>> 2, end = at + keyCount; at < end; at++) {
      if (this.#widths === 0 && words[at] !== 0) words[at] = this.#soleWidth; // it was a row's address
      sum += words[at]!;
    }
    return sum;
  }

  /** Writes the values one after the other, each as long as `lens` says; returns how many floats. Throws VALUE_LENGTH. */
  pullVariable(pull: PullVariable): number {
    const batch = { ...pull, width: 0, values: pull.out };
    let out = pull.out;
    for (let from = 0, end = 0; from < pull.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      const width = widthAt(this.#arena, batch, from);
      if (width !== 0) this.pull({ keys: pull.keys + from * KEY_BYTES, keyCount: end - from, width, out });
      out += (end - from) * width * FLOAT_BYTES;
    }
    return (out - pull.out) / FLOAT_BYTES;
  }

  /** Throws KEYS_NOT_ASCENDING. Pushes ask by themselves; a pull serves any order, and whoever forbids it asks first. */
  requireAscending(keys: number, keyCount: number): void {
    if (keyCount <= 1) return;
    const index = this.#kernels.checkAscending(keys, keyCount);
    if (index < 0) return;
    const [before, key] = [keyText(this.#arena, keys, index - 1), keyText(this.#arena, keys, index)];
    throw new WeighbridgeError(
      "KEYS_NOT_ASCENDING",
      `key ${index} of ${keyCount} is ${key}, which is not greater than ${before} before it`,
    );
  }

  /**
   * Holds the bytes of one block of a large value: they stay as they are until the hold's `release`, whatever is pushed meanwhile.
   * Undefined stands for zeros: the key is unknown, or nobody pushed this block yet. Throws BAD_REQUEST or VALUE_LENGTH.
   */
  holdBlock(key: number, width: number, blockIndex: number): BlockHold | undefined {
    this.#requireBlock(width, blockIndex);
    return this.#largeValue(key, width)?.hold(blockIndex);
  }

  /** Frees everything; blocks that are held stay readable until their release. The store is of no use afterwards. */
  close(): void {
    this.#rows.forget();
    this.#kept.drop();
    for (const table of this.#tables.values()) this.#kernels.destroyTable(table);
    if (this.#widths !== 0) this.#kernels.destroyTable(this.#widths);
    this.#large?.close();
    this.#tables.clear();
    this.#widths = 0;
    this.#soleTable = 0;
    this.#soleWidth = NO_WIDTH;
    this.#large = undefined;
    this.#closed = true;
  }

  /** All ways but the hot one: several widths, new ones, large values. */
  #pushBatch(batch: ValueBatch): void {
    const hasNewKeys = this.#checkWidths(batch);
    if (hasNewKeys) this.#openTables(batch);
    if (this.#widths === 0) {
      if (this.#kernels.addRows(this.#soleTable, batch.keys, batch.keyCount, batch.values) === NO_ROOM) throw this.#full(batch.keyCount);
      return;
    }
    const fits = (!hasNewKeys || this.#insertKeys(batch)) && this.#reserveBlocks(batch);
    if (!fits) {
      this.#takeBack(batch);
      throw this.#full(batch.keyCount);
    }
    if (hasNewKeys) this.#confirmWidths(batch);
    this.#apply(batch);
  }

  /** Whether the batch has unknown keys. Throws VALUE_LENGTH for a key of another width (V1). */
  #checkWidths(batch: ValueBatch): boolean {
    if (this.#widths === 0) {
      for (let from = 0, end = 0; from < batch.keyCount; from = end) {
        end = runEnd(this.#arena, batch, from);
        this.#requireWidth(batch.keys + from * KEY_BYTES, end - from, widthAt(this.#arena, batch, from));
      }
      return true;
    }
    const stored = this.#arena.allocate(batch.keyCount * WIDTH_BYTES);
    let hasNewKeys = false;
    try {
      this.#kernels.gatherRows(this.#widths, batch.keys, batch.keyCount, stored);
      for (let i = 0; i < batch.keyCount; i++) {
        const expected = this.#arena.words[(stored >>> 2) + i]!;
        const width = widthAt(this.#arena, batch, i);
        if (expected === 0) hasNewKeys = true;
        else if (expected !== width) throw this.#otherWidth(batch.keys, i, expected, width);
      }
    } finally {
      this.#arena.release(stored, batch.keyCount * WIDTH_BYTES);
    }
    return hasNewKeys;
  }

  /** Throws VALUE_LENGTH when one of the keys has another width than this. */
  #requireWidth(keys: number, keyCount: number, width: number): void {
    if (this.#widths !== 0) {
      const index = this.#kernels.findOtherWord(this.#widths, keys, keyCount, width);
      if (index < 0) return;
      const row = this.#kernels.findRow(this.#widths, keys + index * KEY_BYTES);
      throw this.#otherWidth(keys, index, this.#arena.words[(row + ROW_KEY_BYTES) >>> 2]!, width);
    }
    if (this.#soleTable === 0 || width === this.#soleWidth) return;
    const index = this.#kernels.findKnown(this.#soleTable, keys, keyCount);
    if (index >= 0) throw this.#otherWidth(keys, index, this.#soleWidth, width);
  }

  /** Makes the tables that the batch needs, empty, and `widths` when there is more than a sole one (V3). Throws ARENA_FULL. */
  #openTables(batch: ValueBatch): void {
    assert(!this.#closed, "the store is closed");
    for (let from = 0; from < batch.keyCount; from = runEnd(this.#arena, batch, from)) {
      const width = widthAt(this.#arena, batch, from);
      if (width * FLOAT_BYTES > this.#arena.bytesMax) throw this.#full(1);
      if (this.#tables.has(width) || (width >= LARGE_WIDTH_MIN && this.#large !== undefined)) continue;
      if (this.#widths === 0 && (this.#soleTable !== 0 || width >= LARGE_WIDTH_MIN)) this.#openWidths();
      if (width >= LARGE_WIDTH_MIN) this.#large = new LargeValues(this.#arena, this.#kernels, this.#nextSecret());
      else this.#tables.set(width, this.#kernels.createTable({ payloadBytes: width * FLOAT_BYTES, secret: this.#nextSecret() }));
      if (this.#widths !== 0) continue;
      this.#soleWidth = width;
      this.#soleTable = this.#tables.get(width)!;
    }
  }

  /** Makes `widths` and enters the keys of the sole table. A pause of some 0.1 µs per key, once in a store's life. */
  #openWidths(): void {
    const widths = this.#kernels.createTable({ payloadBytes: WIDTH_BYTES, secret: this.#nextSecret() });
    if (
      this.#soleTable !== 0 &&
      !copyKeys(this.#arena, this.#kernels, { source: this.#soleTable, target: widths, word: this.#soleWidth })
    ) {
      this.#kernels.destroyTable(widths);
      throw this.#full(this.keyCount);
    }
    this.#widths = widths;
    this.#soleTable = 0;
    this.#soleWidth = NO_WIDTH;
  }

  /** Gives every key a row in `widths`, with width 0 until the push is certain, and a value of zeros; false when the arena is full. */
  #insertKeys(batch: ValueBatch): boolean {
    if (this.#kernels.insertRows(this.#widths, batch.keys, batch.keyCount) !== DONE) return false;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      const width = widthAt(this.#arena, batch, from);
      const table = this.#tables.get(width);
      if (table !== undefined) {
        if (this.#kernels.insertRows(table, batch.keys + from * KEY_BYTES, end - from) !== DONE) return false;
        continue;
      }
      for (let i = from; i < end; i++) if (this.#large!.getOrCreate(batch.keys + i * KEY_BYTES, width) === undefined) return false;
    }
    return true;
  }

  /** Takes memory for all blocks of the batch's large values; false when the arena is full. */
  #reserveBlocks(batch: ValueBatch): boolean {
    for (let i = 0; i < batch.keyCount; i++) {
      const width = widthAt(this.#arena, batch, i);
      if (width < LARGE_WIDTH_MIN) continue;
      const value = this.#large!.get(batch.keys + i * KEY_BYTES)!;
      for (let blockIndex = 0; blockIndex < value.blockCount; blockIndex++) if (!value.reserve(blockIndex)) return false;
    }
    return true;
  }

  /** Undoes `#insertKeys` and `#reserveBlocks`, as far as they came: the new keys are those whose width is still 0. */
  #takeBack(batch: ValueBatch): void {
    this.#rows.forget();
    for (let i = 0; i < batch.keyCount; i++) {
      const key = batch.keys + i * KEY_BYTES;
      const row = this.#kernels.findRow(this.#widths, key);
      const width = widthAt(this.#arena, batch, i);
      if (width >= LARGE_WIDTH_MIN) this.#large!.get(key)?.unreserve();
      if (row === 0 || this.#arena.words[(row + ROW_KEY_BYTES) >>> 2] !== 0) continue;
      if (width >= LARGE_WIDTH_MIN) this.#large!.remove(key);
      else this.#kernels.removeRows(this.#tables.get(width)!, key, 1);
      this.#kernels.removeRows(this.#widths, key, 1);
    }
  }

  #confirmWidths(batch: ValueBatch): void {
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      this.#kernels.setWords(this.#widths, batch.keys + from * KEY_BYTES, end - from, widthAt(this.#arena, batch, from));
    }
  }

  /** Adds the values; all keys and blocks are there. */
  #apply(batch: ValueBatch): void {
    let { values } = batch;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      const width = widthAt(this.#arena, batch, from);
      const table = this.#tables.get(width);
      if (table !== undefined) {
        const status = this.#kernels.addRows(table, batch.keys + from * KEY_BYTES, end - from, values);
        assert(status === DONE, "V2: adding to known keys takes no memory");
      } else {
        for (let i = from; i < end; i++) {
          const value = this.#large!.get(batch.keys + i * KEY_BYTES)!;
          addWhole(value, values + (i - from) * width * FLOAT_BYTES);
        }
      }
      values += (end - from) * width * FLOAT_BYTES;
    }
  }

  /** A new large value with memory for one block. */
  #createLarge(key: number, width: number, blockIndex: number): LargeValue {
    const batch = { keys: key, keyCount: 1, lens: 0, width, values: 0 };
    this.#openTables(batch);
    if (this.#insertKeys(batch) && this.#large!.get(key)!.reserve(blockIndex)) {
      this.#confirmWidths(batch);
      return this.#large!.get(key)!;
    }
    this.#takeBack(batch);
    throw this.#full(1);
  }

  /** The large value of a key, undefined when the key is unknown. Throws VALUE_LENGTH (V1). */
  #largeValue(key: number, width: number): LargeValue | undefined {
    const value = this.#large?.get(key);
    if (value === undefined) this.#requireWidth(key, 1, width);
    else if (value.width !== width) throw this.#otherWidth(key, 0, value.width, width);
    return value;
  }

  /** A list that was pulled before: its rows are known. */
  #pullListed({ keys, keyCount, width, out }: Pull): boolean {
    const table = this.#tables.get(width);
    return table !== undefined && this.#rows.pull({ table, payloadBytes: width * FLOAT_BYTES, keys, keyCount, out });
  }

  #pullRun(keys: number, keyCount: number, width: number, out: number): void {
    const table = this.#tables.get(width);
    let missing = keyCount;
    if (table !== undefined) missing = this.#kernels.gatherRows(table, keys, keyCount, out);
    else if (width >= LARGE_WIDTH_MIN && this.#large !== undefined) missing = this.#pullLarge(keys, keyCount, width, out);
    else this.#kernels.zero(out, keyCount * width * FLOAT_BYTES);
    if (missing !== 0) this.#requireWidth(keys, keyCount, width);
  }

  #pullLarge(keys: number, keyCount: number, width: number, out: number): number {
    let missing = 0;
    for (let i = 0; i < keyCount; i++) {
      const value = this.#largeValue(keys + i * KEY_BYTES, width);
      const target = out + i * width * FLOAT_BYTES;
      if (value !== undefined) value.copyTo(target);
      else {
        this.#kernels.zero(target, width * FLOAT_BYTES);
        missing++;
      }
    }
    return missing;
  }

  #requireBlock(width: number, blockIndex: number): void {
    if (width >= LARGE_WIDTH_MIN && Number.isInteger(blockIndex) && blockIndex >= 0 && blockIndex < blockCountOf(width)) return;
    throw new WeighbridgeError("BAD_REQUEST", `a value of ${width} floats has no block ${blockIndex}`);
  }

  #otherWidth(keys: number, index: number, expected: number, actual: number): WeighbridgeError {
    const key = keyText(this.#arena, keys, index);
    return new WeighbridgeError("VALUE_LENGTH", `key ${key} has ${expected} floats, the request has ${actual}`);
  }

  /** Each table has its own, so that keys listed by one do not come to another in the order of its hashes. */
  #nextSecret(): bigint {
    this.#secret = BigInt.asUintN(64, this.#secret + 1n);
    return this.#secret;
  }

  #full(keyCount: number): WeighbridgeError {
    return arenaFull(this.#arena, `a push of ${keyCount} keys`);
  }
}

function addWhole(value: LargeValue, values: number): void {
  let from = values;
  for (let blockIndex = 0; blockIndex < value.blockCount; blockIndex++) {
    value.add(blockIndex, from);
    from += blockFloatsOf(value.width, blockIndex) * FLOAT_BYTES;
  }
}
