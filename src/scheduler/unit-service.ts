// unit-service — answers workers that request units, at once or when there are some. shard-ledger.ts decides who gets
// them.
//
// Invariants:
//   UnitService.K1. Every request is answered: when units are lent, when its epoch is over, or after `waitMs`; after a
//       restart of the scheduler once every node has resumed or is dead.
//   UnitService.K2. Requests are served in the order they came.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import type { RosterView } from "../wire/roster.ts";
import type { Runs, UnitsClaim, UnitsReply, UnitsRequest } from "../wire/units.ts";
import { ShardLedger } from "./shard-ledger.ts";

/** A worker that waits longer sends its request again. */
const WAIT_MS_MAX = 10_000;

type WaitingAsk = {
  readonly rank: number;
  readonly request: UnitsRequest;
  readonly lost: Runs;
  readonly reply: Deferred<UnitsReply>;
  /** Set once it may be answered with nothing. */
  isDue: boolean;
  cancelTimer: CancelTimer;
};

export class UnitService {
  readonly #clock: Clock;
  readonly #ledger: ShardLedger;
  readonly #waiting = new Set<WaitingAsk>();

  constructor({ clock, workerCount }: { readonly clock: Clock; readonly workerCount: number }) {
    this.#clock = clock;
    this.#ledger = new ShardLedger({ workerCount });
  }

  /** The roster as it is now. `isSettled`: every node that it lists as alive has sent something to this scheduler. */
  follow({ nodes }: RosterView, { isSettled }: { readonly isSettled: boolean }): void {
    const workers = nodes.filter(({ role }) => role === "worker");
    const present = workers.filter(({ state }) => state === "alive").map(({ rank }) => rank);
    this.#ledger.follow(
      present.sort((a, b) => a - b),
      workers.length,
    );
    if (isSettled) this.#ledger.settle();
    else this.#ledger.unsettle();
    this.#serveWaiting();
  }

  /** Its open request is answered with nothing: were it lent something now, its next incarnation would not know. */
  died(rank: number): void {
    this.#ledger.died(rank);
    for (const ask of this.#waiting) {
      if (ask.rank !== rank) continue;
      const { held } = ask.request;
      this.#settle(ask, { isOver: false, units: [], lost: held, repeatedCount: 0, inherited: undefined });
    }
    this.#serveWaiting();
  }

  /** What a worker reports after a restart of the scheduler. */
  recall(rank: number, claim: UnitsClaim): void {
    this.#ledger.recall(rank, claim);
  }

  /** Throws what the ledger does. */
  ask(rank: number, request: UnitsRequest): UnitsReply | Promise<UnitsReply> {
    const lost = this.#ledger.report(rank, request);
    this.#serveWaiting(); // UnitService.K2: the report may have given something back, or ended the epoch
    const isPatient = request.want > 0 && (request.waitMs > 0 || !this.#ledger.isSettled);
    const ask: WaitingAsk = { rank, request, lost, reply: new Deferred(), isDue: !isPatient, cancelTimer: () => {} };
    const reply = this.#answerTo(ask);
    if (request.assignment === "rounds") this.#serveWaiting(); // they may have a share of what was dealt for this one
    if (reply !== undefined) return reply;
    this.#waiting.add(ask);
    ask.cancelTimer = this.#clock.after(Math.min(request.waitMs, WAIT_MS_MAX), () => {
      ask.isDue = true;
      this.#serve(ask);
    });
    return ask.reply.promise;
  }

  /** Nobody is lent anything any more. */
  close(error: WeighbridgeError): void {
    for (const ask of this.#waiting) {
      ask.cancelTimer();
      ask.reply.reject(error);
    }
    this.#waiting.clear();
  }

  #serveWaiting(): void {
    for (const ask of this.#waiting) this.#serve(ask);
  }

  #serve(ask: WaitingAsk): void {
    const reply = this.#answerTo(ask);
    if (reply !== undefined) this.#settle(ask, reply);
  }

  #settle(ask: WaitingAsk, reply: UnitsReply): void {
    ask.cancelTimer();
    this.#waiting.delete(ask);
    ask.reply.resolve(reply);
  }

  #answerTo({ rank, request, lost, isDue }: WaitingAsk): UnitsReply | undefined {
    const outcome = this.#ledger.lend(rank, request);
    const isBehind = (outcome.clock ?? 0) > (request.clock ?? 0); // the others may wait for its clock
    const isWorthIt = outcome.isOver || outcome.units.length > 0 || isBehind || (isDue && (this.#ledger.isSettled || request.want === 0));
    return isWorthIt ? { ...outcome, lost } : undefined;
  }
}
