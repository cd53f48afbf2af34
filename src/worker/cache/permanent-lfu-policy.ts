// permanent-lfu-policy — as LfuPolicy, but a row that was used ten times stays for good (Hetu's LFUOpt): what is hot needs no book-keeping.

import type { EvictionPolicy } from "./eviction-policy.ts";
import { NO_SLOT, SlotLists } from "./slot-lists.ts";

/** With this many uses a row comes to stay. */
export const PERMANENT_USES = 10;

export class PermanentLfuPolicy implements EvictionPolicy {
  /** List u holds the rows that were used u times. */
  readonly #lists: SlotLists;
  readonly #uses: Uint8Array;

  constructor(slotCount: number) {
    this.#lists = new SlotLists(slotCount, PERMANENT_USES);
    this.#uses = new Uint8Array(slotCount);
  }

  add(slot: number): void {
    this.#uses[slot] = 1;
    this.#lists.append(1, slot);
  }

  touch(slot: number): void {
    const uses = this.#uses[slot] as number;
    if (uses === PERMANENT_USES) return;
    this.#lists.take(slot);
    this.#uses[slot] = uses + 1;
    if (uses + 1 < PERMANENT_USES) this.#lists.append(uses + 1, slot);
  }

  candidate(): number {
    for (let uses = 1; uses < PERMANENT_USES; uses++) {
      const slot = this.#lists.oldest(uses);
      if (slot !== NO_SLOT) return slot;
    }
    return NO_SLOT;
  }

  remove(slot: number): void {
    this.#lists.take(slot);
  }
}
