// parts-exchange — what a server does when the placement changes: it adopts it, gives away the parts that have another
// owner now, fetches those that are its own, and serves by it when both are done (docs/decisions/0072).
// parts-departure.ts and parts-arrival.ts are the two sides.
//
//   a placement comes ──► nothing comes or goes here: adopted and served
//                     └── adopted, its requests wait ──► all has come, and all that goes was taken: served
//                                                    └── that cannot be: not served; the scheduler takes the placement
//                                                    back
//
// Invariants:
//   PartsExchange.E1. A part is held by one server: by its source until its new owner has all of it and the source
//       knows, by the new owner from then on. Which parts a server holds, and not which placement came before, says
//       what comes and goes.
//   PartsExchange.E2. While parts come or go this server serves nothing by the new placement, and nothing at all that a
//       worker asks of it: what is not a part's stays as it is, too. Deaths of workers are taken note of afterwards.
//   PartsExchange.E3. A server that comes into the placement learns first what is not a part's, from the lowest rank
//       that stays in it. One that leaves it answers nobody who waits there: they ask where the parts are now.

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
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
import { PartsArrival } from "./parts-arrival.ts";
import type { PartsDeparture } from "./parts-departure.ts";

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
  /** Of a server that lives. */
  readonly incarnationOf: (rank: number) => number | undefined;
};

export class PartsExchange {
  readonly #options: PartsExchangeOptions;
  readonly #arrival: PartsArrival;
  readonly #placements = new Placements();
  /** PartsExchange.E1; undefined before the first placement. */
  #held: Set<number> | undefined;
  #placement: Placement | undefined;
  /** By part that is not here yet: the rank that holds it. */
  readonly #sources = new Map<number, number>();
  /** Whether this server knows what is not a part's. */
  #isMember = false;
  #hasArrived = true;
  /** Why parts do not come. */
  #failure: WeighbridgeError | undefined;
  #settled = new Deferred<void>();

  constructor(options: PartsExchangeOptions) {
    this.#options = options;
    this.#arrival = new PartsArrival(options);
    options.departure.onTaken = (parts) => {
      for (const part of parts) this.#held?.delete(part);
      this.#review();
    };
  }

  /** Whether parts come or go. */
  get isUnderWay(): boolean {
    return this.#options.ownership.isSettling;
  }

  /** Whether this server has the state of a part (PartsExchange.E1). */
  holds(part: number): boolean {
    return this.#held?.has(part) === true;
  }

