// farewell — the workers of a job leave together, after one of them has told what the job came to. Whoever left before would have ended well while the job
// may still fail.
//
// Invariants:
//   F1. The word is given by whoever holds the first unit, once; when that worker dies over it, the one that is lent the unit next gives it.
//   F2. Nobody leaves before it is given. Who gives it lives, or is known to be dead, and all that it waits for has deadlines: so has this.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";

/** How long a worker waits before it asks again. */
const IDLE_MS = 1000;

/** Every worker calls it. Throws what `tell` throws at the worker that calls it. */
export async function farewell(
  session: Pick<Session, "units" | "workerCount">,
  tell: () => Promise<void>,
  wait: WaitOptions,
): Promise<void> {
  const presence = { epoch: 0, batchCount: 1, partCount: session.workerCount, assignment: "even", idleMs: IDLE_MS } as const;
  const feed = await session.units("farewell", presence, wait);
  try {
    for (let unit = await feed.next(wait); unit !== "over"; unit = await feed.next(wait)) {
      if (unit === "idle") continue;
      if (unit.part === 0) await tell(); // F1
      feed.done(unit.unit);
    }
  } finally {
    await feed.close();
  }
}
