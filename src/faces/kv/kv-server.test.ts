// Goal: a handle of the user's own gets whole requests, answers now or later, once, and nothing it does harms anybody
// but its requester.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { SimCluster } from "../../testing/sim-cluster.ts";
import type { Values } from "../../wire/kv-message.ts";
import { idOf } from "../../wire/node-id.ts";
import type { KVMeta, KVPairs } from "./kv-server.ts";
import { type KVRequestHandle, KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

const HALF = 2n ** 63n;

async function stage(handle: KVRequestHandle, options: MemoryClusterOptions = {}) {
  const cluster = await MemoryCluster.start(options);
  const servers = Array.from({ length: cluster.serverCount }, (_, rank) => new KVServer(cluster.server(rank), 0));
  for (const server of servers) server.setRequestHandle(handle);
  const workers = Array.from({ length: cluster.workerCount }, (_, rank) => new KVWorker(cluster.worker(rank), 0));
  return { cluster, server: servers[0] as KVServer, servers, workers, kv: workers[0] as KVWorker };
}

const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);
const hasCode =
  (code: ErrorCode, message = /./) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, code) && message.test(error.message);

/** A handle that keeps every request and answers pulls with what was pushed last, whatever its type. */
class LastWriter {
  readonly requests: { readonly meta: KVMeta; readonly pairs: KVPairs }[] = [];
  #last: KVPairs | undefined;

  readonly handle: KVRequestHandle = (meta, pairs, server) => {
    this.requests.push({ meta, pairs });
    if (meta.push) this.#last = pairs;
    const last = this.#last;
    if (!meta.pull) server.response(meta);
    else server.response(meta, { vals: last?.vals ?? pairs.vals, lens: last?.lens });
  };
}

test("the handle sees keys, values, cmd, who asked and what for", async () => {
  const writer = new LastWriter();
  const { cluster, kv } = await stage(writer.handle, { workerCount: 2 });
  const other = new KVWorker(cluster.worker(1), 0, 4);
  const out = new Float32Array(2);
  await cluster.run(kv.wait(kv.push(keysOf(1n, 2n), Float32Array.of(5, 6), { cmd: -7 })));
  await cluster.run(other.wait(other.pull(keysOf(1n, 2n), out, { cmd: 2 ** 31 - 1 })));
  await cluster.run(kv.wait(kv.pushPull(keysOf(9n), Float32Array.of(1), new Float32Array(1))));
  assert.deepEqual([...out], [5, 6]);
  assert.deepEqual(
    writer.requests.map(({ meta, pairs }) => ({ ...meta, keys: [...pairs.keys], vals: pairs.vals.length, lens: pairs.lens })),
    [
      {
        cmd: -7,
        push: true,
        pull: false,
        sender: 9,
        senderName: "worker 0",
        timestamp: 0,
        customerId: 0,
        keys: [1n, 2n],
        vals: 2,
        lens: undefined,
      },
      {
        cmd: 2 ** 31 - 1,
        push: false,
        pull: true,
        sender: 11,
        senderName: "worker 1",
        timestamp: 0,
        customerId: 4,
        keys: [1n, 2n],
        vals: 0,
        lens: undefined,
      },
      {
        cmd: 0,
        push: true,
        pull: true,
        sender: 9,
        senderName: "worker 0",
        timestamp: 1,
        customerId: 0,
        keys: [9n],
        vals: 1,
        lens: undefined,
      },
    ],
  );
});

test("a handle may answer later, in any order; the worker waits meanwhile", async () => {
  const parked: { meta: KVMeta; answer: (vals: Float32Array) => void }[] = [];
  const { cluster, kv } = await stage((meta, _pairs, server) => {
    parked.push({ meta, answer: (vals) => server.response(meta, { vals }) });
  });
  const outs = [new Float32Array(1), new Float32Array(1), new Float32Array(1)];
  const pulls = outs.map((out) => kv.pull(keysOf(1n), out));
  await cluster.clock.advance(60_000);
  assert.equal(parked.length, 3);
  for (const i of [2, 0, 1]) parked[i]?.answer(Float32Array.of(i * 10));
  await cluster.run(Promise.all(pulls.map((pull) => kv.wait(pull))));
  assert.deepEqual(
    outs.map(([value]) => value),
    [0, 10, 20],
  );
});

