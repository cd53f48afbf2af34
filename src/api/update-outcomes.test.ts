// Goal: every update that fails says what became of it: what was refused before it was sent, what all servers refused,
// what may still be applied, and how that ends. Whether it is true over many failures, test/simulation/update-outcomes
// says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { WeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { failureOf } from "../testing/failure-of.ts";
import { SimCluster } from "../testing/sim-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { Session } from "./session.ts";

const LINK_TIMEOUT_MS = 6000;

/** A cluster of one server, which is cut off from its worker. */
async function cutOff(): Promise<{ readonly cluster: SimCluster; readonly session: Session }> {
  const settle = (): Promise<void> => setImmediate();
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1, linkTimeoutMs: LINK_TIMEOUT_MS, settle });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  return { cluster, session };
}

const ones = (count: number): Float32Array => new Float32Array(count).fill(1);

/** Updates of something that has 2 elements, 0 in the beginning; and what they are in the end. */
type Subject = {
  readonly update: (wait: { timeoutMs?: number; signal?: AbortSignal }) => Promise<unknown>;
  readonly read: () => Promise<Float32Array>;
};
const SUBJECTS: Readonly<Record<string, (session: Session) => Promise<Subject>>> = {
  "a push": async (session) => {
    const tensor = await session.tensor("w", { shape: [2], optimizer: "sum" });
    return { update: (wait) => tensor.push(ones(2), wait), read: () => tensor.pull() };
  },
  "a push of rows": async (session) => {
    const tensor = await session.tensor("w", { shape: [2, 1], optimizer: "sum" });
    return { update: (wait) => tensor.pushRows([0, 1], ones(2), wait), read: () => tensor.pull() };
  },
  "the values that a tensor begins with": async (session) => {
    const tensor = await session.tensor("w", { shape: [2], optimizer: "sum" });
    return { update: (wait) => tensor.start(ones(2), wait), read: () => tensor.pull() };
  },
  "a push to an embedding": async (session) => {
    const table = await session.embedding("t", { dim: 1, optimizer: "sum" });
    return { update: (wait) => table.push([1, 2], ones(2), wait), read: () => table.pull([1, 2]) };
  },
  "a push to an embedding whose links carry less": async (session) => {
    const table = await session.embedding("t", { dim: 1, optimizer: "sum", link: { push: "fp16", keyCache: true } });
    return { update: (wait) => table.push([1, 2], ones(2), wait), read: () => table.pull([1, 2]) };
  },
  "a push to a cache": async (session) => {
    const table = await session.embedding("t", { dim: 1, optimizer: "sum", versions: true });
    const cache = table.cached({ rows: 4 });
    return { update: (wait) => cache.push([1, 2], ones(2), wait), read: () => table.pull([1, 2]) };
  },
};

for (const [what, open] of Object.entries(SUBJECTS)) {
  test(`a DEADLINE of ${what} while its server is away: unknown, not retryable, and settled says that it is applied once the server is back`, async () => {
    const { cluster, session } = await cutOff();
    const { update, read } = await cluster.run(open(session));
    cluster.network.partition("worker-0", "server-0");
    const error = await cluster.run(failureOf(update({ timeoutMs: 100 })));
    assert.deepEqual([error.code, error.outcome, error.retryable], ["DEADLINE", "unknown", false]);
    let settled: unknown;
    void error.settled?.then((outcome) => {
      settled = outcome;
    });
    await cluster.clock.advance(100);
    assert.equal(settled, undefined, "it continues");
    cluster.network.heal();
    assert.equal(await cluster.run(error.settled as Promise<unknown>), "applied");
    assert.deepEqual(await cluster.run(read()), ones(2));
    await cluster.finalize();
  });

  test(`ABORTED before ${what} is sent: not applied; afterwards: unknown, and settled says how it ends`, async () => {
    const { cluster, session } = await cutOff();
    const { update, read } = await cluster.run(open(session));
    const early = await cluster.run(failureOf(update({ signal: AbortSignal.abort("early") })));
    assert.deepEqual([early.code, early.outcome, early.settled, early.cause], ["ABORTED", "not-applied", undefined, "early"]);
    await cluster.clock.advance(1000);
    assert.deepEqual(await cluster.run(read()), new Float32Array(2), "nothing was sent");
    cluster.network.partition("worker-0", "server-0");
    const aborter = new AbortController();
    cluster.clock.after(10, () => aborter.abort());
    const late = await cluster.run(failureOf(update({ signal: aborter.signal })));
    assert.deepEqual([late.code, late.outcome, late.retryable], ["ABORTED", "unknown", false]);
    const settled = await cluster.run(late.settled as Promise<unknown>);
    assert.equal(settled, "unknown", "the link was lost with it on its way");
    cluster.network.heal();
    await cluster.finalize();
  });
}

