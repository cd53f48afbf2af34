// epoch-rendezvous — the workers of a training wait for each other at the end of an epoch, and tell their clocks: a rendezvous of the training's name, whose
// generation is the epoch.
//
// Invariants:
//   EpochRendezvous.A1. All who meet read the same clocks.
//   EpochRendezvous.A2. A meeting ends: when all who live are there, or with DEADLINE and the ranks of those who are not.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { RendezvousReply, RendezvousValue } from "../../wire/control.ts";

/** How long a worker waits before it looks again. */
const IDLE_MS = 1000;

/** Which meeting of which training: no two are the same. */
export type EpochRendezvousName = { readonly name: string; readonly epoch: number };

export class EpochRendezvous {
  readonly #session: Session;
  readonly #name: EpochRendezvousName;
  readonly #wait: WaitOptions;
  readonly #idleMs: number;
  readonly #until: number;
  /** With which this worker came; its clock does not move while it waits. */
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

  /** Whether all who live have come; waits for them a little. Rejects with DEADLINE (A2). */
  async isHeld(): Promise<boolean> {
    const { values, missing = [] } = await this.#look();
    this.#values = values;
    if (values !== undefined) return true;
    if (performance.now() < this.#until) return false;
    throw this.#missed(missing);
  }

  /** The highest clock that anybody came with. Of a meeting that was held. */
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
