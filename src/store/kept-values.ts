// kept-values — the values of key lists as they were last pulled, to answer the same pull again without gathering them: after a round of pushes
// all workers pull the same lists, and while a model is only used nothing changes at all.
//
// Invariants:
//   K1. What is kept is what the store holds: it counts its changes, and calls `drop` before it changes anything while `usedBytes` is above 0.
//   K2. A list is kept when it comes the second time without a change in between. Where a push comes before every pull nothing is.
//   K3. A list is found by its width and all of its keys.
//   K4. At most LISTS lists of together `bytesMax` are kept, and `drop` gives all of it back but what somebody holds still: that stays as it is
//       until it is let go.

import type { Arena } from "../kernel/arena.ts";
import { SharedSpan } from "./shared-span.ts";
import { FLOAT_BYTES, KEY_BYTES } from "./value-batch.ts";

const LISTS = 256;
const KEPT_BYTES_MAX = 16 * 1024 * 1024;
/** Of a small arena no more than this part. */
const ARENA_SHARE = 1 / 16;
const KEY_WORDS = 2;

/** Keys and the width of their values, as in a Pull. */
export type KeyList = { readonly keys: number; readonly keyCount: number; readonly width: number };

/** Values at rest in the arena. */
export type RowsHold = {
  readonly address: number;
  /** Whether they were gathered for this one. */
  readonly isFresh: boolean;
  /** To be called exactly once; the address is void afterwards. */
  release(): void;
};

type Entry = {
  readonly keyCount: number;
  readonly width: number;
  readonly firstKey: number;
  /** How many changes there were when it was pulled last. */
  readonly seenAt: number;
  /** The values, and behind them the keys. */
  readonly span: SharedSpan | undefined;
};

export class KeptValues {
  readonly #arena: Arena;
  readonly #bytesMax: number;
  readonly #entries: (Entry | undefined)[] = new Array<Entry | undefined>(LISTS).fill(undefined);
  /** Arena bytes of all that is kept. Nobody else writes it. */
  usedBytes = 0;

  constructor(arena: Arena) {
    this.#arena = arena;
    this.#bytesMax = Math.min(KEPT_BYTES_MAX, Math.floor(arena.bytesMax * ARENA_SHARE));
  }

  /**
   * The list's values, kept or written by `gather` where it is told. `changes`: how many the store has had (K1). Throws what `gather` throws, or
   * ARENA_FULL.
   */
  hold(list: KeyList, changes: number, gather: (out: number) => void): RowsHold {
    const kept = this.#find(list);
    if (kept !== undefined) return { address: kept.address, isFresh: false, release: () => kept.release() };
    const span = this.#spanFor(list, changes);
    try {
      gather(span.address);
    } catch (thrown) {
      span.release();
      throw thrown;
    }
    this.#gathered(list, changes, span);
    return { address: span.address, isFresh: true, release: () => span.release() };
  }

  /** K4 */
  drop(): void {
    if (this.usedBytes > 0) for (let slot = 0; slot < LISTS; slot++) this.#remove(slot);
  }

  #find(list: KeyList): SharedSpan | undefined {
    const entry = this.#entries[this.#slotOf(list)];
    if (entry?.span === undefined || entry.keyCount !== list.keyCount || entry.width !== list.width) return undefined;
    const keptKeys = entry.span.address + valueBytesOf(list);
    return isSame(this.#arena.words, keptKeys >>> 2, list.keys >>> 2, list.keyCount * KEY_WORDS) ? entry.span.share() : undefined; // K3
  }

  /** Memory for the list's values: with room behind them for the keys if they are going to be kept (K2). What is kept makes room if it must. */
  #spanFor(list: KeyList, changes: number): SharedSpan {
    const valueBytes = valueBytesOf(list);
    const keptBytes = valueBytes + list.keyCount * KEY_BYTES;
    const isKept = this.#isRepeated(list, changes) && this.usedBytes + keptBytes <= this.#bytesMax;
    const kept = isKept ? this.#arena.tryAllocateState(keptBytes) : 0;
    if (kept !== 0) return new SharedSpan(this.#arena, { address: kept, byteCount: keptBytes });
    let address = this.#arena.tryAllocate(valueBytes);
    if (address === 0) {
      this.drop();
      address = this.#arena.allocate(valueBytes);
    }
    return new SharedSpan(this.#arena, { address, byteCount: valueBytes });
  }

  /** The list's values are in the span: keeps it as well, if it has room for the keys, or notes that the list was pulled. */
  #gathered(list: KeyList, changes: number, span: SharedSpan): void {
    const { keys, keyCount, width } = list;
    const slot = this.#slotOf(list);
    const valueBytes = valueBytesOf(list);
    const isKept = span.byteCount > valueBytes;
    this.#remove(slot);
    if (isKept) {
      this.#arena.bytes.copyWithin(span.address + valueBytes, keys, keys + keyCount * KEY_BYTES);
      this.usedBytes += span.byteCount;
    }
    const firstKey = this.#arena.words[keys >>> 2] as number;
    this.#entries[slot] = { keyCount, width, firstKey, seenAt: changes, span: isKept ? span.share() : undefined };
  }

  #isRepeated(list: KeyList, changes: number): boolean {
    const entry = this.#entries[this.#slotOf(list)];
    if (entry === undefined || entry.seenAt !== changes) return false;
    return entry.keyCount === list.keyCount && entry.width === list.width && entry.firstKey === this.#arena.words[list.keys >>> 2];
  }

  #slotOf({ keys, keyCount, width }: KeyList): number {
    const { words } = this.#arena;
    const first = keys >>> 2;
    const mixed = Math.imul((words[first] as number) ^ Math.imul((words[first + 1] as number) ^ keyCount, 0x85ebca6b), 0x9e3779b1) ^ width;
    return ((mixed >>> 24) ^ mixed) & (LISTS - 1);
  }

  #remove(slot: number): void {
    const span = this.#entries[slot]?.span;
    this.#entries[slot] = undefined;
    if (span === undefined) return;
    this.usedBytes -= span.byteCount;
    span.release();
  }
}

function valueBytesOf({ keyCount, width }: KeyList): number {
  return keyCount * width * FLOAT_BYTES;
}

/** Whether so many words, an even number, are the same in both places. */
function isSame(words: Uint32Array, first: number, second: number, count: number): boolean {
  for (let i = 0; i < count; i += 2)
    if (((words[first + i]! ^ words[second + i]!) | (words[first + i + 1]! ^ words[second + i + 1]!)) !== 0) return false;
  return true;
}
