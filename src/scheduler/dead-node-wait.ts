// dead-node-wait — how long nodes that are done wait for dead ones, which may be restarted and come to the last
// barrier.
//
//   somebody works ──► all who live are done, and one is dead for `startTimeoutMs` ──► the job ends with NODE_DEAD
//          ▲                     │ one came back, or is not done after all
//          └─────────────────────┘
//
// Invariants:
//   DeadNodeWait.W1. As long as a live node is not done, the dead may come back, however long they are dead. Then one
//       has as long as a start may take, since it died: nobody waits for one that is dead for longer.
//   DeadNodeWait.W2. A caller that knows the dead will not come back may report it earlier: they then count as having
//       left.
//   DeadNodeWait.W3. A worker whose process has ended with an error, by its own word, is not waited for.

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
  /** Since when nodes are dead, by number, as far as this scheduler knows. */
  #diedAtMs: ReadonlyMap<number, number> = new Map();
  /** The exit codes of workers that are dead for good, by number (DeadNodeWait.W3). */
  readonly #exitCodes = new Map<number, number>();

  constructor(options: DeadNodeWaitOptions) {
    this.#options = options;
  }

  /** The process of this worker ends with an error; it is about to be dead. */
  ended(node: number, exitCode: number): void {
    this.#exitCodes.set(node, exitCode);
  }

  /** Nodes have come, died, or are done: `leaving` wait at the last barrier, the scheduler among them. */
  review(roster: RosterView, leaving: ReadonlySet<number>): void {
    const { clock, startTimeoutMs, onOnlyDead, dismiss } = this.#options;
    const nowMs = clock.nowMs();
    this.#diedAtMs = new Map(deadNodes(roster).map((node) => [node, this.#diedAtMs.get(node) ?? nowMs]));
    // one that came back is waited for again
    for (const node of this.#exitCodes.keys()) if (!this.#diedAtMs.has(node)) this.#exitCodes.delete(node);
    const isDone = leaving.has(SCHEDULER_ID) && roster.nodes.every(({ node, state }) => state !== "alive" || leaving.has(node));
    this.close();
    if (this.#diedAtMs.size === 0 || !isDone) return;
    // DeadNodeWait.W3
    const dueMs = this.#exitCodes.size > 0 ? nowMs : Math.min(...this.#diedAtMs.values()) + startTimeoutMs;
    this.#cancelTimer = clock.after(Math.max(0, dueMs - nowMs), () => this.#giveUp()); // DeadNodeWait.W1
    onOnlyDead?.([...this.#diedAtMs.keys()].map(nameOf), dismiss);
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #giveUp(): void {
    const { clock, startTimeoutMs, giveUp } = this.#options;
    const [ended] = this.#exitCodes;
    if (ended !== undefined) {
      const [node, exitCode] = ended;
      const why = `${nameOf(node)} died: its process ended with exit code ${exitCode}, without session.close()`;
      giveUp(new WeighbridgeError("NODE_DEAD", `everybody else is done, and ${why}`, { retryable: true }));
      return;
    }
    // It is overdue, though the timer may have come a moment early.
    const firstMs = Math.min(...this.#diedAtMs.values());
    const lastMs = Math.max(firstMs, clock.nowMs() - startTimeoutMs);
    const names = [...this.#diedAtMs].flatMap(([node, diedAtMs]) => (diedAtMs <= lastMs ? nameOf(node) : [])).join(", ");
    const text = `everybody else is done, and ${names} died and did not come back within ${startTimeoutMs} ms`;
    giveUp(new WeighbridgeError("NODE_DEAD", text, { retryable: true }));
  }
}
