// worker-incarnations — which incarnation of each worker counts. A worker that is restarted begins a new incarnation, and what the old one sent may arrive later; so may
// what a dead one sent. Pure.
//
// Invariants:
//   WorkerIncarnations.L1. An incarnation that was replaced by a newer one never counts again.
//   WorkerIncarnations.L2. An incarnation that ended does not count until it is said to live after all: else a request that was under way when its worker died would make
//       a member whom nobody will ever announce as dead again, and everybody would wait for it.

import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";

/** A worker's node id, and which of its incarnations (from 1). */
export type WorkerIncarnation = { readonly worker: number; readonly incarnation: number };

type NewestIncarnation = { readonly incarnation: number; readonly isOver: boolean };

export class WorkerIncarnations {
  readonly #newest = new Map<number, NewestIncarnation>();

  /** Workers that we have heard of, in whatever way. */
  get workerCount(): number {
    return this.#newest.size;
  }

  /** The incarnation is there. */
  began({ worker, incarnation }: WorkerIncarnation): void {
    if (incarnation > (this.#newest.get(worker)?.incarnation ?? 0)) this.#newest.set(worker, { incarnation, isOver: false });
  }

  /** The incarnation died, or is taken for dead, or left. */
  ended({ worker, incarnation }: WorkerIncarnation): void {
    if (incarnation >= (this.#newest.get(worker)?.incarnation ?? 0)) this.#newest.set(worker, { incarnation, isOver: true });
  }

  /** The incarnation was taken for dead, and was heard of again. */
  revived({ worker, incarnation }: WorkerIncarnation): void {
    if (this.#newest.get(worker)?.incarnation === incarnation) this.#newest.set(worker, { incarnation, isOver: false });
  }

  /** Throws FENCED for an incarnation that was replaced (WorkerIncarnations.L1), NODE_DEAD for one that ended (WorkerIncarnations.L2), which may be tried again. */
  check({ worker, incarnation }: WorkerIncarnation): void {
    const newest = this.#newest.get(worker);
    if (newest === undefined || incarnation > newest.incarnation) return;
    if (incarnation < newest.incarnation) {
      throw new WeighbridgeError(
        "FENCED",
        `incarnation ${incarnation} of ${nameOf(worker)} was replaced by incarnation ${newest.incarnation}`,
      );
    }
    if (!newest.isOver) return;
    throw new WeighbridgeError(
      "NODE_DEAD",
      `incarnation ${incarnation} of ${nameOf(worker)} is over, unless the scheduler hears of it again`,
      {
        retryable: true,
      },
    );
  }
}
