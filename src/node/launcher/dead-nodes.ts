// dead-nodes — what the node of the scheduler tells the rest of its process about dead nodes, for a launcher that may have started them. By name through
// Node's own channels, so that a launched process hears of it when its script has loaded another copy of the package.

import { channel, subscribe } from "node:diagnostics_channel";
import { nameOf } from "../../wire/node-id.ts";
import type { RosterView } from "../../wire/roster.ts";

const CHANNEL = "weighbridge:dead-nodes";

export type DeadNodes = {
  /** All that are dead now: "worker 1". */
  readonly names: readonly string[];
  /** Set when nobody else is at work any more: tells the scheduler that they will not come back, so that the others may leave. */
  readonly dismiss?: (() => void) | undefined;
};

/** What the scheduler has decided. */
export function publishRoster({ nodes }: RosterView): void {
  publishDeadNodes({ names: nodes.filter(({ state }) => state === "dead").map(({ node }) => nameOf(node)) });
}

export function publishDeadNodes(dead: DeadNodes): void {
  channel(CHANNEL).publish(dead);
}

export function onDeadNodes(take: (dead: DeadNodes) => void): void {
  subscribe(CHANNEL, (message) => take(message as DeadNodes)); // Published above, maybe by another copy of it.
}
