// sum-store — sums on a server: u64 key -> elements of one of ten types, of a width that each key keeps from its first
// push; pushes add up. The default handle of the kv face and Hetu's data use it. Not a protocol: requests are addresses
// in the arena, framed and aligned. SumTables finds the value of a key and keeps its width.
//
// Invariants:
//   SumStore.V1. A key keeps its width; requests with another are refused with VALUE_LENGTH (SumTables.W1).
//   SumStore.V2. A push is applied whole or not at all (SumTables.W2).
//   SumStore.V3. A pull creates nothing: an unknown key reads as zeros.
//   SumStore.V4. All values have one type, from the first key on; integers wrap around as they do in C++.
//   SumStore.V5. A freeze is the state of that moment, whatever is pushed meanwhile: tables report changes to it
//       (RowTable), blocks are held.

import { badRequest, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { ElementType, elementArrayOf, isElementType, KEY_BYTES } from "../../kernel/elements.ts";
import { DONE, ROW_KEY_BYTES } from "../../kernel/kernels.ts";
import type { RowTable } from "../row-table.ts";
import { BLOCK_BYTES, type BlockHold, blockBytesOf, type LargeValue } from "./large-value.ts";
import { LISTED_KEYS_MIN } from "./row-memory.ts";
import { checkLengths, keyAt, runEnd, type SumBatch, widthAt, withoutZeroLengths } from "./sum-batch.ts";
import type { Pull, PullVariable, Push, PushBlock, PushVariable } from "./sum-requests.ts";
import { CLOSED, SumState } from "./sum-state.ts";
import { noRoomFor } from "./sum-tables.ts";

/** Rows that are listed together. */
const LIST_ROWS = 1024;
const LIST_BYTES = LIST_ROWS * 4;

export class SumStore extends SumState {
  /**
   * Requests have this type from here on. Throws UNSUPPORTED if the store has another (SumStore.V4), BAD_REQUEST,
   * QUEUE_FULL during a restore.
   */
  use(type: number): void {
    if (this.type === CLOSED)
      throw new WeighbridgeError("QUEUE_FULL", "this server is restoring a checkpoint: try again", { retryable: true });
    if (!isElementType(type)) throw badRequest(`there is no value type ${type}`);
    if (type === this.type) return;
    if (this.keyCount > 0) throw otherType(this.tables.type, type);
    this.adopt(type);
    this.type = type;
  }

  /**
   * Adds one row of `width` elements to each key. Throws KEYS_NOT_ASCENDING, VALUE_LENGTH or ARENA_FULL (SumStore.V2).
   */
  push(push: Push): void {
    const { keys, keyCount, width, values } = push;
    this.requireAscending(keys, keyCount);
    const { fast } = this.tables;
    if (width === fast.width) {
      if (keyCount >= LISTED_KEYS_MIN && this.#pushListed(push)) return;
      if (this.kernels.addRows(fast.table, keys, keyCount, values) === DONE) return;
    }
    if (!(width >= 1)) throw badRequest(`values are at least 1 element wide, not ${width}`);
    this.#pushBatch({ keys, keyCount, lens: 0, width, values });
  }

  /** As `push`, with a width for each key. Also throws BAD_REQUEST for wrong lengths. */
  pushVariable(push: PushVariable): void {
    const { keys, keyCount, lens, values, valueCount, makesEmpty = false } = push;
    const { arena } = this.host;
    const zeroCount = checkLengths(arena, lens, keyCount, valueCount);
    this.requireAscending(keys, keyCount);
    const batch = { keys, keyCount, lens, width: 0, values };
    if (zeroCount !== 0 && !makesEmpty) withoutZeroLengths(arena, batch, keyCount - zeroCount, (kept) => this.#pushBatch(kept));
    else if (keyCount > 0 && widthAt(arena, batch, 0) > 0 && runEnd(arena, batch, 0) === keyCount)
      this.push({ keys, keyCount, width: widthAt(arena, batch, 0), values });
    else this.#pushBatch(batch);
  }

  /** Adds one block of one large value, made if the key is unknown. Throws BAD_REQUEST, VALUE_LENGTH or ARENA_FULL. */
  pushBlock(push: PushBlock): void {
    const { key, width, blockIndex, values, elementCount } = push;
    this.#requireBlock(width, blockIndex);
    const { elementBytes } = this;
    const countDue = blockBytesOf(width * elementBytes, blockIndex) / elementBytes;
    if (elementCount !== countDue) {
      throw badRequest(`block ${blockIndex} of ${width} values has ${countDue} of them, not ${elementCount}`);
    }
    this.#withRoom(BLOCK_BYTES, () => {
      const value = this.tables.large(key, width) ?? this.tables.createLarge(key, width, blockIndex);
      if (!value.reserve(blockIndex)) throw noRoomFor(this.host.arena, 1);
      value.add(blockIndex, values);
    });
  }

  /** Writes `width` elements for each key. Throws VALUE_LENGTH. */
  pull(pull: Pull): void {
    const { keys, keyCount, width, out } = pull;
    if (keyCount >= LISTED_KEYS_MIN && this.#pullListed(pull)) return;
    const { fast } = this.tables;
    if (width === fast.width) this.kernels.gatherRows(fast.table, keys, keyCount, out);
    else this.#pullRun(keys, keyCount, width, out);
  }

  /** lensOut[i] (i32) = the width of key i, 0 when it is unknown. Returns their sum. */
  lengths(keys: number, keyCount: number, lensOut: number): number {
    return this.tables.lengths(keys, keyCount, lensOut);
  }

  /** The width of the key at this address; undefined when it is unknown. */
  widthOf(key: number): number | undefined {
    return this.tables.widthOf(key);
  }

  /**
   * Writes the values one after the other, each as long as `lens` says. Returns the element count. Throws VALUE_LENGTH.
   */
  pullVariable(pull: PullVariable): number {
    const { arena } = this.host;
    const batch = { ...pull, width: 0, values: pull.out };
    let out = pull.out;
    for (let from = 0, end = 0; from < pull.keyCount; from = end) {
      end = runEnd(arena, batch, from);
      const width = widthAt(arena, batch, from);
      if (width !== 0) this.pull({ keys: pull.keys + from * KEY_BYTES, keyCount: end - from, width, out });
      out += (end - from) * width * this.elementBytes;
    }
    return (out - pull.out) / this.elementBytes;
  }

  /** Throws KEYS_NOT_ASCENDING. Pushes call it; a pull serves any order. */
  requireAscending(keys: number, keyCount: number): void {
    if (keyCount <= 1) return;
    const index = this.kernels.checkAscending(keys, keyCount);
    if (index < 0) return;
    const { arena } = this.host;
    const [before, key] = [keyAt(arena, keys, index - 1), keyAt(arena, keys, index)];
    throw new WeighbridgeError(
      "KEYS_NOT_ASCENDING",
      `key ${index} of ${keyCount} is ${key}, which is not greater than ${before} before it`,
    );
  }

  /**
   * Holds the bytes of one block of a large value: they do not change before `release`. Undefined stands for zeros: the
   * key is unknown, or nobody pushed this block yet. Throws BAD_REQUEST or VALUE_LENGTH.
   */
  holdBlock(key: number, width: number, blockIndex: number): BlockHold | undefined {
    this.#requireBlock(width, blockIndex);
    return this.tables.large(key, width)?.hold(blockIndex);
  }

  /** All but the hot path: several or new widths, other types, large values, and while a checkpoint is being saved. */
  #pushBatch(batch: SumBatch): void {
    const { arena, kernels } = this.host;
    if (batch.keyCount === 0) return;
    this.tables.lookForFast();
    const isUniform = batch.width > 0 && this.tables.type === ElementType.F32;
    const table = isUniform ? this.tables.tableOf(batch.width) : undefined;
    if (table !== undefined && table.frozen === undefined) {
      if (kernels.addKnownRows(table.address, batch.keys, batch.keyCount, batch.values) === DONE) return;
    }
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(arena, batch, from);
      // SumStore.V5
      this.tables.tableOf(widthAt(arena, batch, from))?.frozen?.preserve(batch.keys + from * KEY_BYTES, end - from);
    }
    const list = arena.allocate(LIST_BYTES);
    try {
      this.#withRoom(batch.keyCount * KEY_BYTES, () => this.tables.prepare(batch));
      this.#apply(batch, list);
    } finally {
      arena.release(list, LIST_BYTES);
    }
  }

  /** Without room, the checkpoint that is being saved may release some: pushes come first. */
  #withRoom(byteCount: number, take: () => void): void {
    for (;;) {
      try {
        take();
        return;
      } catch (thrown) {
        const use = this.retiredBytes > 0 ? "move" : "state";
        if (!isWeighbridgeError(thrown, "ARENA_FULL") || !this.host.arena.onFull(use, byteCount)) throw thrown;
      }
    }
  }

  /** Adds the values; all keys and blocks are there. `list` has room for LIST_ROWS rows. */
  #apply(batch: SumBatch, list: number): void {
    const { arena } = this.host;
    let { values } = batch;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(arena, batch, from);
      const width = widthAt(arena, batch, from);
      const valueBytes = width * this.elementBytes;
      const table = this.tables.tableOf(width);
      if (table !== undefined) this.#addRows(table, { keys: batch.keys + from * KEY_BYTES, keyCount: end - from, width, values }, list);
      else {
        for (let i = from; i < end; i++) {
          const value = this.tables.large(batch.keys + i * KEY_BYTES, width)!;
          addWhole(value, values + (i - from) * valueBytes);
        }
      }
      values += (end - from) * valueBytes;
    }
  }

  /** All keys have rows. */
  #addRows({ address }: RowTable, { keys, keyCount, width, values }: Push, list: number): void {
    const { kernels, elements } = this.host;
    const { type, elementBytes } = this.tables;
    if (type === ElementType.F32 && width > 0) {
      kernels.addRows(address, keys, keyCount, values);
      return;
    }
    for (let from = 0; from < keyCount; from += LIST_ROWS) {
      const count = Math.min(LIST_ROWS, keyCount - from);
      kernels.findRows(address, keys + from * KEY_BYTES, count, list);
      elements.addRowElements(type, list, count, ROW_KEY_BYTES, width, values + from * width * elementBytes);
    }
  }

  /** A list that came before, to the fast table: its rows are known. */
  #pushListed({ keys, keyCount, width, values }: Push): boolean {
    return this.rows.push({ table: this.tables.fast.table, payloadBytes: width * this.elementBytes, keys, keyCount, values });
  }

  /** A list that came before: its rows are known. */
  #pullListed({ keys, keyCount, width, out }: Pull): boolean {
    const table = this.tables.isPacked(width) ? this.tables.tableOf(width) : undefined;
    return table !== undefined && this.rows.pull({ table: table.address, payloadBytes: width * this.elementBytes, keys, keyCount, out });
  }

  #pullRun(keys: number, keyCount: number, width: number, out: number): void {
    const table = this.tables.tableOf(width);
    let missing = keyCount;
    if (table !== undefined) missing = this.#gather(table, { keys, keyCount, width, out });
    else if (this.tables.isLarge(width) && this.tables.largeValues !== undefined) missing = this.#pullLarge(keys, keyCount, width, out);
    else this.host.kernels.zero(out, keyCount * width * this.elementBytes);
    if (missing !== 0) this.tables.requireWidth(keys, keyCount, width);
  }

  /** Returns how many of the keys have no row: they read as zeros. */
  #gather({ address }: RowTable, { keys, keyCount, width, out }: Pull): number {
    const { arena, kernels, rowKernels } = this.host;
    if (this.tables.isPacked(width)) return kernels.gatherRows(address, keys, keyCount, out);
    const valueBytes = width * this.elementBytes;
    const list = arena.allocate(LIST_BYTES);
    let missing = 0;
    for (let from = 0; from < keyCount; from += LIST_ROWS) {
      const count = Math.min(LIST_ROWS, keyCount - from);
      missing += kernels.findRows(address, keys + from * KEY_BYTES, count, list);
      rowKernels.readRows(list, count, ROW_KEY_BYTES, valueBytes, out + from * valueBytes);
    }
    arena.release(list, LIST_BYTES);
    return missing;
  }

  #pullLarge(keys: number, keyCount: number, width: number, out: number): number {
    const valueBytes = width * this.elementBytes;
    let missing = 0;
    for (let i = 0; i < keyCount; i++) {
      const value = this.tables.large(keys + i * KEY_BYTES, width);
      if (value !== undefined) value.copyTo(out + i * valueBytes);
      else {
        this.host.kernels.zero(out + i * valueBytes, valueBytes);
        missing++;
      }
    }
    return missing;
  }

  #requireBlock(width: number, blockIndex: number): void {
    const blockCount = Math.ceil((width * this.elementBytes) / BLOCK_BYTES);
    if (this.tables.isLarge(width) && Number.isInteger(blockIndex) && blockIndex >= 0 && blockIndex < blockCount) return;
    throw badRequest(`a value of ${width} elements has no block ${blockIndex}`);
  }
}

function addWhole(value: LargeValue, values: number): void {
  for (let block = 0; block < value.blockCount; block++) value.add(block, values + block * BLOCK_BYTES);
}

/** SumStore.V4: an application has values of one type. */
function otherType(held: number, requested: number): WeighbridgeError {
  const [heldName, requestedName] = [held, requested].map((type) => elementArrayOf(type)?.name ?? `type ${type}`);
  const message = `the default handle holds ${heldName} values here, from the first push on, and no ${requestedName}: use another application, or set a request handle`;
  return new WeighbridgeError("UNSUPPORTED", message);
}