test("a push of NaN, of a wrong length or after the end was not applied, and none of them is worth a retry", async () => {
  const cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const tensor = await session.tensor("w", { shape: [3], optimizer: "sum" });
  const table = await session.embedding("t", { dim: 1, optimizer: "sum" });
  const cache = (await session.embedding("c", { dim: 1, optimizer: "sum", versions: true })).cached({ rows: 4 });
  const bad = Float32Array.of(1, Number.NaN, 1);
  const updates: readonly (() => Promise<unknown>)[] = [
    () => tensor.push(bad),
    () => tensor.pushPull(bad, "all"),
    () => tensor.push(ones(2)),
    () => tensor.push(ones(3), { timeoutMs: -1 }),
    () => table.push([1, 2, 3], bad),
    () => table.push([1, 2, 3], ones(2)),
    () => cache.push([1, 2, 3], bad),
  ];
  for (const [i, update] of updates.entries()) {
    const { outcome, retryable, parts } = await failureOf(update());
    assert.deepEqual([outcome, retryable, parts], ["not-applied", false, undefined], `update ${i}`);
  }
  await cluster.close();
  const late = await failureOf(table.push([1], ones(1)));
  assert.deepEqual([late.outcome, late.retryable], ["not-applied", false], String(late));
});

test("of a gradient that one server refused in part, the error says what each server applied", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const rows = 8; // of 512 KiB, each a block: both servers have some
  const tensor = await session.tensor("w", { shape: [rows, 131_072], optimizer: "sum" });
  const gradient = ones(tensor.size);
  gradient[5] = Number.NaN; // too long to be looked through before it is sent
  for (const update of [() => tensor.push(gradient), () => tensor.pushPull(gradient, [0])]) {
    const { code, outcome, retryable, parts, settled } = await failureOf(update());
    assert.deepEqual([code, outcome, retryable, settled], ["NOT_FINITE", "unknown", false, undefined]);
    assert.deepEqual(parts?.map((part) => part.outcome).sort(), ["applied", "unknown"]);
  }
  const values = await tensor.pull();
  const counts = Array.from({ length: rows }, (_, row) => tensor.row(values, row)[0]);
  assert.deepEqual(counts, [0, ...new Array<number>(rows - 1).fill(2)]);
});

test("a pull that fails has no outcome, and is retryable as ever", async () => {
  const { cluster, session } = await cutOff();
  const tensor = await cluster.run(session.tensor("w", { shape: [2], optimizer: "sum" }));
  cluster.network.partition("worker-0", "server-0");
  const error = await cluster.run(failureOf(tensor.pull({ timeoutMs: 100 })));
  assert.deepEqual([error.code, error.outcome, error.settled, error.retryable], ["DEADLINE", undefined, undefined, true]);
  const lost = await cluster.run(failureOf(tensor.pull()));
  assert.deepEqual([lost.code, lost.outcome, lost.retryable], ["LINK_LOST", undefined, true]);
  cluster.network.heal();
  await cluster.finalize();
});

test("a push and pull whose array for the rows is gone in the end was applied", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const table = await cluster.session.embedding("t", { dim: 1, optimizer: "sum" });
  const into = new Float32Array(2);
  const both = table.pushPull({ keys: [2, 1], gradients: ones(2) }, [2, 1], { into });
  structuredClone(into, { transfer: [into.buffer] });
  const error = await failureOf(both);
  assert.deepEqual([error.code, error.outcome, error.retryable], ["BUFFER_DETACHED", "applied", false]);
  assert.deepEqual(await table.pull([1, 2]), ones(2));
});

test("what a cache could not push is kept: its update is unknown, a flush may be repeated, and then it counts once", async () => {
  const { cluster, session } = await cutOff();
  const table = await cluster.run(session.embedding("t", { dim: 1, optimizer: "sum", versions: true }));
  const cache = table.cached({ rows: 4, pushBound: 5 });
  await cluster.run(cache.pull([1, 2])); // what is not cached does not wait
  await cluster.run(cache.push([1, 2], ones(2)));
  cluster.network.partition("worker-0", "server-0", { breakLinks: true });
  await cluster.clock.advance(2 * LINK_TIMEOUT_MS); // nothing leaves any more
  const flush = await cluster.run(failureOf(cache.flush()));
  assert.deepEqual([flush.code, flush.outcome, flush.retryable], ["LINK_LOST", "not-applied", true]);
  const update = await cluster.run(failureOf(cache.push([3], ones(1))));
  assert.deepEqual([update.code, update.outcome, update.retryable], ["LINK_LOST", "unknown", false], "it is pushed later");
  const read = await cluster.run(failureOf(cache.pull([4, 5, 6, 7]))); // it pushes rows that it evicts
  assert.deepEqual(
    [read.code, read.outcome, read.parts, read.retryable],
    ["LINK_LOST", undefined, undefined, true],
    "a read changes nothing",
  );
  cluster.network.heal();
  await cluster.run(cache.flush());
  assert.deepEqual(await cluster.run(table.pull([1, 2, 3])), ones(3));
  await cluster.finalize();
});

