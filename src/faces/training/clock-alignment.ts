// clock-alignment — brings the clocks of all workers together, at the end of an epoch: a worker that had nothing to do may have ended more or fewer of them than others,
// and rounds of the next epoch have to be of one batch again. The highest wins, as no clock goes back.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { EpochRendezvous, type EpochRendezvousName } from "./epoch-rendezvous.ts";

/** Every worker calls it. Rejects with DEADLINE when somebody who lives does not come. */
export async function alignClocks(session: Session, name: EpochRendezvousName, wait: WaitOptions): Promise<void> {
  if (session.workerCount === 1) return;
  const meeting = new EpochRendezvous(session, name, wait);
  while (!(await meeting.isHeld()));
  const highest = meeting.highestClock();
  while (session.clocks < highest) session.clock();
}
