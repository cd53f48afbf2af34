// row-tiers — Goal: whatever is admitted, updated and evicted in whatever order, every row is where it is found, in one
// place, with all that was done to it; failures of the servers lose nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { Arena } from "../../kernel/arena.ts";
import { simdRowKernels } from "../../kernel/row-kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { putKeys } from "../../testing/arena-lists.ts";
import { RowTiers } from "./row-tiers.ts";

const WIDTH = 2;
const ROW_FLOATS = 3;

/** Servers that hold rows in a map; of a key that they do not have, a row is key, key, 0. */
class FakeServers {
  readonly rowFloats: number = ROW_FLOATS;
  readonly rows = new Map<bigint, Float32Array>();
  readCount = 0;
  isDown = false;

  read = async (keys: BigUint64Array, into: Float32Array): Promise<void> => {
    const wanted = [...keys];
    await Promise.resolve();
    if (this.isDown) throw new Error("down");
    this.readCount += wanted.length;
    for (const [i, key] of wanted.entries()) into.set(this.rowOf(key), i * ROW_FLOATS);
  };

  write = async (keys: BigUint64Array, rows: Float32Array): Promise<void> => {
    await Promise.resolve();
    if (this.isDown) throw new Error("down");
    for (const [i, key] of [...keys].entries()) this.rows.set(key, rows.slice(i * ROW_FLOATS, (i + 1) * ROW_FLOATS));
  };

  rowOf(key: bigint): Float32Array {
    return this.rows.get(key) ?? Float32Array.of(Number(key), Number(key), 0);
  }
}

class Stage {
  readonly arena: Arena = new Arena({ bytesMax: 2 ** 22 });
  readonly servers: FakeServers = new FakeServers();
  readonly tiers: RowTiers;
  /** How often each row was updated. */
  readonly updates = new Map<bigint, number>();
  readonly #mirror: number;

  constructor(deviceRows: number, hostRows: number) {
    const { arena } = this;
    this.#mirror = arena.allocate(deviceRows * WIDTH * 4);
    const tools = { arena, kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena) };
    this.tiers = new RowTiers(tools, { raw: this.servers, width: WIDTH, deviceRows, hostRows, mirror: this.#mirror, secret: 5 });
  }

  async admit(keys: readonly bigint[]): Promise<number> {
    const list = putKeys(this.arena, keys);
    await this.tiers.admit(list, keys.length);
    return list;
  }

  /** Adds 1 to the last float of every row, after a look at all of it. */
  update(list: number, keys: readonly bigint[]): void {
    const rows = this.arena.allocate(keys.length * 4 + 4);
    this.tiers.locate(list, keys.length, rows);
    for (const [i, key] of keys.entries()) {
      const at = (this.arena.words[(rows >>> 2) + i] as number) >>> 2;
      const expected = [Math.fround(Number(key)), Math.fround(Number(key)), this.updates.get(key) ?? 0];
      assert.deepEqual([...this.arena.floats.subarray(at, at + ROW_FLOATS)], expected, `row ${key}`);
      this.arena.floats[at + 2] = (this.arena.floats[at + 2] as number) + 1;
      this.updates.set(key, (this.updates.get(key) ?? 0) + 1);
      const slot = this.tiers.deviceSlotAt(at * 4);
      if (slot >= 0) assert.equal(this.arena.floats[(this.#mirror >>> 2) + slot * WIDTH], Math.fround(Number(key)), "RowTiers.M4");
    }
    this.tiers.changed(list, keys.length, rows);
  }

  async check(): Promise<void> {
    await this.tiers.flush();
    for (const [key, count] of this.updates) assert.equal(this.servers.rowOf(key)[2], count, `row ${key}`);
  }
}

function distinctKeys(random: Random, countMax: number, below: number): bigint[] {
  return [...new Set(Array.from({ length: random.below(countMax + 1) }, () => BigInt(random.below(below)) * 0x1_0000_0001n))];
}

test("no update is lost or doubled for 60 seeds of steps, with the next one admitted meanwhile or not, and servers that fail at times", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed);
    const stage = new Stage(1 + random.below(12), random.below(12));
    let keys = distinctKeys(random, 16, 30);
    let list = await stage.admit(keys);
    for (let step = 0; step < 30; step++) {
      while (await failing(stage.tiers.settle(list, keys.length))) stage.servers.isDown = false;
      const next = distinctKeys(random, 16, 30);
      const nextList = putKeys(stage.arena, next);
      stage.servers.isDown = random.chance(0.2);
      let isAdmitted = random.chance(0.7) && !(await failing(stage.tiers.admit(nextList, next.length)));
      stage.update(list, keys);
      stage.tiers.release();
      if (await failing(stage.tiers.writeLoose())) assert.ok(stage.servers.isDown);
      stage.servers.isDown = false;
      if (random.chance(0.1)) await stage.tiers.flush();
      for (; !isAdmitted; isAdmitted = true) await stage.tiers.admit(nextList, next.length);
      [keys, list] = [next, nextList];
    }
    await stage.check();
  }
});

async function failing(promise: Promise<unknown>): Promise<boolean> {
  return await promise.then(
    () => false,
    () => true,
  );
}

test("rows of the step in hand stay while others come (RowTiers.M2), and go when it is over", async () => {
  const stage = new Stage(3, 0);
  const list = await stage.admit([1n, 2n, 3n]);
  assert.equal(await stage.tiers.settle(list, 3), 0);
  const next = await stage.admit([4n, 5n]);
  stage.update(list, [1n, 2n, 3n]);
  stage.tiers.release();
  assert.equal(await stage.tiers.settle(next, 2), 0);
  assert.equal(stage.tiers.looseCount, 0);
  stage.update(next, [4n, 5n]);
  await stage.check();
});

test("what the host has is not read again, and what did not change is not written", async () => {
  const stage = new Stage(2, 2);
  for (const keys of [
    [1n, 2n],
    [3n, 4n],
    [1n, 2n],
    [3n, 4n],
  ]) {
    await stage.tiers.settle(await stage.admit(keys), 2);
    stage.tiers.release();
  }
  assert.equal(stage.servers.readCount, 4);
  await stage.tiers.settle(await stage.admit([5n, 6n]), 2);
  await stage.tiers.flush();
  assert.equal(stage.servers.rows.size, 0);
  assert.equal(stage.tiers.counts.writtenBack, 0);
});

test("servers that cannot be trusted get all rows again", async () => {
  const stage = new Stage(2, 2);
  const list = await stage.admit([1n, 2n]);
  await stage.tiers.settle(list, 2);
  stage.update(list, [1n, 2n]);
  await stage.tiers.flush();
  stage.servers.rows.clear();
  stage.tiers.distrust();
  await stage.check();
});
