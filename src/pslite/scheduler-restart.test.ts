// Goal: a scheduler that is killed and started again takes a job of ours over, also over ps-lite's protocol; where it cannot, nodes say so, and
// nobody waits longer than the start's time or dials faster than ps-lite does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { KVServer } from "../kv/kv-server.ts";
import { KVWorker } from "../kv/kv-worker.ts";
import { PsliteCluster, type PsliteClusterOptions } from "../testing/pslite-cluster.ts";
import { Group } from "../wire/node-id.ts";

const START_TIMEOUT_MS = 8000;
const ONE = Float32Array.of(1);
const KEY = BigUint64Array.of(7n);

async function started(options: PsliteClusterOptions = {}): Promise<{ cluster: PsliteCluster; kv: KVWorker }> {
  const cluster = await PsliteCluster.start({ workerCount: 2, startTimeoutMs: START_TIMEOUT_MS, ...options });
  new KVServer(cluster.office("server-0"), 0);
  return { cluster, kv: new KVWorker(cluster.office("worker-0"), 0) };
}

/** Kills the scheduler of that name, and starts another one after a while. */
async function restartScheduler(cluster: PsliteCluster, name: string, next: string): Promise<void> {
  cluster.kill(name);
  await cluster.clock.advance(1500);
  await cluster.run(cluster.startNode("scheduler", next));
}

for (const [title, options] of [
  ["", {}],
  [", without heartbeats", { heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 }],
  [", with resending", { resendTimeoutMs: 200 }],
] as const) {
  test(`a scheduler that is started again, twice, is told the job by its nodes, and who stood at a barrier stands there still${title}`, async () => {
    const { cluster, kv } = await started(options);
    await cluster.run(Promise.all([0, 1].map((rank) => cluster.office(`worker-${rank}`).barrier(0, Group.WORKERS))));
    let name = "scheduler";
    for (let life = 2; life <= 3; life++) {
      const waiting = cluster.office("worker-1").barrier(0, Group.WORKERS);
      await cluster.clock.advance(100);
      await restartScheduler(cluster, name, `scheduler-${life}`);
      name = `scheduler-${life}`;
      await cluster.run(kv.wait(kv.push(KEY, ONE)));
      await cluster.clock.advance(7000); // longer than a silent node would live
      assert.ok(cluster.office(name).isRecovery);
      assert.deepEqual(cluster.office(name).deadNodes(), []);
      await cluster.run(Promise.all([waiting, cluster.office("worker-0").barrier(0, Group.WORKERS)]));
    }
    const out = new Float32Array(1);
    await cluster.run(kv.wait(kv.pull(KEY, out)));
    assert.equal(out[0], 2);
    await cluster.finalize();
  });
}

test("a node whose connections with the scheduler broke while it stood at a barrier hears that it is over, and is no round ahead", async () => {
  const { cluster } = await started();
  const [first, second] = [cluster.office("worker-0"), cluster.office("worker-1")];
  for (let round = 1; round <= 3; round++) {
    const waiting = first.barrier(0, Group.WORKERS);
    await cluster.clock.advance(100);
    for (const name of ["worker-0", "scheduler"]) for (const link of cluster.links.get(name) ?? []) link.destroy();
    await cluster.clock.advance(round === 2 ? 0 : 300); // in the second round it is over before the node is back
    const [order, enter] = [[] as string[], second.barrier(0, Group.WORKERS)];
    await cluster.run(Promise.all([waiting, enter]));
    const early = first.barrier(0, Group.WORKERS).then(() => order.push("passed"));
    await cluster.clock.advance(3000);
    order.push("entered");
    await cluster.run(Promise.all([early, second.barrier(0, Group.WORKERS)]));
    assert.deepEqual(order, ["entered", "passed"]);
  }
  await cluster.finalize();
});

test("lives are what they were before the scheduler was started again: who took a dead one's place keeps it, and dies for the next", async () => {
  const { cluster, kv } = await started({ heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 });
  const replace = async (name: string): Promise<void> => {
    const office = await cluster.run(cluster.startNode("server", name));
    assert.deepEqual([office.nodeId, office.isRecovery], [8, true]);
    new KVServer(office, 0);
    await cluster.clock.advance(3000);
    await assert.rejects(cluster.run(kv.wait(kv.push(KEY, ONE))), /server 0 was started again/);
    await cluster.run(kv.wait(kv.push(KEY, ONE)));
  };
  cluster.kill("server-0");
  await cluster.clock.advance(4000);
  await replace("server-life-2");
  cluster.kill("worker-1");
  await cluster.clock.advance(4000);
  await cluster.run(cluster.startNode("worker", "worker-late")); // it knows no first life of the server
  await restartScheduler(cluster, "scheduler", "scheduler-2");
  await cluster.clock.advance(5000);
  assert.deepEqual(cluster.office("scheduler-2").deadNodes(), []);
  await cluster.run(kv.wait(kv.push(KEY, ONE)));
  cluster.kill("server-life-2");
  await cluster.clock.advance(4000);
  assert.deepEqual(cluster.office("scheduler-2").deadNodes(), [8]);
  await replace("server-life-3");
  await cluster.run(Promise.all(["worker-0", "worker-late"].map((name) => cluster.office(name).barrier(0, Group.WORKERS))));
  await cluster.finalize();
});

test("a node that died with the scheduler is dead under the next one, which a replacement mends", async () => {
  const { cluster, kv } = await started({ heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 });
  cluster.kill("worker-1");
  await restartScheduler(cluster, "scheduler", "scheduler-2");
  await cluster.clock.advance(4000);
  assert.deepEqual(cluster.office("scheduler-2").deadNodes(), [cluster.office("worker-0").nodeId === 9 ? 11 : 9]);
  await assert.rejects(cluster.run(cluster.office("worker-0").barrier(0, Group.WORKERS)), (error) =>
    isWeighbridgeError(error, "NODE_DEAD"),
  );
  await cluster.run(cluster.startNode("worker", "worker-2"));
  await cluster.run(Promise.all(["worker-0", "worker-2"].map((name) => cluster.office(name).barrier(0, Group.WORKERS))));
  await cluster.run(kv.wait(kv.push(KEY, ONE)));
  await cluster.finalize();
});

test("a scheduler that was started with other counts is left, and the nodes wait for one that was started rightly", async () => {
  const { cluster } = await started();
  cluster.kill("scheduler");
  await cluster.clock.advance(1000);
  const wrong = cluster.startNode("scheduler", "wrong", { workerCount: 3 });
  await assert.rejects(cluster.run(wrong), (error) => isWeighbridgeError(error, "COUNT_MISMATCH"));
  await cluster.clock.advance(500);
  await cluster.run(cluster.startNode("scheduler", "right"));
  await cluster.run(Promise.all([0, 1].map((rank) => cluster.office(`worker-${rank}`).barrier(0, Group.WORKERS))));
  await cluster.finalize();
});
