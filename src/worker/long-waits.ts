// long-waits — tells the log of a worker what it waits for when a wait for clocks lasts long. Servers know, and say it
// of reads (contracts/long-waits.ts; ParkingLot.P5). Of checkpoints they are asked (api/checkpoint-calls.ts). What a
// rendezvous waits for is in the scheduler's answers (rendezvous-client.ts).
//
// Invariants:
//   LongWaits.W1. One line a wait: servers that say the same are one.
//   LongWaits.W2. One line a minute for the same awaited nodes: long steps of a worker do not fill the log.

import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Membership } from "../cluster/membership.ts";
import { clockAwaited } from "../contracts/long-waits.ts";
import type { Peer } from "../peer/peer.ts";
import { servedFunction } from "../peer/served-function.ts";
import { nameOf } from "../wire/node-id.ts";

/** LongWaits.W2 */
const AGAIN_MS = 60_000;

type LongWaitsGround = { readonly peer: Peer; readonly membership: Membership; readonly clock: Clock; readonly log: Log };

export class LongWaits {
  readonly #node: () => string;
  readonly #clock: Clock;
  readonly #log: Log;
  /** Why this worker itself stands where it does, where its process knows more; "" otherwise. */
  describeOwn: () => string = () => "";
  /** LongWaits.W1 */
  #told = "";
  /** When it was told, by the names of those that were awaited (LongWaits.W2). */
  readonly #toldAtMs = new Map<string, number>();

  constructor({ peer, membership, clock, log }: LongWaitsGround) {
    this.#clock = clock;
    this.#node = () => nameOf(membership.node);
    this.#log = log;
    const handler = (_: unknown, { waits }: { readonly waits: string }): Record<never, never> => {
      this.tell(waits);
      return {};
    };
    peer.serve(servedFunction(clockAwaited, { handler }));
  }

  /** LongWaits.W1, LongWaits.W2 */
  tell(waits: string, what = "a wait for clocks"): void {
    if (waits === this.#told) return;
    const awaited = [...new Set(waits.match(/\bworker \d+\b/g))].sort().join();
    const nowMs = this.#clock.nowMs();
    for (const [names, toldAtMs] of this.#toldAtMs) if (toldAtMs + AGAIN_MS <= nowMs) this.#toldAtMs.delete(names);
    if (this.#toldAtMs.has(awaited)) return;
    this.#told = waits;
    this.#toldAtMs.set(awaited, nowMs);
    const own = new RegExp(`\\b${this.#node()}\\b`).test(waits) ? this.describeOwn() : "";
    this.#log.warn(`${what} lasts longer than 5 s: ${waits}${own === "" ? "" : `; ${own}`}`);
  }
}
