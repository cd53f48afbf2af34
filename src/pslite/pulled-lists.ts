// pulled-lists — the key lists that ps-lite's nodes pull, and the lengths of their values. Such a node pulls without a
// length, and mostly pulls the same lists again and again: with a known length it is answered from where the values
// are, and its keys need not be kept again. All nodes share them: a hundred workers cost no more than one.
//
// Invariants:
//   PulledLists.W1. A length is remembered only if all keys of the list had it. It is a guess: a request with a wrong
//       length is refused, and made again without one.
//   PulledLists.W2. At most LISTS_MAX lists and LIST_BYTES_MAX of keys and lens are remembered, the newest ones.
//   PulledLists.W3. A list is found by all of its keys. They never change: answers are sent from them.

export type KnownList = {
  readonly keys: Uint8Array;
  /** Values per key. */
  readonly width: number;
  /** The same as lens of all keys, as they are sent. */
  readonly lens: Uint8Array;
};

/** Whose keys, and the type of their values: one list may be pulled from several applications. */
export type ListOwner = { readonly app: number; readonly dtype: number };

const LISTS_MAX = 1024;
const LIST_BYTES_MAX = 64 * 1024 * 1024;
const KEY_WORDS = 2;
/** Below this a further view costs more than it saves. */
const SHORT_BYTES = 64;
const SAMPLES = 128;
const TWO_21 = 2 ** 21;

export class PulledLists {
  readonly #lists = new Map<number, KnownList>();
  readonly #bytesMax: number;
  #byteCount = 0;

  constructor({ bytesMax = LIST_BYTES_MAX }: { readonly bytesMax?: number } = {}) {
    this.#bytesMax = bytesMax;
  }

  /** The list with exactly these keys, which are 8-byte aligned. */
  find(keys: Uint8Array, owner: ListOwner): KnownList | undefined {
    const known = this.#lists.get(listNumber(keys, owner));
    return known !== undefined && isSame(known.keys, keys) ? known : undefined; // PulledLists.W3
  }

  /** Remembers the keys of a request and the lens of its answer. Neither may change afterwards (PulledLists.W1). */
  learn(keys: Uint8Array, lens: Uint8Array, owner: ListOwner): void {
    const lengths = new Int32Array(lens.buffer, lens.byteOffset, lens.length >> 2);
    const width = lengths[0] ?? 0;
    if (width <= 0 || keys.length + lens.length > this.#bytesMax) return;
    for (let i = 1; i < lengths.length; i++) if (lengths[i] !== width) return;
    const list = listNumber(keys, owner);
    this.#remove(list);
    this.#lists.set(list, { keys, width, lens });
    this.#byteCount += keys.length + lens.length;
    while (this.#lists.size > LISTS_MAX || this.#byteCount > this.#bytesMax) {
      const [oldest] = this.#lists.keys();
      if (oldest === undefined) return;
      this.#remove(oldest); // PulledLists.W2
    }
  }

  forget(keys: Uint8Array, owner: ListOwner): void {
    this.#remove(listNumber(keys, owner));
  }

  #remove(list: number): void {
    const known = this.#lists.get(list);
    if (known === undefined) return;
    this.#lists.delete(list);
    this.#byteCount -= known.keys.length + known.lens.length;
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  if (a.length <= SHORT_BYTES) return a.every((byte, i) => byte === b[i]);
  const [first, second] = [wordsOf(a), wordsOf(b)];
  for (let i = 0; i < first.length; i++) if (first[i] !== second[i]) return false;
  return true;
}

/**
 * A number for a list of keys: two 32-bit hashes in 53 bits, of some SAMPLES keys. Of two lists with the same number
 * the newer is remembered.
 */
function listNumber(keys: Uint8Array, { app, dtype }: ListOwner): number {
  const words = wordsOf(keys);
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

function wordsOf(keys: Uint8Array): Uint32Array {
  return new Uint32Array(keys.buffer, keys.byteOffset, (keys.length >> 3) * KEY_WORDS);
}
