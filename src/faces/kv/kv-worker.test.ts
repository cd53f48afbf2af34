// Goal: pushes, pulls and pushPulls of every shape end as they should, over one server and over several, and wrong
// arguments send nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { KVServer } from "./kv-server.ts";
import { type KVPullOptions, type KVPushOptions, KVWorker } from "./kv-worker.ts";

const KEY_LAST = 2n ** 64n - 1n;
const HALF = 2n ** 63n;

/** A cluster with the default handle on every server, and a KVWorker on every worker. */
async function stage(options: MemoryClusterOptions = {}) {
  const cluster = await MemoryCluster.start(options);
  const servers = Array.from({ length: cluster.serverCount }, (_, rank) => new KVServer(cluster.server(rank), 0));
  const workers = Array.from({ length: cluster.workerCount }, (_, rank) => new KVWorker(cluster.worker(rank), 0));
  const kv = workers[0] as KVWorker;
  const pulled = async (keys: readonly bigint[], width = 1, pullOptions: KVPullOptions = {}): Promise<number[]> => {
    const vals = new Float32Array(keys.length * width);
    await cluster.run(kv.wait(kv.pull(keysOf(...keys), vals, pullOptions)));
    return [...vals];
  };
  return { cluster, servers, workers, kv, pulled };
}

function keysOf(...keys: readonly bigint[]): BigUint64Array {
  return BigUint64Array.from(keys);
}

function floats(...values: readonly number[]): Float32Array {
  return Float32Array.from(values);
}

const hasCode =
  (code: ErrorCode, message = /./) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, code) && message.test(error.message);

test("a push adds, a pull reads, an unknown key reads as zeros", async () => {
  const { cluster, kv, pulled } = await stage();
  await cluster.run(kv.wait(kv.push(keysOf(3n, 8n), floats(1, 2))));
  await cluster.run(kv.wait(kv.push(keysOf(8n, 9n), floats(10, 20))));
  assert.deepEqual(await pulled([3n, 5n, 8n, 9n]), [1, 0, 12, 20]);
});

test("any number of values per key is summed", async () => {
  const { kv, pulled } = await stage();
  for (const [i, width] of [1, 2, 3, 7, 64, 1000, 4095, 4096, 5000].entries()) {
    const key = BigInt(i + 1);
    const vals = Float32Array.from({ length: width }, (_, at) => at + 1);
    for (let time = 0; time < 3; time++) kv.push(keysOf(key), vals);
    assert.deepEqual(
      await pulled([key], width),
      [...vals].map((value) => value * 3),
      `width ${width}`,
    );
  }
});

test("0 and 2^64 − 1 are keys like any other, and every key reaches the server that owns it", async () => {
  const { cluster, kv, pulled } = await stage({ serverCount: 3 });
  const third = KEY_LAST / 3n;
  const keys = [0n, third - 1n, third, 2n * third - 1n, 2n * third, KEY_LAST];
  kv.push(keysOf(...keys), floats(1, 2, 3, 4, 5, 6));
  assert.deepEqual(await pulled(keys), [1, 2, 3, 4, 5, 6]);
  await cluster.finalize();
});

test("pushPull adds and reads in one round trip, over several servers", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  const keys = keysOf(1n, 2n, HALF + 5n, KEY_LAST);
  const outs = new Float32Array(8);
  kv.push(keys, floats(1, 1, 2, 2, 3, 3, 4, 4));
  await cluster.run(kv.wait(kv.pushPull(keys, floats(10, 20, 10, 20, 10, 20, 10, 20), outs)));
  assert.deepEqual([...outs], [11, 21, 12, 22, 13, 23, 14, 24]);
});

