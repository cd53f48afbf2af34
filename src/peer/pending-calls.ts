// pending-calls — the calls that left on a channel and have no answer yet, by their numbers: 1, 2, 3 … in the order they left. Knows which of
// them are to leave again. Pure.
//
// Invariants:
//   C1. A number is given once per life of the other node, also when its call is given up.
//   C2. `first` is the lowest number without an answer; everything below is settled.
//   C3. Calls leave again in the order of their numbers, from `resendFrom` on, before any new one.

import { RingQueue } from "../base/ring-queue.ts";
import type { Call } from "./call.ts";

export class PendingCalls {
  /** By number, `first` at the head; undefined: settled, behind one that is not. */
  readonly #calls = new RingQueue<Call | undefined>();
  #first = 1;
  #next = 1;
  /** Position of the next call to leave again; at the length: none. */
  #resendAt = 0;
  /** The first call that was given up, until a later one is answered: the other side may or may not have seen it; 0: none was. */
  #givenUpFrom = 0;

  /** Calls that are kept, and settled ones behind them. */
  get length(): number {
    return this.#calls.length;
  }

  get openCount(): number {
    let count = 0;
    for (let i = 0; i < this.#calls.length; i++) if (this.#calls.at(i) !== undefined) count++;
    return count;
  }

  /** C2 */
  get first(): number {
    return this.#first;
  }

  /** The number the next call will have. */
  get next(): number {
    return this.#next;
  }

  get isResending(): boolean {
    return this.#resendAt < this.#calls.length;
  }

  /** The call leaves for the first time, now: it gets its number. Not while others leave again (C3). */
  add(call: Call): void {
    call.request = this.#next++;
    this.#calls.push(call);
    this.#resendAt++;
  }

  /** The call with this number, unless it is settled or was never made. */
  at(request: number): Call | undefined {
    return request < this.#first ? undefined : this.#calls.at(request - this.#first);
  }

  /** Another call stands for this one from now on, under its number. */
  replace(call: Call, by: Call): void {
    this.#calls.replace(call.request - this.#first, by);
  }

  /** The call with this number has its answer. */
  settle(request: number): void {
    this.#givenUpFrom = 0;
    this.#calls.replace(request - this.#first, undefined);
    while (this.#calls.length > 0 && this.#calls.at(0) === undefined) {
      this.#calls.shift();
      this.#first++;
      if (this.#resendAt > 0) this.#resendAt--;
    }
  }

  /** This call and all behind it are to leave again. */
  resendFrom(request: number): void {
    this.#resendAt = Math.min(this.#resendAt, Math.max(0, request - this.#first));
  }

  /** The next call that is to leave again. */
  nextResend(): Call | undefined {
    while (this.#resendAt < this.#calls.length) {
      const call = this.#calls.at(this.#resendAt++);
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /** The number of the first call that has waited longer than `timeoutMs`, times how often it left; 0: none has. */
  overdue(nowMs: number, timeoutMs: number): number {
    for (let i = 0; i < this.#calls.length; i++) {
      const call = this.#calls.at(i);
      if (call !== undefined && nowMs - call.sentAtMs >= timeoutMs * Math.min(call.sendCount, 8)) return call.request;
    }
    return 0;
  }

  /** Takes all calls out, unanswered, with their numbers. Those are not used again, so that the same life of the other node takes new calls (C1). */
  giveUp(): Call[] {
    const calls: Call[] = [];
    if (this.#calls.length > 0) this.#givenUpFrom ||= this.#first;
    for (; this.#calls.length > 0; this.#first++) {
      const call = this.#calls.shift();
      if (call !== undefined) calls.push(call);
    }
    this.#resendAt = 0;
    return calls;
  }

  /** The other node has a new life: numbers begin anew. Only after `giveUp`. */
  restart(): void {
    this.#first = 1;
    this.#next = 1;
    this.#givenUpFrom = 0;
  }

  /** Whether a node that expects this request next can go on where we stand; if not, it has forgotten the conversation. */
  canResumeAt(expects: number): boolean {
    return expects >= (this.#givenUpFrom || this.#first) && expects <= this.#next;
  }
}
