// Goal: spans never overlap, released memory serves again, and a full arena says so without harm.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { putKeys } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { DONE, NO_ROOM } from "./kernels.ts";
import { SimdKernels } from "./simd-kernels.ts";

const MIB = 2 ** 20;

test("spans are 64-byte aligned, inside the memory, and never overlap (Arena.A1, Arena.A2)", () => {
  const sizes = fc.array(fc.tuple(fc.integer({ min: 1, max: 20_000 }), fc.boolean()), { maxLength: 200 });
  fc.assert(
    fc.property(sizes, (steps) => {
      const arena = new Arena({ bytesMax: 8 * MIB });
      const live: { address: number; byteCount: number }[] = [];
      for (const [byteCount, releases] of steps) {
        const victim = live[byteCount % Math.max(1, live.length)];
        if (releases && victim !== undefined) {
          arena.release(victim.address, victim.byteCount);
          live.splice(live.indexOf(victim), 1);
          continue;
        }
        const address = arena.allocate(byteCount);
        assert.equal(address % 64, 0);
        assert.ok(address > 0 && address + byteCount <= arena.bytesMax);
        for (const other of live) assert.ok(address + byteCount <= other.address || other.address + other.byteCount <= address);
        live.push({ address, byteCount });
      }
      for (const { address, byteCount } of live) arena.release(address, byteCount);
      assert.equal(arena.usedBytes, 0);
    }),
    { numRuns: 25 },
  );
});

test("a power of two takes no more than itself, and no span more than a quarter above its size", () => {
  const arena = new Arena({ bytesMax: 64 * MIB });
  for (let byteCount = 64; byteCount <= 2 * MIB; byteCount = Math.ceil(byteCount * 1.07)) {
    const before = arena.usedBytes;
    arena.allocate(byteCount);
    const taken = arena.usedBytes - before;
    assert.ok(taken >= byteCount && taken <= Math.max(byteCount + 64, byteCount * 1.25), `${byteCount} took ${taken}`);
  }
  const before = arena.usedBytes;
  arena.allocate(512 * 1024);
  assert.equal(arena.usedBytes - before, 512 * 1024);
});

test("a full arena throws ARENA_FULL and goes on working (Arena.A3)", () => {
  const arena = new Arena({ bytesMax: MIB });
  const spans: number[] = [];
  const fill = (): void => {
    while (true) spans.push(arena.allocate(10_000));
  };
  assert.throws(fill, (thrown) => isWeighbridgeError(thrown, "ARENA_FULL") && /10000 bytes.* of 1048576/.test(thrown.message));
  assert.ok(spans.length > 70);
  assert.throws(() => arena.allocate(2 ** 33), { code: "ARENA_FULL" });
  arena.release(spans.pop()!, 10_000);
  assert.ok(arena.allocate(10_000) > 0);
});

test("a full arena cuts larger released spans into smaller ones", () => {
  const arena = new Arena({ bytesMax: MIB });
  const large = arena.allocate(512 * 1024);
  while (arena.tryAllocate(64) !== 0);
  arena.release(large, 512 * 1024);
  const used = arena.usedBytes;
  let count = 0;
  while (arena.tryAllocate(192) !== 0) count++;
  assert.ok(count >= 2_048, `${count} spans of 192 bytes fitted in 512 KiB`);
  assert.equal(arena.usedBytes, used + count * 192);
});

test("addresses above 2 GiB are positive, and an arena of 4 GiB costs only what is touched", () => {
  const arena = new Arena();
  if (arena.bytesMax < 2 ** 32) return; // the engine gave less: an address space limit
  arena.allocate(2 ** 31);
  const high = arena.allocate(64);
  assert.ok(high > 2 ** 31 && high < 2 ** 32);
  arena.floats[high / 4] = 1.5;
  assert.equal(arena.bytes[high + 2], 0xc0);
});

test("touching ahead ends at its distance and at the arena's end, and changes nothing that is owned", () => {
  const arena = new Arena({ bytesMax: MIB });
  const span = arena.allocate(5_000);
  arena.bytes.fill(7, span, span + 5_000);
  assert.equal(arena.touchAhead(100_000, 3), 3);
  const rest = arena.touchAhead(100_000, 1_000);
  assert.ok(rest >= 20 && rest <= 22, `${rest} pages`);
  assert.equal(arena.touchAhead(100_000, 1_000), 0);
  arena.allocate(50_000);
  assert.ok(arena.touchAhead(100_000, 1_000) >= 12);
  assert.ok(arena.touchAhead(2 ** 32, 1_000) < 230);
  assert.equal(arena.touchAhead(2 ** 32, 1_000), 0);
  while (arena.tryAllocate(64) !== 0);
  assert.equal(arena.touchAhead(2 ** 32, 1_000), 0);
  assert.ok(arena.bytes.subarray(span, span + 5_000).every((byte) => byte === 7));
});

