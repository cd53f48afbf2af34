// pull-part — what one operation of a cache reads: which rows the cache has, which it asks for, which others go for them, and the rows that
// come of it. One for each operation, in this order: `select`, `ask`, `take` for each answer, `finish`, `deliver`.
//
//   class      the row …
//   KNOWN      is cached: it comes only if it is too far behind
//   REFRESH    is cached, but its copy counts for nothing: it comes, and is cached again
//   NEW        is not cached, and has a slot reserved: it comes, and is cached
//   PLAIN      is not cached and will not be: it comes, and is read once
//
// Invariants:
//   L1. Every row that was asked for and is not KNOWN comes, or the operation fails.
//   L2. A reserved slot is filled or given back by `finish`, whatever failed.
//   L3. What is delivered is the copy with this worker's pending updates laid over it.

import { assert } from "../../base/assert.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { RowPlan } from "../router/row-plan.ts";
import type { CacheState } from "./cache-state.ts";
import type { OperationMemory } from "./operation-memory.ts";
import type { Answer, AskList, AskPart } from "./row-exchange.ts";
import { NO_SLOT } from "./slot-lists.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;
const WORD_BYTES = 4;

const KNOWN = 0;
const REFRESH = 1;
const NEW = 2;
const PLAIN = 3;
const CLASS_COUNT = 4;

export type Selected = {
  /** Keys of rows that were evicted, at an address. */
  readonly victims: number;
  readonly victimCount: number;
};

export class PullPart {
  readonly plan: RowPlan;
  readonly #cache: CacheState;
  readonly #memory: OperationMemory;
  /** By row of the plan. */
  readonly #classOf: Uint8Array;
  readonly #slotOf: Int32Array;
  /** Where the values of each row lie: u32, by row of the plan. */
  readonly #addresses: number;
  /** The row of the plan at each place of the question, and its key there. */
  readonly #rowAt: Uint32Array;
  readonly #keys: number;

  /** Throws ARENA_FULL. */
  constructor(cache: CacheState, plan: RowPlan, memory: OperationMemory) {
    const { rowCount } = plan;
    this.plan = plan;
    this.#cache = cache;
    this.#memory = memory;
    this.#classOf = new Uint8Array(rowCount).fill(PLAIN);
    this.#slotOf = new Int32Array(rowCount).fill(NO_SLOT);
    this.#rowAt = new Uint32Array(rowCount);
    this.#addresses = memory.take(rowCount * WORD_BYTES);
    this.#keys = memory.take(rowCount * KEY_BYTES);
  }

  /** Decides on every row; makes room for those that will be cached. Bypassed, the cache has nothing and takes nothing in. */
  select(isBypassed: boolean): Selected {
    const { plan } = this;
    const victims = this.#memory.take(plan.rowCount * KEY_BYTES);
    const { counters } = this.#cache;
    counters.keysLookedUp += plan.keyCount;
    counters.rowsLookedUp += plan.rowCount;
    if (isBypassed) {
      counters.misses += plan.rowCount;
      return { victims, victimCount: 0 };
    }
    this.#useCached();
    const victimCount = this.#reserveSlots(victims);
    counters.evictions += victimCount;
    return { victims, victimCount };
  }

