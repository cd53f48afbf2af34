// row-locks — keeps threads of one process out of each other's way at the rows of a table: a word for each of 64 groups
// of rows, in memory that they share, each in a line of its own: threads at different rows do not take it from each
// other. The word is the number of the thread that has the lock, 0 when nobody has.
//
// Invariants:
//   RowLocks.L1. A thread has one lock at a time, or the owner of the table all of them: nobody waits for a lock while
//       it has another.
//   RowLocks.L2. What a lock is held for is short and waits for nothing. A thread that ends with a lock leaves its
//       number there, and the owner takes that away (`takeFrom`): it hears of the end of every thread.
//   RowLocks.L3. The owner never waits for a lock: it tries, and comes back later. A thread that has ended is heard of
//       on the owner's event loop.
//   RowLocks.L4. What is read without a lock between two equal answers of `changesOf`, neither of them HELD, was so in
//       one moment: a group is counted as changed before it is given back.

import { WORD_BYTES } from "../../kernel/elements.ts";

/** Groups of rows. */
const LOCK_COUNT = 64;
/** From one lock to the next: a line of the processor's cache. */
const LINE_BYTES = 64;
const LINE_WORDS = LINE_BYTES / WORD_BYTES;
/** Behind the word of a lock: how often it was given back, a count that begins again at 2^31. */
const CHANGES = 1;
const CHANGES_MASK = 0x7fffffff;
/** Somebody has the lock. */
export const HELD = -1;
/** The owner's number; threads count from 2. */
export const OWNER = 1;
/** How often the owner tries before it comes back later. */
const SPINS = 400;
const WAIT_MS = 1;

export class RowLocks {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #fence = new Int32Array(1);

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(LOCK_COUNT * LINE_BYTES)) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer);
  }

  /** The group of a row. */
  groupOf(low: number): number {
    return Math.imul(low, 0x9e3779b1) >>> 26;
  }

  /** Waits until the group is this thread's. Not for the owner (RowLocks.L3). */
  lock(group: number, thread: number): void {
    const words = this.#words;
    const at = group * LINE_WORDS;
    for (let spins = 0; ; spins++) {
      const holder = Atomics.compareExchange(words, at, 0, thread);
      if (holder === 0) return;
      if (spins > SPINS) Atomics.wait(words, at, holder, WAIT_MS);
    }
  }

  unlock(group: number): void {
    const words = this.#words;
    const at = group * LINE_WORDS;
    words[at + CHANGES] = ((words[at + CHANGES] as number) + 1) & CHANGES_MASK;
    Atomics.store(words, at, 0);
  }

  /** How often the group was given back; HELD while somebody has it (RowLocks.L4). */
  changesOf(group: number): number {
    const words = this.#words;
    const at = group * LINE_WORDS;
    return Atomics.load(words, at) === 0 ? Atomics.load(words, at + CHANGES) : HELD; // nothing behind is read before it
  }

  /** Whether nobody has had the group since `changesOf` gave this answer. */
  isUnchanged(group: number, changes: number): boolean {
    Atomics.or(this.#fence, 0, 0); // no processor reads what stands before it later than what stands behind it
    return this.changesOf(group) === changes;
  }

  /** All groups are the owner's, or none is. */
  tryLockAll(): boolean {
    for (let group = 0; group < LOCK_COUNT; group++) {
      let spins = 0;
      while (Atomics.compareExchange(this.#words, group * LINE_WORDS, 0, OWNER) !== 0) {
        if (++spins < SPINS) continue;
        for (let taken = 0; taken < group; taken++) this.unlock(taken);
        return false;
      }
    }
    return true;
  }

  unlockAll(): void {
    for (let group = 0; group < LOCK_COUNT; group++) {
      this.unlock(group);
      // The owner has rows for longer than threads do: somebody may sleep.
      Atomics.notify(this.#words, group * LINE_WORDS);
    }
  }

  /** RowLocks.L2: the groups that a thread had when it ended. */
  takeFrom(thread: number): number[] {
    const groups: number[] = [];
    for (let group = 0; group < LOCK_COUNT; group++) if (Atomics.load(this.#words, group * LINE_WORDS) === thread) groups.push(group);
    for (const group of groups) this.unlock(group);
    return groups;
  }
}
