// rows — the table kernels for whole batches of keys: one call per message, never one per key.
//
// WASM has no prefetch. So a batch is probed in short loops: find the buckets, touch them, match their tags, touch the
// rows, verify the keys. The loops that touch do nothing else, so that as many cache misses as the processor can keep
// in flight overlap (1.5 times as fast as touching inside the loops that compute, measured).
//
//   Rows.R1. All or nothing: a call that may insert either knows beforehand that there is room for certain, or inserts
//       first and takes its rows back when the room ends; values are added only after the last insertion that can fail.
//   Rows.R2. The scratch lists in the first page serve one call at a time; nothing in them outlives it.

import { certainRoom } from "./allocator.as";
import { BATCH, BATCH_BUCKETS, BATCH_HASHES, BATCH_OPEN, BATCH_ROWS, DONE, KEY_MISSING, LISTED_TOUCHED, NO_ROOM } from "./layout.as";
import { CHUNK_BYTES, SLOT_LAST, Segment, homeBucket, listSegment, rowInSlot, secondBucket, slotsWithTag, tagOf } from "./segment.as";
import { KEY_BYTES, SLAB_BYTES_MAX, find, insert, remove } from "./table.as";
import { DEPTH_MAX } from "./table-growth.as";
import { PART_BITS, Table, hashOf, nextSegmentIndex, segmentOf } from "./table-shape.as";

@inline function keyAt(keys: usize, index: usize): u64 {
  return load<u64>(keys + (index << 3));
}

@inline function batchBucket(index: usize): usize {
  return load<u32>(BATCH_BUCKETS + (index << 2));
}

@inline function batchHash(index: usize): u64 {
  return load<u64>(BATCH_HASHES + (index << 3));
}

@inline function batchOpen(index: usize): usize {
  return load<u32>(BATCH_OPEN + (index << 2));
}

@inline function batchRow(index: usize): usize {
  return load<u32>(BATCH_ROWS + (index << 2));
}

/**
 * BATCH_ROWS[i] = row of keys[i], 0 for none, for up to BATCH keys; brings `touchBytes` of each row into the cache.
 * Returns how many are 0.
 */
export function probe(t: Table, keys: usize, n: u32, touchBytes: usize): u32 {
  seek(t, keys, n);
  t.touched = touchRows(BATCH_ROWS, n, touchBytes);
  return settle(t, keys, n, touchBytes);
}

/**
 * Whether all keys of the probed batch are of parts that are owned. The hashes have the parts: no key is looked at
 * again.
 */
export function isOwnBatch(owned: usize, n: u32): bool {
  let all: u32 = 1;
  for (let i: usize = 0; i < n; i++) all &= load<u8>(owned + <usize>(batchHash(i) >> (64 - <u64>PART_BITS)));
  return all != 0;
}

/**
 * BATCH_ROWS[i] = the first row that may be that of keys[i], 0 for none. Which it is, only its key tells: `settle`,
 * once it was touched.
 */
export function seek(t: Table, keys: usize, n: u32): void {
  let touched: u32 = 0;
  for (let i: usize = 0; i < n; i++) {
    const hash = hashOf(t, keyAt(keys, i));
    store<u64>(BATCH_HASHES + (i << 3), hash);
    store<u32>(BATCH_BUCKETS + (i << 2), changetype<u32>(segmentOf(t, hash)));
  }
  for (let i: usize = 0; i < n; i++) touched += load<u8>(batchBucket(i));
  for (let i: usize = 0; i < n; i++) {
    store<u32>(BATCH_BUCKETS + (i << 2), <u32>homeBucket(changetype<Segment>(batchBucket(i)), batchHash(i)));
  }
  for (let i: usize = 0; i < n; i++) touched += load<u8>(batchBucket(i));
  for (let i: usize = 0; i < n; i++) {
    const hits = slotsWithTag(batchBucket(i), tagOf(batchHash(i)));
    // No branch to mispredict.
    store<u32>(BATCH_ROWS + (i << 2), select<u32>(rowInSlot(batchBucket(i), ctz(hits | SLOT_LAST)), 0, hits != 0));
  }
  t.touched = touched;
}

/** Makes sure of the rows that `seek` found, and finds the others. Returns how many keys have none. */
export function settle(t: Table, keys: usize, n: u32, touchBytes: usize): u32 {
  let open: usize = 0; // how many have not been found: their indexes are listed, again without a branch
  for (let i: usize = 0; i < n; i++) {
    const row = batchRow(i);
    store<u32>(BATCH_OPEN + (open << 2), <u32>i);
    open += usize(u32(row == 0) | u32(load<u64>(row) != keyAt(keys, i)));
  }
  if (open << 2 < n) t.touched = touchFurther(t, open, touchBytes); // not where most keys are new: those lie nowhere
  return findOpen(t, keys, open);
}