test("a function of a user's own that fails leaves it open whether it has done something; one that no server has did nothing", async () => {
  const described = { request: {}, response: {} } as const;
  const failing = psFunction({
    ...described,
    name: "failing",
    handler: () => {
      throw new Error("half done");
    },
  });
  const missing = psFunction({ ...described, name: "missing", handler: () => ({}) });
  const never = psFunction({ ...described, name: "never", handler: () => new Promise<never>(() => {}) });
  const reading = psFunction({ ...described, name: "reading", reads: true, handler: () => new Promise<never>(() => {}) });
  await using cluster = await EmbeddedCluster.start({ servers: 2, functions: [failing, never, reading] });
  const { session } = cluster;
  const outcomes = [
    await failureOf(session.call(failing, { server: 0 }, {})),
    await failureOf(session.call(missing, { server: 0 }, {})),
    await failureOf(session.call(never, { server: 0 }, {}, { timeoutMs: 10 })),
    await failureOf(session.call(never, { server: 0 }, {}, { signal: AbortSignal.abort() })),
    await failureOf(session.call(reading, { server: 0 }, {}, { timeoutMs: 10 })),
  ].map(({ code, outcome, retryable }) => [code, outcome, retryable]);
  assert.deepEqual(outcomes, [
    ["HANDLER_FAILED", "unknown", false],
    ["UNKNOWN_FUNCTION", "not-applied", false],
    ["DEADLINE", "unknown", false],
    ["ABORTED", "not-applied", false],
    ["DEADLINE", undefined, true],
  ]);
});

test("a flush, and a call of a function that changes something, that are refused before anything is sent were not applied", async () => {
  const touch = psFunction({ name: "touch", request: {}, response: {}, handler: () => ({}) });
  await using cluster = await EmbeddedCluster.start({ functions: [touch] });
  const { session } = cluster;
  const tensor = await session.tensor("w", { shape: [4], optimizer: "sum", link: { push: { topK: 0.5 } } });
  const cache = (await session.embedding("t", { dim: 1, optimizer: "sum", versions: true })).cached({ rows: 4 });
  const signal = AbortSignal.abort();
  const misspelt = { timeoutMS: 5 } as never;
  for (const update of [
    ...[{ signal }, misspelt].flatMap((options) => [
      () => tensor.flushResidual(options),
      () => cache.flush(options),
      () => cache.bypass(true, options),
      () => cache.close(options),
    ]),
    () => session.call(touch, { server: 0 }, {}, misspelt),
    () => session.callAll(touch, {}, misspelt),
  ]) {
    const { outcome, retryable } = await failureOf(update());
    assert.deepEqual([outcome, retryable], ["not-applied", false], String(update));
  }
  await assert.rejects((session.call as (...given: unknown[]) => Promise<unknown>)(undefined, {}, {}), throwsCode("BAD_ARGUMENT"));
});

test("of a call of every server that one applied and another refused, the error says which; one whose handler threw is unknown", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 3, workerCount: 1 });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const runs: number[] = [];
  const touchOf = (rank: number) =>
    psFunction({
      ...{ name: "touch", request: {}, response: {} },
      handler: () => {
        runs.push(rank);
        if (rank === 2) throw new WeighbridgeError("QUEUE_FULL", "after it had done something", { retryable: true });
        return {};
      },
    });
  for (const rank of [0, 2]) cluster.server(rank).server!.functions.add(touchOf(rank));
  const error = await cluster.run(failureOf(session.callAll(touchOf(0), {})));
  assert.deepEqual([runs.length, new Set(runs)], [2, new Set([0, 2])]);
  assert.deepEqual([error.outcome, error.retryable, error.settled], ["unknown", false, undefined]);
  const outcomes = ["applied", "not-applied", "unknown"];
  assert.deepEqual(
    error.parts,
    outcomes.map((outcome, server) => ({ server, outcome })),
  );
  await cluster.finalize();
});
