// table-shape — a table as it lies in the arena: where a key's hash leads, and how many bytes it takes. Nothing here
// changes what a table holds.
//
//   hash       [ part: the top PART_BITS bits of the fixed mix of the key | keyed bits ]
//   directory  u32 segment for each value of the top `depth` bits of the hash (extendible hashing), so ordered by part
//   slab       [ next slab u32 | bytes u32 | rows ]
//
//   TableShape.H1. Whoever chooses keys may choose their parts, and nothing else: all bits below the part are keyed by
//       a secret, and they alone choose bucket and tag, and the segment among those of a part.
//   TableShape.H2. The rows of a part lie in segments of their own once those have split that far (depth PART_BITS and
//       more); before that segments are shared with the parts beside it, so that a small table stays small.

import { allocate, allocateAside, noteAsideReleased, release, releaseState, spanBytes } from "./allocator.as";
import { Segment } from "./segment.as";

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
  /** How far apart the loads are, in percent of the slots, at which segments grow (TableGrowth.G3). */
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
  /** 1 for what a checkpoint sets aside: its memory is work, not state (allocator.as.ts). */
  isAside: u32;
  /** While a checkpoint is restored: how many rows there will be (TableGrowth.G5). 0 otherwise. */
  rowsExpected: u32;
}

@inline export function mix(x: u64, factor: u64): u64 {
  x = (x ^ (x >> 32)) * factor;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

/** As in src/keys/placement.ts: fixed for ever. */
export const PART_BITS: u32 = 12;
const PART_MASK: u64 = 0xfff0000000000000;
/** Of the fixed mix (src/keys/mix.ts), bit for bit. */
const MIX_FACTOR: u64 = 0xd6e8feb86659fd93;

/** The part of a key. */
@inline export function partOf(key: u64): u32 {
  return <u32>(mix(key, MIX_FACTOR) >> (64 - <u64>PART_BITS));
}

/**
 * The top bits choose the segment, bits 8 to 39 the bucket, of which the tag takes 24 to 31: those that hardly matter
 * to the bucket (TableShape.H1). The mix is without its last step, which leaves the part as it is. Four products: with
 * fewer, keys that differ in their parts alone would share bucket and tag.
 */
@inline export function hashOf(t: Table, key: u64): u64 {
  let mixed = (key ^ (key >> 32)) * MIX_FACTOR;
  mixed = (mixed ^ (mixed >> 32)) * MIX_FACTOR;
  const keyed = (mixed ^ t.secretXor) * t.secretFactor;
  return (mixed & PART_MASK) | (((keyed ^ (keyed >> 32)) * MIX_FACTOR) >> <u64>PART_BITS);
}

@inline export function segmentOf(t: Table, hash: u64): Segment {
  return changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>(hash >> (64 - <u64>t.depth)) << 2)));
}

/** The directory index after the last one that names the same segment as `index`. */
@inline export function nextSegmentIndex(t: Table, index: u32): u32 {
  const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
  return index + (1 << (t.depth - s.depth));
}

export function allocateFor(t: Table, bytes: u32): u32 {
  const address = t.isAside ? allocateAside(bytes) : allocate(bytes);
  if (address != 0) t.bytes += spanBytes(bytes);
  return address;
}

export function releaseFor(t: Table, address: u32, bytes: u32): void {
  giveBack(t, address, bytes);
  t.bytes -= spanBytes(bytes);
  if (t.isAside) noteAsideReleased(spanBytes(bytes));
}

/** Gives a span of a table back to the arena, its own counts apart. */
export function giveBack(t: Table, address: u32, bytes: u32): void {
  if (t.isAside) release(address, bytes);
  else releaseState(address, bytes);
}