test("plain memory serves where memory cannot be shared", () => {
  const arena = new Arena({ bytesMax: MIB, shared: false });
  assert.ok(arena.memory.buffer instanceof ArrayBuffer);
  assert.ok(arena.allocate(100) > 0);
  assert.ok(new Arena({ bytesMax: MIB }).memory.buffer instanceof SharedArrayBuffer);
});

test("an engine that refuses large memories gets smaller wishes, then one for plain memory", () => {
  const real = WebAssembly.Memory;
  const asked: string[] = [];
  const refuse = function (this: unknown, descriptor: WebAssembly.MemoryDescriptor): WebAssembly.Memory {
    asked.push(`${descriptor.initial}${descriptor.shared === true ? " shared" : ""}`);
    if (descriptor.shared === true || descriptor.initial > 20) throw new RangeError("could not allocate memory");
    return new real(descriptor);
  };
  WebAssembly.Memory = refuse as unknown as typeof WebAssembly.Memory;
  try {
    const arena = new Arena({ bytesMax: 32 * 65_536 });
    assert.equal(arena.bytesMax, 16 * 65_536);
  } finally {
    WebAssembly.Memory = real;
  }
  assert.deepEqual(asked, ["32 shared", "16 shared", "8 shared", "4 shared", "32", "16"]);
});

test("an impossible size is a bad argument", () => {
  for (const bytesMax of [0, -1, 65_536, 2 ** 33, Number.NaN]) assert.throws(() => new Arena({ bytesMax }), { code: "BAD_ARGUMENT" });
});

test("state never takes the reserve, and work goes there when there is no other room (Arena.A4)", () => {
  const arena = new Arena({ bytesMax: 32 * MIB, reserve: true, beyondBytesMax: 0 });
  assert.equal(arena.reserveBytes, 8 * MIB);
  assert.equal(arena.stateBytesMax, 24 * MIB);
  const state: number[] = [];
  for (let address = arena.tryAllocateState(MIB); address !== 0; address = arena.tryAllocateState(MIB)) state.push(address);
  assert.equal(state.length, 23);
  assert.throws(() => arena.allocateState(MIB), /no room for 1048576 bytes: .* 8388608 more are kept for reads and checkpoints/);
  const work = Array.from({ length: 8 }, () => arena.allocate(MIB));
  assert.throws(
    () => arena.allocate(MIB),
    (thrown) => isWeighbridgeError(thrown, "ARENA_FULL") && thrown.retryable,
  ); // others leave
  assert.throws(
    () => arena.allocate(16 * MIB),
    (thrown) => isWeighbridgeError(thrown, "ARENA_FULL") && !thrown.retryable,
  );
  for (const address of work) arena.release(address, MIB);
  assert.equal(arena.tryAllocateState(MIB), 0);
});

test("a reserve that was cut up for small spans serves a large one once they are given back", () => {
  const arena = new Arena({ bytesMax: 32 * MIB, reserve: true, beyondBytesMax: 0 });
  while (arena.tryAllocateState(MIB) !== 0);
  while (arena.tryAllocateState(64) !== 0);
  for (let round = 0; round < 2; round++) {
    const small: number[] = [];
    for (let address = arena.tryAllocate(1000); address !== 0; address = arena.tryAllocate(1000)) small.push(address);
    assert.ok(small.length > 7000);
    for (const address of small) arena.release(address, 1000);
    const large = arena.allocate(7 * MIB);
    arena.release(large, 7 * MIB);
  }
});

