// Goal: an array that is transferred away, or shrinks, while a call refers to it fails that call with BUFFER_DETACHED,
// and nothing else suffers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const WAIT = { timeoutMs: 10_000 } as const;
/** Several blocks on each of two servers. */
const LONG = 1_000_000;

function transfer(...arrays: readonly { readonly buffer: ArrayBufferLike }[]): void {
  for (const { buffer } of arrays) structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
}

const detached =
  (pattern: RegExp) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, "BUFFER_DETACHED") && !error.retryable && pattern.test(error.message);

const APPLIED = /the update may have been applied, in part or whole|other parts of the update may have been applied/;
const UNCHANGED = /nothing was changed/;

function ones(length: number): Float32Array<ArrayBuffer> {
  return new Float32Array(length).fill(1);
}

for (const servers of [1, 2]) {
  test(`a gradient that is transferred away while it is pushed to ${servers} fails that push alone, and says that it may have been applied`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers });
    const { session } = cluster;
    const w = await session.tensor("w", { shape: [LONG], optimizer: "sum" });
    const other = await session.tensor("other", { shape: [LONG], optimizer: "sum" });
    for (const turns of [0, 1, 3]) {
      const gradient = ones(LONG);
      const before = other.push(ones(LONG), WAIT);
      const push = w.push(gradient, WAIT);
      const after = other.push(ones(LONG), WAIT);
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
      transfer(gradient);
      await assert.rejects(push, detached(APPLIED));
      await Promise.all([before, after]);
    }
    assert.deepEqual(await other.pull(WAIT), new Float32Array(LONG).fill(6));
    const values = await w.pull(WAIT);
    assert.ok(
      values.every((value) => Number.isInteger(value) && value >= 0 && value <= 3),
      "each block has each push once, or not at all",
    );
    await w.push(ones(LONG), WAIT);
    assert.deepEqual(
      await w.pull(WAIT),
      values.map((value) => value + 1),
    );
  });
}

test("a short gradient, a resizable one that shrank, and one in a WebAssembly memory that grew fail their pushes too", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [100], optimizer: "sum" });
  const short = ones(100);
  const push = w.push(short, WAIT);
  transfer(short);
  await assert.rejects(push, detached(APPLIED));
  const long = await cluster.session.tensor("long", { shape: [LONG], optimizer: "sum" });
  const resizable = new ArrayBuffer(4 * LONG, { maxByteLength: 4 * LONG });
  const shrunk = long.push(new Float32Array(resizable), WAIT);
  resizable.resize(4000);
  await assert.rejects(shrunk, detached(APPLIED));
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 65 });
  const grown = long.push(new Float32Array(memory.buffer, 0, LONG), WAIT);
  memory.grow(1);
  await assert.rejects(grown, detached(APPLIED));
  await long.push(ones(LONG), WAIT);
});

test("an array that is transferred away while it is pulled into fails that pull alone", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [LONG], optimizer: "sum" });
  await w.push(ones(LONG), WAIT);
  for (const turns of [0, 1, 2, 4, 6]) {
    const into = new Float32Array(LONG);
    const pull = w.pull({ into, ...WAIT });
    const other = w.pull(WAIT);
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
    transfer(into);
    const outcome = await pull.then(
      () => "done",
      (error: unknown) => error,
    );
    assert.ok(outcome === "done" ? turns > 0 : detached(UNCHANGED)(outcome), String(outcome));
    assert.deepEqual(await other, ones(LONG));
  }
});

