// block-span — memory of a tensor's block in the arena, counted by its users: values, slots or steps.

import { assert } from "../base/assert.ts";
import { type Arena, arenaFull } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import type { PulledBlock } from "./pulled-block.ts";

/** A block's values, unchanged until `release`. */
export type ValuesHold = {
  readonly values: Float32Array<ArrayBufferLike>;
  release(): void;
};

/** A block at one moment, unchanged until `release`. */
export type BlockSnapshot = ValuesHold & {
  /** Slot after slot; empty if the optimizer has none. */
  readonly slots: Float32Array<ArrayBufferLike>;
  readonly step: number;
  /** Whether the block has other values by now: `release` then frees the memory. */
  readonly isReplaced: boolean;
  /** What rows count beside `step`; undefined if none does. */
  readonly rowSteps: Uint32Array<ArrayBufferLike> | undefined;
};

/** A copy of a block, which moves with its part. */
export type BlockImage = {
  readonly index: number;
  readonly values: Float32Array;
  readonly slots: Float32Array;
  readonly step: number;
  readonly rowSteps: Uint32Array | undefined;
  readonly isStarted: boolean;
  /** What workers pulled last, by rank. */
  readonly pulled: ReadonlyMap<number, Float32Array>;
};

/** Where the bytes of a restored block go. */
export type OpenBlock = {
  readonly values: Float32Array<ArrayBufferLike>;
  readonly slots: Float32Array<ArrayBufferLike>;
  /** Empty unless requested. */
  readonly rowSteps: Uint32Array<ArrayBufferLike>;
};

/** Released with its last hold, once it was replaced or its tensor closed (TensorStore.T2). */
export class Span {
  readonly address: number;
  readonly byteCount: number;
  /** Readers and sockets that use it. The store counts. */
  holdCount = 0;
  isRetired = false;
  readonly #arena: Arena;

  constructor(arena: Arena, address: number, byteCount: number) {
    this.#arena = arena;
    this.address = address;
    this.byteCount = byteCount;
    arena.noteState(address, byteCount);
  }

  get floats(): Float32Array<ArrayBufferLike> {
    return this.#arena.floats.subarray(this.address >>> 2, (this.address + this.byteCount) >>> 2);
  }

  get words(): Uint32Array<ArrayBufferLike> {
    return this.#arena.words.subarray(this.address >>> 2, (this.address + this.byteCount) >>> 2);
  }

  /** No new holds. Call it again when the last hold is released. */
  retire(): void {
    this.isRetired = true;
    if (this.holdCount === 0) this.#arena.releaseState(this.address, this.byteCount);
  }

  /** A copy of this held span, or the span itself if its holder gave it up (TensorStore.T1). Throws ARENA_FULL. */
  copied(kernels: Kernels): Span {
    const target = this.roomForNext();
    if (target === this.address) return this;
    kernels.copy(target, this.address, this.byteCount);
    const copy = new Span(this.#arena, target, this.byteCount);
    this.retire();
    return copy;
  }

  /** Where the successor of a held span goes: a fresh span, or this one if its holder gave it up. Throws ARENA_FULL. */
  roomForNext(): number {
    const target = this.#arena.tryMove(this.byteCount);
    if (target !== 0) return target;
    if (!this.#arena.onFull("move", this.byteCount))
      throw arenaFull(this.#arena, `${this.byteCount} bytes beside values that are being sent`, { retryable: true });
    return this.holdCount > 0 ? this.roomForNext() : this.address;
  }
}

/** A block of a tensor, as its store keeps it. */
export type Block = {
  span: Span;
  /** Undefined if the optimizer has none. */
  slots: Span | undefined;
  /** Undefined as long as all rows count alike. */
  rowSteps: Span | undefined;
  /** Memory for `rowSteps` while that is undefined, if rows may count. */
  stepsRoom: Span | undefined;
  readonly floatCount: number;
  readonly rowCount: number;
  /** The epoch of the placement that last assigned it to this server; below 0: not checked. The checker writes it. */
  ownedEpoch: number;
  /** Updates of all rows that were applied; of some rows too, where those are not counted elsewhere. */
  step: number;
  /** What workers pulled last of it. */
  readonly pulled: PulledBlock;
  /** It has values from `start` or a checkpoint, or was updated. */
  isStarted: boolean;
};

/** By row of a block: 1 where it is named, 0 otherwise. */
export type RowMarks = Uint8Array;

/** The runs of rows with this mark. */
export function* runsOf(marks: RowMarks, mark: 0 | 1): Iterable<{ readonly from: number; readonly to: number }> {
  for (let from = marks.indexOf(mark); from >= 0; ) {
    const end = marks.indexOf(mark === 1 ? 0 : 1, from);
    const to = end < 0 ? marks.length : end;
    yield { from, to };
    from = marks.indexOf(mark, to);
  }
}

/** A span of the arena that several users read from: it is released with the last of them. */
export class SharedSpan {
  readonly address: number;
  readonly byteCount: number;
  /** It was made for one answer (peer/frame-batch.ts, Held). */
  readonly isFresh = true;
  readonly #arena: Arena;
  #users: number;

  /** Takes over memory that was allocated with this many bytes, for so many users. */
  constructor(arena: Arena, span: { readonly address: number; readonly byteCount: number; readonly users?: number }) {
    this.#arena = arena;
    this.address = span.address;
    this.byteCount = span.byteCount;
    this.#users = span.users ?? 1;
  }

  /** Each user calls it once; the address is then void for it. */
  release(): void {
    assert(this.#users > 0, "a span was released twice");
    if (--this.#users === 0) this.#arena.release(this.address, this.byteCount);
  }
}
