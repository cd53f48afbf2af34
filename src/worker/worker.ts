// worker — a worker's engine: keeps a channel to every server as the roster says, and sends kv requests over them. The faces above it
// decide what to ask; the servers own the state.
//
// Invariants:
//   W1. A request is sent to every server that owns one of its keys or to none: room is checked first.
//   W2. Calls to a server fail as soon as the roster says it is dead, naming it; calls made while it is dead fail at once.

import type { Clock } from "../base/clock.ts";
import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Membership } from "../cluster/membership.ts";
import { evenRanges, type Range } from "../keys/key-range.ts";
import type { Cuts } from "../keys/slicer.ts";
import type { Call } from "../peer/call.ts";
import type { Channel } from "../peer/channel.ts";
import { goneError } from "../peer/gone-error.ts";
import type { Peer } from "../peer/peer.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";
import { CatalogueClient } from "./catalogue-client.ts";
import { cutPart, wholeCall } from "./kv-cut.ts";
import { FloatWindow, type KvRequest } from "./kv-request.ts";
import { RendezvousClient } from "./rendezvous-client.ts";
import { UnitClient } from "./unit-client.ts";

export type WorkerOptions = {
  readonly peer: Peer;
  readonly membership: Membership;
  readonly clock: Clock;
  readonly serverCount: number;
};

const NO_CALLS: readonly Call[] = [];

export class Worker {
  readonly ranges: readonly Range[];
  readonly window: FloatWindow = new FloatWindow();
  /** What the scheduler lends this worker of its epochs. */
  readonly units: UnitClient;
  /** Where workers wait for each other. */
  readonly rendezvous: RendezvousClient;
  /** The numbers of parameters. */
  readonly catalogue: CatalogueClient;
  /** Called when calls to this server go to a new incarnation of it, before any of them can be made. */
  serverRestarted: (rank: number) => void = () => {};
  readonly #peer: Peer;
  readonly #clock: Clock;
  /** By rank; undefined until the roster names the server. */
  readonly #servers: (Channel | undefined)[];
  /** Why a server cannot be asked, by rank. */
  readonly #gone: (WeighbridgeError | undefined)[];

  constructor(options: WorkerOptions) {
    this.#peer = options.peer;
    this.#clock = options.clock;
    this.units = new UnitClient(options);
    this.rendezvous = new RendezvousClient(options);
    this.catalogue = new CatalogueClient(options);
    this.ranges = evenRanges(options.serverCount);
    this.#servers = new Array<undefined>(options.serverCount).fill(undefined);
    this.#gone = new Array<undefined>(options.serverCount).fill(undefined);
    options.membership.onRoster((roster) => this.#follow(roster));
  }

  /** Sends the request to this server alone, in one frame, if it fits one. Throws QUEUE_FULL, nothing sent. */
  submitWhole(request: KvRequest, rank: number): boolean {
    const whole = wholeCall(request, 0);
    if (whole === undefined) return false;
    this.#checkRoom(rank, 1);
    request.open(1);
    this.#send(rank, whole);
    return true;
  }

  /** Sends the request: server r gets the keys from cuts[r] to cuts[r + 1]. Throws QUEUE_FULL, nothing sent, when a server is too far behind. */
  submit(request: KvRequest, cuts: Cuts): void {
    const cutOfRank: (readonly Call[])[] = [];
    let callCount = 0;
    let valueFrom = 0;
    for (let rank = 0; rank < this.#servers.length; rank++) {
      const keyFrom = cuts[rank] as number;
      const keyTo = cuts[rank + 1] as number;
      if (keyFrom === keyTo) {
        cutOfRank.push(NO_CALLS);
        continue;
      }
      const valueTo = valueFrom + request.valueCount(keyFrom, keyTo);
      const cut = cutPart(request, { keyFrom, keyTo, valueFrom, valueTo }, 0);
      valueFrom = valueTo;
      this.#checkRoom(rank, cut.length);
      cutOfRank.push(cut);
      callCount += cut.length;
    }
    request.open(callCount);
    for (let rank = 0; rank < cutOfRank.length; rank++) for (const call of cutOfRank[rank] as readonly Call[]) this.#send(rank, call);
  }

  /** Sends calls to the servers of these ranks: all of them, or with QUEUE_FULL none (W1). */
  ask(callsOfRank: readonly (readonly Call[])[]): void {
    callsOfRank.forEach((calls, rank) => {
      if (calls.length > 0) this.#checkRoom(rank, calls.length);
    });
    callsOfRank.forEach((calls, rank) => {
      for (const call of calls) this.#send(rank, call);
    });
  }

  /** Which life of a server calls go to now; 0 before it is known. */
  lifeOf(rank: number): number {
    return this.#servers[rank]?.incarnation ?? 0;
  }

  /** Resolves once half of the queue to every server is free: the next request is taken then, however large. */
  async room(wait: WaitOptions = {}): Promise<void> {
    const waits = this.#servers
      .filter((channel) => channel !== undefined)
      .map((channel) => new Promise<void>((ready) => channel.whenRoom(ready)));
    await waitFor(Promise.all(waits), "room in the queues to the servers", this.#clock, wait);
  }

  /** W1 */
  #checkRoom(rank: number, callCount: number): void {
    const channel = this.#servers[rank];
    if (channel === undefined || channel.admits(callCount)) return;
    throw new WeighbridgeError("QUEUE_FULL", `${callCount} more calls do not fit the queue to ${channel.name}: await room() first`, {
      retryable: true,
    });
  }

  #send(rank: number, call: Call): void {
    const gone = this.#gone[rank];
    const channel = this.#servers[rank];
    if (gone === undefined && channel !== undefined) {
      channel.send(call, true);
      return;
    }
    const error = gone ?? new WeighbridgeError("NODE_DEAD", `${nameOf(idOf("server", rank))} is not there yet`, { retryable: true });
    this.#clock.soon(() => call.failed(error));
  }

  /** W2 */
  #follow(roster: RosterView): void {
    for (const { node, role, rank, state, address, incarnation } of roster.nodes) {
      if (role !== "server" || rank >= this.#servers.length) continue;
      if (state === "alive") {
        const before = this.lifeOf(rank);
        this.#gone[rank] = undefined;
        this.#servers[rank] = this.#peer.dial(node, address, incarnation);
        if (before !== 0 && before !== incarnation) this.serverRestarted(rank);
      } else if (this.#gone[rank] === undefined) {
        const error = goneError(node, state);
        this.#gone[rank] = error;
        this.#servers[rank]?.failCalls(error);
      }
    }
  }
}
