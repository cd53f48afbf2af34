// Goal: runs of small pushes that a head sends to its standby before it handles them count once, and what the head
// refuses of them is refused by its standby, whoever is killed or cut off meanwhile.

import assert from "node:assert/strict";
import { test } from "node:test";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Server } from "../../src/server/server.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { DEADLINE } from "./replicated-job.ts";
import { runAhead, serverOf, WIDE } from "./run-ahead.ts";
import { forSeeds } from "./seeds.ts";

test("pushes of runs count once, and are refused once, for 8 seeds (RunAhead.A1, RunAhead.A2, Availability.I5)", async () => {
  let aheadCount = 0;
  await forSeeds({ from: 1, count: 8 }, async (seed) => {
    aheadCount += await runAhead(seed);
  });
  assert.ok(aheadCount > 40, `only ${aheadCount} runs were sent ahead`);
});

test("what a head refuses of a run, and dies before it can tell, is refused by the standby that takes over (RunAhead.A2, LoggedRequests.I5)", async () => {
  const [head, standby] = [idOf("server", 0), idOf("standby", 0)];
  const cluster = new SimCluster({ seed: 4, serverCount: 1, workerCount: 1, replicas: 2, settle: SETTLING });
  await cluster.start();
  for (const node of [head, standby]) new KVServer(cluster.office(node), 0);
  const worker = new KVWorker(cluster.worker(0), 0);
  const push = (key: number, ...values: number[]): Promise<void> =>
    worker.wait(worker.push(BigUint64Array.of(BigInt(key)), Float32Array.from(values)), DEADLINE);
  await cluster.run(push(WIDE, 1, 1));
  let runCount = 0;
  const { log } = serverOf(cluster, head).replica as NonNullable<Server["replica"]>;
  const append = log.appendRun.bind(log);
  log.appendRun = (...run) => {
    runCount++;
    append(...run);
    log.appendText = () => {}; // nothing else leaves this head
    cluster.network.partition(cluster.hostOf(head), cluster.hostOf(idOf("worker", 0)), { isOneWay: true });
  };
  const pushes = [push(1, 1), push(WIDE, 1), push(2, 1)];
  const refused = assert.rejects(pushes[1] as Promise<void>, throwsCode("VALUE_LENGTH"));
  await cluster.clock.advance(20);
  cluster.kill(head);
  cluster.network.heal();
  await cluster.run(Promise.all([pushes[0], refused, pushes[2]]));
  assert.equal(runCount, 1);
  const read = new Float32Array(2);
  await cluster.run(worker.wait(worker.pull(BigUint64Array.of(1n, 2n), read), DEADLINE));
  assert.deepEqual([...read], [1, 1]);
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
});
