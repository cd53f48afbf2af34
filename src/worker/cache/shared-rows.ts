// shared-rows — the rows of a cache as every thread of the process may read them: by key, without a message and without
// an allocation. Its memory is handed in (a SharedArrayBuffer, a WebAssembly memory, an ordinary buffer for one thread)
// and belongs to the one who hands it in. Not who comes and goes: one thread has the RowCache over the same memory,
// which says that.
//
//   records    u32 × 4 × slotCount      [ key: low, high | version | state ] of each slot, in one line of memory
//   index      i32 × 2^n                slot or NO_SLOT; open addressing from a key's keyed hash on, at most half full
//   dirty      u8 × slotCount           1: the row is newer than what the servers have
//   rows       rowBytes × slotCount     behind the others, or where `rows` says
//
//   version    what it counts is the policy's to say; VERSION_NONE: the row counts for nothing
//   state      2 × how many readers hold the row, + 1 if one asked for it since the owner looked;
//              CLAIMED: it is free, or being written
//
// Invariants:
//   SharedRows.S1. A pinned row is that of its key: it is neither evicted nor written until it is unpinned. Pins are
//       taken and given back by atomic operations (or by the owner alone: RowCache.C6), and a slot is published after
//       its row was written, so a reader sees all of a row or does not get it.
//   SharedRows.S2. A reader in another thread may miss a row that is there, while others come and go. It never finds
//       another key's.
//   SharedRows.S3. `find`, `findAll`, `findFresh`, `pin` and `unpin` allocate nothing and take no lock.

import { assert } from "../../base/assert.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import { NO_SLOT } from "./eviction-order.ts";

const ALIGNMENT = 8;

/** Of a record. */
export const RECORD_WORDS = 4;
const HIGH = 1;
const VERSION = 2;
export const STATE = 3;

/** The state of a slot that nobody may pin. */
export const CLAIMED = -1;
export const MARK = 1;
export const ONE_PIN = 2;

/** Where the rows of a cache lie. Plain data: it can be posted to another thread. */
export type RowMemory = {
  readonly buffer: ArrayBufferLike;
  /** Of `sharedBytes` bytes, a multiple of 8. */
  readonly address: number;
  /** Of `rowBytes` bytes for each slot, a multiple of 4. */
  readonly rows: number;
  readonly slotCount: number;
  readonly rowBytes: number;
  /** Keys the hash of the index: who chooses keys cannot choose where they collide. */
  readonly secret: number;
};

