// placement-changes — how the placement of a running job changes: one change at a time; the scheduler prepares all live
// workers and servers, publishes, and waits until the parts have changed hands, which servers do by themselves
// (server/copy). Not what a placement is (placement-epochs.ts), nor which ones follow each other (placement-moves.ts).
//
//   publish ──► PREPARE to every live node ──► all prepared ──► told with the roster ──► all parts are where they
//   belong
//                       │                                                └── they cannot come: taken back, also told
//                       └── not all within PREPARE_MS, or UNSUPPORTED: PREPARE with holdMs 0, nothing published
//
// Invariants:
//   PlacementChanges.C1. When a placement is told every live worker of the roster is prepared, also one that joined
//       meanwhile: every clock announcement that was sent is answered, and no other one leaves before the placement is
//       adopted. So all servers know the same clocks, and have closed the same rounds.
//   PlacementChanges.C2. Nobody waits for a node that is dead or has left.
//   PlacementChanges.C3. Nodes stay prepared for longer (HOLD_MS) than it may take to prepare all of them and to reach
//       all live servers.
//   PlacementChanges.C4. Every live server is prepared, too: it loads nothing from a checkpoint before the placement is
//       adopted, and holds nothing that an application cut itself if the servers change (Ownership.O4). It has heard of
//       the same deaths as all others: servers that exchange parts then hear of later ones afterwards.
//   PlacementChanges.C5. A node that cannot take part (UNSUPPORTED) ends the change; after other failures it is
//       retried.
//   PlacementChanges.C6. A change whose parts cannot come to their new owners is taken back: nobody has served by it
//       what it was about, so nothing is prepared for that.

