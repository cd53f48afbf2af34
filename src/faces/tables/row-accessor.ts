// row-accessor — a row of a table as a user reads it, from `get` until `release`. The row stays in the process cache
// meanwhile. Row types have accessors of their own over this one, each with the reads that make sense for it.
//
// Invariants:
//   RowAccessor.A1. A released accessor reads nothing: every read throws CLOSED, however much later. So every get makes
//       an accessor.
//   RowAccessor.A2. Reads see the row as it is now: increments of this process that came since `get` included. Of row
//       types whose updates move columns, they see the row as it was at the `get`: entry i stays entry i.

import { showValue, WeighbridgeError } from "../../base/errors.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import type { HeldRows } from "../../worker/tables/table-rows.ts";

/** Reads a row of a table, which stays as it is until `release()`. */
export class RowAccessor<E extends RowElement = RowElement> {
  /** Of the row, while it is held (`isReleased` is false). For row types; users read through methods. */
  protected readonly place: RowPlace<E>;
  // Plain fields, because every get sets them; the table alone does.
  /** Which row of the table it is. */
  readonly rowId: number = 0;
  /** The clock to which the row is fresh: it has every update of all threads before that. */
  readonly clock: number = 0;
  /** @internal Where it is held; -1 once it is released. */
  slot = -1;
  #held: Pick<HeldRows, "unpin"> | undefined;

  /** @internal */
  constructor(place: RowPlace<E>) {
    this.place = place;
  }

  /** @internal The table hands it out: for the row in a slot of `held`, which is pinned for it. */
  hold(held: Pick<HeldRows, "unpin">, slot: number, rowId: number, clock: number): void {
    const own = this as { slot: number; rowId: number; clock: number };
    this.#held = held;
    own.slot = slot;
    own.rowId = rowId;
    own.clock = clock;
  }

  /** Whether `release` was called. */
  get isReleased(): boolean {
    return this.slot < 0;
  }

  /** Lets go of the row. Throws CLOSED when that was done before. */
  release(): void {
    this.checkHeld();
    this[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    const { slot } = this;
    this.slot = -1;
    if (slot >= 0) this.#held?.unpin(slot);
  }

  /** Throws CLOSED (RowAccessor.A1). Every read begins with it. */
  protected checkHeld(): void {
    if (this.slot < 0) throw new WeighbridgeError("CLOSED", `the accessor of row ${this.rowId} was released: get the row again`);
  }

  /** Throws OUT_OF_RANGE for a column that is not a whole number below `count`. */
  protected checkColumn(column: number, count: number): void {
    if (Number.isInteger(column) && column >= 0 && column < count) return;
    throw new WeighbridgeError("OUT_OF_RANGE", `row ${this.rowId} has columns 0 to ${count - 1}, and no column ${showValue(column)}`);
  }
}
