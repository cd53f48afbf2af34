// parts-exchange — what a server does when the placement changes: it adopts it, gives away the parts that have another
// owner now, fetches those that are its own, and serves by it when the scheduler has handed them over
// (docs/decisions/0072, 0076). parts-departure.ts and parts-arrival.ts are the two sides.
//
//   a placement comes ──► nothing comes or goes here: adopted and served
//                     └── adopted, its requests wait ──► all has arrived ──► handed over: served
//                                                    └── it cannot be: the placement before comes back, and is served
//
// Invariants:
//   PartsExchange.E1. A part is held by one server: by its owner in the last placement that was handed over, whatever
//       was told since. What comes and goes with a placement follows from that one, not from those told between.
//   PartsExchange.E2. While parts come or go this server answers no worker, so that what belongs to no part stays as it
//       is, too. It takes note of the deaths of workers afterwards.
//   PartsExchange.E4. On a server with a log every step is an entry of it, in the order in which it happens: a server
//       that repeats the log is at the same point (docs/decisions/0076). A server says that its parts have arrived when
//       the log has them.
//   PartsExchange.E3. A server that comes into the placement first learns what belongs to no part, from the lowest rank
//       that stays in it. One that leaves it answers no request that waits there: the worker sends it to the new owner.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { asError, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { ClusterNode } from "../../cluster/cluster-node.ts";
import { PART_COUNT, type Placement, partOf } from "../../keys/placement.ts";
import { Placements } from "../../keys/placement-of.ts";
import type { PrepareReply, PrepareRequest } from "../../wire/control.ts";
import type { PlacementView } from "../../wire/roster.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { PartState } from "../parameters/part-state.ts";
import type { WorkerGroups } from "../parameters/worker-groups.ts";
import { loadDeparted, PartsArrival } from "./parts-arrival.ts";
import type { DepartedParts, PartsDeparture } from "./parts-departure.ts";

const LOW = 0xffff_ffffn;

export type PartsExchangeOptions = {
  readonly ownership: Ownership;
  readonly parameters: Parameters;
  readonly groups: WorkerGroups;
  readonly departure: PartsDeparture;
  readonly node: Pick<ClusterNode, "call">;
  readonly clock: Clock;
  readonly log: Log;
  /** This server has left the placement; the error is for those who wait here. */
  readonly onLeft: (error: WeighbridgeError) => void;
  /** Of a server with a log (PartsExchange.E4). */
  readonly journal?: ExchangeLog | undefined;
};

/** Where the steps of an exchange are written. */
export type ExchangeLog = {
  placement(next: PlacementView): void;
  arrived(parts: DepartedParts): void;
  handedOver(epoch: number): void;
  /** Resolves when all that was written is there for good; undefined: it is. */
  whenCommitted(): Promise<void> | undefined;
};

/** What a placement brings to this server, and takes from it. */
type Exchange = {
  /** By part that comes: the rank that holds it. */
  readonly arriving: ReadonlyMap<number, number>;
  /** By part that goes: its new owner. */
  readonly leaving: ReadonlyMap<number, number>;
  /** The rank that tells this server what is not a part's; undefined for one that knows it. */
  readonly teller: number | undefined;
  /** Whether others learn that from this server. */
  readonly isTelling: boolean;
};

export class PartsExchange {
  readonly #options: PartsExchangeOptions;
  readonly #arrival: PartsArrival;
  readonly #placements = new Placements();
  /** PartsExchange.E1; undefined before the first placement. */
  #base: Placement | undefined;
  #now: Placement | undefined;
  #rank = 0;
  /** The parts that come with `#now`. */
  #arriving: ReadonlyMap<number, number> = new Map();
  #hasArrived = true;
  /** Why parts do not come. */
  #failure: WeighbridgeError | undefined;
  #news = new Deferred<void>();

  constructor(options: PartsExchangeOptions) {
    this.#options = options;
    this.#arrival = new PartsArrival({ ...options, take: (parts) => this.#load(parts) });
  }

  /** Whether parts come or go. */
  get isUnderWay(): boolean {
    return this.#options.ownership.isSettling;
  }

  /** Whether this server has the state of a part (PartsExchange.E1). */
  holds(part: number): boolean {
    return this.#base?.ownerOf(part) === this.#rank;
  }

