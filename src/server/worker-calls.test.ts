// worker-calls — Goal: servers call functions of workers over the connections that those opened: in order, once,
// bounded, and every call ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { CALL_WINDOW } from "../cluster/cluster-node.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { type FunctionCaller, type WorkerFunction, workerFunction } from "../contracts/worker-function.ts";
import { failureOf } from "../testing/failure-of.ts";
import { SimCluster, type SimClusterOptions } from "../testing/sim-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import { FunctionClient } from "../worker/function-client.ts";
import type { Worker } from "../worker/worker.ts";
import type { WorkerCalls } from "./worker-calls.ts";

const NUMBER = { n: "u32" } as const;
const BYTES = { bytes: "u8[]" } as const;
const MIB = 2 ** 20;

const count = workerFunction({ name: "count", request: NUMBER, response: NUMBER });
const look = workerFunction({ name: "look", request: NUMBER, response: NUMBER, reads: true });
const take: WorkerFunction<typeof BYTES, Record<never, never>> = workerFunction({ name: "take", request: BYTES, response: {} });

type Stage = { readonly cluster: SimCluster; readonly workers: WorkerCalls; workerOf(rank: number): Worker };

async function stageOf(options: Partial<SimClusterOptions> = {}): Promise<Stage> {
  const cluster = new SimCluster({ seed: 3, serverCount: 1, workerCount: 2, ...options });
  await cluster.start();
  return { cluster, workers: cluster.server(0).server!.workers, workerOf: (rank) => cluster.worker(rank).worker! };
}

/** Counts what it is called with. */
function counting(worker: Worker, fn = count): number[] {
  const seen: number[] = [];
  worker.serve(fn, (_caller, { n }) => {
    seen.push(n);
    return { n: n + 1 };
  });
  return seen;
}

test("a handler on a server calls a worker that does not listen, which knows who calls, and uses the answer", async () => {
  const { cluster, workerOf } = await stageOf();
  const callers: FunctionCaller[] = [];
  workerOf(1).serve(count, (caller, { n }) => {
    callers.push(caller);
    return { n: n * 2 };
  });
  const relayed = psFunction({
    ...{ name: "relayed", request: NUMBER, response: NUMBER },
    handler: async ({ workers, worker, incarnation }, { n }) => {
      assert.deepEqual([...workers.ranks], [0, 1]);
      assert.equal(incarnation, cluster.worker(worker).node.peer.incarnation);
      return { n: 1 + (await workers.call(1, count, { n })).n };
    },
  });
  cluster.server(0).server!.functions.add(relayed);
  const client = new FunctionClient(workerOf(0).router);
  assert.deepEqual(await cluster.run(client.call(relayed, { server: 0 }, { n: 4 })), { n: 9 });
  assert.deepEqual(callers, [{ role: "server", rank: 0 }]);
  assert.equal(cluster.server(0).roster.nodes.find(({ node }) => node === idOf("worker", 1))?.address, "", "it listens nowhere");
  await cluster.finalize();
});

test("the worker that asks a server is called back while it waits for the answer", async () => {
  const { cluster, workerOf } = await stageOf();
  const seen = counting(workerOf(0));
  const back = psFunction({
    ...{ name: "back", request: NUMBER, response: NUMBER },
    handler: ({ workers, worker, incarnation }, request) => workers.call(worker, count, request, { incarnation }),
  });
  cluster.server(0).server!.functions.add(back);
  const client = new FunctionClient(workerOf(0).router);
  assert.deepEqual(await cluster.run(client.call(back, { server: 0 }, { n: 6 })), { n: 7 });
  assert.deepEqual(seen, [6]);
  await cluster.finalize();
});

test("a function that a worker does not serve, or no longer, is UNKNOWN_FUNCTION, with the nearest that it serves", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const call = () => cluster.run(workers.call(0, count, { n: 1 }));
  await assert.rejects(call(), throwsCode("UNKNOWN_FUNCTION", /^worker 0 serves no function "count": .*session\.serve/));
  const near = workerFunction({ name: "counts", request: NUMBER, response: NUMBER });
  const stop = workerOf(0).serve(near, (_caller, request) => request);
  await assert.rejects(call(), throwsCode("UNKNOWN_FUNCTION", /did you mean counts\?/));
  assert.deepEqual(await cluster.run(workers.call(0, near, { n: 1 })), { n: 1 });
  assert.throws(() => workerOf(0).serve(near, (_caller, request) => request), throwsCode("BAD_ARGUMENT", /there already/));
  stop();
  await assert.rejects(cluster.run(workers.call(0, near, { n: 1 })), throwsCode("UNKNOWN_FUNCTION", /worker 0/));
  const other = workerFunction({ name: "counts", request: NUMBER, response: {} });
  workerOf(0).serve(other, () => ({}));
  await assert.rejects(cluster.run(workers.call(0, near, { n: 1 })), throwsCode("SPEC_MISMATCH", /counts/));
  await cluster.finalize();
});

