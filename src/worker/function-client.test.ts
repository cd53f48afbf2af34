// function-client — Goal: PS functions run where they are called, with types, once, and their errors come back as
// errors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { type PsFunction, psFunction } from "../contracts/ps-function.ts";
import { MemoryCluster } from "../testing/memory-cluster.ts";
import type { Fields } from "../wire/function-schema.ts";
import { FunctionClient } from "./function-client.ts";

/** A cluster whose servers have these functions, and a client of its first worker. */
async function clusterWith<Q extends Fields, R extends Fields>(
  functions: readonly PsFunction<Q, R>[],
  serverCount = 1,
): Promise<{ cluster: MemoryCluster; client: FunctionClient }> {
  const cluster = await MemoryCluster.start({ serverCount });
  for (let rank = 0; rank < serverCount; rank++) for (const fn of functions) cluster.server(rank).server?.functions.add(fn);
  const { worker } = cluster.worker();
  assert.ok(worker !== undefined);
  return { cluster, client: new FunctionClient(worker.router) };
}

const echo = psFunction({
  name: "echo",
  request: { text: "string", count: "u32", floats: "f32[]", keys: "u64[]" },
  response: { text: "string", count: "u32", floats: "f32[]", keys: "u64[]" },
  reads: true,
  handler: (_context, request) => request,
});

test("a call brings back what the handler returns, with all types kept", async () => {
  const { cluster, client } = await clusterWith([echo]);
  const request = { text: "grüß", count: 7, floats: Float32Array.of(1.5, -2), keys: BigUint64Array.of(2n ** 64n - 1n) };
  assert.deepEqual(await cluster.run(client.call(echo, { server: 0 }, request)), request);
});

test("requests and responses of many megabytes travel in parts and arrive whole", async () => {
  const { cluster, client } = await clusterWith([echo]);
  const floats = Float32Array.from({ length: 1_000_003 }, (_, i) => i % 1009);
  const keys = BigUint64Array.from({ length: 300_001 }, (_, i) => BigInt(i) * 7n);
  const response = await cluster.run(client.call(echo, { server: 0 }, { text: "", count: 1, floats, keys }));
  assert.deepEqual(response.floats, floats);
  assert.deepEqual(response.keys, keys);
  assert.equal(
    cluster.server().server?.arena.usedBytes,
    (await clusterWith([echo])).cluster.server().server?.arena.usedBytes,
    "nothing is left behind",
  );
});

test("requests of every length come as they were sent, those that end beside 8 bytes as well", async () => {
  const { cluster, client } = await clusterWith([echo]);
  for (const length of [0, 1, 2, 3, 500, 501, 511, 1021, 1023, 1025, 3001, 100_001, 200_001]) {
    const floats = Float32Array.from({ length }, (_, i) => i);
    const keys = BigUint64Array.from({ length: Math.ceil(length / 3) }, (_, i) => BigInt(i));
    const response = await cluster.run(client.call(echo, { server: 0 }, { text: "x".repeat(length % 13), count: length, floats, keys }));
    assert.deepEqual(response, { text: "x".repeat(length % 13), count: length, floats, keys }, `${length} floats`);
  }
});

test("a response that is one array lands in the caller's own", async () => {
  const doubled = psFunction({
    name: "doubled",
    request: { values: "f32[]" },
    response: { values: "f32[]" },
    reads: true,
    handler: (_context, { values }) => ({ values: values.map((value) => value * 2) }),
  });
  const { cluster, client } = await clusterWith([doubled]);
  for (const length of [1, 20, 5_000, 700_000]) {
    const values = Float32Array.from({ length }, (_, i) => i);
    const into = new Float32Array(length);
    const { values: landed } = await cluster.run(client.call(doubled, { server: 0 }, { values }, { into }));
    assert.equal(landed.buffer, into.buffer);
    assert.deepEqual(
      into,
      values.map((value) => value * 2),
    );
  }
});

test("a response of another length than the caller's array is an error, and nothing is written beyond it", async () => {
  const three = psFunction({
    name: "three",
    request: {},
    response: { values: "f32[]" },
    reads: true,
    handler: () => ({ values: new Float32Array(3) }),
  });
  const { cluster, client } = await clusterWith([three], 2);
  for (const length of [2, 4, 5000]) {
    const message = `server 1: 3 values (12 bytes) came; ${length} (${4 * length} bytes) were expected`;
    await assert.rejects(
      cluster.run(client.call(three, { server: 1 }, {}, { into: new Float32Array(length) })),
      (error) => isWeighbridgeError(error, "VALUE_LENGTH") && error.message === message,
    );
  }
});

