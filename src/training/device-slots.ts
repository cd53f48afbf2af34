// device-slots — which of the rows that a worker holds have a slot in the span that the layer reads. A row that loses its slot stays where it is: only the layer does
// not see it any more.
//
// Invariants:
//   D1. A slot shows one row or is free; a row has at most one slot.
//   D2. Slots are in the order of their last use: if the oldest was used at a stamp, all others were at that or later ones.

import { SlotLists } from "../worker/cache/slot-lists.ts";
import { NO_SLOT } from "./row-source.ts";

export class DeviceSlots {
  readonly slotCount: number;
  readonly #order: SlotLists;
  readonly #usedAt: Float64Array;
  readonly #rowOf: Int32Array;
  readonly #slotOf: Int32Array;
  readonly #free: Uint32Array;
  #freeCount: number;

  constructor({ slotCount, rowCount }: { readonly slotCount: number; readonly rowCount: number }) {
    this.slotCount = slotCount;
    this.#order = new SlotLists(slotCount, 1);
    this.#usedAt = new Float64Array(slotCount);
    this.#rowOf = new Int32Array(slotCount).fill(NO_SLOT);
    this.#slotOf = new Int32Array(rowCount).fill(NO_SLOT);
    this.#free = Uint32Array.from({ length: slotCount }, (_, i) => slotCount - 1 - i);
    this.#freeCount = slotCount;
  }

  /** The slot of a row, NO_SLOT if it has none. */
  slotOf(row: number): number {
    return this.#slotOf[row] as number;
  }

  use(slot: number, stamp: number): void {
    if (this.#usedAt[slot] === stamp) return;
    this.#order.take(slot);
    this.#order.append(0, slot);
    this.#usedAt[slot] = stamp;
  }

  /** A free slot, or that of the row whose last use is longest ago, if that was before `limit`: it is free now. NO_SLOT otherwise. `isTaken` tells the two apart. */
  vacate(limit: number): { readonly slot: number; readonly isTaken: boolean } {
    if (this.#freeCount > 0) return { slot: this.#free[this.#freeCount - 1] as number, isTaken: false };
    const slot = this.#order.oldest(0);
    if (slot === NO_SLOT || (this.#usedAt[slot] as number) >= limit) return { slot: NO_SLOT, isTaken: false }; // D2
    this.hide(this.#rowOf[slot] as number);
    return { slot, isTaken: true };
  }

  /** Gives a row without a slot the one that `vacate` said. */
  show(row: number, slot: number, stamp: number): void {
    this.#freeCount--;
    this.#rowOf[slot] = row;
    this.#slotOf[row] = slot;
    this.#order.append(0, slot);
    this.#usedAt[slot] = stamp;
  }

  /** A row has no slot any more, if it had one. */
  hide(row: number): void {
    const slot = this.#slotOf[row] as number;
    if (slot === NO_SLOT) return;
    this.#slotOf[row] = NO_SLOT;
    this.#rowOf[slot] = NO_SLOT;
    this.#order.take(slot);
    this.#free[this.#freeCount++] = slot;
  }
}
