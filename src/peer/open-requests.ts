// open-requests — the requests that are open between two nodes, by their numbers on the channel: 1, 2, 3 … in the order they left. PendingCalls are ours to the
// other node, UpdateFates what became of those of them that were given up, ReceivedRequests its to us. Pure.
//
// A lost request leaves a gap, and everything behind it is refused until it was sent again (go-back-n): a read can therefore never be served before a write that
// left earlier.
//
// Invariants:
//   C1. A number is given once per incarnation of the other node, also when its call is given up.
//   C2. `first` is the lowest number without an answer; everything below is settled.
//   C3. Calls leave again in the order of their numbers, from `resendFrom` on, before any new one.
//   N8. What became of the updates that `failCalls` failed is known with the next hello: the same incarnation has taken those below the number that it
//       expects, and takes no other; another incarnation has none.
//   S1. A request is fresh exactly once.
//   S2. Requests become fresh in the order of their numbers.
//   S3. Answers that cannot be made again are kept until the asker says it has them (`settled`).
//   S4. What the asker gave up before it came is not waited for: nothing below `settled` will be sent (again).

import type { Answer } from "./answer.ts";
import type { Call, CallFate } from "./call.ts";

/** The calls that left and have no answer yet, by their numbers. Knows which of them are to leave again. */
export class PendingCalls {
  /** A ring, as long as a power of two: a call is at its number. Undefined: settled, behind one that is not. */
  #calls: (Call | undefined)[] = new Array<Call | undefined>(16).fill(undefined);
  #first = 1;
  #next = 1;
  /** The number of the next call to leave again; `next`: none. */
  #resend = 1;
  /** The first call that was given up, until a later one is answered: the other side may or may not have seen it; 0: none was. */
  #givenUpFrom = 0;

  /** Calls that are kept, and settled ones behind them. */
  get length(): number {
    return this.#next - this.#first;
  }

