// row-cache — Goal: whatever comes, is used, pinned, written and goes in whatever order, the cache holds what a plain
// Map holds, and the row goes that a plain list of uses names.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import { NO_SLOT, PERMANENT_USES, POLICY_NAMES, type PolicyName } from "./eviction-order.ts";
import { RowCache } from "./row-cache.ts";
import { type RowMemory, SharedRows, sharedBytes } from "./shared-rows.ts";

const ROW_BYTES = 8;

function memoryOf(slotCount: number, secret = 12_345): RowMemory {
  const address = 64;
  const rows = address + sharedBytes(slotCount);
  const buffer = new SharedArrayBuffer(rows + slotCount * ROW_BYTES);
  new Uint8Array(buffer).fill(0xa5); // whatever lay there before
  return { buffer, address, rows, slotCount, rowBytes: ROW_BYTES, secret };
}

type Row = {
  slot: number;
  version: number;
  isDirty: boolean;
  pins: number;
  isMarked: boolean;
  usedAt: number;
  uses: number;
  order: number;
};
type Key = readonly [low: number, high: number];

/** What a RowCache is, with a Map and a look at all rows for everything. */
class PlainCache {
  readonly rows = new Map<string, Row>();
  readonly #policy: PolicyName;
  #stamp = 0;
  #order = 0;

  constructor(policy: PolicyName) {
    this.#policy = policy;
  }

  begin(): void {
    this.#stamp++;
  }

