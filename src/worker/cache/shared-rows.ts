// shared-rows — the rows of a cache as every thread of the process may read them: by key, without a message and without an allocation. Its memory
// is handed in (a SharedArrayBuffer, a WebAssembly memory, an ordinary buffer for one thread) and belongs to the one who hands it in. Not who comes
// and goes: one thread has the RowCache over the same memory, which says that.
//
//   keys       u32 × 2 × slotCount      low and high half of the key of each slot
//   versions   u32 × slotCount          what a version counts is the policy's to say; VERSION_NONE: the row counts for nothing
//   pins       i32 × slotCount          how many readers hold the row; CLAIMED: it is free, or being written
//   index      i32 × 2^n                slot or NO_SLOT; open addressing from the keyed hash of a key on, at most half full
//   marks      u8 × slotCount           1: a reader used the row since the owner looked
//   dirty      u8 × slotCount           1: the row is newer than what the servers have
//   rows       rowBytes × slotCount     behind the others, or where `rows` says
//
// Invariants:
//   SharedRows.S1. A pinned row is that of its key: it is neither evicted nor written until it is unpinned. Pins are taken and given back by
//       atomic operations, and a slot is published after its row was written, so a reader sees all of a row or does not get it.
//   SharedRows.S2. A reader in another thread may miss a row that is there, while others come and go. It never finds another key's.
//   SharedRows.S3. `find`, `findAll`, `pin` and `unpin` allocate nothing and take no lock.

import { assert } from "../../base/assert.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import { NO_SLOT } from "./eviction-order.ts";

const WORD_BYTES = 4;
const KEY_BYTES = 8;
const ALIGNMENT = 8;

/** In place of a count of pins: nobody may pin this slot. */
export const CLAIMED = -1;

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
  const bytes = slotCount * (KEY_BYTES + 2 * WORD_BYTES + 2) + entryCount(slotCount) * WORD_BYTES;
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function entryCount(slotCount: number): number {
  return 2 ** Math.ceil(Math.log2(2 * slotCount));
}

export class SharedRows {
  readonly memory: RowMemory;
  readonly slotCount: number;
  readonly keys: Uint32Array;
  readonly versions: Uint32Array;
  readonly dirty: Uint8Array;
  protected readonly pins: Int32Array;
  protected readonly marks: Uint8Array;
  protected readonly index: Int32Array;
  protected readonly mask: number;
  readonly #words: Uint32Array;
  readonly #secret: number;
  readonly #factor: number;

  constructor(memory: RowMemory) {
    const { buffer, address, slotCount, secret } = memory;
    let at = address;
    const take = (byteCount: number): number => {
      at += byteCount;
      return at - byteCount;
    };
    this.memory = memory;
    this.slotCount = slotCount;
    this.keys = new Uint32Array(buffer, take(slotCount * KEY_BYTES), 2 * slotCount);
    this.versions = new Uint32Array(buffer, take(slotCount * WORD_BYTES), slotCount);
    this.pins = new Int32Array(buffer, take(slotCount * WORD_BYTES), slotCount);
    const entries = entryCount(slotCount);
    this.mask = entries - 1;
    this.index = new Int32Array(buffer, take(entries * WORD_BYTES), entries);
    this.marks = new Uint8Array(buffer, take(slotCount), slotCount);
    this.dirty = new Uint8Array(buffer, take(slotCount), slotCount);
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

  /** The slot of a key, given as its u32 halves; NO_SLOT when its row is not here. For the owner: another thread pins what it finds (S2). */
  find(low: number, high: number): number {
    return search(this.index, this.keys, this.home(low, high), low, high);
  }

  /** Writes the slots of `slots.length` keys that lie side by side at an address of the buffer. Two passes, so that no key waits for another's memory. */
  findAll(keys: number, slots: Int32Array): void {
    const { index, mask, keys: held } = this;
    const words = this.#words;
    const [secret, factor, first] = [this.#secret, this.#factor, keys >>> 2];
    for (let i = 0, at = first; i < slots.length; i++, at += 2)
      slots[i] = index[hashOf(words[at] as number, words[at + 1] as number, secret, factor) & mask] as number;
    for (let i = 0, at = first; i < slots.length; i++, at += 2) {
      const slot = slots[i] as number;
      const low = words[at] as number;
      const high = words[at + 1] as number;
      if (slot === NO_SLOT || (held[2 * slot] === low && held[2 * slot + 1] === high)) continue;
      slots[i] = search(index, held, (hashOf(low, high, secret, factor) + 1) & mask, low, high);
    }
  }

  /**
   * Pins the row of a key and gives its slot, until `unpin`; NO_SLOT when it is not here, is being written, or its version is lower than
   * `versionMin` or VERSION_NONE.
   */
  pin(low: number, high: number, versionMin = 0): number {
    const slot = this.find(low, high);
    if (slot === NO_SLOT || !this.#tryPin(slot)) return NO_SLOT;
    const version = this.versions[slot] as number;
    const isRight = this.keys[2 * slot] === low && this.keys[2 * slot + 1] === high; // S2: another row may have come since it was found
    if (isRight && version >= versionMin && version !== VERSION_NONE) {
      this.marks[slot] = 1;
      return slot;
    }
    this.unpin(slot);
    return NO_SLOT;
  }

  unpin(slot: number): void {
    assert(Atomics.sub(this.pins, slot, 1) > 0, "SharedRows.S1: a slot is unpinned as often as it was pinned");
  }

  /** The entry of the index at which the search for a key begins. */
  protected home(low: number, high: number): number {
    return hashOf(low, high, this.#secret, this.#factor) & this.mask;
  }

  #tryPin(slot: number): boolean {
    const { pins } = this;
    for (let count = pins[slot] as number; count >= 0; ) {
      const found = Atomics.compareExchange(pins, slot, count, count + 1);
      if (found === count) return true;
      count = found;
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

function search(index: Int32Array, keys: Uint32Array, home: number, low: number, high: number): number {
  const mask = index.length - 1;
  for (let entry = home, probes = 0; probes <= mask; entry = (entry + 1) & mask, probes++) {
    const slot = index[entry] as number;
    if (slot === NO_SLOT || (keys[2 * slot] === low && keys[2 * slot + 1] === high)) return slot;
  }
  return NO_SLOT;
}
