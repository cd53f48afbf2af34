// dead-node-wait — how long nodes that are done wait for dead ones, which may be restarted and come to the last
// barrier.
//
//   somebody works ──► all who live are done, and some are dead ──► for `startTimeoutMs`: the job ends with NODE_DEAD
//          ▲                     │ one came back, or is not done after all
//          └─────────────────────┘
//
// Invariants:
//   DeadNodeWait.W1. As long as a live node is not done, the dead may come back: the time begins when the last one is
//       done.
//   DeadNodeWait.W2. A caller that knows the dead will not come back may report it earlier: they then count as having
//       left.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { deadNodes, type RosterView } from "../wire/roster.ts";

export type DeadNodeWaitOptions = {
  readonly clock: Clock;
  readonly startTimeoutMs: number;
  /** Called with every change: the dead that the others wait for alone, and how to give them up (DeadNodeWait.W2). */
  readonly onOnlyDead?: ((names: readonly string[], dismiss: () => void) => void) | undefined;
  readonly dismiss: () => void;
  readonly giveUp: (error: WeighbridgeError) => void;
};

export class DeadNodeWait {
  readonly #options: DeadNodeWaitOptions;
  #cancelTimer: CancelTimer | undefined;
  /** The dead that are waited for now. */
  #names: readonly string[] = [];

  constructor(options: DeadNodeWaitOptions) {
    this.#options = options;
  }

  /** Nodes have come, died, or are done: `leaving` wait at the last barrier, the scheduler among them. */
  review(roster: RosterView, leaving: ReadonlySet<number>): void {
    const { clock, startTimeoutMs, onOnlyDead, dismiss } = this.#options;
    this.#names = deadNodes(roster).map(nameOf);
    const isDone = leaving.has(SCHEDULER_ID) && roster.nodes.every(({ node, state }) => state !== "alive" || leaving.has(node));
    if (this.#names.length === 0 || !isDone) {
      this.close();
      return;
    }
    this.#cancelTimer ??= clock.after(startTimeoutMs, () => this.#giveUp()); // DeadNodeWait.W1
    onOnlyDead?.(this.#names, dismiss);
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #giveUp(): void {
    const { startTimeoutMs, giveUp } = this.#options;
    const text = `${this.#names.join(", ")} died and did not come back within ${startTimeoutMs} ms after everybody else was done`;
    giveUp(new WeighbridgeError("NODE_DEAD", text, { retryable: true }));
  }
}
