// Goal: a scheduler that dies for good stops nobody from training, and leaves nobody waiting.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { type Log, SILENT_LOG } from "../../src/base/log.ts";
import { KVServer } from "../../src/kv/kv-server.ts";
import { KVWorker } from "../../src/kv/kv-worker.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { Group, SCHEDULER_ID } from "../../src/wire/node-id.ts";

const START_TIMEOUT_MS = 3000;

test("without its scheduler a job pushes on, and whoever waits for the scheduler is told that it is away", async () => {
  const settle = (): Promise<void> => setImmediate();
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 2, startTimeoutMs: START_TIMEOUT_MS, settle });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  const waiting = cluster.worker(0).barrier(0, Group.WORKERS);
  waiting.catch(() => {}); // looked at below
  await cluster.clock.advance(100);
  cluster.kill(SCHEDULER_ID);
  const killedAtMs = cluster.clock.nowMs();
  await assert.rejects(cluster.run(waiting), (error) => isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"));
  assert.ok(cluster.clock.nowMs() - killedAtMs <= START_TIMEOUT_MS + 100, "in time");
  await assert.rejects(cluster.run(cluster.worker(1).barrier(0, Group.WORKERS)), (error) =>
    isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"),
  );

  const key = BigUint64Array.of(7n);
  const vals = new Float32Array(1);
  await cluster.run(kv.wait(kv.pushPull(key, Float32Array.of(2), vals)));
  assert.equal(vals[0], 2);

  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.run(Promise.all([cluster.worker(0).barrier(0, Group.WORKERS), cluster.worker(1).barrier(0, Group.WORKERS)]));
  await cluster.finalize();
});

test("a node that is closed while a new scheduler has yet to take it back ends what waits for that", async () => {
  const worker = "worker 0";
  let isResuming = false;
  const log: Log = {
    ...SILENT_LOG,
    info: (message, fields) => {
      if (!message.includes("resuming") || fields?.node !== worker) return;
      isResuming = true;
      cluster.network.isolate(cluster.hostOf(SCHEDULER_ID)); // its answer does not come
    },
  };
  const cluster = new SimCluster({ seed: 3004, serverCount: 0, workerCount: 2, log, settle: () => setImmediate() });
  await cluster.start();
  const office = cluster.worker(0);
  const before = office.barrier(0, Group.WORKERS); // open with the old one, and held back
  before.catch(() => {}); // looked at below
  await cluster.clock.advance(100);
  cluster.kill(SCHEDULER_ID);
  cluster.startNode(SCHEDULER_ID).catch(() => {}); // it is never complete
  for (let turn = 0; turn < 1000 && !isResuming; turn++) await cluster.clock.advance(10);
  assert.ok(isResuming && office.worker !== undefined);
  const after = office.worker.units.open("train", { epoch: 0, batchCount: 1, partCount: 1, assignment: "free" });
  after.catch(() => {}); // as above
  await cluster.run(office.close());
  await assert.rejects(cluster.run(before), (error) => isWeighbridgeError(error, "CLOSED"));
  await assert.rejects(cluster.run(after), (error) => isWeighbridgeError(error, "CLOSED"));
});
