// stop-bounds — how long a server that ends waits for others, each bound in this place. What ends processes waits, too:
// a launcher for GRACE_MS (node/launcher), the scheduler for servers that are to leave (scheduler/scaling.ts), a
// container for ten seconds by default. stop-bounds.test.ts checks how they relate.
//
//   for whom                                                       how long
//   the scheduler, when nothing is lost without its word           LET_GO_MS
//   clients that have calls open at a server without parts         PART_MS
//   a scheduler that is away, when state depends on it             SCHEDULER_BACK_MS
//   a disk, a standby that is filled, the server that saves        SAVE_MS

import { LEAVE_DEADLINE_MS } from "../cluster/member-node.ts";

/** How long a copy that is stopped waits for the scheduler: less than a container or a launcher waits. */
export const LET_GO_MS: number = LEAVE_DEADLINE_MS;

/** Longer than a guest may be silent by default; shorter than the scheduler waits for servers to leave. */
export const PART_MS = 8000;

/**
 * As long as a scheduler takes to come back: for its word that a server returns, that a standby leads, and that a
 * server may begin which is to leave again.
 */
export const SCHEDULER_BACK_MS = 10_000;

/** What ends processes decides how long it waits: this only keeps a disk that says nothing from holding a server. */
export const SAVE_MS = 600_000;
