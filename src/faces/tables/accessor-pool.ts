// accessor-pool — the accessors of one thread and table: handed out by get, taken back by release, and handed out again
// after many others, so that a get allocates nothing and a released accessor is found out (RowAccessor.A1).

import { RingQueue } from "../../base/ring-queue.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { HeldRows } from "../../worker/tables/table-rows.ts";
import type { RowAccessor } from "./row-accessor.ts";
import type { TableRowType } from "./table-row-type.ts";

/** So many others are used before one that was released is. */
const RESTING = 64;

export class AccessorPool<E extends RowElement, A extends RowAccessor<E>> {
  readonly #held: HeldRows<E>;
  readonly #rowType: TableRowType<E, A>;
  readonly #resting = new RingQueue<A>();
  /** Accessors that users hold. */
  heldCount = 0;

  constructor(held: HeldRows<E>, rowType: TableRowType<E, A>) {
    this.#held = held;
    this.#rowType = rowType;
  }

  /** An accessor of the row in a slot that is pinned for it. */
  take(slot: number, rowId: number): A {
    const accessor = this.#resting.length >= RESTING ? (this.#resting.shift() as A) : this.#make();
    accessor.hold(slot, rowId, this.#held.versionOf(slot));
    this.heldCount++;
    return accessor;
  }

  takeBack(accessor: A): void {
    this.#held.unpin(accessor.slot);
    accessor.slot = -1;
    this.heldCount--;
    this.#resting.push(accessor);
  }

  #make(): A {
    const { cells, length } = this.#held.place;
    const accessor = this.#rowType.accessor({ cells, start: 0, length });
    accessor.owner = this;
    return accessor;
  }
}
