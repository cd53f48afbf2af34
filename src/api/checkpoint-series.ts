// checkpoint-series — one worker of a job takes a checkpoint every so many clocks, until it leaves.

import { isWeighbridgeError, reasonOf } from "../base/errors.ts";
import type { Session } from "./session.ts";

/** Between attempts: one that fails at once would otherwise be repeated without a pause. */
const PAUSE_MS = 1000;

/**
 * Requests every checkpoint before its clock comes: servers cut when the slowest worker has ended the clocks before it.
 * Logs one that fails, and takes the next one a second later at the earliest; stops if servers have no directory for
 * checkpoints. Resolves once `isOver` returns true, or the session has closed.
 */
export async function takeCheckpoints(session: Session, everyClocks: number, isOver: () => boolean): Promise<void> {
  let clock = everyClocks * (1 + Math.floor(session.clocks / everyClocks));
  while (!isOver()) {
    try {
      await session.checkpoint({ clock, step: clock });
    } catch (thrown) {
      if (isOver() || isWeighbridgeError(thrown, "CLOSED")) return;
      session.log.warn("a snapshot was not taken", { clock, reason: reasonOf(thrown) });
      if (isWeighbridgeError(thrown, "UNSUPPORTED")) return;
      await new Promise<void>((resolve) => session.time.after(PAUSE_MS, resolve));
    }
    clock = Math.max(clock + everyClocks, everyClocks * Math.ceil(session.clocks / everyClocks));
  }
}