test("with lens every key has its own number of values, 0 and long ones among them", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  const keys = keysOf(1n, 2n, 3n, 4n, HALF + 1n, HALF + 2n, KEY_LAST);
  const lens = Int32Array.of(2, 0, 200_000, 1, 3, 5000, 1);
  const vals = Float32Array.from({ length: lens.reduce((a, b) => a + b) }, (_, i) => i % 1000);
  kv.push(keys, vals, { lens });
  await cluster.run(kv.wait(kv.push(keys, vals, { lens })));
  const pulled = new Float32Array(vals.length + 10).fill(-1);
  const pulledLens = new Int32Array(keys.length).fill(-1);
  await cluster.run(kv.wait(kv.pull(keys, pulled, { lens: pulledLens })));
  assert.deepEqual(pulledLens, lens);
  assert.ok(pulled.every((value, i) => value === (i < vals.length ? (i % 1000) * 2 : -1)));
});

test("pushPull with lens reads back the same lengths", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  const keys = keysOf(1n, 2n, 3n, HALF + 1n, KEY_LAST);
  const lens = Int32Array.of(1, 0, 3, 150_000, 2);
  const vals = Float32Array.from({ length: lens.reduce((a, b) => a + b) }, (_, i) => i % 100);
  const outs = new Float32Array(vals.length);
  kv.push(keys, vals, { lens });
  await cluster.run(kv.wait(kv.pushPull(keys, vals, outs, { lens })));
  assert.deepEqual(
    outs,
    vals.map((value) => value * 2),
  );
  await cluster.run(kv.wait(kv.pushPull(keysOf(2n), new Float32Array(0), new Float32Array(0), { lens: Int32Array.of(0) })));
});

test("pullPairs brings keys of unknown lengths, those that nobody knows with none", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  kv.push(keysOf(1n, HALF), floats(1, 2, 3, 4));
  kv.push(keysOf(7n), new Float32Array(200_000).fill(5));
  const keys = keysOf(1n, 2n, 7n, HALF, KEY_LAST);
  const pairs = await cluster.run(kv.pullPairs(keys));
  assert.deepEqual(pairs.lens, Int32Array.of(2, 0, 200_000, 2, 0));
  assert.deepEqual(pairs.vals, Float32Array.from([1, 2, ...new Array<number>(200_000).fill(5), 3, 4]));
  assert.equal(pairs.keys, keys);
  const nothing = await cluster.run(kv.pullPairs(keysOf(99n)));
  assert.deepEqual([nothing.vals.length, nothing.lens], [0, Int32Array.of(0)]);
});

test("100,000 keys of unknown lengths come in the order they were asked for", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  const keys = BigUint64Array.from({ length: 100_000 }, (_, i) => BigInt(i) * 2n ** 47n);
  const lens = Int32Array.from(keys, (_, i) => i % 4);
  const vals = Float32Array.from({ length: lens.reduce((a, b) => a + b) }, (_, i) => i % 4096);
  kv.push(keys, vals, { lens });
  const pairs = await cluster.run(kv.pullPairs(keys));
  assert.deepEqual(pairs.lens, lens);
  assert.deepEqual(pairs.vals, vals);
});

test("many keys and long values over several frames come back whole", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  const keys = BigUint64Array.from({ length: 30_000 }, (_, i) => BigInt(i) * 2n ** 49n);
  const vals = Float32Array.from({ length: 30_000 * 16 }, (_, i) => i % 100_003);
  kv.push(keys, vals);
  const out = new Float32Array(vals.length);
  await cluster.run(kv.wait(kv.pull(keys, out)));
  assert.deepEqual(out, vals);
  const long = Float32Array.from({ length: 3 * 131_072 + 77 }, (_, i) => i % 100_003);
  const both = new Float32Array(2 * long.length);
  both.set(long);
  both.set(long, long.length);
  kv.push(keysOf(1n, KEY_LAST), both);
  const longOut = new Float32Array(both.length);
  await cluster.run(kv.wait(kv.pushPull(keysOf(1n, KEY_LAST), both, longOut)));
  assert.deepEqual(
    longOut,
    both.map((value) => value * 2),
  );
});

