// table-growth — makes room in the index of a table, one segment at a time.
//
// A segment grows from 4 chunks to 5, 6, 7 and then splits into two of 4, so the index of a large table is 74 to 92 %
// full at any time. Wide rows, where the index hardly counts, skip the steps in between.
//
//   TableGrowth.G1. A growth moves the entries of one segment only, at most SEGMENT_SLOTS_MAX.
//   TableGrowth.G2. Memory is taken before anything is changed: a growth that finds no room leaves the table as it was.
//   TableGrowth.G3. Wide rows make splits dear (a cache miss for each row) and the index cheap. There segments grow at
//       loads that differ by up to `loadSpread`, so that a table filled evenly does not split everywhere at once: half
//       the p99.9 of inserting calls, for 2 bytes a row.
//   TableGrowth.G4. A segment whose entries all lie in one half of it, as where they are of one part, gets an empty one
//       beside it, and nothing moves. So a part is set apart by at most PART_BITS such splits; below it the keyed bits
//       split evenly, whoever chose the keys, and the directory has at most 16 bytes for each row of the fullest part,
//       beside 64 KiB.
//   TableGrowth.G5. A table whose rows are known to come (a checkpoint is restored) takes no more than one that grew to
//       them: its segments are split before they come, grow at LOAD_PERCENT alone, and have no more chunks than their
//       entries need. Rows come in the order of their parts then, and segments that are split in that order would stay
//       as they are after a split.

import { MOVE_HASHES, MOVE_ROWS } from "./layout.as";
import { CHUNK_BYTES, CHUNK_SHIFT, CHUNK_SLOTS, SLOTS, Segment, chunkCell, listSegment, place } from "./segment.as";
import { Table, allocateFor, hashOf, releaseFor, segmentOf } from "./table-shape.as";

/** A segment of fewer chunks grows by one at a time. An even split leaves two of about this many. */
const CHUNKS_SPLIT: u32 = 4;
const CHUNKS_MAX: u32 = 7;
/** How many a segment can list: chunk0 to chunk8. */
const CHUNK_CELLS: u32 = 9;
/**
 * A segment holds at most this many of every 100 slots, less its own share of the table's loadSpread; after a split
 * about LOAD_PERCENT_NEW.
 */
const LOAD_PERCENT: u32 = 92;
const LOAD_PERCENT_NEW: u32 = 85;
/**
 * The most entries of a segment of CHUNKS_SPLIT chunks: so many are split into at most 8 chunks at any load of 61
 * percent and more.
 */
const ROOMY_ENTRIES_MAX: u32 = CHUNKS_SPLIT * CHUNK_SLOTS * LOAD_PERCENT / 100;
/** 4,096 segments for each part, about 8 M rows; a directory beyond that would only help an attacker. */
export const DEPTH_MAX: u32 = 24;

/** Makes room in the full segment of `hash`: by more chunks, or by a split (TableGrowth.G1, TableGrowth.G2). */
export function grow(t: Table, s: Segment, hash: u64): bool {
  const chunks = s.bucketCount >> CHUNK_SHIFT, wanted = chunks + (chunks < CHUNKS_SPLIT ? 1 : t.chunksPerGrowth);
  if (wanted > CHUNKS_MAX) return split(t, s, hash);
  if (!takeChunks(t, s, wanted)) return false;
  const count = listEntries(t, s);
  useChunks(s, wanted, spreadOf(t));
  for (let i: usize = 0; i < count; i++) place(s, load<u64>(MOVE_HASHES + (i << 3)), load<u32>(MOVE_ROWS + (i << 2)));
  s.entries = count;
  return true;
}

/**
 * Most splits are even; but keys may come in the order of their hashes, from another table's listing, and then all stay
 * on one side.
 */
