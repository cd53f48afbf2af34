// Goal: answers land where they belong or nowhere, of one answer and not of two, and reads know which writes they must
// follow. Answers of several servers come out in the order of their keys.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, type WeighbridgeError } from "../base/errors.ts";
import { ElementType } from "../kernel/elements.ts";
import { FrameHeader, Kind, setExtent } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { KvFlag } from "../wire/kv-message.ts";
import type { KvArrays, KvFunctionId } from "./kv-arrays.ts";
import { FloatWindow, fillFromLandings, type Landing } from "./kv-landing.ts";
import { cutPart, type KvCall, KvRequest } from "./kv-request.ts";

type Made = {
  readonly calls: KvCall[];
  readonly outs: Float32Array;
  readonly ended: (WeighbridgeError | undefined)[];
  readonly request: KvRequest;
};

function made(
  functionId: KvFunctionId,
  keys: BigUint64Array,
  width: number,
  { app = 0, fill = undefined as ((l: readonly Landing[]) => void) | undefined } = {},
): Made {
  const ended: (WeighbridgeError | undefined)[] = [];
  const outs = new Float32Array(keys.length * width);
  const sent = functionId === FunctionId.KV_PULL ? undefined : new Float32Array(keys.length * width);
  const received = functionId === FunctionId.KV_PUSH || fill !== undefined ? undefined : outs;
  const arrays: KvArrays = {
    keys,
    sent,
    received,
    lens: undefined,
    dtype: ElementType.F32,
    width: fill === undefined ? width : 0,
    elementBytes: 4,
  };
  const owner = {
    app,
    customer: 0,
    window: new FloatWindow(),
    incarnations: [],
    ended: (_: KvRequest, error?: WeighbridgeError): void => void ended.push(error),
  };
  const request = new KvRequest(owner, functionId, arrays, {}, fill === undefined ? undefined : { fill });
  const calls = cutPart(request, { keyFrom: 0, keyTo: keys.length, valueFrom: 0, valueTo: outs.length }, 1);
  request.open(calls.length);
  return { calls, outs, ended, request };
}

const range = (from: number, count: number): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));

/** An answer frame arrives as a channel would hand it over. Returns whether the call has ended. */
function answer(call: KvCall, bytes: Uint8Array, { flags = 0, total = bytes.length, offset = 0 } = {}): boolean {
  const header = new FrameHeader().reset(Kind.REPLY, call.functionId);
  header.flags = flags;
  header.payloadBytes = bytes.length;
  setExtent(header, total, offset);
  const landing = bytes.length > 0 ? call.destination(header) : undefined;
  landing?.set(bytes);
  return call.answered(header, landing ?? bytes, 0);
}

const floats = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const many = (count: number, value: number): Uint8Array => new Uint8Array(new Float32Array(count).fill(value).buffer);

test("small and large answers land in the caller's array, each call in its own place", () => {
  const { calls, outs, ended } = made(FunctionId.KV_PULL, range(0, 60_000), 3);
  assert.ok(calls.length > 1);
  const [first, second] = calls as [KvCall, KvCall];
  const perCall = Math.floor((512 * 1024) / (12 + 12));
  assert.equal(answer(second, many(perCall * 3, 2)), true);
  assert.equal(answer(first, many(perCall * 3, 1)), true);
  assert.deepEqual([outs[0], outs[perCall * 3 - 1], outs[perCall * 3], ended.length], [1, 1, 2, 0]);
  const small = made(FunctionId.KV_PULL, range(0, 2), 1);
  assert.equal(answer(small.calls[0] as KvCall, floats(7, 8)), true);
  assert.deepEqual([...small.outs, small.ended.length], [7, 8, 1]);
});

test("an answer of another length lands nowhere and fails the call (KvFrame.K1)", () => {
  for (const count of [99, 101, 1, 0]) {
    const { calls, outs } = made(FunctionId.KV_PULL, range(0, 100), 1);
    const wrong = many(count, 5);
    assert.throws(
      () => answer(calls[0] as KvCall, wrong),
      (error) => isWeighbridgeError(error, "VALUE_LENGTH") && /100 keys from 0/.test(error.message),
      `${count}`,
    );
    assert.ok(outs.every((value) => value === 0));
  }
});