test("BSP by hand: the answer to every worker's pull comes when all have pushed", async () => {
  let sum = 0;
  const waiting: KVMeta[] = [];
  let pushCount = 0;
  const handle: KVRequestHandle = (meta, { vals }, server) => {
    if (meta.push) {
      sum += vals[0] as number;
      pushCount++;
      server.response(meta);
    } else waiting.push(meta);
    if (pushCount === 3) for (const pull of waiting.splice(0)) server.response(pull, { vals: Float32Array.of(sum) });
  };
  const { cluster, workers } = await stage(handle, { workerCount: 3 });
  const results = workers.map(async (kv, rank) => {
    const out = new Float32Array(1);
    kv.push(keysOf(1n), Float32Array.of(rank + 1));
    await kv.wait(kv.pull(keysOf(1n), out));
    return out[0];
  });
  assert.deepEqual(await cluster.run(Promise.all(results)), [6, 6, 6]);
});

test("what a handle throws, or rejects with, is what its requester gets; others are served", async () => {
  const { cluster, kv } = await stage(async (meta, _pairs, server) => {
    if (meta.cmd === 1) throw new Error("out of cheese");
    if (meta.cmd === 2) {
      await Promise.resolve();
      throw new WeighbridgeError("VALUE_LENGTH", "my own reasons");
    }
    server.response(meta);
  });
  const push = (cmd: number): Promise<void> => cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1), { cmd })));
  await assert.rejects(push(1), hasCode("HANDLER_FAILED", /server 0: Error: out of cheese/));
  await assert.rejects(push(2), hasCode("VALUE_LENGTH", /my own reasons/));
  await push(3);
});

test("a synchronous throw is an answer too, and fail answers without throwing", async () => {
  const { cluster, kv } = await stage((meta, _pairs, server) => {
    if (meta.cmd === 1) throw new Error("at once");
    server.fail(meta, new WeighbridgeError("UNSUPPORTED", "not today"));
  });
  const push = (cmd: number): Promise<void> => cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1), { cmd })));
  await assert.rejects(push(1), hasCode("HANDLER_FAILED", /at once/));
  await assert.rejects(push(2), hasCode("UNSUPPORTED", /not today/));
});

test("a second answer is refused, a failure after the answer is logged, and the first answer stands", async () => {
  const seconds: unknown[] = [];
  const { cluster, kv } = await stage((meta, _pairs, server) => {
    server.response(meta, { vals: Float32Array.of(1) });
    for (const again of [() => server.response(meta, { vals: Float32Array.of(2) }), () => server.fail(meta, new Error("no"))]) {
      try {
        again();
      } catch (thrown) {
        seconds.push(thrown);
      }
    }
    throw new Error("after the fact");
  });
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.equal(out[0], 1);
  assert.equal(seconds.length, 2);
  for (const thrown of seconds) assert.ok(hasCode("BAD_ARGUMENT", /request 0 of worker 0 was answered already/)(thrown));
  assert.ok(cluster.logLines.includes("error a request handle failed after it had answered"));
});

test("a request that is never answered holds up nobody else", async () => {
  const { cluster, kv } = await stage((meta, _pairs, server) => {
    if (meta.cmd === 0) server.response(meta);
  });
  const never = kv.push(keysOf(1n), Float32Array.of(1), { cmd: 1 });
  for (let i = 0; i < 5000; i++) kv.push(keysOf(1n), Float32Array.of(1));
  await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1))));
  await assert.rejects(cluster.run(kv.wait(never, { timeoutMs: 100 })), hasCode("DEADLINE"));
});

