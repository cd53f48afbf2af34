// checkpoint-series — a checkpoint every so many clocks of a job, from one of its workers, until that one leaves.

import { isWeighbridgeError, reasonOf } from "../base/errors.ts";
import type { Session } from "./session.ts";

/** What fails at once would be asked for again and again. */
const PAUSE_MS = 1000;

/**
 * Asks for every checkpoint before its clock comes: servers cut when the slowest worker has ended the clocks before it.
 * One that fails is logged, and the next one is taken a second later at the earliest; if servers have no place for any,
 * none is. Resolves once `isOver` says so, or the session has closed.
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
