// width-memory — how long the values of key lists were when a ps-lite node last pulled them. Such a node pulls without saying a length, and
// mostly pulls the same lists again and again; who knows the length can be answered from where the values lie.
//
// Invariants:
//   W1. A length is remembered only if all keys of the list had it. It is a guess: what is asked with it is refused if it is wrong, and
//       asked again without.
//   W2. At most LISTS_MAX lists are remembered, the newest ones.

export type KnownWidth = {
  /** Values per key. */
  readonly width: number;
  /** The same as lens of all keys, as they are sent. */
  readonly lens: Uint8Array;
};

const LISTS_MAX = 1024;
const SAMPLES = 128;
const TWO_21 = 2 ** 21;

export class WidthMemory {
  readonly #lists = new Map<number, KnownWidth>();

  find(list: number): KnownWidth | undefined {
    return this.#lists.get(list);
  }

  /** Takes the lens of an answer; they are kept (W1). */
  learn(list: number, lens: Uint8Array): void {
    const lengths = new Int32Array(lens.buffer, lens.byteOffset, lens.length >> 2);
    const width = lengths[0] ?? 0;
    if (width <= 0) return;
    for (let i = 1; i < lengths.length; i++) if (lengths[i] !== width) return;
    if (this.#lists.size >= LISTS_MAX) {
      const [oldest] = this.#lists.keys();
      if (oldest !== undefined) this.#lists.delete(oldest); // W2
    }
    this.#lists.set(list, { width, lens });
  }

  forget(list: number): void {
    this.#lists.delete(list);
  }
}

/**
 * A number for a list of keys of an application and a type: two 32-bit hashes in 53 bits, of some SAMPLES keys. Two lists with one number do
 * no harm (W1).
 */
export function listNumber(keys: Uint8Array, app: number, dtype: number): number {
  const words = new Uint32Array(keys.buffer, keys.byteOffset, keys.length >> 2);
  const step = words.length <= SAMPLES ? 1 : Math.floor(words.length / SAMPLES) | 1; // odd: both halves of keys
  let first = (0x811c9dc5 ^ app) | 0;
  let second = (0x9e3779b9 ^ (dtype << 16) ^ words.length) | 0;
  for (let i = 0; i < words.length; i += step) {
    const word = words[i] as number;
    first = Math.imul(first ^ word, 0x01000193);
    second = Math.imul(second + word, 0x85ebca6b) ^ (second >>> 13);
  }
  return (first >>> 0) * TWO_21 + (second >>> 11);
}
