// pslite-worker — a worker of ours in the place of theirs in the recording "full": scheduler and server are the test's
// to play. It has started.

import assert from "node:assert/strict";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import { RawDialer, RawListener, readRecording, sentBy } from "./pslite-recording.ts";

export type WorkerOfOurs = {
  readonly cluster: PsliteCluster;
  readonly office: Postoffice;
  readonly kv: KVWorker;
  /** What the worker sends to its server. */
  readonly server: RawListener;
  /** What the scheduler sends to the worker. */
  readonly scheduler: RawDialer;
  /** What the worker sends to the scheduler. */
  readonly schedulerListens: RawListener;
  /** From the end of the barrier to that of the start. */
  readonly beginMs: number;
};

export async function workerOfOurs(): Promise<WorkerOfOurs> {
  const cluster = new PsliteCluster({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  const schedulerListens = await RawListener.at(cluster, 9600);
  const server = await RawListener.at(cluster, 9601);
  await cluster
    .transport("port")
    .listen("tcp://127.0.0.1:0", () => assert.fail("nobody dials it"))
    .catch(() => {}); // takes 9601 out of the way
  const starting = cluster.startNode("worker", "worker-0");
  await cluster.clock.advance(200);
  const fromScheduler = sentBy(readRecording("full"), "53290", "WORKER:9602");
  const schedulerDials = await RawDialer.to(cluster, 9602);
  schedulerDials.write(...fromScheduler.slice(0, 3));
  await cluster.clock.advance(200);
  schedulerDials.write(...fromScheduler.slice(3, 4)); // the barrier of the start is over
  const overAtMs = cluster.clock.nowMs();
  const office = await cluster.run(starting);
  const beginMs = cluster.clock.nowMs() - overAtMs;
  return { cluster, office, kv: new KVWorker(office, 0), server, scheduler: schedulerDials, schedulerListens, beginMs };
}
