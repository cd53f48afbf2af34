// row-cache — a fixed number of rows in slots, by key: which are here, which goes when another one comes, which are
// newer than what the servers have. The core of every cache of rows; what a version counts, when a row is fresh enough,
// what is read and written back, and how, is its policy's: cached-embedding.ts (HET), training/row-tiers.ts
// (MindSpore). Its memory is handed in and belongs to the one who hands it in (shared-rows.ts); other threads may read
// it there. All changes are made by the one thread that has this object.
//
//   free ── takeFree ──► reserved ── fill ──► held ── evict ──► reserved
//    ▲                      │                  │
//    └────── giveBack ──────┘   ◄─── remove ───┘
//
// Invariants:
//   RowCache.C1. A slot is free, reserved or held. Held ones are in the index and in the eviction order, no other is.
//   RowCache.C2. No row goes that is pinned, or was used at a stamp from `usedBefore` on. When the next row in the
//       order was, none goes.
//   RowCache.C3. What an evicted row was (key, version, dirty flag, values) can be read in its slot until that is
//       filled: a dirty row is copied before anything takes its place.
//   RowCache.C4. Whatever is pinned or marked, `evict` ends after two looks at every row: when none may go it says so.
//   RowCache.C5. A row that readers in other threads may pin is written between `claim` and `publish` alone.
//   RowCache.C6. `pinOwn` and `unpinOwn` are for caches of which the owner alone pins rows: they write states without
//       an atomic operation. Readers in other threads may mark rows meanwhile; a mark that is lost costs the row its
//       second chance, nothing else.

import { assert } from "../../base/assert.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import { EvictionOrder, NO_SLOT, type PolicyName } from "./eviction-order.ts";
import { CLAIMED, MARK, ONE_PIN, RECORD_WORDS, type RowMemory, SharedRows, STATE } from "./shared-rows.ts";

export class RowCache extends SharedRows {
  readonly #order: EvictionOrder;
  /** The stamp of the last use of each slot, by the owner. */
  readonly #usedAt: Float64Array;
  readonly #free: Uint32Array;
  #freeCount = 0;
  #rowCount = 0;
  #stamp = 0;

  /** An empty cache, whatever lay in its memory before. */
  constructor(memory: RowMemory, policy: PolicyName = "lru") {
    super(memory);
    const { slotCount } = memory;
    this.#order = new EvictionOrder(policy, slotCount);
    this.#usedAt = new Float64Array(slotCount);
    this.#free = new Uint32Array(slotCount);
    this.states.fill(CLAIMED);
    this.index.fill(NO_SLOT);
    for (let slot = slotCount - 1; slot >= 0; slot--) this.giveBack(slot);
  }

  get rowCount(): number {
    return this.#rowCount;
  }

  get stamp(): number {
    return this.#stamp;
  }

  /** Begins another operation, whose uses have a stamp of their own. */
  begin(): void {
    this.#stamp++;
  }

