// session — what a node remembers of another's requests, so that each is taken in order and once, whatever the links do. Pure.
//
// Requests on a channel are numbered 1, 2, 3 … in the order they leave. A lost one leaves a gap, and everything behind it is refused until
// it was sent again (go-back-n): a read can therefore never be served before a write that left earlier.
//
// Invariants:
//   S1. A request is fresh exactly once.
//   S2. Requests become fresh in the order of their numbers.
//   S3. Answers that cannot be made again are kept until the asker says it has them (`settled`).
//   S4. What the asker gave up before it came is not waited for: nothing below `settled` will be sent (again).

import type { Answer } from "./answer.ts";

/** fresh: take it. again: a duplicate that may be answered anew. remembered: answer with these. ignore: its answer is on the way. gap: ask for it. */
export type Admission = "fresh" | "again" | "remembered" | "ignore" | "gap";

export class Session {
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
