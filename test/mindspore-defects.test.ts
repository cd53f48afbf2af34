// mindspore-defects — Goal: what went wrong in MindSpore's parameter server goes right here, defect by defect; the
// numbers are those of our notes on it. Those that are not here have tests of their own: 2 test/training/async, 4 and 5
// src/store and src/api (rows beyond 2^24, unknown rows), 7 test/simulation/checkpoints, 8 test/e2e/train and launch, 9
// src/node/config (unknown keys), 10 test/conformance/optimizers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../src/api/session.ts";
import { WeighbridgeError } from "../src/base/errors.ts";
import { EmbeddedCluster } from "../src/node/embedded-cluster.ts";
import { serveManagement } from "../src/node/manage-server.ts";
import { SimCluster } from "../src/testing/sim-cluster.ts";
import type { StatusReply } from "../src/wire/control.ts";
import type { ScalingReport } from "../src/wire/scaling.ts";
import { temporaryFolder } from "./support/checkpoint-stage.ts";

test("defect 1, workers that spin: a read that has to wait for others is asked once, and waits at the server", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 2, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  await cluster.start();
  const offices = [cluster.worker(0), cluster.worker(1)];
  const sessions = await cluster.run(Promise.all(offices.map((office) => Session.open(office.node))));
  const tensors = await cluster.run(
    Promise.all(sessions.map((session) => session.tensor("w", { shape: [4], optimizer: { type: "sum" }, consistency: "bsp" }))),
  );
  await cluster.run(tensors[0]!.push(Float32Array.of(1, 2, 3, 4)));
  sessions[0]!.clock();
  let isRead = false;
  const reading = tensors[0]!.pull().then((values) => {
    isRead = true;
    return values;
  });
  await cluster.clock.advance(10_000); // the server has said once, after 5 s, whom it waits for (ParkingLot.P5)
  const [{ framesSent: workerSent }, { framesSent: serverSent }] = [cluster.worker(0).metrics, cluster.server(0).metrics];
  await cluster.clock.advance(60_000);
  assert.equal(isRead, false, "it waits for worker 1");
  assert.equal(cluster.worker(0).metrics.framesSent, workerSent, "nothing is asked again in a minute");
  assert.equal(cluster.server(0).metrics.framesSent, serverSent, "nor answered with not yet");
  await cluster.run(tensors[1]!.push(Float32Array.of(1, 1, 1, 1)));
  sessions[1]!.clock();
  assert.deepEqual([...(await cluster.run(reading))], [2, 3, 4, 5]);
  await cluster.finalize();
});

test("defect 3, a gradient that means none: a push of the one value -100 counts like any other", async () => {
  await using cluster = await EmbeddedCluster.start();
  const [session] = cluster.sessions;
  const tensor = await session!.tensor("bias", { shape: [1], optimizer: { type: "sgd", learningRate: 1 } });
  await tensor.push(Float32Array.of(-100));
  assert.deepEqual([...(await tensor.pull())], [100]);
  const table = await session!.embedding("rows", { dim: 1, optimizer: { type: "sgd", learningRate: 1 } });
  await table.push([7n], Float32Array.of(-100));
  assert.deepEqual([...(await table.pull([7n]))], [100]);
});

test("defect 6, only what caches wrote back is saved: what optimizers on the servers changed comes back, dense and sparse", async () => {
  using folder = temporaryFolder();
  const optimizer = { type: "adam", learningRate: 0.1 } as const;
  const open = async (session: Session) => ({
    dense: await session.tensor("dense", { shape: [3], optimizer }),
    rows: await session.embedding("rows", { dim: 2, optimizer }),
  });
  const push = async ({ dense, rows }: Awaited<ReturnType<typeof open>>): Promise<number[]> => {
    await Promise.all([dense.push(Float32Array.of(1, -2, 3)), rows.push([5n, 9n], Float32Array.of(1, 2, 3, 4))]);
    return [...(await dense.pull()), ...(await rows.pull([5n, 9n]))];
  };
  let expected: number[];
  {
    await using cluster = await EmbeddedCluster.start({ checkpointDir: folder.path });
    const [session] = cluster.sessions;
    const model = await open(session!);
    await push(model);
    await session!.checkpoint().saved;
    expected = await push(model);
  }
  await using restored = await EmbeddedCluster.start({ restore: folder.path });
  assert.deepEqual(await push(await open(restored.sessions[0]!)), expected, "values and Adam's moments are those of the checkpoint");
});

test("defects 11 and 12, an HTTP interface that goes on after an error: a malformed or premature change is answered once, and changes nothing", async () => {
  const status: StatusReply = { job: "job-1", phase: "forming", serverCount: 2, workerCount: 1, uptimeMs: 5, nodes: [], waiting: [] };
  const report: ScalingReport = { wishedCount: 2, shares: [], queued: [], ended: [] };
  const asked: unknown[] = [];
  const change = async (what: unknown): Promise<number> => {
    asked.push(what);
    throw new WeighbridgeError("NO_ROUTE", "the cluster is not ready", { retryable: true });
  };
  const nothing = (): never => assert.fail("this was not asked for");
  const job = { status: async () => status, scalingReport: async () => report, change, rollBack: nothing };
  const server = await serveManagement(0, job);
  const at = (path: string): string => `http://127.0.0.1:${server.port}${path}`;
  try {
    for (const [path, body] of [
      ["/scalein", '{"node_ids": ['],
      ["/scaleout", '{"worker_num": 0, "server_num": 2}'],
    ] as const) {
      const reply = await fetch(at(path), { method: "POST", body, headers: { "content-type": "application/json" } });
      assert.equal(reply.status, 400);
      assert.match(((await reply.json()) as { error_message: string }).error_message, path === "/scalein" ? /is not JSON/ : /is not ready/);
      assert.deepEqual(await (await fetch(at("/status"))).json(), { ...status, scaling: report });
    }
    assert.deepEqual(asked, [{ servers: { add: 2 } }]); // what was malformed asked for nothing
  } finally {
    await server.close();
  }
});
