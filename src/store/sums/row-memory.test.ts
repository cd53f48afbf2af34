// Lists of rows that are remembered lead to what looking for every key leads to, whatever happened to the table in
// between.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { Arena } from "../../kernel/arena.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { simdSumHost } from "../../testing/store-stage.ts";
import { LISTED_KEYS_MIN, ROWS_MAX, RowMemory } from "./row-memory.ts";
import { SumStore } from "./sum-store.ts";

const MIB = 1024 * 1024;
const KEYS_MAX = 264;

function put(arena: Arena, keys: readonly bigint[], address: number = arena.allocate(keys.length * 8)): number {
  for (const [i, key] of keys.entries()) {
    arena.words[address / 4 + 2 * i] = Number(key & 0xffff_ffffn);
    arena.words[address / 4 + 2 * i + 1] = Number(key >> 32n);
  }
  return address;
}

const consecutive = (first: bigint, count: number): bigint[] => Array.from({ length: count }, (_, i) => first + BigInt(i));

test("a list is served from memory from its third pull on, and one that only looks the same never is", () => {
  const arena = new Arena({ bytesMax: 8 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 8, secret: 1n });
  const [count, keys] = [200, put(arena, consecutive(10n, 200))];
  const values = arena.allocate(count * 8);
  for (let i = 0; i < count * 2; i++) arena.floats[values / 4 + i] = i;
  kernels.addRows(table, keys, count, values);
  const out = arena.allocate(count * 8);
  const memory = new RowMemory(arena, kernels);
  const pull = (from: number): boolean => {
    arena.floats.fill(-1, out / 4, out / 4 + count * 2);
    return memory.pull({ table, payloadBytes: 8, keys: from, keyCount: count, out });
  };
  assert.deepEqual([pull(keys), pull(keys), pull(keys)], [false, true, true]);
  assert.deepEqual(arena.floats.slice(out / 4, out / 4 + count * 2), arena.floats.slice(values / 4, values / 4 + count * 2));

  // as many keys, the same first and last
  const twin = put(arena, [...consecutive(10n, 100), ...consecutive(111n, 98), 208n, 209n]);
  assert.equal(pull(twin), false);
  assert.equal(pull(keys), false, "it was forgotten with that");
  assert.deepEqual([pull(keys), pull(keys)], [true, true]);

  memory.forget();
  kernels.removeRows(table, keys, 1);
  assert.deepEqual([pull(keys), pull(keys), pull(keys)], [false, false, false], "a key without a row");
});

test("a list is served from memory from its third push on, with what pulls remember, and one that only looks the same adds nothing", () => {
  const arena = new Arena({ bytesMax: 8 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 8, secret: 1n });
  const [count, keys] = [200, put(arena, consecutive(10n, 210))];
  const [values, out] = [arena.allocate(count * 8), arena.allocate(count * 8)];
  arena.floats.fill(1, values / 4, values / 4 + count * 2);
  kernels.insertRows(table, keys, 210);
  const memory = new RowMemory(arena, kernels);
  const push = (from: number): boolean => memory.push({ table, payloadBytes: 8, keys: from, keyCount: count, values });
  const pull = (from: number): boolean => memory.pull({ table, payloadBytes: 8, keys: from, keyCount: count, out });
  const sums = (from: number): ReadonlySet<number> => {
    kernels.gatherRows(table, from, count, out);
    return new Set(arena.floats.slice(out / 4, out / 4 + count * 2));
  };
  assert.deepEqual([push(keys), push(keys), push(keys), pull(keys)], [false, true, true, true]);
  assert.deepEqual(sums(keys), new Set([2]));

  const twin = put(arena, [...consecutive(10n, 100), ...consecutive(111n, 98), 208n, 209n]);
  assert.equal(push(twin), false);
  assert.deepEqual(sums(keys), new Set([2]));

  const other = keys + 8;
  assert.deepEqual([push(other), pull(other), pull(other), push(other)], [false, false, true, true]);
});

test("a list that is pushed to once and then pulled once is not remembered", () => {
  const arena = new Arena({ bytesMax: 8 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 4, secret: 1n });
  const keys = put(arena, consecutive(0n, 100));
  kernels.insertRows(table, keys, 100);
  const room = arena.allocate(100 * 4);
  const memory = new RowMemory(arena, kernels);
  const request = { table, payloadBytes: 4, keys, keyCount: 100 };
  assert.deepEqual([memory.push({ ...request, values: room }), memory.pull({ ...request, out: room })], [false, false]);
  assert.equal(memory.usedBytes, 0);
});

test("the frames of one request are all remembered, wherever its keys begin", () => {
  const arena = new Arena({ bytesMax: 16 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 4, secret: 1n });
  const [frameKeys, frameCount] = [1956, 6];
  const keys = arena.allocate(frameKeys * frameCount * 8);
  const out = arena.allocate(frameKeys * 4);
  for (let first = 0n; first < 32n; first++) {
    put(arena, consecutive(first << 24n, frameKeys * frameCount), keys);
    kernels.insertRows(table, keys, frameKeys * frameCount);
    const memory = new RowMemory(arena, kernels);
    const pullAll = (): number => {
      let served = 0;
      for (let frame = 0; frame < frameCount; frame++)
        if (memory.pull({ table, payloadBytes: 4, keys: keys + frame * frameKeys * 8, keyCount: frameKeys, out })) served++;
      return served;
    };
    assert.deepEqual([pullAll(), pullAll(), pullAll()], [0, frameCount, frameCount], `keys from ${first << 24n}`);
    memory.forget();
  }
});

