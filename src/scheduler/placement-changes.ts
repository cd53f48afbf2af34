// placement-changes — how the placement of a running job changes: one change at a time; the scheduler prepares all live
// workers and servers, publishes, and decides that the parts are handed over once their new owners have all of them
// (server/copy). Not what a placement is (placement-epochs.ts), nor which ones follow each other (placement-moves.ts).
//
//   PREPARE to servers, then workers ──► prepared ──► told, pending ──► parts have arrived ──► handed over ──► served
//        │                                                └── a server is gone, or parts cannot come: taken back
//        └── not all in time, or UNSUPPORTED: PREPARE with holdMs 0, nothing published
//
// Invariants:
//   PlacementChanges.C1. When a placement is told every live worker of the roster is prepared, also one that joined
//       meanwhile: every clock message that was sent is answered, and no other one leaves before the placement is
//       adopted. So all servers know the same clocks, and have closed the same rounds.
//   PlacementChanges.C2. Nobody waits for a node that is dead or has left.
//   PlacementChanges.C3. Nodes stay prepared for longer (HOLD_MS) than it may take to prepare all of them and to reach
//       all live servers.
//   PlacementChanges.C4. Every live server is prepared, too: it loads nothing from a checkpoint before the placement is
//       adopted, and holds nothing that an application cut itself if the servers change (Ownership.O4). It has heard of
//       the same deaths as all others: servers that exchange parts then hear of later ones afterwards.
//   PlacementChanges.C5. A node that cannot take part (UNSUPPORTED) ends the change; after other failures it is
//       retried. A server that refuses for now, since it cuts or loads a checkpoint, is waited for while nobody is
//       prepared: what it does may need the others, whose part waits for as long as they are prepared.
//   PlacementChanges.C6. Whether the parts of a placement are handed over, all of them, is one record of the
//       scheduler's state. Before it every source holds what it gives, and the placement is taken back, by this
//       scheduler or the next one: nobody has served by it what it was about, so nothing is prepared for that. Behind
//       it sources drop what they gave, new owners serve, and nothing goes back.
//   PlacementChanges.C7. Parts are handed over only while every server that lived when the placement was told lives, in
//       the same incarnation: each has said that all its parts have arrived.

import type { Clock } from "../base/clock.ts";
import { Deferred, sleep, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { InTurn } from "../base/in-turn.ts";
import { waitUntil } from "../base/wait-until.ts";
import { PREPARE } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import type { PrepareReply, PrepareRequest } from "../wire/control.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import type { PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";
import type { PlacementChange } from "./placement-epochs.ts";
import type { PendingPlacement } from "./scheduler-state.ts";

/** How long all workers together may take, and servers that refuse for now (PlacementChanges.C5). */
const PREPARE_MS = 10_000;
const SERVERS_MS = 60_000;
/** How long a node stays prepared when nothing more comes (PlacementChanges.C3). */
const HOLD_MS = 30_000;
/** After a failure a node is called again. */
const ASK_AGAIN_MS = 200;
/** The same where parts are on their way, or a server cuts or loads a checkpoint. */
const ASK_SOON_MS = 5;
/**
 * Such a server is called again after this share of the time that it has refused for, up to ASK_AGAIN_MS: a load may
 * take a minute, and every call of it releases and prepares all nodes. Between two cuts there may be milliseconds.
 */
const PAUSE_SHARE = 0.03;
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
  readonly tell: (change: PlacementChange, how: { readonly isPending: boolean }) => void;
  /** Undefined: the parts of the placement are handed over (PlacementChanges.C6). */
  readonly pending: () => PendingPlacement | undefined;
  readonly handOver: () => void;
  /** Whether every node of the job has been heard of. */
  readonly isSettled: () => boolean;
};

/** A try to prepare all nodes: which were called and which are prepared, by incarnations, and why it cannot be. */
type Preparation = {
  readonly placement: PlacementView;
  readonly request: PrepareRequest;
  readonly asked: Set<string>;
  readonly prepared: Map<string, PrepareReply>;
  refusal: WeighbridgeError | undefined;
  /** A server refuses for now (PlacementChanges.C5). */
  isPutOff: boolean;
};

export class PlacementChanges {
  readonly #options: PlacementChangesOptions;
  readonly #turns = new InTurn();
  /** Resolves when a node has answered, or the roster has changed. */
  #news = new Deferred<void>();
  #closed: WeighbridgeError | undefined;
  /** How many changes are under way, or wait for their turn. */
  #open = 0;

  constructor(options: PlacementChangesOptions) {
    this.#options = options;
  }

  /**
   * Throws BAD_ARGUMENT and NO_ROUTE as the roster does, DEADLINE naming the nodes that are not prepared, UNSUPPORTED
   * (PlacementChanges.C5), and what `check` throws; then nothing was published. NODE_DEAD for a server that is not
   * there, ARENA_FULL and what else servers say of parts that cannot come: then it was taken back, if it was published
   * (PlacementChanges.C6).
   */
  async publish(change: PlacementChange, check: ChangeCheck = () => {}): Promise<void> {
    this.#options.next(change);
    await this.#inTurn(() => this.#publish(change, check));
  }