function split(t: Table, lower: Segment, hash: u64): bool {
  const depth = lower.depth, count = listEntries(t, lower), upperCount = countUpper(count, depth);
  if (upperCount == 0 || upperCount == count) return setApart(t, lower, hash, upperCount != 0);
  // More would not fit the segment's list of chunks.
  const percent = LOAD_PERCENT_NEW - (count > ROOMY_ENTRIES_MAX ? 0 : t.loadSpread);
  const isExpected = t.rowsExpected != 0;
  const lowerChunks = isExpected ? chunksOf(count - upperCount) : chunksFor(count - upperCount, percent);
  const upperChunks = isExpected ? chunksOf(upperCount) : chunksFor(upperCount, percent);
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
  useChunks(lower, lowerChunks, spreadOf(t));
  useChunks(upper, upperChunks, spreadOf(t));
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

/** All entries of a segment are in one half of it: the other half gets an empty segment (TableGrowth.G4). */
function setApart(t: Table, s: Segment, hash: u64, isUpper: bool): bool {
  const depth = s.depth;
  if (depth == DEPTH_MAX) return false;
  const empty = createSegment(t, depth + 1);
  if (changetype<usize>(empty) == 0) return false;
  if (!takeChunks(t, empty, 1) || (depth == t.depth && !doubleDirectory(t))) {
    if (empty.chunkCount != 0) releaseFor(t, empty.chunk0, CHUNK_BYTES);
    releaseFor(t, changetype<u32>(empty), offsetof<Segment>());
    return false;
  }
  useChunks(empty, 1, spreadOf(t));
  s.depth = depth + 1;
  t.segmentCount++;
  const span: u32 = 1 << (t.depth - depth), first = (<u32>(hash >> (64 - <u64>t.depth)) & ~(span - 1)) + (isUpper ? 0 : span / 2);
  for (let i = first; i < first + span / 2; i++) store<u32>(<usize>t.directory + (<usize>i << 2), changetype<u32>(empty));
  return true;
}

/** Chunks for a segment that begins with `entries` entries, `percent` of their slots at most. */
@inline function chunksFor(entries: u32, percent: u32): u32 {
  return min(entries / (CHUNK_SLOTS * percent / 100) + 1, CHUNKS_MAX);
}

/** The fewest chunks that hold so many entries. */
@inline function chunksOf(entries: u32): u32 {
  const most = CHUNK_SLOTS * LOAD_PERCENT / 100;
  return max<u32>((entries + most - 1) / most, 1);
}

/** TableGrowth.G5 */
@inline function spreadOf(t: Table): u32 {
  return t.rowsExpected != 0 ? 0 : t.loadSpread;
}

/** From now on the table has, or gets, so many rows (TableGrowth.G5), until `settleRows`. */
export function expectRows(t: Table, rowCount: u32): void {
  t.rowsExpected = rowCount;
}

/** How many rows a segment holds before it is split, while they are expected. */
export function segmentRowsMax(t: Table): u32 {
  let chunks = CHUNKS_SPLIT;
  while (chunks + t.chunksPerGrowth <= CHUNKS_MAX) chunks += t.chunksPerGrowth;
  return chunks * CHUNK_SLOTS * LOAD_PERCENT / 100;
}

/**
 * Splits an empty table until the segment of the hash with these top 32 bits has this depth (TableGrowth.G5). False
 * when there is no room.
 */
export function splitTo(t: Table, hashTop: u32, depth: u32): bool {
  const hash = <u64>hashTop << 32;
  for (let s = segmentOf(t, hash); s.depth < depth && s.entries == 0; s = segmentOf(t, hash)) {
    if (!setApart(t, s, hash, (<u32>(hash >> (63 - <u64>s.depth)) & 1) != 0)) return false;
  }
  return true;
}

/**
 * The rows that were expected are there. Segments grow at loads of their own again (TableGrowth.G3), but for those that
 * are fuller already: they keep what room they have.
 */
export function settleRows(t: Table): void {
  t.rowsExpected = 0;
  const count: u32 = 1 << t.depth;
  for (let index: u32 = 0; index < count; ) {
    const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
    index += 1 << (t.depth - s.depth);
    const most = s.bucketCount * SLOTS * (LOAD_PERCENT - unevenness(s, t.loadSpread)) / 100;
    if (s.entries < most) s.entriesMax = most;
  }
}

/** How many of the listed entries belong to the upper half of a segment of this depth. */
function countUpper(count: u32, depth: u32): u32 {
  let upper: u32 = 0;
  for (let i: usize = 0; i < count; i++) upper += <u32>(load<u64>(MOVE_HASHES + (i << 3)) >> (63 - <u64>depth)) & 1;
  return upper;
}

/**
 * Lists a segment's rows and their hashes. All rows first, then all hashes: each loop only starts loads that do not
 * wait for each other.
 */
function listEntries(t: Table, s: Segment): u32 {
  const count = listSegment(s, MOVE_ROWS);
  for (let i: usize = 0; i < count; i++) store<u64>(MOVE_HASHES + (i << 3), hashOf(t, load<u64>(load<u32>(MOVE_ROWS + (i << 2)))));
  return count;
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
export function takeChunks(t: Table, s: Segment, wanted: u32): bool {
  if (wanted > CHUNK_CELLS) unreachable(); // a bug: the list would run into the next span
  while (s.chunkCount < wanted) {
    const chunk = allocateFor(t, CHUNK_BYTES);
    if (chunk == 0) return false;
    store<u32>(chunkCell(s, s.chunkCount), chunk);
    s.chunkCount++;
  }
  return true;
}

/**
 * A number below `spread` that stays with a segment: so that segments that were filled evenly do not all grow at once
 * (TableGrowth.G3).
 */
@inline function unevenness(s: Segment, spread: u32): u32 {
  return (((changetype<u32>(s) >> 6) * 0x9e3779b1) >> 16) * spread >> 16;
}

/** Empties a segment and gives it the buckets of its first `chunks` chunks. */
export function useChunks(s: Segment, chunks: u32, loadSpread: u32): void {
  for (let i: u32 = 0; i < chunks; i++) memory.fill(load<u32>(chunkCell(s, i)), 0, CHUNK_BYTES);
  s.entries = 0;
  s.bucketCount = chunks << CHUNK_SHIFT;
  s.entriesMax = s.bucketCount * SLOTS * (LOAD_PERCENT - unevenness(s, loadSpread)) / 100;
}

export function createSegment(t: Table, depth: u32): Segment {
  const address = allocateFor(t, offsetof<Segment>());
  if (address != 0) memory.fill(address, 0, offsetof<Segment>());
  const s = changetype<Segment>(<usize>address);
  if (address != 0) s.depth = depth;
  return s;
}
