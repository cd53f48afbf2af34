// row-tiers — the rows of a table that one worker holds, in two RowCaches. All of them are in its memory with their
// optimizer's slots, in the pool; those on the device also have a slot in the span that the layer reads, which is a
// cache of the pool's rows: its keys are slots of the pool. So nothing is copied when a row moves between device and
// host but the values that the layer reads. A row that finds no slot in the pool is loose for a step; rows that expire
// in the pool leave for the servers.
//
//   admit        write back what expires ─► host to device ─► servers to device        while the step before computes
//   settle       rows whose slot the step before still held get one now; the others are read beside the device
//   locate       where the rows of admitted keys are at this moment
//
// Invariants:
//   RowTiers.M1. A row is in the pool, loose, leaving, or not here: then the servers have it as it is.
//   RowTiers.M2. A row that the step in hand or the admitted one uses stays here, and its slot shows it.
//   RowTiers.M3. A dirty row is here or leaving until the servers acknowledged it.
//   RowTiers.M4. What the layer reads in a device slot (`mirror`) are the values of its row.
//   RowTiers.M5. An admission that fails has moved rows at most; none is lost, and it may be repeated.

import { assert } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import type { RowKernels } from "../../kernel/row-kernels.ts";
import { ArenaSpans } from "../../worker/arena-spans.ts";
import { RowCache } from "../../worker/cache/row-cache.ts";
import { sharedBytes } from "../../worker/cache/shared-rows.ts";
import { WriteBack } from "../../worker/cache/write-back.ts";
import type { RawRows } from "../../worker/raw-rows.ts";
import { NO_SLOT } from "./row-source.ts";

/** How much is copied and sent at a time when all dirty rows are written. */
const FLUSH_BYTES = 4 * 2 ** 20;

export type TierKernels = { readonly arena: Arena; readonly kernels: Kernels; readonly rowKernels: RowKernels };

export type RowTiersOptions = {
  readonly raw: Pick<RawRows, "rowFloats" | "read" | "write">;
  readonly width: number;
  /** Rows on the device, and beside them on the host. */
  readonly deviceRows: number;
  readonly hostRows: number;
  /** Where the layer reads the values of device slot i: i · width floats from here on. */
  readonly mirror: number;
  readonly secret: number;
};

export type TierCounts = { deviceHits: number; hostHits: number; serverReads: number; swappedOut: number; writtenBack: number };

/** A row in memory of its own. */
type LooseRow = { readonly address: number; isDirty: boolean; usedAt: number };
type DirtyRow = { readonly low: number; readonly high: number; readonly address: number; readonly clean: () => void };

export class RowTiers {
  readonly counts: TierCounts = { deviceHits: 0, hostHits: 0, serverReads: 0, swappedOut: 0, writtenBack: 0 };
  readonly #tools: TierKernels;
  readonly #raw: RowTiersOptions["raw"];
  readonly #valueBytes: number;
  readonly #rowBytes: number;
  readonly #spans: ArenaSpans;
  readonly #pool: RowCache;
  readonly #device: RowCache;
  /** The device slot of each slot of the pool, as the device's index has it: read too often for a search. */
  readonly #shown: Int32Array;
  /** By key: those of cached tables are ids, which are below 2^53. */
  readonly #loose = new Map<number, LooseRow>();
  readonly #leaving: WriteBack;
  /** The stamp of the current step; Infinity if there is none. */
  #inHand = Infinity;

