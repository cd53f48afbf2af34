// Goal: a node that was not told to speak ps-lite's protocol is refused by a cluster that does, and nobody else
// notices.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { PSLITE_SCHEDULER, PsliteCluster } from "../testing/pslite-cluster.ts";
import { startOffice } from "../testing/start-office.ts";

test("a node that speaks our own protocol is told by a scheduler of ps-lite's how to join, and the cluster starts without it", async () => {
  const cluster = new PsliteCluster();
  const nodes = Promise.all([cluster.startNode("scheduler", "scheduler"), cluster.startNode("server", "server-0")]);
  const stranger = startOffice({
    role: "worker",
    serverCount: 1,
    workerCount: 1,
    schedulerAddress: PSLITE_SCHEDULER,
    transport: cluster.transport("stranger"),
    clock: cluster.clock,
    log: SILENT_LOG,
    label: "stranger",
  });
  await assert.rejects(
    cluster.run(stranger),
    (error) => isWeighbridgeError(error, "BAD_CONFIG") && /worker \("stranger"\).*--van zmq.*DMLC_PS_VAN_TYPE/.test(error.message),
  );
  const worker = await cluster.run(cluster.startNode("worker", "worker-0"));
  await cluster.run(nodes);
  assert.equal(worker.myRank, 0);
  await cluster.finalize();
});
