// pages-ahead — keeps memory ready for tables that grow: the pages that new rows and their index will lie in are touched between the calls, some at
// a time, so that a call that makes rows does not wait for the system. Not a thread and not a timer: whoever has turns to spare calls it.
//
// All memory of a table comes from the arena's frontier: slabs of rows, chunks, segments and directories alike. So one account serves for all of
// them: how far the touched pages reach beyond the frontier, and how much of AHEAD_BYTES that lacks.
//
// Invariants:
//   PagesAhead.P1. A turn touches at most TURN_BYTES_MAX, one large page of the system: where the system is slow to give pages, a turn waits for one of them.
//   PagesAhead.P2. A turn touches a quarter of what is lacking, and TURN_BYTES_MIN at least: as long as the calls between two turns take no more than that,
//       they find their pages there. What they take beyond it comes out of AHEAD_BYTES first.
//   PagesAhead.P3. Memory is touched only within AHEAD_BYTES of the frontier: that is what a table costs beyond its bytes.

import type { Arena } from "../kernel/arena.ts";

/** The pages that the arena touches, and the large ones that it may have from the system. */
const PAGE_BYTES = 4_096;
export const LARGE_PAGE_BYTES: number = 2 * 2 ** 20;
export const AHEAD_BYTES: number = 4 * LARGE_PAGE_BYTES;
export const TURN_BYTES_MIN: number = 64 * PAGE_BYTES;
export const TURN_BYTES_MAX: number = LARGE_PAGE_BYTES;
const TURNS_TO_FILL = 4;

/** One turn (PagesAhead.P1, PagesAhead.P2). Returns how many bytes it touched; 0 when all of AHEAD_BYTES is there, or the arena ends before. */
export function bringPagesAhead(arena: Arena): number {
  const lacking = AHEAD_BYTES - arena.aheadBytes;
  const bytes = Math.min(Math.max(lacking / TURNS_TO_FILL, TURN_BYTES_MIN), TURN_BYTES_MAX);
  return arena.touchAhead(AHEAD_BYTES, Math.floor(bytes / PAGE_BYTES)) * PAGE_BYTES;
}
