// last-barrier — a node waits for all others before it leaves, so that servers stay until the last worker is done. It
// is one entry into the barrier of all nodes that outlives deaths: a dead node may be started again and come to it yet.
// The scheduler decides when to give up on the dead (scheduler/dead-node-wait.ts); until then a node says who they are.
//
// Invariants:
//   LastBarrier.L1. A node that was declared dead while it waited, or whose scheduler knows no entries that outlive
//       deaths (ps-lite's), enters again.
//   LastBarrier.L2. A server whose scheduler is away stays while workers are connected: they may train on, and the
//       scheduler may come back.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { restOf, sleep, type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";

export type LastBarrierOptions = {
  readonly clock: Clock;
  readonly log: Log;
  /** The names of nodes that are dead now. */
  readonly dead: () => readonly string[];
  /** Enters the barrier of all nodes. */
  readonly enter: (wait: WaitOptions) => Promise<void>;
  /** Throws why the job is over, if it is. */
  readonly checkAlive: () => void;
  /** On a server: whether workers are connected with it (LastBarrier.L2). */
  readonly hasWorkers?: (() => boolean) | undefined;
};

/** How soon a node enters a barrier again whose entry failed (LastBarrier.L1). */
export const REENTER_MS = 200;
/** How soon, and how often, a node looks whether it waits for dead ones. */
const LOOK_MS = 1000;

export class LastBarrier {
  readonly #options: LastBarrierOptions;
  #isWaiting = false;

  constructor(options: LastBarrierOptions) {
    this.#options = options;
  }

  /** While this node waits for the others to be done, the end of the job still concerns it. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Waits until all nodes are done. Throws why they will not be. */
  async pass(wait: WaitOptions): Promise<void> {
    const { clock } = this.#options;
    const rest = restOf(wait, clock);
    this.#isWaiting = true;
    const stopTelling = this.#tellDead();
    try {
      while (!(await this.#enter(rest()))) {
        await waitFor(sleep(clock, REENTER_MS), "dead nodes to come back", clock, rest()); // LastBarrier.L1
        this.#options.checkAlive();
      }
    } finally {
      stopTelling();
      this.#isWaiting = false;
    }
  }

  /** Logs which dead nodes this one waits for, whenever there are others. Returns how to end that. */
  #tellDead(): CancelTimer {
    const { clock, log, dead } = this.#options;
    let told = "";
    const look = (): void => {
      const nodes = dead().join(", ");
      if (nodes !== "" && nodes !== told) log.warn("the end of the job waits for nodes that are gone, and may be started again", { nodes });
      told = nodes;
      cancel = clock.after(LOOK_MS, look);
    };
    let cancel = clock.after(LOOK_MS, look);
    return () => cancel();
  }

  /** Returns whether all nodes were there; false: to be entered again. */
  async #enter(wait: WaitOptions): Promise<boolean> {
    const { enter, hasWorkers } = this.#options;
    try {
      await enter(wait);
      return true;
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "NODE_DEAD")) return false;
      if (!isWeighbridgeError(thrown, "SCHEDULER_UNREACHABLE") || hasWorkers === undefined) throw thrown;
      if (hasWorkers()) return false; // LastBarrier.L2
      throw new WeighbridgeError(thrown.code, `${thrown.message}; no worker is connected either`, { retryable: true, cause: thrown });
    }
  }
}
