// row-claims — who may write raw rows of a table: workers that hold rows themselves write under a claim, and a newer
// claim voids the older ones. The workers agree among themselves on who holds which rows.
//
// Invariants:
//   RowClaims.K1. Raw rows of an older claim are refused: their worker was replaced, and must not overwrite later
//       results.

import { WeighbridgeError } from "../../base/errors.ts";

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
