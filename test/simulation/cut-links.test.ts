// Goal: a worker and a server that reach the scheduler but not each other notice it in time, say so, and leave no call
// waiting (protocol.md, R17, R18).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError, type WeighbridgeError } from "../../src/base/errors.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { Group } from "../../src/wire/node-id.ts";
import { cutCluster, HEARTBEAT_TIMEOUT_MS, keptLog, LINK_TIMEOUT_MS, runCutLinks } from "./cut-links.ts";
import { forSeeds } from "./seeds.ts";

const KEY = BigUint64Array.of(7n);

async function cutOff() {
  const lines: string[] = [];
  const cluster = cutCluster({ log: keptLog(lines) });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  await cluster.run(kv.wait(kv.push(KEY, Float32Array.of(1))));
  cluster.network.partition("worker-0", "server-0");
  const cutAtMs = cluster.clock.nowMs();
  const failed = (promise: Promise<unknown>): Promise<WeighbridgeError> =>
    promise.then(
      () => assert.fail("it did not fail"),
      (error: unknown) => (isWeighbridgeError(error) ? error : assert.fail(String(error))),
    );
  const pull = async (): Promise<number> => {
    const values = new Float32Array(1);
    await kv.wait(kv.pull(KEY, values));
    return values[0] as number;
  };
  return { cluster, kv, lines, cutAtMs, failed, pull };
}

test("silence on a link with unanswered calls is noticed within the heartbeat timeout, and a warning names both ends and the link", async () => {
  const { cluster, kv, lines, cutAtMs } = await cutOff();
  kv.push(KEY, Float32Array.of(1));
  const silent = (): string | undefined => lines.find((line) => line.startsWith("warn") && line.includes("silent"));
  while (silent() === undefined && cluster.clock.nowMs() < cutAtMs + 2 * HEARTBEAT_TIMEOUT_MS) await cluster.clock.advance(10);
  assert.ok(cluster.clock.nowMs() - cutAtMs <= HEARTBEAT_TIMEOUT_MS + 10, `${cluster.clock.nowMs() - cutAtMs} ms`);
  assert.match(silent() ?? "", /from=worker 0 to=server 0 link=sim:\/\/server-0:\d+/);
});

test("a link that was silent is dialed again: what it carried counts once when it heals in time", async () => {
  const { cluster, kv, pull } = await cutOff();
  const pushed = kv.wait(kv.push(KEY, Float32Array.of(1)));
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS + 500);
  const opened = cluster.worker(0).metrics.linksOpened;
  cluster.network.heal();
  await cluster.run(pushed);
  assert.ok(cluster.worker(0).metrics.linksOpened > opened, "over another link");
  assert.equal(await cluster.run(pull()), 2);
});

test("a call to a server out of reach fails after linkTimeoutMs with LINK_LOST, which names server and link and says whether it may be applied", async () => {
  const { cluster, kv, cutAtMs, failed } = await cutOff();
  const pushed = failed(kv.wait(kv.push(KEY, Float32Array.of(1))));
  const pulled = failed(kv.wait(kv.pull(KEY, new Float32Array(1))));
  const [push, read] = await cluster.run(Promise.all([pushed, pulled]));
  const waitedMs = cluster.clock.nowMs() - cutAtMs;
  assert.ok(waitedMs >= 0.9 * LINK_TIMEOUT_MS && waitedMs <= LINK_TIMEOUT_MS, `${waitedMs} ms`);
  assert.equal(push.code, "LINK_LOST");
  assert.match(push.message, /server 0 could not be reached over sim:\/\/server-0:\d+ for \d+ ms.*may have been applied, once at most/);
  assert.deepEqual([push.retryable, push.outcome], [false, "unknown"], "repeating it might count twice");
  assert.match(read.message, /server 0 .*nothing was applied/);
  assert.deepEqual([read.retryable, read.outcome], [true, undefined]);

  const later = await cluster.run(failed(kv.wait(kv.push(KEY, Float32Array.of(1)))));
  assert.match(later.message, /server 0 .*nothing was applied/);
  assert.deepEqual([later.retryable, later.outcome], [true, "not-applied"], "it never left");
  assert.ok(
    cluster.clock.nowMs() - cutAtMs <= waitedMs + HEARTBEAT_TIMEOUT_MS,
    "a call to a server that stays out of reach does not wait as long again",
  );
});