  /** Throws ARENA_FULL. */
  constructor(tools: TierKernels, { deviceRows, hostRows, secret, raw, width, mirror }: RowTiersOptions) {
    const { arena, kernels } = tools;
    const { buffer } = arena.memory;
    const slotCount = deviceRows + hostRows;
    const spans = new ArenaSpans(arena);
    this.#tools = tools;
    this.#raw = raw;
    this.#spans = spans;
    this.#valueBytes = width * FLOAT_BYTES;
    this.#rowBytes = raw.rowFloats * FLOAT_BYTES;
    const [address, rows, shown] = spans.guard(() =>
      [sharedBytes(slotCount), slotCount * this.#rowBytes, sharedBytes(deviceRows)].map((byteCount) => spans.take(byteCount)),
    ) as [number, number, number];
    this.#pool = new RowCache({ buffer, address, rows, slotCount, rowBytes: this.#rowBytes, secret });
    this.#device = new RowCache({ buffer, address: shown, rows: mirror, slotCount: deviceRows, rowBytes: this.#valueBytes, secret });
    this.#shown = new Int32Array(slotCount).fill(NO_SLOT);
    this.#leaving = new WriteBack(arena, kernels, raw);
  }

  /** Rows that found no slot in the pool. */
  get looseCount(): number {
    return this.#loose.size;
  }

  /**
   * Moves the rows of these keys here, each named once, while the current step goes on (RowTiers.M2). The keys must not
   * change until it has ended. Rejects as RowTiers.M5 says.
   */
  async admit(keys: number, keyCount: number): Promise<void> {
    await this.#leaving.settled(); // RowTiers.M1
    this.#pool.begin();
    this.#device.begin();
    const slots = this.#usePool(keys, keyCount);
    const hidden = slots.filter((slot) => slot !== NO_SLOT && !this.#useDevice(slot));
    const loose: number[] = [];
    const absent: number[] = [];
    for (let i = 0; i < keyCount; i++) {
      if (slots[i] !== NO_SLOT) continue;
      const key = keys + i * KEY_BYTES;
      (this.#loose.has(this.#keyAt(key)) ? loose : absent).push(key);
    }
    this.counts.hostHits += hidden.length + loose.length;
    this.counts.serverReads += absent.length;
    this.counts.deviceHits += keyCount - hidden.length - loose.length - absent.length;
    for (const slot of hidden) this.#show(slot);
    if (loose.length + absent.length === 0) return;
    const reserved = this.#expiring(loose.length + absent.length, () => {
      for (const key of loose) this.#moveIn(key);
      return absent.map(() => this.#vacate());
    });
    await this.#fetch(absent, reserved);
  }

  /**
   * The step before is over, and that of these keys, which were admitted last, is the current one. Resolves with how
   * many of its rows are not on the device, because the step alone fills it. Rejects as RowTiers.M5 says.
   */
  async settle(keys: number, keyCount: number): Promise<number> {
    this.#inHand = this.#pool.stamp;
    const slots = this.#usePool(keys, keyCount);
    const loose: number[] = [];
    let outside = 0;
    for (let i = 0; i < keyCount; i++) {
      const slot = slots[i] as number;
      if (slot === NO_SLOT) loose.push(keys + i * KEY_BYTES);
      else if (!this.#useDevice(slot) && !this.#show(slot)) outside++;
    }
    if (loose.length > 0) {
      await this.#leaving.settled();
      outside += this.#expiring(loose.length, () => loose.filter((key) => !this.#moveIn(key))).length;
    }
    for (const [key, { usedAt, isDirty }] of this.#loose) if (usedAt < this.#inHand && !isDirty) this.#dropLoose(key);
    return outside;
  }

  /** There is no current step any more. */
  release(): void {
    this.#inHand = Infinity;
  }

  /** Copies the values of the rows of admitted keys. Throws ARENA_FULL. */
  read(keys: number, keyCount: number, out: Float32Array): void {
    const { arena, rowKernels } = this.#tools;
    const spans = new ArenaSpans(arena);
    const [list, values] = spans.guard(() => [spans.take(keyCount * WORD_BYTES), spans.take(keyCount * this.#valueBytes)] as const);
    this.locate(keys, keyCount, list);
    rowKernels.readRows(list, keyCount, 0, this.#valueBytes, values);
    out.set(arena.floats.subarray(values >>> 2, (values >>> 2) + out.length));
    spans.release();
  }

  /** Writes where the rows of keys of the current step are (u32 each). */
  locate(keys: number, keyCount: number, out: number): void {
    const slots = new Int32Array(this.#tools.arena.memory.buffer, out, keyCount);
    this.#pool.findAll(keys, slots);
    for (let i = 0; i < keyCount; i++) {
      const slot = slots[i] as number;
      slots[i] = slot === NO_SLOT ? this.#looseAt(keys + i * KEY_BYTES).address : this.#pool.addressOf(slot);
    }
  }

  /** The device slot of the row at an address; NO_SLOT if it has none. */
  deviceSlotAt(address: number): number {
    const slot = this.#pool.slotAt(address);
    return slot === NO_SLOT ? NO_SLOT : (this.#shown[slot] as number);
  }

  /** The rows of these keys, at the addresses in `rows` (u32 each), differ from those of the servers. */
  changed(keys: number, keyCount: number, rows: number): void {
    const { words } = this.#tools.arena;
    for (let i = 0; i < keyCount; i++) {
      const slot = this.#pool.slotAt(words[(rows >>> 2) + i] as number);
      if (slot === NO_SLOT) this.#looseAt(keys + i * KEY_BYTES).isDirty = true;
      else {
        this.#pool.dirty[slot] = 1;
        this.#mirror(slot, this.#shown[slot] as number);
      }
    }
  }

  /** Writes the loose rows that changed: they are dropped when their step is over. */
  async writeLoose(): Promise<void> {
    const dirty = [...this.#loose].filter(([, { isDirty }]) => isDirty);
    await this.#write(
      dirty.map(([key, row]) => {
        const clean = (): void => {
          row.isDirty = false;
        };
        return { low: key % 2 ** 32, high: Math.floor(key / 2 ** 32), address: row.address, clean };
      }),
    );
  }

  /**
   * Resolves when the servers have every row (RowTiers.M3). Rejects if not; rows that they lack stay dirty, or leaving.
   */
  async flush(): Promise<void> {
    await this.#leaving.settled();
    await this.writeLoose();
    const pool = this.#pool;
    const { dirty } = pool;
    const slots = pool.held().filter((slot) => dirty[slot] === 1);
    await this.#write(
      slots.map((slot) => {
        const clean = (): void => {
          dirty[slot] = 0;
        };
        return { low: pool.lowOf(slot), high: pool.highOf(slot), address: pool.addressOf(slot), clean };
      }),
    );
  }

  /** The servers may have lost what they acknowledged: all rows count as changed. */
  distrust(): void {
    this.#pool.dirty.fill(1);
  }

  /** Forgets all rows, written or not. Nothing may be on its way: after `flush`, whether it failed or not. */
  clear(): void {
    for (const cache of [this.#pool, this.#device]) for (const slot of cache.held()) cache.remove(slot);
    this.#shown.fill(NO_SLOT);
    for (const key of this.#loose.keys()) this.#dropLoose(key);
    this.#leaving.drop();
    this.release();
  }

  /** Releases the memory; rows that were not flushed are lost. */
  close(): void {
    this.clear();
    this.#spans.release();
  }

  /** Rows whose last use was before this may be evicted. */
  get #limit(): number {
    return Math.min(this.#inHand, this.#pool.stamp);
  }

  /** The pool slot of each key, used now; NO_SLOT for those that are not there. */
  #usePool(keys: number, keyCount: number): Int32Array {
    const slots = new Int32Array(keyCount);
    this.#pool.findAll(keys, slots);
    for (let i = 0; i < keyCount; i++) if (slots[i] !== NO_SLOT) this.#pool.use(slots[i] as number);
    return slots;
  }

  /** Whether a row of the pool is on the device; if so it is used. */
  #useDevice(slot: number): boolean {
    const shown = this.#shown[slot] as number;
    if (shown !== NO_SLOT) this.#device.use(shown);
    return shown !== NO_SLOT;
  }

  /** Brings a row of the pool to the device. False if all rows there are needed (RowTiers.M2). */
  #show(slot: number): boolean {
    let shown = this.#device.takeFree();
    if (shown === NO_SLOT) {
      shown = this.#device.evict(this.#limit);
      if (shown === NO_SLOT) return false;
      this.#shown[this.#device.lowOf(shown)] = NO_SLOT;
      this.counts.swappedOut++;
    }
    this.#mirror(slot, shown);
    this.#device.fill(shown, slot, 0);
    this.#shown[slot] = shown;
    return true;
  }

  /** Runs `move`, which may evict up to this many rows, and sends them to the servers. Only when all is settled. */
  #expiring<T>(countMax: number, move: () => T): T {
    this.#leaving.open(countMax);
    try {
      return move();
    } finally {
      this.#leaving.send();
    }
  }

  /**
   * Reserves a slot of the pool: a free one, or that of the oldest row, which is evicted. NO_SLOT if all are needed.
   */
  #vacate(): number {
    const pool = this.#pool;
    const free = pool.takeFree();
    if (free !== NO_SLOT) return free;
    const slot = pool.evict(this.#limit);
    if (slot === NO_SLOT) return NO_SLOT;
    if (pool.dirty[slot] === 1) {
      this.#leaving.add(pool.lowOf(slot), pool.highOf(slot), pool.addressOf(slot));
      this.counts.writtenBack++;
    }
    const shown = this.#shown[slot] as number;
    if (shown !== NO_SLOT) this.#device.remove(shown);
    this.#shown[slot] = NO_SLOT;
    return slot;
  }

  /** Moves a loose row to the pool and the device. False if it is not on the device. */
  #moveIn(key: number): boolean {
    const loose = this.#looseAt(key);
    loose.usedAt = this.#pool.stamp;
    const slot = this.#vacate();
    if (slot === NO_SLOT) return false;
    const isShown = this.#fill(slot, key, loose.address);
    this.#pool.dirty[slot] = loose.isDirty ? 1 : 0;
    this.#dropLoose(this.#keyAt(key));
    return isShown;
  }

  /** Reads rows from the servers into reserved slots; those without one are loose. */
  async #fetch(keys: readonly number[], slots: readonly number[]): Promise<void> {
    const { arena, kernels } = this.#tools;
    const { buffer } = arena.memory;
    const count = keys.length;
    if (count === 0) return;
    const spans = new ArenaSpans(arena);
    let placed = 0;
    try {
      const [list, rows] = [spans.take(count * KEY_BYTES), spans.take(count * this.#rowBytes)];
      for (let i = 0; i < count; i++) kernels.copy(list + i * KEY_BYTES, keys[i] as number, KEY_BYTES);
      await this.#raw.read(new BigUint64Array(buffer, list, count), new Float32Array(buffer, rows, count * this.#raw.rowFloats));
      for (; placed < count; placed++) this.#store(slots[placed] as number, list + placed * KEY_BYTES, rows + placed * this.#rowBytes);
    } finally {
      for (const slot of slots.slice(placed)) if (slot !== NO_SLOT) this.#pool.giveBack(slot);
      spans.release();
    }
  }

  /**
   * Copies a row that arrived into its reserved slot, or into memory of its own if there is none. Throws ARENA_FULL.
   */
  #store(slot: number, key: number, row: number): void {
    if (slot !== NO_SLOT) {
      this.#fill(slot, key, row);
      return;
    }
    const { arena, kernels } = this.#tools;
    const address = arena.allocate(this.#rowBytes);
    kernels.copy(address, row, this.#rowBytes);
    this.#loose.set(this.#keyAt(key), { address, isDirty: false, usedAt: this.#pool.stamp });
  }

  /** Copies a row into a reserved slot, and shows it on the device if possible; returns whether. */
  #fill(slot: number, key: number, row: number): boolean {
    const { arena, kernels } = this.#tools;
    kernels.copy(this.#pool.addressOf(slot), row, this.#rowBytes);
    this.#pool.fill(slot, arena.words[key >>> 2] as number, arena.words[(key >>> 2) + 1] as number);
    return this.#show(slot);
  }

  /** RowTiers.M4 */
  #mirror(slot: number, shown: number): void {
    if (shown !== NO_SLOT) this.#tools.kernels.copy(this.#device.addressOf(shown), this.#pool.addressOf(slot), this.#valueBytes);
  }

  #keyAt(key: number): number {
    const { words } = this.#tools.arena;
    return (words[key >>> 2] as number) + (words[(key >>> 2) + 1] as number) * 2 ** 32;
  }

  #looseAt(key: number): LooseRow {
    const loose = this.#loose.get(this.#keyAt(key));
    assert(loose !== undefined, `RowTiers.M1: the row of ${this.#keyAt(key)} was not admitted`);
    return loose;
  }

  #dropLoose(key: number): void {
    const loose = this.#loose.get(key);
    if (loose !== undefined) this.#tools.arena.release(loose.address, this.#rowBytes);
    this.#loose.delete(key);
  }

  /** Writes dirty rows to the servers, some at a time (RowTiers.M3). */
  async #write(rows: readonly DirtyRow[]): Promise<void> {
    const countMax = Math.max(1, Math.floor(FLUSH_BYTES / this.#rowBytes));
    for (let from = 0; from < rows.length; from += countMax) {
      const some = rows.slice(from, from + countMax);
      await this.#leaving.settled();
      this.#leaving.open(some.length);
      for (const { low, high, address, clean } of some) {
        this.#leaving.add(low, high, address);
        clean();
      }
      this.counts.writtenBack += some.length;
      await this.#leaving.written();
    }
  }
}
