// taken-updates — of one table: the stamp of the last update of each worker that this server has taken. A process cache
// knows by it which of its own updates the rows have that it reads (TableContracts.T3).
//
// Invariants:
//   TakenUpdates.U1. It is state of the table: a standby has it, since it repeats updates, and is filled with what came
//       before (FillState). A server that was restarted has it of the updates since: workers compare none that they
//       sent before.

import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";

export type TakenImage = readonly (WorkerIncarnation & { readonly stamp: number })[];

export class TakenUpdates {
  readonly #byWorker = new Map<number, { readonly incarnation: number; stamp: number }>();

  /** An update of this stamp was taken. */
  note({ worker, incarnation }: WorkerIncarnation, stamp: number): void {
    const last = this.#byWorker.get(worker);
    if (last?.incarnation === incarnation) last.stamp = stamp;
    else this.#byWorker.set(worker, { incarnation, stamp });
  }

  /** The stamp of the last update of this worker; 0 when there was none. */
  of({ worker, incarnation }: WorkerIncarnation): number {
    const last = this.#byWorker.get(worker);
    return last?.incarnation === incarnation ? last.stamp : 0;
  }

  save(): TakenImage {
    return [...this.#byWorker].map(([worker, { incarnation, stamp }]) => ({ worker, incarnation, stamp }));
  }

  load(image: TakenImage): void {
    for (const { stamp, ...holder } of image) this.note(holder, stamp);
  }
}
