// allocator — spans of an arena: a frontier that only rises, and one free list for each size class.
//
// Sizes are multiples of 64 up to 512 bytes, then four classes to each power of two (512, 640, 768, 896, 1024, 1280,
// …), so a span is at most a quarter larger than asked for, and a power of two is exact. A released span goes to its
// class's list and is taken first; when list and frontier are both exhausted, a larger released span is cut up.
// Released neighbours are not joined.
//
// The memory has two zones. State (rows, tables, blocks) comes from the first. Work (answers, requests, what a
// checkpoint sets aside) comes from the first while it has room, and then from the reserve, which state cannot fill: a
// full arena can still be read and saved.
//
//   first page │ zone of state …                          │ reserve │ last page
//
//   Allocator.L1. Spans are multiples of 64 bytes at multiples of 64; the last page of the memory is never handed out,
//       so no address plus length wraps.
//   Allocator.L2. A free span's first u32 is the address of the next free one of its class, 0 at the end of the list.
//   Allocator.L3. State that lies in the reserve (LENT bytes: the successor of a block that is being sent, what was
//       overdrawn) is owed to it: so much of the zone of state stays free.
//   Allocator.L4. An empty reserve is whole again: its lists are forgotten. So what was cut up for small spans serves
//       large ones.

import {
  ARENA_START, ASIDE, END, FREE_LISTS, FRONTIER, LENT, OVERDRAFT, OVERDRAWN, RESERVE_END, RESERVE_FREE_LISTS, RESERVE_FRONTIER, RESERVE_START, RESERVE_USED, TOUCHED, USED,
} from "./layout.as";

const PAGE_BYTES: u32 = 65536;
const CLASS_COUNT: u32 = 100;
/** The pages of the system: a fault for each, on its first touch. */
const FAULT_BYTES: u32 = 4096;

@inline function classOf(bytes: u32): u32 {
  const units = (bytes - 1) >> 6; // one less than the units of 64 bytes, so that an exact size stays in its class
  if (units < 4) return units;
  const shift = 29 - clz(units);
  return (shift << 2) + (units >> shift);
}

@inline function bytesOf(sizeClass: u32): u64 {
  if (sizeClass < 4) return (sizeClass + 1) << 6;
  return <u64>((sizeClass & 3) + 5) << ((sizeClass >> 2) + 5);
}

/**
 * Makes the whole memory of `pages` pages free, the last `reservePages` of it the reserve. To be called once, before
 * anything else.
 */
export function openArena(pages: u32, reservePages: u32): void {
  const end = (pages - 1) * PAGE_BYTES, start = end - reservePages * PAGE_BYTES;
  store<u32>(FRONTIER, ARENA_START);
  store<u32>(END, start);
  store<u32>(RESERVE_START, start);
  store<u32>(RESERVE_FRONTIER, start);
  store<u32>(RESERVE_END, end);
}

/** Of the zone of state. */
export function usedBytes(): f64 {
  return <f64>load<u64>(USED);
}

export function reserveUsedBytes(): f64 {
  return <f64>load<u64>(RESERVE_USED);
}

/** Bytes that can be allocated for certain, in spans of any size. */
export function certainRoom(): u64 {
  const room: u64 = load<u32>(END) - load<u32>(FRONTIER), lent: u64 = load<u32>(LENT);
  return room > lent ? room - lent : 0; // Allocator.L3
}

/** How many bytes a span of `bytes` really takes. */
export function spanBytes(bytes: u32): u32 {
  return <u32>bytesOf(classOf(bytes));
}

/** The address of a span of at least `bytes` (1 or more) for state, or 0 when there is no room. */
export function allocate(bytes: u32): u32 {
  const lent: u64 = load<u32>(LENT), size = bytesOf(classOf(bytes));
  const isOwed = lent != 0 && load<u64>(USED) + size + lent > <u64>(load<u32>(END) - ARENA_START); // Allocator.L3
  let span: u32 = isOwed ? 0 : take(bytes, FRONTIER, FREE_LISTS);
  if (span != 0 || <u64>load<u32>(OVERDRAWN) + size > <u64>load<u32>(OVERDRAFT)) return span;
  span = take(bytes, RESERVE_FRONTIER, RESERVE_FREE_LISTS);
  if (span != 0) owe(<u32>size);
  return span;
}

/** So many bytes more were overdrawn; fewer, when it wraps (Allocator.L3). */
function owe(size: u32): void {
  store<u32>(LENT, load<u32>(LENT) + size);
  store<u32>(OVERDRAWN, load<u32>(OVERDRAWN) + size);
}

/** From now on tables that find no room take the reserve, until so many bytes are overdrawn; 0: they do not. */
export function setOverdraft(bytes: u32): void {
  store<u32>(OVERDRAFT, bytes);
}

/** What state cannot take of its zone: it is in use, or owed to the reserve (Allocator.L3). */
export function stateUsedBytes(): f64 {
  return <f64>(load<u64>(USED) + <u64>load<u32>(LENT));
}

/** Bytes of state that lie in the reserve. */
export function lentBytes(): f64 {
  return <f64>load<u32>(LENT);
}

/** As `release`, of a span of state: what was overdrawn is owed no more. */
export function releaseState(span: u32, bytes: u32): void {
  if (span >= load<u32>(RESERVE_START)) owe(-<u32>bytesOf(classOf(bytes)));
  release(span, bytes);
}