test("an answer that does not fit is refused where it is given, and the requester gets that error", async () => {
  const answers: readonly Partial<KVPairs>[] = [
    {},
    { vals: new Float64Array(1) },
    { vals: new Int32Array(2) },
    { vals: Float32Array.of(1, 2), lens: Int32Array.of(2) },
    { vals: Float32Array.of(1, 2), lens: Int32Array.of(3, -1) },
    { vals: Float32Array.of(1, 2), lens: Int32Array.of(1, 2) },
    { vals: Float32Array.of(1, 2, 3) },
  ];
  const { cluster, kv } = await stage((meta, _pairs, server) => {
    server.response(meta, answers[meta.cmd]);
  });
  for (const [cmd, answer] of answers.entries()) {
    const wants = { lens: new Int32Array(2), cmd };
    const outcome = cluster.run(kv.wait(kv.pull(keysOf(1n, 2n), new Float32Array(8), wants)));
    await assert.rejects(outcome, (error) => hasCode("BAD_ARGUMENT")(error) || hasCode("VALUE_LENGTH")(error), JSON.stringify(answer));
  }
  await assert.rejects(
    cluster.run(kv.wait(kv.pull(keysOf(1n, 2n), new Float32Array(4), { cmd: 6 }))),
    hasCode("VALUE_LENGTH", /^server 0: 3 values \(12 bytes\) came for 2 keys from 1 on; 4 \(16 bytes\) were expected$/),
  );
});

test("an answer of too few values names the server that gave it, in one frame and in several", async () => {
  const handle: KVRequestHandle = (meta, { keys }, server) => {
    const isShort = (keys[0] as bigint) >= HALF;
    server.response(meta, { vals: new Float64Array(keys.length * (isShort ? 1 : 2)) });
  };
  const { cluster, kv } = await stage(handle, { serverCount: 2 });
  for (const keyCount of [2, 200_000]) {
    const keys = BigUint64Array.from({ length: 2 * keyCount }, (_, i) => BigInt(i % keyCount) + (i < keyCount ? 0n : HALF));
    const expected = `^server 1: ${keyCount} values \\(${8 * keyCount} bytes\\) came .*; ${2 * keyCount} \\(${16 * keyCount} bytes\\) were`;
    await assert.rejects(
      cluster.run(kv.wait(kv.pull(keys, new Float64Array(2 * keys.length)))),
      hasCode("VALUE_LENGTH", new RegExp(expected)),
    );
  }
});

test("values may be of any type, also over several frames", async () => {
  const writer = new LastWriter();
  const { cluster, kv } = await stage(writer.handle);
  const arrays: Values[] = [
    Float32Array.from({ length: 300_000 }, (_, i) => i / 3),
    Float64Array.from({ length: 200_000 }, (_, i) => i / 3),
    Int8Array.from({ length: 1_500_001 }, (_, i) => i),
    Uint8Array.from({ length: 1_500_001 }, (_, i) => i),
    Int16Array.from({ length: 700_001 }, (_, i) => i),
    Uint16Array.from({ length: 700_001 }, (_, i) => i),
    Int32Array.from({ length: 300_001 }, (_, i) => -i),
    Uint32Array.from({ length: 300_001 }, (_, i) => 2 ** 32 - i),
    BigInt64Array.from({ length: 100_000 }, (_, i) => BigInt(-i)),
    BigUint64Array.from({ length: 100_000 }, (_, i) => 2n ** 64n - BigInt(i + 1)),
  ];
  for (const vals of arrays) {
    const Element = vals.constructor as new (length: number) => Values;
    kv.push(keysOf(1n), vals);
    const out = new Element(vals.length);
    await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
    assert.deepEqual(out, vals);
    const small = vals.slice(0, 3);
    const smallOut = new Element(3);
    await cluster.run(kv.wait(kv.pushPull(keysOf(1n), small, smallOut)));
    assert.deepEqual(smallOut, small);
  }
  assert.deepEqual(
    [...new Set(writer.requests.map(({ pairs }) => pairs.vals.constructor))],
    arrays.map((vals) => vals.constructor),
    "a pull tells its type as well",
  );
});