test("arrays may be views in the middle of a buffer", async () => {
  const { cluster, kv } = await stage();
  const keys = keysOf(9n, 1n, 2n, 9n).subarray(1, 3);
  const vals = floats(-1, 5, 6, -1).subarray(1, 3);
  const out = new Float32Array(40).fill(-1);
  kv.push(keys, vals);
  await cluster.run(kv.wait(kv.pull(keys, out.subarray(3, 5))));
  assert.deepEqual([...out.subarray(2, 6)], [-1, 5, 6, -1]);
  const wide = new Float32Array(202).fill(-1);
  kv.push(keysOf(3n, 4n), new Float32Array(200).fill(7));
  await cluster.run(kv.wait(kv.pull(keysOf(3n, 4n), wide.subarray(1, 201))));
  assert.deepEqual([wide[0], wide[1], wide[200], wide[201]], [-1, 7, 7, -1]);
});

test("what is wrong with the arguments throws at once and sends nothing (KVWorker.U1)", async () => {
  const { cluster, kv, pulled } = await stage();
  const one = floats(1);
  const lens = (...list: number[]): KVPushOptions => ({ lens: Int32Array.from(list) });
  const wrong: readonly (readonly [ErrorCode, () => unknown])[] = [
    ["KEYS_NOT_ASCENDING", () => kv.push(keysOf(2n, 1n), floats(1, 2))],
    ["KEYS_NOT_ASCENDING", () => kv.push(keysOf(1n, 1n), floats(1, 2))],
    [
      "KEYS_NOT_ASCENDING",
      () =>
        kv.pull(
          BigUint64Array.from({ length: 100 }, (_, i) => BigInt(i === 99 ? 3 : i)),
          new Float32Array(100),
        ),
    ],
    ["BAD_ARGUMENT", () => kv.push(keysOf(), floats())],
    ["BAD_ARGUMENT", () => kv.pull(keysOf(), floats())],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n), floats())],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n, 2n), floats(1, 2, 3))],
    ["BAD_ARGUMENT", () => kv.push([1n] as unknown as BigUint64Array, one)],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n), [1] as unknown as Float32Array)],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n), null as never)],
    ["BAD_ARGUMENT", () => kv.pull(keysOf(1n), undefined as never)],
    ["BAD_ARGUMENT", () => kv.pull(undefined as never, one, lens(0))],
    ["BAD_ARGUMENT", () => kv.pushPull(keysOf(1n), one, null as never)],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n), one, { lens: [1] as never })],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n), one, { lens: null as never })],
    ["BAD_ARGUMENT", () => kv.pull(keysOf(1n), one, { lens: [0] as never })],
    ["BAD_ARGUMENT", () => kv.pull(keysOf(1n), one, { lens: null as never })],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n), new DataView(new ArrayBuffer(8)) as unknown as Float32Array)],
    ["BAD_ARGUMENT", () => kv.pull(keysOf(1n), new Uint8ClampedArray(4) as unknown as Float32Array, lens(0))],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n, 2n), floats(1, 2), lens(2))],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n, 2n), floats(1, 2), lens(1, 2))],
    ["BAD_ARGUMENT", () => kv.push(keysOf(1n, 2n), floats(1, 2), lens(3, -1))],
    ["BAD_ARGUMENT", () => kv.pull(keysOf(1n, 2n), floats(1, 2), lens(0))],
    ["BAD_ARGUMENT", () => kv.pushPull(keysOf(1n), one, floats(1, 2))],
    ["BAD_ARGUMENT", () => kv.pushPull(keysOf(1n), one, new Int32Array(1))],
    ...[Number.NaN, 1.5, 2 ** 31, Infinity].flatMap((number): [ErrorCode, () => unknown][] => [
      ["BAD_ARGUMENT", () => kv.push(keysOf(1n), one, { priority: number })],
      ["BAD_ARGUMENT", () => kv.push(keysOf(1n), one, { cmd: number })],
      ["BAD_ARGUMENT", () => kv.pull(keysOf(1n), one, { ...lens(0), cmd: number })],
    ]),
  ];
  for (const [code, call] of wrong) assert.throws(call, hasCode(code), call.toString());
  const misspelt = { prioritty: 1 } as object;
  const refused = hasCode("BAD_ARGUMENT", /have no "prioritty"; .* did you mean priority\?/);
  assert.throws(() => kv.push(keysOf(1n), one, misspelt), refused);
  assert.throws(() => kv.pull(keysOf(1n), one, misspelt), refused);
  assert.throws(() => kv.pushPull(keysOf(1n), one, one, misspelt), refused);
  assert.throws(() => kv.push(keysOf(1n), one, null as never), hasCode("BAD_ARGUMENT"));
  await assert.rejects(kv.pullPairs(keysOf(1n), misspelt), refused);
  await assert.rejects(kv.wait(0, { deadlinMs: 1 } as object), hasCode("BAD_ARGUMENT", /did you mean timeoutMs\?/));
  await assert.rejects(kv.pullPairs(keysOf(2n, 1n)), hasCode("KEYS_NOT_ASCENDING"));
  for (const timestamp of [0, -1, Number.NaN]) await assert.rejects(kv.wait(timestamp), hasCode("BAD_ARGUMENT"));
  assert.equal(kv.simple.customer.tracker.nextTimestamp, 0, "no number was given away");
  assert.deepEqual(await pulled([1n]), [0]);
  await cluster.finalize();
});

