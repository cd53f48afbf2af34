// ring-queue — a growing FIFO on one array, with access by position. `push` and `shift` are O(1).

export class RingQueue<T> {
  #slots: (T | undefined)[] = new Array<T | undefined>(16).fill(undefined);
  #head = 0;
  /** Nobody else writes it. */
  length = 0;

  push(item: T): void {
    if (this.length === this.#slots.length) this.#grow();
    this.#slots[(this.#head + this.length) & (this.#slots.length - 1)] = item;
    this.length++;
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#slots.length - 1);
    this.length--;
    return item;
  }

  /** The item `index` positions behind the head, or undefined beyond either end. */
  at(index: number): T | undefined {
    return index >= 0 && index < this.length ? this.#slots[(this.#head + index) & (this.#slots.length - 1)] : undefined;
  }

  /** Replaces the item `index` positions behind the head. */
  replace(index: number, item: T): void {
    this.#slots[(this.#head + index) & (this.#slots.length - 1)] = item;
  }

  clear(): void {
    this.#slots = new Array<T | undefined>(16).fill(undefined);
    this.#head = 0;
    this.length = 0;
  }

  #grow(): void {
    const slots = this.#slots;
    const wide = new Array<T | undefined>(slots.length * 2).fill(undefined);
    for (let i = 0; i < this.length; i++) wide[i] = slots[(this.#head + i) & (slots.length - 1)];
    this.#slots = wide;
    this.#head = 0;
  }
}