test("a request of many frames reaches the handle once, whole, with arrays that are its to keep", async () => {
  const writer = new LastWriter();
  const { cluster, kv } = await stage(writer.handle);
  const keys = BigUint64Array.from({ length: 120_000 }, (_, i) => BigInt(i * 3));
  const vals = Float32Array.from({ length: 240_000 }, (_, i) => i);
  const out = new Float32Array(vals.length);
  await cluster.run(kv.wait(kv.push(keys, vals)));
  await cluster.run(kv.wait(kv.pull(keys, out)));
  for (let i = 0; i < 20; i++) await cluster.run(kv.wait(kv.push(keys, vals.fill(-1))));
  assert.equal(writer.requests.length, 22);
  assert.deepEqual(writer.requests[0]?.pairs.keys, keys);
  assert.deepEqual(writer.requests[0]?.pairs.vals, out, "later requests have not touched it");
  assert.ok(out.every((value, i) => value === i));
});

test("lens reach the handle, with long and empty values among them, and go back", async () => {
  const writer = new LastWriter();
  const { cluster, kv } = await stage(writer.handle, { serverCount: 2 });
  const keys = keysOf(1n, 2n, 3n, 4n, 5n, HALF, HALF + 1n);
  const lens = Int32Array.of(3, 200_000, 0, 140_000, 1, 4, 0);
  const vals = Float64Array.from({ length: lens.reduce((a, b) => a + b) }, (_, i) => i);
  await cluster.run(kv.wait(kv.push(keys, vals, { lens })));
  const [first, second] = writer.requests.sort((a, b) => ((a.pairs.keys[0] as bigint) < (b.pairs.keys[0] as bigint) ? -1 : 1));
  assert.deepEqual(first?.pairs.lens, lens.slice(0, 5));
  assert.deepEqual(first?.pairs.vals, vals.slice(0, 340_004));
  assert.deepEqual(second?.pairs.lens, lens.slice(5));
  assert.deepEqual(second?.pairs.vals, vals.slice(340_004));
  const outs = new Float64Array(vals.length);
  const single = new LastWriter();
  const alone = await stage(single.handle);
  await alone.cluster.run(alone.kv.wait(alone.kv.pushPull(keys, vals, outs, { lens })));
  assert.deepEqual(outs, vals);
  const [out, outLens] = [new Float64Array(vals.length), new Int32Array(keys.length)];
  await alone.cluster.run(alone.kv.wait(alone.kv.pull(keys, out, { lens: outLens })));
  assert.deepEqual(out, vals);
  assert.deepEqual(outLens, lens);
});

test("a pull of unknown lengths is answered evenly when the handle gives no lens", async () => {
  const { cluster, kv } = await stage((meta, { keys }, server) => {
    server.response(meta, { vals: Float32Array.from({ length: keys.length * 2 }, (_, i) => i) });
  });
  const pairs = await cluster.run(kv.pullPairs(keysOf(1n, 2n, 3n)));
  assert.deepEqual([pairs.lens, pairs.vals], [Int32Array.of(2, 2, 2), Float32Array.of(0, 1, 2, 3, 4, 5)]);
});

test("an answer is copied unless it is given away", async () => {
  const shared = Float32Array.of(1);
  const { cluster, kv } = await stage((meta, _pairs, server) => {
    server.response(meta, { vals: shared }, { owned: meta.cmd === 1 });
    shared[0] = 2;
  });
  const pulled = async (cmd: number): Promise<number | undefined> => {
    shared[0] = 1;
    const out = new Float32Array(1);
    await cluster.run(kv.wait(kv.pull(keysOf(1n), out, { cmd })));
    return out[0];
  };
  assert.equal(await pulled(0), 1);
  assert.equal(await pulled(1), 2, "given away: the handle should not have touched it");
});

