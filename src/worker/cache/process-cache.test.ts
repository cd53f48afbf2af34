// Goal: a third policy fits the core: Petuum's process cache, written here in a few lines. Its version is the clock of
// the row, a read hits at once when that is at least the clock it needs, accessors are pins, and increments wait in an
// oplog (PendingUpdates) that outlives their rows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { Arena } from "../../kernel/arena.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { putFloats, putKeys } from "../../testing/arena-lists.ts";
import { ArenaSpans } from "../arena-spans.ts";
import { NO_SLOT } from "./eviction-order.ts";
import { PendingUpdates } from "./pending-updates.ts";
import { RowCache } from "./row-cache.ts";
import { sharedBytes } from "./shared-rows.ts";

const KEYS = 12;

/** Rows of one float. What others added and this process added, apart. */
class Servers {
  clock = 0;
  readonly others: number[] = Array.from({ length: KEYS }, () => 0);
  readonly own: number[] = Array.from({ length: KEYS }, () => 0);
  /** What others had added to each key when each clock began. */
  readonly history: number[][] = [[...this.others]];
  fetchCount = 0;

  tick(): void {
    this.clock++;
    this.history.push([...this.others]);
  }

  fetch(key: number): number {
    this.fetchCount++;
    return (this.others[key] as number) + (this.own[key] as number);
  }
}

class ProcessCache {
  readonly servers: Servers;
  readonly cache: RowCache;
  readonly #arena = new Arena({ bytesMax: 2 ** 20 });
  readonly #oplog: PendingUpdates;
  readonly #spans: ArenaSpans;

  constructor(servers: Servers, slotCount: number) {
    const arena = this.#arena;
    this.servers = servers;
    this.#oplog = new PendingUpdates({ arena, kernels: new SimdKernels(arena), secret: 7 }, 1);
    this.#spans = new ArenaSpans(arena);
    const [address, rows] = [arena.allocate(sharedBytes(slotCount)), arena.allocate(4 * slotCount)];
    this.cache = new RowCache({ buffer: arena.memory.buffer, address, rows, slotCount, rowBytes: 4, secret: 7 });
  }

  /** The slot of the row, pinned; NO_SLOT when it had to be read past the cache, because all its slots are pinned. */
  get(key: number, need: number): { readonly slot: number; readonly value: number } {
    const slot = this.cache.pin(key, 0, need); // the hit path
    if (slot !== NO_SLOT) return { slot, value: this.#valueAt(slot) + this.#pending(key) };
    const row = this.servers.fetch(key);
    return { slot: this.#keep(key, row), value: row + this.#pending(key) };
  }

  inc(key: number): void {
    this.#oplog.add(putKeys(this.#arena, [BigInt(key)]), 1, putFloats(this.#arena, [1]), this.#spans);
  }

  /** Sends the oplog; rows that are here take over what it had. */
  flush(): void {
    for (let key = 0; key < KEYS; key++) {
      const delta = this.#pending(key);
      const slot = this.cache.find(key, 0);
      if (delta === 0) continue;
      this.servers.own[key]! += delta;
      this.#oplog.remove(putKeys(this.#arena, [BigInt(key)]), 1);
      if (slot !== NO_SLOT && this.cache.claim(slot)) {
        this.#arena.floats[this.cache.addressOf(slot) >>> 2]! += delta;
        this.cache.publish(slot);
      } else if (slot !== NO_SLOT) {
        this.cache.setVersion(slot, 0xffff_ffff); // somebody reads it: who comes next fetches it
      }
    }
  }

  #keep(key: number, row: number): number {
    const { cache } = this;
    const held = cache.find(key, 0);
    if (held !== NO_SLOT && !cache.claim(held)) return NO_SLOT;
    let slot = held;
    if (slot === NO_SLOT) slot = cache.takeFree();
    if (slot === NO_SLOT) slot = cache.evict(Infinity);
    if (slot === NO_SLOT) return NO_SLOT;
    this.#arena.floats[cache.addressOf(slot) >>> 2] = row;
    if (held === NO_SLOT) cache.fill(slot, key, 0, this.servers.clock);
    else {
      cache.setVersion(slot, this.servers.clock);
      cache.publish(slot);
    }
    return cache.pin(key, 0);
  }

  #valueAt(slot: number): number {
    return this.#arena.floats[this.cache.addressOf(slot) >>> 2] as number;
  }

  #pending(key: number): number {
    const list = putKeys(this.#arena, [0n]);
    this.#oplog.find(putKeys(this.#arena, [BigInt(key)]), 1, list);
    const at = this.#arena.words[list >>> 2] as number;
    return at === 0 ? 0 : (this.#arena.floats[at >>> 2] as number);
  }
}

test("a process cache reads its own increments, and of others all that the staleness asks for, whatever was evicted or is pinned, for 40 seeds", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed);
    const servers = new Servers();
    const process = new ProcessCache(servers, 1 + random.below(6));
    const own = Array.from({ length: KEYS }, () => 0);
    const staleness = random.below(4);
    const accessors: { readonly slot: number; readonly key: number }[] = [];
    for (let step = 0; step < 150; step++) {
      const key = random.below(KEYS);
      if (random.chance(0.4)) servers.others[random.below(KEYS)]!++;
      if (random.chance(0.3)) {
        own[key]!++;
        process.inc(key);
      }
      if (random.chance(0.1)) {
        process.flush();
        servers.tick();
      }
      const need = Math.max(0, servers.clock - staleness);
      const { slot, value } = process.get(key, need);
      const seen = value - (own[key] as number);
      const text = `seed ${seed}, step ${step}, key ${key}: ${seen} of others`;
      assert.ok(seen >= (servers.history[need]?.[key] as number) && seen <= (servers.others[key] as number), text);
      if (slot !== NO_SLOT) accessors.push({ slot, key });
      if (accessors.length > 0 && random.chance(0.8)) process.cache.unpin(accessors.splice(random.below(accessors.length), 1)[0]!.slot);
      for (const held of accessors) assert.equal(process.cache.find(held.key, 0), held.slot, "an accessor keeps its row");
    }
    assert.ok(servers.fetchCount > 0);
  }
});

test("with every row under an accessor a process cache reads past itself, where Petuum's hangs", () => {
  const process = new ProcessCache(new Servers(), 2);
  const accessors = [process.get(0, 0), process.get(1, 0)];
  assert.deepEqual(process.get(2, 0), { slot: NO_SLOT, value: 0 });
  process.cache.unpin(accessors[0]!.slot);
  assert.notEqual(process.get(2, 0).slot, NO_SLOT);
});