test("a frame that reaches beyond its own answer is refused", () => {
  const { calls, outs } = made(FunctionId.KV_PULL, range(0, 100), 1);
  assert.throws(
    () => answer(calls[0] as KvCall, many(60, 5), { total: 400, offset: 200 }),
    (error) => isWeighbridgeError(error, "BAD_FRAME"),
  );
  assert.ok(outs.every((value) => value === 0));
});

test("an answer in several frames ends the call when all have come, in any order, each once", () => {
  const { calls, outs, ended } = made(FunctionId.KV_PULL, range(0, 300), 1);
  const call = calls[0] as KvCall;
  assert.equal(answer(call, many(100, 2), { total: 1200, offset: 400 }), false);
  assert.equal(answer(call, many(100, 2), { total: 1200, offset: 400 }), false);
  assert.equal(answer(call, many(100, 1), { total: 1200, offset: 0 }), false);
  assert.equal(ended.length, 0);
  assert.equal(answer(call, many(100, 3), { total: 1200, offset: 800 }), true);
  assert.deepEqual([outs[0], outs[100], outs[299], ended.length], [1, 2, 3, 1]);
});

test("frames from before the call left again do not count, unless the answer is one the server keeps (AnswerLanding.L2)", () => {
  const { calls, outs, ended } = made(FunctionId.KV_PULL, range(0, 200), 1);
  const call = calls[0] as KvCall;
  call.sendCount = 1;
  assert.equal(answer(call, many(100, 1), { total: 800, offset: 0 }), false);
  call.sendCount = 2;
  assert.equal(answer(call, many(100, 2), { total: 800, offset: 400 }), false, "half of it is from another time");
  assert.equal(answer(call, many(100, 2), { total: 800, offset: 0 }), true);
  assert.deepEqual([outs[0], outs[199], ended.length], [2, 2, 1]);
  const kept = made(FunctionId.KV_PULL, range(0, 200), 1).calls[0] as KvCall;
  const flags = KvFlag.WHOLE;
  assert.equal(answer(kept, many(100, 1), { total: 800, offset: 0, flags }), false);
  kept.sendCount = 2;
  assert.equal(answer(kept, many(100, 1), { total: 800, offset: 400, flags }), true);
});

test("an answer of unknown length that grew before it was sent again is taken from its beginning (AnswerLanding.L2)", () => {
  const landings: Landing[][] = [];
  const { calls, request } = made(FunctionId.KV_PULL, range(0, 2), 1, { fill: (list) => landings.push([...list]) });
  const call = calls[0] as KvCall;
  call.sendCount = 1;
  assert.equal(answer(call, many(100, 1), { total: 800, offset: 0 }), false);
  call.sendCount = 2;
  assert.equal(answer(call, many(150, 2), { total: 1200, offset: 0 }), false);
  assert.equal(answer(call, many(150, 2), { total: 1200, offset: 600 }), true);
  const [landing] = request.landings ?? [];
  assert.deepEqual(landing?.bytes, many(300, 2));
});

test("small parts of an answer of unknown length are taken from the read buffer, where nobody asked for their place", () => {
  const { calls, request } = made(FunctionId.KV_PULL, range(0, 2), 1, { fill: () => {} });
  const call = calls[0] as KvCall;
  const header = new FrameHeader().reset(Kind.REPLY, call.functionId);
  header.payloadBytes = 8;
  const buffer = new Uint8Array(64);
  buffer.set(floats(1, 2), 16);
  buffer.set(floats(3, 4), 40);
  setExtent(header, 16, 8);
  assert.equal(call.answered(header, buffer, 40), false);
  setExtent(header, 16, 0);
  assert.equal(call.answered(header, buffer, 16), true);
  assert.deepEqual(request.landings?.[0]?.bytes, floats(1, 2, 3, 4));
  setExtent(header, 2 ** 40, 2 ** 40 - 8);
  assert.throws(
    () => made(FunctionId.KV_PULL, range(0, 2), 1, { fill: () => {} }).calls[0]?.answered(header, buffer, 0),
    (error) => isWeighbridgeError(error, "BAD_FRAME") && /far ahead/.test(error.message),
    "AnswerLanding.L3",
  );
});