test("a handle can be set and taken back at any time; the sums are still there", async () => {
  const { cluster, kv, server } = await stage((meta, _pairs, own) => own.response(meta, { vals: Float32Array.of(-1) }));
  const pulled = async (): Promise<number | undefined> => {
    const out = new Float32Array(1);
    await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
    return out[0];
  };
  server.setRequestHandle(undefined);
  kv.push(keysOf(1n), Float32Array.of(5));
  assert.equal(await pulled(), 5);
  server.setRequestHandle((meta, _pairs, own) => own.response(meta, { vals: Float32Array.of(-2) }));
  assert.equal(await pulled(), -2);
  server.setRequestHandle(undefined);
  assert.equal(await pulled(), 5);
});

test("a handle that is set in the middle of a request does not get the rest of it", async () => {
  const served: KVPairs[] = [];
  const cluster = await MemoryCluster.start();
  const server = new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  let framesSeen = 0;
  server.setRequestHandle(() => assert.fail("the request is not whole"));
  const push = kv.push(keysOf(1n), new Float32Array(2_000_000), { callback: () => framesSeen++ });
  while (cluster.server().metrics.framesReceived < 10) cluster.clock.step();
  server.setRequestHandle((meta, pairs, own) => {
    served.push(pairs);
    own.response(meta);
  });
  await assert.rejects(cluster.run(kv.wait(push)), hasCode("BAD_REQUEST", /beginning/));
  assert.deepEqual([served.length, framesSeen], [0, 1]);
});

test("an answer to a worker that died meanwhile never reaches the one that takes its place", async () => {
  const cluster = new SimCluster({ seed: 4, serverCount: 1, workerCount: 2 });
  await cluster.start();
  const parked: { meta: KVMeta; keys: BigUint64Array }[] = [];
  const server = new KVServer(cluster.server(0), 0);
  server.setRequestHandle((meta, { keys }) => {
    parked.push({ meta, keys });
  });
  const old = new KVWorker(cluster.worker(0), 0);
  old.pull(keysOf(1n), new Float32Array(1));
  await cluster.clock.advance(100);
  cluster.kill(idOf("worker", 0));
  await cluster.clock.advance(3000);
  const office = await cluster.run(cluster.startNode(idOf("worker", 0)));
  const kv = new KVWorker(office, 0);
  const out = new Float32Array(1);
  const pull = kv.pull(keysOf(2n), out);
  await cluster.clock.advance(100);
  assert.equal(parked.length, 2);
  for (const { meta, keys } of parked) server.response(meta, { vals: Float32Array.of(Number(keys[0])) });
  await cluster.run(kv.wait(pull));
  assert.equal(out[0], 2);
});

test("a server that was thought dead and is not serves the same worker again, with its own handle as well", async () => {
  const cluster = new SimCluster({ seed: 5, serverCount: 1, workerCount: 1 });
  await cluster.start();
  const parked: KVMeta[] = [];
  const server = new KVServer(cluster.server(0), 0);
  server.setRequestHandle((meta, _pairs, own) => {
    if (meta.cmd === 1) parked.push(meta);
    else own.response(meta, { vals: Float32Array.of(meta.timestamp) });
  });
  const kv = new KVWorker(cluster.worker(0), 0);
  const out = new Float32Array(1);
  for (let i = 0; i < 3; i++) await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  const held = kv.pull(keysOf(1n), out, { cmd: 1 });
  await cluster.clock.advance(50);
  cluster.network.partition("server-0", "scheduler");
  cluster.network.partition("server-0", "worker-0");
  await assert.rejects(cluster.run(kv.wait(held)), hasCode("NODE_DEAD", /server 0 is dead/));
  await assert.rejects(cluster.run(kv.wait(kv.pull(keysOf(1n), out))), hasCode("NODE_DEAD"));
  cluster.network.heal();
  await cluster.clock.advance(10_000);
  assert.deepEqual(cluster.worker(0).deadNodes(), []);
  for (const meta of parked) server.response(meta, { vals: Float32Array.of(-1) });
  for (let i = 0; i < 10; i++) {
    const pull = kv.pull(keysOf(1n), out);
    await cluster.run(kv.wait(pull));
    assert.equal(out[0], pull);
  }
});
