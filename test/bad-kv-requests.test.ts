// bad-kv-requests.test — Goal: a kv request that makes no sense is answered with a typed failure, changes nothing, is
// counted and logged; its link stays open (spec/protocol.md, K rules).

import assert from "node:assert/strict";
import { test } from "node:test";
import { KVServer } from "../src/faces/kv/kv-server.ts";
import { elementTypeOf } from "../src/kernel/elements.ts";
import { LINK_GRACE_MS } from "../src/peer/partial-requests.ts";
import { HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX } from "../src/wire/frame.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { dtypeBits, KvFlag } from "../src/wire/kv-message.ts";
import { failureOf } from "./hostile/raw-client.ts";
import { type HeaderFields, kvPayload } from "./hostile/raw-frame.ts";
import { type Refusal, refused } from "./hostile/refusal.ts";
import { HANDLE_APP, SUMMING_APP, simulatedWorld, TargetCluster } from "./hostile/target-cluster.ts";

const WHOLE = KvFlag.FIRST | KvFlag.LAST;
const KEYS = [5n, 6n, 7n];
const PUSH: HeaderFields = { functionId: FunctionId.KV_PUSH, flags: WHOLE, stamp: 1, arg0: 3, arg1: 2 };
const PULL: HeaderFields = { functionId: FunctionId.KV_PULL, flags: WHOLE, arg0: 3, arg1: 2 };
const VALUES = [1, 2, 3, 4, 5, 6];

/** By default the default handle and one of the user's own must both refuse it. */
type Case = Refusal & { readonly apps?: readonly number[] };

const KV_CASES: readonly Case[] = [
  { name: "keys that fall", fields: PUSH, payload: kvPayload([5n, 7n, 6n], VALUES), code: "KEYS_NOT_ASCENDING", says: /6.* 7/ },
  { name: "a key twice", fields: PUSH, payload: kvPayload([5n, 5n, 6n], VALUES), code: "KEYS_NOT_ASCENDING", says: /5/ },
  { name: "pulled keys that fall", fields: PULL, payload: kvPayload([5n, 7n, 6n]), code: "KEYS_NOT_ASCENDING", says: /6.* 7/ },
  { name: "no keys", fields: { ...PUSH, arg0: 0 }, code: "BAD_REQUEST", says: /without keys/ },
  { name: "too few values", fields: PUSH, payload: kvPayload(KEYS, [1, 2, 3, 4, 5]), code: "BAD_REQUEST", says: /44 bytes for 3 keys/ },
  { name: "too many values", fields: PUSH, payload: kvPayload(KEYS, [...VALUES, 7]), code: "BAD_REQUEST", says: /52 bytes for 3 keys/ },
  {
    name: "a count of 2^32 − 1",
    fields: { ...PUSH, arg0: 2 ** 32 - 1 },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /4294967295 keys/,
  },
  {
    name: "a count and a width whose product is 2^64",
    fields: { ...PUSH, arg0: 2 ** 31, arg1: 2 ** 31 },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /2147483648 keys/,
  },
  { name: "a push without a width", fields: { ...PUSH, arg1: 0 }, payload: kvPayload(KEYS), code: "BAD_REQUEST", says: /no width/ },
  { name: "a pull without a width", fields: { ...PULL, arg1: 0 }, payload: kvPayload(KEYS), code: "BAD_REQUEST", says: /no width/ },
  { name: "a pull with values", fields: PULL, payload: kvPayload(KEYS, [1]), code: "BAD_REQUEST", says: /28 bytes for 3 keys/ },
  {
    name: "lengths in a pull",
    fields: { ...PULL, flags: WHOLE | KvFlag.LENS },
    payload: kvPayload(KEYS, [], [1, 1, 1]),
    code: "BAD_REQUEST",
    says: /where none belong/,
  },
  {
    name: "a negative length",
    fields: { ...PUSH, flags: WHOLE | KvFlag.LENS | KvFlag.VARIABLE, arg1: 0 },
    payload: kvPayload(KEYS, [1, 2, 3], [4, -2, 1]),
    code: "BAD_REQUEST",
    says: /-2/,
  },
  {
    name: "lengths that do not add up",
    fields: { ...PUSH, flags: WHOLE | KvFlag.LENS | KvFlag.VARIABLE, arg1: 0 },
    payload: kvPayload(KEYS, [1, 2, 3], [1, 1, 2]),
    code: "BAD_REQUEST",
    says: /add up to 4/,
  },
  {
    name: "a piece beyond the end",
    fields: { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 1, arg1: 131_072, arg2: 131_072 },
    payload: kvPayload([5n], [1]),
    code: "BAD_REQUEST",
    says: /at value 131072 of 131072/,
  },
  {
    name: "a piece that does not begin at a block",
    fields: { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 1, arg1: 200_000, arg2: 1000 },
    payload: kvPayload([5n], [1]),
    code: "BAD_REQUEST",
    says: /at value 1000/,
  },
  {
    name: "a piece of two keys",
    fields: { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 2, arg1: 131_072 },
    payload: kvPayload([5n, 6n], [1]),
    code: "BAD_REQUEST",
    says: /a piece of 2 keys/,
  },
  { name: "an offset outside a piece", fields: { ...PULL, arg2: 8 }, payload: kvPayload(KEYS), code: "BAD_REQUEST", says: /offset 8/ },
  {
    name: "values of no type",
    fields: { ...PUSH, flags: WHOLE | dtypeBits(77) },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /type 77/,
  },
  {
    name: "a pull of more than a frame",
    fields: { ...PULL, arg1: 4000, arg0: 100 },
    payload: kvPayload(Array.from({ length: 100 }, (_, i) => BigInt(i))),
    code: "BAD_REQUEST",
    says: /1600000 bytes/,
    apps: [SUMMING_APP],
  },
  {
    name: "a long value in one piece",
    fields: { ...PUSH, arg0: 1, arg1: 4096 },
    payload: kvPayload([5n], new Float32Array(4096)),
    code: "BAD_REQUEST",
    says: /not cut into pieces/,
    apps: [SUMMING_APP],
  },
  {
    name: "the end of a request that did not begin",
    fields: { ...PUSH, flags: KvFlag.LAST },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /beginning/,
    apps: [HANDLE_APP],
  },
];