  /** The owner uses the row in this slot; it counts once for a stamp. */
  use(slot: number): void {
    if (this.#usedAt[slot] === this.#stamp) return;
    this.#usedAt[slot] = this.#stamp;
    this.#order.touch(slot);
  }

  /** All slots that hold rows. */
  held(): number[] {
    return Array.from(this.#usedAt.keys()).filter((slot) => this.isHeld(slot));
  }

  /** A free slot, reserved now; NO_SLOT when there is none. */
  takeFree(): number {
    return this.#freeCount > 0 ? (this.#free[--this.#freeCount] as number) : NO_SLOT;
  }

  /**
   * Evicts the row that goes first and reserves its slot; NO_SLOT if none may go (RowCache.C2). Rows in use stay by
   * default.
   */
  evict(usedBefore: number = this.#stamp): number {
    let slot = this.#order.next();
    for (let steps = 2 * this.#rowCount; steps > 0 && slot !== NO_SLOT; steps--) {
      if ((this.#usedAt[slot] as number) >= usedBefore) return NO_SLOT;
      const following = this.#order.next(slot);
      if (this.isHeld(slot) && ((this.states[slot * RECORD_WORDS + STATE] as number) & MARK) !== 0) {
        Atomics.and(this.states, slot * RECORD_WORDS + STATE, ~MARK);
        this.#order.touch(slot); // a second chance
      } else if (this.claim(slot)) {
        this.#takeOut(slot);
        return slot;
      }
      slot = following === NO_SLOT ? this.#order.next() : following;
    }
    return NO_SLOT;
  }

  /** The row of a key that is not here stands in a reserved slot now, its values are there. It is not dirty. */
  fill(slot: number, low: number, high: number, version = 0): void {
    assert(!this.isHeld(slot), "RowCache.C1: only a reserved slot is filled");
    this.records[slot * RECORD_WORDS] = low;
    this.records[slot * RECORD_WORDS + 1] = high;
    this.setVersion(slot, version);
    this.dirty[slot] = 0;
    this.#insert(slot, low, high);
    this.#usedAt[slot] = this.#stamp;
    this.#order.add(slot);
    this.#rowCount++;
    this.publish(slot);
  }

  /** A reserved slot is free. */
  giveBack(slot: number): void {
    assert(this.#freeCount < this.slotCount && !this.isHeld(slot), "RowCache.C1: only a reserved slot is given back");
    this.#free[this.#freeCount++] = slot;
  }

  /** Forgets a row; false when it is pinned. */
  remove(slot: number): boolean {
    if (!this.claim(slot)) return false;
    this.#takeOut(slot);
    this.giveBack(slot);
    return true;
  }

  /** As `pin` (RowCache.C6). */
  pinOwn(low: number, high: number, versionMin: number): number {
    const slot = this.find(low, high);
    if (slot === NO_SLOT) return NO_SLOT;
    const at = slot * RECORD_WORDS + STATE;
    const state = this.states[at] as number;
    if (state === CLAIMED) return NO_SLOT;
    const version = this.versionOf(slot);
    const isFresh = version >= versionMin && version !== VERSION_NONE;
    this.states[at] = (isFresh ? state + ONE_PIN : state) | MARK;
    return isFresh ? slot : NO_SLOT;
  }

  /** As `unpin` (RowCache.C6). */
  unpinOwn(slot: number): void {
    const at = slot * RECORD_WORDS + STATE;
    const state = this.states[at] as number;
    assert(state >= ONE_PIN, "SharedRows.S1: a slot is unpinned as often as it was pinned");
    this.states[at] = state - ONE_PIN;
  }

  /** Keeps readers from a row that is about to be written; false when it is pinned or claimed. */
  claim(slot: number): boolean {
    const at = slot * RECORD_WORDS + STATE;
    const state = this.states[at] as number;
    return state !== CLAIMED && state < ONE_PIN && Atomics.compareExchange(this.states, at, state, CLAIMED) === state;
  }

  /** Readers may pin the row again. */
  publish(slot: number): void {
    Atomics.store(this.states, slot * RECORD_WORDS + STATE, 0);
  }

  /** No row counts any more, though all stay. */
  invalidate(): void {
    for (let slot = 0; slot < this.slotCount; slot++) this.setVersion(slot, VERSION_NONE);
  }

  #takeOut(slot: number): void {
    this.#order.remove(slot);
    this.#rowCount--;
    const { index, mask } = this;
    let hole = this.home(this.lowOf(slot), this.highOf(slot));
    for (; index[hole] !== slot; hole = (hole + 1) & mask) assert(index[hole] !== NO_SLOT, "RowCache.C1: a held row is in the index");
    for (let entry = (hole + 1) & mask; index[entry] !== NO_SLOT; entry = (entry + 1) & mask) {
      const other = index[entry] as number;
      const home = this.home(this.lowOf(other), this.highOf(other));
      // Its search does not begin at the hole or before it.
      if (((entry - home) & mask) < ((entry - hole) & mask)) continue;
      index[hole] = other;
      hole = entry;
    }
    index[hole] = NO_SLOT;
  }

  #insert(slot: number, low: number, high: number): void {
    const { index, mask } = this;
    let entry = this.home(low, high);
    for (; index[entry] !== NO_SLOT; entry = (entry + 1) & mask) {
      const other = index[entry] as number;
      assert(this.lowOf(other) !== low || this.highOf(other) !== high, "RowCache.C1: a key has one row");
    }
    index[entry] = slot;
  }
}