  /**
   * Adopts the placement if it is newer, as the server of this rank. Parts of that of epoch `handedOver` are with their
   * owners. Throws ARENA_FULL.
   */
  follow(next: PlacementView, rank: number, handedOver = 0): void {
    this.#handOver(handedOver);
    if (next.epoch > this.#options.ownership.epoch) {
      if (this.#base !== undefined) this.#options.journal?.placement(next); // the first one comes with the log
      const { teller } = this.#take(next, rank);
      if (!this.#hasArrived) void this.#arrive(next.epoch, teller);
    }
    this.#handOver(handedOver);
  }

  // The same, by a log (PartsExchange.E4).

  repeatPlacement(next: PlacementView, rank: number): void {
    if (next.epoch > this.#options.ownership.epoch) this.#take(next, rank);
  }

  repeatArrived(parts: DepartedParts): void {
    loadDeparted(parts, this.#options);
  }

  repeatHandedOver(epoch: number): void {
    if (epoch === this.#now?.epoch) this.#finish();
  }

  #load(parts: DepartedParts): void {
    this.#options.journal?.arrived(parts);
    loadDeparted(parts, this.#options);
  }

  #take(next: PlacementView, rank: number): { readonly teller: number | undefined } {
    const { ownership, departure, parameters } = this.#options;
    const now = this.#placements.of(next);
    this.#rank = rank;
    this.#dropUnfinished();
    this.#now = now;
    if (this.#base === undefined) {
      this.#base = now;
      ownership.adopt(next, rank);
      this.#wake();
      return { teller: undefined };
    }
    const { arriving, leaving, teller, isTelling } = exchangeOf(this.#base, now, rank);
    departure.begin({ epoch: now.epoch, parts: leaving });
    this.#arriving = arriving;
    this.#hasArrived = arriving.size === 0 && teller === undefined;
    this.#failure = undefined;
    const before = ownership.epoch;
    ownership.adopt(next, rank, { isSettling: !this.#hasArrived || leaving.size > 0 || isTelling });
    if (!now.servers.includes(rank)) {
      const error = ownership.wrongEpoch(before);
      parameters.pacer.lot.failEverybody(error); // PartsExchange.E3
      this.#options.onLeft(error);
    }
    this.#wake();
    return { teller };
  }

  /** Pages of parts that were not handed over go. */
  #dropUnfinished(): void {
    this.#arrival.cancel();
    const state = new PartState(this.#options.parameters);
    const unfinished = this.#arriving;
    this.#arriving = new Map();
    for (const part of unfinished.keys()) state.dropPart(part);
    const over = new WeighbridgeError("ABORTED", "the parts have not come");
    this.#options.groups.drop((key) => unfinished.has(partOf(Number(key & LOW), Number(key >> 32n))), over);
  }

  async #arrive(epoch: number, teller: number | undefined): Promise<void> {
    const { log } = this.#options;
    try {
      await this.#arrival.fetch({ epoch, sources: new Set(this.#arriving.values()), teller });
      this.#hasArrived = true;
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "ABORTED")) return; // another placement has come
      this.#failure = asError(thrown, "HANDLER_FAILED");
      log.warn("parts cannot come", { epoch, reason: this.#failure.message });
    }
    this.#wake();
  }

  /**
   * The scheduler has decided that the parts of the placement of this epoch are with their owners. That a later one is
   * handed over says nothing of this one: it may be what was taken back (PlacementChanges.C6).
   */
  #handOver(epoch: number): void {
    if (epoch !== this.#now?.epoch || this.#now === this.#base) return;
    this.#options.journal?.handedOver(epoch);
    this.#finish();
  }

  /** All has arrived, on all servers (PlacementChanges.C7), here maybe in another process. */
  #finish(): void {
    const { ownership, departure, journal, parameters } = this.#options;
    const hasGrown = this.#arriving.size > 0;
    this.#base = this.#now;
    this.#hasArrived = true;
    this.#arriving = new Map();
    departure.handOver();
    if (journal !== undefined) departure.dropAll(); // a part that is here and not this server's is in no digest
    if (ownership.isSettling) ownership.settled();
    if (hasGrown) parameters.host.noteGrowth(); // not before: a page of the system may take as long as the whole step
    this.#wake();
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = new Deferred();
  }

  /** Ends when all parts that the placement of this epoch brings are here, or a later one has come. Throws why not. */
  async arrived(epoch: number): Promise<void> {
    const { ownership } = this.#options;
    while (ownership.epoch < epoch || (ownership.epoch === epoch && !this.#hasArrived)) {
      const failure = ownership.epoch === epoch ? this.#failure : undefined;
      if (failure !== undefined) throw new WeighbridgeError(failure.code, failure.message, { cause: failure });
      await this.#news.promise;
    }
    await this.#options.journal?.whenCommitted(); // PartsExchange.E4
  }

  /** Ends when this server serves by the placement of this epoch, or by a later one. Throws CLOSED. */
  async served(epoch: number): Promise<void> {
    while (this.#options.ownership.servedEpoch < epoch) {
      if (isWeighbridgeError(this.#failure, "CLOSED")) throw this.#failure;
      await this.#news.promise;
    }
  }

  /**
   * What would leave by the placement that is prepared, and how much room there is. Throws a retryable QUEUE_FULL while
   * parts of the one before come or go.
   */
  weigh({ placement }: PrepareRequest): PrepareReply {
    const { ownership, parameters } = this.#options;
    if (ownership.isSettling)
      throw new WeighbridgeError("QUEUE_FULL", `server ${ownership.rank} is still exchanging parts of the previous placement`, {
        retryable: true,
      });
    if (placement === undefined) return {};
    const now = this.#placements.of(placement);
    const state = new PartState(parameters);
    const bytesOf = new Map<number, number>();
    for (const part of this.#base?.partsOf(this.#rank) ?? []) {
      const owner = now.ownerOf(part);
      if (owner !== ownership.rank) bytesOf.set(owner, (bytesOf.get(owner) ?? 0) + state.weighPart(part));
    }
    return { leaving: [...bytesOf].flat(), roomBytes: parameters.host.arena.stateFreeBytes };
  }

  close(): void {
    this.#arrival.cancel();
    this.#failure ??= new WeighbridgeError("CLOSED", "the server is closing");
    this.#wake();
  }
}

/** What changes for the server of this rank from the placement that was handed over to this one. */
function exchangeOf(base: Placement, now: Placement, rank: number): Exchange {
  const arriving = new Map<number, number>();
  const leaving = new Map<number, number>();
  for (let part = 0; part < PART_COUNT; part++) {
    const [holder, owner] = [base.ownerOf(part), now.ownerOf(part)];
    if (holder === owner) continue;
    if (owner === rank) arriving.set(part, holder);
    if (holder === rank) leaving.set(part, owner);
  }
  const teller = base.servers.find((other) => now.servers.includes(other)) ?? base.servers[0];
  const isComing = now.servers.includes(rank) && !base.servers.includes(rank);
  const isTelling = teller === rank && now.servers.some((other) => !base.servers.includes(other));
  return { arriving, leaving, teller: isComing ? teller : undefined, isTelling };
}