test("an update that failed with LINK_LOST is never sent again, and the next calls go on after the healing", async () => {
  const { cluster, kv, failed, pull } = await cutOff();
  await cluster.run(failed(kv.wait(kv.push(KEY, Float32Array.of(10)))));
  cluster.network.heal();
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
  const before = await cluster.run(pull());
  assert.ok(before === 1 || before === 11, `${before}`);
  await cluster.run(kv.wait(kv.push(KEY, Float32Array.of(100))));
  await cluster.clock.advance(LINK_TIMEOUT_MS);
  assert.equal(await cluster.run(pull()), before + 100);
  await cluster.finalize();
});

test("a read that is parked at its server for long is no silence: its link stays, and one line names who it waits for", async () => {
  const lines: string[] = [];
  const cluster = cutCluster({ log: keptLog(lines) });
  await cluster.start();
  const [fast, slow] = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  assert.ok(fast !== undefined && slow !== undefined);
  const [ahead, behind] = await cluster.run(
    Promise.all([fast, slow].map((session) => session.tensor("w", { shape: [2], optimizer: "sum", consistency: "bsp" }))),
  );
  assert.ok(ahead !== undefined && behind !== undefined);
  await cluster.run(Promise.all([ahead, behind].map((tensor) => tensor.pull())));
  const { linksOpened } = cluster.worker(0).metrics;
  fast.clock();
  const read = ahead.pull();
  await cluster.clock.advance(10 * LINK_TIMEOUT_MS);
  slow.clock();
  await cluster.run(read);
  assert.deepEqual(
    lines.filter((line) => line.startsWith("warn")),
    ["warn a wait for clocks lasts longer than 5 s: at clock 1 for the slowest to reach clock 1: worker 1 at clock 0"],
    "ParkingLot.P5, and nothing about links",
  );
  assert.equal(cluster.worker(0).metrics.linksOpened, linksOpened);
});

for (const [cut, hosts] of [
  ["a worker that was cut off from one server", ["worker-0", "server-0"]],
  ["a worker whose server was taken for dead and lives", ["server-0"]],
] as const) {
  test(`${cut} tells it the clocks it missed, and under BSP nobody waits for them afterwards`, async () => {
    const cluster = cutCluster({ serverCount: 2 });
    await cluster.start();
    const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
    const tensors = await cluster.run(
      Promise.all(sessions.map((session) => session.tensor("w", { shape: [300_000], optimizer: "sum", consistency: "bsp" }))),
    );
    await cluster.run(Promise.all(tensors.map((tensor) => tensor.pull())));
    const [from, to] = hosts;
    if (to === undefined) cluster.network.isolate(from);
    else cluster.network.partition(from, to);
    for (const session of sessions) session.clock();
    await cluster.clock.advance(2 * LINK_TIMEOUT_MS);
    cluster.network.heal();
    await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
    await cluster.clock.runUntil(Promise.all(tensors.map((tensor) => tensor.pull())), { untilMs: cluster.clock.nowMs() + 10_000 });
  });
}

/**
 * A worker's session whose server takes what it sends, but cannot answer: so updates are applied, and fail. `isAlone`:
 * it does not hear the scheduler either.
 */
async function unanswered({ isAlone }: { readonly isAlone: boolean }) {
  const cluster = cutCluster({ workerCount: 1 });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const cut = (): void => {
    for (const host of isAlone ? ["server-0", "scheduler"] : ["server-0"]) cluster.network.partition(host, "worker-0", { isOneWay: true });
  };
  const loses = async (promise: Promise<unknown>): Promise<void> => {
    await assert.rejects(
      cluster.run(promise),
      (error) => isWeighbridgeError(error, isAlone ? "NODE_DEAD" : "LINK_LOST") && /may have been applied/.test(error.message),
    );
    cluster.network.heal();
    await cluster.clock.advance(3 * HEARTBEAT_TIMEOUT_MS);
    if (isAlone) await cluster.run(session.rejoin()); // it was taken for dead meanwhile
  };
  return { cluster, session, cut, loses };
}

