// oplog — what a thread has added to rows since its clock began, a span of updates for each row, in memory that the
// other threads of its process may read. Keys, slots and index are the row cache core's; nothing is evicted here.
//
// Invariants:
//   Oplog.O1. One thread alone writes an oplog. A row has one span: updates of one column are one number, however many
//       they were.
//   Oplog.O2. A span that is not in use is all zeros (RowUpdates.U1).

import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import { NO_SLOT } from "../cache/eviction-order.ts";
import { RowCache } from "../cache/row-cache.ts";
import { type RowMemory, sharedBytes } from "../cache/shared-rows.ts";

/** A line of the processor's cache. */
const LINE_BYTES = 64;

/** A place whose beginning is set before it is handed on. */
export type MovingPlace<E extends RowElement = RowElement> = RowPlace<E> & { start: number };

/** Memory for so many rows, which threads share where the platform lets them. */
export function rowMemory({ slotCount, rowBytes, secret }: Pick<RowMemory, "slotCount" | "rowBytes" | "secret">): RowMemory {
  const rows = Math.ceil(sharedBytes(slotCount) / LINE_BYTES) * LINE_BYTES; // a row lies in as few lines as it can
  const byteCount = rows + slotCount * rowBytes;
  const buffer = typeof SharedArrayBuffer === "undefined" ? new ArrayBuffer(byteCount) : new SharedArrayBuffer(byteCount);
  return { buffer, address: 0, rows, slotCount, rowBytes, secret };
}

/** All elements of the rows of some memory. */
export function cellsOf<E extends RowElement>(element: E, { buffer, rows, slotCount, rowBytes }: RowMemory): RowArray<E> {
  return elementsAt(element, buffer, rows, (slotCount * rowBytes) / ROW_ELEMENTS[element].bytes);
}

export class Oplog<E extends RowElement = RowElement> {
  readonly rows: RowCache;
  /** Span i is the elements from i × `length` of the place on. */
  readonly place: MovingPlace<E>;
  /** How many spans are in use, and which, in the order in which they came to be. */
  readonly #list: Int32Array;

  /** `list`: room for one more than the memory has slots; in memory that threads share where they do. */
  constructor(element: E, memory: RowMemory, list: Int32Array = new Int32Array(1 + memory.slotCount)) {
    const cells = cellsOf(element, memory);
    this.rows = new RowCache(memory);
    this.place = { cells, start: 0, length: cells.length / memory.slotCount };
    this.#list = list.fill(0);
  }

  get count(): number {
    return this.#list[0] as number;
  }

  /** The span of a row, made if there was none; NO_SLOT when there is no room for another. */
  entryOf(low: number, high: number): number {
    const found = this.rows.find(low, high);
    if (found !== NO_SLOT) return found;
    const entry = this.rows.takeFree();
    if (entry === NO_SLOT) return NO_SLOT;
    this.rows.fill(entry, low, high);
    const list = this.#list;
    list[1 + (list[0] as number)] = entry;
    list[0]!++;
    return entry;
  }

  /** Whether a span is that of this row, now. */
  isOf(entry: number, low: number, high: number): boolean {
    const { rows } = this;
    return rows.lowOf(entry) === low && rows.highOf(entry) === high && rows.isHeld(entry);
  }

  /** Where the updates of a row lie; undefined when there are none. */
  find(low: number, high: number): RowPlace<E> | undefined {
    const entry = this.rows.find(low, high);
    return entry === NO_SLOT ? undefined : this.at(entry);
  }

  at(entry: number): RowPlace<E> {
    this.place.start = entry * this.place.length;
    return this.place;
  }

  /** Hands every span to `take`, and is empty then. */
  drain(take: (low: number, high: number, updates: RowPlace<E>) => void): void {
    const { rows, place } = this;
    const list = this.#list;
    for (let i = 1; i <= (list[0] as number); i++) {
      const entry = list[i] as number;
      take(rows.lowOf(entry), rows.highOf(entry), this.at(entry));
      const from = entry * place.length;
      // Oplog.O2
      (place.cells as Float64Array).fill((typeof place.cells[from] === "bigint" ? 0n : 0) as number, from, from + place.length);
      rows.remove(entry);
    }
    list[0] = 0;
  }
}