test("a push to a remembered list does not reach what was frozen before it", () => {
  const arena = new Arena({ bytesMax: 8 * MIB });
  const store = new SumStore({ ...simdSumHost(arena), secret: 1n });
  const keys = put(arena, consecutive(0n, 100));
  const values = arena.allocate(100 * 4);
  arena.floats.fill(1, values / 4, values / 4 + 100);
  const push = (): void => store.push({ keys, keyCount: 100, width: 1, values });
  for (let i = 0; i < 3; i++) push();
  const [frozen] = store.freeze();
  push();
  assert.ok(frozen !== undefined && "rows" in frozen);
  const out = arena.allocate(100 * 4);
  const seen: number[] = [];
  for (;;) {
    const taken = frozen.rows.take(100, [{ offset: 0, byteCount: 4, address: out }]);
    if (taken < 0) break;
    seen.push(...arena.floats.slice(out / 4, out / 4 + taken));
  }
  assert.deepEqual(seen, new Array<number>(100).fill(3));
  frozen.rows.close();
  push();
  push();
  store.pull({ keys, keyCount: 100, width: 1, out });
  assert.deepEqual(new Set(arena.floats.slice(out / 4, out / 4 + 100)), new Set([6]));
  store.close();
});

test("lists take no more than their bound, and give all of it back", () => {
  const arena = new Arena({ bytesMax: 64 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 4, secret: 1n });
  const count = ROWS_MAX / 4;
  const keys = put(arena, consecutive(0n, count + 8));
  kernels.insertRows(table, keys, count + 8);
  const out = arena.allocate(count * 4);
  const memory = new RowMemory(arena, kernels);
  const usedBytes = arena.usedBytes;
  let servedCount = 0;
  for (let round = 0; round < 3; round++)
    for (let first = 0; first < 8; first++)
      if (memory.pull({ table, payloadBytes: 4, keys: keys + first * 8, keyCount: count, out })) servedCount++;
  assert.ok(servedCount > 0);
  assert.ok(arena.usedBytes - usedBytes <= ROWS_MAX * 4, `${arena.usedBytes - usedBytes} bytes`);
  memory.forget();
  assert.equal(arena.usedBytes, usedBytes);
});

test("whatever is pushed and refused in between, repeated pulls read what a plain map holds, for 20 seeds", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const arena = new Arena({ bytesMax: MIB });
    const [keyRoom, valueRoom] = [arena.allocate(KEYS_MAX * 8), arena.allocate(KEYS_MAX * 16)];
    const store = new SumStore({ ...simdSumHost(arena), secret: BigInt(seed) });
    const width = 1 + random.below(4);
    const oracle = new Map<bigint, number>();
    const lists = Array.from({ length: 4 }, () =>
      consecutive(BigInt(random.below(300)), LISTED_KEYS_MIN + random.below(KEYS_MAX - LISTED_KEYS_MIN)),
    );
    let refusedCount = 0;
    for (let step = 0; step < 60; step++) {
      const keys = lists[random.below(lists.length)] as bigint[];
      const [address, values] = [put(arena, keys, keyRoom), valueRoom];
      if (random.chance(0.5)) {
        arena.floats.fill(1, values / 4, values / 4 + keys.length * width);
        if (isTaken(() => store.push({ keys: address, keyCount: keys.length, width, values })))
          for (const key of keys) oracle.set(key, (oracle.get(key) ?? 0) + 1);
      }
      if (random.chance(0.2)) refusedCount += Number(!pushMuch(arena, store, address, keys.length));
      store.pull({ keys: address, keyCount: keys.length, width, out: values });
      for (const [i, key] of keys.entries())
        assert.equal(arena.floats[values / 4 + i * width], oracle.get(key) ?? 0, `seed ${seed}, step ${step}, key ${key}`);
    }
    assert.ok(refusedCount > 0 || seed > 1, "pushes were taken back");
    store.close();
  }
});

/**
 * Pushes long values of keys that nobody has: where they do not fit, rows are made and removed again. Whether they were
 * taken.
 */
function pushMuch(arena: Arena, store: SumStore, keys: number, keyCount: number): boolean {
  const { words } = arena;
  const byteCount = keyCount * 8;
  const others = arena.tryAllocate(byteCount);
  if (others === 0) return true;
  for (let i = 0; i < keyCount; i++) {
    words[others / 4 + 2 * i] = words[keys / 4 + 2 * i] as number;
    words[others / 4 + 2 * i + 1] = 7;
  }
  const wasTaken = isTaken(() => store.push({ keys: others, keyCount, width: 3000, values: 64 }));
  arena.release(others, byteCount);
  return wasTaken;
}

/** False when the arena was full. */
function isTaken(push: () => void): boolean {
  try {
    push();
    return true;
  } catch (thrown) {
    assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
    return false;
  }
}
