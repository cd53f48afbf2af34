// update-journal — the old words of an update in progress: a plug-in may throw in the middle of it, or leave values
// that are not finite. For updates in plain TypeScript; those of kernels have a Trial.
//
// Invariants:
//   UpdateJournal.J1. After `undo` everything that was kept is as it was, bit for bit, also what was kept twice.

const WORDS_FIRST = 4096;

export class UpdateJournal {
  readonly #words: Uint32Array<ArrayBufferLike>;
  #kept = new Uint32Array(WORDS_FIRST);
  #keptCount = 0;
  /** Index of the first word and number of words of each span, in turn. */
  #spans: number[] = [];

  /** `words` is the memory that changes. */
  constructor(words: Uint32Array<ArrayBufferLike>) {
    this.#words = words;
  }

  /** Keeps `wordCount` words from an index on. */
  keep(from: number, wordCount: number): void {
    const at = this.#room(wordCount);
    const [words, kept] = [this.#words, this.#kept];
    for (let i = 0; i < wordCount; i++) kept[at + i] = words[from + i] as number;
    this.#spans.push(from, wordCount);
  }

  /** UpdateJournal.J1 */
  undo(): void {
    const [words, kept, spans] = [this.#words, this.#kept, this.#spans];
    let at = this.#keptCount;
    for (let span = spans.length - 2; span >= 0; span -= 2) {
      const [from, wordCount] = [spans[span] as number, spans[span + 1] as number];
      at -= wordCount;
      for (let i = 0; i < wordCount; i++) words[from + i] = kept[at + i] as number;
    }
    this.clear();
  }

  /** Whatever was kept stays as it is now. */
  clear(): void {
    this.#keptCount = 0;
    this.#spans.length = 0;
  }

  #room(wordCount: number): number {
    const at = this.#keptCount;
    this.#keptCount += wordCount;
    if (this.#keptCount <= this.#kept.length) return at;
    const larger = new Uint32Array(Math.max(2 * this.#kept.length, this.#keptCount));
    larger.set(this.#kept.subarray(0, at));
    this.#kept = larger;
    return at;
  }
}