test("what a handler throws comes back with its code, and anything else as HANDLER_FAILED", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const thrown: unknown[] = [new WeighbridgeError("OUT_OF_RANGE", "too much"), new Error("a bug")];
  workerOf(0).serve(count, () => {
    throw thrown.shift();
  });
  await assert.rejects(cluster.run(workers.call(0, count, { n: 1 })), throwsCode("OUT_OF_RANGE", /too much/));
  await assert.rejects(cluster.run(workers.call(0, count, { n: 1 })), throwsCode("HANDLER_FAILED", /count: a bug/));
  await cluster.finalize();
});

test("what is no worker, no function of workers or no option is refused before anything is sent", async () => {
  const { cluster, workers } = await stageOf();
  const served = psFunction({ name: "ofServers", request: NUMBER, response: {}, handler: () => ({}) });
  const n = { n: 1 };
  await assert.rejects(workers.call(-1, count, n), throwsCode("BAD_ARGUMENT", /rank/));
  await assert.rejects(workers.call(7, count, n), throwsCode("NO_ROUTE", /no node/));
  await assert.rejects(workers.call(0, served as never, n), throwsCode("BAD_ARGUMENT", /workerFunction/));
  await assert.rejects(workers.call(0, count, n, { deadline: 5 } as never), throwsCode("BAD_ARGUMENT", /timeoutMs/));
  await assert.rejects(workers.call(0, count, n, { priority: Number.NaN }), throwsCode("BAD_ARGUMENT", /priority/));
  await assert.rejects(workers.call(0, count, n, { timeoutMs: -1 }), throwsCode("BAD_ARGUMENT", /timeoutMs/));
  await assert.rejects(workers.whenRoom(0, { dead: 1 } as never), throwsCode("BAD_ARGUMENT", /timeoutMs/));
  await cluster.finalize();
});

test("calls of one priority begin in the order in which they were made, and each once, also when links break (WorkerFunction.W1)", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const seen = counting(workerOf(0));
  const calls: Promise<unknown>[] = [];
  for (let n = 0; n < 60; n++) {
    calls.push(workers.call(0, count, { n }));
    if (n % 10 === 5) cluster.network.breakLinks("worker-0", "server-0");
    if (n % 7 === 3) await cluster.clock.advance(1);
  }
  const answers = await cluster.run(Promise.all(calls));
  assert.deepEqual(
    answers,
    seen.map((n) => ({ n: n + 1 })),
  );
  assert.deepEqual(
    seen,
    Array.from({ length: 60 }, (_, n) => n),
  );
  await cluster.finalize();
});

test("a call ends with the caller's deadline or signal; it goes on, and counts as open until it has ended (CallWindow.W2)", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const gates = Array.from({ length: CALL_WINDOW.callsMax }, () => new Deferred<{ n: number }>());
  let begun = 0;
  workerOf(0).serve(count, () => gates[begun++]!.promise);
  const aborted = new AbortController();
  const first = workers.call(0, count, { n: 1 }, { signal: aborted.signal });
  const others = gates.slice(1).map(() => workers.call(0, count, { n: 1 }, { timeoutMs: 50 }));
  const expired = Promise.all(others.map((call) => assert.rejects(call, throwsCode("DEADLINE", /worker 0 to answer count/))));
  await cluster.clock.advance(20);
  aborted.abort();
  await assert.rejects(cluster.run(first), throwsCode("ABORTED", /count/));
  await cluster.run(expired);
  assert.equal(begun, CALL_WINDOW.callsMax);
  await assert.rejects(workers.call(0, count, { n: 1 }), throwsCode("QUEUE_FULL", /worker 0 has not answered 64 calls/));
  await assert.rejects(cluster.run(workers.whenRoom(0, { timeoutMs: 10 })), throwsCode("DEADLINE", /worker 0/));
  assert.deepEqual(await cluster.run(workers.whenRoom(1)), undefined, "the other worker is not concerned");
  const room = workers.whenRoom(0);
  for (const gate of gates) gate.resolve({ n: 5 });
  await cluster.run(room);
  gates.push(gates[0]!);
  assert.deepEqual(await cluster.run(workers.call(0, count, { n: 1 })), { n: 5 });
  await cluster.finalize();
});

