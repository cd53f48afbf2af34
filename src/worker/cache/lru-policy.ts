// lru-policy — the row whose last use is longest ago goes first.

import type { EvictionPolicy } from "./eviction-policy.ts";
import { SlotLists } from "./slot-lists.ts";

export class LruPolicy implements EvictionPolicy {
  readonly #lists: SlotLists;

  constructor(slotCount: number) {
    this.#lists = new SlotLists(slotCount, 1);
  }

  add(slot: number): void {
    this.#lists.append(0, slot);
  }

  touch(slot: number): void {
    this.#lists.take(slot);
    this.#lists.append(0, slot);
  }

  candidate(): number {
    return this.#lists.oldest(0);
  }

  remove(slot: number): void {
    this.#lists.take(slot);
  }
}