/** How many bytes a cache takes beside its rows. */
export function sharedBytes(slotCount: number): number {
  const bytes = slotCount * (RECORD_WORDS * WORD_BYTES + 1) + entryCount(slotCount) * WORD_BYTES;
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function entryCount(slotCount: number): number {
  return 2 ** Math.ceil(Math.log2(2 * slotCount));
}

export class SharedRows {
  readonly memory: RowMemory;
  readonly slotCount: number;
  readonly dirty: Uint8Array;
  protected readonly records: Uint32Array;
  /** The same memory, for states. */
  protected readonly states: Int32Array;
  protected readonly index: Int32Array;
  protected readonly mask: number;
  readonly #words: Uint32Array;
  readonly #secret: number;
  readonly #factor: number;

  constructor(memory: RowMemory) {
    const { buffer, address, slotCount, secret } = memory;
    const recordWords = slotCount * RECORD_WORDS;
    const entries = entryCount(slotCount);
    const index = address + recordWords * WORD_BYTES;
    this.memory = memory;
    this.slotCount = slotCount;
    this.records = new Uint32Array(buffer, address, recordWords);
    this.states = new Int32Array(buffer, address, recordWords);
    this.index = new Int32Array(buffer, index, entries);
    this.mask = entries - 1;
    this.dirty = new Uint8Array(buffer, index + entries * WORD_BYTES, slotCount);
    this.#words = new Uint32Array(buffer, 0, Math.floor(buffer.byteLength / WORD_BYTES));
    this.#secret = secret | 0;
    this.#factor = Math.imul(secret ^ 0x2545f491, 0x9e3779b1) | 1;
  }

  /** Where the row in a slot lies, a byte offset in the buffer. */
  addressOf(slot: number): number {
    return this.memory.rows + slot * this.memory.rowBytes;
  }

  /** The slot of the row at an address; NO_SLOT for addresses elsewhere. */
  slotAt(address: number): number {
    const { rows, rowBytes } = this.memory;
    const offset = address - rows;
    return offset >= 0 && offset < this.slotCount * rowBytes ? offset / rowBytes : NO_SLOT;
  }

  lowOf(slot: number): number {
    return this.records[slot * RECORD_WORDS] as number;
  }

  highOf(slot: number): number {
    return this.records[slot * RECORD_WORDS + HIGH] as number;
  }

  versionOf(slot: number): number {
    return this.records[slot * RECORD_WORDS + VERSION] as number;
  }

  setVersion(slot: number, version: number): void {
    this.records[slot * RECORD_WORDS + VERSION] = version;
  }

  /**
   * The slot of a key (two u32 halves); NO_SLOT if absent. For the owner: another thread pins what it finds
   * (SharedRows.S2).
   */
  find(low: number, high: number): number {
    return search(this.index, this.records, this.home(low, high), low, high);
  }

  /**
   * Writes the slots of `slots.length` keys that lie side by side at an address of the buffer. Two passes, so that no
   * key waits for another's memory.
   */
  findAll(keys: number, slots: Int32Array): void {
    const { index, mask, records } = this;
    const words = this.#words;
    const [secret, factor, first] = [this.#secret, this.#factor, keys >>> 2];
    for (let i = 0, at = first; i < slots.length; i++, at += 2)
      slots[i] = index[hashOf(words[at] as number, words[at + 1] as number, secret, factor) & mask] as number;
    for (let i = 0, at = first; i < slots.length; i++, at += 2) {
      const slot = slots[i] as number;
      const low = words[at] as number;
      const high = words[at + 1] as number;
      if (slot === NO_SLOT || (records[slot * RECORD_WORDS] === low && records[slot * RECORD_WORDS + HIGH] === high)) continue;
      slots[i] = search(index, records, (hashOf(low, high, secret, factor) + 1) & mask, low, high);
    }
  }

  /**
   * Pins the row of a key and gives its slot, until `unpin`; NO_SLOT when it is not here, is being written, or its
   * version is lower than `versionMin` or VERSION_NONE.
   */
  pin(low: number, high: number, versionMin = 0): number {
    const slot = this.find(low, high);
    if (slot === NO_SLOT || !this.#tryPin(slot)) return NO_SLOT;
    const version = this.versionOf(slot);
    // SharedRows.S2: another row may have come since it was found.
    const isRight = this.lowOf(slot) === low && this.highOf(slot) === high;
    if (isRight && version >= versionMin && version !== VERSION_NONE) return slot;
    this.unpin(slot);
    return NO_SLOT;
  }

  /**
   * As `pin`, and marks the row as used instead: for a reader that copies it, and sees by other means whether it was
   * changed meanwhile. It has a second chance then; so has another one that has come to its slot since.
   */
  findFresh(low: number, high: number, versionMin: number): number {
    const slot = this.find(low, high);
    if (slot === NO_SLOT) return NO_SLOT;
    const at = slot * RECORD_WORDS;
    const version = this.records[at + VERSION] as number;
    const state = this.states[at + STATE] as number;
    if (version < versionMin || version === VERSION_NONE || state === CLAIMED) return NO_SLOT;
    if ((state & MARK) === 0) Atomics.or(this.states, at + STATE, MARK); // a write takes the line from others
    return slot;
  }

  /** Whether a row stands in a slot. */
  isHeld(slot: number): boolean {
    return this.states[slot * RECORD_WORDS + STATE] !== CLAIMED;
  }

  unpin(slot: number): void {
    const state = Atomics.sub(this.states, slot * RECORD_WORDS + STATE, ONE_PIN);
    assert(state >= ONE_PIN, "SharedRows.S1: a slot is unpinned as often as it was pinned");
  }

  /** The entry of the index at which the search for a key begins. */
  protected home(low: number, high: number): number {
    return hashOf(low, high, this.#secret, this.#factor) & this.mask;
  }

  #tryPin(slot: number): boolean {
    const { states } = this;
    const at = slot * RECORD_WORDS + STATE;
    for (let state = states[at] as number; state !== CLAIMED; ) {
      const found = Atomics.compareExchange(states, at, state, (state + ONE_PIN) | MARK);
      if (found === state) return true;
      state = found;
    }
    return false;
  }
}

function hashOf(low: number, high: number, secret: number, factor: number): number {
  const lows = Math.imul(low ^ secret, 0x85ebca6b);
  const highs = Math.imul(high ^ factor, 0xc2b2ae35);
  const sum = Math.imul((lows ^ (lows >>> 15)) + (highs ^ (highs >>> 13)), factor);
  const hash = Math.imul(sum ^ (sum >>> 16), 0x9e3779b1);
  return hash ^ (hash >>> 15);
}

function search(index: Int32Array, records: Uint32Array, home: number, low: number, high: number): number {
  const mask = index.length - 1;
  for (let entry = home, probes = 0; probes <= mask; entry = (entry + 1) & mask, probes++) {
    const slot = index[entry] as number;
    if (slot === NO_SLOT || (records[slot * RECORD_WORDS] === low && records[slot * RECORD_WORDS + HIGH] === high)) return slot;
  }
  return NO_SLOT;
}