import type { Clock } from "../base/clock.ts";
import { Deferred, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { PREPARE } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import type { PrepareReply, PrepareRequest } from "../wire/control.ts";
import { nameOf } from "../wire/node-id.ts";
import type { PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";
import type { PlacementChange } from "./placement-epochs.ts";

/** How long all nodes together may take. */
const PREPARE_MS = 10_000;
/** How long a node stays prepared when nothing more comes (PlacementChanges.C3). */
const HOLD_MS = 30_000;
/** After a failure a node is called again. */
const ASK_AGAIN_MS = 200;
/** The same where parts are on their way. */
const ASK_SOON_MS = 5;
/** How long parts may take to change hands. */
const SETTLE_MS = 30_000;

/** What servers say of a placement that they are prepared for. */
export type PreparedChange = {
  readonly placement: PlacementView;
  /** By rank: how many bytes a server gets, and for how many it has room. */
  readonly arriving: ReadonlyMap<number, { readonly byteCount: number; readonly roomBytes: number }>;
};

/** Looks at a change that everybody is prepared for. What it throws abandons it. */
export type ChangeCheck = (change: PreparedChange) => void;

export type PlacementChangesOptions = {
  readonly peer: Pick<Peer, "channel">;
  readonly clock: Clock;
  readonly view: () => RosterView;
  /** Throws BAD_ARGUMENT, NO_ROUTE. */
  readonly next: (change: PlacementChange) => PlacementView;
  readonly tell: (change: PlacementChange) => void;
  /** The placement before that of the view, as far as it is known. */
  readonly previous: () => PlacementView | undefined;
};

/** One change: which nodes were called and which are prepared, by incarnations, and why it cannot be. */
type Preparation = {
  readonly placement: PlacementView;
  readonly request: PrepareRequest;
  readonly asked: Set<string>;
  readonly prepared: Map<string, PrepareReply>;
  refusal: WeighbridgeError | undefined;
};

export class PlacementChanges {
  readonly #options: PlacementChangesOptions;
  /** The last requested change; the next one comes behind it. */
  #last: Promise<void> = Promise.resolve();
  /** Resolves when a node has answered, or the roster has changed. */
  #news = new Deferred<void>();
  #closed: WeighbridgeError | undefined;
  #moving: Promise<void> | undefined;

  constructor(options: PlacementChangesOptions) {
    this.#options = options;
  }

  /**
   * Throws BAD_ARGUMENT and NO_ROUTE as the roster does, DEADLINE naming the nodes that are not prepared, UNSUPPORTED
   * (PlacementChanges.C5), and what `check` throws; then nothing was published. NODE_DEAD, ARENA_FULL and what else
   * servers say of parts that cannot come: then it was taken back (PlacementChanges.C6).
   */
  async publish(change: PlacementChange, check: ChangeCheck = () => {}): Promise<void> {
    this.#options.next(change);
    await this.#inTurn(() => this.#publish(change, check));
  }

  /**
   * Waits until all parts of the placement as it is are where they belong. If they cannot come, since somebody died
   * while there was no scheduler, the one before comes back (PlacementChanges.C6). Throws DEADLINE, and what servers
   * say.
   */
  async settle(): Promise<void> {
    await this.#inTurn(async () => {
      try {
        await this.#settle();
      } catch (thrown) {
        const previous = this.#options.previous();
        if (previous === undefined || this.#closed !== undefined) throw thrown;
        await this.#takeBack(previous);
      }
    });
  }

  async #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {}); // its caller gets it
    await turn;
  }

  /** Settles when parts of a placement that was told have changed hands, or stay; undefined while none move. */
  get moving(): Promise<void> | undefined {
    return this.#moving;
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

  async #publish(change: PlacementChange, check: ChangeCheck): Promise<void> {
    const { next, tell, view } = this.#options;
    const placement = next(change);
    const before = view().placement;
    const { epoch, servers, move } = placement;
    const isAmongSame = move === undefined && String(servers) === String(before?.servers);
    const preparation: Preparation = {
      placement,
      request: { epoch, holdMs: HOLD_MS, ...(isAmongSame ? {} : { servers }) },
      asked: new Set(),
      prepared: new Map(),
      refusal: undefined,
    };
    try {
      await this.#prepareAll(preparation);
      check({ placement: next(change), arriving: this.#arriving(preparation) });
      tell(change); // nothing has happened since all were prepared (PlacementChanges.C1)
    } catch (thrown) {
      // then its hold ends by itself
      for (const node of this.#liveNodes()) this.#ask(node, { epoch, holdMs: 0 }).catch(() => {});
      throw thrown;
    }
    const moving = new Deferred<void>();
    this.#moving = moving.promise;
    try {
      await this.#settle();
    } catch (thrown) {
      if (before !== undefined && this.#closed === undefined) await this.#takeBack(before);
      throw thrown;
    } finally {
      this.#moving = undefined;
      moving.resolve();
    }
  }

  /** PlacementChanges.C6 */
  async #takeBack({ policy, servers, moved = [], move }: PlacementView): Promise<void> {
    this.#options.tell({ policy, servers, moved, move });
    await this.#settle();
  }

  async #prepareAll(preparation: Preparation): Promise<void> {
    const { clock } = this.#options;
    const { asked, prepared, request } = preparation;
    const untilMs = clock.nowMs() + PREPARE_MS;
    for (;;) {
      if (this.#closed !== undefined) throw this.#closed;
      if (preparation.refusal !== undefined) throw preparation.refusal; // PlacementChanges.C5
      const waiting = this.#liveNodes().filter((node) => !prepared.has(this.#stateOf(node)));
      if (waiting.length === 0) return;
      for (const node of waiting) if (!asked.has(this.#stateOf(node))) this.#prepare(node, preparation);
      const names = waiting.map(({ node }) => nameOf(node)).join(", ");
      await waitFor(this.#news.promise, `${names} to prepare for the placement of epoch ${request.epoch}`, clock, {
        deadlineMs: Math.max(0, untilMs - clock.nowMs()),
      });
    }
  }

  /** What servers get from others, by what those said. */
  #arriving({ prepared }: Preparation): PreparedChange["arriving"] {
    const replies = this.#liveNodes().map((node) => ({ node, reply: prepared.get(this.#stateOf(node)) ?? {} }));
    const arriving = new Map<number, { byteCount: number; roomBytes: number }>();
    for (const { node, reply } of replies)
      if (node.role === "server") arriving.set(node.rank, { byteCount: 0, roomBytes: reply.roomBytes ?? 0 });
    for (const { reply } of replies) {
      const { leaving = [] } = reply;
      for (let i = 0; i < leaving.length; i += 2) {
        const to = arriving.get(leaving[i]!);
        if (to !== undefined) to.byteCount += leaving[i + 1]!;
      }
    }
    return arriving;
  }

  /** All live servers say that they have, and have given away, what the placement says. */
  async #settle(): Promise<void> {
    const { clock, view } = this.#options;
    const { epoch = 0 } = view().placement ?? {};
    const untilMs = clock.nowMs() + SETTLE_MS;
    const settled = new Set<string>();
    const failed: unknown[] = [];
    const asked = new Set<string>();
    for (;;) {
      if (this.#closed !== undefined) throw this.#closed;
      const waiting = this.#liveNodes().filter((node) => node.role === "server" && !settled.has(holderOf(node)));
      if (failed.length > 0) throw failed[0];
      if (waiting.length === 0) return;
      for (const node of waiting) {
        const holder = holderOf(node);
        if (asked.has(holder)) continue;
        asked.add(holder);
        this.#ask(node, { epoch, holdMs: 0, hasCome: true }).then(
          () => {
            settled.add(holder);
            this.review();
          },
          (thrown: unknown) => {
            if (isWeighbridgeError(thrown) && !thrown.retryable) failed.push(thrown);
            clock.after(ASK_SOON_MS, () => {
              asked.delete(holder);
              this.review();
            });
          },
        );
      }
      const names = waiting.map(({ node }) => nameOf(node)).join(", ");
      await waitFor(this.#news.promise, `${names} to have the parts of the placement of epoch ${epoch}`, clock, {
        deadlineMs: Math.max(0, untilMs - clock.nowMs()),
      });
    }
  }

  #prepare(node: RosterEntry, preparation: Preparation): void {
    const { placement, request } = preparation;
    const state = this.#stateOf(node);
    preparation.asked.add(state);
    const { version } = this.#options.view();
    this.#ask(node, node.role === "server" ? { ...request, placement, roster: version } : request).then(
      (reply) => {
        preparation.prepared.set(state, reply);
        this.review();
      },
      (thrown: unknown) => {
        if (isWeighbridgeError(thrown, "UNSUPPORTED")) {
          preparation.refusal = thrown;
          this.review();
          return;
        }
        this.#options.clock.after(ASK_AGAIN_MS, () => {
          preparation.asked.delete(state);
          this.review();
        });
      },
    );
  }

  async #ask({ node, incarnation }: RosterEntry, request: PrepareRequest): Promise<PrepareReply> {
    const { peer, clock } = this.#options;
    const channel = peer.channel(node);
    if (channel?.incarnation !== incarnation)
      throw new WeighbridgeError("NO_ROUTE", `there is no channel to ${nameOf(node)}`, { retryable: true });
    return await ask(channel, PREPARE, request, clock);
  }

  #liveNodes(): readonly RosterEntry[] {
    return this.#options.view().nodes.filter(({ state }) => state === "alive");
  }

  /**
   * What has to be prepared: a server anew when it was told of others that live or died meanwhile
   * (PlacementChanges.C4).
   */
  #stateOf(node: RosterEntry): string {
    return node.role === "server" ? `${holderOf(node)}/${this.#options.view().version}` : holderOf(node);
  }
}

function holderOf({ node, incarnation }: RosterEntry): string {
  return `${node}/${incarnation}`;
}
