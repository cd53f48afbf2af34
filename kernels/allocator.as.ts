// allocator — spans of an arena: a frontier that only rises, and one free list for each size class.
//
// Sizes are multiples of 64 up to 512 bytes, then four classes to each power of two (512, 640, 768, 896, 1024, 1280, …), so a span is at
// most a quarter larger than asked for, and a power of two is exact. A released span goes to its class's list and is taken first; when
// list and frontier are both exhausted, a larger released span is cut up. Released neighbours are not joined.
//
// L1. Spans are multiples of 64 bytes at multiples of 64; the last page of the memory is never handed out, so no address plus length wraps.
// L2. A free span's first u32 is the address of the next free one of its class, 0 at the end of the list.

import { ARENA_START, END, FREE_LISTS, FRONTIER, TOUCHED, USED } from "./layout.as";

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

@inline function addUsed(bytes: i64): void {
  store<u64>(USED, load<u64>(USED) + bytes);
}

/** Makes the whole memory of `pages` pages free. To be called once, before anything else. */
export function openArena(pages: u32): void {
  store<u32>(FRONTIER, ARENA_START);
  store<u32>(END, (pages - 1) * PAGE_BYTES);
}

export function usedBytes(): f64 {
  return <f64>load<u64>(USED);
}

/** Bytes that can be allocated for certain, in spans of any size. */
export function certainRoom(): u64 {
  return <u64>(load<u32>(END) - load<u32>(FRONTIER));
}

/** How many bytes a span of `bytes` really takes. */
export function spanBytes(bytes: u32): u32 {
  return <u32>bytesOf(classOf(bytes));
}

/** The address of a span of at least `bytes` (1 or more), or 0 when there is no room. */
export function allocate(bytes: u32): u32 {
  const sizeClass = classOf(bytes), size = bytesOf(sizeClass), head = FREE_LISTS + (<usize>sizeClass << 2);
  let span = load<u32>(head);
  if (span != 0) store<u32>(head, load<u32>(span)); // L2
  else {
    const frontier: u64 = load<u32>(FRONTIER);
    if (frontier + size <= <u64>load<u32>(END)) {
      span = <u32>frontier;
      store<u32>(FRONTIER, <u32>(frontier + size));
    } else {
      span = cutLarger(sizeClass, size);
      if (span == 0) return 0;
    }
  }
  addUsed(size);
  return span;
}

/**
 * Brings pages between the frontier and `bytes` beyond it into memory, `pagesMax` at most, so that whoever gets them next does not wait for the
 * system. Nobody owns them yet: a zero may be written. Returns how many pages.
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
  const sizeClass = classOf(bytes);
  addToList(span, sizeClass);
  addUsed(-(<i64>bytesOf(sizeClass)));
}

function addToList(span: u32, sizeClass: u32): void {
  const head = FREE_LISTS + (<usize>sizeClass << 2);
  store<u32>(span, load<u32>(head));
  store<u32>(head, span);
}

/** Takes the smallest larger free span, keeps its first `size` bytes and lists the rest; 0 when there is none. */
function cutLarger(sizeClass: u32, size: u64): u32 {
  for (let larger = sizeClass + 1; larger < CLASS_COUNT; larger++) {
    const head = FREE_LISTS + (<usize>larger << 2), span = load<u32>(head);
    if (span == 0) continue;
    store<u32>(head, load<u32>(span));
    let rest = span + <u32>size, restBytes = <u32>(bytesOf(larger) - size);
    while (restBytes != 0) {
      let piece = classOf(restBytes);
      if (bytesOf(piece) > restBytes) piece--;
      addToList(rest, piece);
      rest += <u32>bytesOf(piece);
      restBytes -= <u32>bytesOf(piece);
    }
    return span;
  }
  return 0;
}
