// epoch-end — how workers end an epoch together. They meet at a rendezvous of the training's name whose generation is
// the epoch, each with its clock. Then `alignClocks` raises all clocks to the highest one: a worker without data may
// have ended more or fewer of them, and each round of the next epoch must again be of one batch. Workers that make
// every step together use `leaveEpoch`, also when one of them dies while they agree that the epoch is over: then some
// know it and some do not. Those that know wait for the others at the rendezvous, and regroup with them when the group
// breaks.
//
//   agreed that it is over ──► rendezvous ── held ──► the next epoch
//                            │ the group breaks ──► regroup, while the rendezvous goes on ── held ──► the next epoch
//                            └──────────────────────────────────────────────────────────── not ──► agree once more
//
// Invariants:
//   EpochEnd.E1. No worker leaves an epoch before every live worker knows that it is over: those that know regroup with
//                one that does not.
//   EpochEnd.E2. No worker waits in a regrouping for one that has left the epoch: that one left because the rendezvous
//                was held, and every look that begins later finds it held.
//   EpochEnd.A1. All workers read the same clocks.
//   EpochEnd.A2. A rendezvous ends when all live workers are there, or with DEADLINE and the missing ranks.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import type { Rendezvous } from "../../worker/rendezvous-client.ts";

/** How long a worker waits at a rendezvous before it checks whether another one has died. */
const LOOK_MS = 100;

export type EpochEnd = {
  readonly rendezvous: Pick<Rendezvous, "isHeld">;
  /** A member is gone, or one waits to join: the workers cannot continue before they regroup. */
  readonly isBroken: () => boolean;
  readonly regroup: (signal: AbortSignal) => Promise<void>;
};

/**
 * True if the epoch is over for all workers; false if the group has regrouped, and its members have to agree once more.
 */
export async function leaveEpoch({ rendezvous, isBroken, regroup }: EpochEnd): Promise<boolean> {
  while (!(await rendezvous.isHeld(LOOK_MS))) {
    if (!isBroken()) continue;
    const stop = new AbortController();
    let isRegrouping = true;
    const regrouped = regroup(stop.signal).finally(() => {
      isRegrouping = false;
    });
    regrouped.catch(() => {}); // it is awaited below
    while (isRegrouping) {
      if (!(await rendezvous.isHeld(LOOK_MS))) continue;
      stop.abort();
      await regrouped.catch(() => {}); // the next epoch begins with it (EpochEnd.E2)
      return true;
    }
    await regrouped;
    return await rendezvous.isHeld(LOOK_MS); // a look that begins after the regrouping (EpochEnd.E2)
  }
  return true;
}

/** The rendezvous of one epoch of one training. */
export type EpochName = { readonly name: string; readonly epoch: number };

/** Joins with this worker's clock, which does not change while it waits, and its mark. */
export function epochRendezvous(session: Session, { name, epoch }: EpochName, wait: WaitOptions, mark = ""): Rendezvous {
  const options = { generation: epoch, value: `${session.clocks} ${mark}`, ...wait };
  return session.rendezvous.open(`${name}.epoch`, options, `the end of epoch ${epoch + 1} of "${name}"`);
}

/** A worker that came to a rendezvous, and what it came with. */
export type Arrival = { readonly rank: number; readonly mark: string };

/**
 * Every worker calls it. Resolves with those who came, by rank: one that calls it when it was held long ago is not
 * among them. Rejects with DEADLINE if a live worker does not come.
 */
export async function alignClocks(session: Session, { name, epoch }: EpochName, wait: WaitOptions, mark = ""): Promise<Arrival[]> {
  const rendezvous = epochRendezvous(session, { name, epoch }, wait, mark);
  while (!(await rendezvous.isHeld()));
  const came = rendezvous.values.map(({ rank, value }) => ({ rank, clocks: Number.parseInt(value, 10), mark: value.replace(/^\d+ /, "") }));
  const highest = came.reduce((most, { clocks }) => Math.max(most, clocks), 0);
  session.advanceTo(highest);
  return came;
}
