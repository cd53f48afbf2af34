// slot-lists — several doubly linked lists over the same slots, each slot in at most one of them: the memory of the eviction policies.
//
// A list is a ring through a node of its own behind the slots, so that no operation has a special case for the ends.

/** No slot at all. */
export const NO_SLOT = -1;

export class SlotLists {
  readonly #slotCount: number;
  readonly #previous: Int32Array;
  readonly #next: Int32Array;

  constructor(slotCount: number, listCount: number) {
    this.#slotCount = slotCount;
    this.#previous = new Int32Array(slotCount + listCount);
    this.#next = new Int32Array(slotCount + listCount);
    for (let node = 0; node < slotCount + listCount; node++) this.#previous[node] = this.#next[node] = node;
  }

  isEmpty(list: number): boolean {
    return this.#next[this.#slotCount + list] === this.#slotCount + list;
  }

  /** The slot that was put in first; NO_SLOT when the list is empty. */
  oldest(list: number): number {
    const first = this.#next[this.#slotCount + list] as number;
    return first < this.#slotCount ? first : NO_SLOT;
  }

  /** All slots of a list, the one that was put in first at the front. */
  all(list: number): number[] {
    const slots: number[] = [];
    for (let slot = this.#next[this.#slotCount + list] as number; slot < this.#slotCount; slot = this.#next[slot] as number)
      slots.push(slot);
    return slots;
  }

  /** Puts a slot that is in no list at the end of one. */
  append(list: number, slot: number): void {
    const end = this.#slotCount + list;
    const last = this.#previous[end] as number;
    this.#next[last] = slot;
    this.#previous[slot] = last;
    this.#next[slot] = end;
    this.#previous[end] = slot;
  }

  /** Takes a slot out of its list; one that is in none stays so. */
  take(slot: number): void {
    const previous = this.#previous[slot] as number;
    const next = this.#next[slot] as number;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#previous[slot] = this.#next[slot] = slot;
  }
}
