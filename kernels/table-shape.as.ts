// table-shape — a table as it lies in the arena: where a key's hash leads, and how many bytes it takes. Nothing here changes what a table holds.
//
//   directory  u32 segment for each value of the top `depth` bits of the hash (extendible hashing)
//   slab       [ next slab u32 | bytes u32 | rows ]
//
// H1. The hash is keyed by a secret, so nobody can choose keys that fall in one segment.

import { allocate, allocateAside, noteAsideReleased, release, spanBytes } from "./allocator.as";
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
  /** How far apart the loads are, in percent of the slots, at which segments grow (table-growth.as.ts, G3). */
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
}

@inline export function mix(x: u64, factor: u64): u64 {
  x = (x ^ (x >> 32)) * factor;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

/** The top bits choose the segment, bits 8 to 39 the bucket, the lowest 8 the tag. A bijection, keyed (H1). */
@inline export function hashOf(t: Table, key: u64): u64 {
  return mix(key ^ t.secretXor, t.secretFactor);
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
  release(address, bytes);
  t.bytes -= spanBytes(bytes);
  if (t.isAside) noteAsideReleased(spanBytes(bytes));
}
