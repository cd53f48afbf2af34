// large-values — u64 key -> LargeValue. The key's table row holds a handle: the index of the value in an array.

import type { ElementType } from "../../kernel/elements.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";
import { DONE, ROW_KEY_BYTES } from "../../kernel/kernels.ts";
import { RowTable } from "../row-table.ts";
import type { PartMarks } from "../table-parts.ts";
import { type LargeHost, LargeValue } from "./large-value.ts";
import { keyAt } from "./sum-batch.ts";
import type { SumHost } from "./sum-requests.ts";

const HANDLE_BYTES = 4;

export class LargeValues {
  readonly #host: LargeHost;
  readonly #table: RowTable;
  readonly #values: (LargeValue | undefined)[] = [];
  readonly #freeHandles: number[] = [];

  /** Throws ARENA_FULL. */
  constructor(host: SumHost, type: ElementType, secret: bigint) {
    this.#host = { ...host, type, retiredBytes: 0 };
    this.#table = new RowTable(host, { payloadBytes: HANDLE_BYTES, secret });
  }

  get usedBytes(): number {
    return this.#values.reduce((bytes, value) => bytes + (value?.usedBytes ?? 0), this.#table.usedBytes);
  }

  /** Bytes of blocks that were replaced and are still held. */
  get retiredBytes(): number {
    return this.#host.retiredBytes;
  }

  /** All values, in no order. */
  get all(): readonly LargeValue[] {
    return this.#values.filter((value) => value !== undefined);
  }

  /** The value of the key at this address. */
  get(key: number): LargeValue | undefined {
    const row = this.#host.kernels.findRow(this.#table.address, key);
    return row === 0 ? undefined : this.#values[this.#host.arena.words[(row + ROW_KEY_BYTES) >>> 2]!];
  }

  /** The value of the key, made (all zeros, without blocks) if there is none; undefined when the arena is full. */
  getOrCreate(key: number, width: number): LargeValue | undefined {
    const { arena, kernels } = this.#host;
    const known = this.get(key);
    if (known !== undefined) return known;
    if (kernels.insertRows(this.#table.address, key, 1) !== DONE) return undefined;
    const handle = this.#freeHandles.pop() ?? this.#values.length;
    const value = new LargeValue(this.#host, keyAt(arena, key, 0), width);
    this.#values[handle] = value;
    arena.words[(kernels.findRow(this.#table.address, key) + ROW_KEY_BYTES) >>> 2] = handle;
    return value;
  }

  /** Closes the key's value, if it has one, and forgets it. */
  remove(key: number): void {
    const { arena, kernels } = this.#host;
    const row = kernels.findRow(this.#table.address, key);
    if (row === 0) return;
    const handle = arena.words[(row + ROW_KEY_BYTES) >>> 2]!;
    this.#values[handle]?.close();
    this.#values[handle] = undefined;
    this.#freeHandles.push(handle);
    kernels.removeRows(this.#table.address, key, 1);
  }

  /** As TableParts.mark. */
  markParts(marks: PartMarks): void {
    this.#table.parts.mark(marks);
  }

  /** The values of a part. Throws ARENA_FULL. */
  ofPart(part: number): readonly LargeValue[] {
    return this.#handlesOf(part).flatMap((handle) => this.#values[handle] ?? []);
  }

  /** Closes the values of a part, and forgets them. Throws ARENA_FULL, nothing changed. */
  dropPart(part: number): void {
    for (const handle of this.#handlesOf(part)) {
      this.#values[handle]?.close();
      this.#values[handle] = undefined;
      this.#freeHandles.push(handle);
    }
    this.#table.dropPart(part);
  }

  #handlesOf(part: number): readonly number[] {
    const { arena, kernels } = this.#host;
    const handles: number[] = [];
    this.#table.parts.eachKeys(part, (keys, keyCount) => {
      for (let i = 0; i < keyCount; i++) {
        const row = kernels.findRow(this.#table.address, keys + i * KEY_BYTES);
        handles.push(arena.words[(row + ROW_KEY_BYTES) >>> 2]!);
      }
    });
    return handles;
  }

  close(): void {
    for (const value of this.#values) value?.close();
    this.#table.close();
  }
}
