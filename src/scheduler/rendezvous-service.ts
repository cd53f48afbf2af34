// rendezvous-service — answers workers that wait for each other. cluster/rendezvous.ts decides when they may go on.
//
// Invariants:
//   RendezvousService.S1. Every request is answered: when its generation is held, or after its `waitMs`, WAIT_MS_MAX at
//       most, with those who are missing.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import { type LiveWorker, Rendezvous } from "../cluster/rendezvous.ts";
import type { RendezvousHeld, RendezvousName, RendezvousReply, RendezvousRequest } from "../wire/control.ts";
import type { RosterView } from "../wire/roster.ts";

/** A worker that waits longer sends its request again. */
const WAIT_MS_MAX = 10_000;

type Waiting = { readonly rendezvous: RendezvousName; readonly reply: Deferred<RendezvousReply>; cancelTimer: CancelTimer };

export class RendezvousService {
  readonly #clock: Clock;
  readonly #rendezvous = new Rendezvous();
  readonly #waiting = new Set<Waiting>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** The roster as it is now. */
  follow({ nodes }: RosterView): void {
    const live = nodes.filter(({ role, state }) => role === "worker" && state === "alive");
    this.#settle(this.#rendezvous.follow(live.sort((a, b) => a.rank - b.rank)));
  }

  /** What a worker reports after a restart of the scheduler. */
  recall(held: readonly RendezvousHeld[]): void {
    for (const { values, ...rendezvous } of held) this.#settle(this.#rendezvous.recall(rendezvous, values));
  }

  /** Throws QUEUE_FULL. */
  come(worker: LiveWorker, { value, waitMs, ...rendezvous }: RendezvousRequest): RendezvousReply | Promise<RendezvousReply> {
    this.#settle(this.#rendezvous.come(worker, rendezvous, value));
    const reply = this.#answerTo(rendezvous);
    if (reply.values !== undefined || waitMs === 0) return reply;
    const waiting: Waiting = { rendezvous, reply: new Deferred(), cancelTimer: () => {} };
    this.#waiting.add(waiting);
    // RendezvousService.S1
    waiting.cancelTimer = this.#clock.after(Math.min(waitMs, WAIT_MS_MAX), () => this.#answer(waiting));
    return waiting.reply.promise;
  }

  /** Nobody waits any more. */
  close(error: WeighbridgeError): void {
    for (const { cancelTimer, reply } of this.#waiting) {
      cancelTimer();
      reply.reject(error);
    }
    this.#waiting.clear();
  }

  #settle(held: readonly RendezvousName[]): void {
    if (held.length === 0) return;
    const isHeld = ({ name, generation }: RendezvousName): boolean =>
      held.some((one) => one.name === name && one.generation === generation);
    for (const waiting of this.#waiting) if (isHeld(waiting.rendezvous)) this.#answer(waiting);
  }

  #answer(waiting: Waiting): void {
    waiting.cancelTimer();
    this.#waiting.delete(waiting);
    waiting.reply.resolve(this.#answerTo(waiting.rendezvous));
  }

  #answerTo(rendezvous: RendezvousName): RendezvousReply {
    const state = this.#rendezvous.stateOf(rendezvous);
    return state.isHeld ? { values: state.values } : { missing: state.missing };
  }
}
