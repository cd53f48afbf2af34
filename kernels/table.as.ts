// table — a u64 -> row hash table inside an arena, one key at a time. The kernels for whole batches are in rows.as.ts.
//
//   row        [ key u64 | payload ]                                        lies in a slab, never moves
//   index      segments of buckets (segment.as.ts), found by the directory (table-shape.as.ts), grown one by one
//              (table-growth.as.ts)
//
//   KernelTable.T1. Every u64 is a legal key: a tag match is believed only after the row's own key agrees.
//   KernelTable.T2. Memory is taken before anything is changed: an insertion that finds no room leaves the table as it
//       was.

import { allocate, allocateAside, noteAsideReleased, release, spanBytes } from "./allocator.as";
import {
  CHUNK_BYTES, Segment, addPassed, bucketAfter, bucketAt, bucketIndexOf, chunkCell, clearSlot, passed, place, rowInSlot, slotsWithTag, tagOf,
} from "./segment.as";
import { createSegment, grow, takeChunks, useChunks } from "./table-growth.as";
import { Table, allocateFor, giveBack, hashOf, mix, nextSegmentIndex, releaseFor, segmentOf } from "./table-shape.as";

export const KEY_BYTES: usize = 8;
const SLAB_HEADER_BYTES: u32 = 8;
const SLAB_BYTES_MIN: u32 = 4096;
export const SLAB_BYTES_MAX: u32 = 1 << 18;

/** The row of `key`, 0 when it has none. */
export function find(t: Table, key: u64, hash: u64): u32 {
  const s = segmentOf(t, hash), tag = tagOf(hash);
  let index = bucketIndexOf(s, hash);
  for (let tries = s.bucketCount; tries != 0; tries--) {
    const bucket = bucketAt(s, index);
    for (let hits = slotsWithTag(bucket, tag); hits != 0; hits &= hits - 1) {
      const row = rowInSlot(bucket, ctz(hits));
      if (load<u64>(row) == key) return row; // KernelTable.T1
    }
    if (passed(bucket) == 0) return 0; // Segment.S2
    index = bucketAfter(s, index);
  }
  return 0;
}

/** Gives a new key a row with a zero payload; 0 when there is no room (KernelTable.T2). */
export function insert(t: Table, key: u64, hash: u64): u32 {
  let s = segmentOf(t, hash);
  while (s.entries >= s.entriesMax) {
    if (!grow(t, s, hash)) return 0;
    s = segmentOf(t, hash);
  }
  const row = takeRow(t);
  if (row == 0) return 0;
  store<u64>(row, key);
  zeroPayload(<usize>row + KEY_BYTES, t.payloadBytes);
  place(s, hash, row);
  s.entries++;
  t.rowCount++;
  return row;
}

/** A call of memory.fill costs more than a few stores. */
@inline function zeroPayload(payload: usize, payloadBytes: u32): void {
  if (payloadBytes > 64) memory.fill(payload, 0, payloadBytes);
  else for (const end = payload + payloadBytes; payload < end; payload += 4) store<u32>(payload, 0);
}

/** Takes a key's row out; false when it has none. */
export function remove(t: Table, key: u64): bool {
  const hash = hashOf(t, key), row = find(t, key, hash), s = segmentOf(t, hash);
  if (row == 0) return false;
  let index = bucketIndexOf(s, hash);
  while (!clearSlot(bucketAt(s, index), row)) {
    addPassed(bucketAt(s, index), -1);
    index = bucketAfter(s, index);
  }
  s.entries--;
  store<u32>(row, t.freeRows);
  t.freeRows = row;
  t.rowCount--;
  return true;
}

function takeRow(t: Table): u32 {
  let row = t.freeRows;
  if (row != 0) {
    t.freeRows = load<u32>(row);
    return row;
  }
  if (t.slabNext + t.rowBytes > t.slabEnd && !addSlab(t)) return 0;
  row = t.slabNext;
  t.slabNext += t.rowBytes;
  return row;
}

/**
 * Slabs grow with the table, so a small one stays small; where it is known how many rows come, they are as large as
 * those need.
 */
function addSlab(t: Table): bool {
  const wanted = t.rowsExpected > t.rowCount ? slabBytesFor(t, t.rowsExpected - t.rowCount) : min(max(t.bytes >> 4, SLAB_BYTES_MIN), SLAB_BYTES_MAX);
  const rows = max<u32>((wanted - SLAB_HEADER_BYTES) / t.rowBytes, 1);
  const bytes = spanBytes(SLAB_HEADER_BYTES + rows * t.rowBytes), slab = allocateFor(t, bytes);
  if (slab == 0) return false;
  store<u32>(slab, t.slabs);
  store<u32>(slab, bytes, 4);
  t.slabs = slab;
  t.slabNext = slab + SLAB_HEADER_BYTES;
  t.slabEnd = slab + bytes;
  return true;
}

