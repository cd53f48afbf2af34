// pull-part — what one operation of a CachedEmbedding reads: which rows the cache has, which it asks for, which others
// go for them, and the rows that come of it. One for each operation, in this order: `select`, `ask`, `take` for each
// answer, `finish`, `deliver`.
//
//   class      the row …
//   KNOWN      is cached: it comes only if it is too far behind
//   REFRESH    is cached, but its copy counts for nothing: it comes, and is cached again
//   NEW        is not cached, and has a slot reserved: it comes, and is cached
//   PLAIN      is not cached and will not be: it comes, and is read once
//
// Invariants:
//   PullPart.L1. Every row that was asked for and is not KNOWN comes, or the operation fails.
//   PullPart.L2. A reserved slot is filled or given back by `finish`, whatever failed.
//   PullPart.L3. What is delivered is the copy with this worker's pending updates laid over it.

import { assert } from "../../base/assert.ts";
import { FLOAT_BYTES, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { ArenaSpans } from "../arena-spans.ts";
import type { RowPlan } from "../router/row-plan.ts";
import type { CacheState } from "./cache-state.ts";
import { NO_SLOT } from "./eviction-order.ts";
import type { SyncAnswer, SyncList, SyncPart } from "./row-exchange.ts";

const KNOWN = 0;
const REFRESH = 1;
const NEW = 2;
const PLAIN = 3;
const CLASS_COUNT = 4;

export class PullPart {
  readonly plan: RowPlan;
  readonly #cache: CacheState;
  readonly #memory: ArenaSpans;
  /** By row of the plan. */
  readonly #classOf: Uint8Array;
  readonly #slotOf: Int32Array;
  /** Where the values of each row lie: u32, by row of the plan. */
  readonly #addresses: number;
  /** The row of the plan at each position of the question, and its key there. */
  readonly #rowAt: Uint32Array;
  readonly #keys: number;

  /** Throws ARENA_FULL. */
  constructor(cache: CacheState, plan: RowPlan, memory: ArenaSpans) {
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

  /**
   * Decides on every row; makes room for those that will be cached. Writes the keys of rows that went for them at
   * `victims`; returns how many. Bypassed, the cache has nothing and takes nothing in.
   */
  select(isBypassed: boolean, victims: number): number {
    const { counters } = this.#cache;
    const { keyCount, rowCount } = this.plan;
    counters.keysLookedUp += keyCount;
    counters.rowsLookedUp += rowCount;
    if (!isBypassed) this.#useCached();
    const victimCount = isBypassed ? 0 : this.#reserveSlots(victims);
    for (const group of this.#classOf) {
      if (group >= NEW) counters.misses++;
      else if (group === REFRESH) counters.stale++;
    }
    counters.evictions += victimCount;
    return victimCount;
  }

  /** The question. `advance` says, by slot, how many updates of this worker the same exchange pushes first. */
  sync(advance: ReadonlyMap<number, number>): SyncList {
    const { plan } = this;
    const { arena, cached } = this.#cache;
    const versions = new Uint32Array(plan.rowCount);
    const parts: SyncPart[] = [];
    for (const { server, from, keys } of plan.parts) {
      const starts = this.#arrange(from, from + keys.length);
      const [keptFrom, plainFrom] = [starts[REFRESH] as number, starts[PLAIN] as number];
      for (let position = from; position < keptFrom; position++) {
        const slot = this.#slotAt(position);
        versions[position] = cached.versionOf(slot) + (advance.get(slot) ?? 0);
      }
      parts.push({ server, epoch: plan.epoch, from, to: from + keys.length, keptFrom, plainFrom });
    }
    return { parts, keys: new BigUint64Array(arena.memory.buffer, this.#keys, plan.rowCount), versions };
  }

  /** Caches an answer's rows, and notes where the others lie. Versions of an old generation do not count. */
  take({ wanted, fresh }: SyncAnswer, isCurrent: boolean): void {
    const { arena, cached, rowKernels, width, counters } = this.#cache;
    const { words } = arena;
    const { indexes, versions, rows } = fresh;
    const rowBytes = width * FLOAT_BYTES;
    const staged = this.#memory.take(rows.byteLength);
    arena.floats.set(rows, staged >>> 2);
    counters.stale += indexes.length;
    counters.hits += wanted.keptFrom - wanted.from - indexes.length;
    const keptCount = indexes.length + wanted.plainFrom - wanted.keptFrom;
    const list = this.#memory.take(keptCount * WORD_BYTES);
    const positionAt = (i: number): number =>
      i < indexes.length ? wanted.from + (indexes[i] as number) : wanted.keptFrom + i - indexes.length;
    for (let i = 0; i < keptCount; i++) words[(list >>> 2) + i] = cached.addressOf(this.#slotAt(positionAt(i)));
    rowKernels.writeRows(list, keptCount, 0, rowBytes, staged);
    for (let i = 0; i < keptCount; i++) this.#keep(positionAt(i), isCurrent ? (versions[i] as number) : VERSION_NONE);
    let address = staged + keptCount * rowBytes;
    for (let position = wanted.plainFrom; position < wanted.to; position++, address += rowBytes) {
      words[(this.#addresses >>> 2) + (this.#rowAt[position] as number)] = address;
    }
  }

  /** PullPart.L2. May be called again. */
  finish(): void {
    for (let row = 0; row < this.#classOf.length; row++) {
      if (this.#classOf[row] !== NEW) continue;
      this.#cache.cached.giveBack(this.#slotOf[row] as number);
      this.#classOf[row] = PLAIN;
    }
  }

  /** Fills `into`, a row for each of the caller's keys (PullPart.L3). */
  deliver(into: Float32Array): void {
    const { arena, rowKernels, width } = this.#cache;
    const { plan } = this;
    const out = this.#memory.take(plan.keyCount * width * FLOAT_BYTES);
    this.#layPending();
    rowKernels.readRows(plan.wordsForCaller(this.#addresses), plan.keyCount, 0, width * FLOAT_BYTES, out);
    into.set(arena.floats.subarray(out >>> 2, (out >>> 2) + into.length));
  }

  #slotAt(position: number): number {
    return this.#slotOf[this.#rowAt[position] as number] as number;
  }

  #useCached(): void {
    const { keysAddress, rowCount } = this.plan;
    const { arena, cached, pending, optimizer } = this.#cache;
    const { words } = arena;
    const isPushedFirst = !optimizer.isExact && pending.rowCount > 0;
    const updates = isPushedFirst ? this.#memory.take(rowCount * WORD_BYTES) : 0;
    if (isPushedFirst) pending.find(keysAddress, rowCount, updates);
    cached.findAll(keysAddress, this.#slotOf);
    for (let row = 0; row < rowCount; row++) {
      const slot = this.#slotOf[row] as number;
      if (slot === NO_SLOT) continue;
      const isHidden = isPushedFirst && words[(updates >>> 2) + row] !== 0;
      cached.use(slot);
      this.#classOf[row] = isHidden || cached.versionOf(slot) === VERSION_NONE ? REFRESH : KNOWN;
      words[(this.#addresses >>> 2) + row] = cached.addressOf(slot);
    }
  }

  /** Slots for rows that are not cached, while there are any. Writes the keys of evicted rows; returns how many. */
  #reserveSlots(victims: number): number {
    const { arena, cached } = this.#cache;
    const { words } = arena;
    let victimCount = 0;
    for (let row = 0; row < this.#classOf.length; row++) {
      if (this.#classOf[row] !== PLAIN) continue;
      let slot = cached.takeFree();
      if (slot === NO_SLOT) {
        slot = cached.evict();
        if (slot === NO_SLOT) return victimCount;
        words[(victims >>> 2) + 2 * victimCount] = cached.lowOf(slot);
        words[(victims >>> 2) + 2 * victimCount + 1] = cached.highOf(slot);
        victimCount++;
      }
      this.#slotOf[row] = slot;
      this.#classOf[row] = NEW;
      words[(this.#addresses >>> 2) + row] = cached.addressOf(slot);
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
      const position = next[this.#classOf[row] as number]!++;
      this.#rowAt[position] = row;
      const at = (this.#keys >>> 2) + 2 * position;
      words[at] = words[source + 2 * row] as number;
      words[at + 1] = words[source + 2 * row + 1] as number;
    }
    return starts;
  }

  /** The values of a row have come to its slot; a new one is cached from now on. */
  #keep(position: number, version: number): void {
    const { arena, cached } = this.#cache;
    const row = this.#rowAt[position] as number;
    const slot = this.#slotOf[row] as number;
    const at = (this.#keys >>> 2) + 2 * position;
    if (this.#classOf[row] === NEW) cached.fill(slot, arena.words[at] as number, arena.words[at + 1] as number, version);
    else cached.setVersion(slot, version);
    this.#classOf[row] = KNOWN;
  }

  /** PullPart.L3: rows with pending updates are copied and updated beside the cache. */
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
    for (let row = 0, n = 0; row < plan.rowCount; row++) {
      const at = words[(found >>> 2) + row] as number;
      if (at === 0) continue;
      const address = (this.#addresses >>> 2) + row;
      words[(found >>> 2) + n] = at; // moves to the front of the list
      words[(sources >>> 2) + n] = words[address] as number;
      words[(targets >>> 2) + n] = words[address] = copies + n * rowBytes;
      n++;
    }
    rowKernels.readRows(sources, count, 0, rowBytes, copies);
    pending.readGradients(found, count, gradients);
    optimizer.apply(targets, count, gradients);
  }
}