  use(row: Row): void {
    if (row.usedAt === this.#stamp) return;
    row.usedAt = this.#stamp;
    this.#touch(row);
  }

  fill(key: string, slot: number, version: number): void {
    const order = this.#order++;
    this.rows.set(key, { slot, version, isDirty: false, pins: 0, isMarked: false, usedAt: this.#stamp, uses: 1, order });
  }

  /**
   * The key of the row that goes: a walk in the order, twice round at most, that passes over pinned rows, and once over
   * marked ones.
   */
  evict(usedBefore = this.#stamp): string | undefined {
    let order = this.#inOrder();
    let row = order[0];
    for (let steps = 2 * this.rows.size; steps > 0 && row !== undefined; steps--) {
      if (row.usedAt >= usedBefore) return undefined;
      const following: Row | undefined = order[order.indexOf(row) + 1];
      if (!row.isMarked && row.pins === 0) {
        const key = [...this.rows].find(([, other]) => other === row)?.[0] as string;
        this.rows.delete(key);
        return key;
      }
      if (row.isMarked) this.#touch(row);
      row.isMarked = false;
      order = this.#inOrder();
      row = following ?? order[0];
    }
    return undefined;
  }

  #touch(row: Row): void {
    row.order = this.#order++;
    row.uses++;
  }

  #inOrder(): Row[] {
    const isLru = this.#policy === "lru";
    const able = [...this.rows.values()].filter((row) => !(this.#policy === "lfu-opt" && row.uses >= PERMANENT_USES));
    return able.sort((one, other) => (isLru ? 0 : one.uses - other.uses) || one.order - other.order);
  }
}

/** A cache and its model, and one step of chance for both. */
class Stage {
  readonly cache: RowCache;
  readonly plain: PlainCache;
  readonly #random: Random;
  readonly #values: Uint32Array;
  readonly #text: string;

  constructor(policy: PolicyName, seed: number) {
    this.#random = new Random(seed);
    const memory = memoryOf(1 + this.#random.below(12), seed);
    this.cache = new RowCache(memory, policy);
    this.plain = new PlainCache(policy);
    this.#values = new Uint32Array(memory.buffer);
    this.#text = `${policy}, seed ${seed}`;
  }

  step(): void {
    const random = this.#random;
    const key: Key = [random.below(12) * 0x1000_0000, random.below(2) * 0xffff_ffff];
    const row = this.plain.rows.get(String(key));
    assert.equal(this.cache.find(...key), row?.slot ?? NO_SLOT, this.#text);
    if (random.chance(0.3)) this.#begin();
    if (row === undefined) this.#bring(key);
    else this.#change(key, row);
    this.check();
  }

  check(): void {
    const { cache, plain } = this;
    assert.equal(cache.rowCount, plain.rows.size, this.#text);
    assert.deepEqual(
      cache.held(),
      [...plain.rows.values()].map(({ slot }) => slot).sort((one, other) => one - other),
    );
    for (const [key, { slot, version, isDirty }] of plain.rows) {
      const [low, high] = key.split(",").map(Number) as [number, number];
      assert.equal(cache.find(low, high), slot, this.#text);
      assert.deepEqual([cache.versionOf(slot), cache.dirty[slot]], [version, isDirty ? 1 : 0], this.#text);
      assert.equal(this.#values[cache.addressOf(slot) >>> 2], low, this.#text);
      assert.equal(cache.slotAt(cache.addressOf(slot)), slot);
    }
  }

  #begin(): void {
    this.cache.begin();
    this.plain.begin();
  }

  #bring(key: Key): void {
    const { cache, plain } = this;
    const usedBefore = this.#random.chance(0.5) ? Infinity : cache.stamp;
    let slot = cache.takeFree();
    assert.equal(slot === NO_SLOT, plain.rows.size === cache.slotCount, this.#text);
    if (slot === NO_SLOT) {
      slot = cache.evict(usedBefore);
      const victim = plain.evict(usedBefore);
      const left = slot === NO_SLOT ? undefined : `${cache.lowOf(slot)},${cache.highOf(slot)}`;
      assert.equal(left, victim, `RowCache.C3: ${this.#text}`);
    }
    if (slot === NO_SLOT) return;
    if (this.#random.chance(0.1)) {
      cache.giveBack(slot);
      return;
    }
    const version = this.#random.below(5);
    this.#values[cache.addressOf(slot) >>> 2] = key[0];
    cache.fill(slot, ...key, version);
    plain.fill(String(key), slot, version);
  }

  #change(key: Key, row: Row): void {
    const { cache, plain } = this;
    const versionMin = this.#random.below(5);
    switch (this.#random.below(6)) {
      case 0:
        plain.use(row);
        cache.use(row.slot);
        break;
      case 1: {
        const isFresh = row.version >= versionMin && row.version !== VERSION_NONE;
        const pinned = this.#random.chance(0.5) ? cache.pin(...key, versionMin) : cache.pinOwn(...key, versionMin);
        assert.equal(pinned, isFresh ? row.slot : NO_SLOT, this.#text);
        row.isMarked = true;
        row.pins += isFresh ? 1 : 0;
        break;
      }
      case 2:
        if (row.pins === 0) break;
        row.pins--;
        if (this.#random.chance(0.5)) cache.unpin(row.slot);
        else cache.unpinOwn(row.slot);
        break;
      case 3:
        row.isDirty = !row.isDirty;
        cache.dirty[row.slot] = row.isDirty ? 1 : 0;
        break;
      case 4:
        row.version = this.#random.chance(0.5) ? VERSION_NONE : versionMin;
        cache.setVersion(row.slot, row.version);
        break;
      default:
        assert.equal(cache.remove(row.slot), row.pins === 0, `SharedRows.S1: ${this.#text}`);
        if (row.pins === 0) plain.rows.delete(String(key));
    }
  }
}

for (const policy of POLICY_NAMES) {
  test(`${policy}: the cache holds what a plain Map holds after every one of 300 steps, for 60 seeds`, () => {
    for (let seed = 1; seed <= 60; seed++) {
      const stage = new Stage(policy, seed);
      for (let step = 0; step < 300; step++) stage.step();
    }
  });
}

function filled(slotCount: number): RowCache {
  const cache = new RowCache(memoryOf(slotCount));
  for (let key = 0; key < slotCount; key++) cache.fill(cache.takeFree(), key, 0);
  cache.begin();
  return cache;
}

test("when every row is pinned none goes and the search ends (RowCache.C4); the first that is let go goes", () => {
  const cache = filled(1000);
  for (let key = 0; key < 1000; key++) cache.pin(key, 0);
  assert.equal(cache.evict(Infinity), NO_SLOT);
  const slot = cache.find(700, 0);
  cache.unpin(slot);
  assert.equal(cache.evict(Infinity), slot);
  assert.equal(cache.find(700, 0), NO_SLOT);
});

test("a row that a reader used since the last look gets a second chance", () => {
  const cache = filled(3);
  cache.unpin(cache.pin(0, 0));
  const slots = [1, 2, 0].map((key) => cache.find(key, 0));
  assert.deepEqual([cache.evict(), cache.evict(), cache.evict()], slots);
});

test("a row that is looked up without a pin gets a second chance, and a stale one, or one that is written, is not found", () => {
  const cache = filled(3);
  const slots = [1, 2, 0].map((key) => cache.find(key, 0));
  assert.equal(cache.findFresh(0, 0, 0), slots[2]);
  assert.equal(cache.findFresh(1, 0, 1), NO_SLOT, "too old");
  assert.equal(cache.findFresh(7, 0, 0), NO_SLOT, "not here");
  cache.setVersion(slots[1]!, VERSION_NONE);
  assert.equal(cache.findFresh(2, 0, 0), NO_SLOT, "counts for nothing");
  assert.equal(cache.claim(slots[0]!), true);
  assert.equal(cache.findFresh(1, 0, 0), NO_SLOT, "is being written");
  cache.publish(slots[0]!);
  assert.deepEqual([cache.evict(), cache.evict(), cache.evict()], slots);
});

test("the owner gives back as many pins as it took (SharedRows.S1)", () => {
  const cache = filled(1);
  assert.equal(cache.pinOwn(0, 0, 0), 0);
  assert.equal(cache.evict(Infinity), NO_SLOT);
  cache.unpinOwn(0);
  assert.throws(() => cache.unpinOwn(0), /SharedRows\.S1/);
  assert.equal(cache.claim(0), true);
  assert.equal(cache.pinOwn(0, 0, 0), NO_SLOT, "it is being written");
});

test("rows of the operation in hand stay (RowCache.C2)", () => {
  const cache = filled(2);
  const [first, second] = [cache.find(0, 0), cache.find(1, 0)];
  cache.use(first);
  assert.equal(cache.evict(), second);
  assert.equal(cache.evict(), NO_SLOT);
  cache.begin();
  assert.equal(cache.evict(), first);
});

test("nobody pins a row while it is written, and nobody writes one that is pinned (RowCache.C5)", () => {
  const cache = filled(1);
  assert.equal(cache.claim(0), true);
  assert.equal(cache.pin(0, 0), NO_SLOT);
  assert.equal(cache.evict(Infinity), NO_SLOT, "it is being written");
  cache.publish(0);
  assert.equal(cache.pin(0, 0), 0);
  assert.equal(cache.claim(0), false);
  cache.unpin(0);
  assert.throws(() => cache.unpin(0), /SharedRows\.S1/);
});

test("a slot is filled once and a key has one row (RowCache.C1)", () => {
  const cache = new RowCache(memoryOf(2));
  const slot = cache.takeFree();
  cache.fill(slot, 5, 0);
  assert.throws(() => cache.fill(slot, 6, 0), /RowCache\.C1/);
  assert.throws(() => cache.giveBack(slot), /RowCache\.C1/);
  assert.throws(() => cache.fill(cache.takeFree(), 5, 0), /RowCache\.C1/);
});

test("a second object over the same memory, as another thread has it, finds and pins the same rows", () => {
  const cache = filled(4);
  const reader = new SharedRows(structuredClone(cache.memory));
  assert.equal(reader.pin(2, 0), cache.find(2, 0));
  assert.equal(cache.remove(cache.find(2, 0)), false);
  reader.unpin(reader.find(2, 0));
  assert.equal(cache.remove(cache.find(2, 0)), true);
  assert.equal(reader.find(2, 0), NO_SLOT);
});

class WithHomes extends RowCache {
  homeOf([low, high]: Key): number {
    return this.home(low, high);
  }
}

test("keys of any pattern spread over the index as chance would spread them, whatever the secret", () => {
  const patterns: readonly ((i: number) => Key)[] = [
    (i) => [i, 0],
    (i) => [0, i],
    (i) => [(i << 16) >>> 0, i >>> 16],
    (i) => [(i * 4096) >>> 0, (i * 7) >>> 0],
    (i) => [i, i],
    (i) => [(i << 20) >>> 0, (i << 20) >>> 0],
  ];
  for (const [n, keyOf] of patterns.entries()) {
    for (const secret of [0, 1, 0x8000_0000, 0xdead_beef, 0x2545_f491]) {
      const cache = new WithHomes(memoryOf(4096, secret));
      const homes = new Set(Array.from({ length: 4096 }, (_, i) => cache.homeOf(keyOf(i))));
      assert.ok(homes.size > 2900, `pattern ${n}, secret ${secret}: ${homes.size} places for 4,096 keys; chance gives 3,224`);
    }
  }
});

test("the hit path allocates nothing: a million finds, pins and reads leave the heap as it was (SharedRows.S3)", () => {
  const cache = filled(1024);
  const floats = new Float32Array(cache.memory.buffer);
  const keys = cache.memory.address; // the cache's own keys, a list as good as any
  const slots = new Int32Array(1024);
  const sum = new Float64Array(1);
  const run = (rounds: number): void => {
    for (let round = 0; round < rounds; round++) {
      for (let key = 0; key < 1024; key++) {
        const slot = cache.pin(key, 0);
        sum[0]! += floats[cache.addressOf(slot) >>> 2] as number;
        cache.use(slot);
        cache.unpin(slot);
      }
      cache.findAll(keys, slots);
    }
  };
  run(200); // compiled by now
  const before = process.memoryUsage().heapUsed;
  run(1000);
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(grown < 100_000, `${grown} bytes for a million hits`);
  assert.equal(cache.rowCount, 1024);
});