test("a call that changes something and runs into its timeout or signal is unknown, not retryable, and settled says how it ends; a read stays retryable", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const gates = [new Deferred<{ n: number }>(), new Deferred<{ n: number }>(), new Deferred<{ n: number }>()];
  const aborted = new AbortController();
  cluster.clock.after(10, () => aborted.abort("enough"));
  let begun = 0;
  workerOf(0).serve(count, () => gates[begun++]!.promise);
  workerOf(0).serve(look, () => gates[0]!.promise);
  const [late, stopped, failing, read] = await cluster.run(
    Promise.all([
      failureOf(workers.call(0, count, { n: 1 }, { timeoutMs: 50 })),
      failureOf(workers.call(0, count, { n: 2 }, { signal: aborted.signal })),
      failureOf(workers.call(0, count, { n: 3 }, { timeoutMs: 50 })),
      failureOf(workers.call(0, look, { n: 4 }, { timeoutMs: 50 })),
    ]),
  );
  assert.deepEqual([late.code, late.outcome, late.retryable, late.parts], ["DEADLINE", "unknown", false, undefined]);
  assert.deepEqual([stopped.code, stopped.outcome, stopped.retryable, stopped.cause], ["ABORTED", "unknown", false, "enough"]);
  assert.deepEqual([read.code, read.outcome, read.retryable, read.settled], ["DEADLINE", undefined, true, undefined]);
  for (const gate of gates.slice(0, 2)) gate.resolve({ n: 5 });
  gates[2]!.reject(new WeighbridgeError("OUT_OF_RANGE", "after it had done something"));
  const settled = Promise.all([late.settled, stopped.settled, failing.settled]);
  assert.deepEqual(await cluster.run(settled), ["applied", "applied", "unknown"]);
  await cluster.finalize();
});

test("a call whose signal has fired already sends nothing, and what is refused before it is sent was not applied", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const seen = counting(workerOf(0));
  const looked = counting(workerOf(0), look);
  const signal = AbortSignal.abort("early");
  const early = await failureOf(workers.call(0, count, { n: 1 }, { signal }));
  assert.deepEqual([early.code, early.outcome, early.settled, early.cause], ["ABORTED", "not-applied", undefined, "early"]);
  const read = await failureOf(workers.call(0, look, { n: 1 }, { signal }));
  assert.deepEqual([read.code, read.outcome], ["ABORTED", undefined]);
  for (const refused of [
    () => workers.call(7, count, { n: 1 }),
    () => workers.call(0, count, { n: 1 }, { priority: Number.NaN }),
    () => workers.call(0, count, { n: 1 }, { timeoutMs: -1 }),
    () => workers.call(0, count, { n: 1.5 }),
  ])
    assert.equal((await failureOf(refused())).outcome, "not-applied", String(refused));
  await cluster.clock.advance(1000);
  assert.deepEqual([seen, looked], [[], []]);
  await cluster.finalize();
});

test("the failure of a call that changes something says what became of it: unknown where its handler threw or its worker died", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const told = async (call: Promise<unknown>): Promise<unknown[]> => {
    const { code, outcome, retryable } = await cluster.run(failureOf(call));
    return [code, outcome, retryable];
  };
  assert.deepEqual(await told(workers.call(0, count, { n: 1 })), ["UNKNOWN_FUNCTION", "not-applied", false]);
  workerOf(0).serve(count, () => {
    throw new WeighbridgeError("QUEUE_FULL", "mine", { retryable: true });
  });
  assert.deepEqual(await told(workers.call(0, count, { n: 1 })), ["QUEUE_FULL", "unknown", false]);
  workerOf(1).serve(count, () => new Deferred<{ n: number }>().promise);
  const open = workers.call(1, count, { n: 1 });
  const dies = told(open);
  await cluster.clock.advance(50);
  cluster.kill(idOf("worker", 1));
  assert.deepEqual(await dies, ["NODE_DEAD", "unknown", false]);
  assert.deepEqual(await told(workers.call(1, count, { n: 1 })), ["NODE_DEAD", "not-applied", true]);
  await cluster.run(cluster.server(0).close());
});

test("a worker that reads nothing makes a server keep 8 MiB at most, then calls are refused; all of them arrive once it reads (ClusterNode.N4)", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const sizes: number[] = [];
  workerOf(0).serve(take, (_caller, { bytes }) => {
    sizes.push(bytes.length);
    return {};
  });
  cluster.network.partition("worker-0", "server-0");
  const request = { bytes: new Uint8Array(MIB - 8) };
  const calls: Promise<unknown>[] = [];
  const refused: unknown[] = [];
  for (let i = 0; i < 12; i++) calls.push(workers.call(0, take, request).catch((error: unknown) => refused.push(error)));
  await cluster.clock.advance(100);
  assert.equal(refused.length, 4);
  for (const error of refused) assert.ok(throwsCode("QUEUE_FULL", /worker 0 has not answered 8 calls of \d+ bytes/)(error));
  assert.equal(sizes.length, 0);
  cluster.network.heal();
  await cluster.run(Promise.all([workers.whenRoom(0), ...calls]));
  assert.deepEqual(
    sizes,
    Array.from({ length: 8 }, () => MIB - 8),
  );
  assert.deepEqual(await cluster.run(workers.call(0, take, { bytes: new Uint8Array(9 * MIB) })), {}, "a larger one goes alone");
  assert.equal(sizes.at(-1), 9 * MIB);
  await cluster.finalize();
});