  /**
   * Waits until all servers serve by the placement as it is. One that another scheduler left pending is taken back
   * (PlacementChanges.C6). Throws DEADLINE, NO_ROUTE.
   */
  async settle(): Promise<void> {
    await this.#inTurn(async () => {
      const pending = this.#options.pending();
      if (pending === undefined) await this.#served();
      else if (pending.previous !== undefined) await this.#takeBack(pending.previous);
      else await this.#finish(this.#holders()); // no server knows the one before: none has given anything away
    });
  }

  async #inTurn(work: () => Promise<void>): Promise<void> {
    this.#open++;
    await this.#turns.run(work).finally(() => {
      this.#open--;
      this.#wake();
    });
  }

  /** While parts of the placement are not handed over: something that settles when that may be over. */
  get moving(): Promise<void> | undefined {
    return this.#options.pending() === undefined ? undefined : this.#news.promise;
  }

  /** The roster has changed (PlacementChanges.C2). */
  review(): void {
    this.#wake();
    const isLeft = this.#open === 0 && this.#options.pending() !== undefined && this.#options.isSettled();
    if (isLeft && this.#closed === undefined) this.settle().catch(() => {}); // tried again with the next news
  }

  close(error: WeighbridgeError): void {
    this.#closed = error;
    this.#wake();
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = new Deferred();
  }

  async #publish(change: PlacementChange, check: ChangeCheck): Promise<void> {
    const { next, tell, view } = this.#options;
    const placement = next(change);
    const before = view().placement;
    const { epoch, servers, move } = placement;
    const isAmongSame = move === undefined && String(servers) === String(before?.servers);
    const request = { epoch, holdMs: HOLD_MS, ...(isAmongSame ? {} : { servers }) };
    try {
      const preparation = await this.#prepareAll({ placement, request });
      this.#checkAlive([...(before?.servers ?? []), ...servers]);
      check({ placement: next(change), arriving: this.#arriving(preparation) });
      tell(change, { isPending: true }); // nothing has happened since all were prepared (PlacementChanges.C1)
    } catch (thrown) {
      this.#release(epoch);
      throw thrown;
    }
    await this.#finish(this.#holders(), before);
  }

  /** Hands over the parts of a published placement, or takes it back. */
  async #finish(holders: readonly RosterEntry[], before?: PlacementView): Promise<void> {
    try {
      await this.#arrived(holders);
      this.#options.handOver(); // nothing has happened since all have arrived (PlacementChanges.C7)
    } catch (thrown) {
      if (before !== undefined && this.#closed === undefined) await this.#takeBack(before);
      throw thrown;
    }
    await this.#served();
  }

  /** PlacementChanges.C6 */
  async #takeBack({ policy, servers, moved = [], move }: PlacementView): Promise<void> {
    this.#options.tell({ policy, servers, moved, move }, { isPending: false });
    await this.#served();
  }

  /** Live servers, as they are now. */
  #holders(): readonly RosterEntry[] {
    return this.#liveNodes().filter(({ role }) => role === "server");
  }

  /** Throws NODE_DEAD. */
  #checkAlive(ranks: readonly number[]): void {
    const missing = ranks.find((rank) => !this.#holders().some((node) => node.rank === rank));
    if (missing !== undefined)
      throw new WeighbridgeError("NODE_DEAD", `parts cannot move: ${nameOf(idOf("server", missing))} is not there`);
  }

  /** The placement of this epoch does not come. A node that does not hear of it is held until HOLD_MS are over. */
  #release(epoch: number): void {
    for (const node of this.#liveNodes()) this.#callNode(node, { epoch, holdMs: 0 }).catch(() => {});
  }

  async #prepareAll(change: Pick<Preparation, "placement" | "request">): Promise<Preparation> {
    const { clock } = this.#options;
    const beganMs = clock.nowMs();
    const untilMs = beganMs + SERVERS_MS;
    for (;;) {
      const preparation: Preparation = { ...change, asked: new Set(), prepared: new Map(), refusal: undefined, isPutOff: false };
      if (await this.#tryAll(preparation, untilMs)) return preparation;
      this.#release(change.request.epoch); // PlacementChanges.C5
      const pauseMs = Math.min(Math.max(ASK_SOON_MS, PAUSE_SHARE * (clock.nowMs() - beganMs)), ASK_AGAIN_MS);
      await sleep(clock, pauseMs);
    }
  }

  /** False: it was put off. Servers first: workers are not held while a server refuses. */
  async #tryAll(preparation: Preparation, serversUntilMs: number): Promise<boolean> {
    const { clock } = this.#options;
    const { asked, prepared, request } = preparation;
    let workersUntilMs = Infinity;
    for (;;) {
      if (this.#closed !== undefined) throw this.#closed;
      if (preparation.refusal !== undefined) throw preparation.refusal; // PlacementChanges.C5
      const missing = this.#liveNodes().filter((node) => !prepared.has(this.#stateOf(node)));
      if (missing.length === 0) return true;
      const servers = missing.filter(({ role }) => role === "server");
      const waiting = servers.length > 0 ? servers : missing;
      if (waiting === missing) workersUntilMs = Math.min(workersUntilMs, clock.nowMs() + PREPARE_MS);
      const untilMs = Math.min(serversUntilMs, workersUntilMs);
      if (preparation.isPutOff && clock.nowMs() < untilMs) return false;
      for (const node of waiting) if (!asked.has(this.#stateOf(node))) this.#prepare(node, preparation);
      await this.#awaitNews(waiting, `prepare for the placement of epoch ${request.epoch}`, untilMs);
    }
  }

  /** Resolves when a node has answered, or the roster has changed. Throws DEADLINE, naming the nodes. */
  async #awaitNews(waiting: readonly RosterEntry[], what: string, untilMs: number): Promise<void> {
    const { clock } = this.#options;
    const names = waiting.map(({ node }) => nameOf(node)).join(", ");
    await waitFor(this.#news.promise, `${names} to ${what}`, clock, waitUntil(untilMs, clock));
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

  /** All of these servers have what comes to them. Throws NODE_DEAD for one that is gone (PlacementChanges.C7). */
  async #arrived(holders: readonly RosterEntry[]): Promise<void> {
    await this.#awaitAll("arrival", () => {
      const alive = new Set(this.#holders().map(holderOf));
      const gone = holders.find((node) => !alive.has(holderOf(node)));
      if (gone !== undefined) throw new WeighbridgeError("NODE_DEAD", `${nameOf(gone.node)} is dead, and parts were on their way`);
      return holders;
    });
  }

  /** All live servers serve by the placement. */
  async #served(): Promise<void> {
    await this.#awaitAll("service", () => this.#holders());
  }

  async #awaitAll(awaits: "arrival" | "service", nodesOf: () => readonly RosterEntry[]): Promise<void> {
    const { clock, view } = this.#options;
    const { epoch = 0 } = view().placement ?? {};
    const untilMs = clock.nowMs() + SETTLE_MS;
    const settled = new Set<string>();
    const failed: unknown[] = [];
    const asked = new Set<string>();
    for (;;) {
      if (this.#closed !== undefined) throw this.#closed;
      const waiting = nodesOf().filter((node) => !settled.has(holderOf(node)));
      if (failed.length > 0) throw failed[0];
      if (waiting.length === 0) return;
      for (const node of waiting) {
        const holder = holderOf(node);
        if (asked.has(holder)) continue;
        asked.add(holder);
        this.#callNode(node, { epoch, holdMs: 0, awaits }).then(
          () => {
            settled.add(holder);
            this.#wake();
          },
          (thrown: unknown) => {
            // Else it was replaced.
            const isOfServer = isWeighbridgeError(thrown) && !thrown.retryable && thrown.code !== "FENCED";
            if (isOfServer && awaits === "arrival") failed.push(thrown);
            clock.after(ASK_SOON_MS, () => {
              asked.delete(holder);
              this.#wake();
            });
          },
        );
      }
      await this.#awaitNews(waiting, `have the parts of the placement of epoch ${epoch}`, untilMs);
    }
  }

  #prepare(node: RosterEntry, preparation: Preparation): void {
    const { placement, request } = preparation;
    const state = this.#stateOf(node);
    preparation.asked.add(state);
    const { version } = this.#options.view();
    this.#callNode(node, node.role === "server" ? { ...request, placement, roster: version } : request).then(
      (reply) => {
        preparation.prepared.set(state, reply);
        this.#wake();
      },
      (thrown: unknown) => {
        if (isWeighbridgeError(thrown, "UNSUPPORTED")) {
          preparation.refusal = thrown;
          this.#wake();
          return;
        }
        if (node.role === "server" && isWeighbridgeError(thrown, "QUEUE_FULL")) {
          preparation.isPutOff = true;
          this.#wake();
          return;
        }
        this.#options.clock.after(ASK_AGAIN_MS, () => {
          preparation.asked.delete(state);
          this.#wake();
        });
      },
    );
  }

  async #callNode({ node, incarnation }: RosterEntry, request: PrepareRequest): Promise<PrepareReply> {
    const { peer, clock } = this.#options;
    const channel = peer.channel(node);
    if (channel?.incarnation !== incarnation)
      throw new WeighbridgeError("NO_ROUTE", `there is no channel to ${nameOf(node)}`, { retryable: true });
    return await callJson(channel, PREPARE, request, clock);
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
