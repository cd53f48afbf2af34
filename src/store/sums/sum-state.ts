// sum-state — the sums of a server as its state: frozen for a checkpoint, restored from one, and saved, put and dropped
// with their part. SumStore adds to them and reads them.

import { bytesOf } from "../../base/bytes.ts";
import { ElementType, elementBytesOf, KEY_BYTES } from "../../kernel/elements.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import type { TableFreeze } from "../table-freeze.ts";
import type { PartMarks } from "../table-parts.ts";
import type { BlockHold } from "./large-value.ts";
import { RowMemory } from "./row-memory.ts";
import type { ExpectedSums, SumHost, SumImages } from "./sum-requests.ts";
import { SumTables } from "./sum-tables.ts";

/** No type: callers must call `use` first. */
export const CLOSED = -1;

type SumStateOptions = SumHost & {
  /** F32 when left out. */
  readonly type?: ElementType | undefined;
  /** Keys the hash of the tables (a u64). Random when left out. */
  readonly secret?: bigint | undefined;
};

/** A large value at one moment: its blocks, undefined where it had none and so zeros. */
export type ValueSnapshot = { readonly key: bigint; readonly byteCount: number; readonly blocks: readonly (BlockHold | undefined)[] };

/** All values of one width at one moment (SumStore.V5): rows of a table, to close, or large values, to release. */
export type FrozenSums = { readonly type: ElementType; readonly width: number } & (
  | { readonly rows: TableFreeze }
  | { readonly values: readonly ValueSnapshot[] }
);

export class SumState {
  /** The type of its values; that of the last request while it is empty, -1 while it is being restored. Read-only. */
  type: number;
  /** Bytes of one element. Nobody else writes it. */
  elementBytes: number;
  protected readonly host: SumHost;
  protected readonly kernels: Kernels;
  protected readonly rows: RowMemory;
  protected tables: SumTables;
  readonly #secret: bigint;

  constructor({ type = ElementType.F32, secret = crypto.getRandomValues(new BigUint64Array(1))[0]!, ...host }: SumStateOptions) {
    this.host = host;
    this.kernels = host.kernels;
    this.#secret = secret;
    this.rows = new RowMemory(host.arena, host.kernels);
    this.type = type;
    this.elementBytes = elementBytesOf(type);
    this.tables = this.#newTables(type);
  }

  get keyCount(): number {
    return this.tables.keyCount;
  }

  /** Arena bytes of all keys, values and indexes. */
  get usedBytes(): number {
    return this.tables.usedBytes + this.rows.usedBytes;
  }

  /** Everything as it is now, by width (SumStore.V5). Throws ARENA_FULL, nothing held. */
  freeze(): readonly FrozenSums[] {
    const { type } = this.tables;
    const frozen: FrozenSums[] = [];
    try {
      for (const [width, table] of this.tables.narrow) if (table.rowCount > 0) frozen.push({ type, width, rows: table.freeze() });
    } catch (thrown) {
      for (const sums of frozen) if ("rows" in sums) sums.rows.close();
      throw thrown;
    } finally {
      this.tables.lookForFast();
    }
    const byWidth = new Map<number, ValueSnapshot[]>();
    for (const value of this.tables.largeValues?.all ?? []) {
      const values = byWidth.get(value.width) ?? [];
      byWidth.set(value.width, values);
      const blocks = Array.from({ length: value.blockCount }, (_, block) => value.hold(block));
      values.push({ key: value.key, byteCount: value.byteCount, blocks });
    }
    for (const [width, values] of byWidth) frozen.push({ type, width, values });
    return frozen;
  }

  /** Bytes of large values that exist twice: they were replaced while held. */
  get retiredBytes(): number {
    return this.tables.largeValues?.retiredBytes ?? 0;
  }

  /** Refuses requests until `resume`: a checkpoint is being restored. */
  suspend(): void {
    this.type = CLOSED;
  }

  resume(): void {
    this.type = this.tables.type;
  }

  /** So many keys of this type are about to be restored, until `settle`. Throws ARENA_FULL. */
  expect(type: ElementType, expected: readonly ExpectedSums[]): void {
    this.adopt(type);
    this.tables.expect(expected);
  }

  /** All expected keys are there. */
  settle(): void {
    this.tables.settle();
  }

  /** As `put`, for a checkpoint: rows may use memory reserved for work (Arena.A4). */
  putSaved(images: SumImages): void {
    if (this.tables.isLarge(images.width)) this.put(images);
    else this.host.arena.overdraw(() => this.put(images));
  }

  /** Replaces sums; idempotent. Throws VALUE_LENGTH; ARENA_FULL, nothing changed, though perhaps some large ones. */
  put({ keys, payloads, width }: SumImages): void {
    if (keys.length === 0) return;
    const { arena } = this.host;
    const isLarge = this.tables.isLarge(width);
    const stride = payloads.length / keys.length;
    const byteCount = keys.byteLength + (isLarge ? 0 : payloads.length);
    const at = arena.allocateBulk(byteCount); // no holes among the rows
    try {
      arena.bytes.set(bytesOf(keys), at);
      if (isLarge) {
        for (let i = 0; i < keys.length; i++)
          this.tables.putLarge(at + i * KEY_BYTES, width, payloads.subarray(i * stride, (i + 1) * stride));
        return;
      }
      arena.bytes.set(payloads, at + keys.byteLength);
      this.tables.tableOf(width)?.frozen?.preserve(at, keys.length);
      this.tables.prepare({ keys: at, keyCount: keys.length, lens: 0, width, values: 0 });
      const column = { offset: 0, byteCount: stride, address: at + keys.byteLength };
      this.tables.tableOf(width)?.restore(at, keys.length, [column]);
    } finally {
      arena.release(at, byteCount);
    }
  }

  /** The sums of a part, page by page, copied, for `put`. Throws ARENA_FULL. */
  *savePart(part: number): Iterable<SumImages> {
    for (const [width, table] of this.tables.narrow) for (const images of table.parts.save(part)) yield { width, ...images };
    for (const value of this.tables.largeValues?.ofPart(part) ?? [])
      yield { width: value.width, keys: BigUint64Array.of(value.key), payloads: value.bytes() };
  }

  /** As TableParts.mark. */
  markParts(marks: PartMarks): void {
    for (const table of this.tables.narrow.values()) table.parts.mark(marks);
    this.tables.largeValues?.markParts(marks);
  }

  /** How many keys a part has. */
  countPart(part: number): number {
    return this.tables.countPart(part);
  }

  /** Removes the keys of a part; returns how many there were. Throws ARENA_FULL. */
  dropPart(part: number): number {
    return this.tables.dropPart(part);
  }

  /** Removes everything; held blocks stay readable until their release. */
  clear(): void {
    this.adopt(this.tables.type);
  }

  /** Releases everything; held blocks stay readable until their release. The store is of no use afterwards. */
  close(): void {
    this.rows.forget();
    this.tables.close();
  }

  #newTables(type: ElementType): SumTables {
    return new SumTables({ host: this.host, type, secret: this.#secret, removing: () => this.rows.forget() });
  }

  protected adopt(type: ElementType): void {
    this.rows.forget();
    this.tables.close();
    this.tables = this.#newTables(type);
    this.elementBytes = this.tables.elementBytes;
  }
}
