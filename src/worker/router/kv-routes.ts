// kv-routes — where the requests of the kv face go: the keys of each server's range, or those that the application's
// slicer gives it. What servers refuse because the placement has changed is cut by the new ranges (kv-recut.ts). The
// router's invariants hold (Router.R1 to R6).

import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, WeighbridgeError, withOutcome } from "../../base/errors.ts";
import { type Cuts, problemWithCuts, type Slicer, sliceByRange, soleOwner } from "../../keys/key-list.ts";
import { detachedError } from "../../peer/call.ts";
import { outcomeOf } from "../../peer/call-outcome.ts";
import { failedUpdate } from "../../peer/unheard-update.ts";
import { idOf, nameOf } from "../../wire/node-id.ts";
import type { KvRouter } from "../kv-arrays.ts";
import { FloatWindow } from "../kv-landing.ts";
import { cutPart, eachPart, fitsOneFrame, type KvCall, type KvRequest } from "../kv-request.ts";
import { updateFailure } from "../part-outcome.ts";
import type { Router } from "../router.ts";
import { cutKvAgain } from "./kv-recut.ts";

/** Where a request begins. */
const WHOLE = { keyFrom: 0, valueFrom: 0 };
/** How many requests wait at most while the placement changes. */
const WAITING_MAX = 65_536;

/** Those of this router: one for all who make requests of the kv face on a node. */
export function kvRoutesOf(router: Router): KvRoutes {
  router.kv ??= new KvRoutes(router);
  return router.kv;
}

export class KvRoutes implements KvRouter {
  readonly window: FloatWindow = new FloatWindow();
  readonly #router: Router;
  readonly #refused: (KvCall | KvRequest)[] = [];
  /** Requests that were made while the placement changed. */
  readonly #waiting: KvRequest[] = [];

  constructor(router: Router) {
    this.#router = router;
  }

  /**
   * Sends the request: each server gets the keys of its range, or those that the application's slicer gives it. Throws
   * QUEUE_FULL and BAD_ARGUMENT (of the slicer), nothing sent.
   */
  submit(request: KvRequest): void {
    const router = this.#router;
    request.order = ++router.order;
    const isWhole = router.held === undefined && request.special?.slicer === undefined && fitsOneFrame(request);
    if (!isWhole || !submitWhole(request, router)) this.#submitOther(request);
  }

