// Goal: the default handle sums and reads where frames lie, refuses what makes no sense with nothing changed, and gives
// all memory back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../../base/bytes.ts";
import { Arena } from "../../kernel/arena.ts";
import { SumStore } from "../../store/sums/sum-store.ts";
import { simdSumHost } from "../../testing/store-stage.ts";
import { StubCaller, type StubRequest } from "../../testing/stub-caller.ts";
import { BLOCK_BYTES, offsetBytesOf, totalBytesOf } from "../../wire/frame.ts";
import { FunctionId } from "../../wire/function-id.ts";
import { KvFlag } from "../../wire/kv-message.ts";
import { StoreHandle } from "./store-handle.ts";

const { KV_PUSH, KV_PULL, KV_PUSH_PULL } = FunctionId;
const { LENS, PIECE, WANT_LENS, VARIABLE } = KvFlag;
const BLOCK_FLOATS = BLOCK_BYTES / 4;

function stage() {
  const requester = new StubCaller();
  const arena = new Arena({ bytesMax: 32 * 2 ** 20 });
  const store = new SumStore({ ...simdSumHost(arena), secret: 1n });
  const handle = new StoreHandle(arena, store);
  for (const functionId of [KV_PUSH, KV_PULL, KV_PUSH_PULL]) requester.serve(functionId, handle);
  const ask = async (request: StubRequest): Promise<number[]> => {
    await requester.request(request);
    return requester.frames().flatMap(({ payload }) => [...new Float32Array(payload.buffer)]);
  };
  return { requester, arena, store, handle, ask };
}

function payload(keys: readonly bigint[], values: ArrayLike<number> = [], lens: readonly number[] = []): Uint8Array {
  const parts = [BigUint64Array.from(keys), Float32Array.from(values), Int32Array.from(lens)].map((array) => new Uint8Array(array.buffer));
  return joinBytes(parts);
}

const push = (keys: readonly bigint[], values: readonly number[]): StubRequest => ({
  functionId: KV_PUSH,
  args: [keys.length, values.length / keys.length],
  payload: payload(keys, values),
});
const pull = (keys: readonly bigint[], width: number): StubRequest => ({
  functionId: KV_PULL,
  args: [keys.length, width],
  payload: payload(keys),
});

test("pushes add, pulls read, pushPulls do both", async () => {
  const { ask } = stage();
  await ask(push([1n, 2n], [1, 2, 3, 4]));
  assert.deepEqual(await ask({ ...push([2n], [10, 20]), functionId: KV_PUSH_PULL }), [13, 24]);
  assert.deepEqual(await ask(pull([1n, 2n, 3n], 2)), [1, 2, 13, 24, 0, 0]);
});

test("a push that comes again is acknowledged, not added; a pushPull that comes again is only read", async () => {
  const { requester, ask } = stage();
  await ask({ ...push([1n], [5]), request: 1 });
  await requester.request({ ...push([1n], [5]), request: 1 });
  assert.deepEqual(requester.answers(), ["REPLY 1"]);
  await ask({ ...push([1n], [2]), functionId: KV_PUSH_PULL, request: 2 });
  assert.deepEqual(await ask({ ...push([1n], [2]), functionId: KV_PUSH_PULL, request: 2 }), [7]);
});

test("with lens every key is added and read back at its own length", async () => {
  const { requester, ask } = stage();
  const request = { flags: LENS | VARIABLE, args: [3, 0], payload: payload([1n, 2n, 3n], [1, 2, 3], [1, 0, 2]) };
  await ask({ ...request, functionId: KV_PUSH });
  assert.deepEqual(await ask({ ...request, functionId: KV_PUSH_PULL }), [2, 4, 6]);
  await requester.request({ functionId: KV_PULL, flags: WANT_LENS, args: [4, 0], payload: payload([1n, 2n, 3n, 4n]) });
  const [frame] = requester.frames();
  assert.ok(frame !== undefined);
  assert.deepEqual([...new Float32Array(frame.payload.buffer, 0, 3)], [2, 4, 6]);
  assert.deepEqual([...new Int32Array(frame.payload.buffer, 12)], [1, 0, 2, 0]);
  const empty = { flags: LENS | VARIABLE, args: [1, 0], payload: payload([9n], [], [0]) };
  assert.deepEqual(await ask({ ...empty, functionId: KV_PUSH_PULL }), []);
});

