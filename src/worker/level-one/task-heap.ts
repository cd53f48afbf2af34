// task-heap — tasks in the order in which they are done: highest priority first, first come first served within one.
// A binary heap in the words of a model, which all threads share.
//
//   size | entries: task | priority | sequence
//
// Invariants:
//   TaskHeap.H1. No task stands before its parent. Of two with one priority, the one with the earlier sequence goes
//       first.
//   TaskHeap.H2. A task is in the heap at most once: callers see to that, and so to its size.

import { HEAP_ENTRY_WORDS, type ModelWords } from "./model-words.ts";

const TASK = 0;
const PRIORITY = 1;
const SEQUENCE = 2;

export class TaskHeap {
  readonly #words: Int32Array;
  readonly #at: number;

  constructor(model: ModelWords, heap: number) {
    this.#words = model.words;
    this.#at = model.heapAt(heap);
  }

  get size(): number {
    return this.#words[this.#at] as number;
  }

  /** Of the first task; only if there is one. */
  get first(): number {
    return this.#words[this.#entry(0) + TASK] as number;
  }

  get firstPriority(): number {
    return this.#words[this.#entry(0) + PRIORITY] as number;
  }

  get firstSequence(): number {
    return this.#words[this.#entry(0) + SEQUENCE] as number;
  }

  /** The first task stays the first, whatever comes. */
  keepFirst(): void {
    this.#words[this.#entry(0) + PRIORITY] = 2 ** 31 - 1;
  }

  insert(task: number, priority: number, sequence: number): void {
    let index = this.size;
    this.#words[this.#at] = index + 1;
    this.#write(index, task, priority, sequence);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#isBefore(index, parent)) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  /** The last entry sinks from the top; those that come before it move up, each written once. */
  removeFirst(): void {
    const words = this.#words;
    const last = this.size - 1;
    words[this.#at] = last;
    const from = this.#entry(last);
    const [task, priority, sequence] = [words[from + TASK] as number, words[from + PRIORITY] as number, words[from + SEQUENCE] as number];
    let index = 0;
    for (let child = 1; child < last; child = 2 * index + 1) {
      if (child + 1 < last && this.#isBefore(child + 1, child)) child++;
      const at = this.#entry(child);
      if (!comesBefore(words[at + PRIORITY] as number, words[at + SEQUENCE] as number, priority, sequence)) break;
      this.#write(index, words[at + TASK] as number, words[at + PRIORITY] as number, words[at + SEQUENCE] as number);
      index = child;
    }
    if (last > 0) this.#write(index, task, priority, sequence);
  }

  /** Takes all tasks out, in their order. Tasks that came in that order, as is usual, are not sorted again. */
  drain(): number[] {
    const order: number[] = [];
    let isSorted = true;
    for (let index = 0; index < this.size; index++) {
      order.push(index);
      if (index > 0 && this.#isBefore(index, index - 1)) isSorted = false;
    }
    if (!isSorted) order.sort((one, other) => (this.#isBefore(one, other) ? -1 : 1));
    for (let i = 0; i < order.length; i++) order[i] = this.#words[this.#entry(order[i] as number) + TASK] as number;
    this.#words[this.#at] = 0;
    return order;
  }

  #entry(index: number): number {
    return this.#at + 1 + index * HEAP_ENTRY_WORDS;
  }

  #write(index: number, task: number, priority: number, sequence: number): void {
    const at = this.#entry(index);
    this.#words[at + TASK] = task;
    this.#words[at + PRIORITY] = priority;
    this.#words[at + SEQUENCE] = sequence;
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#entry(one), this.#entry(other)];
    for (let word = 0; word < HEAP_ENTRY_WORDS; word++) {
      const kept = this.#words[a + word] as number;
      this.#words[a + word] = this.#words[b + word] as number;
      this.#words[b + word] = kept;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const a = this.#entry(one);
    const b = this.#entry(other);
    const words = this.#words;
    return comesBefore(
      words[a + PRIORITY] as number,
      words[a + SEQUENCE] as number,
      words[b + PRIORITY] as number,
      words[b + SEQUENCE] as number,
    );
  }
}

/** Of two tasks, by priority and sequence (which wraps around). Numbers side by side: it is called in loops. */
export function comesBefore(priority: number, sequence: number, otherPriority: number, otherSequence: number): boolean {
  return priority !== otherPriority ? priority > otherPriority : ((sequence - otherSequence) | 0) < 0;
}
