// row-tiers — the rows of a table that one worker holds. All of them lie in its memory with their optimizer's slots, in one pool; those on the device also have a slot in the
// span that the layer reads, the others are the host's. So nothing is copied when a row changes between the two but the values that the layer reads. A row that finds no
// place in the pool lies loose for a step; what expires in the pool leaves for the servers.
//
//   admit        write back what expires ─► host to device ─► servers to device        while the step before computes
//   settle       what found no slot, because the step before held it, gets one now; what still finds none is read beside the device
//   locate       where the rows of admitted keys lie at this moment
//
// Invariants:
//   M1. A row is in one place: in the pool, loose or leaving; nowhere means that the servers have it as it is.
//   M2. A row that the step in hand or the admitted one uses stays here, and its slot shows it.
//   M3. A dirty row is here or leaving until the servers acknowledged it.
//   M4. What the layer reads in a device slot (`mirror`) are the values of its row.
//   M5. An admission that fails has moved rows at most; none is lost, and it may be repeated.

import { assert } from "../base/assert.ts";
import { type Arena, arenaFull } from "../kernel/arena.ts";
import type { RawRows } from "../worker/raw-rows.ts";
import { DeviceSlots } from "./device-slots.ts";
import { type PoolKernels, RowPool } from "./row-pool.ts";
import { NO_SLOT } from "./row-source.ts";
import { WriteBack } from "./write-back.ts";

const KEY_BYTES = 8;
const WORD_BYTES = 4;
const FLOAT_BYTES = 4;
/** So much is copied and sent at a time when all dirty rows are written. */
const FLUSH_BYTES = 4 * 2 ** 20;

export type RowTiersOptions = {
  readonly raw: Pick<RawRows, "rowFloats" | "read" | "write">;
  readonly width: number;
  /** Rows on the device, and beside them on the host. */
  readonly deviceRows: number;
  readonly hostRows: number;
  /** Where the layer reads the values of device slot i: i · width floats from here on. */
  readonly mirror: number;
  readonly secret: bigint;
};

export type TierCounts = { deviceHits: number; hostHits: number; serverReads: number; swappedOut: number; writtenBack: number };

/** A key of the arena as a number: keys of cached tables are ids, which are below 2^53. */
function keyNumber({ words }: Arena, key: number): number {
  return (words[key >>> 2] as number) + (words[(key >>> 2) + 1] as number) * 2 ** 32;
}

/** A row that lies by itself. */
type LooseRow = { readonly address: number; isDirty: boolean; usedAt: number };

export class RowTiers {
  readonly counts: TierCounts = { deviceHits: 0, hostHits: 0, serverReads: 0, swappedOut: 0, writtenBack: 0 };
  readonly #tools: PoolKernels;
  readonly #options: RowTiersOptions;
  readonly #valueBytes: number;
  readonly #rowBytes: number;
  readonly #pool: RowPool;
  readonly #device: DeviceSlots;
  readonly #loose = new Map<number, LooseRow>();
  readonly #leaving: WriteBack;
  #stamp = 0;
  /** The stamp of the step in hand; Infinity when there is none. */
  #inHand = Infinity;

  /** Throws ARENA_FULL. */
  constructor(tools: PoolKernels, options: RowTiersOptions) {
    const { deviceRows, hostRows, secret, raw, width } = options;
    const rowCount = deviceRows + hostRows;
    this.#tools = tools;
    this.#options = options;
    this.#valueBytes = width * FLOAT_BYTES;
    this.#rowBytes = raw.rowFloats * FLOAT_BYTES;
    this.#pool = new RowPool(tools, { slotCount: rowCount, rowFloats: raw.rowFloats, secret });
    this.#device = new DeviceSlots({ slotCount: deviceRows, rowCount });
    this.#leaving = new WriteBack(tools.arena, tools.kernels, raw);
  }

  /** Rows that found no place in the pool. */
  get looseCount(): number {
    return this.#loose.size;
  }