  /** Not in `submit`, which V8 inlines into the path of a small request only while it is short. */
  #submitOther(request: KvRequest): void {
    try {
      this.#submitParts(request);
    } catch (thrown) {
      throw request.sent === undefined ? thrown : failedUpdate(thrown);
    }
  }

  #submitParts(request: KvRequest): void {
    const { keys, special } = request;
    const slicer = special?.slicer;
    if (slicer !== undefined) this.#submitCut(request, this.#ownCuts(slicer, keys));
    else if (this.#router.held === undefined) this.#submitCut(request, sliceByRange(keys, this.#router.ranges));
    else if (this.#waiting.length < WAITING_MAX) this.#waiting.push(request);
    else {
      const message = `${WAITING_MAX} requests wait for a change of the placement: await room() first`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
  }

  #ownCuts(slicer: Slicer, keys: BigUint64Array): Cuts {
    const cuts = slicer(keys, this.#router.ranges);
    const problem = problemWithCuts(cuts, keys.length, this.#router.ranges.length);
    if (problem === undefined) return cuts;
    throw badArgument(`the slicer gave ${problem}`);
  }

  #submitCut(request: KvRequest, cuts: Cuts, isForced = false): void {
    const restarted = this.#restartedAmong(request, (_, i) => cuts[i] !== cuts[i + 1]);
    if (restarted.length > 0) {
      this.#router.clock.soon(() => request.owner.ended(request, notSentBy(request, lostError(restarted))));
      return;
    }
    const callsOfRank: (readonly KvCall[])[] = [];
    const epoch = request.isAppCut ? 0 : this.#router.epoch; // Router.R5
    let callCount = 0;
    eachPart(request, cuts, WHOLE, (part, range) => {
      const rank = this.#router.servers[range] as number;
      const calls = cutPart(request, part, epoch);
      if (!isForced) this.#router.channels[rank]?.checkRoom(calls.length, ": await room() first"); // Router.R1
      callsOfRank[rank] = calls;
      callCount += calls.length;
    });
    request.open(callCount);
    if (request.sent !== undefined) this.#router.openUpdates++;
    this.#send(callsOfRank);
  }

  /** This request's servers that were restarted since its KVWorker last asked; known from now on (Router.R6). */
  #restartedAmong({ owner: { incarnations } }: KvRequest, isAsked: (rank: number, index: number) => boolean): readonly number[] {
    return this.#router.servers.filter((rank, i) => {
      const incarnation = this.#router.channels[rank]?.since ?? 0;
      if (incarnation === incarnations[rank] || !isAsked(rank, i)) return false;
      const wasKnown = (incarnations[rank] ?? 0) !== 0; // 0: the roster had not named it yet
      incarnations[rank] = incarnation;
      return wasKnown;
    });
  }

  kvEnded(request: KvRequest, failure: WeighbridgeError | undefined): void {
    const router = this.#router;
    if (request.sent !== undefined) router.openUpdates--;
    request.owner.ended(request, failure === undefined || request.sent === undefined ? failure : failureOf(request, failure));
    if (router.held !== undefined) router.sendAgainSoon();
  }

  kvRefused(call: KvCall | KvRequest, error: WeighbridgeError): boolean {
    const { kvRequest: request } = call;
    if (!call.isIntact || !this.#router.isCutAgain(call.epoch, error)) return false;
    this.#refused.push(call);
    request.frameRefused();
    if (request.isRefused) this.kvAllRefused(request);
    return true;
  }

  kvAllRefused(request: KvRequest): void {
    if (request.sent !== undefined) this.#router.openUpdates--;
    this.#router.sendAgainSoon();
  }

  /** Resolves once half of the queue to every server is free: the next request is taken then, however large. */
  async room(wait: WaitOptions = {}): Promise<void> {
    await this.#router.room(wait);
  }

  get hasRefused(): boolean {
    return this.#refused.length > 0;
  }

  /** Cuts what was refused by the new ranges, and sends it, in the order in which it was first sent. */
  sendAgain(): void {
    const callsOf = new Map<KvRequest, (KvCall | KvRequest)[]>();
    for (const call of this.#refused.splice(0)) {
      const calls = callsOf.get(call.kvRequest);
      if (calls === undefined) callsOf.set(call.kvRequest, [call]);
      else calls.push(call);
    }
    for (const [request, refused] of [...callsOf].sort(([a], [b]) => a.order - b.order)) this.#sendOneAgain(request, refused);
  }

  #sendOneAgain(request: KvRequest, refused: readonly (KvCall | KvRequest)[]): void {
    const callsOfRank: (readonly KvCall[])[] = [];
    let callCount = 0;
    if (request.isIntact)
      cutKvAgain(request, refused, { ranges: this.#router.ranges, epoch: this.#router.epoch }).forEach((calls, i) => {
        callsOfRank[this.#router.servers[i] as number] = calls;
        callCount += calls.length;
      });
    const restarted = this.#restartedAmong(request, (rank) => (callsOfRank[rank]?.length ?? 0) > 0);
    const error = request.isIntact ? undefined : detachedError({ isUpdate: request.sent !== undefined, sendCount: 1 });
    const failure = restarted.length > 0 ? lostError(restarted) : error;
    request.replaceRefused(refused.length, failure === undefined ? callCount : 1);
    if (request.sent !== undefined) this.#router.openUpdates++;
    if (failure === undefined) this.#send(callsOfRank);
    else {
      const [rank = 0] = restarted;
      if (request.sent !== undefined) request.note(rank, "not-applied");
      request.frameFailed(failure);
    }
  }

  /** Sends what waited for the placement. */
  sendWaiting(): void {
    for (const request of this.#waiting.splice(0)) this.#submitLate(request);
  }

  #submitLate(request: KvRequest): void {
    if (request.isIntact) this.#submitCut(request, sliceByRange(request.keys, this.#router.ranges), true);
    else request.owner.ended(request, detachedError({ isUpdate: request.sent !== undefined, sendCount: 0 }));
  }

  /** Sends calls to the servers of these ranks. */
  #send(callsOfRank: readonly (readonly KvCall[] | undefined)[]): void {
    for (let rank = 0; rank < callsOfRank.length; rank++) {
      const calls = callsOfRank[rank];
      if (calls === undefined) continue;
      const channel = this.#router.reachable[rank];
      for (const call of calls) call.server = rank;
      if (channel === undefined) this.#router.failSoon(rank, calls);
      else for (const call of calls) channel.send(call, true);
    }
  }
}

/** Sends to the one server that owns all its keys, if there is one and the request may leave now. */
function submitWhole(request: KvRequest, router: Router): boolean {
  const owner = soleOwner(request.keys, router.ranges);
  if (owner < 0) return false;
  const rank = router.servers[owner] as number;
  const channel = router.reachable[rank];
  if (channel === undefined || channel.room <= 0) return false;
  if (request.owner.incarnations[rank] !== channel.since) return false;
  request.epoch = router.epoch;
  request.open(1);
  if (request.sent !== undefined) router.openUpdates++;
  channel.send(request, true);
  return true;
}

/** The failure of an update, with what became of it. One in one frame is its own call, and has noted nothing. */
function failureOf(request: KvRequest, failure: WeighbridgeError): WeighbridgeError {
  const { outcomes } = request;
  const told = outcomes === undefined ? withOutcome(failure, outcomeOf(failure, [request])) : updateFailure(failure, outcomes);
  return failedUpdate(told) as WeighbridgeError;
}

/** That of a request of which nothing was sent. */
function notSentBy({ sent }: KvRequest, failure: WeighbridgeError): WeighbridgeError {
  return sent === undefined ? failure : withOutcome(failure, "not-applied");
}

/** Router.R6 */
function lostError(ranks: readonly number[]): WeighbridgeError {
  const names = ranks.map((rank) => nameOf(idOf("server", rank))).join(", ");
  const [was, has, it] = ranks.length === 1 ? ["was", "has", "it"] : ["were", "have", "them"];
  const message = `${names} ${was} started again and ${has} lost all that was pushed to ${it}; nothing was sent: push it anew, the next request is served`;
  return new WeighbridgeError("NODE_DEAD", message);
}