test("state that moves into the reserve is owed to it: as much of the rest stays free until it is back", () => {
  const arena = new Arena({ bytesMax: 32 * MIB, reserve: true });
  const state: number[] = [];
  for (let address = arena.tryAllocateState(MIB); address !== 0; address = arena.tryAllocateState(MIB)) state.push(address);
  const moved = arena.tryMove(MIB);
  arena.noteState(moved, MIB);
  assert.equal(arena.movedBytes, MIB);
  arena.release(state.pop() as number, MIB); // its old place
  assert.equal(arena.tryAllocateState(MIB), 0, "a new row must not take it");
  const back = arena.tryMoveBack(moved, MIB);
  assert.notEqual(back, 0);
  arena.releaseState(moved, MIB);
  assert.equal(arena.movedBytes, 0);
  assert.equal(arena.tryAllocateState(MIB), 0);
  arena.release(back, MIB);
  assert.equal(arena.tryAllocateState(MIB), back);
});

test("work that the reserve is too small for lies beyond the arena's size, and takes no room from state (Arena.A5)", () => {
  const arena = new Arena({ bytesMax: 32 * MIB, reserve: true });
  assert.equal(arena.bytesMax, 32 * MIB);
  const beyond = arena.tryAllocateBeyond(64 * MIB);
  assert.ok(beyond > 0 && arena.isInReserve(beyond));
  assert.equal(arena.stateUsedBytes, 0);
  const state: number[] = [];
  for (let address = arena.tryAllocateState(MIB); address !== 0; address = arena.tryAllocateState(MIB)) state.push(address);
  assert.equal(state.length, 23);
  const work = Array.from({ length: 40 }, () => arena.allocate(MIB));
  assert.equal(arena.tryAllocateState(MIB), 0);
  for (const address of work) arena.release(address, MIB);
  arena.release(beyond, 64 * MIB);
});

test("bulk work lies beyond the arena's size while there is room, and then where other work does (Arena.A5)", () => {
  const arena = new Arena({ bytesMax: 32 * MIB, reserve: true, beyondBytesMax: 2 * MIB });
  const isBeyond = (address: number): boolean => arena.isInReserve(address);
  const beyond = [arena.allocateBulk(MIB), arena.tryAllocateBulk(MIB / 2)];
  assert.deepEqual(beyond.map(isBeyond), [true, true]);
  assert.deepEqual([arena.allocateBulk(MIB), arena.tryAllocateBulk(MIB)].map(isBeyond), [false, false]);
  assert.equal(arena.tryAllocateBulk(64 * MIB), 0);
  assert.throws(() => arena.allocateBulk(64 * MIB), { code: "ARENA_FULL" });
});

test("an arena whose engine gives no address space beyond its size has its reserve all the same", () => {
  const real = WebAssembly.Memory;
  const refuse = function (this: unknown, descriptor: WebAssembly.MemoryDescriptor): WebAssembly.Memory {
    if (descriptor.initial > 512) throw new RangeError("could not allocate memory");
    return new real(descriptor);
  };
  WebAssembly.Memory = refuse as unknown as typeof WebAssembly.Memory;
  try {
    const arena = new Arena({ bytesMax: 32 * MIB, reserve: true });
    assert.deepEqual([arena.bytesMax, arena.reserveBytes, arena.tryAllocateBeyond(64)], [32 * MIB, 8 * MIB, 0]);
  } finally {
    WebAssembly.Memory = real;
  }
});

test("tables take some of the reserve while it is overdrawn, no more than its share, and owe it until they give it back (Arena.A4)", () => {
  const arena = new Arena({ bytesMax: 16 * MIB, reserve: true });
  const kernels = new SimdKernels(arena);
  while (arena.tryAllocateState(65_536) !== 0);
  while (arena.tryAllocateState(64) !== 0);
  const create = (): number => kernels.createTable({ payloadBytes: 64, secret: 1n });
  assert.throws(create, { code: "ARENA_FULL" });
  const table = arena.overdraw(create);
  assert.throws(create, { code: "ARENA_FULL" }, "only as long as it runs");
  const keys = putKeys(
    arena,
    Array.from({ length: 60_000 }, (_, i) => BigInt(i)),
  );
  assert.equal(
    arena.overdraw(() => kernels.insertRows(table, keys, 8_000)),
    DONE,
  );
  assert.equal(
    arena.overdraw(() => kernels.insertRows(table, keys, 60_000)),
    NO_ROOM,
  );
  assert.ok(arena.movedBytes > 8_000 * 72 && arena.movedBytes <= arena.reserveBytes / 4, `${arena.movedBytes}`);
  assert.equal(arena.tryAllocateState(64), 0, "what is owed stays free");
  kernels.destroyTable(table);
  assert.equal(arena.movedBytes, 0);
});
