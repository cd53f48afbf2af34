// batch-slots — assigns a slot to each id of a batch, for sources that fetch exactly the rows of a batch: its distinct
// ids, ascending, one slot each.

import { ascendingIndex } from "../../nn/layers/slot-embedding.ts";
import { NO_SLOT } from "./row-source.ts";

export class BatchSlots {
  readonly slotCountMax: number;
  readonly #vocabSize: number;
  readonly #slots: Int32Array;
  /** The distinct ids of the batch. */
  readonly #ids: Float64Array;
  readonly #keys: BigUint64Array;
  /** The same memory: low and high half of each key. */
  readonly #halves: Uint32Array;
  #idCount = 0;
  #slotCount = 0;

  /** `keys` has room for the distinct ids of a batch. */
  constructor(options: { readonly idCountMax: number; readonly vocabSize: number; readonly keys: BigUint64Array }) {
    const { idCountMax, vocabSize, keys } = options;
    this.slotCountMax = idCountMax;
    this.#vocabSize = vocabSize;
    this.#slots = new Int32Array(idCountMax);
    this.#ids = new Float64Array(idCountMax);
    this.#keys = keys;
    this.#halves = new Uint32Array(keys.buffer, keys.byteOffset, 2 * keys.length);
  }

  /** Loads another batch. An id without a row has NO_SLOT (RowSource.R4). */
  assign(ids: ArrayLike<number>): void {
    this.#idCount = ids.length;
    const known = this.#ids;
    let knownCount = 0;
    for (let i = 0; i < ids.length; i++) if (this.#isRow(ids[i]!)) known[knownCount++] = ids[i]!;
    known.subarray(0, knownCount).sort();
    let count = 0;
    for (let i = 0; i < knownCount; i++) if (count === 0 || known[count - 1] !== known[i]) known[count++] = known[i]!;
    this.#slotCount = count;
    for (let i = 0; i < count; i++) {
      this.#halves[2 * i] = known[i]! % 2 ** 32;
      this.#halves[2 * i + 1] = Math.floor(known[i]! / 2 ** 32);
    }
    for (let i = 0; i < ids.length; i++) this.#slots[i] = this.#isRow(ids[i]!) ? ascendingIndex(known, count, ids[i]!) : NO_SLOT;
  }

  /** Of each id of the batch. A view, valid until the next `assign`. */
  get slots(): Int32Array {
    return this.#slots.subarray(0, this.#idCount);
  }

  /** The key of each slot. A view, as `slots`. */
  get keys(): BigUint64Array {
    return this.#keys.subarray(0, this.#slotCount);
  }

  /** The keys of some slots, which ascend. */
  keysOf(slots: Int32Array): BigUint64Array {
    return slots.length === this.#slotCount ? this.keys : BigUint64Array.from(slots, (slot) => this.#keys[slot]!);
  }

  /** Whether these are the ids that were assigned last. */
  holds(ids: ArrayLike<number>): boolean {
    if (ids.length !== this.#idCount) return false;
    for (let i = 0; i < ids.length; i++) {
      const slot = this.#slots[i]!;
      if (slot === NO_SLOT ? this.#isRow(ids[i]!) : this.#ids[slot] !== ids[i]) return false;
    }
    return true;
  }

  #isRow(id: number): boolean {
    return id >= 0 && id < this.#vocabSize;
  }
}
