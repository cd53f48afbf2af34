// unsettled-pushes — updates of a cache that had left for a server when it was taken for dead. Whether the server has
// them is known when it is heard of again (Call.K4); until then they are neither pending nor acknowledged. Not
// the pushing.
//
// Invariants:
//   UnsettledPushes.D1. What the server has is never pushed again; what it has not is pending again.
//   UnsettledPushes.D2. What nobody can say of is not pushed again, and told once.

import { WeighbridgeError } from "../../base/errors.ts";
import type { CallFate } from "../../peer/call.ts";
import type { ArenaSpans } from "../arena-spans.ts";
import type { PendingUpdates, TakenUpdates } from "./pending-updates.ts";

/** Rows of one push. */
export type UnsettledPush = TakenUpdates & { readonly server: number; readonly fate: CallFate };

export class UnsettledPushes {
  #pushes: UnsettledPush[] = [];

  get rowCount(): number {
    return this.#pushes.reduce((count, { keys }) => count + keys.length, 0);
  }

  /** The servers that are to be heard of. */
  get servers(): readonly number[] {
    return [...new Set(this.#pushes.map(({ server }) => server))];
  }

  hold(push: UnsettledPush): void {
    this.#pushes.push(push);
  }

  /**
   * Settles what is known (UnsettledPushes.D1); returns how many rows are pending again. Throws LINK_LOST
   * (UnsettledPushes.D2), ARENA_FULL.
   */
  settle(pending: Pick<PendingUpdates, "putBack">, memory: ArenaSpans): number {
    let count = 0;
    let unknown: UnsettledPush | undefined;
    const known = this.#pushes.filter(({ fate }) => fate.outcome !== "open");
    for (const push of known) {
      if (push.fate.outcome === "dropped") count += pending.putBack(push, memory);
      if (push.fate.outcome === "unknown") unknown = push;
      this.#pushes = this.#pushes.filter((other) => other !== push);
    }
    if (unknown === undefined) return count;
    const what = `updates of ${unknown.keys.length} rows had left for server ${unknown.server} when it was taken for dead`;
    throw new WeighbridgeError(
      "LINK_LOST",
      `${what}; it cannot say any more whether it has them: they may have been applied, and are not sent again`,
      { outcome: "unknown" },
    );
  }

  /** Why not all updates are on the servers. */
  get error(): WeighbridgeError {
    const servers = this.servers.join(", ");
    const what = `updates of ${this.rowCount} rows had left for server ${servers} when it was taken for dead`;
    const message = `${what}; whether it has them is known when it is back`;
    return new WeighbridgeError("NODE_DEAD", message, { retryable: true, outcome: "unknown" });
  }
}
