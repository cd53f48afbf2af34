// thread-books — the oplog of a thread of the system, as it and the owner of the table share it: several books in
// shared memory, of which the thread writes one, while the owner takes over those that it has closed. A book is an
// oplog (oplog.ts).
//
//   OPEN ── the thread's clock ends ──► CLOSED ── the owner has copied it ──► TAKEN ── the thread empties it ──► OPEN
//
// Invariants:
//   ThreadBooks.B1. What is in an open or closed book is laid over rows that come in; what is in a taken one the owner
//       has.
//   ThreadBooks.B2. The thread waits for the owner only when all its books are closed. The owner copies them between
//       two turns of its event loop.

import { WORD_BYTES } from "../../kernel/elements.ts";
import { ROW_ELEMENTS, type RowElement } from "../../kernel/row-element.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import { type RowMemory, SharedRows } from "../cache/shared-rows.ts";
import { cellsOf, type MovingPlace, Oplog, rowMemory } from "./oplog.ts";

const BOOK_COUNT = 4;
const OPEN = 0;
const CLOSED = 1;
const TAKEN = 2;
/** A book's state, and the clock of what is in it. */
const BOOK_WORDS = 2;
const WAIT_MS = 100;

/** Plain data that can be posted to a thread. */
export type BooksMemory = {
  readonly books: readonly { readonly rows: RowMemory; readonly list: SharedArrayBuffer }[];
  readonly states: SharedArrayBuffer;
};

export function booksMemory(
  element: RowElement,
  { elements, rows: slotCount, secret }: Readonly<Record<"elements" | "rows" | "secret", number>>,
): BooksMemory {
  const rowBytes = elements * ROW_ELEMENTS[element].bytes;
  const books = Array.from({ length: BOOK_COUNT }, () => ({
    rows: rowMemory({ slotCount, rowBytes, secret }),
    list: new SharedArrayBuffer((1 + slotCount) * WORD_BYTES),
  }));
  return { books, states: new SharedArrayBuffer(BOOK_COUNT * BOOK_WORDS * WORD_BYTES) };
}

/** The thread's half. */
export class OwnBooks<E extends RowElement = RowElement> {
  readonly #books: readonly Oplog<E>[];
  readonly #states: Int32Array;
  #current = 0;

  constructor(element: E, { books, states }: BooksMemory) {
    this.#books = books.map(({ rows, list }) => new Oplog(element, rows, new Int32Array(list)));
    this.#states = new Int32Array(states);
  }

  get current(): Oplog<E> {
    return this.#books[this.#current] as Oplog<E>;
  }

  /**
   * Closes the book with what was added at a clock, and opens the next one (ThreadBooks.B2). Returns the number of the
   * closed one; -1 when nothing was in it.
   */
  turn(clock: number): number {
    if (this.current.count === 0) return -1;
    const closed = this.#current;
    const states = this.#states;
    states[closed * BOOK_WORDS + 1] = clock;
    Atomics.store(states, closed * BOOK_WORDS, CLOSED);
    this.#current = (closed + 1) % BOOK_COUNT;
    const at = this.#current * BOOK_WORDS;
    while (Atomics.load(states, at) === CLOSED) Atomics.wait(states, at, CLOSED, WAIT_MS);
    if (states[at] === TAKEN) {
      this.current.drain(() => {});
      Atomics.store(states, at, OPEN);
    }
    return closed;
  }
}

type SharedBook<E extends RowElement> = { readonly rows: SharedRows; readonly list: Int32Array; readonly place: MovingPlace<E> };

/** The owner's half. It has the locks of all rows when it looks. */
export class SharedBooks<E extends RowElement = RowElement> {
  readonly #books: readonly SharedBook<E>[];
  readonly #states: Int32Array;

  constructor(element: E, { books, states }: BooksMemory) {
    this.#books = books.map(({ rows: memory, list }) => {
      const cells = cellsOf(element, memory);
      return {
        rows: new SharedRows(memory),
        list: new Int32Array(list),
        place: { cells, start: 0, length: cells.length / memory.slotCount },
      };
    });
    this.#states = new Int32Array(states);
  }

  /** What is in books that the owner has not taken: the updates of a row, one span for each book (ThreadBooks.B1). */
  *spansOf(low: number, high: number): Iterable<RowPlace<E>> {
    for (const [book, { rows, place }] of this.#books.entries()) {
      if (this.#states[book * BOOK_WORDS] === TAKEN) continue;
      const entry = rows.find(low, high);
      if (entry < 0 || !rows.isHeld(entry)) continue;
      place.start = entry * place.length;
      yield place;
    }
  }

  /** Copies a closed book. */
  take(book: number, take: (low: number, high: number, updates: RowPlace<E>, clock: number) => void): void {
    const { rows, list, place } = this.#books[book] as SharedBook<E>;
    const clock = this.#states[book * BOOK_WORDS + 1] as number;
    for (let i = 1; i <= (list[0] as number); i++) {
      const entry = list[i] as number;
      place.start = entry * place.length;
      take(rows.lowOf(entry), rows.highOf(entry), place, clock);
    }
    Atomics.store(this.#states, book * BOOK_WORDS, TAKEN);
    Atomics.notify(this.#states, book * BOOK_WORDS);
  }

  /** Copies all that a thread which has ended left, the open book as of `clock`. */
  takeAll(clock: number, take: (low: number, high: number, updates: RowPlace<E>, clock: number) => void): void {
    for (let book = 0; book < this.#books.length; book++) {
      const state = this.#states[book * BOOK_WORDS];
      if (state === OPEN) this.#states[book * BOOK_WORDS + 1] = clock;
      if (state !== TAKEN) this.take(book, take);
    }
  }
}
