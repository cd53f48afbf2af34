// replacements — the nodes at our scheduler that took the place of a dead one, and what the others are to be told of them. It keeps words back and
// lets them go; what they say, and to whom, is the registrar's.
//
//   the roster names a new life ──► expected ── it calls by its name, and has settled, or CALL_MS pass ──► there: others are told
//
// Invariants:
//   N1. Others hear of a replacement once it has called by its name: a node of ps-lite that gets a request before it knows its own id ends.
//   N2. Nothing is kept back for longer than CALL_MS: then its callers find out by themselves whether it is there.
//   N3. Of a life that was replaced nothing is told any more.
//   N4. A program of ps-lite has SETTLE_MS from its call on: its main thread looks every 100 ms whether it may begin, and a request that comes
//       between the making of its server and the setting of the handle ends it.

import type { CancelTimer, Clock } from "../base/clock.ts";

/** From a place in the roster to a call by name is one message there and one connection back. */
export const CALL_MS = 5000;
export const SETTLE_MS = 300;

type Life = { readonly node: number; readonly incarnation: number };
type Newcomer = Life & { readonly kept: (() => void)[]; cancelTimer: CancelTimer; hasCalled: boolean; isThere: boolean };

export class Replacements {
  readonly #clock: Clock;
  /** By node, the newest life of each. */
  readonly #newest = new Map<number, Newcomer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `tell` now if that life is there, otherwise as soon as it is (N1). */
  whenThere(life: Life, tell: () => void): void {
    const replacement = this.#expect(life);
    if (replacement.incarnation > life.incarnation) return; // N3
    if (replacement.isThere) tell();
    else replacement.kept.push(tell);
  }

  /** As `whenThere`, of several lives. */
  whenAllThere([first, ...others]: readonly Life[], tell: () => void): void {
    if (first === undefined) tell();
    else this.whenThere(first, () => this.whenAllThere(others, tell));
  }

  /** A node called by its name; `isOurs`: it takes requests from then on. */
  called(life: Life, isOurs: boolean): void {
    if (life.incarnation <= 1) return; // it has taken nobody's place
    const replacement = this.#expect(life);
    if (replacement.incarnation > life.incarnation || replacement.hasCalled) return; // an earlier life may still dial
    replacement.hasCalled = true;
    if (isOurs) arrive(replacement);
    else {
      replacement.cancelTimer();
      replacement.cancelTimer = this.#clock.after(SETTLE_MS, () => arrive(replacement)); // N4
    }
  }

  close(): void {
    for (const { cancelTimer } of this.#newest.values()) cancelTimer();
    this.#newest.clear();
  }

  #expect({ node, incarnation }: Life): Newcomer {
    const known = this.#newest.get(node);
    if (known !== undefined && known.incarnation >= incarnation) return known;
    known?.cancelTimer();
    const cancelTimer = this.#clock.after(CALL_MS, () => arrive(replacement)); // N2
    const replacement: Newcomer = { node, incarnation, kept: [], cancelTimer, hasCalled: false, isThere: false };
    this.#newest.set(node, replacement);
    return replacement;
  }
}

function arrive(replacement: Newcomer): void {
  replacement.cancelTimer();
  replacement.isThere = true;
  for (const tell of replacement.kept.splice(0)) tell();
}
