// restarted-nodes — decides when the other nodes learn of a restarted node, which has the rank of a dead one. The
// RegistrationService sends the new incarnation.
//
//   a new incarnation in the roster ──► expected ── it connects with its identity, and has settled, or CALL_MS pass ──►
//   ready
//
// Invariants:
//   RestartedNodes.N1. Others learn of a restarted node once it has connected with its identity: a node of ps-lite that
//       gets a request before it knows its own id ends.
//   RestartedNodes.N2. They wait at most CALL_MS: then callers find out by themselves whether the node answers.
//   RestartedNodes.N3. Nobody learns of an incarnation that has been replaced.
//   RestartedNodes.N4. A program of ps-lite has SETTLE_MS from its connection on: its main thread checks every 100 ms
//       whether it may begin, and a request that arrives between the creation of its server and the setting of the
//       handle ends it.

import type { CancelTimer, Clock } from "../base/clock.ts";

/** From the roster to its connection it takes one message there and one connection back. */
export const CALL_MS = 5000;
export const SETTLE_MS = 300;

type NodeIncarnation = { readonly node: number; readonly incarnation: number };
type RestartedNode = NodeIncarnation & { readonly kept: (() => void)[]; cancelTimer: CancelTimer; hasCalled: boolean; isReady: boolean };

export class RestartedNodes {
  readonly #clock: Clock;
  /** By node, the newest incarnation of each. */
  readonly #newest = new Map<number, RestartedNode>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `notify` now if that incarnation is ready, otherwise as soon as it is (RestartedNodes.N1). */
  whenReady(node: NodeIncarnation, notify: () => void): void {
    const restarted = this.#expect(node);
    if (restarted.incarnation > node.incarnation) return; // RestartedNodes.N3
    if (restarted.isReady) notify();
    else restarted.kept.push(notify);
  }

  /** The same for several nodes. */
  whenAllReady([first, ...others]: readonly NodeIncarnation[], notify: () => void): void {
    if (first === undefined) notify();
    else this.whenReady(first, () => this.whenAllReady(others, notify));
  }

  /** A node connected with its identity; `isOurs`: it accepts requests from then on. */
  called(node: NodeIncarnation, isOurs: boolean): void {
    if (node.incarnation <= 1) return; // it was not restarted
    const restarted = this.#expect(node);
    // An earlier incarnation may still dial.
    if (restarted.incarnation > node.incarnation || restarted.hasCalled) return;
    restarted.hasCalled = true;
    if (isOurs) arrive(restarted);
    else {
      restarted.cancelTimer();
      restarted.cancelTimer = this.#clock.after(SETTLE_MS, () => arrive(restarted)); // RestartedNodes.N4
    }
  }

  close(): void {
    for (const { cancelTimer } of this.#newest.values()) cancelTimer();
    this.#newest.clear();
  }

  #expect({ node, incarnation }: NodeIncarnation): RestartedNode {
    const known = this.#newest.get(node);
    if (known !== undefined && known.incarnation >= incarnation) return known;
    known?.cancelTimer();
    const cancelTimer = this.#clock.after(CALL_MS, () => arrive(restarted)); // RestartedNodes.N2
    const restarted: RestartedNode = { node, incarnation, kept: [], cancelTimer, hasCalled: false, isReady: false };
    this.#newest.set(node, restarted);
    return restarted;
  }
}

function arrive(restarted: RestartedNode): void {
  restarted.cancelTimer();
  restarted.isReady = true;
  for (const notify of restarted.kept.splice(0)) notify();
}
