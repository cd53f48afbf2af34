// router — where the requests of a worker go. It alone knows the placement: callers say what a request is about (raw keys, rows of a plan, a block, a key,
// one server), and the router finds the server, keeps a channel to it as the roster says, and sends. What a server refuses because the placement has
// changed is cut again and goes on. Not what is asked for: that is the faces' and the clients'; not the promises of functions: function-client.ts.
//
//   request ─► cut by the placement of epoch e ─► calls ─► answered
//                         ▲                          └───► WRONG_EPOCH, nothing done, with a placement of epoch > e
//                         └── cut again, once all updates of older epochs are answered or refused ◄──┘
//
// Invariants:
//   Router.R1. A request is sent to every server that it concerns or to none: room is checked first.
//   Router.R2. Calls to a server fail as soon as the roster says it is dead, naming it; calls made while it is dead fail at once.
//   Router.R3. A refused call has changed nothing. What it carried is cut by a placement of a higher epoch than its own, and leaves with new stamps: it counts
//              once, and ends after as many refusals as there are placements.
//   Router.R4. From the moment on that a newer placement is known, nothing new leaves until every update that was cut by an older one is answered or refused.
//              Then what was refused leaves in the order in which it was first sent, and what waited leaves behind it. So updates of a parameter keep their
//              order, a read follows this worker's own updates, and a clock announcement follows the updates of its clock.
//   Router.R5. What the application cut itself, and what names one server, is never cut again.
//   Router.R6. A kv request leaves for incarnations of servers that its KVWorker knows, or for none: the first one to a server that was started again fails with
//              NODE_DEAD, nothing sent.
//   Router.R7. From PREPARE until its placement is adopted no clock announcement leaves, and each that had left is
//              answered (router/announcement-hold.ts): no server has closed a clock of which an update of this worker
//              may still be refused.

import { AssertionError } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Membership } from "../cluster/membership.ts";
import type { Contract } from "../contracts/contract.ts";
import type { Arena } from "../kernel/arena.ts";
import { type Cuts, problemWithCuts, type Slicer, sliceByRange, soleOwner } from "../keys/key-list.ts";
import { evenRanges, type Range } from "../keys/key-range.ts";
import { type Placement, partOf } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import { rangePlacement } from "../keys/range-placement.ts";
import { type Call, detachedError } from "../peer/call.ts";
import type { Channel } from "../peer/channel.ts";
import { goneError } from "../peer/gone-error.ts";
import type { Peer } from "../peer/peer.ts";
import type { PrepareRequest } from "../wire/control.ts";
import { placementOfError } from "../wire/failure.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import type { KvRouter } from "./kv-arrays.ts";
import { FloatWindow } from "./kv-landing.ts";
import { cutPart, fitsOneFrame, type KvCall, type KvRequest } from "./kv-request.ts";
import { AnnouncementHold } from "./router/announcement-hold.ts";
import { cutKvAgain } from "./router/kv-recut.ts";
import { RowPlanner } from "./router/row-plan.ts";

/** What a request of a function is about; the router finds the server. */
export type Route =
  | { readonly server: number; readonly epoch: number } // rows of a plan: where they were when it was made
  | { readonly block: number; readonly parameter: number }
  | { readonly key: bigint }
  | { readonly server: number };

/** Some keys of a list, all of one owner. */
export type KeyShare = { readonly to: Route; readonly positions: number[] };

/** Something that was sent by a placement and can be sent anew by another. */
export type Routed = {
  readonly order: number;
  /** Cuts it by the placement as it is now, and sends it. Ends when it has left. */
  sendAgain(): Promise<void> | undefined;
};

export type RouterOptions = {
  readonly peer: Pick<Peer, "dial">;
  readonly membership: Pick<Membership, "onRoster" | "onPlacement" | "adoptPlacement">;
  readonly clock: Clock;
};

type Calls = readonly Call[];
/** How many kv requests wait at most while the placement changes. */
const WAITING_MAX = 65_536;