/**
 * Loads something of the first five cache lines of each listed row; what lies beyond, the processor fetches ahead by
 * itself.
 */
function touchRows(rows: usize, n: u32, touchBytes: usize): u32 {
  const last = touchBytes - 4, end = rows + (<usize>n << 2);
  let touched: u32 = 0;
  if (touchBytes <= 16) {
    for (; rows < end; rows += 4) touched += load<u8>(<usize>load<u32>(rows));
  } else if (touchBytes <= 128) {
    for (; rows < end; rows += 4) touched += load<u8>(<usize>load<u32>(rows)) + load<u8>(<usize>load<u32>(rows) + last);
  } else {
    const third = min<usize>(last, 128), fourth = min<usize>(last, 192), fifth = min<usize>(last, 256);
    for (; rows < end; rows += 4) {
      const row = <usize>load<u32>(rows);
      touched += load<u8>(row) + load<u8>(row, 64) + load<u8>(row + third) + load<u8>(row + fourth) + load<u8>(row + fifth);
    }
  }
  return touched;
}

/**
 * Brings the next buckets of the `n` listed keys into the cache, and what their tags point at. One key in seven of a
 * full table lies there.
 */
function touchFurther(t: Table, n: usize, touchBytes: usize): u32 {
  let touched: u32 = 0;
  for (let j: usize = 0; j < n; j++) {
    const hash = batchHash(batchOpen(j));
    store<u32>(BATCH_BUCKETS + (j << 2), <u32>secondBucket(segmentOf(t, hash), hash));
  }
  for (let j: usize = 0; j < n; j++) touched += load<u8>(batchBucket(j));
  for (let j: usize = 0; j < n; j++) {
    const hits = slotsWithTag(batchBucket(j), tagOf(batchHash(batchOpen(j))));
    store<u32>(BATCH_BUCKETS + (j << 2), select<u32>(rowInSlot(batchBucket(j), ctz(hits | SLOT_LAST)), 0, hits != 0));
  }
  return touched + touchRows(BATCH_BUCKETS, <u32>n, touchBytes);
}

/**
 * Finds the rows of the `n` listed keys the long way: a false tag, an overflowed bucket, no row. Returns how many have
 * none.
 */
function findOpen(t: Table, keys: usize, n: usize): u32 {
  let missing: u32 = 0;
  for (let j: usize = 0; j < n; j++) {
    const i = batchOpen(j), key = keyAt(keys, i), found = find(t, key, batchHash(i));
    store<u32>(BATCH_ROWS + (i << 2), found);
    missing += u32(found == 0);
  }
  return missing;
}

/**
 * Whether `n` insertions succeed for certain. A growth takes at most 5 chunks and a segment, and brings room for more
 * than 32 rows; or it sets entries of few parts apart, with a chunk and a segment, of which there are at most
 * 2^PART_BITS. Not where a part may come to more segments than it can have.
 */
export function hasCertainRoom(t: Table, n: u32): bool {
  if (t.depth + (32 - clz(n >> 10)) >= DEPTH_MAX) return false;
  const touched = <u64>min(t.segmentCount, n) + (n >> 7), growths = 4 * touched + 32;
  const apartBytes = min(<u64>1 << PART_BITS, PART_BITS * (touched + 1)) * (CHUNK_BYTES + 64);
  // Chunks and segments; directories.
  const indexBytes = growths * (5 * CHUNK_BYTES + 64) + (<u64>64 << t.depth) + (growths << 7);
  const slabBytes = (<u64>n + 2) * <u64>t.rowBytes;
  return slabBytes + (slabBytes >> 2) + SLAB_BYTES_MAX * 2 + indexBytes + apartBytes <= certainRoom();
}

/** Gives the keys of the probed batch that have no row one. Only where there is room for certain. */
function insertMissing(t: Table, keys: usize, n: u32): void {
  for (let i: usize = 0; i < n; i++) {
    if (batchRow(i) != 0) continue;
    const key = keyAt(keys, i), hash = hashOf(t, key);
    let row = find(t, key, hash); // a repeated key has one by now
    if (row == 0) row = insert(t, key, hash);
    if (row == 0) unreachable(); // our own estimate was wrong: a bug, not a full arena
    store<u32>(BATCH_ROWS + (i << 2), row);
  }
}

export function insertRows(t: Table, keys: usize, n: u32): i32 {
  let fresh: u32 = 0; // the rows of this call, linked through their payload, which is otherwise zero
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    if (probe(t, keys, count, KEY_BYTES) == 0) continue;
    for (let i: usize = 0; i < count; i++) {
      const key = keyAt(keys, i), hash = hashOf(t, key);
      if (batchRow(i) != 0 || find(t, key, hash) != 0) continue;
      const row = insert(t, key, hash);
      if (row == 0) {
        takeBack(t, fresh);
        return NO_ROOM;
      }
      store<u32>(row, fresh, KEY_BYTES);
      fresh = row;
    }
  }
  while (fresh != 0) {
    const next = load<u32>(fresh, KEY_BYTES);
    store<u32>(fresh, 0, KEY_BYTES);
    fresh = next;
  }
  return DONE;
}

