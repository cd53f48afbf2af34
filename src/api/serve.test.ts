// serve — Goal: a user's worker serves functions that servers call: from its program, from a module, and each mistake
// is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { psFunction } from "../contracts/ps-function.ts";
import { workerFunction } from "../contracts/worker-function.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";

const ROW = { key: "u64", values: "f32[]" } as const;
const changed = workerFunction({ name: "changed", request: ROW, response: {} });
const rankOf = workerFunction({
  name: "rankOf",
  request: {},
  response: { callerRank: "u32" },
  reads: true,
  handler: ({ rank }) => ({ callerRank: rank }),
});

const put = psFunction({
  name: "put",
  request: ROW,
  response: { told: "u32" },
  handler: async (server, row) => {
    const others = server.workers.ranks.filter((rank) => rank !== server.worker);
    const calls = await Promise.allSettled(others.map((rank) => server.workers.call(rank, changed, row)));
    return { told: calls.filter(({ status }) => status === "fulfilled").length };
  },
});
const askedBy = psFunction({
  name: "askedBy",
  request: { worker: "u32" },
  response: { callerRank: "u32" },
  handler: ({ workers }, { worker }) => workers.call(worker, rankOf, {}),
});

test("what a worker changes is pushed to the others before its call returns", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 3, functions: [put] });
  const copies = cluster.sessions.map((session) => {
    const copy = new Map<bigint, Float32Array>();
    session.serve(changed, ({ role }, { key, values }) => {
      assert.equal(role, "server");
      copy.set(key, values);
      return {};
    });
    return copy;
  });
  const row = { key: 7n, values: Float32Array.of(1, 2) };
  assert.deepEqual(await cluster.session.call(put, { key: 7n }, row), { told: 2 });
  assert.deepEqual(
    copies.map((copy) => copy.get(7n)),
    [undefined, row.values, row.values],
  );
});

test("functions with handlers are served by all workers from the start, without a call of serve", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, functions: [askedBy, rankOf, changed] });
  for (const server of [0, 1])
    for (const worker of [0, 1])
      assert.deepEqual(await cluster.sessions[worker]!.call(askedBy, { server }, { worker: 1 - worker }), { callerRank: server });
  assert.throws(() => cluster.session.serve(rankOf), throwsCode("BAD_ARGUMENT", /rankOf is there already/));
});

test("a server whose handler calls a function that a worker does not serve is not taken for one without the handler's", async () => {
  await using cluster = await EmbeddedCluster.start({ functions: [askedBy] });
  const { session } = cluster;
  const isTold = throwsCode("UNKNOWN_FUNCTION", /^server 0: worker 0 serves no function "rankOf"/);
  await assert.rejects(session.call(askedBy, { server: 0 }, { worker: 0 }), isTold);
  await assert.rejects(session.callAll(askedBy, { worker: 0 }), isTold);
});

test("a function is served by one handler, until that is ended", async () => {
  await using cluster = await EmbeddedCluster.start({ functions: [askedBy] });
  const { session } = cluster;
  const ask = () => session.call(askedBy, { server: 0 }, { worker: 0 });
  await assert.rejects(ask(), throwsCode("UNKNOWN_FUNCTION", /worker 0 serves no function "rankOf"/));
  const stop = session.serve(rankOf);
  assert.deepEqual(await ask(), { callerRank: 0 });
  stop();
  stop();
  await assert.rejects(ask(), throwsCode("UNKNOWN_FUNCTION", /worker 0/));
  session.serve(rankOf);
  stop();
  assert.deepEqual(await ask(), { callerRank: 0 }, "the first one's end does not end the second");
});

test("what a worker cannot serve or call is refused", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const isBad = throwsCode("BAD_ARGUMENT", /./);
  assert.throws(() => session.serve(changed), throwsCode("BAD_ARGUMENT", /changed is served by one handler/));
  assert.throws(() => session.serve(rankOf, () => ({ callerRank: 1 })), throwsCode("BAD_ARGUMENT", /here is another/));
  assert.throws(() => session.serve(put as never, () => ({})), throwsCode("BAD_ARGUMENT", /workerFunction/));
  assert.throws(() => session.serve(undefined as never, () => ({})), isBad);
  assert.throws(() => session.serve(changed, 5 as never), isBad);
  await assert.rejects(session.call(changed as never, { server: 0 }, {}), throwsCode("BAD_ARGUMENT", /changed is a function of workers/));
  await assert.rejects(EmbeddedCluster.start({ functions: [{}] as never }), isBad);
});

test("a description that cannot be is refused", () => {
  const isBad = throwsCode("BAD_ARGUMENT", /./);
  assert.throws(() => workerFunction(undefined as never), isBad);
  assert.throws(() => workerFunction({ name: "5", request: {}, response: {} }), isBad);
  assert.throws(() => workerFunction({ name: "a", request: { n: "u33" as "u32" }, response: {} }), isBad);
  assert.throws(
    () => workerFunction({ name: "a", request: {}, response: {}, read: true } as never),
    throwsCode("BAD_ARGUMENT", /did you mean reads\?/),
  );
  assert.throws(
    () => workerFunction({ name: "a", request: {}, response: {}, handler: 5 as never }),
    throwsCode("BAD_ARGUMENT", /a handler is a function/),
  );
});