export class Router implements KvRouter {
  readonly window: FloatWindow = new FloatWindow();
  /** Called when calls to this server go to a new incarnation of it, before any of them can be made. */
  serverRestarted: (rank: number) => void = () => {};
  readonly #peer: Pick<Peer, "dial">;
  readonly #clock: Clock;
  readonly #membership: RouterOptions["membership"];
  #placement: Placement | undefined;
  /** Of the placement, where every request finds them at once. */
  #servers: readonly number[] = [];
  #epoch = 0;
  #ranges: readonly Range[] = [];
  /** By rank; undefined until the roster names the server. */
  readonly #channels: (Channel | undefined)[] = [];
  /** Why a server cannot be asked, by rank. */
  readonly #gone: (WeighbridgeError | undefined)[] = [];
  /** How many requests were sent; the order of what is cut again. */
  #order = 0;
  /** Updates that are neither answered nor refused. */
  #openUpdates = 0;
  /** Announcements of clocks that have left and have not ended; also those that were refused. */
  #openAnnouncements = 0;
  /** By rank, the incarnation of a server that did not hear the last announcement to it: it failed. */
  readonly #unheard: (number | undefined)[] = [];
  /** Joins of clock sets that have begun and not ended; settles when none is left. */
  #joinCount = 0;
  #joinsEnded = new Deferred<void>();
  /** The placement that this worker was told to prepare for last; 0 once it was told that it does not come. */
  #wantedEpoch = 0;
  /** R7; undefined while no placement is about to come. */
  #hold: AnnouncementHold | undefined;
  /** Settles when what was refused has left again; undefined while nothing is held back (R4). */
  #held: Deferred<void> | undefined;
  #isSendingAgain = false;
  #refused: Routed[] = [];
  #refusedKv: (KvCall | KvRequest)[] = [];
  #waitingKv: KvRequest[] = [];