  /** The question. `advance` says, by slot, how many updates of this worker the same exchange pushes first. */
  ask(advance: ReadonlyMap<number, number>): AskList {
    const { plan } = this;
    const { arena, cached } = this.#cache;
    const versions = new Uint32Array(plan.rowCount);
    const parts: AskPart[] = [];
    for (const { server, from, keys } of plan.parts) {
      const starts = this.#arrange(from, from + keys.length);
      const [keptFrom, plainFrom] = [starts[REFRESH] as number, starts[PLAIN] as number];
      for (let place = from; place < keptFrom; place++) {
        const slot = this.#slotOf[this.#rowAt[place] as number] as number;
        versions[place] = (cached.versions[slot] as number) + (advance.get(slot) ?? 0);
      }
      parts.push({ server, epoch: plan.epoch, from, to: from + keys.length, keptFrom, plainFrom });
    }
    return { parts, keys: new BigUint64Array(arena.memory.buffer, this.#keys, plan.rowCount), versions };
  }

  /** Takes an answer's rows into the cache, and notes where those lie that do not go there. Versions of an old generation do not count. */
  take({ asked, fresh }: Answer, isCurrent: boolean): void {
    const { arena, cached, rowKernels, width, counters } = this.#cache;
    const { indexes, rows } = fresh;
    const versions = isCurrent ? fresh.versions : new Uint32Array(fresh.versions.length).fill(VERSION_NONE);
    const staged = this.#memory.take(rows.byteLength);
    arena.floats.set(rows, staged >>> 2);
    const slots: number[] = [];
    for (const index of indexes) slots.push(this.#slotAt(asked.from + index));
    counters.stale += indexes.length;
    counters.hits += asked.keptFrom - asked.from - indexes.length;
    for (let place = asked.keptFrom; place < asked.plainFrom; place++) slots.push(this.#slotAt(place));
    const list = this.#memory.take(slots.length * WORD_BYTES);
    slots.forEach((slot, i) => {
      arena.words[(list >>> 2) + i] = cached.addressOf(slot);
    });
    rowKernels.writeRows(list, slots.length, 0, width * FLOAT_BYTES, staged);
    this.#keep(asked, slots, versions);
    let address = staged + slots.length * width * FLOAT_BYTES;
    for (let place = asked.plainFrom; place < asked.to; place++, address += width * FLOAT_BYTES) {
      arena.words[(this.#addresses >>> 2) + (this.#rowAt[place] as number)] = address;
    }
  }

  /** L2. May be called again. */
  finish(): void {
    const { cached } = this.#cache;
    for (let row = 0; row < this.#classOf.length; row++) {
      if (this.#classOf[row] !== NEW) continue;
      cached.giveBack(this.#slotOf[row] as number);
      this.#classOf[row] = PLAIN;
    }
  }

  /** Fills `into`, a row for each of the caller's keys (L3). */
  deliver(into: Float32Array): void {
    const { arena, rowKernels, width } = this.#cache;
    const { plan } = this;
    const out = this.#memory.take(plan.keyCount * width * FLOAT_BYTES);
    this.#layPending();
    rowKernels.readRows(plan.wordsForCaller(this.#addresses), plan.keyCount, 0, width * FLOAT_BYTES, out);
    into.set(arena.floats.subarray(out >>> 2, (out >>> 2) + into.length));
  }

  #slotAt(place: number): number {
    return this.#slotOf[this.#rowAt[place] as number] as number;
  }

  #useCached(): void {
    const { plan } = this;
    const { arena, cached, pending, optimizer } = this.#cache;
    const slots = this.#memory.take(plan.rowCount * WORD_BYTES);
    const updates = this.#memory.take(plan.rowCount * WORD_BYTES);
    cached.find(plan.keysAddress, plan.rowCount, slots);
    pending.find(plan.keysAddress, plan.rowCount, updates);
    for (let row = 0; row < plan.rowCount; row++) {
      const slot = (arena.words[(slots >>> 2) + row] as number) | 0;
      if (slot === NO_SLOT) continue;
      const isHidden = !optimizer.isExact && arena.words[(updates >>> 2) + row] !== 0;
      cached.use(slot);
      this.#slotOf[row] = slot;
      this.#classOf[row] = isHidden || cached.versions[slot] === VERSION_NONE ? REFRESH : KNOWN;
      arena.words[(this.#addresses >>> 2) + row] = cached.addressOf(slot);
    }
  }

  /** Slots for the rows that are not cached, as long as there are any. Writes the keys of rows that went; returns how many. */
  #reserveSlots(victims: number): number {
    const { arena, cached, counters } = this.#cache;
    let victimCount = 0;
    let isFull = false;
    for (let row = 0; row < this.#classOf.length; row++) {
      if (this.#classOf[row] !== PLAIN) {
        if (this.#classOf[row] === REFRESH) counters.stale++;
        continue;
      }
      counters.misses++;
      if (isFull) continue;
      const { slot, isEvicted } = cached.reserve(victims + victimCount * KEY_BYTES);
      isFull = slot === NO_SLOT;
      if (isFull) continue;
      if (isEvicted) victimCount++;
      this.#slotOf[row] = slot;
      this.#classOf[row] = NEW;
      arena.words[(this.#addresses >>> 2) + row] = cached.addressOf(slot);
    }
    return victimCount;
  }

  /** Puts the rows of a part in the order of their classes, keys copied; returns where each class begins. */
  #arrange(from: number, to: number): readonly number[] {
    const { words } = this.#cache.arena;
    const starts: number[] = Array.from({ length: CLASS_COUNT + 1 }, () => 0);
    for (let row = from; row < to; row++) starts[(this.#classOf[row] as number) + 1]!++;
    starts[0] = from;
    for (let i = 1; i < starts.length; i++) starts[i]! += starts[i - 1] as number;
    const next = [...starts];
    const source = this.plan.keysAddress >>> 2;
    for (let row = from; row < to; row++) {
      const place = next[this.#classOf[row] as number]!++;
      this.#rowAt[place] = row;
      const at = (this.#keys >>> 2) + 2 * place;
      words[at] = words[source + 2 * row] as number;
      words[at + 1] = words[source + 2 * row + 1] as number;
    }
    return starts;
  }

  /** Notes the versions of rows that came to their slots; new ones are cached from now on. */
  #keep(asked: AskPart, slots: readonly number[], versions: Uint32Array): void {
    const { cached } = this.#cache;
    let newFrom = asked.keptFrom;
    while (newFrom < asked.plainFrom && this.#classOf[this.#rowAt[newFrom] as number] !== NEW) newFrom++;
    const oldCount = slots.length - (asked.plainFrom - newFrom);
    for (let i = 0; i < oldCount; i++) cached.versions[slots[i] as number] = versions[i] as number;
    const fresh = slots.slice(oldCount);
    if (fresh.length > 0 && cached.fill(this.#keys + newFrom * KEY_BYTES, fresh, versions.subarray(oldCount), this.#memory)) {
      for (let place = newFrom; place < asked.plainFrom; place++) this.#classOf[this.#rowAt[place] as number] = KNOWN;
    }
  }

  /** L3: rows with pending updates are copied and updated beside the cache. */
  #layPending(): void {
    const { plan } = this;
    const { arena, pending, optimizer, rowKernels, width } = this.#cache;
    if (pending.rowCount === 0) return;
    const { words } = arena;
    const found = this.#memory.take(plan.rowCount * WORD_BYTES);
    const count = plan.rowCount - pending.find(plan.keysAddress, plan.rowCount, found);
    if (count === 0) return;
    assert(optimizer.isExact, "rows whose updates cannot be laid over them are pushed before they are read");
    const rowBytes = width * FLOAT_BYTES;
    const [sources, targets] = [this.#memory.take(count * WORD_BYTES), this.#memory.take(count * WORD_BYTES)];
    const copies = this.#memory.take(count * rowBytes);
    const gradients = this.#memory.take(count * rowBytes);
    const owners: number[] = [];
    for (let row = 0; row < plan.rowCount; row++) {
      const at = words[(found >>> 2) + row] as number;
      if (at === 0) continue;
      words[(found >>> 2) + owners.length] = at;
      words[(sources >>> 2) + owners.length] = words[(this.#addresses >>> 2) + row] as number;
      words[(targets >>> 2) + owners.length] = copies + owners.length * rowBytes;
      owners.push(row);
    }
    rowKernels.readRows(sources, count, 0, rowBytes, copies);
    pending.readGradients(found, count, gradients);
    optimizer.apply(targets, count, gradients);
    owners.forEach((row, i) => {
      words[(this.#addresses >>> 2) + row] = copies + i * rowBytes;
    });
  }
}
