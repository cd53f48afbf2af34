// Goal: a worker and a server that reach the scheduler but not each other notice it in time, say so, and leave no call waiting (protocol.md, R17, R18).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError, type WeighbridgeError } from "../../src/base/errors.ts";
import { KVServer } from "../../src/kv/kv-server.ts";
import { KVWorker } from "../../src/kv/kv-worker.ts";
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
  assert.equal(push.retryable, false, "repeating it might count twice");
  assert.match(read.message, /server 0 .*nothing was applied/);
  assert.equal(read.retryable, true);

  const later = await cluster.run(failed(kv.wait(kv.push(KEY, Float32Array.of(1)))));
  assert.match(later.message, /server 0 .*nothing was applied/);
  assert.equal(later.retryable, true, "it never left");
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

test("a read that is parked at its server for long is no silence: its link stays, and nobody is warned", async () => {
  const lines: string[] = [];
  const cluster = cutCluster({ log: keptLog(lines) });
  await cluster.start();
  const [fast, slow] = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank)))));
  assert.ok(fast !== undefined && slow !== undefined);
  const [ahead, behind] = await cluster.run(
    Promise.all([fast, slow].map((session) => session.tensor("w", { shape: [2], consistency: "bsp" }))),
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
    [],
  );
  assert.equal(cluster.worker(0).metrics.linksOpened, linksOpened);
});

const SEEDS = 60;

test(`after healing the sum is what was acknowledged plus those failed updates that a read shows, each at most once, for ${SEEDS} seeds`, async () => {
  let failedCount = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    failedCount += await runCutLinks(seed);
  });
  assert.ok(failedCount > SEEDS, `only ${failedCount} updates failed`);
});