test("calls to a worker that dies fail with NODE_DEAD, those that are open and those that come", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const never = new Deferred<{ n: number }>();
  workerOf(0).serve(count, () => never.promise);
  const open = workers.call(0, count, { n: 1 });
  await cluster.clock.advance(50);
  cluster.kill(idOf("worker", 0));
  await assert.rejects(cluster.run(open), throwsCode("NODE_DEAD", /worker 0/));
  await assert.rejects(workers.call(0, count, { n: 1 }), throwsCode("NODE_DEAD", /worker 0 is dead/));
  assert.deepEqual([...workers.ranks], [1]);
  await cluster.run(cluster.server(0).close());
});

test("a worker that was restarted is called in its new incarnation, and not for what the one before asked for (WorkerCalls.C1)", async () => {
  const { cluster, workers, workerOf } = await stageOf();
  const { incarnation } = cluster.worker(0).node.peer;
  counting(workerOf(0));
  assert.deepEqual(await cluster.run(workers.call(0, count, { n: 1 }, { incarnation })), { n: 2 });
  cluster.kill(idOf("worker", 0));
  const open = workers.call(0, look, { n: 2 });
  const failed = assert.rejects(open, throwsCode("NODE_DEAD", /worker 0/));
  await cluster.run(failed);
  const seen: number[] = [];
  await cluster.run(cluster.startNode(idOf("worker", 0)));
  workerOf(0).serve(count, (_caller, { n }) => {
    seen.push(n);
    return { n };
  });
  await cluster.clock.advance(1000);
  await assert.rejects(workers.call(0, count, { n: 3 }, { incarnation }), throwsCode("NODE_DEAD", /incarnation/));
  assert.deepEqual(await cluster.run(workers.call(0, count, { n: 4 })), { n: 4 });
  assert.deepEqual(seen, [4]);
  await cluster.finalize();
});

test("a call that is made when the roster knows the new incarnation waits for it, and does not fail with the old one (ClusterNode.N4)", async () => {
  const { cluster, workers } = await stageOf();
  cluster.kill(idOf("worker", 0));
  await cluster.clock.advance(5000);
  cluster.network.partition("worker-0", "server-0");
  const restarted = cluster.startNode(idOf("worker", 0));
  await cluster.clock.advance(1000);
  assert.deepEqual([...workers.ranks], [0, 1]);
  const call = workers.call(0, count, { n: 3 });
  await cluster.clock.advance(1000);
  cluster.network.heal();
  counting((await cluster.run(restarted)).worker!);
  await assert.doesNotReject(cluster.run(call.catch((error: unknown) => assert.ok(throwsCode("UNKNOWN_FUNCTION", /./)(error)))));
  assert.deepEqual(await cluster.run(workers.call(0, count, { n: 3 })), { n: 4 });
  await cluster.finalize();
});

test("a server and a worker that have many large answers for each other do not wait for each other for ever (Worker.S2)", async () => {
  const { cluster, workers, workerOf } = await stageOf({ workerCount: 1, network: { windowBytes: 64 * 1024 } });
  const give = workerFunction({ name: "give", request: NUMBER, response: BYTES, reads: true });
  const large = new Uint8Array(512 * 1024);
  workerOf(0).serve(give, () => ({ bytes: large }));
  const fetch = psFunction({ name: "fetch", request: NUMBER, response: BYTES, reads: true, handler: () => ({ bytes: large }) });
  cluster.server(0).server!.functions.add(fetch);
  const client = new FunctionClient(workerOf(0).router);
  const { metrics } = cluster.server(0);
  const links = metrics.linksOpened;
  const there = Array.from({ length: 40 }, (_, n) => client.call(fetch, { server: 0 }, { n }));
  const back = Array.from({ length: 40 }, (_, n) => workers.call(0, give, { n }));
  const answers = await cluster.run(Promise.all([...there, ...back]));
  for (const { bytes } of answers) assert.equal(bytes.length, large.length);
  assert.equal(metrics.linksOpened, links, "and no link was given up for it");
  await cluster.finalize();
});
