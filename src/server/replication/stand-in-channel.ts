// stand-in-channel — on a standby, the channel of a worker of which only its head hears: handlers answer it as if the
// worker were there. Answers that could not be made again are kept by stamp, for the worker that sends its updates
// again when the standby has taken over; all others are dropped.
//
// Invariants:
//   StandIn.K1. An answer that its handler keeps is kept here until the worker has it: the head's frames say which
//       requests are settled. What the worker may still ask for is there when it comes.

import type { Answer } from "../../peer/answer.ts";
import { Channel } from "../../peer/channel.ts";
import type { FrameHeader } from "../../wire/frame.ts";

/** `request` is the number on the head's channel. */
export type KeptAnswer = { readonly request: number; readonly answers: readonly Answer[] };

export class StandInChannel extends Channel {
  /** By the stamps of the updates, in their order. */
  readonly #kept = new Map<number, KeptAnswer>();
  /** Of heads before the one that filled this standby: their numbers say nothing, so they stay. */
  readonly #inherited = new Map<number, KeptAnswer>();
  /** What is done when a request is settled, by its number, in their order. */
  readonly #ends = new Map<number, () => void>();
  /** The frame that is being handled. */
  #request = 0;
  #stamp = 0;

  /** This frame is handled next. */
  begin({ request, stamp, settled }: FrameHeader): void {
    this.#request = request;
    this.#stamp = stamp;
    if (this.#kept.size > 0 || this.#ends.size > 0) this.#forget(settled);
  }

  /** Calls `ended` when the worker has the answer to this request. */
  whenSettled(request: number, ended: () => void): void {
    this.#ends.set(request, ended);
  }

  override acknowledge(): void {}

  override answerCopy(): void {}

  /** StandIn.K1. One that comes later is not: functions whose answers are kept answer at once on replicated servers. */
  override answerRemembered(request: number, answers: readonly Answer[]): void {
    if (request === this.#request && this.#stamp !== 0) this.#kept.set(this.#stamp, { request, answers });
  }

  /** The answer to the update of this stamp, if it is kept. */
  answerOf(stamp: number): readonly Answer[] | undefined {
    return (this.#kept.get(stamp) ?? this.#inherited.get(stamp))?.answers;
  }

  /** All that are kept. */
  *kept(): Iterable<readonly Answer[]> {
    for (const { answers } of this.#inherited.values()) yield answers;
    for (const { answers } of this.#kept.values()) yield answers;
  }

  /** Keeps an answer of the head, which has no number for its request if it took it over itself. */
  keep(stamp: number, kept: KeptAnswer): void {
    (Number.isFinite(kept.request) ? this.#kept : this.#inherited).set(stamp, kept);
  }

  forgetAnswers(): void {
    this.#kept.clear();
    this.#inherited.clear();
  }

  #forget(settled: number): void {
    for (const [stamp, { request }] of this.#kept) {
      if (request >= settled) break;
      this.#kept.delete(stamp);
    }
    for (const [request, ended] of this.#ends) {
      if (request >= settled) break;
      this.#ends.delete(request);
      ended();
    }
  }
}
