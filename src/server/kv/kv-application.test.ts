// Goal: without a handle of its own an application sums values of every type, and never mixes two.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "../../base/errors.ts";
import { KVServer } from "../../faces/kv/kv-server.ts";
import { KVWorker } from "../../faces/kv/kv-worker.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { Values } from "../../wire/kv-message.ts";

const KEY_LAST = 2n ** 64n - 1n;
const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);
async function stage(options: MemoryClusterOptions = {}) {
  const cluster = await MemoryCluster.start(options);
  for (let rank = 0; rank < cluster.serverCount; rank++) for (const app of [0, 1]) new KVServer(cluster.server(rank), app);
  const kv = new KVWorker(cluster.worker(0), 0);
  const pulled = async <V extends Values>(keys: BigUint64Array, out: V): Promise<V> => {
    await cluster.run(kv.wait(kv.pull(keys, out)));
    return out;
  };
  return { cluster, kv, pulled };
}

test("values of every type are summed and read over several servers, and integers wrap around as in C++ (SumStore.V4)", async () => {
  const keys = keysOf(0n, 1n, KEY_LAST - 1n, KEY_LAST);
  const cases: readonly (readonly [Values, Values])[] = [
    [Float64Array.of(0.1, -2, 1e300, 3), Float64Array.of(0.1 + 0.1 + 0.1, -6, 3e300, 9)],
    [Int32Array.of(1, -2, 2 ** 30, 0), Int32Array.of(3, -6, -(2 ** 30), 0)],
    [Uint32Array.of(1, 2, 2 ** 31, 0), Uint32Array.of(3, 6, 2 ** 31, 0)],
    [Int8Array.of(1, -2, 100, 0), Int8Array.of(3, -6, 44, 0)],
    [Uint8Array.of(1, 2, 200, 0), Uint8Array.of(3, 6, 88, 0)],
    [Int16Array.of(1, -2, 20_000, 0), Int16Array.of(3, -6, -5536, 0)],
    [Uint16Array.of(1, 2, 40_000, 0), Uint16Array.of(3, 6, 54_464, 0)],
    [Float32Array.of(1, -2, 2 ** 100, 0.5), Float32Array.of(3, -6, 3 * 2 ** 100, 1.5)],
    [BigInt64Array.of(1n, -2n, 2n ** 62n, 0n), BigInt64Array.of(3n, -6n, -(2n ** 62n), 0n)],
    [BigUint64Array.of(1n, 2n, 3n, 2n ** 63n), BigUint64Array.of(3n, 6n, 9n, 2n ** 63n)],
  ];
  for (const [vals, sums] of cases) {
    const { cluster, kv, pulled } = await stage({ serverCount: 2 });
    const outs = vals.slice();
    assert.deepEqual((await pulled(keys, outs)).join(), "0,0,0,0", "unknown keys are zeros (SumStore.V3)");
    kv.push(keys, vals);
    kv.push(keys, vals);
    await cluster.run(kv.wait(kv.pushPull(keys, vals, outs)));
    assert.deepEqual(outs, sums, vals.constructor.name);
    assert.deepEqual(await pulled(keys, vals.slice()), sums);
    await cluster.finalize();
  }
});

test("values of other types may be long and of different lengths, in as many frames as it takes", async () => {
  const { cluster, kv, pulled } = await stage({ serverCount: 2 });
  const keys = keysOf(1n, 5n, 9n, KEY_LAST);
  const lens = Int32Array.of(3, 0, 70_000, 200_000);
  const vals = Float64Array.from({ length: 270_003 }, (_, i) => i / 8);
  for (let i = 0; i < 2; i++) await cluster.run(kv.wait(kv.push(keys, vals, { lens })));
  const [outs, outLens] = [new Float64Array(vals.length), new Int32Array(4)];
  await cluster.run(kv.wait(kv.pull(keys, outs, { lens: outLens })));
  assert.deepEqual([outLens, outs], [lens, vals.map((value) => 2 * value)]);
  await cluster.run(kv.wait(kv.pushPull(keys, vals, outs, { lens })));
  assert.deepEqual(
    outs,
    vals.map((value) => 3 * value),
  );
  assert.deepEqual(await pulled(keysOf(KEY_LAST), new Float64Array(200_000)), outs.subarray(70_003));
  await cluster.finalize();
});

