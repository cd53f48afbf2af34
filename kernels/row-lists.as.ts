// row-lists — table rows as lists of addresses: from keys to a list, and from a list to columns of the rows. What
// initializers, optimizers and checkpoints share. One call per chunk of a message, never one per key; see RowKernels
// for what each means.
//
//   list       u32 for each row: where its payload begins (the key lies KEY_BYTES before); 0 for a key that has no row
//   column     `byteCount` bytes of every row, `offset` bytes from there (a multiple of 4; the key is at -KEY_BYTES)
//
// Row lists keep Rows.R1 and Rows.R2.
//
//   RowLists.L1. Where `owned` is given, a byte for each part that is 1 if the part is owned, a call that meets a key
//       of another part ends with FOREIGN_COUNT, and takes back the rows that it made.

import { copyFloats } from "./floats.as";
import { BATCH, BATCH_ROWS } from "./layout.as";
import { isOwnBatch, probe } from "./rows.as";
import { KEY_BYTES, dropSlabs, find, insert, remove } from "./table.as";
import { Table, hashOf } from "./table-shape.as";

/** What insertValues returns when the arena is full. */
const NO_ROOM_COUNT: i32 = -1;
/** What a call returns for a key of a part that is not owned (RowLists.L1). */
const FOREIGN_COUNT: i32 = -2;
const TOUCHED_BYTES: usize = 320;

@inline function listed(rows: usize, index: usize): usize {
  return load<u32>(rows + (index << 2));
}

@inline function list(rows: usize, index: usize, row: usize): void {
  store<u32>(rows + (index << 2), <u32>row);
}

/** rowsOut[i] = payload address of the probed row i; 0 stays 0. */
@inline function listBatch(rowsOut: usize, n: u32): void {
  const keyBytes = i32x4.splat(<i32>KEY_BYTES), bytes = <usize>n << 2;
  let p: usize = 0;
  for (; p + 16 <= bytes; p += 16) {
    const rows = v128.load(BATCH_ROWS + p);
    v128.store(rowsOut + p, i32x4.add(rows, v128.andnot(keyBytes, i32x4.eq(rows, i32x4.splat(0)))));
  }
  for (; p < bytes; p += 4) {
    const row = load<u32>(BATCH_ROWS + p);
    store<u32>(rowsOut + p, row == 0 ? 0 : row + <u32>KEY_BYTES);
  }
}

/**
 * probe touches the first five cache lines of a row; this does those beyond, of rows that were found. Four of a row at
 * a time: 1.1 times as fast as one.
 */
function touchWide(t: Table, n: u32, bytes: usize): void {
  const last = bytes - 4;
  let touched: u32 = 0;
  for (let p: usize = TOUCHED_BYTES; p < bytes; p += 256) {
    const second = min(last, p + 64), third = min(last, p + 128), fourth = min(last, p + 192);
    for (let i: usize = 0; i < n; i++) {
      const row = listed(BATCH_ROWS, i);
      touched += load<u8>(row + p) + load<u8>(row + second) + load<u8>(row + third) + load<u8>(row + fourth);
    }
  }
  t.touched += touched;
}

/** Takes back the rows that a call made (Rows.R1). */
function removeFresh(t: Table, freshOut: usize, fresh: u32): void {
  while (fresh != 0) remove(t, load<u64>(listed(freshOut, --fresh) - KEY_BYTES));
}

export function findValues(t: Table, keys: usize, n: u32, touchBytes: u32, rowsOut: usize, owned: usize): i32 {
  let missing: u32 = 0;
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3, rowsOut += BATCH << 2) {
    const count = min(BATCH, n - from);
    missing += probe(t, keys, count, KEY_BYTES + touchBytes);
    if (owned != 0 && !isOwnBatch(owned, count)) return FOREIGN_COUNT; // RowLists.L1
    touchWide(t, count, KEY_BYTES + touchBytes);
    listBatch(rowsOut, count);
  }
  return <i32>missing;
}

export function locateValues(t: Table, keys: usize, n: u32, touchBytes: u32, rowsOut: usize, freshOut: usize, owned: usize): i32 {
  let fresh: u32 = 0;
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3, rowsOut += BATCH << 2) {
    const count = min(BATCH, n - from), missing = probe(t, keys, count, KEY_BYTES + touchBytes);
    if (owned != 0 && !isOwnBatch(owned, count)) {
      removeFresh(t, freshOut, fresh); // RowLists.L1
      return FOREIGN_COUNT;
    }
    touchWide(t, count, KEY_BYTES + touchBytes);
    listBatch(rowsOut, count);
    if (missing == 0) continue;
    for (let i: usize = 0; i < count; i++) {
      if (listed(rowsOut, i) != 0) continue;
      const key = load<u64>(keys + (i << 3)), hash = hashOf(t, key);
      let row = find(t, key, hash); // a repeated key has one by now
      if (row == 0) {
        row = insert(t, key, hash);
        if (row == 0) unreachable(); // the caller made sure of the room: a bug, not a full arena
        list(freshOut, fresh++, <usize>row + KEY_BYTES);
      }
      list(rowsOut, i, <usize>row + KEY_BYTES);
    }
  }
  return <i32>fresh;
}