test("a request ends once, after its last call, with the first failure", () => {
  const { calls, ended } = made(FunctionId.KV_PUSH, range(0, 120_000), 1);
  assert.ok(calls.length >= 3);
  const errors = calls.map((_, i) => ({ code: "NODE_DEAD", message: `${i}` }) as WeighbridgeError);
  assert.equal(answer(calls[0] as KvCall, new Uint8Array(0)), true);
  for (let i = 1; i < calls.length; i++) {
    assert.equal(ended.length, 0);
    (calls[i] as KvCall).failed(errors[i] as WeighbridgeError);
  }
  assert.deepEqual(ended, [errors[1]]);
});

test("a read follows the writes whose keys may be its own, by the first and last key of each request (KvRequest.K2)", () => {
  const follows = (read: Made, write: Made): boolean[] => read.calls.map((call) => call.mustFollow(write.calls.at(-1) as KvCall));
  const { KV_PULL, KV_PUSH, KV_PUSH_PULL } = FunctionId;
  const write = made(KV_PUSH, range(10, 10), 1);
  assert.deepEqual(follows(made(KV_PULL, range(0, 10), 1), write), [false]);
  assert.deepEqual(follows(made(KV_PULL, range(0, 11), 1), write), [true]);
  assert.deepEqual(follows(made(KV_PULL, range(19, 1), 1), write), [true]);
  assert.deepEqual(follows(made(KV_PULL, range(20, 5), 1), write), [false]);
  assert.deepEqual(follows(made(KV_PULL, range(0, 11), 1, { app: 1 }), write), [false]);
  assert.deepEqual(follows(made(KV_PUSH_PULL, range(12, 1), 1), write), [true]);
  assert.deepEqual(follows(made(KV_PULL, range(12, 1), 1), made(KV_PULL, range(12, 1), 1)), [false]);
  const long = made(KV_PULL, range(0, 120_000), 1);
  assert.deepEqual(new Set(follows(long, made(KV_PUSH, range(5, 1), 1))), new Set([true]), "all frames of a read, or none");
  assert.deepEqual(follows(made(KV_PULL, range(3, 1), 1), made(KV_PUSH, range(0, 120_000), 1)), [true], "its last frame is far away");
});

/** What a server sends for these keys: values, then lens. */
function landing(keyFrom: number, lens: readonly number[], values: readonly number[]): Landing {
  const bytes = new Uint8Array(values.length * 4 + lens.length * 4);
  bytes.set(new Uint8Array(Float32Array.from(values).buffer));
  bytes.set(new Uint8Array(Int32Array.from(lens).buffer), values.length * 4);
  return { keyFrom, keyTo: keyFrom + lens.length, bytes };
}

const room = (count: number): Float32Array => new Float32Array(count);

test("puts values and lens in the order of the keys", () => {
  const lens = new Int32Array(5);
  const landings = [landing(3, [1, 2], [7, 8, 9]), landing(0, [2, 0], [1, 2]), landing(2, [3], [4, 5, 6])];
  assert.deepEqual(fillFromLandings(landings, lens, room), Float32Array.of(1, 2, 4, 5, 6, 7, 8, 9));
  assert.deepEqual(lens, Int32Array.of(2, 0, 3, 1, 2));
});

test("fills the beginning of a larger array, and leaves the rest alone", () => {
  const vals = new Float32Array(4).fill(-1);
  fillFromLandings([landing(0, [2], [1, 2])], new Int32Array(1), () => vals);
  assert.deepEqual(vals, Float32Array.of(1, 2, -1, -1));
});

test("lens that do not fit the values, are negative, or are missing are refused", () => {
  const refused = (landings: readonly Landing[], keyCount: number): void =>
    assert.throws(() => fillFromLandings(landings, new Int32Array(keyCount), room), { code: "BAD_REQUEST" });
  refused([landing(0, [3], [1, 2])], 1);
  refused([landing(0, [1], [1, 2])], 1);
  refused([landing(0, [3, -1], [1, 2])], 2);
  refused([{ keyFrom: 0, keyTo: 3, bytes: new Uint8Array(8) }], 3);
});