/** As `allocate`, for work: from the reserve as well. */
export function allocateWork(bytes: u32): u32 {
  const span = take(bytes, FRONTIER, FREE_LISTS);
  return span != 0 ? span : take(bytes, RESERVE_FRONTIER, RESERVE_FREE_LISTS);
}

/** As `allocateWork`, from the reserve alone. */
export function allocateReserve(bytes: u32): u32 {
  return take(bytes, RESERVE_FRONTIER, RESERVE_FREE_LISTS);
}

/**
 * As `allocateWork`, for a table that a checkpoint sets aside: of the reserve at most the half, so that there is room
 * for answers.
 */
export function allocateAside(bytes: u32): u32 {
  const size = bytesOf(classOf(bytes)), half = <u64>(load<u32>(RESERVE_END) - load<u32>(RESERVE_START)) >> 1;
  let span = <u64>load<u32>(ASIDE) + size <= half ? take(bytes, RESERVE_FRONTIER, RESERVE_FREE_LISTS) : 0;
  if (span == 0) span = take(bytes, FRONTIER, FREE_LISTS);
  if (span != 0) store<u32>(ASIDE, load<u32>(ASIDE) + <u32>size);
  return span;
}

/** So many bytes of a table that was set aside are about to be released: what they really take. */
export function noteAsideReleased(size: u32): void {
  store<u32>(ASIDE, load<u32>(ASIDE) - size);
}

/** Of one zone: its frontier, end and used bytes lie one after the other. */
function take(bytes: u32, zone: usize, lists: usize): u32 {
  const sizeClass = classOf(bytes), size = bytesOf(sizeClass), head = lists + (<usize>sizeClass << 2);
  let span = load<u32>(head);
  if (span != 0) store<u32>(head, load<u32>(span)); // Allocator.L2
  else {
    const frontier: u64 = load<u32>(zone);
    if (frontier + size <= <u64>load<u32>(zone, 4)) {
      span = <u32>frontier;
      store<u32>(zone, <u32>(frontier + size));
    } else {
      span = cutLarger(sizeClass, size, lists);
      if (span == 0) return 0;
    }
  }
  store<u64>(zone, load<u64>(zone, 8) + size, 8);
  return span;
}

/** State of `bytes` bytes lies in the reserve from now on, or, when negative, does so no more (Allocator.L3). */
export function lend(bytes: i32): void {
  const size = <i32>bytesOf(classOf(<u32>abs(bytes)));
  store<u32>(LENT, load<u32>(LENT) + (bytes > 0 ? size : -size));
}

/**
 * Brings pages between the frontier and `bytes` beyond it into memory, `pagesMax` at most, so that whoever gets them
 * next does not wait for the system. Nobody owns them yet: a zero may be written. Returns how many pages.
 */
export function touchAhead(bytes: u32, pagesMax: u32): u32 {
  const frontier: u64 = load<u32>(FRONTIER), end = min<u64>(frontier + <u64>bytes, <u64>load<u32>(END));
  let page = max<u64>(<u64>load<u32>(TOUCHED), (frontier + FAULT_BYTES - 1) & ~(<u64>FAULT_BYTES - 1)), pages: u32 = 0;
  for (; pages < pagesMax && page < end; pages++, page += FAULT_BYTES) store<u8>(<usize>page, 0);
  store<u32>(TOUCHED, <u32>page);
  return pages;
}

/** How many bytes beyond the frontier touchAhead has brought into memory. */
export function aheadBytes(): f64 {
  const frontier = load<u32>(FRONTIER), touched = load<u32>(TOUCHED);
  return touched > frontier ? <f64>(touched - frontier) : 0;
}

/** `bytes` is what was asked for. */
export function release(span: u32, bytes: u32): void {
  const sizeClass = classOf(bytes), size = bytesOf(sizeClass);
  if (span < load<u32>(RESERVE_START)) {
    addToList(span, sizeClass, FREE_LISTS);
    store<u64>(USED, load<u64>(USED) - size);
    return;
  }
  addToList(span, sizeClass, RESERVE_FREE_LISTS);
  store<u64>(RESERVE_USED, load<u64>(RESERVE_USED) - size);
  if (load<u64>(RESERVE_USED) != 0) return;
  store<u32>(RESERVE_FRONTIER, load<u32>(RESERVE_START)); // Allocator.L4
  memory.fill(RESERVE_FREE_LISTS, 0, CLASS_COUNT << 2);
}

function addToList(span: u32, sizeClass: u32, lists: usize): void {
  const head = lists + (<usize>sizeClass << 2);
  store<u32>(span, load<u32>(head));
  store<u32>(head, span);
}

/** Takes the smallest larger free span, keeps its first `size` bytes and lists the rest; 0 when there is none. */
function cutLarger(sizeClass: u32, size: u64, lists: usize): u32 {
  for (let larger = sizeClass + 1; larger < CLASS_COUNT; larger++) {
    const head = lists + (<usize>larger << 2), span = load<u32>(head);
    if (span == 0) continue;
    store<u32>(head, load<u32>(span));
    let rest = span + <u32>size, restBytes = <u32>(bytesOf(larger) - size);
    while (restBytes != 0) {
      let piece = classOf(restBytes);
      if (bytesOf(piece) > restBytes) piece--;
      addToList(rest, piece, lists);
      rest += <u32>bytesOf(piece);
      restBytes -= <u32>bytesOf(piece);
    }
    return span;
  }
  return 0;
}
