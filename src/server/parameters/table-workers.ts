// table-workers — what a table knows of its workers beside its rows: who may write raw rows, and the last update that
// it has taken of each. Workers that hold rows themselves write under a claim, and a newer claim voids the older ones;
// they agree among themselves on who holds which rows. By the stamp of the last update of it that a server has taken, a
// process cache knows which of its own updates the rows have that it reads (TableContracts.T3).
//
// Invariants:
//   RowClaims.K1. Raw rows of an older claim are refused: their worker was replaced, and must not overwrite later
//       results.
//   TakenUpdates.U1. It is state of the table: a standby has it, since it repeats updates, and is filled with what came
//       before (FillState). A server that was restarted has it of the updates since: workers compare none that they
//       sent before.

import { WeighbridgeError } from "../../base/errors.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";

export class RowClaims {
  readonly #table: string;
  /** The newest claim; nobody else writes it. */
  newest = 0;

  constructor(table: string) {
    this.#table = table;
  }

  /** Whether workers ever held rows of the table. */
  get isClaimed(): boolean {
    return this.newest > 0;
  }

  /** A new claim; all before it are void. */
  next(): number {
    return ++this.newest;
  }

  /** RowClaims.K1. An unknown claim is from this server's incarnation before a restart. Throws FENCED. */
  check(claim: number): void {
    if (claim >= this.newest) {
      this.newest = claim;
      return;
    }
    const text = `the rows of ${this.#table} were dealt out anew (claim ${this.newest}); what was computed under claim ${claim} is void`;
    throw new WeighbridgeError("FENCED", text);
  }
}

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
