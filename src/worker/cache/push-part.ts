// push-part — what one operation of a CachedEmbedding pushes: the pending updates of some keys, and what becomes of
// them when a server has them.
//
// Invariants:
//   PushPart.U1. Updates are pending until a server acknowledged them: a push that failed is made again by a later
//       operation, unless a server that lives may have applied it, or refused it for its numbers. One that had left
//       when its server was taken for dead is held until that is known (unsettled-pushes.ts).
//   PushPart.U2. An acknowledged update is in the row's copy (or the copy counts for nothing) and in its version,
//       exactly once. Nothing can fail between the acknowledgement and that: the memory for it was taken before
//       anything was sent.

import { FLOAT_BYTES, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { ArenaSpans } from "../arena-spans.ts";
import type { RowPlan } from "../router/row-plan.ts";
import type { CacheState } from "./cache-state.ts";
import { NO_SLOT } from "./eviction-order.ts";
import type { Acknowledged, PushList, ServerRows, Unsure } from "./row-exchange.ts";

export class PushPart {
  readonly list: PushList;
  readonly #cache: CacheState;
  readonly #plan: RowPlan;
  readonly #gradients: number;
  readonly #updates: Uint32Array;
  /** Room for two lists of addresses (PushPart.U2). */
  readonly #copies: number;
  readonly #sources: number;

  /** All keys of the plan have pending updates. Throws ARENA_FULL. */
  constructor(cache: CacheState, plan: RowPlan, memory: ArenaSpans) {
    const { arena, pending, width } = cache;
    const { rowCount, keysAddress } = plan;
    this.#cache = cache;
    this.#plan = plan;
    this.#copies = memory.take(rowCount * WORD_BYTES);
    this.#sources = memory.take(rowCount * WORD_BYTES);
    const found = this.#sources;
    this.#gradients = memory.take(rowCount * width * FLOAT_BYTES);
    pending.find(keysAddress, rowCount, found);
    pending.readGradients(found, rowCount, this.#gradients);
    this.#updates = new Uint32Array(rowCount);
    for (let row = 0; row < rowCount; row++) this.#updates[row] = pending.updatesAt(arena.words[(found >>> 2) + row] as number);
    const { buffer } = arena.memory;
    this.list = {
      parts: plan.parts.map(({ server, from, keys }) => ({ server, epoch: plan.epoch, from, to: from + keys.length })),
      keys: new BigUint64Array(buffer, keysAddress, rowCount),
      gradients: new Float32Array(buffer, this.#gradients, rowCount * width),
      updates: this.#updates.every((count) => count === 1) ? new Uint32Array(0) : this.#updates,
    };
  }

  /** By slot, how many updates of its row are pushed. */
  advance(): ReadonlyMap<number, number> {
    const slots = this.#slotsOf(0, this.#plan.rowCount);
    const advance = new Map<number, number>();
    for (let row = 0; row < slots.length; row++) {
      const slot = slots[row] as number;
      if (slot !== NO_SLOT) advance.set(slot, this.#updates[row] as number);
    }
    return advance;
  }

  /**
   * A server has applied these (PushPart.U1, PushPart.U2). All calls of the exchange have ended: the gradients are
   * free.
   */
  acknowledge({ pushed: { from, to }, rate }: Acknowledged): void {
    const { cached, pending, optimizer, counters } = this.#cache;
    const slots = this.#slotsOf(from, to);
    optimizer.setRate(rate);
    if (optimizer.isExact) this.#applyToCopies(slots, from);
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i] as number;
      if (slot === NO_SLOT || cached.versionOf(slot) === VERSION_NONE) continue;
      cached.setVersion(slot, optimizer.isExact ? cached.versionOf(slot) + (this.#updates[from + i] as number) : VERSION_NONE);
    }
    pending.remove(this.#plan.keysAddress + from * KEY_BYTES, to - from);
    counters.rowsPushed += to - from;
  }

  /**
   * A server has refused these for their numbers, or may have applied them, and nobody will know (PushPart.U1): they
   * are not pending any more, and copies of their rows count for nothing.
   */
  giveUp({ from, to }: ServerRows): void {
    const { cached, pending } = this.#cache;
    for (const slot of this.#slotsOf(from, to)) if (slot !== NO_SLOT) cached.setVersion(slot, VERSION_NONE);
    pending.remove(this.#plan.keysAddress + from * KEY_BYTES, to - from);
  }

  /** Nobody knows yet whether a server has these: they are not pending, and copies of their rows do not count. */
  hold({ pushed, fate }: Unsure): void {
    const { server, from, to } = pushed;
    const { unsettled, width } = this.#cache;
    const { keys, gradients } = this.list;
    unsettled.hold({
      server,
      keys: keys.slice(from, to),
      gradients: gradients.slice(from * width, to * width),
      updates: this.#updates.slice(from, to),
      fate,
    });
    this.giveUp(pushed);
  }

  #slotsOf(from: number, to: number): Int32Array {
    const slots = new Int32Array(to - from);
    this.#cache.cached.findAll(this.#plan.keysAddress + from * KEY_BYTES, slots);
    return slots;
  }

  /** Repeats the server's step on cached rows, by the same kernel, to the same bits. Gradients move together. */
  #applyToCopies(slots: Int32Array, from: number): void {
    const { arena, cached, optimizer, rowKernels, width } = this.#cache;
    const rowBytes = width * FLOAT_BYTES;
    const gradients = this.#gradients + from * rowBytes;
    let count = 0;
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i] as number;
      if (slot === NO_SLOT) continue;
      arena.words[(this.#copies >>> 2) + count] = cached.addressOf(slot);
      arena.words[(this.#sources >>> 2) + count] = gradients + i * rowBytes;
      count++;
    }
    if (count === 0) return;
    // Each row moves to its position or before it, in order.
    if (count < slots.length) rowKernels.readRows(this.#sources, count, 0, rowBytes, gradients);
    optimizer.apply(this.#copies, count, gradients);
  }
}
