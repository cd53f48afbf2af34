// replacements — decides when the others learn of a node at our scheduler that replaced a dead one. The registrar sends
// the news.
//
//   a new incarnation in the roster ──► expected ── it calls by its name, and has settled, or CALL_MS pass ──► there
//
// Invariants:
//   N1. Others learn of a replacement once it has called by its name: a node of ps-lite that gets a request before it
//       knows its own id ends.
//   N2. News waits CALL_MS at most: then callers find out by themselves whether the node is there.
//   N3. An incarnation that was replaced is never news.
//   N4. A program of ps-lite has SETTLE_MS from its call on: its main thread looks every 100 ms whether it may begin,
//       and a request that comes between the making of its server and the setting of the handle ends it.

import type { CancelTimer, Clock } from "../base/clock.ts";

/** From the roster to a call by name is one message there and one connection back. */
export const CALL_MS = 5000;
export const SETTLE_MS = 300;

type NodeIncarnation = { readonly node: number; readonly incarnation: number };
type Replacement = NodeIncarnation & { readonly kept: (() => void)[]; cancelTimer: CancelTimer; hasCalled: boolean; isThere: boolean };

export class Replacements {
  readonly #clock: Clock;
  /** By node, the newest incarnation of each. */
  readonly #newest = new Map<number, Replacement>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `tell` now if that incarnation is there, otherwise as soon as it is (N1). */
  whenThere(node: NodeIncarnation, tell: () => void): void {
    const replacement = this.#expect(node);
    if (replacement.incarnation > node.incarnation) return; // N3
    if (replacement.isThere) tell();
    else replacement.kept.push(tell);
  }

  /** As `whenThere`, of several nodes. */
  whenAllThere([first, ...others]: readonly NodeIncarnation[], tell: () => void): void {
    if (first === undefined) tell();
    else this.whenThere(first, () => this.whenAllThere(others, tell));
  }

  /** A node called by its name; `isOurs`: it takes requests from then on. */
  called(node: NodeIncarnation, isOurs: boolean): void {
    if (node.incarnation <= 1) return; // it replaces no other
    const replacement = this.#expect(node);
    // An earlier incarnation may still dial.
    if (replacement.incarnation > node.incarnation || replacement.hasCalled) return;
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

  #expect({ node, incarnation }: NodeIncarnation): Replacement {
    const known = this.#newest.get(node);
    if (known !== undefined && known.incarnation >= incarnation) return known;
    known?.cancelTimer();
    const cancelTimer = this.#clock.after(CALL_MS, () => arrive(replacement)); // N2
    const replacement: Replacement = { node, incarnation, kept: [], cancelTimer, hasCalled: false, isThere: false };
    this.#newest.set(node, replacement);
    return replacement;
  }
}

function arrive(replacement: Replacement): void {
  replacement.cancelTimer();
  replacement.isThere = true;
  for (const tell of replacement.kept.splice(0)) tell();
}