function takeBack(t: Table, fresh: u32): void {
  while (fresh != 0) {
    const next = load<u32>(fresh, KEY_BYTES);
    remove(t, load<u64>(fresh));
    fresh = next;
  }
}

export function findRow(t: Table, key: usize): u32 {
  const k = load<u64>(key);
  return find(t, k, hashOf(t, k));
}

export function findRows(t: Table, keys: usize, n: u32, rowsOut: usize): u32 {
  let missing: u32 = 0;
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3, rowsOut += BATCH << 2) {
    const count = min(BATCH, n - from);
    missing += probe(t, keys, count, KEY_BYTES);
    memory.copy(rowsOut, BATCH_ROWS, count << 2);
  }
  return missing;
}

export function findKnown(t: Table, keys: usize, n: u32): i32 {
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    if (probe(t, keys, count, KEY_BYTES) == count) continue;
    for (let i: usize = 0; i < count; i++) if (batchRow(i) != 0) return from + <u32>i;
  }
  return -1;
}

export function findOrInsertRows(t: Table, keys: usize, n: u32, rowsOut: usize): i32 {
  if (insertRows(t, keys, n) != DONE) return NO_ROOM;
  findRows(t, keys, n, rowsOut);
  return DONE;
}

@inline function addPayload(row: usize, values: usize, payloadBytes: usize): void {
  let p: usize = 0;
  row += KEY_BYTES;
  for (const wide = payloadBytes & ~63; p < wide; p += 64) {
    v128.store(row + p, f32x4.add(v128.load(row + p), v128.load(values + p)));
    v128.store(row + p, f32x4.add(v128.load(row + p, 16), v128.load(values + p, 16)), 16);
    v128.store(row + p, f32x4.add(v128.load(row + p, 32), v128.load(values + p, 32)), 32);
    v128.store(row + p, f32x4.add(v128.load(row + p, 48), v128.load(values + p, 48)), 48);
  }
  for (const wide = payloadBytes & ~15; p < wide; p += 16) v128.store(row + p, f32x4.add(v128.load(row + p), v128.load(values + p)));
  for (; p < payloadBytes; p += 4) store<f32>(row + p, load<f32>(row + p) + load<f32>(values + p));
}

@inline function copyPayload(out: usize, row: usize, payloadBytes: usize): void {
  let p: usize = 0;
  row += KEY_BYTES;
  for (const wide = payloadBytes & ~63; p < wide; p += 64) {
    v128.store(out + p, v128.load(row + p));
    v128.store(out + p, v128.load(row + p, 16), 16);
    v128.store(out + p, v128.load(row + p, 32), 32);
    v128.store(out + p, v128.load(row + p, 48), 48);
  }
  for (const wide = payloadBytes & ~15; p < wide; p += 16) v128.store(out + p, v128.load(row + p));
  for (; p < payloadBytes; p += 4) store<u32>(out + p, load<u32>(row + p));
}

function addBatch(payloadBytes: usize, n: u32, values: usize): void {
  for (let i: usize = 0; i < n; i++, values += payloadBytes) addPayload(batchRow(i), values, payloadBytes);
}

function copyBatch(payloadBytes: usize, n: u32, out: usize): void {
  for (let i: usize = 0; i < n; i++, out += payloadBytes) {
    const row = batchRow(i);
    if (row != 0) copyPayload(out, row, payloadBytes);
    else memory.fill(out, 0, payloadBytes);
  }
}

export function addRows(t: Table, keys: usize, n: u32, values: usize): i32 {
  const payloadBytes: usize = t.payloadBytes;
  if (n == 1) return addRow(t, load<u64>(keys), values);
  if (!hasCertainRoom(t, n) && insertRows(t, keys, n) != DONE) return NO_ROOM; // Rows.R1
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3, values += <usize>BATCH * payloadBytes) {
    const count = min(BATCH, n - from);
    if (probe(t, keys, count, KEY_BYTES + payloadBytes) != 0) insertMissing(t, keys, count);
    addBatch(payloadBytes, count, values);
  }
  return DONE;
}

function addRow(t: Table, key: u64, values: usize): i32 {
  const hash = hashOf(t, key);
  let row = find(t, key, hash);
  if (row == 0) row = insert(t, key, hash);
  if (row == 0) return NO_ROOM;
  addPayload(row, values, t.payloadBytes);
  return DONE;
}

