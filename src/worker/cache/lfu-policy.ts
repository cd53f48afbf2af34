// lfu-policy — the row with the fewest uses goes first; of several the one whose last use is longest ago.
//
//   frequency    one list of slots for each number of uses that some row has, the lists linked in ascending order
//
// Invariants:
//   F1. Linked lists are not empty, and their uses ascend. There are at most as many as slots, so that a spare one is always there.

import { assert } from "../../base/assert.ts";
import type { EvictionPolicy } from "./eviction-policy.ts";
import { NO_SLOT, SlotLists } from "./slot-lists.ts";

export class LfuPolicy implements EvictionPolicy {
  readonly #lists: SlotLists;
  /** The list each slot is in. */
  readonly #listOf: Int32Array;
  /** Of each list: how often its rows were used, and its neighbours. Node `#ends` closes the ring. */
  readonly #uses: Float64Array;
  readonly #fewer: Int32Array;
  readonly #more: Int32Array;
  readonly #ends: number;
  readonly #spares: Int32Array;
  #spareCount: number;

  constructor(slotCount: number) {
    const listCount = slotCount + 1; // the list a last slot moves to is linked before the one it leaves is empty
    this.#lists = new SlotLists(slotCount, listCount);
    this.#listOf = new Int32Array(slotCount);
    this.#uses = new Float64Array(listCount + 1);
    this.#fewer = new Int32Array(listCount + 1);
    this.#more = new Int32Array(listCount + 1);
    this.#ends = listCount;
    this.#fewer[listCount] = this.#more[listCount] = listCount;
    this.#spares = Int32Array.from({ length: listCount }, (_, i) => i);
    this.#spareCount = listCount;
  }

  add(slot: number): void {
    this.#put(slot, 1, this.#ends);
  }

  touch(slot: number): void {
    const list = this.#listOf[slot] as number;
    this.#lists.take(slot);
    this.#put(slot, (this.#uses[list] as number) + 1, list);
    this.#dropEmpty(list);
  }

  candidate(): number {
    const least = this.#more[this.#ends] as number;
    return least === this.#ends ? NO_SLOT : this.#lists.oldest(least);
  }

  remove(slot: number): void {
    this.#lists.take(slot);
    this.#dropEmpty(this.#listOf[slot] as number);
  }

  /** Puts a slot in the list of so many uses, which comes right after the list `before` if it exists. */
  #put(slot: number, uses: number, before: number): void {
    let list = this.#more[before] as number;
    if (list === this.#ends || this.#uses[list] !== uses) list = this.#link(uses, before, list);
    this.#lists.append(list, slot);
    this.#listOf[slot] = list;
  }

  #link(uses: number, before: number, after: number): number {
    assert(this.#spareCount > 0, "F1: there is a list for every slot and one more");
    const list = this.#spares[--this.#spareCount] as number;
    this.#uses[list] = uses;
    this.#fewer[list] = before;
    this.#more[list] = after;
    this.#more[before] = this.#fewer[after] = list;
    return list;
  }

  /** F1 */
  #dropEmpty(list: number): void {
    if (!this.#lists.isEmpty(list)) return;
    const fewer = this.#fewer[list] as number;
    const more = this.#more[list] as number;
    this.#more[fewer] = more;
    this.#fewer[more] = fewer;
    this.#spares[this.#spareCount++] = list;
  }
}