test("rows of tensors and tables: pushed, pulled, both, as given or put in order, cached: every call ends, and those behind it are right", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const [rowCount, width] = [4000, 64];
  const w = await session.tensor("w", { shape: [rowCount, width], optimizer: "sum" });
  const users = await session.embedding("users", { dim: width, optimizer: "sum", versions: true });
  const coded = await session.tensor("coded", { shape: [rowCount, width], optimizer: "sum", link: { push: "fp16", pull: "fp16" } });
  const codedUsers = await session.embedding("coded users", { dim: width, optimizer: "sum", link: { push: "fp16", pull: "fp16" } });
  await using cached = users.cached({ rows: 2 * rowCount });
  const ascending = Uint32Array.from({ length: rowCount }, (_, i) => i);
  const repeated = ascending.map((row) => row % 1000);
  const size = rowCount * width;
  const failsOrEnds = async (call: (gradients: Float32Array, into: Float32Array) => Promise<unknown>, mustFail: boolean): Promise<void> => {
    const [gradients, into] = [ones(size), new Float32Array(size)];
    const outcome = call(gradients, into);
    transfer(gradients, into);
    const ended = await outcome.then(
      () => undefined,
      (error: unknown) => error,
    );
    assert.ok(ended === undefined ? !mustFail : isWeighbridgeError(ended, "BUFFER_DETACHED"), String(ended));
  };
  for (const rows of [ascending, repeated]) {
    await failsOrEnds((gradients) => w.pushRows(rows, gradients, WAIT), rows === ascending);
    await failsOrEnds((_, into) => w.pullRows(rows, { into, ...WAIT }), true);
    await failsOrEnds((gradients, into) => w.pushPull({ rows, gradients }, rows, { into, ...WAIT }), true);
    await failsOrEnds((gradients, into) => w.pushPull({ rows, gradients }, "all", { into, ...WAIT }), true);
    // By two servers: rows are put in order first.
    await failsOrEnds((gradients) => users.push(rows, gradients, WAIT), false);
    await failsOrEnds((_, into) => users.pull(rows, { into, ...WAIT }), true);
    await failsOrEnds((gradients, into) => users.pushPull({ keys: rows, gradients }, rows, { into, ...WAIT }), true);
    await failsOrEnds((gradients) => coded.pushRows(rows, gradients, WAIT), false);
    await failsOrEnds((_, into) => coded.pullRows(rows, { into, ...WAIT }), true);
    await failsOrEnds((_, into) => codedUsers.pull(rows, { into, ...WAIT }), true);
    await failsOrEnds((_, into) => cached.pull(rows, { into, ...WAIT }), true);
    await failsOrEnds((gradients) => cached.push(rows, gradients, WAIT), true);
  }
  await failsOrEnds((_, into) => coded.pull({ into, ...WAIT }), true);
  await failsOrEnds((gradients, into) => w.pushPull(gradients, "all", { into, ...WAIT }), true);
  const fresh = await session.tensor("fresh", { shape: [rowCount, width], optimizer: "sum" });
  await fresh.pushRows(repeated, ones(size), WAIT);
  assert.equal((await fresh.pullRows([999], WAIT))[0], 4);
});

test("keys that are transferred away while rows are pushed fail that push", async () => {
  await using cluster = await EmbeddedCluster.start();
  const users = await cluster.session.embedding("users", { dim: 16, optimizer: "sum" });
  const keys = BigUint64Array.from({ length: 20_000 }, (_, i) => BigInt(i));
  const push = users.push(keys, ones(16 * keys.length), WAIT);
  transfer(keys);
  await assert.rejects(push, detached(APPLIED));
  await users.push([1n], ones(16), WAIT);
});

const total = psFunction({
  name: "total",
  request: { values: "f32[]" },
  response: { sum: "f64" },
  reads: true,
  handler: (_, { values }) => ({ sum: values.reduce((sum, value) => sum + value, 0) }),
});

test("a request of a user's function in many frames fails when its array goes, and the server keeps nothing of it", async () => {
  await using cluster = await EmbeddedCluster.start({ functions: [total] });
  const { session } = cluster;
  for (let i = 0; i < 12; i++) {
    const values = ones(25_000_000); // twelve of these do not fit what a server puts together at a time
    const call = session.call(total, { server: 0 }, { values }, WAIT);
    for (let turn = 0; turn < i % 4; turn++) await new Promise((resolve) => setImmediate(resolve));
    transfer(values);
    await assert.rejects(call, detached(UNCHANGED));
  }
  assert.deepEqual(await session.call(total, { server: 0 }, { values: ones(300_000) }, WAIT), { sum: 300_000 });
});

test("an array that is transferred away ends its operation among workers at all of them, and the next generation goes on", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 3 });
  const all = await Promise.all(cluster.sessions.map((session) => session.collective(WAIT)));
  const arrays = all.map(() => ones(LONG));
  const [, given] = arrays;
  assert.ok(given !== undefined);
  const reduces = all.map((collective, i) => collective.allReduce(arrays[i] ?? ones(LONG), WAIT));
  transfer(given);
  for (const outcome of await Promise.allSettled(reduces)) {
    assert.ok(outcome.status === "rejected" && isWeighbridgeError(outcome.reason, "BUFFER_DETACHED"), String(outcome.status));
    assert.match(outcome.reason.message, /all-reduce of 1000000 floats of worker 1/);
  }
  const again = await Promise.all(all.map((collective) => collective.reform(WAIT)));
  assert.equal(again.length, 3);
  const small = all.map(() => ones(LONG));
  await Promise.all(all.map((collective, i) => collective.allReduce(small[i] ?? ones(LONG), WAIT)));
  assert.deepEqual(small[2], new Float32Array(LONG).fill(3));
});