test("narrow integers of odd lengths are summed key by key, with lens and without, many pushes in one turn", async () => {
  const { cluster, kv, pulled } = await stage({ serverCount: 2 });
  const keys = keysOf(1n, 2n, 3n, KEY_LAST);
  const lens = Int32Array.of(3, 1, 0, 5);
  const vals = Int8Array.from({ length: 9 }, (_, i) => i - 4);
  const timestamps = Array.from({ length: 10 }, () => kv.push(keys, vals, { lens }));
  for (const key of [10n, KEY_LAST - 10n])
    timestamps.push(kv.push(keysOf(key), Int8Array.of(1, 2, 3)), kv.push(keysOf(key), Int8Array.of(1, 2, 3)));
  await cluster.run(Promise.all(timestamps.map((timestamp) => kv.wait(timestamp))));
  const [outs, outLens] = [new Int8Array(9), new Int32Array(4)];
  await cluster.run(kv.wait(kv.pull(keys, outs, { lens: outLens })));
  assert.deepEqual([outLens, outs], [lens, vals.map((value) => 10 * value)]);
  await cluster.run(kv.wait(kv.pushPull(keys, vals, outs, { lens })));
  assert.deepEqual(
    outs,
    vals.map((value) => 11 * value),
  );
  assert.deepEqual(await pulled(keysOf(10n, 11n, KEY_LAST - 10n), new Int8Array(9)), Int8Array.of(2, 4, 6, 0, 0, 0, 2, 4, 6));
  await cluster.finalize();
});

test("what does not fit is refused by its code, and nothing of it is applied (SumStore.V1, SumStore.V2)", async () => {
  const { cluster, kv, pulled } = await stage();
  const refused = async (timestamp: number, code: ErrorCode, message: RegExp): Promise<void> =>
    await assert.rejects(cluster.run(kv.wait(timestamp)), throwsCode(code, message));
  await cluster.run(kv.wait(kv.push(keysOf(2n), Float64Array.of(1, 2))));
  await refused(kv.push(keysOf(1n, 2n), Float64Array.of(1, 1)), "VALUE_LENGTH", /key 2 has 2 values, the request has 1/);
  await refused(kv.pull(keysOf(2n), new Float64Array(3)), "VALUE_LENGTH", /key 2 has 2 values, the request has 3/);
  await refused(kv.push(keysOf(1n), Int32Array.of(1)), "UNSUPPORTED", /holds Float64Array values here.*no Int32Array/);
  await refused(kv.pull(keysOf(1n), new Float32Array(1)), "UNSUPPORTED", /holds Float64Array values here.*no Float32Array/);
  assert.deepEqual(await pulled(keysOf(1n, 2n), new Float64Array(4)), Float64Array.of(0, 0, 1, 2));
  await cluster.finalize();
});

test("an application with floats takes no other type, and another application does (SumStore.V4)", async () => {
  const { cluster, kv, pulled } = await stage();
  await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1))));
  await assert.rejects(
    cluster.run(kv.wait(kv.push(keysOf(2n), Float64Array.of(1)))),
    throwsCode("UNSUPPORTED", /Float32Array.*Float64Array/),
  );
  await assert.rejects(cluster.run(kv.wait(kv.pull(keysOf(1n), new Int32Array(1)))), throwsCode("UNSUPPORTED", /Float32Array.*Int32Array/));
  const other = new KVWorker(cluster.worker(0), 1);
  await cluster.run(other.wait(other.push(keysOf(1n), Float64Array.of(0.1))));
  assert.deepEqual(await pulled(keysOf(1n), new Float32Array(1)), Float32Array.of(1));
  await cluster.finalize();
});
