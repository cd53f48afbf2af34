// eviction-order — in which order the rows of a full cache go when others come. Rows are known by their slots, 0 to
// slotCount - 1; keys, values, pins and updates are none of its business.
//
//   lru        the row whose last use is longest ago
//   lfu        the row with the fewest uses; of those the one whose last use is longest ago
//   lfu-opt    as lfu, but a row stays for good from its tenth use on, and when all have come to stay no other is
//              taken in (Hetu's LFUOpt)
//
// Slots with the same number of uses stand in one list, in the order of their last use, and the lists in the order of
// their uses. With lru all rows count as used once: there is one list. A list is a ring through a node of its own
// behind the slots, so that no operation has a special case for the ends; the lists in use form a ring as well.
//
// Invariants:
//   EvictionOrder.E1. Every operation takes constant time and allocates nothing.
//   EvictionOrder.E2. Linked lists are not empty, and their uses ascend. There is one list more than slots, so that a
//       spare one is always there.

import { assert } from "../../base/assert.ts";

/** No slot at all. */
export const NO_SLOT = -1;

/**
 * Which row leaves a full cache first. `"lru"`: the least recently used. `"lfu"`: the least frequently used.
 * `"lfu-opt"`: as `"lfu"`, but a row that is used often stays for good.
 */
export type PolicyName = "lru" | "lfu" | "lfu-opt";
/** The names of the orders, as users give them. */
export const POLICY_NAMES: readonly PolicyName[] = ["lru", "lfu", "lfu-opt"];

/** With this many uses a row comes to stay under lfu-opt. */
export const PERMANENT_USES = 10;
/** The list of a row that stays for good. */
const PERMANENT = -1;

export class EvictionOrder {
  readonly #slotCount: number;
  readonly #countsUses: boolean;
  readonly #usesMax: number;
  /** Rings of slots: of each node the one before and the one after it. The node of list l is slotCount + l. */
  readonly #links: Int32Array;
  /** The list that each slot is in, or PERMANENT. */
  readonly #listOf: Int32Array;
  /**
   * Of each list: how often its rows were used, and the lists of fewer and more uses. Node `#ends` closes their ring.
   */
  readonly #uses: Float64Array;
  readonly #fewer: Int32Array;
  readonly #more: Int32Array;
  readonly #ends: number;
  readonly #spares: Int32Array;
  #spareCount: number;

  constructor(name: PolicyName, slotCount: number) {
    const listCount = name === "lru" ? 1 : slotCount + 1;
    this.#slotCount = slotCount;
    this.#countsUses = name !== "lru";
    this.#usesMax = name === "lfu-opt" ? PERMANENT_USES : Infinity;
    this.#links = Int32Array.from({ length: 2 * (slotCount + listCount) }, (_, i) => i >>> 1);
    this.#listOf = new Int32Array(slotCount);
    this.#uses = new Float64Array(listCount + 1);
    this.#fewer = new Int32Array(listCount + 1).fill(listCount);
    this.#more = this.#fewer.slice();
    this.#ends = listCount;
    this.#spares = Int32Array.from({ length: listCount }, (_, list) => list);
    this.#spareCount = listCount;
  }

  /** A row came to stand in this slot: its first use. */
  add(slot: number): void {
    this.#put(slot, 1, this.#ends);
  }

  /** The row in this slot was used again. */
  touch(slot: number): void {
    if (!this.#countsUses) {
      this.#take(slot);
      this.#append(slot, 0);
      return;
    }
    const list = this.#listOf[slot] as number;
    if (list === PERMANENT) return;
    this.#take(slot);
    const uses = (this.#uses[list] as number) + 1;
    if (uses < this.#usesMax) this.#put(slot, uses, list);
    else this.#listOf[slot] = PERMANENT;
    this.#dropIfEmpty(list);
  }

  /** The row in this slot is gone. */
  remove(slot: number): void {
    const list = this.#listOf[slot] as number;
    if (list === PERMANENT) return;
    this.#take(slot);
    this.#dropIfEmpty(list);
  }

  /** The slot whose row goes first, or that goes after the one of another slot in the order; NO_SLOT when none may. */
  next(after: number = NO_SLOT): number {
    const list = after === NO_SLOT ? this.#ends : (this.#listOf[after] as number);
    if (after !== NO_SLOT) {
      const slot = this.#links[2 * after + 1] as number;
      if (slot < this.#slotCount) return slot;
    }
    const more = this.#more[list] as number;
    // EvictionOrder.E2: it is not empty.
    return more === this.#ends ? NO_SLOT : (this.#links[2 * (this.#slotCount + more) + 1] as number);
  }

  /** Puts a slot in the list of so many uses, which comes right after the list `before` if it exists. */
  #put(slot: number, uses: number, before: number): void {
    let list = this.#more[before] as number;
    if (list === this.#ends || this.#uses[list] !== uses) list = this.#link(uses, before, list);
    this.#listOf[slot] = list;
    this.#append(slot, list);
  }

  #append(slot: number, list: number): void {
    const links = this.#links;
    const end = this.#slotCount + list;
    const last = links[2 * end] as number;
    links[2 * last + 1] = slot;
    links[2 * slot] = last;
    links[2 * slot + 1] = end;
    links[2 * end] = slot;
  }

  #take(slot: number): void {
    const links = this.#links;
    const previous = links[2 * slot] as number;
    const next = links[2 * slot + 1] as number;
    links[2 * previous + 1] = next;
    links[2 * next] = previous;
  }

  #link(uses: number, before: number, after: number): number {
    assert(this.#spareCount > 0, "EvictionOrder.E2: there is a list for every slot and one more");
    const list = this.#spares[--this.#spareCount] as number;
    this.#uses[list] = uses;
    this.#fewer[list] = before;
    this.#more[list] = after;
    this.#more[before] = this.#fewer[after] = list;
    return list;
  }

  /** EvictionOrder.E2 */
  #dropIfEmpty(list: number): void {
    if ((this.#links[2 * (this.#slotCount + list) + 1] as number) < this.#slotCount) return;
    const fewer = this.#fewer[list] as number;
    const more = this.#more[list] as number;
    this.#more[fewer] = more;
    this.#fewer[more] = fewer;
    this.#spares[this.#spareCount++] = list;
  }
}
