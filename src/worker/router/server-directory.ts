// server-directory — what a worker knows of its servers: who owns what by the placement of an epoch, and the channel to
// each as the roster says. Not what is sent: the router does that, and knows all of this.

import { AssertionError } from "../../base/assert.ts";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Membership } from "../../cluster/membership.ts";
import { evenRanges, type Range } from "../../keys/key-range.ts";
import { type Placement, partOf } from "../../keys/placement.ts";
import { rangePlacement } from "../../keys/placement-of.ts";
import { type Call, nodeDeadError } from "../../peer/call.ts";
import type { Channel } from "../../peer/channel.ts";
import type { Peer } from "../../peer/peer.ts";
import { idOf, nameOf, rankOf } from "../../wire/node-id.ts";
import { isAwaited, type PlacementView, type RosterView } from "../../wire/roster.ts";

/** What a request of a function is about; the router finds the server. */
export type Route =
  | BlockRoute
  | { readonly server: number; readonly epoch: number } // rows of a plan: where they were when it was made
  | { readonly key: bigint }
  | { readonly server: number };

/** A block of a tensor. Callers that ask for it repeatedly keep it: its owner is looked up once for each placement. */
export class BlockRoute {
  readonly parameter: number;
  readonly block: number;
  /** Its owner by the placement of `epoch`, once it was looked up. */
  owner = -1;
  epoch = -1;

  constructor(parameter: number, block: number) {
    this.parameter = parameter;
    this.block = block;
  }
}

/** Some keys of a list, all of one owner. */
export type KeyShare = { readonly to: Route; readonly positions: number[] };

export type DirectoryOptions = {
  readonly peer: Pick<Peer, "dial" | "drop">;
  readonly membership: Pick<Membership, "onRoster" | "fatal">;
  readonly clock: Clock;
  /** How long requests wait for a server that the placement has and no roster has named (Router.R8). */
  readonly startTimeoutMs: number;
};

export class ServerDirectory {
  /**
   * Called when calls to this server go to a new incarnation of it, before any of them can be made, or when it has come
   * into the placement.
   */
  serverCame: (rank: number) => void = () => {};
  readonly clock: Clock;
  // Plain fields that only this file changes, because every request looks at them.
  /** The ranks of all servers, ascending. */
  servers: readonly number[] = [];
  /** Of the placement by which requests are cut now. */
  epoch = 0;
  /** The raw keys of each server, in the order of `servers`. */
  ranges: readonly Range[] = [];
  /** By rank; undefined until the roster names the server. */
  readonly channels: (Channel | undefined)[] = [];
  /** The same while calls may leave for it; undefined once it is gone (Router.R2). */
  readonly reachable: (Channel | undefined)[] = [];
  /** Why a server cannot be asked, by rank. */
  readonly gone: (WeighbridgeError | undefined)[] = [];
  /** Undefined until there are servers. */
  placement: Placement | undefined;
  /** Whether the roster that names every server of the placement is still to come (Router.R8). */
  isIncomplete = false;
  readonly #peer: Pick<Peer, "dial" | "drop">;
  readonly #startTimeoutMs: number;
  /** Why the job is over for this node, if it is. */
  readonly #fatal: () => WeighbridgeError | undefined;
  #cancelWait: CancelTimer = () => {};

  constructor({ peer, membership, clock, startTimeoutMs }: DirectoryOptions) {
    this.#peer = peer;
    this.clock = clock;
    this.#startTimeoutMs = startTimeoutMs;
    this.#fatal = () => membership.fatal;
    membership.onRoster((roster) => this.#follow(roster));
  }

  /**
   * Which incarnation of a server calls go to now; 0 before it is known. One that took over from its head counts as the
   * one whose state it goes on with (Channel.N7).
   */
  incarnationOf(rank: number): number {
    return this.channels[rank]?.since ?? 0;
  }

  /** The server that a request about this goes to now. */
  serverOf(route: Route): number {
    if (route instanceof BlockRoute) return this.#ownerOfBlock(route);
    if ("server" in route) return route.server;
    return this.#ownerOf(Number(route.key & 0xffff_ffffn), Number(route.key >> 32n));
  }

  #ownerOfBlock(route: BlockRoute): number {
    if (route.epoch === this.epoch) return route.owner;
    route.owner = this.#ownerOf(route.block, route.parameter);
    route.epoch = this.epoch;
    return route.owner;
  }

  #ownerOf(low: number, high: number): number {
    if (this.placement === undefined) throw new AssertionError("a request is made where there are servers");
    return this.placement.ownerOf(partOf(low, high));
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

  protected place(placement: Placement): void {
    this.placement = placement;
    this.servers = placement.servers;
    this.epoch = placement.epoch;
    this.ranges = evenRanges(placement.servers.length);
    this.#cancelWait();
    this.isIncomplete = this.servers.some((rank) => this.channels[rank] === undefined);
    if (this.isIncomplete) this.#cancelWait = this.clock.after(this.#startTimeoutMs, () => this.#completed(), true);
  }

  close(): void {
    this.#cancelWait();
  }

  adopt(_published: PlacementView): void {}

  /** Every server of the placement has a channel, or is not waited for any longer (Router.R8). */
  protected completed(): void {}

  #completed(): void {
    this.#cancelWait();
    this.isIncomplete = false;
    this.completed();
  }

  /** A server that is not listed any more has left, and its parts have moved to others (Router.R9). */
  #drop(channel: Channel): void {
    if (!this.servers.includes(rankOf(channel.id))) channel.failLeft();
    this.#peer.drop(channel, nodeDeadError(channel.id, "left"));
  }

  /** A scheduler of ps-lite publishes no placement: its job has even ranges over all servers, for good. */
  #placeWithout({ nodes, placement }: RosterView): void {
    if (placement !== undefined || this.epoch > 0) return;
    const servers = nodes.filter(({ role }) => role === "server").map(({ rank }) => rank);
    if (servers.length > 0) this.place(rangePlacement({ servers, epoch: 0 }));
  }

  /** Fails calls to a server that is not `reachable` (Router.R2). */
  failSoon(rank: number, calls: readonly Call[]): void {
    const missing = `${nameOf(idOf("server", rank))} is not there yet`;
    const error = this.#fatal() ?? this.gone[rank] ?? new WeighbridgeError("NODE_DEAD", missing, { retryable: true });
    for (const call of calls) this.clock.soon(() => call.failed(error));
  }

  /** Router.R2, Router.R8 */
  #follow(roster: RosterView): void {
    const servers = roster.nodes.filter(({ role, state, isRetired }) => role === "server" && (state === "alive" || isRetired !== true));
    for (const { node, rank, state, address, incarnation, continues, returns } of servers) {
      if (state === "alive" || isAwaited({ state, returns })) {
        const before = this.incarnationOf(rank);
        const channel = this.#peer.dial(node, address, incarnation, { continues, returns });
        this.gone[rank] = undefined;
        this.channels[rank] = this.reachable[rank] = channel;
        if (before !== 0 && before !== this.incarnationOf(rank)) this.serverCame(rank);
      } else if (this.gone[rank] === undefined) {
        const error = nodeDeadError(node, state);
        this.gone[rank] = error;
        this.reachable[rank] = undefined;
        this.channels[rank]?.failCalls(error);
      }
    }
    this.#placeWithout(roster);
    if (roster.placement !== undefined) this.adopt(roster.placement);
    for (const channel of this.channels) if (channel && !servers.some(({ node }) => node === channel.id)) this.#drop(channel);
    if (this.isIncomplete && this.servers.every((rank) => this.channels[rank] !== undefined)) this.#completed();
  }
}
