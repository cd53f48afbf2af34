// last-barrier — where all nodes meet before they leave, so that servers stay until the last worker is done. Unlike other barriers it outlives deaths: who
// died may be restarted and come to it yet.
//
// Invariants:
//   L1. Only the scheduler gives up on the dead, for everybody: when all who live have been done for `startTimeoutMs`. As long as one still works, the dead
//       may come back.
//       Somebody who knows that they will not may say so earlier: they count as having left then.
//   L2. Whoever else finds somebody dead comes to the barrier again and again: so the scheduler knows that it is done.
//   L3. A server whose scheduler is away stays as long as workers are connected with it: they may train on, and the scheduler may come back.

import type { Clock } from "../base/clock.ts";
import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";

/** What only the scheduler's own node knows of the others. */
export type LastBarrierScheduler = {
  /** Whether a node that lives has not stood at the last barrier for so long: it still has work to do. */
  isSomebodyAtWork(withinMs: number): boolean;
  deadNodes(): readonly number[];
  /** The dead will not come back: they count as having left. */
  dismissDead(): void;
  abort(error: WeighbridgeError): void;
};

export type LastBarrierOptions = {
  readonly clock: Clock;
  readonly startTimeoutMs: number;
  /** On the scheduler's own node. */
  readonly scheduler?: LastBarrierScheduler | undefined;
  /** Stands at the barrier of all nodes once. Rejects with NODE_DEAD while a member is dead. */
  readonly enter: (wait: WaitOptions) => Promise<void>;
  /** Throws why the job is over, if it is. */
  readonly checkAlive: () => void;
  /** On a server: whether workers are connected with it (L3). */
  readonly hasWorkers?: (() => boolean) | undefined;
  /** L1: called, on the scheduler's own node, while all who live are done and wait for the dead alone. */
  readonly onOnlyDead?: ((names: readonly string[], dismiss: () => void) => void) | undefined;
};

/** How often a node that waits asks whether the dead have come back. */
const REVIVAL_CHECK_MS = 200;
/** Who waits has come to the barrier again within this time. */
const LEAVING_MS = 10 * REVIVAL_CHECK_MS;

export class LastBarrier {
  readonly #options: LastBarrierOptions;
  #isWaiting = false;

  constructor(options: LastBarrierOptions) {
    this.#options = options;
  }

  /** While this node waits for the others to be done, what ends the job still concerns it. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Waits until all nodes are done. Throws NODE_DEAD with the names of the dead that nobody started again. */
  async pass(wait: WaitOptions): Promise<void> {
    this.#isWaiting = true;
    try {
      await this.#pass(wait);
    } finally {
      this.#isWaiting = false;
    }
  }

  async #pass(wait: WaitOptions): Promise<void> {
    const { clock, enter, hasWorkers } = this.#options;
    const deadlineAtMs = clock.nowMs() + (wait.deadlineMs ?? Infinity);
    for (;;) {
      const deadlineMs = wait.deadlineMs === undefined ? undefined : Math.max(0, deadlineAtMs - clock.nowMs());
      try {
        await enter({ ...wait, deadlineMs });
        return;
      } catch (thrown) {
        if (isWeighbridgeError(thrown, "SCHEDULER_UNREACHABLE") && hasWorkers !== undefined) {
          if (hasWorkers()) continue; // L3
          throw new WeighbridgeError(thrown.code, `${thrown.message}; no worker is connected either`, { retryable: true, cause: thrown });
        }
        if (!isWeighbridgeError(thrown, "NODE_DEAD")) throw thrown;
        await this.#revival(thrown, { ...wait, deadlineMs });
      }
    }
  }

  /** Waits a while, the scheduler until nobody is dead any more (L1, L2). */
  async #revival(error: WeighbridgeError, wait: WaitOptions): Promise<void> {
    const { clock, scheduler, startTimeoutMs, checkAlive, onOnlyDead } = this.#options;
    let giveUpAtMs = clock.nowMs() + startTimeoutMs;
    do {
      const check = new Promise<void>((resolve) => clock.after(REVIVAL_CHECK_MS, resolve));
      await waitFor(check, "dead nodes to come back", clock, wait);
      checkAlive();
      if (scheduler === undefined) return; // L2
      if (scheduler.isSomebodyAtWork(LEAVING_MS)) giveUpAtMs = clock.nowMs() + startTimeoutMs;
      else onOnlyDead?.(scheduler.deadNodes().map(nameOf), () => scheduler.dismissDead());
      if (clock.nowMs() < giveUpAtMs) continue;
      const dead = scheduler.deadNodes().map(nameOf).join(", ");
      const text = `${dead} died and did not come back within ${startTimeoutMs} ms after everybody else was done`;
      const failure = new WeighbridgeError("NODE_DEAD", text, { retryable: true, cause: error });
      scheduler.abort(failure);
      throw failure;
    } while (scheduler.deadNodes().length > 0);
  }
}
