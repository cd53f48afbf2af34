// unit-service — answers workers that request units, at once or when there are some. shard-ledger.ts decides who gets
// them.
//
// Invariants:
//   UnitService.K1. Every request is answered: when units are lent, when its epoch is over, or after `waitMs`; after a
//       restart of the scheduler once every node has resumed or is dead.
//   UnitService.K2. Requests are served in the order they came.
//   UnitService.K3. What a worker had when it was lost is logged, with the numbers of units.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { RosterView } from "../wire/roster.ts";
import type { UnitsReply, UnitsRequest } from "../wire/units.ts";
import type { Runs, UnitsClaim } from "../wire/units-claim.ts";
import { type LostShare, ShardLedger } from "./shard-ledger.ts";

/** A worker that waits longer sends its request again. */
const WAIT_MS_MAX = 10_000;

type WaitingRequest = {
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
  readonly #log: Log;
  readonly #ledger: ShardLedger;
  readonly #waiting = new Set<WaitingRequest>();

  constructor({ clock, workerCount, log }: { readonly clock: Clock; readonly workerCount: number; readonly log: Log }) {
    this.#clock = clock;
    this.#log = log;
    this.#ledger = new ShardLedger({ workerCount });
  }

  /** The roster as it is now. `isSettled`: every node that it lists as alive has sent something to this scheduler. */
  follow({ nodes }: RosterView, { isSettled }: { readonly isSettled: boolean }): void {
    const workers = nodes.filter(({ role }) => role === "worker");
    const present = workers.filter(({ state }) => state === "alive").map(({ rank }) => rank);
    this.#tell(
      this.#ledger.follow(
        present.sort((a, b) => a - b),
        workers.length,
      ),
    );
    if (isSettled) this.#ledger.settle();
    else this.#ledger.unsettle();
    this.#serveWaiting();
  }

  /** Its open request is answered with nothing: were it lent something now, its next incarnation would not know. */
  died(rank: number): void {
    this.#tell(this.#ledger.died(rank));
    for (const waiting of this.#waiting) {
      if (waiting.rank !== rank) continue;
      const { held } = waiting.request;
      this.#settle(waiting, { isOver: false, units: [], lost: held, repeatedCount: 0, inherited: undefined });
    }
    this.#serveWaiting();
  }

  /** What a worker reports after a restart of the scheduler. */
  recall(rank: number, claim: UnitsClaim): void {
    this.#ledger.recall(rank, claim);
  }

  /** Throws what the ledger does. */
  request(rank: number, request: UnitsRequest): UnitsReply | Promise<UnitsReply> {
    const lost = this.#ledger.report(rank, request);
    this.#serveWaiting(); // UnitService.K2: the report may have given something back, or ended the epoch
    const isPatient = request.want > 0 && (request.waitMs > 0 || !this.#ledger.isSettled);
    const waiting: WaitingRequest = { rank, request, lost, reply: new Deferred(), isDue: !isPatient, cancelTimer: () => {} };
    const reply = this.#answerTo(waiting);
    if (request.assignment === "rounds") this.#serveWaiting(); // they may have a share of what was dealt for this one
    if (reply !== undefined) return reply;
    this.#waiting.add(waiting);
    waiting.cancelTimer = this.#clock.after(Math.min(request.waitMs, WAIT_MS_MAX), () => {
      waiting.isDue = true;
      this.#serve(waiting);
    });
    return waiting.reply.promise;
  }

  /** Nobody is lent anything any more. */
  close(error: WeighbridgeError): void {
    for (const waiting of this.#waiting) {
      waiting.cancelTimer();
      waiting.reply.reject(error);
    }
    this.#waiting.clear();
  }

  /** UnitService.K3 */
  #tell(lost: readonly LostShare[]): void {
    for (const { rank, name, epoch, partCount, lentCount, dealtCount } of lost) {
      const what = { worker: rank, epochOf: name, epoch, unitsPerBatch: partCount, lent: lentCount, dealt: dealtCount };
      this.#log.warn("a worker is gone, and its units are done by the others; those that it was lent may count twice", what);
    }
  }

  #serveWaiting(): void {
    for (const waiting of this.#waiting) this.#serve(waiting);
  }

  #serve(waiting: WaitingRequest): void {
    const reply = this.#answerTo(waiting);
    if (reply !== undefined) this.#settle(waiting, reply);
  }

  #settle(waiting: WaitingRequest, reply: UnitsReply): void {
    waiting.cancelTimer();
    this.#waiting.delete(waiting);
    waiting.reply.resolve(reply);
  }

  #answerTo({ rank, request, lost, isDue }: WaitingRequest): UnitsReply | undefined {
    const outcome = this.#ledger.lend(rank, request);
    const isBehind = (outcome.clock ?? 0) > (request.clock ?? 0); // the others may wait for its clock
    const isWorthIt = outcome.isOver || outcome.units.length > 0 || isBehind || (isDue && (this.#ledger.isSettled || request.want === 0));
    return isWorthIt ? { ...outcome, lost } : undefined;
  }
}