  /** Adopts the placement if it is newer, as the server of this rank. Throws ARENA_FULL. */
  take(next: PlacementView, rank: number): void {
    const { ownership } = this.#options;
    if (next.epoch <= ownership.epoch) return;
    const [before, now] = [this.#placement, this.#placements.of(next)];
    this.#placement = now;
    if (before === undefined || this.#held === undefined) {
      this.#held = new Set(now.partsOf(rank));
      this.#isMember = now.servers.includes(rank);
      ownership.adopt(next, rank);
      return;
    }
    this.#exchange(before, now, rank, next);
  }

  #exchange(before: Placement, now: Placement, rank: number, next: PlacementView): void {
    const { ownership, departure, parameters } = this.#options;
    const held = this.#held;
    assert(held !== undefined, "a placement came before");
    const teller = before.servers.find((other) => now.servers.includes(other)) ?? before.servers[0];
    const isComing = now.servers.includes(rank) && !this.#isMember;
    this.#dropUnfinished(held);
    this.#noteSources(before, now, rank);
    const leaving = new Map([...held].filter((part) => now.ownerOf(part) !== rank).map((part) => [part, now.ownerOf(part)]));
    const joiners = teller === rank ? now.servers.filter((other) => !before.servers.includes(other)) : [];
    const takers = new Map([...joiners, ...leaving.values()].map((taker) => [taker, this.#options.incarnationOf(taker) ?? 0]));
    departure.begin({ epoch: now.epoch, parts: leaving, takers });
    this.#hasArrived = this.#sources.size === 0 && !isComing;
    this.#failure = undefined;
    ownership.adopt(next, rank, { isSettling: takers.size > 0 || !this.#hasArrived });
    if (!now.servers.includes(rank)) {
      this.#isMember = false;
      const error = ownership.wrongEpoch(before.epoch);
      parameters.pacer.lot.failEverybody(error); // PartsExchange.E3
      this.#options.onLeft(error);
    }
    if (!this.#hasArrived) void this.#arrive(now.epoch, isComing ? teller : undefined);
    this.#wake();
  }

  /** Pages of parts that did not come as a whole go. */
  #dropUnfinished(held: ReadonlySet<number>): void {
    this.#arrival.cancel();
    const state = new PartState(this.#options.parameters);
    const unfinished = new Set([...this.#sources.keys()].filter((part) => !held.has(part)));
    for (const part of unfinished) state.dropPart(part);
    const over = new WeighbridgeError("ABORTED", "the parts have not come");
    this.#options.groups.drop((key) => unfinished.has(partOf(Number(key & LOW), Number(key >> 32n))), over);
  }

  #noteSources(before: Placement, now: Placement, rank: number): void {
    for (let part = 0; part < PART_COUNT; part++) {
      if (now.ownerOf(part) !== rank || this.#held?.has(part) === true) this.#sources.delete(part);
      else if (before.ownerOf(part) !== rank) this.#sources.set(part, before.ownerOf(part));
    }
  }

  async #arrive(epoch: number, teller: number | undefined): Promise<void> {
    const { log } = this.#options;
    const parts = new Map<number, number[]>();
    for (const [part, source] of this.#sources) parts.set(source, [...(parts.get(source) ?? []), part]);
    try {
      await this.#arrival.fetch({ epoch, parts, teller }, (taken) => {
        for (const part of taken) {
          this.#held?.add(part);
          this.#sources.delete(part);
        }
      });
      this.#isMember = true;
      this.#hasArrived = true;
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "ABORTED")) return; // another placement has come
      this.#failure = isWeighbridgeError(thrown) ? thrown : new WeighbridgeError("HANDLER_FAILED", reasonOf(thrown), { cause: thrown });
      log.warn("parts cannot come", { epoch, reason: this.#failure.message });
    }
    this.#review();
  }

  /** The roster has changed, or something has come or gone. */
  review(): void {
    this.#review();
  }

  #review(): void {
    const { ownership, departure } = this.#options;
    if (ownership.isSettling && this.#hasArrived && !departure.isUnderWay) ownership.settled();
    this.#wake();
  }

  #wake(): void {
    this.#settled.resolve();
    this.#settled = new Deferred();
  }

  /**
   * Ends when all parts of the placement of this epoch are where they belong, as far as this server has to do with it.
   */
  async settled(epoch: number): Promise<void> {
    const { ownership, departure, incarnationOf } = this.#options;
    for (;;) {
      if (ownership.epoch > epoch || (ownership.epoch === epoch && !ownership.isSettling)) return;
      const failure = ownership.epoch === epoch ? (this.#failure ?? departure.failure(incarnationOf)) : undefined;
      if (failure !== undefined) throw new WeighbridgeError(failure.code, failure.message, { cause: failure });
      await this.#settled.promise;
    }
  }

  /**
   * What would leave by the placement that is prepared, and how much room there is. Throws a retryable QUEUE_FULL while
   * parts of the one before come or go.
   */
  weigh({ placement }: PrepareRequest): PrepareReply {
    const { ownership, parameters } = this.#options;
    if (ownership.isSettling)
      throw new WeighbridgeError("QUEUE_FULL", `parts of the placement before come to or go from server ${ownership.rank}`, {
        retryable: true,
      });
    if (placement === undefined) return {};
    const now = this.#placements.of(placement);
    const state = new PartState(parameters);
    const bytesOf = new Map<number, number>();
    for (const part of this.#held ?? []) {
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