test("a key keeps its number of values: another one is refused, naming the key and both lengths, and changes nothing", async () => {
  const { cluster, kv, pulled } = await stage();
  kv.push(keysOf(5n), floats(1, 2));
  await assert.rejects(
    cluster.run(kv.wait(kv.push(keysOf(4n, 5n), floats(1, 1)))),
    hasCode("VALUE_LENGTH", /server 0.*key 5 has 2.*has 1/),
  );
  await assert.rejects(cluster.run(kv.wait(kv.pull(keysOf(5n), floats(1, 2, 3)))), hasCode("VALUE_LENGTH"));
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(5n), new Float32Array(200_000)))), hasCode("VALUE_LENGTH"));
  assert.deepEqual(await pulled([5n], 2), [1, 2]);
  assert.deepEqual(await pulled([4n]), [0]);
});

test("a pull with lens needs room for all values that come", async () => {
  const { cluster, kv } = await stage();
  kv.push(keysOf(1n), floats(1, 2, 3));
  const small = new Float32Array(2);
  const pull = kv.pull(keysOf(1n), small, { lens: new Int32Array(1) });
  await assert.rejects(cluster.run(kv.wait(pull)), hasCode("VALUE_LENGTH", /3 values came, but there is room for 2/));
  assert.deepEqual(small, new Float32Array(2));
});

test("a callback is called once, when the arrays are filled, before the wait ends; what it throws is logged (KVWorker.U3)", async () => {
  const { cluster, kv } = await stage({ serverCount: 2 });
  const events: string[] = [];
  const keys = keysOf(1n, KEY_LAST);
  kv.push(keys, floats(1, 2), { callback: (error) => events.push(`push ${error}`) });
  const out = new Float32Array(2);
  const pull = kv.pull(keys, out, { callback: (error) => events.push(`pull ${error} ${out.join()}`) });
  await cluster.run(kv.wait(pull).then(() => events.push("waited")));
  assert.deepEqual(events, ["push undefined", "pull undefined 1,2", "waited"]);
  const throwing = kv.push(keys, floats(1, 2), {
    callback: () => {
      throw new Error("mine");
    },
  });
  await cluster.run(kv.wait(throwing));
  assert.ok(cluster.logLines.includes("error a callback failed"));
});

test("a callback hears the failure, also that of a pull with lens", async () => {
  const { cluster, kv } = await stage();
  const codes: (string | undefined)[] = [];
  const callback = (error?: { code: string }): number => codes.push(error?.code);
  kv.push(keysOf(1n), floats(1, 2), { callback });
  kv.push(keysOf(1n), floats(1), { callback });
  const last = kv.pull(keysOf(1n), floats(1), { lens: new Int32Array(1), callback });
  await assert.rejects(cluster.run(kv.wait(last)));
  assert.deepEqual(codes, [undefined, "VALUE_LENGTH", "VALUE_LENGTH"]);
});

