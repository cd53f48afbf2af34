// large-values — u64 key -> LargeValue. The key's table row holds a handle: the index of the value in an array.

import type { Arena } from "../kernel/arena.ts";
import { DONE, type Kernels, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import { LargeValue } from "./large-value.ts";

const HANDLE_BYTES = 4;

export class LargeValues {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #table: number;
  readonly #values: (LargeValue | undefined)[] = [];
  readonly #freeHandles: number[] = [];

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, kernels: Kernels, secret: bigint) {
    this.#arena = arena;
    this.#kernels = kernels;
    this.#table = kernels.createTable({ payloadBytes: HANDLE_BYTES, secret });
  }

  get usedBytes(): number {
    return this.#values.reduce((bytes, value) => bytes + (value?.usedBytes ?? 0), this.#kernels.tableBytes(this.#table));
  }

  /** The value of the key at this address. */
  get(key: number): LargeValue | undefined {
    const row = this.#kernels.findRow(this.#table, key);
    return row === 0 ? undefined : this.#values[this.#arena.words[(row + ROW_KEY_BYTES) >>> 2]!];
  }

  /** The value of the key, made (all zeros, without blocks) if there is none; undefined when the arena is full. */
  getOrCreate(key: number, width: number): LargeValue | undefined {
    const known = this.get(key);
    if (known !== undefined) return known;
    if (this.#kernels.insertRows(this.#table, key, 1) !== DONE) return undefined;
    const handle = this.#freeHandles.pop() ?? this.#values.length;
    const value = new LargeValue(this.#arena, this.#kernels, width);
    this.#values[handle] = value;
    this.#arena.words[(this.#kernels.findRow(this.#table, key) + ROW_KEY_BYTES) >>> 2] = handle;
    return value;
  }

  /** Closes the key's value, if it has one, and forgets it. */
  remove(key: number): void {
    const row = this.#kernels.findRow(this.#table, key);
    if (row === 0) return;
    const handle = this.#arena.words[(row + ROW_KEY_BYTES) >>> 2]!;
    this.#values[handle]?.close();
    this.#values[handle] = undefined;
    this.#freeHandles.push(handle);
    this.#kernels.removeRows(this.#table, key, 1);
  }

  close(): void {
    for (const value of this.#values) value?.close();
    this.#kernels.destroyTable(this.#table);
  }
}