export function addKnownRows(t: Table, keys: usize, n: u32, values: usize): i32 {
  const payloadBytes: usize = t.payloadBytes;
  if (n > BATCH) {
    for (let from: u32 = 0; from < n; from += BATCH) {
      if (probe(t, keys + (<usize>from << 3), min(BATCH, n - from), KEY_BYTES) != 0) return KEY_MISSING;
    }
  }
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3, values += <usize>BATCH * payloadBytes) {
    const count = min(BATCH, n - from);
    if (probe(t, keys, count, KEY_BYTES + payloadBytes) != 0) return KEY_MISSING; // in the first batch, or never
    addBatch(payloadBytes, count, values);
  }
  return DONE;
}

export function gatherRows(t: Table, keys: usize, n: u32, out: usize): u32 {
  const payloadBytes: usize = t.payloadBytes;
  let missing: u32 = 0;
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    missing += probe(t, keys, count, KEY_BYTES + payloadBytes);
    copyBatch(payloadBytes, count, out);
    out += <usize>count * payloadBytes;
  }
  return missing;
}

export function gatherListedRows(rows: usize, keys: usize, n: u32, payloadBytes: u32, out: usize): i32 {
  let touched: u32 = 0;
  for (let from: u32 = 0; from < n; from += BATCH, rows += BATCH << 2, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    touched += touchRows(rows, count, KEY_BYTES + payloadBytes);
    for (let i: usize = 0; i < count; i++) if (load<u64>(<usize>load<u32>(rows + (i << 2))) != keyAt(keys, i)) return <i32>(from + <u32>i);
    for (let i: usize = 0; i < count; i++, out += payloadBytes) copyPayload(out, <usize>load<u32>(rows + (i << 2)), payloadBytes);
  }
  store<u32>(LISTED_TOUCHED, touched);
  return -1;
}

export function addListedRows(rows: usize, keys: usize, n: u32, payloadBytes: u32, values: usize): i32 {
  let touched: u32 = 0;
  // Rows.R1
  for (let i: usize = 0; i < n; i++) if (load<u64>(<usize>load<u32>(rows + (i << 2))) != keyAt(keys, i)) return <i32>i;
  for (let from: u32 = 0; from < n; from += BATCH, rows += BATCH << 2) {
    const count = min(BATCH, n - from);
    touched += touchRows(rows, count, KEY_BYTES + payloadBytes);
    for (let i: usize = 0; i < count; i++, values += payloadBytes) addPayload(<usize>load<u32>(rows + (i << 2)), values, payloadBytes);
  }
  store<u32>(LISTED_TOUCHED, touched);
  return -1;
}

export function setWords(t: Table, keys: usize, n: u32, word: u32): void {
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    probe(t, keys, count, KEY_BYTES);
    for (let i: usize = 0; i < count; i++) if (batchRow(i) != 0) store<u32>(batchRow(i), word, KEY_BYTES);
  }
}

export function findOtherWord(t: Table, keys: usize, n: u32, word: u32): i32 {
  for (let from: u32 = 0; from < n; from += BATCH, keys += BATCH << 3) {
    const count = min(BATCH, n - from);
    probe(t, keys, count, KEY_BYTES);
    for (let i: usize = 0; i < count; i++) if (batchRow(i) != 0 && load<u32>(batchRow(i), KEY_BYTES) != word) return from + <u32>i;
  }
  return -1;
}

export function removeRows(t: Table, keys: usize, n: u32): u32 {
  const before = t.rowCount;
  for (let i: usize = 0; i < n; i++) remove(t, keyAt(keys, i));
  return before - t.rowCount;
}

/**
 * `cursor` holds the top 32 bits of the least hash not listed yet, as a u64: 2^32 at the end. Splits in between do not
 * disturb it.
 */
export function listRows(t: Table, cursor: usize, rowsOut: usize): i32 {
  const from = load<u64>(cursor), shift = 32 - <u64>t.depth, index = <u32>(from >> shift);
  if (from >> 32 != 0) return -1;
  store<u64>(cursor, <u64>nextSegmentIndex(t, index) << shift);
  return listSegment(changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2))), rowsOut);
}

/**
 * Copies the keys to `out` whose position in the order of `listRows` is at the cursor or behind it; returns how many.
 */
export function keysAhead(t: Table, cursor: usize, keys: usize, n: u32, out: usize): u32 {
  const from = load<u64>(cursor), first = out;
  for (let i: usize = 0; i < n; i++) {
    const key = keyAt(keys, i);
    store<u64>(out, key);
    out += <usize>(hashOf(t, key) >> 32 >= from) << 3;
  }
  return <u32>((out - first) >> 3);
}

export function rowCount(t: Table): u32 {
  return t.rowCount;
}

export function tableBytes(t: Table): u32 {
  return t.bytes;
}
