// clock-alignment — brings the clocks of all workers together, at the end of an epoch: a worker that had nothing to do may have ended more or fewer of them than others,
// and rounds of the next epoch have to be of one batch again. The highest wins, as no clock goes back.

import type { Session } from "../api/session.ts";
import type { WaitOptions } from "../base/deferred.ts";

const NAME = "training.clocks";
/** Float32 counts exactly up to here. */
const CLOCK_MAX = 2 ** 24;
/** How long a worker waits before it asks again. */
const IDLE_MS = 1000;

/** Which meeting of which training: no two are the same. */
export type Meeting = { readonly name: string; readonly epoch: number };

/** Every worker calls it. */
export async function alignClocks(session: Session, meeting: Meeting, wait: WaitOptions): Promise<void> {
  if (session.workerCount === 1 || session.clocks >= CLOCK_MAX) return;
  const highest = await session.tensor(NAME, { shape: [1], optimizer: { type: "max" }, consistency: "asp" }, wait);
  await highest.push(Float32Array.of(session.clocks), wait);
  await meet(session, meeting, wait);
  const [clocks = 0] = await highest.pull(undefined, wait);
  while (session.clocks < clocks) session.clock();
}

/**
 * Waits for those who live, as a barrier does for all: every worker has one unit, its presence, and it is over when all of them are done. Units of the dead are
 * dealt to the others, so that nobody waits for them.
 */
async function meet(session: Session, { name, epoch }: Meeting, wait: WaitOptions): Promise<void> {
  const options = { epoch, batchCount: 1, partCount: session.workerCount, assignment: "even", idleMs: IDLE_MS } as const;
  const feed = await session.units(`${name}.meeting`, options, wait);
  try {
    for (let unit = await feed.next(wait); unit !== "over"; unit = await feed.next(wait)) if (unit !== "idle") feed.done(unit.unit);
  } finally {
    await feed.close();
  }
}