export function insertValues(t: Table, keys: usize, n: u32, freshOut: usize, owned: usize): i32 {
  const slabs = t.slabs, slabNext = t.slabNext, slabEnd = t.slabEnd;
  let fresh: u32 = 0, reused: u32 = 0;
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    const missing = probe(t, keys, count, KEY_BYTES);
    if (owned != 0 && !isOwnBatch(owned, count)) {
      removeFresh(t, freshOut, fresh); // RowLists.L1
      if (reused < fresh) dropSlabs(t, reused == 0 ? 0 : listed(freshOut, reused - 1) - KEY_BYTES, slabs, slabNext, slabEnd);
      return FOREIGN_COUNT;
    }
    if (missing == 0) continue;
    for (let i: usize = 0; i < count; i++) {
      const key = load<u64>(keys + (i << 3)), hash = hashOf(t, key);
      if (listed(BATCH_ROWS, i) != 0 || find(t, key, hash) != 0) continue;
      const isReused = t.freeRows != 0, row = insert(t, key, hash);
      if (row == 0) {
        removeFresh(t, freshOut, fresh);
        if (reused < fresh) dropSlabs(t, reused == 0 ? 0 : listed(freshOut, reused - 1) - KEY_BYTES, slabs, slabNext, slabEnd);
        return NO_ROOM_COUNT;
      }
      reused += u32(isReused);
      list(freshOut, fresh++, <usize>row + KEY_BYTES);
    }
  }
  return <i32>fresh;
}

export function readRows(rows: usize, n: u32, offset: i32, byteCount: u32, out: usize): void {
  if ((byteCount & 3) != 0) {
    readBytes(rows, n, offset, byteCount, out);
    return;
  }
  for (let i: usize = 0; i < n; i++, out += byteCount) {
    const row = listed(rows, i);
    if (row != 0) copyFloats(out, row + offset, byteCount);
    else memory.fill(out, 0, byteCount);
  }
}

/** Columns that are no whole words: of narrow integers, an odd number of them. */
function readBytes(rows: usize, n: u32, offset: i32, byteCount: u32, out: usize): void {
  for (let i: usize = 0; i < n; i++, out += byteCount) {
    const row = listed(rows, i);
    if (row != 0) memory.copy(out, row + offset, byteCount);
    else memory.fill(out, 0, byteCount);
  }
}

export function writeRows(rows: usize, n: u32, offset: i32, byteCount: u32, from: usize): void {
  if ((byteCount & 3) != 0) {
    for (let i: usize = 0; i < n; i++, from += byteCount) memory.copy(listed(rows, i) + offset, from, byteCount);
    return;
  }
  for (let i: usize = 0; i < n; i++, from += byteCount) copyFloats(listed(rows, i) + offset, from, byteCount);
}

export function addWords(rows: usize, n: u32, offset: i32, amounts: usize): void {
  for (let i: usize = 0; i < n; i++) {
    const word = listed(rows, i) + offset;
    store<u32>(word, load<u32>(word) + (amounts == 0 ? 1 : load<u32>(amounts + (i << 2))));
  }
}

/**
 * A row without an address has version 0; `known` of ~0 is none at all. The list is compacted in place: a row only
 * moves forward.
 */
export function staleRows(
  rows: usize, n: u32, offset: i32, known: usize, bound: u32, first: u32, indexesOut: usize, versionsOut: usize,
): u32 {
  let count: usize = 0;
  for (let i: usize = 0; i < n; i++) {
    const row = listed(rows, i), version: u32 = row == 0 ? 0 : load<u32>(row + offset), have = load<u32>(known + (i << 2));
    if (have != ~0 && version - have <= bound) continue;
    list(rows, count, row);
    store<u32>(indexesOut + (count << 2), first + <u32>i);
    store<u32>(versionsOut + (count << 2), version);
    count++;
  }
  return <u32>count;
}

export function standIn(rows: usize, n: u32, keys: usize, indexes: usize, spares: usize, spareBytes: u32, sparesOut: usize): u32 {
  let count: usize = 0;
  for (let i: usize = 0; i < n; i++) {
    if (listed(rows, i) != 0) continue;
    const key = keys + ((indexes == 0 ? i : listed(indexes, i)) << 3), spare = spares + count * spareBytes;
    store<u64>(spare, load<u64>(key));
    list(rows, i, spare + KEY_BYTES);
    list(sparesOut, count++, spare + KEY_BYTES);
  }
  return <u32>count;
}
