// pages-ahead — keeps memory ready for growing tables: between calls it touches the pages of their next rows and index,
// so that calls do not wait for the system. Not a thread and not a timer: the server calls it in idle turns.
//
// All memory of a table comes from the arena's frontier: slabs of rows, chunks, segments and directories. So one number
// serves all: how far touched pages reach beyond the frontier, and how much that lacks of AHEAD_BYTES.
//
// Invariants:
//   PagesAhead.P1. A turn touches at most TURN_BYTES_MAX, one large page of the system: a turn waits for one at most.
//   PagesAhead.P2. A turn touches a quarter of what is lacking, at least TURN_BYTES_MIN. Calls that allocate no more
//       than that between two turns find their pages; beyond it they use up AHEAD_BYTES.
//   PagesAhead.P3. It touches memory only within AHEAD_BYTES of the frontier: a table costs that much beyond its bytes.

import type { Arena } from "../kernel/arena.ts";

/** The arena's pages; the system may have larger ones. */
const PAGE_BYTES = 4_096;
export const LARGE_PAGE_BYTES: number = 2 * 2 ** 20;
export const AHEAD_BYTES: number = 4 * LARGE_PAGE_BYTES;
export const TURN_BYTES_MIN: number = 64 * PAGE_BYTES;
export const TURN_BYTES_MAX: number = LARGE_PAGE_BYTES;
const TURNS_TO_FILL = 4;

/**
 * One turn (PagesAhead.P1, PagesAhead.P2). Returns the bytes that it touched; 0 if all of AHEAD_BYTES is there or the
 * arena ends.
 */
export function bringPagesAhead(arena: Arena): number {
  const lacking = AHEAD_BYTES - arena.aheadBytes;
  const bytes = Math.min(Math.max(lacking / TURNS_TO_FILL, TURN_BYTES_MIN), TURN_BYTES_MAX);
  return arena.touchAhead(AHEAD_BYTES, Math.floor(bytes / PAGE_BYTES)) * PAGE_BYTES;
}
