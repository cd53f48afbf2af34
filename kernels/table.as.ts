// table — a u64 -> row hash table inside an arena: its shape, one key at a time. The kernels for whole batches are in rows.as.ts.
//
//   row        [ key u64 | payload ]                                        lies in a slab, never moves
//   bucket     [ 12 tag bytes | u16 passed | u16 unused | 12 × u32 row ]    one cache line; tag 0 = free
//   chunk      32 buckets                                                   2 KiB, the unit by which an index grows
//   segment    entries, limit, depth, … and up to 7 chunks                  one cache line, the unit that is split
//   directory  u32 segment for each value of the top `depth` bits of the hash (extendible hashing)
//
// A segment grows from 4 chunks to 5, 6, 7 and then splits into two of 4, so the index of a large table is 74 to 92 % full at any time.
// Wide rows, where the index hardly counts, skip the steps in between.
//
// T1. Every u64 is a legal key: only tags say what is free, and a tag match is believed only after the row's own key agrees.
// T2. `passed` counts the entries whose search passes over a bucket because they lie further on. A search stops at passed = 0, a removal
//     counts it down: no tombstones.
// T3. A growth moves the entries of one segment only, at most SEGMENT_SLOTS_MAX.
// T4. Memory is taken before anything is changed: a growth or an insertion that finds no room leaves the table as it was.
// T5. The hash is keyed by a secret, so nobody can choose keys that fall in one segment.
// T6. Wide rows make splits dear (a cache miss for each row) and the index cheap. There segments grow at loads that differ by up to
//     `loadSpread`, so that a table filled evenly does not split everywhere at once: half the p99.9 of inserting calls, for 2 bytes a row.

import { allocate, release, spanBytes } from "./allocator.as";
import { MOVE_HASHES, MOVE_ROWS } from "./layout.as";

const SLOTS: u32 = 12;
const SLOT_MASK: u32 = 0xfff;
/** The bit of the last slot. */
export const SLOT_LAST: u32 = 0x800;
const BUCKET_BYTES: u32 = 64;
const CHUNK_BUCKETS: u32 = 32;
const CHUNK_SHIFT: u32 = 5;
export const CHUNK_BYTES: u32 = CHUNK_BUCKETS * BUCKET_BYTES;
/** A segment of fewer chunks grows by one at a time. An even split leaves two of about this many. */
const CHUNKS_SPLIT: u32 = 4;
const CHUNKS_MAX: u32 = 7;
/** How many a segment can list: chunk0 to chunk8. */
const CHUNK_CELLS: u32 = 9;
/** A segment holds at most this many of every 100 slots, less its own share of the table's loadSpread; after a split about LOAD_PERCENT_NEW. */
const LOAD_PERCENT: u32 = 92;
const LOAD_PERCENT_NEW: u32 = 85;
const CHUNK_SLOTS: u32 = CHUNK_BUCKETS * SLOTS;
/** The most entries of a segment of CHUNKS_SPLIT chunks: so many are split into at most 8 chunks at any load of 61 percent and more. */
const ROOMY_ENTRIES_MAX: u32 = CHUNKS_SPLIT * CHUNK_SLOTS * LOAD_PERCENT / 100;
/** 16 M segments are more than an arena holds; a directory beyond that would only help an attacker. */
const DEPTH_MAX: u32 = 24;

export const KEY_BYTES: usize = 8;
const SLAB_HEADER_BYTES: u32 = 8;
const SLAB_BYTES_MIN: u32 = 4096;
export const SLAB_BYTES_MAX: u32 = 1 << 18;

/** A plain struct at an address: no garbage collector, no header. */
@unmanaged
export class Table {
  payloadBytes: u32;
  /** From one row to the next. */
  rowBytes: u32;
  rowCount: u32;
  /** Arena bytes of everything below, this struct included. */
  bytes: u32;
  directory: u32;
  depth: u32;
  segmentCount: u32;
  /** By how many chunks a segment of CHUNKS_SPLIT and more grows. */
  chunksPerGrowth: u32;
  /** How far apart the loads are, in percent of the slots, at which segments grow (T6). */
  loadSpread: u32;
  /** The newest slab: [ next slab u32, bytes u32 | rows ]. */
  slabs: u32;
  slabNext: u32;
  slabEnd: u32;
  /** Removed rows, linked through their key's first u32. */
  freeRows: u32;
  secretXor: u64;
  secretFactor: u64;
  /** Only written, so that no compiler drops the loads that bring lines into the cache. */
  touched: u32;
}

