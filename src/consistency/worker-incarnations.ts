// worker-incarnations — which incarnation of each worker counts. A restarted worker begins a new incarnation; messages
// of the old one, or of a dead one, may arrive later. Pure.
//
// Invariants:
//   WorkerIncarnations.L1. An incarnation that was replaced by a newer one never counts again.
//   WorkerIncarnations.L2. An incarnation that ended does not count until it is reported alive. Otherwise a request in
//       flight when its worker died would make a member whose death nobody reports again, and everybody would wait for
//       it.
//   WorkerIncarnations.L3. A guest is no worker: it has no clock, and nobody waits for it.

import { unsupported, WeighbridgeError } from "../base/errors.ts";
import { takenOutError } from "../wire/failure.ts";
import { isGuest, nameOf } from "../wire/node-id.ts";

/** A worker's node id, and which of its incarnations (from 1). */
export type WorkerIncarnation = { readonly worker: number; readonly incarnation: number };

type NewestIncarnation = { readonly incarnation: number; readonly isOver: boolean };

export class WorkerIncarnations {
  readonly #newest = new Map<number, NewestIncarnation>();

  /** The workers that any call named. */
  get workerCount(): number {
    return this.#newest.size;
  }

  has(worker: number): boolean {
    return this.#newest.has(worker);
  }

  /** What `load` of another one takes. */
  save(): readonly (WorkerIncarnation & { readonly isOver: boolean })[] {
    return [...this.#newest].map(([worker, newest]) => ({ worker, ...newest }));
  }

  load(saved: ReturnType<WorkerIncarnations["save"]>): void {
    for (const { worker, incarnation, isOver } of saved) this.#newest.set(worker, { incarnation, isOver });
  }

  /** The incarnation is there. */
  began({ worker, incarnation }: WorkerIncarnation): void {
    if (incarnation > (this.#newest.get(worker)?.incarnation ?? 0)) this.#newest.set(worker, { incarnation, isOver: false });
  }

  /** The incarnation died, is taken for dead, or left. */
  ended({ worker, incarnation }: WorkerIncarnation): void {
    if (incarnation >= (this.#newest.get(worker)?.incarnation ?? 0)) this.#newest.set(worker, { incarnation, isOver: true });
  }

  /** The incarnation was taken for dead, and is alive. */
  revived({ worker, incarnation }: WorkerIncarnation): void {
    if (this.#newest.get(worker)?.incarnation === incarnation) this.#newest.set(worker, { incarnation, isOver: false });
  }

  /**
   * Throws FENCED for a replaced incarnation (WorkerIncarnations.L1), retryable NODE_DEAD for one that ended
   * (WorkerIncarnations.L2), UNSUPPORTED for a guest (WorkerIncarnations.L3).
   */
  check({ worker, incarnation }: WorkerIncarnation): void {
    if (isGuest(worker)) throw guestError(worker, "has no clock");
    const newest = this.#newest.get(worker);
    if (newest === undefined || incarnation > newest.incarnation) return;
    if (incarnation < newest.incarnation) {
      throw new WeighbridgeError(
        "FENCED",
        `incarnation ${incarnation} of ${nameOf(worker)} was replaced by incarnation ${newest.incarnation}`,
      );
    }
    if (!newest.isOver) return;
    throw takenOutError(`incarnation ${incarnation} of ${nameOf(worker)} is over, unless the scheduler finds it alive again`);
  }
}

/** A guest takes no part in what the workers of a job do together. */
export function guestError(node: number, what: string): WeighbridgeError {
  return unsupported(
    `${nameOf(node)} ${what}: guests only read, push to async parameters and call functions; connect as a worker to do that`,
  );
}
