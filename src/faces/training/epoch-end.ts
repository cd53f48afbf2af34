// epoch-end — how workers end an epoch together. They meet at a rendezvous of the training's name whose generation is
// the epoch, each with its clock. Then `alignClocks` brings all clocks to the highest one: a worker without data may
// have ended more or fewer of them, and the rounds of the next epoch must be of one batch again. Workers that make
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
//   EpochEnd.E2. No worker waits in a regrouping for one that has left the epoch: that one left because the rendezvous was
//                held, and every look that begins later finds it held.
//   EpochEnd.A1. All workers read the same clocks.
//   EpochEnd.A2. A rendezvous ends when all live workers are there, or with DEADLINE and the missing ranks.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { RendezvousReply, RendezvousValue } from "../../wire/rendezvous.ts";

export type EpochEnd = {
  readonly rendezvous: Pick<EpochRendezvous, "isHeld">;
  /** A member is gone: the workers cannot go on before they regroup. */
  readonly isBroken: () => boolean;
  readonly regroup: (signal: AbortSignal) => Promise<void>;
};

/**
 * True if the epoch is over for all workers; false if the group has regrouped, and its members have to agree once more.
 */
export async function leaveEpoch({ rendezvous, isBroken, regroup }: EpochEnd): Promise<boolean> {
  while (!(await rendezvous.isHeld())) {
    if (!isBroken()) continue;
    const stop = new AbortController();
    let isRegrouping = true;
    const regrouped = regroup(stop.signal).finally(() => {
      isRegrouping = false;
    });
    regrouped.catch(() => {}); // it is awaited below
    while (isRegrouping) {
      if (!(await rendezvous.isHeld())) continue;
      stop.abort();
      await regrouped.catch(() => {}); // the next epoch begins with it (E2)
      return true;
    }
    await regrouped;
    return await rendezvous.isHeld(); // a look that begins after the regrouping (E2)
  }
  return true;
}

/** How long a worker waits before it looks again. */
const IDLE_MS = 1000;

/** The rendezvous of one epoch of one training. */
export type EpochRendezvousName = { readonly name: string; readonly epoch: number };

export class EpochRendezvous {
  readonly #session: Session;
  readonly #name: EpochRendezvousName;
  readonly #wait: WaitOptions;
  readonly #idleMs: number;
  readonly #until: number;
  /** This worker's clock, which does not move while it waits. */
  readonly #clock: string;
  #values: readonly RendezvousValue[] | undefined;

  /** This worker comes with the first look. `idleMs`: how long a look waits for the others. */
  constructor(session: Session, name: EpochRendezvousName, wait: WaitOptions, idleMs: number = IDLE_MS) {
    const { deadlineMs = Infinity } = wait;
    this.#session = session;
    this.#name = name;
    this.#wait = wait;
    this.#idleMs = Math.min(idleMs, deadlineMs / 4);
    this.#until = performance.now() + deadlineMs;
    this.#clock = String(session.clocks);
  }

  /** Whether all live workers have come; waits `idleMs` for them. Rejects with DEADLINE (EpochEnd.A2). */
  async isHeld(): Promise<boolean> {
    const { values, missing = [] } = await this.#look();
    this.#values = values;
    if (values !== undefined) return true;
    if (performance.now() < this.#until) return false;
    throw this.#missed(missing);
  }

  /** The highest clock of all workers, once the rendezvous was held. */
  highestClock(): number {
    return (this.#values ?? []).reduce((most, { value }) => Math.max(most, Number(value)), 0);
  }

  async #look(): Promise<RendezvousReply> {
    const { name, epoch } = this.#name;
    const options = { generation: epoch, value: this.#clock };
    try {
      return await this.#session.rendezvous.look(`${name}.epoch`, options, { ...this.#wait, waitMs: this.#idleMs });
    } catch (thrown) {
      throw isWeighbridgeError(thrown, "DEADLINE") ? this.#missed([]) : thrown;
    }
  }

  #missed(missing: readonly number[]): WeighbridgeError {
    const { name, epoch } = this.#name;
    const whom = missing.length === 0 ? "the scheduler" : `worker${missing.length > 1 ? "s" : ""} ${missing.join(", ")}`;
    const message = `waited ${this.#wait.deadlineMs} ms at the end of epoch ${epoch + 1} of "${name}" for ${whom}`;
    return new WeighbridgeError("DEADLINE", message, { retryable: true });
  }
}

/** Every worker calls it. Rejects with DEADLINE if a live worker does not come. */
export async function alignClocks(session: Session, name: EpochRendezvousName, wait: WaitOptions): Promise<void> {
  if (session.workerCount === 1) return;
  const rendezvous = new EpochRendezvous(session, name, wait);
  while (!(await rendezvous.isHeld()));
  const highest = rendezvous.highestClock();
  while (session.clocks < highest) session.clock();
}
