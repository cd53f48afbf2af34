// value-store — the state behind the kv face's default handle: u64 key -> f32 values, of a width that each key keeps from its first push;
// pushes add up. Not a protocol: requests come as addresses in the arena, already framed and aligned.
//
// Where a key's value lies, and that it keeps its width, is ValueTables'.
//
// Invariants:
//   V1. A key has one width for life; every other one is refused with VALUE_LENGTH (value-tables, W1).
//   V2. A push is applied whole or not at all (value-tables, W2).
//   V3. A pull creates nothing: an unknown key reads as zeros.
//   V4. Every push tells what is kept of earlier pulls (kept-values, K1) before it changes anything, or takes memory.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import { DONE, type Kernels, NO_ROOM } from "../kernel/kernels.ts";
import { KeptValues, type KeyList, type RowsHold } from "./kept-values.ts";
import { type BlockHold, blockCountOf, blockFloatsOf, type LargeValue } from "./large-value.ts";
import { LISTED_KEYS_MIN, RowMemory } from "./row-memory.ts";
import { checkLengths, FLOAT_BYTES, KEY_BYTES, keyText, runEnd, type ValueBatch, widthAt, withoutZeroLengths } from "./value-batch.ts";
import type { Pull, PullVariable, Push, PushBlock, PushVariable } from "./value-requests.ts";
import { LARGE_WIDTH_MIN, noRoomFor, ValueTables } from "./value-tables.ts";

export type ValueStoreOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  /** Keys the hash of the tables (a u64). Random when left out. */
  readonly secret?: bigint | undefined;
};

export class ValueStore {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #tables: ValueTables;
  readonly #rows: RowMemory;
  readonly #kept: KeptValues;
  /** How many pushes there were (V4). */
  #changes = 0;

  constructor({ arena, kernels, secret = crypto.getRandomValues(new BigUint64Array(1))[0]! }: ValueStoreOptions) {
    this.#arena = arena;
    this.#kernels = kernels;
    this.#rows = new RowMemory(arena, kernels);
    this.#kept = new KeptValues(arena);
    this.#tables = new ValueTables({ arena, kernels, secret, removing: () => this.#rows.forget() });
  }

  get keyCount(): number {
    return this.#tables.keyCount;
  }

  /** Arena bytes of all keys, values and indexes. */
  get usedBytes(): number {
    return this.#tables.usedBytes + this.#rows.usedBytes + this.#kept.usedBytes;
  }