@unmanaged
export class Segment {
  entries: u32;
  entriesMax: u32;
  depth: u32;
  bucketCount: u32;
  /** How many of the chunks below are allocated; those beyond bucketCount wait for the next growth. */
  chunkCount: u32;
  chunk0: u32; chunk1: u32; chunk2: u32; chunk3: u32;
  chunk4: u32; chunk5: u32; chunk6: u32; chunk7: u32;
  /** Only just before a split. */
  chunk8: u32;
}

@inline function mix(x: u64, factor: u64): u64 {
  x = (x ^ (x >> 32)) * factor;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

/** The top bits choose the segment, bits 8 to 39 the bucket, the lowest 8 the tag. A bijection, keyed (T5). */
@inline export function hashOf(t: Table, key: u64): u64 {
  return mix(key ^ t.secretXor, t.secretFactor);
}

@inline export function tagOf(hash: u64): u32 {
  const tag = <u32>hash & 255;
  return tag + u32(tag == 0);
}

@inline export function segmentOf(t: Table, hash: u64): Segment {
  return changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>(hash >> (64 - <u64>t.depth)) << 2)));
}

@inline function bucketIndexOf(s: Segment, hash: u64): u32 {
  return <u32>((((hash >> 8) & 0xffffffff) * <u64>s.bucketCount) >> 32);
}

@inline function chunkCell(s: Segment, index: u32): usize {
  return changetype<usize>(s) + offsetof<Segment>("chunk0") + (<usize>index << 2);
}

@inline function bucketAt(s: Segment, index: u32): usize {
  return <usize>load<u32>(chunkCell(s, index >> CHUNK_SHIFT)) + (<usize>(index & (CHUNK_BUCKETS - 1)) << 6);
}

@inline export function homeBucket(s: Segment, hash: u64): usize {
  return bucketAt(s, bucketIndexOf(s, hash));
}

/** Where a key lies whose home bucket is full, mostly. */
@inline export function secondBucket(s: Segment, hash: u64): usize {
  return bucketAt(s, bucketAfter(s, bucketIndexOf(s, hash)));
}

@inline function bucketAfter(s: Segment, index: u32): u32 {
  return index + 1 == s.bucketCount ? 0 : index + 1;
}

@inline export function slotsWithTag(bucket: usize, tag: u32): u32 {
  return i8x16.bitmask(i8x16.eq(v128.load(bucket), i8x16.splat(<i8>tag))) & SLOT_MASK;
}

@inline export function rowInSlot(bucket: usize, slot: u32): u32 {
  return load<u32>(bucket + (<usize>slot << 2), 16);
}

@inline function passed(bucket: usize): u32 {
  return load<u16>(bucket, 12);
}

@inline function addPassed(bucket: usize, by: i32): void {
  store<u16>(bucket, <u16>(passed(bucket) + by), 12);
}

/** The row of `key`, 0 when it has none. */
export function find(t: Table, key: u64, hash: u64): u32 {
  const s = segmentOf(t, hash), tag = tagOf(hash);
  let index = bucketIndexOf(s, hash);
  for (let tries = s.bucketCount; tries != 0; tries--) {
    const bucket = bucketAt(s, index);
    for (let hits = slotsWithTag(bucket, tag); hits != 0; hits &= hits - 1) {
      const row = rowInSlot(bucket, ctz(hits));
      if (load<u64>(row) == key) return row; // T1
    }
    if (passed(bucket) == 0) return 0; // T2
    index = bucketAfter(s, index);
  }
  return 0;
}

/** Enters a row in a segment that has a free slot. */
function place(s: Segment, hash: u64, row: u32): void {
  let index = bucketIndexOf(s, hash);
  while (true) {
    const bucket = bucketAt(s, index), free = slotsWithTag(bucket, 0);
    if (free != 0) {
      store<u8>(bucket + ctz(free), <u8>tagOf(hash));
      store<u32>(bucket + (<usize>ctz(free) << 2), row, 16);
      return;
    }
    addPassed(bucket, 1);
    index = bucketAfter(s, index);
  }
}

/** Gives a new key a row with a zero payload; 0 when there is no room (T4). */
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