/**
 * Gives slabs back whose rows were all removed again, newest first, down to what the table had; `lastFree` is the
 * removed row behind which theirs begin in the list of free rows, 0 when they are all there is.
 */
export function dropSlabs(t: Table, lastFree: usize, slabs: u32, slabNext: u32, slabEnd: u32): void {
  if (lastFree == 0) t.freeRows = 0;
  else store<u32>(lastFree, 0);
  while (t.slabs != slabs) {
    const slab = t.slabs;
    t.slabs = load<u32>(slab);
    releaseFor(t, slab, load<u32>(slab, 4));
  }
  t.slabNext = slabNext;
  t.slabEnd = slabEnd;
}

/** Rows that a table has memory for already. */
export function spareRows(t: Table): u32 {
  let count: u32 = (t.slabEnd - t.slabNext) / t.rowBytes;
  for (let row = t.freeRows; row != 0; row = load<u32>(row)) count++;
  return count;
}

/**
 * Of the next slab for so many rows: no larger than they are, but for a small one, so that nothing of the last one is
 * left over.
 */
function slabBytesFor(t: Table, rows: u32): u32 {
  const wanted = <u64>SLAB_HEADER_BYTES + <u64>rows * <u64>t.rowBytes;
  if (wanted >= <u64>SLAB_BYTES_MAX) return SLAB_BYTES_MAX;
  let bytes = <u32>wanted;
  if (bytes <= SLAB_BYTES_MIN) return bytes;
  // The next smaller span: they are at least an eighth apart.
  while (spanBytes(bytes) > <u32>wanted) bytes -= bytes >> 3;
  return max(bytes, SLAB_BYTES_MIN);
}

/**
 * The distance between rows. Wide ones lie at multiples of 8, so that 64 floats never touch a sixth cache line; more
 * gains nothing.
 */
function rowBytesOf(payloadBytes: u32): u32 {
  const bytes = <u32>KEY_BYTES + payloadBytes;
  return payloadBytes < 64 ? bytes : (bytes + 7) & ~7;
}

/** An empty table, 0 when there is no room. `isAside` is 1 for what a checkpoint sets aside, 0 otherwise. */
export function createTable(payloadBytes: u32, secret: u64, isAside: u32): u32 {
  const address = isAside ? allocateAside(offsetof<Table>()) : allocate(offsetof<Table>()), t = changetype<Table>(<usize>address);
  if (address == 0) return 0;
  memory.fill(address, 0, offsetof<Table>());
  t.bytes = spanBytes(offsetof<Table>());
  t.isAside = isAside;
  t.payloadBytes = payloadBytes;
  t.rowBytes = rowBytesOf(payloadBytes);
  t.chunksPerGrowth = payloadBytes < 32 ? 1 : payloadBytes < 64 ? 2 : 4;
  t.loadSpread = payloadBytes < 32 ? 0 : payloadBytes < 64 ? 16 : 24;
  t.secretXor = mix(secret + 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9);
  t.secretFactor = mix(secret + 0x3c6ef372fe94f82a, 0xbf58476d1ce4e5b9) | 1;
  t.depth = 1;
  t.directory = allocateFor(t, 8);
  const s = createSegment(t, 0);
  if (t.directory == 0 || changetype<usize>(s) == 0 || !takeChunks(t, s, 1)) {
    if (isAside) noteAsideReleased(t.bytes);
    if (changetype<usize>(s) != 0) release(changetype<u32>(s), offsetof<Segment>());
    if (t.directory != 0) release(t.directory, 8);
    release(address, offsetof<Table>());
    return 0;
  }
  useChunks(s, 1, t.loadSpread);
  t.segmentCount = 1;
  store<u32>(t.directory, changetype<u32>(s));
  store<u32>(t.directory, changetype<u32>(s), 4);
  return address;
}

export function destroyTable(t: Table): void {
  if (t.isAside) noteAsideReleased(t.bytes);
  const count: u32 = 1 << t.depth;
  for (let index: u32 = 0; index < count; ) {
    const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
    index = nextSegmentIndex(t, index);
    for (let i: u32 = 0; i < s.chunkCount; i++) giveBack(t, load<u32>(chunkCell(s, i)), CHUNK_BYTES);
    giveBack(t, changetype<u32>(s), offsetof<Segment>());
  }
  giveBack(t, t.directory, count << 2);
  for (let slab = t.slabs; slab != 0; ) {
    const next = load<u32>(slab);
    giveBack(t, slab, load<u32>(slab, 4));
    slab = next;
  }
  giveBack(t, changetype<u32>(t), offsetof<Table>());
}