  /** Adds one row of `width` floats to each key. Throws KEYS_NOT_ASCENDING, VALUE_LENGTH or ARENA_FULL with nothing applied (V2). */
  push(push: Push): void {
    const { keys, keyCount, width, values } = push;
    this.requireAscending(keys, keyCount);
    this.#willChange();
    const { sole } = this.#tables;
    if (width === sole.width) {
      this.#addToSole(sole.table, keys, keyCount, values);
      return;
    }
    if (!(width >= 1)) throw new WeighbridgeError("BAD_REQUEST", `values are at least 1 float wide, not ${width}`);
    if (keyCount === 0) return;
    const table = this.#tables.tableOf(width);
    if (table !== undefined && this.#kernels.addKnownRows(table, keys, keyCount, values) === DONE) return;
    this.#pushBatch({ keys, keyCount, lens: 0, width, values });
  }

  /** As `push`, with a width for each key. Also throws BAD_REQUEST when the lengths make no sense. */
  pushVariable(push: PushVariable): void {
    const { keys, keyCount, lens, values, valueCount } = push;
    const zeroCount = checkLengths(this.#arena, lens, keyCount, valueCount);
    this.requireAscending(keys, keyCount);
    this.#willChange();
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
    this.#willChange();
    const value = this.#tables.large(key, width) ?? this.#tables.createLarge(key, width, blockIndex);
    if (!value.reserve(blockIndex)) throw noRoomFor(this.#arena, 1);
    value.add(blockIndex, values);
  }

  /** Writes `width` floats for each key. Throws VALUE_LENGTH. */
  pull(pull: Pull): void {
    const { keys, keyCount, width, out } = pull;
    if (keyCount >= LISTED_KEYS_MIN && this.#pullListed(pull)) return;
    const { sole } = this.#tables;
    if (width === sole.width) this.#kernels.gatherRows(sole.table, keys, keyCount, out);
    else this.#pullRun(keys, keyCount, width, out);
  }

  /**
   * The values of the keys, `width` floats for each, in memory that stays as it is until the hold's `release`, whatever is pushed meanwhile.
   * Throws VALUE_LENGTH, or ARENA_FULL.
   */
  holdRows(list: KeyList): RowsHold {
    return this.#kept.hold(list, this.#changes, (out) => this.pull({ ...list, out }));
  }

  /** lensOut[i] (i32) = the width of key i, 0 when it is unknown. Returns their sum. */
  lengths(keys: number, keyCount: number, lensOut: number): number {
    return this.#tables.lengths(keys, keyCount, lensOut);
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
    return this.#tables.large(key, width)?.hold(blockIndex);
  }

  /** Frees everything; blocks that are held stay readable until their release. The store is of no use afterwards. */
  close(): void {
    this.#rows.forget();
    this.#kept.drop();
    this.#tables.close();
  }

  /** V4 */
  #willChange(): void {
    this.#changes++;
    if (this.#kept.usedBytes > 0) this.#kept.drop();
  }

  /** All ways but the hot one: several widths, new ones, large values. */
  #pushBatch(batch: ValueBatch): void {
    this.#tables.prepare(batch);
    const { table } = this.#tables.sole;
    if (table !== 0) this.#addToSole(table, batch.keys, batch.keyCount, batch.values);
    else this.#apply(batch);
  }

  #addToSole(table: number, keys: number, keyCount: number, values: number): void {
    if (this.#kernels.addRows(table, keys, keyCount, values) === NO_ROOM) throw noRoomFor(this.#arena, keyCount);
  }

  /** Adds the values; all keys and blocks are there. */
  #apply(batch: ValueBatch): void {
    let { values } = batch;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      const width = widthAt(this.#arena, batch, from);
      const table = this.#tables.tableOf(width);
      if (table !== undefined) {
        const status = this.#kernels.addRows(table, batch.keys + from * KEY_BYTES, end - from, values);
        assert(status === DONE, "V2: adding to known keys takes no memory");
      } else {
        for (let i = from; i < end; i++) {
          const value = this.#tables.large(batch.keys + i * KEY_BYTES, width)!;
          addWhole(value, values + (i - from) * width * FLOAT_BYTES);
        }
      }
      values += (end - from) * width * FLOAT_BYTES;
    }
  }

  /** A list that was pulled before: its rows are known. */
  #pullListed({ keys, keyCount, width, out }: Pull): boolean {
    const table = this.#tables.tableOf(width);
    return table !== undefined && this.#rows.pull({ table, payloadBytes: width * FLOAT_BYTES, keys, keyCount, out });
  }

  #pullRun(keys: number, keyCount: number, width: number, out: number): void {
    const table = this.#tables.tableOf(width);
    let missing = keyCount;
    if (table !== undefined) missing = this.#kernels.gatherRows(table, keys, keyCount, out);
    else if (this.#tables.hasLarge(width)) missing = this.#pullLarge(keys, keyCount, width, out);
    else this.#kernels.zero(out, keyCount * width * FLOAT_BYTES);
    if (missing !== 0) this.#tables.requireWidth(keys, keyCount, width);
  }

  #pullLarge(keys: number, keyCount: number, width: number, out: number): number {
    let missing = 0;
    for (let i = 0; i < keyCount; i++) {
      const value = this.#tables.large(keys + i * KEY_BYTES, width);
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
}

function addWhole(value: LargeValue, values: number): void {
  let from = values;
  for (let blockIndex = 0; blockIndex < value.blockCount; blockIndex++) {
    value.add(blockIndex, from);
    from += blockFloatsOf(value.width, blockIndex) * FLOAT_BYTES;
  }
}
