// placement-changes — how the placement of a running job changes: one change at a time; the scheduler prepares all live
// workers and servers, then publishes. Not what a placement is (placement-epochs.ts), nor how the state of a part comes
// to its new owner: that is `move`'s.
//
//   publish ──► PREPARE to every live node ──► all prepared ──► move ──► published with the roster
//                       │                                        └── throws: PREPARE with holdMs 0, nothing published
//                       └── not all within PREPARE_MS, or UNSUPPORTED: PREPARE with holdMs 0, nothing published
//
// Invariants:
//   PlacementChanges.C1. When `move` is called every live worker of the roster is prepared, also one that joined
//       meanwhile: every clock announcement that was sent is answered, and no other one leaves before the placement is
//       adopted. So all servers know the same clocks, and have closed the same rounds.
//   PlacementChanges.C2. Nobody waits for a node that is dead or has left.
//   PlacementChanges.C3. Nodes stay prepared for longer (HOLD_MS) than it may take to prepare all of them and to reach
//       all live servers.
//   PlacementChanges.C4. Every live server is prepared, too: it loads nothing from a checkpoint before the placement is
//       adopted, and holds nothing that an application cut itself if the servers change (Ownership.O4).
//   PlacementChanges.C5. A node that cannot take part (UNSUPPORTED) ends the change; after other failures it is
//       retried.

import type { Clock } from "../base/clock.ts";
import { Deferred, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { PREPARE } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import type { PrepareRequest } from "../wire/control.ts";
import { nameOf } from "../wire/node-id.ts";
import type { PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";
import type { PlacementChange } from "./placement-epochs.ts";

/** How long all nodes together may take. */
const PREPARE_MS = 10_000;
/** How long a node stays prepared when nothing more comes (PlacementChanges.C3). */
const HOLD_MS = 30_000;
/** After a failure a node is called again. */
const ASK_AGAIN_MS = 200;

/** Moves the state of the parts that get another owner. What it throws abandons the change. */
export type PartsMove = (next: PlacementView) => void;

export type PlacementChangesOptions = {
  readonly peer: Pick<Peer, "channel">;
  readonly clock: Clock;
  readonly view: () => RosterView;
  /** Throws BAD_ARGUMENT, NO_ROUTE. */
  readonly next: (change: PlacementChange) => PlacementView;
  readonly tell: (change: PlacementChange) => void;
};

/** One change: which nodes were called and which are prepared, by incarnations, and why it cannot be. */
type Preparation = {
  readonly request: PrepareRequest;
  readonly asked: Set<string>;
  readonly prepared: Set<string>;
  refusal: WeighbridgeError | undefined;
};

export class PlacementChanges {
  readonly #options: PlacementChangesOptions;
  /** The last requested change; the next one comes behind it. */
  #last: Promise<void> = Promise.resolve();
  /** Resolves when a node has answered, or the roster has changed. */
  #news = new Deferred<void>();
  #closed: WeighbridgeError | undefined;

  constructor(options: PlacementChangesOptions) {
    this.#options = options;
  }

  /**
   * Throws BAD_ARGUMENT and NO_ROUTE as the roster does, DEADLINE naming the nodes that are not prepared, UNSUPPORTED
   * (PlacementChanges.C5), and what `move` throws; then nothing was published.
   */
  async publish(change: PlacementChange, move: PartsMove): Promise<void> {
    this.#options.next(change);
    const turn = this.#last.then(() => this.#publish(change, move));
    this.#last = turn.catch(() => {}); // its caller gets it
    await turn;
  }

  /** The roster has changed (PlacementChanges.C2). */
  review(): void {
    this.#news.resolve();
    this.#news = new Deferred();
  }

  close(error: WeighbridgeError): void {
    this.#closed = error;
    this.review();
  }

  async #publish(change: PlacementChange, move: PartsMove): Promise<void> {
    const { clock, next, tell, view } = this.#options;
    const { epoch, servers } = next(change);
    const isAmongSame = String(servers) === String(view().placement?.servers);
    const preparation: Preparation = {
      request: { epoch, holdMs: HOLD_MS, ...(isAmongSame ? {} : { servers }) },
      asked: new Set(),
      prepared: new Set(),
      refusal: undefined,
    };
    const { asked, prepared } = preparation;
    const untilMs = clock.nowMs() + PREPARE_MS;
    try {
      for (;;) {
        if (this.#closed !== undefined) throw this.#closed;
        if (preparation.refusal !== undefined) throw preparation.refusal; // PlacementChanges.C5
        const waiting = this.#liveNodes().filter((node) => !prepared.has(holderOf(node)));
        if (waiting.length === 0) break; // and nothing happens before it is published (PlacementChanges.C1)
        for (const node of waiting) if (!asked.has(holderOf(node))) this.#prepare(node, preparation);
        const names = waiting.map(({ node }) => nameOf(node)).join(", ");
        await waitFor(this.#news.promise, `${names} to prepare for the placement of epoch ${epoch}`, clock, {
          deadlineMs: Math.max(0, untilMs - clock.nowMs()),
        });
      }
      move(next(change));
      tell(change);
    } catch (thrown) {
      // then its hold ends by itself
      for (const node of this.#liveNodes()) if (asked.has(holderOf(node))) this.#ask(node, { epoch, holdMs: 0 }).catch(() => {});
      throw thrown;
    }
  }

  #prepare(node: RosterEntry, preparation: Preparation): void {
    const holder = holderOf(node);
    preparation.asked.add(holder);
    this.#ask(node, preparation.request).then(
      () => {
        preparation.prepared.add(holder);
        this.review();
      },
      (thrown: unknown) => {
        if (isWeighbridgeError(thrown, "UNSUPPORTED")) {
          preparation.refusal = thrown;
          this.review();
          return;
        }
        this.#options.clock.after(ASK_AGAIN_MS, () => {
          preparation.asked.delete(holder);
          this.review();
        });
      },
    );
  }

  async #ask({ node, incarnation }: RosterEntry, request: PrepareRequest): Promise<void> {
    const { peer, clock } = this.#options;
    const channel = peer.channel(node);
    if (channel?.incarnation !== incarnation) throw new WeighbridgeError("NO_ROUTE", `there is no channel to ${nameOf(node)}`);
    await ask(channel, PREPARE, request, clock);
  }

  #liveNodes(): readonly RosterEntry[] {
    return this.#options.view().nodes.filter(({ state }) => state === "alive");
  }
}

function holderOf({ node, incarnation }: RosterEntry): string {
  return `${node}/${incarnation}`;
}