for (const testCase of KV_CASES) {
  const { name, fields, apps = [SUMMING_APP, HANDLE_APP] } = testCase;
  test(`${name}: ${testCase.code}, and nothing is applied`, async () => {
    const cluster = await TargetCluster.start();
    const client = await cluster.intrude();
    const { metrics } = cluster.server;
    for (const app of apps) {
      const failedBefore = metrics.requestsFailed;
      await refused(cluster, client, {
        ...testCase,
        fields: { ...fields, app, ...(fields.stamp === undefined ? {} : { stamp: 1 + app }) },
      });
      assert.equal(metrics.requestsFailed, failedBefore + 1);
      assert.match(cluster.log.recent.at(-1) ?? "", /a request failed.*worker 1/);
      const untouched = new Float32Array(6);
      const kv = app === SUMMING_APP ? cluster.kv : cluster.handleKv;
      if (app === SUMMING_APP) await cluster.world.run(kv.wait(kv.pull(BigUint64Array.from(KEYS), untouched)));
      assert.deepEqual([...untouched], [0, 0, 0, 0, 0, 0]);
    }
    assert.equal(client.isClosed, false);
    await cluster.close();
  });
}

test("a repeated pushPull whose lengths lie cannot make the server write beyond its answer", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const fields = { ...PUSH, functionId: FunctionId.KV_PUSH_PULL, flags: WHOLE | KvFlag.LENS | KvFlag.VARIABLE, arg1: 0 };
  const first = await cluster.world.run(client.ask(fields, kvPayload(KEYS, VALUES, [1, 2, 3])));
  assert.equal(first?.header.kind, Kind.REPLY);
  for (const lens of [
    [1, 2, 1000],
    [1, 2, 2 ** 30],
    [1, 2, -1],
  ]) {
    // The stamp is old, so that nothing is pushed and no push looks at the lengths.
    const failure = failureOf(await cluster.world.run(client.ask(fields, kvPayload(KEYS, VALUES, lens))));
    assert.equal(failure.code, "BAD_REQUEST");
  }
  await cluster.close();
});

test("what was refused is not half applied: the rest of a request whose part was refused is refused as well", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const part = { ...PUSH, app: HANDLE_APP, arg3: 77 };
  const ask = async (flags: number, keys: readonly bigint[], stamp: number) =>
    await cluster.world.run(client.ask({ ...part, flags, stamp }, kvPayload(keys, VALUES)));
  assert.equal((await ask(KvFlag.FIRST, [1n, 2n, 3n], 1))?.header.kind, Kind.REPLY);
  assert.equal(failureOf(await ask(0, [4n, 5n], 2)).code, "BAD_REQUEST");
  assert.equal(failureOf(await ask(KvFlag.LAST, [6n, 7n, 8n], 3)).code, "BAD_REQUEST");
  await cluster.close();
});