  constructor(options: RouterOptions) {
    this.#peer = options.peer;
    this.#clock = options.clock;
    this.#membership = options.membership;
    options.membership.onRoster((roster) => this.#follow(roster));
    options.membership.onPlacement((placement) => this.adopt(placement));
  }

  // What is known of the servers.

  /** The ranks of all servers, ascending. */
  get servers(): readonly number[] {
    return this.#servers;
  }

  /** Of the placement by which requests are cut now. */
  get epoch(): number {
    return this.#epoch;
  }

  get #placed(): Placement {
    if (this.#placement === undefined) throw new AssertionError("a request is made where there are servers");
    return this.#placement;
  }

  /** Which incarnation of a server calls go to now; 0 before it is known. */
  incarnationOf(rank: number): number {
    return this.#channels[rank]?.incarnation ?? 0;
  }

  /** Plans rows by the placement as it is at each plan. */
  planner(arena: Arena, secret: number): RowPlanner {
    return new RowPlanner(arena, () => this.#placed, secret);
  }

  /** The server that a request about this goes to now. */
  serverOf(route: Route): number {
    if ("server" in route) return route.server;
    if ("block" in route) return this.#placed.ownerOf(partOf(route.block, route.parameter));
    return this.#placed.ownerOf(partOf(Number(route.key & 0xffff_ffffn), Number(route.key >> 32n)));
  }

  /** The positions of keys, or of those among them at some positions, by the server that owns them now. */
  sharesOf(keys: BigUint64Array, among: readonly number[] = [...keys.keys()]): readonly KeyShare[] {
    const { epoch } = this;
    const shares = new Map<number, KeyShare>();
    for (const position of among) {
      const server = this.serverOf({ key: keys[position] as bigint });
      const share = shares.get(server);
      if (share === undefined) shares.set(server, { to: { server, epoch }, positions: [position] });
      else share.positions.push(position);
    }
    return [...shares.values()];
  }

  /** The epoch that a request about this carries; 0 for what names its server and follows no placement. */
  epochOf(route: Route, { isPlaced }: Pick<Contract, "isPlaced">): number {
    if ("epoch" in route) return route.epoch;
    return "server" in route && !isPlaced ? 0 : this.epoch;
  }

  /** Whether what was cut by the placement of this epoch may leave as it is. */
  isCurrent(epoch: number): boolean {
    return epoch === 0 || epoch === this.epoch;
  }

  /** A placement was published, or came with a refusal. An older one changes nothing. */
  adopt(published: PlacementView): void {
    if (published.epoch <= this.epoch) return;
    this.#place(placementOf(published));
    if (this.#openUpdates > 0) this.#held ??= new Deferred(); // R4
    if (this.#hold !== undefined && published.epoch >= this.#hold.epoch) this.#hold.end();
  }

  /**
   * R7. Resolves when this worker is prepared for the placement of that epoch, or has it, or hears that it does not come. Throws QUEUE_FULL, nothing held, when servers
   * that live have not heard the same of it: it is joining a clock set, or tells one of them its clock again.
   */
  async prepare(request: PrepareRequest): Promise<void> {
    const { epoch, holdMs } = request;
    if (epoch <= this.epoch) return;
    this.#wantedEpoch = holdMs === 0 ? 0 : epoch;
    if (holdMs === 0) {
      if (this.#hold?.epoch === epoch) this.#hold.end();
      return;
    }
    while (this.#joinCount > 0 && this.#hold === undefined) await this.#joinsEnded.promise;
    if (this.#wantedEpoch !== epoch || epoch <= this.epoch) return;
    this.#checkHeard();
    this.#hold ??= new AnnouncementHold(this.#clock, () => {
      this.#hold = undefined;
    });
    this.#hold.renew(request);
    if (this.#openAnnouncements === 0) this.#hold.allAnswered();
    await this.#hold.prepared;
    this.#checkHeard();
  }

  #checkHeard(): void {
    const rank = this.#servers.find((server) => this.#gone[server] === undefined && this.#unheard[server] === this.incarnationOf(server));
    if (rank === undefined && this.#joinCount === 0) return;
    this.#hold?.end();
    const why = rank === undefined ? "is joining the clock set" : `could not tell server ${rank} of the end of a clock, and tells it again`;
    throw new WeighbridgeError("QUEUE_FULL", `this worker ${why}`, { retryable: true });
  }

  #place(placement: Placement): void {
    this.#placement = placement;
    this.#servers = placement.servers;
    this.#epoch = placement.epoch;
    this.#ranges = evenRanges(placement.servers.length);
  }

  /** A scheduler of ps-lite publishes no placement: its job has even ranges over all servers, for good. */
  #placeWithout({ nodes, placement }: RosterView): void {
    if (placement !== undefined || this.epoch > 0) return;
    const servers = nodes.filter(({ role }) => role === "server").map(({ rank }) => rank);
    if (servers.length > 0) this.#place(rangePlacement({ servers, epoch: 0 }));
  }

  // Functions: the calls of each server, as function-client.ts makes them.

  /** Whether requests have to wait (`released`) because the placement has changed (R4). */
  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  async released(): Promise<void> {
    await this.#held?.promise;
  }

  /** Whether announcements of clocks have to wait (`announcementsReleased`) because the placement is about to change (R7). */
  get holdsAnnouncements(): boolean {
    return this.#hold !== undefined;
  }

  async announcementsReleased(): Promise<void> {
    await this.#hold?.released;
  }

  /** An announcement leaves, for the first time. */
  announcementOpened(): void {
    this.#openAnnouncements++;
  }

  /** It was answered by the server of this rank, or failed for good. */
  announcementEnded(rank: number, error: WeighbridgeError | undefined): void {
    this.#unheard[rank] = error === undefined ? undefined : this.incarnationOf(rank);
    if (--this.#openAnnouncements === 0) this.#hold?.allAnswered();
  }

  /** This worker is about to join a clock set, and to tell its clock there; the caller says when it has, or has failed. */
  joining(): () => void {
    this.#joinCount++;
    return () => {
      if (--this.#joinCount > 0) return;
      this.#joinsEnded.resolve();
      this.#joinsEnded = new Deferred();
    };
  }

  /** The number of a request that is sent now, for `Routed.order`. */
  nextOrder(): number {
    return ++this.#order;
  }

  /** An update leaves. */
  updateOpened(): void {
    this.#openUpdates++;
  }

  /** It was answered, or failed for good. */
  updateEnded(): void {
    this.#openUpdates--;
    this.#sendAgainSoon();
  }

  /** A call of this epoch failed. True: it is sent again by a newer placement, and nobody is told (R3). An update counts as ended. */
  refused(routed: Routed, epoch: number, isUpdate: boolean, error: WeighbridgeError): boolean {
    if (!this.#isCutAgain(epoch, error)) return false;
    this.#refused.push(routed);
    if (isUpdate) this.#openUpdates--;
    this.#sendAgainSoon();
    return true;
  }

  /** Whether these calls fit the queues to the servers of their ranks (R1). */
  hasRoom(callsOfRank: readonly (Calls | undefined)[], isForced = false): boolean {
    if (isForced) return true;
    for (let rank = 0; rank < callsOfRank.length; rank++) {
      const calls = callsOfRank[rank];
      if (calls !== undefined && this.#channels[rank]?.admits(calls.length) === false) return false;
    }
    return true;
  }

  /** Sends calls to the servers of these ranks. */
  send(callsOfRank: readonly (Calls | undefined)[]): void {
    for (let rank = 0; rank < callsOfRank.length; rank++) {
      const calls = callsOfRank[rank];
      if (calls !== undefined) for (const call of calls) this.#send(rank, call);
    }
  }

  /** Resolves once half of the queue to every server is free: the next request is taken then, however large. */
  async room(wait: WaitOptions = {}): Promise<void> {
    await this.released();
    const waits = this.#channels
      .filter((channel) => channel !== undefined)
      .map((channel) => new Promise<void>((ready) => channel.whenRoom(ready)));
    await waitFor(Promise.all(waits), "room in the queues to the servers", this.#clock, wait);
  }

  // kv requests.

  /**
   * Sends the request: each server gets the keys of its range, or those that the application's slicer gives it. Throws QUEUE_FULL and BAD_ARGUMENT (of
   * the slicer), nothing sent.
   */
  submit(request: KvRequest): void {
    request.order = ++this.#order;
    const isWhole = this.#held === undefined && request.slicer === undefined && fitsOneFrame(request);
    if (!isWhole || !this.#submitWhole(request)) this.#submitParts(request);
  }

  #submitParts(request: KvRequest): void {
    const { keys, slicer } = request;
    if (slicer !== undefined) this.#submitCut(request, this.#ownCuts(slicer, keys));
    else if (this.#held === undefined) this.#submitCut(request, sliceByRange(keys, this.#ranges));
    else if (this.#waitingKv.length < WAITING_MAX) this.#waitingKv.push(request);
    else {
      const message = `${WAITING_MAX} requests wait for a change of the placement: await room() first`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
  }

  #ownCuts(slicer: Slicer, keys: BigUint64Array): Cuts {
    const cuts = slicer(keys, this.#ranges);
    const problem = problemWithCuts(cuts, keys.length, this.#ranges.length);
    if (problem === undefined) return cuts;
    throw new WeighbridgeError("BAD_ARGUMENT", `the slicer gave ${problem}`);
  }

  /** To the one server that owns all its keys, if there is one and it may leave now; the long way tells what is in its way. */
  #submitWhole(request: KvRequest): boolean {
    const owner = soleOwner(request.keys, this.#ranges);
    const rank = owner < 0 ? -1 : (this.#servers[owner] as number);
    const channel = this.#channels[rank];
    if (channel === undefined || this.#gone[rank] !== undefined || !channel.admits(1)) return false;
    if (request.owner.incarnations[rank] !== channel.incarnation) return false;
    request.epoch = this.#epoch;
    request.open(1);
    if (request.sent !== undefined) this.#openUpdates++;
    channel.send(request, true);
    return true;
  }

  #submitCut(request: KvRequest, cuts: Cuts, isForced = false): void {
    const restarted = this.#restartedAmong(request, (_, i) => cuts[i] !== cuts[i + 1]);
    if (restarted.length > 0) {
      this.#clock.soon(() => request.owner.ended(request, lostError(restarted)));
      return;
    }
    const callsOfRank: Calls[] = [];
    const epoch = request.isAppCut ? 0 : this.epoch; // R5
    let callCount = 0;
    let valueFrom = 0;
    this.servers.forEach((rank, i) => {
      const [keyFrom, keyTo] = [cuts[i] as number, cuts[i + 1] as number];
      if (keyFrom === keyTo) return;
      const valueTo = valueFrom + request.valueCount(keyFrom, keyTo);
      const calls = cutPart(request, { keyFrom, keyTo, valueFrom, valueTo }, epoch);
      valueFrom = valueTo;
      if (!isForced) this.#checkRoom(rank, calls.length);
      callsOfRank[rank] = calls;
      callCount += calls.length;
    });
    request.open(callCount);
    if (request.sent !== undefined) this.#openUpdates++;
    this.send(callsOfRank);
  }

  /** The servers of this request that were started again since its KVWorker asked them last. They are known from now on (R6). */
  #restartedAmong({ owner: { incarnations } }: KvRequest, isAsked: (rank: number, index: number) => boolean): readonly number[] {
    return this.servers.filter((rank, i) => {
      const incarnation = this.incarnationOf(rank);
      if (incarnation === incarnations[rank] || !isAsked(rank, i)) return false;
      const wasKnown = (incarnations[rank] ?? 0) !== 0; // 0: the roster had not named it yet
      incarnations[rank] = incarnation;
      return wasKnown;
    });
  }

  kvEnded(request: KvRequest, failure: WeighbridgeError | undefined): void {
    if (request.sent !== undefined) this.#openUpdates--;
    request.owner.ended(request, failure);
    if (this.#held !== undefined) this.#sendAgainSoon();
  }

  kvRefused(call: KvCall | KvRequest, error: WeighbridgeError): boolean {
    const { kvRequest: request } = call;
    if (!call.isIntact || !this.#isCutAgain(call.epoch, error)) return false;
    this.#refusedKv.push(call);
    request.frameRefused();
    if (request.isRefused) this.kvAllRefused(request);
    return true;
  }

  kvAllRefused(request: KvRequest): void {
    if (request.sent !== undefined) this.#openUpdates--;
    this.#sendAgainSoon();
  }

  // Cutting again.

  /** R3, R5 */
  #isCutAgain(epoch: number, error: WeighbridgeError): boolean {
    if (epoch === 0 || error.code !== "WRONG_EPOCH") return false;
    const placement = placementOfError(error);
    if (placement !== undefined) this.#membership.adoptPlacement(placement); // a scheduler that is restarted learns of it, too
    return epoch < this.epoch;
  }

  /** Once every update of an older epoch was answered or refused (R4). */
  #sendAgainSoon(): void {
    const isNeeded = this.#held !== undefined || this.#refused.length > 0 || this.#refusedKv.length > 0;
    if (!isNeeded || this.#isSendingAgain || (this.#held !== undefined && this.#openUpdates > 0)) return;
    this.#isSendingAgain = true;
    this.#held ??= new Deferred();
    this.#clock.soon(() => void this.#sendAgain());
  }

  /** Never rejects: what cannot be sent again fails by itself. */
  async #sendAgain(): Promise<void> {
    const { epoch } = this;
    this.#sendKvAgain();
    this.#refused.sort((a, b) => a.order - b.order);
    while (this.epoch === epoch && this.#refused.length > 0) {
      const leaving = this.#refused.shift()?.sendAgain();
      if (leaving !== undefined) await leaving;
    }
    this.#isSendingAgain = false;
    if (this.epoch !== epoch && this.#openUpdates > 0) return; // a still newer placement: once what has left now is refused as well
    if (this.#refused.length > 0 || this.#refusedKv.length > 0) {
      this.#sendAgainSoon();
      return;
    }
    const held = this.#held;
    this.#held = undefined;
    for (const request of this.#waitingKv.splice(0)) this.#submitLate(request);
    held?.resolve();
  }

  #sendKvAgain(): void {
    const callsOf = new Map<KvRequest, (KvCall | KvRequest)[]>();
    for (const call of this.#refusedKv.splice(0)) {
      const calls = callsOf.get(call.kvRequest);
      if (calls === undefined) callsOf.set(call.kvRequest, [call]);
      else calls.push(call);
    }
    for (const [request, refused] of [...callsOf].sort(([a], [b]) => a.order - b.order)) this.#sendOneKvAgain(request, refused);
  }

  #sendOneKvAgain(request: KvRequest, refused: readonly (KvCall | KvRequest)[]): void {
    const callsOfRank: Calls[] = [];
    let callCount = 0;
    if (request.isIntact)
      cutKvAgain(request, refused, { ranges: this.#ranges, epoch: this.epoch }).forEach((calls, i) => {
        callsOfRank[this.servers[i] as number] = calls;
        callCount += calls.length;
      });
    const restarted = this.#restartedAmong(request, (rank) => (callsOfRank[rank]?.length ?? 0) > 0);
    const error = request.isIntact ? undefined : detachedError({ isUpdate: request.sent !== undefined, sendCount: 1 });
    const failure = restarted.length > 0 ? lostError(restarted) : error;
    request.replaceRefused(refused.length, failure === undefined ? callCount : 1);
    if (request.sent !== undefined) this.#openUpdates++;
    if (failure === undefined) this.send(callsOfRank);
    else request.frameFailed(failure);
  }

  #submitLate(request: KvRequest): void {
    if (request.isIntact) this.#submitCut(request, sliceByRange(request.keys, this.#ranges), true);
    else request.owner.ended(request, detachedError({ isUpdate: request.sent !== undefined, sendCount: 0 }));
  }

  // Channels.

  /** R1 */
  #checkRoom(rank: number, callCount: number): void {
    const channel = this.#channels[rank];
    if (channel === undefined || channel.admits(callCount)) return;
    throw new WeighbridgeError("QUEUE_FULL", `${callCount} more calls do not fit the queue to ${channel.name}: await room() first`, {
      retryable: true,
    });
  }

  #send(rank: number, call: Call): void {
    const gone = this.#gone[rank];
    const channel = this.#channels[rank];
    if (gone === undefined && channel !== undefined) {
      channel.send(call, true);
      return;
    }
    const error = gone ?? new WeighbridgeError("NODE_DEAD", `${nameOf(idOf("server", rank))} is not there yet`, { retryable: true });
    this.#clock.soon(() => call.failed(error));
  }

  /** R2 */
  #follow(roster: RosterView): void {
    this.#placeWithout(roster);
    for (const { node, role, rank, state, address, incarnation } of roster.nodes) {
      if (role !== "server") continue;
      if (state === "alive") {
        const before = this.incarnationOf(rank);
        this.#gone[rank] = undefined;
        this.#channels[rank] = this.#peer.dial(node, address, incarnation);
        if (before !== 0 && before !== incarnation) this.serverRestarted(rank);
      } else if (this.#gone[rank] === undefined) {
        const error = goneError(node, state);
        this.#gone[rank] = error;
        this.#channels[rank]?.failCalls(error);
      }
    }
  }
}

/** R6 */
function lostError(ranks: readonly number[]): WeighbridgeError {
  const names = ranks.map((rank) => nameOf(idOf("server", rank))).join(", ");
  const [was, has, it] = ranks.length === 1 ? ["was", "has", "it"] : ["were", "have", "them"];
  const message = `${names} ${was} started again and ${has} lost all that was pushed to ${it}; nothing was sent: push it anew, the next request is served`;
  return new WeighbridgeError("NODE_DEAD", message);
}
