// server-probe — when the link of a server is closed: finds out whether its process is gone, so that no node waits in
// vain for a new link (docs/decisions/0077). What follows is decided elsewhere: a standby takes over (chains.ts), or
// the server is dead (rank-slot.ts).
//
//   link closed ──► connect to the server's address ── refused: nothing listens there ──► it is told
//                            ▲        ├─ somebody answers ── a little later ─┐
//                            │        └─ no answer ─────── a second later ───┤
//                            └───────────────────────────────────────────────┘ until it is heard of, replaced or dead
//
// Invariants:
//   ServerProbe.H1. Only a refusal counts: its machine has answered. One that is silent may be cut off.

import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Address, LinkReader, Transport } from "../transport/transport.ts";
import type { Decision } from "./roster-decision.ts";

/** A process that ends closes its sockets one after the other. */
const EVERY_MS = 5;
/** A process that takes longer lives, as far as can be seen. */
const OFTEN_COUNT = 10;
const LATER_EVERY_MS = 100;
const DEADLINE_MS = 50;
/** Of a machine that does not answer. */
const SILENT_EVERY_MS = 1000;
/** Whatever it is sent, it reads nothing. */
const DEAF: LinkReader = { view: () => new Uint8Array(64), received: () => {}, closed: () => {} };

export type ServerProbeOptions<T> = {
  /** Left out, no server is looked for. */
  readonly transport?: Pick<Transport, "connect"> | undefined;
  readonly clock: Clock;
  readonly roster: {
    /** Where the node listened, while its link is closed and that may mean its death; undefined otherwise. */
    lostServer(node: number, incarnation: number, nowMs: number): Address | undefined;
    /** Nothing listens there any more. */
    serverGone(node: number, incarnation: number, nowMs: number): readonly Decision<T>[];
  };
  readonly carryOut: (decisions: readonly Decision<T>[]) => void;
};

export class ServerProbe<T> {
  readonly #options: ServerProbeOptions<T>;
  #isClosed = false;
  /** By node and incarnation. */
  readonly #sought = new Set<string>();

  constructor(options: ServerProbeOptions<T>) {
    this.#options = options;
  }

  /** Looks for nobody any more. */
  close(): void {
    this.#isClosed = true;
  }

  /** The link of this node is closed. */
  lost(node: number, incarnation: number): void {
    const name = `${node}/${incarnation}`;
    if (this.#sought.has(name)) return;
    this.#sought.add(name);
    this.#look(node, incarnation, 1, () => this.#sought.delete(name));
  }

  #look(node: number, incarnation: number, tries: number, end: () => void): void {
    const { transport, clock, roster, carryOut } = this.#options;
    const address = this.#isClosed ? undefined : roster.lostServer(node, incarnation, clock.nowMs());
    if (transport === undefined || address === undefined) {
      end();
      return;
    }
    const again = (afterMs: number): void => void clock.after(afterMs, () => this.#look(node, incarnation, tries + 1, end));
    transport
      .connect(address, () => DEAF, { timeoutMs: DEADLINE_MS })
      .then(
        (link) => {
          link.destroy();
          again(tries < OFTEN_COUNT ? EVERY_MS : LATER_EVERY_MS);
        },
        (thrown: unknown) => {
          if (!isRefusal(thrown)) {
            again(SILENT_EVERY_MS); // ServerProbe.H1
            return;
          }
          end();
          if (this.#isClosed) return;
          const nowMs = clock.nowMs();
          if (roster.lostServer(node, incarnation, nowMs) !== undefined) carryOut(roster.serverGone(node, incarnation, nowMs));
        },
      );
  }
}

function isRefusal(thrown: unknown): boolean {
  return isWeighbridgeError(thrown, "NO_ROUTE") && (thrown.cause as { readonly code?: string } | undefined)?.code === "ECONNREFUSED";
}