  /** Brings the rows of these keys here, each named once, while the step in hand goes on (M2). The keys lie still until it has ended. Rejects as M5 says. */
  async admit(keys: number, keyCount: number): Promise<void> {
    await this.#leaving.settled(); // M1
    this.#stamp++;
    const slots = this.#usePool(keys, keyCount);
    const hidden = slots.filter((slot) => slot !== NO_SLOT && !this.#useDevice(slot));
    const loose: number[] = [];
    const absent: number[] = [];
    for (let i = 0; i < keyCount; i++) {
      if (slots[i] !== NO_SLOT) continue;
      const key = keys + i * KEY_BYTES;
      (this.#loose.has(keyNumber(this.#tools.arena, key)) ? loose : absent).push(key);
    }
    this.counts.hostHits += hidden.length + loose.length;
    this.counts.serverReads += absent.length;
    this.counts.deviceHits += keyCount - hidden.length - loose.length - absent.length;
    for (const slot of hidden) this.#show(slot);
    if (loose.length + absent.length === 0) return;
    const reserved = this.#expiring(loose.length + absent.length, () => {
      for (const key of loose) this.#moveIn(key);
      return absent.map(() => this.#freePlace());
    });
    await this.#fetch(absent, reserved);
  }

  /**
   * The step before is over, and that of these keys, which were admitted last, is in hand. Resolves with how many of its rows are not on the device, as the
   * step alone fills it. Rejects as M5 says.
   */
  async settle(keys: number, keyCount: number): Promise<number> {
    this.#inHand = this.#stamp;
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

  /** No step is in hand any more. */
  release(): void {
    this.#inHand = Infinity;
  }

  /** Copies the values of the rows of admitted keys. Throws ARENA_FULL. */
  read(keys: number, keyCount: number, out: Float32Array): void {
    if (keyCount === 0) return;
    const { arena, rowKernels } = this.#tools;
    const byteCount = keyCount * (WORD_BYTES + this.#valueBytes);
    const list = arena.allocate(byteCount);
    const values = list + keyCount * WORD_BYTES;
    this.locate(keys, keyCount, list);
    rowKernels.readRows(list, keyCount, 0, this.#valueBytes, values);
    out.set(arena.floats.subarray(values >>> 2, (values >>> 2) + out.length));
    arena.release(list, byteCount);
  }

  /** Writes where the rows of keys lie (u32 each) that the step in hand has. */
  locate(keys: number, keyCount: number, out: number): void {
    this.#pool.find(keys, keyCount, out);
    const { words } = this.#tools.arena;
    for (let i = 0, at = out >>> 2; i < keyCount; i++, at++) {
      const slot = (words[at] as number) | 0;
      words[at] = slot === NO_SLOT ? this.#looseAt(keys + i * KEY_BYTES).address : this.#pool.addressOf(slot);
    }
  }

  /** The device slot of a row that lies at an address; NO_SLOT if it has none. */
  deviceSlotAt(address: number): number {
    const slot = this.#pool.slotAt(address);
    return slot === NO_SLOT ? NO_SLOT : this.#device.slotOf(slot);
  }

  /** The rows of these keys, which lie where `rows` says (u32 each), are not what the servers have. */
  changed(keys: number, keyCount: number, rows: number): void {
    const { words } = this.#tools.arena;
    for (let i = 0; i < keyCount; i++) {
      const slot = this.#pool.slotAt(words[(rows >>> 2) + i] as number);
      if (slot === NO_SLOT) this.#looseAt(keys + i * KEY_BYTES).isDirty = true;
      else {
        this.#pool.setDirty(slot, true);
        this.#mirror(slot);
      }
    }
  }

  /** Writes the loose rows that changed: they have no place here when their step is over. */
  async writeLoose(): Promise<void> {
    const dirty = [...this.#loose].filter(([, { isDirty }]) => isDirty);
    if (dirty.length === 0) return;
    const { arena } = this.#tools;
    const key = arena.allocate(dirty.length * KEY_BYTES);
    try {
      const rows = dirty.map(([number, row], i) => {
        arena.words[(key >>> 2) + 2 * i] = number % 2 ** 32;
        arena.words[(key >>> 2) + 2 * i + 1] = Math.floor(number / 2 ** 32);
        const written = (): void => {
          row.isDirty = false;
        };
        return { key: key + i * KEY_BYTES, address: row.address, written };
      });
      await this.#write(rows);
    } finally {
      arena.release(key, dirty.length * KEY_BYTES);
    }
  }

  /** Resolves when the servers have every row as it is here (M3). Rejects when they have not; what they lack is still dirty. */
  async flush(): Promise<void> {
    await this.#leaving.settled();
    await this.writeLoose();
    const pool = this.#pool;
    const dirty = pool.slots().filter((slot) => pool.isDirty(slot));
    await this.#write(
      dirty.map((slot) => ({ key: pool.keyOf(slot), address: pool.addressOf(slot), written: () => pool.setDirty(slot, false) })),
    );
  }

  /** The servers may not have what they acknowledged: all rows count as changed. */
  distrust(): void {
    for (const slot of this.#pool.slots()) this.#pool.setDirty(slot, true);
  }

  /** Forgets all rows, written or not. Nothing may be on its way: after `flush`, whether it failed or not. */
  clear(): void {
    for (const slot of this.#pool.slots()) this.#forget(slot);
    for (const key of this.#loose.keys()) this.#dropLoose(key);
    this.#leaving.drop();
    this.release();
  }

  /** Gives the memory back; what was not flushed is lost. */
  close(): void {
    this.clear();
    this.#pool.close();
  }

  /** Rows whose last use was before this may go. */
  get #limit(): number {
    return Math.min(this.#inHand, this.#stamp);
  }

  /** The place of each key in the pool, used now; NO_SLOT for those that are not there. */
  #usePool(keys: number, keyCount: number): Int32Array {
    const { arena } = this.#tools;
    const byteCount = Math.max(1, keyCount) * WORD_BYTES;
    const list = arena.allocate(byteCount);
    this.#pool.find(keys, keyCount, list);
    const slots = new Int32Array(arena.memory.buffer, list, keyCount).slice();
    arena.release(list, byteCount);
    for (let i = 0; i < keyCount; i++) if (slots[i] !== NO_SLOT) this.#pool.use(slots[i] as number, this.#stamp);
    return slots;
  }

  /** Whether a row of the pool is on the device; if so it is used. */
  #useDevice(slot: number): boolean {
    const shown = this.#device.slotOf(slot);
    if (shown !== NO_SLOT) this.#device.use(shown, this.#stamp);
    return shown !== NO_SLOT;
  }

  /** Brings a row of the pool to the device. False when all rows there are needed (M2). */
  #show(slot: number): boolean {
    const { slot: shown, isTaken } = this.#device.vacate(this.#limit);
    if (isTaken) this.counts.swappedOut++;
    if (shown === NO_SLOT) return false;
    this.#device.show(slot, shown, this.#stamp);
    this.#mirror(slot);
    return true;
  }

  /** Does what may make up to so many rows leave for the servers, and sends them off. Only when all is settled. */
  #expiring<T>(countMax: number, move: () => T): T {
    this.#leaving.open(countMax);
    try {
      return move();
    } finally {
      this.#leaving.send();
    }
  }

  /** A reserved place in the pool: a free one, or that of the oldest row, which leaves. NO_SLOT when all are needed (M2). */
  #freePlace(): number {
    const free = this.#pool.reserve();
    if (free !== NO_SLOT) return free;
    const slot = this.#pool.oldest(this.#limit);
    if (slot === NO_SLOT) return NO_SLOT;
    if (this.#pool.isDirty(slot)) {
      this.#leaving.add(this.#pool.keyOf(slot), this.#pool.addressOf(slot));
      this.counts.writtenBack++;
    }
    this.#forget(slot);
    return this.#pool.reserve();
  }

  #forget(slot: number): void {
    this.#device.hide(slot);
    this.#pool.remove(slot);
  }

  /** Finds a loose row a place in the pool and on the device. False when it is not on the device. */
  #moveIn(key: number): boolean {
    const loose = this.#looseAt(key);
    loose.usedAt = this.#stamp;
    const slot = this.#freePlace();
    if (slot === NO_SLOT || !this.#fill(slot, key, loose.address, loose.isDirty)) return false;
    this.#dropLoose(keyNumber(this.#tools.arena, key));
    return this.#device.slotOf(slot) !== NO_SLOT;
  }

  /** Reads rows from the servers into reserved places; those without one lie loose. */
  async #fetch(keys: readonly number[], slots: readonly number[]): Promise<void> {
    const { arena, kernels } = this.#tools;
    const { raw } = this.#options;
    const count = keys.length;
    if (count === 0) return;
    const byteCount = count * (KEY_BYTES + this.#rowBytes);
    const list = arena.tryAllocate(byteCount);
    let placed = 0;
    try {
      if (list === 0) throw arenaFull(arena, `${count} rows that come from the servers`);
      const rows = list + count * KEY_BYTES;
      for (let i = 0; i < count; i++) kernels.copy(list + i * KEY_BYTES, keys[i] as number, KEY_BYTES);
      const { buffer } = arena.memory;
      await raw.read(new BigUint64Array(buffer, list, count), new Float32Array(buffer, rows, count * raw.rowFloats));
      for (; placed < count; placed++) this.#place(slots[placed] as number, list + placed * KEY_BYTES, rows + placed * this.#rowBytes);
    } finally {
      for (const slot of slots.slice(placed)) if (slot !== NO_SLOT) this.#pool.giveBack(slot);
      if (list !== 0) arena.release(list, byteCount);
    }
  }

  /** Puts a copy of a row that came into its reserved place, or by itself if there is none. Throws ARENA_FULL. */
  #place(slot: number, key: number, row: number): void {
    if (slot !== NO_SLOT && this.#fill(slot, key, row, false)) return;
    const { arena, kernels } = this.#tools;
    const address = arena.allocate(this.#rowBytes);
    kernels.copy(address, row, this.#rowBytes);
    this.#loose.set(keyNumber(arena, key), { address, isDirty: false, usedAt: this.#stamp });
  }

  /** Puts a copy of a row into a reserved place, and shows it if that is possible. False, and the place is free, when the index has no room. */
  #fill(slot: number, key: number, row: number, isDirty: boolean): boolean {
    this.#tools.kernels.copy(this.#pool.addressOf(slot), row, this.#rowBytes);
    if (!this.#pool.fill(slot, key, { stamp: this.#stamp, isDirty })) {
      this.#pool.giveBack(slot);
      return false;
    }
    this.#show(slot);
    return true;
  }

  /** M4 */
  #mirror(slot: number): void {
    const shown = this.#device.slotOf(slot);
    if (shown === NO_SLOT) return;
    this.#tools.kernels.copy(this.#options.mirror + shown * this.#valueBytes, this.#pool.addressOf(slot), this.#valueBytes);
  }

  #looseAt(key: number): LooseRow {
    const number = keyNumber(this.#tools.arena, key);
    const loose = this.#loose.get(number);
    assert(loose !== undefined, `M1: the row of ${number} was not admitted`);
    return loose;
  }

  #dropLoose(key: number): void {
    const loose = this.#loose.get(key);
    if (loose !== undefined) this.#tools.arena.release(loose.address, this.#rowBytes);
    this.#loose.delete(key);
  }

  /** Writes rows to the servers, some at a time. */
  async #write(rows: readonly { readonly key: number; readonly address: number; written(): void }[]): Promise<void> {
    const { arena, kernels } = this.#tools;
    const { raw } = this.#options;
    const countMax = Math.max(1, Math.floor(FLUSH_BYTES / this.#rowBytes));
    for (let from = 0; from < rows.length; from += countMax) {
      const some = rows.slice(from, from + countMax);
      const byteCount = some.length * (KEY_BYTES + this.#rowBytes);
      const list = arena.allocate(byteCount);
      try {
        const copies = list + some.length * KEY_BYTES;
        for (const [i, { key, address }] of some.entries()) {
          kernels.copy(list + i * KEY_BYTES, key, KEY_BYTES);
          kernels.copy(copies + i * this.#rowBytes, address, this.#rowBytes);
        }
        const { buffer } = arena.memory;
        await raw.write(new BigUint64Array(buffer, list, some.length), new Float32Array(buffer, copies, some.length * raw.rowFloats));
        for (const { written } of some) written();
        this.counts.writtenBack += some.length;
      } finally {
        arena.release(list, byteCount);
      }
    }
  }
}
