// epoch-end — how workers that make every step together leave an epoch, also when one of them dies over the very word that it is over: then some have heard it and some
// have not. Those who have wait for the others in a meeting, and regroup with them when the circle breaks.
//
//   agreed that it is over ──► meeting ── held ──► the next epoch
//                                 │ the circle breaks ──► regroup, while the meeting goes on ── held ──► the next epoch
//                                 └──────────────────────────────────────────────────────────── not ──► agree once more
//
// Invariants:
//   E1. Nobody leaves an epoch before everybody who lives has heard that it is over: who has not finds the others in the meeting, and they regroup with it.
//   E2. Nobody waits in a regrouping for one that has left the epoch. That one left because the meeting was held, and held it is for whoever asks.

import type { EpochRendezvous } from "./epoch-rendezvous.ts";

export type EpochEnd = {
  readonly meeting: Pick<EpochRendezvous, "isHeld">;
  /** A member is gone: nothing goes on among the workers before they regroup. */
  readonly isBroken: () => boolean;
  readonly regroup: (signal: AbortSignal) => Promise<void>;
};

/** Whether the epoch is over for everybody; if not, the circle has regrouped, and its members have to agree once more. */
export async function leaveEpoch({ meeting, isBroken, regroup }: EpochEnd): Promise<boolean> {
  while (!(await meeting.isHeld())) {
    if (!isBroken()) continue;
    const stop = new AbortController();
    let isRegrouping = true;
    const regrouped = regroup(stop.signal).finally(() => {
      isRegrouping = false;
    });
    regrouped.catch(() => {}); // it is awaited below
    while (isRegrouping) {
      if (!(await meeting.isHeld())) continue;
      stop.abort();
      await regrouped.catch(() => {}); // the next epoch begins with it (E2)
      return true;
    }
    await regrouped;
    return await meeting.isHeld(); // asked after it: whoever has left the epoch before did so because it was (E2)
  }
  return true;
}