test("a wait ends with DEADLINE or ABORTED while the request goes on, and can be waited for again", async () => {
  const { cluster, servers, kv } = await stage();
  const unanswered: (() => void)[] = [];
  servers[0]?.setRequestHandle((meta, _pairs, server) => {
    unanswered.push(() => server.response(meta));
  });
  const push = kv.push(keysOf(1n), floats(1));
  const beginMs = cluster.clock.nowMs();
  await assert.rejects(
    cluster.run(kv.wait(push, { timeoutMs: 500 })),
    hasCode("DEADLINE", /500 ms for request 0, which may still be applied$/),
  );
  assert.equal(cluster.clock.nowMs() - beginMs, 500);
  const controller = new AbortController();
  const wait = kv.wait(push, { signal: controller.signal });
  cluster.clock.after(10, () => controller.abort());
  await assert.rejects(cluster.run(wait), hasCode("ABORTED"));
  await assert.rejects(kv.wait(push, { signal: AbortSignal.abort() }), hasCode("ABORTED"));
  await assert.rejects(cluster.run(kv.pullPairs(keysOf(1n), { timeoutMs: 5 })), hasCode("DEADLINE", /for request 1$/));
  for (const answer of unanswered.slice(0, 1)) answer();
  await cluster.run(kv.wait(push, { timeoutMs: 500 }));
});

test("a node may have a deadline for all waits that have none of their own", async () => {
  const { cluster, servers, kv } = await stage({ requestTimeoutMs: 2000 });
  servers[0]?.setRequestHandle(() => {});
  const beginMs = cluster.clock.nowMs();
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(1n), floats(1)))), hasCode("DEADLINE"));
  assert.equal(cluster.clock.nowMs() - beginMs, 2000);
});

test("a slicer of the user's own decides who gets which keys, and nonsense from it sends nothing", async () => {
  const { cluster, kv, pulled } = await stage({ serverCount: 2 });
  const keys = [1n, 2n, 3n, 4n];
  kv.setSlicer((list) => [0, Math.ceil(list.length / 2), list.length]);
  kv.push(keysOf(...keys), floats(1, 2, 3, 4));
  assert.deepEqual(await pulled(keys), [1, 2, 3, 4]);
  kv.setSlicer((list) => [0, list.length, list.length]);
  assert.deepEqual(await pulled(keys), [1, 2, 0, 0], "3 and 4 went to the second server");
  kv.setSlicer((list) => [0, 0, list.length]);
  assert.deepEqual(await pulled(keys), [0, 0, 3, 4]);
  for (const cuts of [
    [0, 4],
    [0, 5, 4],
    [1, 2, 4],
    [0, Number.NaN, 4],
    [0, 2, 3],
  ]) {
    kv.setSlicer(() => cuts);
    assert.throws(() => kv.push(keysOf(...keys), floats(1, 2, 3, 4)), hasCode("BAD_ARGUMENT", /the slicer gave/), cuts.join());
  }
  kv.setSlicer(() => {
    throw new Error("no idea");
  });
  assert.throws(() => kv.push(keysOf(1n), floats(1)), /no idea/);
  await cluster.finalize();
});

test("several workers add to the same keys", async () => {
  const { cluster, workers, pulled } = await stage({ serverCount: 2, workerCount: 3 });
  const keys = keysOf(1n, KEY_LAST);
  await cluster.run(Promise.all(workers.map((kv, rank) => kv.wait(kv.push(keys, floats(rank + 1, 10 * (rank + 1)))))));
  assert.deepEqual(await pulled([...keys]), [6, 60]);
});

test("after the node was closed requests fail with CLOSED", async () => {
  const { cluster, kv } = await stage();
  await cluster.run(cluster.worker().close());
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(1n), floats(1)))), hasCode("CLOSED"));
});
