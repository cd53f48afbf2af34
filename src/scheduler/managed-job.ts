// managed-job — what people see of a job, and what they may ask of it, beside our own protocol: the scheduler's HTTP
// server (node/manage-server.ts). Not what is decided (scaling-service.ts).
//
// Invariants:
//   ManagedJob.M1. As every answer of the scheduler (Scheduler.D5), one leaves when all that was decided before it is
//       durable. So do refusals, and what is only looked at.
//   ManagedJob.M2. Every call ends: with the reason if the store is lost or the scheduler is closed, and with DEADLINE
//       if the store has not written for DURABLE_MS what the call has changed or seen.

import type { Clock } from "../base/clock.ts";
import { waitFor } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import type { StatusReply } from "../wire/control.ts";
import type { RollBackReply, ScalingDirection, ScalingReport } from "../wire/scaling.ts";
import type { JobChange } from "./known-requests.ts";
import type { ScalingService } from "./scaling-service.ts";
import type { StateJournal } from "./state-journal.ts";

/** A full disk may have room again within a moment; who asks waits no longer than for a tool's answer. */
const DURABLE_MS = 10_000;

export type ManagedJob = {
  status(): Promise<StatusReply>;
  scalingReport(): Promise<ScalingReport>;
  /** Changes the numbers of servers and workers. Throws as ScalingService.change. */
  change(change: JobChange): Promise<number | undefined>;
  /** Takes back what is under way of servers and workers. Throws as ScalingService.rollBack. */
  rollBack(direction?: ScalingDirection): Promise<RollBackReply>;
};

export type JournaledJobOptions = {
  readonly clock: Clock;
  readonly journal: StateJournal;
  readonly scaling: ScalingService;
  readonly status: () => StatusReply;
};

export class JournaledJob implements ManagedJob {
  readonly #options: JournaledJobOptions;
  readonly #closing = new AbortController();

  constructor(options: JournaledJobOptions) {
    this.#options = options;
  }

  async status(): Promise<StatusReply> {
    return await this.#answer(() => this.#options.status());
  }

  async scalingReport(): Promise<ScalingReport> {
    return await this.#answer(() => this.#options.scaling.report());
  }

  async change(change: JobChange): Promise<number | undefined> {
    return await this.#answer(() => this.#options.scaling.change(change));
  }

  async rollBack(direction?: ScalingDirection): Promise<RollBackReply> {
    return await this.#answer(() => this.#options.scaling.rollBack(direction));
  }

  /** Ends what is open, and whatever is asked later, with this error (ManagedJob.M2). */
  close(error: WeighbridgeError): void {
    this.#closing.abort(error);
  }

  async #answer<T>(act: () => T | Promise<T>): Promise<T> {
    const { signal } = this.#closing;
    signal.throwIfAborted();
    try {
      return await waitFor(this.#durably(act), "the scheduler", this.#options.clock, { signal });
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    }
  }

  /** ManagedJob.M1 */
  async #durably<T>(act: () => T | Promise<T>): Promise<T> {
    const answer = (async () => await act())();
    answer.catch(() => {}); // it is waited for below
    await this.#written(); // what goes on for longer may wait for that itself
    return await answer.finally(() => this.#written());
  }

  async #written(): Promise<void> {
    const { clock, journal } = this.#options;
    const durable = journal.whenDurable();
    const what = `the scheduler's state to be written to ${journal.location}: what was asked for counts once it is`;
    const { signal } = this.#closing; // otherwise the timer keeps the process of a scheduler that has ended
    if (durable !== undefined) await waitFor(durable, what, clock, { timeoutMs: DURABLE_MS, signal });
  }
}