test("what a handler throws comes back as an error of the caller, and the server goes on", async () => {
  let calls = 0;
  const moody = psFunction({
    name: "moody",
    request: {},
    response: { calls: "u32" },
    handler: () => {
      calls++;
      if (calls === 1) throw new Error("not today");
      if (calls === 2) throw new WeighbridgeError("OUT_OF_RANGE", "row 9 of 3");
      return { calls };
    },
  });
  const { cluster, client } = await clusterWith([moody]);
  await assert.rejects(
    cluster.run(client.call(moody, { server: 0 }, {})),
    (error) => isWeighbridgeError(error, "HANDLER_FAILED") && /not today/.test(error.message),
  );
  await assert.rejects(cluster.run(client.call(moody, { server: 0 }, {})), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
  assert.deepEqual(await cluster.run(client.call(moody, { server: 0 }, {})), { calls: 3 });
});

test("a handler may answer later, and its request is its own meanwhile", async () => {
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const late = psFunction({
    name: "late",
    request: { values: "f32[]" },
    response: { sum: "f64" },
    handler: async (_context, { values }) => {
      await gate;
      return { sum: values.reduce((sum, value) => sum + value, 0) };
    },
  });
  const quick = psFunction({ name: "quick", request: { values: "f32[]" }, response: {}, handler: () => ({}) });
  const { cluster, client } = await clusterWith<Fields, Fields>([late, quick]);
  const waiting = client.call(late, { server: 0 }, { values: Float32Array.of(1, 2, 3) });
  await cluster.run(client.call(quick, { server: 0 }, { values: Float32Array.of(9, 9, 9) }));
  release();
  assert.deepEqual(await cluster.run(waiting), { sum: 6 });
});

test("a handler that never answers is the caller's deadline", async () => {
  const never = psFunction({ name: "never", request: {}, response: {}, handler: () => new Promise<Record<never, never>>(() => {}) });
  const { cluster, client } = await clusterWith([never]);
  await assert.rejects(cluster.run(client.call(never, { server: 0 }, {}, { timeoutMs: 50 })), (error) =>
    isWeighbridgeError(error, "DEADLINE"),
  );
});

test("an unknown function, and one that the server knows differently, are told apart", async () => {
  const other = psFunction({ name: "echo", request: { a: "u32" }, response: {}, handler: () => ({}) });
  const unknown = psFunction({ name: "unknown", request: {}, response: {}, handler: () => ({}) });
  const { cluster, client } = await clusterWith([echo]);
  await assert.rejects(
    cluster.run(client.call(unknown, { server: 0 }, {})),
    (error) => isWeighbridgeError(error, "UNKNOWN_FUNCTION") && /echo/.test(error.message),
  );
  await assert.rejects(
    cluster.run(client.call(other, { server: 0 }, { a: 1 })),
    (error) => isWeighbridgeError(error, "SPEC_MISMATCH") && /count: u32/.test(error.message),
  );
});

test("a function that the server does not have is named, with the server", async () => {
  const { cluster, client } = await clusterWith([echo], 2);
  const missing = psFunction({ name: "normOf", request: {}, response: {}, handler: () => ({}) });
  await assert.rejects(cluster.run(client.call(missing, { server: 1 }, {})), {
    code: "UNKNOWN_FUNCTION",
    message: /^no function "normOf": server 1: .*it has echo/,
  });
});

test("a function that not every server has is told with who has it and who does not", async () => {
  const { cluster, client } = await clusterWith([], 3);
  const normOf = psFunction({ name: "normOf", request: {}, response: {}, handler: () => ({}) });
  const refused = (message: string) => ({ code: "UNKNOWN_FUNCTION", message });
  const fix = "start every server with the same --functions";
  await assert.rejects(cluster.run(client.callAll(normOf, {})), refused(`no function "normOf" on server 0, server 1, server 2: ${fix}`));
  cluster.server(1).server?.functions.add(normOf);
  await assert.rejects(
    cluster.run(client.callAll(normOf, {})),
    refused(`no function "normOf" on server 0, server 2, but on server 1: ${fix}`),
  );
  assert.deepEqual(
    cluster.logLines.filter((line) => /^(warn|error)/.test(line)),
    [],
    "who asked tells it, not every server",
  );
});

test("a request that does not fit its schema throws before anything is sent", async () => {
  const { cluster, client } = await clusterWith([echo]);
  const wrong = { text: "", count: -1, floats: new Float32Array(0), keys: new BigUint64Array(0) };
  await assert.rejects(
    client.call(echo, { server: 0 }, wrong),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /count must be u32/.test(error.message),
  );
  const array = { text: "", count: 1, floats: new Float64Array(1) as unknown as Float32Array, keys: new BigUint64Array(0) };
  await assert.rejects(
    client.call(echo, { server: 0 }, array),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /Float32Array/.test(error.message),
  );
  assert.equal(cluster.server().metrics.requestsFailed, 0);
});

test("a response that does not fit its schema fails the call", async () => {
  const wrong = psFunction({ name: "wrong", request: {}, response: { n: "u32" }, handler: () => ({ n: 1.5 }) });
  const { cluster, client } = await clusterWith([wrong]);
  await assert.rejects(cluster.run(client.call(wrong, { server: 0 }, {})), (error) => isWeighbridgeError(error, "HANDLER_FAILED"));
});

test("callAll asks every server; callEach ends when the last one has answered", async () => {
  const who = psFunction({ name: "who", request: {}, response: { worker: "u32" }, reads: true, handler: ({ worker }) => ({ worker }) });
  const { cluster, client } = await clusterWith([who], 3);
  assert.deepEqual(await cluster.run(client.callAll(who, {})), [{ worker: 0 }, { worker: 0 }, { worker: 0 }]);
});

test("calls that find the queue full wait for room and keep their order", async () => {
  const seen: number[] = [];
  const note = psFunction({
    name: "note",
    request: { n: "u32" },
    response: {},
    handler: (_context, { n }) => {
      seen.push(n);
      return {};
    },
  });
  const cluster = await MemoryCluster.start({ limits: { queuedMax: 4 } });
  cluster.server().server?.functions.add(note);
  const { worker } = cluster.worker();
  assert.ok(worker !== undefined);
  const client = new FunctionClient(worker.router);
  await cluster.run(Promise.all(Array.from({ length: 200 }, (_, n) => client.call(note, { server: 0 }, { n }))));
  assert.deepEqual(
    seen,
    Array.from({ length: 200 }, (_, n) => n),
  );
});