  get openCount(): number {
    let count = 0;
    for (let request = this.#first; request < this.#next; request++) if (this.at(request) !== undefined) count++;
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
    return this.#resend < this.#next;
  }

  /** The call leaves for the first time, now: it gets its number. Not while others leave again (C3). */
  add(call: Call): void {
    if (this.#next - this.#first === this.#calls.length) this.#grow();
    const request = this.#next++;
    call.request = request;
    this.#calls[request & (this.#calls.length - 1)] = call;
    this.#resend = this.#next;
  }

  /** The call with this number, unless it is settled or was never made. */
  at(request: number): Call | undefined {
    return request >= this.#first && request < this.#next ? this.#calls[request & (this.#calls.length - 1)] : undefined;
  }

  /** Another call stands for this one from now on, under its number. */
  replace(call: Call, by: Call): void {
    this.#calls[call.request & (this.#calls.length - 1)] = by;
  }

  /** The call with this number has its answer. */
  settle(request: number): void {
    const calls = this.#calls;
    const mask = calls.length - 1;
    this.#givenUpFrom = 0;
    calls[request & mask] = undefined;
    if (request !== this.#first) return;
    let first = request + 1;
    while (first < this.#next && calls[first & mask] === undefined) first++;
    this.#first = first;
    if (this.#resend < first) this.#resend = first;
  }

  /** This call and all behind it are to leave again. */
  resendFrom(request: number): void {
    this.#resend = Math.min(this.#resend, Math.max(this.#first, request));
  }

  /** The next call that is to leave again. */
  nextResend(): Call | undefined {
    while (this.#resend < this.#next) {
      const call = this.at(this.#resend++);
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /** The number of the first call that has waited longer than `timeoutMs`, times how often it left; 0: none has. */
  overdue(nowMs: number, timeoutMs: number): number {
    for (let request = this.#first; request < this.#next; request++) {
      const call = this.at(request);
      if (call !== undefined && nowMs - call.sentAtMs >= timeoutMs * Math.min(call.sendCount, 8)) return request;
    }
    return 0;
  }

  /** Takes all calls out, unanswered, with their numbers. Those are not used again, so that the same incarnation of the other node takes new calls (C1). */
  giveUp(): Call[] {
    const calls: Call[] = [];
    if (this.length > 0) this.#givenUpFrom ||= this.#first;
    for (; this.#first < this.#next; this.#first++) {
      const call = this.at(this.#first);
      if (call !== undefined) calls.push(call);
    }
    this.#calls.fill(undefined);
    this.#resend = this.#next;
    return calls;
  }

  /** The other node has a new incarnation: numbers begin anew. Only after `giveUp`. */
  restart(): void {
    this.#first = 1;
    this.#next = 1;
    this.#resend = 1;
    this.#givenUpFrom = 0;
  }

  /** Whether a node that expects this request next can go on where we stand; if not, it has forgotten the conversation. */
  canResumeAt(expects: number): boolean {
    return expects >= (this.#givenUpFrom || this.#first) && expects <= this.#next;
  }

  #grow(): void {
    const calls = new Array<Call | undefined>(this.#calls.length * 2).fill(undefined);
    for (let request = this.#first; request < this.#next; request++) calls[request & (calls.length - 1)] = this.at(request);
    this.#calls = calls;
  }
}

/** What became of updates that were given up after they had left (N8). */
export class UpdateFates {
  #fates: { readonly request: number; outcome: CallFate["outcome"] }[] = [];

  /** `isOver`: nobody will hear of the other node again. */
  open(request: number, isOver: boolean): CallFate {
    const fate: { readonly request: number; outcome: CallFate["outcome"] } = { request, outcome: isOver ? "unknown" : "open" };
    this.#fates.push(fate);
    return fate;
  }

  decide(outcomeOf: (request: number) => CallFate["outcome"]): void {
    for (const fate of this.#fates.splice(0)) fate.outcome = outcomeOf(fate.request);
  }
}

/** fresh: take it. again: a duplicate that may be answered anew. remembered: answer with these. ignore: its answer is on the way. gap: ask for it. */
export type Admission = "fresh" | "again" | "remembered" | "ignore" | "gap";

/** What a node remembers of another's requests, so that each is taken in order and once, whatever the links do. */
export class ReceivedRequests {
  #expected = 1;
  /** Requests whose answer is still to come. */
  readonly #parked = new Set<number>();
  readonly #answers = new Map<number, readonly Answer[]>();
  #forgotten = 1;

  /** The number the next fresh request will have. */
  get expected(): number {
    return this.#expected;
  }

  get parkedCount(): number {
    return this.#parked.size;
  }

  get rememberedCount(): number {
    return this.#answers.size;
  }

  admit(request: number, settled: number): Admission {
    if (settled > this.#forgotten) this.#forget(Math.min(settled, request));
    if (request === this.#expected) {
      this.#expected++;
      return "fresh";
    }
    if (request > this.#expected) return "gap";
    if (this.#parked.size > 0 && this.#parked.has(request)) return "ignore";
    return this.#answers.has(request) ? "remembered" : "again";
  }

  /** The answer to this request will come later. */
  park(request: number): void {
    this.#parked.add(request);
  }

  /** The answer is there now. Returns false if nobody waits for it: it was given before. */
  unpark(request: number): boolean {
    return this.#parked.delete(request);
  }

  /** Keeps an answer that could not be made again (S3). */
  remember(request: number, answers: readonly Answer[]): void {
    if (request >= this.#forgotten) this.#answers.set(request, answers);
  }

  remembered(request: number): readonly Answer[] {
    return this.#answers.get(request) ?? [];
  }

  /** Costs what is forgotten, or what is kept if that is less: a peer may claim any number. */
  #forget(settled: number): void {
    const first = this.#forgotten;
    this.#forgotten = settled;
    if (settled > this.#expected) this.#expected = settled; // S4
    if (this.#answers.size === 0) return;
    if (settled - first <= this.#answers.size) for (let request = first; request < settled; request++) this.#answers.delete(request);
    else for (const request of this.#answers.keys()) if (request < settled) this.#answers.delete(request);
  }
}