for (const [who, isAlone] of [
  ["a worker that one server cannot answer", false],
  ["a worker that hears neither server nor scheduler", true],
] as const) {
  test(`a cache of ${who} does not push updates again that failed and may have been applied`, async () => {
    const { cluster, session, cut, loses } = await unanswered({ isAlone });
    const table = await cluster.run(session.embedding("e", { dim: 2, optimizer: "sum", versions: true }));
    const cache = table.cached({ rows: 4, pushBound: Infinity });
    await cluster.run(cache.pull([1, 2]));
    await cluster.run(cache.push([1, 2], Float32Array.of(1, 1, 1, 1)));
    cut();
    await loses(cache.flush());
    await cluster.run(cache.flush());
    assert.deepEqual(await cluster.run(table.pull([1, 2])), Float32Array.of(1, 1, 1, 1));
    await cluster.run(cache.push([1], Float32Array.of(1, 1)));
    assert.deepEqual(await cluster.run(cache.pull([1, 2])), Float32Array.of(2, 2, 1, 1));
    await cluster.run(cache.close());
    assert.deepEqual(await cluster.run(table.pull([1, 2])), Float32Array.of(2, 2, 1, 1));
  });

  test(`top-k of ${who} does not send again what failed and may have been applied, neither with the next push nor with a flush`, async () => {
    const SIZE = 300;
    const { cluster, session, cut, loses } = await unanswered({ isAlone });
    const tensor = await cluster.run(session.tensor("w", { shape: [SIZE], optimizer: "sum", link: { push: { topK: 0.1 } } }));
    const ones = new Float32Array(SIZE).fill(1);
    await cluster.run(tensor.push(ones));
    cut();
    await loses(tensor.push(ones));
    cut();
    await loses(tensor.flushResidual());
    await cluster.run(tensor.flushResidual());
    const sums = await cluster.run(tensor.pull());
    const shown = sums.filter((sum) => sum === 2).length;
    assert.equal(shown, SIZE / 10, "what the failed push had sent");
    assert.equal(sums.filter((sum) => sum === 1).length, SIZE - shown, "all else of the one that was acknowledged, once");
  });
}

test("workers that cannot reach each other end an operation among them with LINK_LOST", async () => {
  const cluster = cutCluster();
  await cluster.start();
  const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  const workers = await cluster.run(Promise.all(sessions.map((session) => session.collective())));
  await cluster.run(Promise.all(workers.map((worker) => worker.allReduce(Float32Array.of(1)))));
  cluster.network.partition("worker-0", "worker-1");
  const cutAtMs = cluster.clock.nowMs();
  const ends = workers.map((worker) => assert.rejects(worker.allReduce(Float32Array.of(1)), throwsCode("LINK_LOST", /worker [01]/)));
  await cluster.run(Promise.all(ends));
  assert.ok(cluster.clock.nowMs() - cutAtMs <= LINK_TIMEOUT_MS, `${cluster.clock.nowMs() - cutAtMs} ms`);
});

const SEEDS = 40;

test(`after healing the sum is what was acknowledged plus those failed updates that a read shows, each at most once, for ${SEEDS} seeds`, async () => {
  let failedCount = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    failedCount += await runCutLinks(seed);
  });
  assert.ok(failedCount > SEEDS, `only ${failedCount} updates failed`);
});

test("a worker of the kv face that was taken for dead learns it at its next barrier, once", async () => {
  const cluster = cutCluster();
  await cluster.start();
  cluster.network.partition("worker-0", "scheduler", { breakLinks: true });
  await cluster.clock.advance(3 * HEARTBEAT_TIMEOUT_MS);
  cluster.network.heal();
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS);
  const enter = (rank: number): Promise<void> => cluster.worker(rank).node.barrier(Group.WORKERS, 0);
  const other = enter(1);
  await assert.rejects(cluster.run(enter(0)), throwsCode("NODE_DEAD", /^this node was taken for dead, and is alive again/));
  await cluster.run(Promise.all([enter(0), other]));
  await cluster.finalize();
});