test("an answer of unknown length comes in frames of a block", async () => {
  const { requester, ask } = stage();
  const keys = Array.from({ length: 300 }, (_, i) => BigInt(i));
  for (const key of keys) await ask(push([key], new Array<number>(1000).fill(Number(key))));
  await requester.request({ functionId: KV_PULL, flags: WANT_LENS, args: [300, 0], payload: payload(keys) });
  const frames = requester.frames();
  const total = 300 * 4004;
  assert.deepEqual(
    frames.map(({ header }) => [offsetBytesOf(header), header.payloadBytes, totalBytesOf(header)]),
    [
      [0, BLOCK_BYTES, total],
      [BLOCK_BYTES, BLOCK_BYTES, total],
      [2 * BLOCK_BYTES, total - 2 * BLOCK_BYTES, total],
    ],
  );
});

test("a frame that lies in the arena is worked on where it is", async () => {
  const { arena, requester, handle, ask } = stage();
  const keys = Array.from({ length: 16 }, (_, i) => BigInt(i)); // fewer stay where they were read
  const values = keys.map(() => 3);
  const bytes = payload(keys, values);
  const at = arena.allocate(256);
  arena.bytes.set(bytes, at);
  requester.serve(KV_PUSH, {
    destination: (_channel, header) => arena.bytes.subarray(at, at + header.payloadBytes),
    handle: (channel, header, view, offset, fresh) => {
      assert.equal(view.buffer, arena.memory.buffer);
      handle.handle(channel, header, view, offset, fresh);
    },
  });
  await ask({ ...push(keys, values), payload: bytes });
  assert.deepEqual(await ask(pull(keys, 1)), values);
});

test("what makes no sense is refused, changes nothing and keeps no memory (StoreHandle.H1)", async () => {
  const { requester, arena, store, ask } = stage();
  await ask(push([1n, 2n], [1, 2]));
  const big = new Float32Array(5000);
  const piece = (args: readonly number[], values: ArrayLike<number>): StubRequest => ({
    functionId: KV_PUSH,
    flags: PIECE,
    args,
    payload: payload([9n], values),
  });
  const wrong: readonly (readonly [string, StubRequest])[] = [
    ["BAD_REQUEST", { functionId: KV_PUSH, args: [0, 1] }],
    ["BAD_REQUEST", { ...push([3n], [1]), args: [2, 1] }],
    ["BAD_REQUEST", { ...push([3n], [1]), args: [1, 0] }],
    ["BAD_REQUEST", { ...push([3n], [1]), args: [2 ** 32 - 1, 2 ** 32 - 1] }],
    ["BAD_REQUEST", { ...pull([3n], 1), args: [1, 0] }],
    ["BAD_REQUEST", { ...pull([3n], 1), args: [1, 300_000] }],
    ["BAD_REQUEST", { ...pull([3n], 1), flags: LENS }],
    ["BAD_REQUEST", { functionId: KV_PUSH, args: [1, 5000], payload: payload([3n], big) }],
    ["BAD_REQUEST", piece([1, 5000, 1], big)],
    ["BAD_REQUEST", piece([1, 5000, BLOCK_FLOATS], big)],
    ["BAD_REQUEST", piece([1, 5001, 0], big)],
    ["BAD_REQUEST", piece([1, 2, 0], [1, 2])],
    ["BAD_REQUEST", piece([2, 5000, 0], big)],
    ["BAD_REQUEST", { functionId: KV_PUSH, flags: LENS, args: [2, 0], payload: payload([3n, 4n], [1, 2], [1, 2]) }],
    ["BAD_REQUEST", { functionId: KV_PUSH, flags: LENS, args: [2, 0], payload: payload([3n, 4n], [1, 2], [3, -1]) }],
    ["BAD_REQUEST", { functionId: KV_PUSH, flags: LENS, args: [2, 0], payload: payload([3n, 4n]) }],
    ["KEYS_NOT_ASCENDING", push([4n, 3n], [1, 2])],
    ["KEYS_NOT_ASCENDING", push([4n, 4n], [1, 2])],
    ["KEYS_NOT_ASCENDING", pull([2n, 1n], 1)],
    ["VALUE_LENGTH", push([2n, 3n], [1, 2, 3, 4])],
    ["VALUE_LENGTH", pull([1n], 2)],
    ["VALUE_LENGTH", { functionId: KV_PULL, flags: PIECE, args: [1, 5000, 0], payload: payload([1n]) }],
  ];
  const used = arena.usedBytes;
  for (const [code, request] of wrong) {
    await requester.request(request);
    assert.match(requester.answers().join(), new RegExp(`^FAILURE \\d+ ${code}$`), JSON.stringify(request.args));
  }
  assert.equal(store.keyCount, 2);
  assert.equal(arena.usedBytes, used);
  assert.deepEqual(await ask(pull([1n, 2n], 1)), [1, 2]);
});

