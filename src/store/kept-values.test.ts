// Kept values are what the store holds, whatever was pushed in between, and their memory is bounded and comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { KeptValues, type KeyList } from "./kept-values.ts";
import { ValueStore } from "./value-store.ts";

const MIB = 1024 * 1024;

function put(arena: Arena, address: number, keys: readonly bigint[]): number {
  for (const [i, key] of keys.entries()) {
    arena.words[address / 4 + 2 * i] = Number(key & 0xffff_ffffn);
    arena.words[address / 4 + 2 * i + 1] = Number(key >> 32n);
  }
  return address;
}

function stage(bytesMax: number) {
  const arena = new Arena({ bytesMax });
  const kept = new KeptValues(arena);
  let changes = 0;
  const change = (): void => {
    changes++;
    kept.drop();
  };
  /** Whether a pull of the list was answered from what is kept. */
  const pull = (list: KeyList): boolean => {
    const hold = kept.hold(list, changes, () => {});
    hold.release();
    return !hold.isFresh;
  };
  return { arena, kept, pull, change };
}

test("a list is kept from its second pull without a change in between on, and found by all of its keys and its width (K2, K3)", () => {
  const { arena, kept, pull, change } = stage(8 * MIB);
  const keys = put(
    arena,
    arena.allocate(100 * 8),
    Array.from({ length: 100 }, (_, i) => BigInt(i)),
  );
  const list = { keys, keyCount: 100, width: 4 };
  assert.deepEqual([pull(list), pull(list), pull(list)], [false, false, true]);
  change();
  assert.deepEqual([pull(list), pull(list), pull(list)], [false, false, true]);
  for (let i = 0; i < 5; i++) {
    change();
    assert.equal(pull(list), false);
    assert.equal(kept.usedBytes, 0, "with a push before every pull nothing is kept");
  }
  assert.deepEqual([pull(list), pull(list)], [false, true]);
  assert.equal(pull({ ...list, width: 5 }), false);
  assert.equal(pull({ ...list, keyCount: 99 }), false);
  for (const index of [0, 57, 99]) {
    const others = Array.from({ length: 100 }, (_, i) => (i === index ? 2n ** 63n + BigInt(i) : BigInt(i)));
    const twin = put(arena, arena.allocate(100 * 8), others);
    pull(list);
    assert.equal(pull(list), true);
    assert.equal(pull({ ...list, keys: twin }), false, `key ${index} differs in its upper half`);
  }
});

test("what is kept takes no more than a sixteenth of the arena, and gives all of it back (K4)", () => {
  const { arena, kept, pull } = stage(16 * MIB);
  const keys = put(
    arena,
    arena.allocate(1200 * 8),
    Array.from({ length: 1200 }, (_, i) => BigInt(i)),
  );
  const used = arena.usedBytes;
  for (let round = 0; round < 3; round++)
    for (let first = 0; first < 200; first++) pull({ keys: keys + first * 8, keyCount: 1000, width: 8 });
  assert.ok(kept.usedBytes > 0);
  assert.ok(kept.usedBytes <= MIB, `${kept.usedBytes} bytes`);
  assert.ok(arena.usedBytes - used >= kept.usedBytes);
  kept.drop();
  assert.equal(arena.usedBytes, used);
});

test("a pull that finds the arena full takes the room of what is kept", () => {
  const arena = new Arena({ bytesMax: 4 * MIB });
  const store = new ValueStore({ arena, kernels: new SimdKernels(arena), secret: 1n });
  const keys = put(
    arena,
    arena.allocate(64 * 8),
    Array.from({ length: 64 }, (_, i) => BigInt(i)),
  );
  const values = arena.allocate(64 * 512 * 4);
  arena.floats.fill(1, values / 4, values / 4 + 64 * 512);
  store.push({ keys, keyCount: 64, width: 512, values });
  const list = { keys, keyCount: 64, width: 512 };
  for (let times = 0; times < 2; times++) store.holdRows(list).release();
  const filler: number[] = [];
  for (let address = arena.tryAllocate(64 * 1024); address !== 0; address = arena.tryAllocate(64 * 1024)) filler.push(address);
  for (let address = arena.tryAllocate(1024); address !== 0; address = arena.tryAllocate(1024)) filler.push(address);
  const keptBytes = store.usedBytes;
  const hold = store.holdRows({ ...list, keyCount: 63 });
  assert.ok(filler.length > 0 && store.usedBytes < keptBytes, "it was there, and is gone");
  assert.equal(arena.floats[hold.address / 4 + 63 * 512 - 1], 1);
  hold.release();
});

test("whatever is pushed and refused in between, held rows read what a plain map holds and stay so, for 20 seeds (K1)", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const arena = new Arena({ bytesMax: 4 * MIB });
    const store = new ValueStore({ arena, kernels: new SimdKernels(arena), secret: BigInt(seed) });
    const [keys, values] = [arena.allocate(200 * 8), arena.allocate(200 * 8)];
    const oracle = new Map<bigint, number>();
    const lists = Array.from({ length: 3 }, (_, i) => Array.from({ length: 100 + i }, (_, k) => BigInt(k * (i + 1))));
    const held: { readonly expected: number[]; readonly hold: ReturnType<ValueStore["holdRows"]> }[] = [];
    const check = ({ expected, hold }: (typeof held)[number]): void => {
      const read = [...arena.floats.subarray(hold.address / 4, hold.address / 4 + expected.length)];
      assert.deepEqual(read, expected, `seed ${seed}`);
      hold.release();
    };
    for (let step = 0; step < 60; step++) {
      const list = lists[random.below(lists.length)] ?? assert.fail();
      put(arena, keys, list);
      if (random.below(4) === 0) {
        arena.floats.fill(step, values / 4, values / 4 + list.length);
        store.push({ keys, keyCount: list.length, width: 1, values });
        for (const key of list) oracle.set(key, (oracle.get(key) ?? 0) + step);
        assert.throws(() => store.push({ keys, keyCount: list.length, width: 2, values }), isWeighbridgeError);
      } else {
        const hold = store.holdRows({ keys, keyCount: list.length, width: 1 });
        held.push({ expected: list.map((key) => oracle.get(key) ?? 0), hold });
        if (random.below(2) === 0) check(held.splice(random.below(held.length), 1)[0] ?? assert.fail());
      }
    }
    for (const one of held) check(one);
  }
});