function clearSlot(bucket: usize, row: u32): bool {
  for (let used = slotsWithTag(bucket, 0) ^ SLOT_MASK; used != 0; used &= used - 1) {
    if (rowInSlot(bucket, ctz(used)) != row) continue;
    store<u8>(bucket + ctz(used), 0);
    return true;
  }
  return false;
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

/** Slabs grow with the table, so a small one stays small. */
function addSlab(t: Table): bool {
  const wanted = min(max(t.bytes >> 4, SLAB_BYTES_MIN), SLAB_BYTES_MAX), rows = max<u32>((wanted - SLAB_HEADER_BYTES) / t.rowBytes, 1);
  const bytes = spanBytes(SLAB_HEADER_BYTES + rows * t.rowBytes), slab = allocate(bytes);
  if (slab == 0) return false;
  store<u32>(slab, t.slabs);
  store<u32>(slab, bytes, 4);
  t.slabs = slab;
  t.slabNext = slab + SLAB_HEADER_BYTES;
  t.slabEnd = slab + bytes;
  t.bytes += bytes;
  return true;
}

/** Makes room in the full segment of `hash`: by more chunks, or by a split (T3, T4). */
function grow(t: Table, s: Segment, hash: u64): bool {
  const chunks = s.bucketCount >> CHUNK_SHIFT, wanted = chunks + (chunks < CHUNKS_SPLIT ? 1 : t.chunksPerGrowth);
  if (wanted > CHUNKS_MAX) return split(t, s, hash);
  if (!takeChunks(t, s, wanted)) return false;
  const count = listEntries(t, s);
  useChunks(s, wanted, t.loadSpread);
  for (let i: usize = 0; i < count; i++) place(s, load<u64>(MOVE_HASHES + (i << 3)), load<u32>(MOVE_ROWS + (i << 2)));
  s.entries = count;
  return true;
}

/** Most splits are even; but keys may come in the order of their hashes, from another table's listing, and then all stay on one side. */
function split(t: Table, lower: Segment, hash: u64): bool {
  const depth = lower.depth, count = listEntries(t, lower), upperCount = countUpper(count, depth);
  const percent = LOAD_PERCENT_NEW - (count > ROOMY_ENTRIES_MAX ? 0 : t.loadSpread); // more would not fit the segment's list of chunks
  const lowerChunks = chunksFor(count - upperCount, percent), upperChunks = chunksFor(upperCount, percent);
  if (depth == DEPTH_MAX || !takeChunks(t, lower, lowerChunks + upperChunks)) return false;
  const upper = createSegment(t, depth + 1);
  if (changetype<usize>(upper) == 0) return false;
  if (depth == t.depth && !doubleDirectory(t)) {
    releaseFor(t, changetype<u32>(upper), offsetof<Segment>());
    return false;
  }
  upper.chunkCount = lower.chunkCount - lowerChunks;
  memory.copy(chunkCell(upper, 0), chunkCell(lower, lowerChunks), upper.chunkCount << 2);
  lower.chunkCount = lowerChunks;
  lower.depth = depth + 1;
  t.segmentCount++;
  useChunks(lower, lowerChunks, t.loadSpread);
  useChunks(upper, upperChunks, t.loadSpread);
  const span: u32 = 1 << (t.depth - depth), first = <u32>(hash >> (64 - <u64>t.depth)) & ~(span - 1);
  for (let i = first + span / 2; i < first + span; i++) store<u32>(<usize>t.directory + (<usize>i << 2), changetype<u32>(upper));
  for (let i: usize = 0; i < count; i++) {
    const rowHash = load<u64>(MOVE_HASHES + (i << 3));
    const s = changetype<Segment>(select(changetype<usize>(upper), changetype<usize>(lower), <i32>(rowHash >> (63 - <u64>depth)) & 1));
    place(s, rowHash, load<u32>(MOVE_ROWS + (i << 2)));
    s.entries++;
  }
  return true;
}

/** Chunks for a segment that begins with `entries` entries, `percent` of their slots at most. */
@inline function chunksFor(entries: u32, percent: u32): u32 {
  return min(entries / (CHUNK_SLOTS * percent / 100) + 1, CHUNKS_MAX);
}

/** How many of the listed entries belong to the upper half of a segment of this depth. */
function countUpper(count: u32, depth: u32): u32 {
  let upper: u32 = 0;
  for (let i: usize = 0; i < count; i++) upper += <u32>(load<u64>(MOVE_HASHES + (i << 3)) >> (63 - <u64>depth)) & 1;
  return upper;
}

/** Lists a segment's rows and their hashes. All rows first, then all hashes: each loop only starts loads that do not wait for each other. */
function listEntries(t: Table, s: Segment): u32 {
  const count = listSegment(s, MOVE_ROWS);
  for (let i: usize = 0; i < count; i++) store<u64>(MOVE_HASHES + (i << 3), hashOf(t, load<u64>(load<u32>(MOVE_ROWS + (i << 2)))));
  return count;
}

/** Writes the addresses of a segment's rows; returns how many. */
export function listSegment(s: Segment, rowsOut: usize): u32 {
  let out = rowsOut;
  for (let index: u32 = 0; index < s.bucketCount; index++) {
    const bucket = bucketAt(s, index);
    for (let used = slotsWithTag(bucket, 0) ^ SLOT_MASK; used != 0; used &= used - 1, out += 4) store<u32>(out, rowInSlot(bucket, ctz(used)));
  }
  return <u32>((out - rowsOut) >> 2);
}

function doubleDirectory(t: Table): bool {
  const count: u32 = 1 << t.depth, old: usize = t.directory, wide: usize = allocateFor(t, count << 3);
  if (wide == 0) return false;
  for (let i: usize = 0; i < count; i++) {
    const segment = load<u32>(old + (i << 2));
    store<u32>(wide + (i << 3), segment);
    store<u32>(wide + (i << 3), segment, 4);
  }
  releaseFor(t, <u32>old, count << 2);
  t.directory = <u32>wide;
  t.depth++;
  return true;
}

/** Brings a segment to `wanted` chunks; those it got before there was no room left stay with it. */
function takeChunks(t: Table, s: Segment, wanted: u32): bool {
  if (wanted > CHUNK_CELLS) unreachable(); // a bug: the list would run into the next span
  while (s.chunkCount < wanted) {
    const chunk = allocateFor(t, CHUNK_BYTES);
    if (chunk == 0) return false;
    store<u32>(chunkCell(s, s.chunkCount), chunk);
    s.chunkCount++;
  }
  return true;
}

/** A number below `spread` that stays with a segment: so that segments that were filled evenly do not all grow at once (T6). */
@inline function unevenness(s: Segment, spread: u32): u32 {
  return (((changetype<u32>(s) >> 6) * 0x9e3779b1) >> 16) * spread >> 16;
}

/** Empties a segment and gives it the buckets of its first `chunks` chunks. */
function useChunks(s: Segment, chunks: u32, loadSpread: u32): void {
  for (let i: u32 = 0; i < chunks; i++) memory.fill(load<u32>(chunkCell(s, i)), 0, CHUNK_BYTES);
  s.entries = 0;
  s.bucketCount = chunks << CHUNK_SHIFT;
  s.entriesMax = s.bucketCount * SLOTS * (LOAD_PERCENT - unevenness(s, loadSpread)) / 100;
}

function createSegment(t: Table, depth: u32): Segment {
  const address = allocateFor(t, offsetof<Segment>());
  if (address != 0) memory.fill(address, 0, offsetof<Segment>());
  const s = changetype<Segment>(<usize>address);
  if (address != 0) s.depth = depth;
  return s;
}

function allocateFor(t: Table, bytes: u32): u32 {
  const address = allocate(bytes);
  if (address != 0) t.bytes += spanBytes(bytes);
  return address;
}

function releaseFor(t: Table, address: u32, bytes: u32): void {
  release(address, bytes);
  t.bytes -= spanBytes(bytes);
}

/** The distance between rows. Wide ones lie at multiples of 8, so that 64 floats never touch a sixth cache line; more gains nothing. */
function rowBytesOf(payloadBytes: u32): u32 {
  const bytes = <u32>KEY_BYTES + payloadBytes;
  return payloadBytes < 64 ? bytes : (bytes + 7) & ~7;
}

/** An empty table, 0 when there is no room. */
export function createTable(payloadBytes: u32, secret: u64): u32 {
  const address = allocate(offsetof<Table>()), t = changetype<Table>(<usize>address);
  if (address == 0) return 0;
  memory.fill(address, 0, offsetof<Table>());
  t.bytes = spanBytes(offsetof<Table>());
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

/** The directory index after the last one that names the same segment as `index`. */
@inline export function nextSegmentIndex(t: Table, index: u32): u32 {
  const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
  return index + (1 << (t.depth - s.depth));
}

export function destroyTable(t: Table): void {
  const count: u32 = 1 << t.depth;
  for (let index: u32 = 0; index < count; ) {
    const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
    index = nextSegmentIndex(t, index);
    for (let i: u32 = 0; i < s.chunkCount; i++) release(load<u32>(chunkCell(s, i)), CHUNK_BYTES);
    release(changetype<u32>(s), offsetof<Segment>());
  }
  release(t.directory, count << 2);
  for (let slab = t.slabs; slab != 0; ) {
    const next = load<u32>(slab);
    release(slab, load<u32>(slab, 4));
    slab = next;
  }
  release(changetype<u32>(t), offsetof<Table>());
}