test("answers by reference are held until they have left, then all memory is back (StoreHandle.H2)", async () => {
  const { requester, arena, ask } = stage();
  const block = (value: number): StubRequest => ({
    functionId: KV_PUSH,
    flags: PIECE,
    args: [1, BLOCK_FLOATS, 0],
    payload: payload([5n], new Float32Array(BLOCK_FLOATS).fill(value)),
  });
  await ask(block(1));
  const rows = Array.from({ length: 2000 }, (_, i) => BigInt(1000 + i));
  await ask(push(rows, new Array<number>(2000).fill(4)));
  for (let times = 0; times < 2; times++) await ask(pull(rows, 1)); // from then on the store remembers where they lie
  const used = arena.usedBytes;
  await requester.request({ functionId: KV_PULL, flags: PIECE, args: [1, BLOCK_FLOATS, 0], payload: payload([5n]) });
  await requester.request(pull(rows, 1));
  await requester.request({ functionId: KV_PULL, flags: WANT_LENS, args: [2000, 0], payload: payload(rows) });
  assert.ok(arena.usedBytes > used, "gathered rows wait for the link");
  requester.receive(block(1));
  const [held, gathered, variable] = requester.frames();
  assert.deepEqual(new Set(new Float32Array(held?.payload.buffer ?? assert.fail())), new Set([1]));
  assert.deepEqual(new Set(new Float32Array(gathered?.payload.buffer ?? assert.fail())), new Set([4]));
  assert.equal(variable?.header.payloadBytes, 2000 * 8);
  await requester.clock.run();
  requester.frames();
  assert.equal(arena.usedBytes, used);
});

test("a gathered answer stays as it was when a push comes before it has left, then its memory is back (StoreHandle.H2)", async () => {
  const { requester, arena, ask } = stage();
  const rows = Array.from({ length: 2000 }, (_, i) => BigInt(1000 + i));
  const pushAll = push(rows, new Array<number>(2000).fill(1));
  await ask(pushAll);
  await ask(pushAll);
  for (let times = 0; times < 2; times++) await ask(pull(rows, 1)); // from then on the store remembers where they lie
  const used = arena.usedBytes;
  await requester.request(pull(rows, 1));
  requester.receive(pushAll);
  const [answer] = requester.frames();
  assert.deepEqual(new Set(new Float32Array(answer?.payload.buffer ?? assert.fail())), new Set([2]));
  assert.deepEqual(new Set(await ask(pull(rows, 1))), new Set([3]));
  assert.equal(arena.usedBytes, used);
});

test("a piece nobody pushed reads as zeros", async () => {
  const { ask } = stage();
  const values = await ask({ functionId: KV_PULL, flags: PIECE, args: [1, 5000, 0], payload: payload([5n]) });
  assert.deepEqual(values, new Array<number>(5000).fill(0));
});

test("a full arena is an error for who pushes, and everything else goes on", async () => {
  const { requester, ask, arena } = stage();
  await ask(push([1n], [1]));
  const width = 16 * 2 ** 20;
  await requester.request({
    functionId: KV_PUSH,
    flags: PIECE,
    args: [1, width, 0],
    payload: payload([7n], new Float32Array(BLOCK_FLOATS)),
  });
  assert.match(requester.answers().join(), /ARENA_FULL/);
  const used = arena.usedBytes;
  await requester.request({
    functionId: KV_PUSH,
    flags: PIECE,
    args: [1, width, 0],
    payload: payload([7n], new Float32Array(BLOCK_FLOATS)),
  });
  assert.match(requester.answers().join(), /ARENA_FULL/);
  assert.equal(arena.usedBytes, used);
  assert.deepEqual(await ask(pull([1n], 1)), [1]);
});

test("a closed handle has given its memory back", async () => {
  const arena = new Arena({ bytesMax: 2 ** 24 });
  const used = arena.usedBytes;
  const handle = new StoreHandle(arena, new SumStore({ ...simdSumHost(arena), secret: 1n }));
  const requester = new StubCaller();
  requester.serve(KV_PUSH, handle);
  await requester.request(push([1n, 2n], [1, 2]));
  handle.close();
  assert.equal(arena.usedBytes, used);
});
