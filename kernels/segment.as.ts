// segment — one piece of a table's index: buckets of tags and rows, in chunks. Not how it grows (table-growth.as.ts),
// nor what lies in the rows.
//
//   bucket     [ 12 tag bytes | u16 passed | u16 unused | 12 × u32 row ]    one cache line; tag 0 = free
//   chunk      32 buckets                                                   2 KiB, the unit by which an index grows
//   segment    entries, limit, depth, … and up to 7 chunks                  one cache line, the unit that is split
//
//   Segment.S1. Only tags say what is free, and no hash has the tag 0.
//   Segment.S2. `passed` counts the entries whose search passes over a bucket because they lie further on. A search
//       stops at passed = 0, a removal counts it down: no tombstones.

export const SLOTS: u32 = 12;
const SLOT_MASK: u32 = 0xfff;
/** The bit of the last slot. */
export const SLOT_LAST: u32 = 0x800;
const BUCKET_BYTES: u32 = 64;
const CHUNK_BUCKETS: u32 = 32;
export const CHUNK_SHIFT: u32 = 5;
export const CHUNK_BYTES: u32 = CHUNK_BUCKETS * BUCKET_BYTES;
export const CHUNK_SLOTS: u32 = CHUNK_BUCKETS * SLOTS;

/** A plain struct at an address: no garbage collector, no header. */
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

/** Never 0 (Segment.S1). */
@inline export function tagOf(hash: u64): u32 {
  const tag = <u32>hash >> 24;
  return tag + u32(tag == 0);
}

@inline export function bucketIndexOf(s: Segment, hash: u64): u32 {
  return <u32>((((hash >> 8) & 0xffffffff) * <u64>s.bucketCount) >> 32);
}

@inline export function chunkCell(s: Segment, index: u32): usize {
  return changetype<usize>(s) + offsetof<Segment>("chunk0") + (<usize>index << 2);
}

@inline export function bucketAt(s: Segment, index: u32): usize {
  return <usize>load<u32>(chunkCell(s, index >> CHUNK_SHIFT)) + (<usize>(index & (CHUNK_BUCKETS - 1)) << 6);
}

@inline export function homeBucket(s: Segment, hash: u64): usize {
  return bucketAt(s, bucketIndexOf(s, hash));
}

/** Where a key lies whose home bucket is full, mostly. */
@inline export function secondBucket(s: Segment, hash: u64): usize {
  return bucketAt(s, bucketAfter(s, bucketIndexOf(s, hash)));
}

@inline export function bucketAfter(s: Segment, index: u32): u32 {
  return index + 1 == s.bucketCount ? 0 : index + 1;
}

@inline export function slotsWithTag(bucket: usize, tag: u32): u32 {
  return i8x16.bitmask(i8x16.eq(v128.load(bucket), i8x16.splat(<i8>tag))) & SLOT_MASK;
}

@inline export function rowInSlot(bucket: usize, slot: u32): u32 {
  return load<u32>(bucket + (<usize>slot << 2), 16);
}

@inline export function passed(bucket: usize): u32 {
  return load<u16>(bucket, 12);
}

@inline export function addPassed(bucket: usize, by: i32): void {
  store<u16>(bucket, <u16>(passed(bucket) + by), 12);
}

/** Enters a row in a segment that has a free slot. */
export function place(s: Segment, hash: u64, row: u32): void {
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

export function clearSlot(bucket: usize, row: u32): bool {
  for (let used = slotsWithTag(bucket, 0) ^ SLOT_MASK; used != 0; used &= used - 1) {
    if (rowInSlot(bucket, ctz(used)) != row) continue;
    store<u8>(bucket + ctz(used), 0);
    return true;
  }
  return false;
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
