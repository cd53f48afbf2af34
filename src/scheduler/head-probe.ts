// head-probe — when the link of a head is closed that has a standby: finds out whether the process is gone, so that
// nobody waits in vain for a new link (docs/decisions/0077). Who takes over is decided elsewhere (chains.ts).
//
//   link closed ──► connect to the head's address ── refused: nothing listens there ──► the head is replaced at once
//                            ▲        └─ somebody answers ── EVERY_MS later ─┐
//                            └──────────────────────────────────────────────┘ until it is heard of, or is replaced
//
// Invariants:
//   HeadProbe.H1. Only a refusal counts: its machine has answered. One that is silent may be cut off.

import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Address, LinkReader, Transport } from "../transport/transport.ts";
import type { Decision } from "./roster-decision.ts";

/** A process that ends closes its sockets one after the other. */
const EVERY_MS = 5;
const DEADLINE_MS = 50;
/** Whatever it is sent, it reads nothing. */
const DEAF: LinkReader = { view: () => new Uint8Array(64), received: () => {}, closed: () => {} };

export type HeadProbeOptions<T> = {
  /** Left out, no head is looked for. */
  readonly transport?: Pick<Transport, "connect"> | undefined;
  readonly clock: Clock;
  readonly roster: {
    /** Where the node listened, while its link is closed and a standby could take over; undefined otherwise. */
    lostHead(node: number, incarnation: number): Address | undefined;
    /** Nothing listens there any more. */
    headGone(node: number, incarnation: number, nowMs: number): readonly Decision<T>[];
  };
  readonly carryOut: (decisions: readonly Decision<T>[]) => void;
};

export class HeadProbe<T> {
  readonly #options: HeadProbeOptions<T>;
  #isClosed = false;

  constructor(options: HeadProbeOptions<T>) {
    this.#options = options;
  }

  /** Looks for nobody any more. */
  close(): void {
    this.#isClosed = true;
  }

  /** The link of this node is closed. */
  lost(node: number, incarnation: number): void {
    const { transport, clock, roster, carryOut } = this.#options;
    const address = this.#isClosed ? undefined : roster.lostHead(node, incarnation);
    if (transport === undefined || address === undefined) return;
    transport
      .connect(address, () => DEAF, { deadlineMs: DEADLINE_MS })
      .then(
        (link) => {
          link.destroy();
          clock.after(EVERY_MS, () => this.lost(node, incarnation));
        },
        (thrown: unknown) => {
          if (!isRefusal(thrown) || this.#isClosed) return; // HeadProbe.H1
          if (roster.lostHead(node, incarnation) !== undefined) carryOut(roster.headGone(node, incarnation, clock.nowMs()));
        },
      );
  }
}

function isRefusal(thrown: unknown): boolean {
  return isWeighbridgeError(thrown, "NO_ROUTE") && (thrown.cause as { readonly code?: string } | undefined)?.code === "ECONNREFUSED";
}