test("an unknown function is UNKNOWN_FUNCTION, an unknown app UNKNOWN_APP after a while", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  for (const functionId of [0, 7, 35, 1024, 65_535]) {
    assert.equal(failureOf(await cluster.world.run(client.ask({ functionId }))).code, "UNKNOWN_FUNCTION");
  }
  const startedAtMs = cluster.world.clock.nowMs();
  for (const functionId of [FunctionId.KV_PULL, FunctionId.SIMPLE]) {
    const failure = failureOf(await cluster.world.run(client.ask({ ...PULL, functionId, app: 500 }, kvPayload(KEYS))));
    assert.equal(failure.code, "UNKNOWN_APP");
    assert.equal(failure.retryable, true);
  }
  assert.equal(cluster.world.clock.nowMs() - startedAtMs, 20_000);
  await cluster.close();
});

test("requests to an app that never comes wait in a bounded queue", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const payload = new Uint8Array(64);
  for (let i = 0; i < 3000; i++) client.request({ functionId: FunctionId.SIMPLE, app: 500, stamp: i + 1, settled: 1 }, payload);
  await cluster.settle();
  assert.ok(client.frames.length > 1000, "those beyond the bound are refused at once");
  for (const frame of client.frames) assert.equal(failureOf(frame).code, "UNKNOWN_APP");
  await cluster.close();
});

test("one block of a value of 2 GiB costs one block, however many such values there are", async () => {
  const cluster = await TargetCluster.start(simulatedWorld(), { arenaBytesMax: 2 ** 31 });
  const client = await cluster.intrude();
  const blockCount = 4095;
  const fields = { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 1, arg1: blockCount * 131_072 + 1, arg2: blockCount * 131_072 };
  const bytesBefore = process.memoryUsage().heapUsed;
  for (let i = 1; i <= 2000; i++) client.request({ ...fields, stamp: i }, kvPayload([BigInt(i)], [1]));
  await cluster.settle();
  const grownBytes = process.memoryUsage().heapUsed - bytesBefore;
  assert.ok(grownBytes < 100 * 2 ** 20, `${grownBytes} bytes`);
  assert.equal(cluster.server.metrics.requestsFailed, 0);
  await cluster.close();
});

test("thousands of requests that never end are no burden to others", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  for (let i = 1; i <= 20_000; i++) {
    client.request({ ...PUSH, app: HANDLE_APP, flags: KvFlag.FIRST, stamp: i, arg0: 1, arg1: 1, arg3: i }, kvPayload([1n], [1]));
  }
  await cluster.settle();
  assert.equal(client.frames.length, 20_000);
  const values = new Float32Array(1);
  await cluster.world.run(cluster.handleKv.wait(cluster.handleKv.pull(BigUint64Array.of(1n), values)));
  assert.equal(values[0], 0);
  await cluster.close();
});

test("pushes to handles of the user's own that never end are counted over all applications, and given back when the link of their worker is gone", async () => {
  const cluster = await TargetCluster.start();
  const other = new KVServer(cluster.server, HANDLE_APP + 1);
  other.setRequestHandle(() => assert.fail("none of them comes whole"));
  const client = await cluster.intrude();
  const unfinished = cluster.server.server?.unfinishedRequests ?? assert.fail("it is a server");
  const frameKeys = 4096;
  const payload = new Uint8Array(frameKeys * 16);
  const doubles = { ...PUSH, flags: KvFlag.FIRST | dtypeBits(elementTypeOf(new Float64Array(0))), arg0: frameKeys, arg1: 1 };
  for (let i = 1; i <= 200; i++) client.request({ ...doubles, app: HANDLE_APP + (i % 2), stamp: i, arg3: i }, payload);
  await cluster.settle();
  assert.deepEqual([client.frames.length, cluster.server.metrics.requestsFailed], [200, 0]);
  assert.ok(unfinished.bytes >= 200 * payload.length, `${unfinished.bytes} bytes`);
  client.destroy();
  await cluster.world.run(new Promise<void>((resolve) => cluster.world.clock.after(LINK_GRACE_MS + 1000, resolve)));
  assert.equal(unfinished.bytes, 0);
  await cluster.close();
});

test("a frame of the largest legal size is taken, and so is what follows it", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const keys = Array.from({ length: PAYLOAD_BYTES_MAX / 16 }, (_, i) => BigInt(i));
  const values = new Float32Array(keys.length * 2).fill(1);
  const payload = kvPayload(keys, values);
  assert.equal(HEADER_BYTES + payload.length, HEADER_BYTES + PAYLOAD_BYTES_MAX);
  const answer = await cluster.world.run(client.ask({ ...PUSH, arg0: keys.length }, payload));
  assert.equal(answer?.header.kind, Kind.REPLY);
  const pulled = await cluster.world.run(client.ask(PULL, kvPayload([0n, 1n, 65_535n])));
  assert.deepEqual([...new Float32Array(pulled?.payload.buffer ?? new ArrayBuffer(0))], [1, 1, 1, 1, 1, 1]);
  await cluster.close();
});
