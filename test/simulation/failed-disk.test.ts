// Goal: a durable server whose disk fails ends with that reason, whatever it waits for, and is waited for: the next
// process of its rank goes on.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { WeighbridgeError } from "../../src/base/errors.ts";
import { type Log, SILENT_LOG } from "../../src/base/log.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { DurableLog, LogPage } from "../../src/server/replication/log-sink.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, roleOf } from "../../src/wire/node-id.ts";

/** A disk in memory. `fails`: it takes nothing more. */
class Disk {
  readonly pages: LogPage[] = [];
  fails = false;
  /** While set, the disk is full: what is written waits until there is room. */
  full: PromiseWithResolvers<void> | undefined;

  log(): DurableLog {
    const log: DurableLog = {
      name: "the disk",
      onFailed: () => {},
      open: async (repeat) => {
        for (const page of this.pages) repeat(page);
      },
      write: async ({ first, last, entries }) => {
        if (this.fails) {
          const error = new WeighbridgeError("STATE_IO", "cannot write the log: the disk has failed");
          log.onFailed(error);
          throw error;
        }
        await this.full?.promise;
        this.pages.push({ first, last, entries: entries.slice() });
        return last;
      },
      trim: () => {},
      remove: async () => {},
      close: async () => {},
    };
    return log;
  }
}

test("a server that waits for the end of the job ends when its disk fails; a push waits for the next process and counts once", async () => {
  const disk = new Disk();
  const cluster = new SimCluster({
    ...{ seed: 1, serverCount: 1, workerCount: 1, heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 },
    optionsOf: (node) => (roleOf(node) === "server" ? { durable: disk.log() } : {}),
  });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const sums = await cluster.run(session.tensor("sums", { shape: [2], optimizer: "sum" }));
  await cluster.run(sums.push(Float32Array.of(1, 2)));
  const ended = assert.rejects(cluster.server(0).node.finalize(), throwsCode("STATE_IO", /the disk has failed/));
  await cluster.clock.advance(3000);
  disk.fails = true;
  const push = sums.push(Float32Array.of(10, 20));
  await cluster.run(ended);
  await cluster.clock.advance(100);
  const server = idOf("server", 0);
  assert.equal(cluster.worker(0).node.roster.nodes.find(({ node }) => node === server)?.state, "dead");
  cluster.kill(server);
  disk.fails = false;
  await cluster.run(cluster.startNode(server));
  await cluster.run(push);
  assert.deepEqual(await cluster.run(sums.pull()), Float32Array.of(11, 22));
});

test("status shows a durable server whose disk is full, and for how long its answers have been held back, until there is room", async () => {
  const disk = new Disk();
  const lines: string[] = [];
  const log: Log = { ...SILENT_LOG, warn: (message) => void lines.push(message) };
  const cluster = new SimCluster({
    ...{ seed: 1, serverCount: 1, workerCount: 1, heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 },
    optionsOf: (node) => (roleOf(node) === "server" ? { durable: disk.log(), log } : {}),
  });
  await cluster.start();
  const heldMs = (): number | undefined => {
    const { node } = cluster.scheduler;
    assert.ok(node instanceof SchedulerNode);
    return node.scheduler.status().nodes.find(({ role }) => role === "server")?.heldMs;
  };
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const sums = await cluster.run(session.tensor("sums", { shape: [2], optimizer: { type: "sum" } }));
  disk.full = Promise.withResolvers();
  const push = sums.push(Float32Array.of(1, 2));
  await cluster.clock.advance(600);
  assert.equal(heldMs(), undefined, "a disk may be slow");
  await cluster.clock.advance(20_000);
  assert.ok((heldMs() ?? 0) > 15_000, String(heldMs()));
  assert.deepEqual(lines, ["the disk does not take the log, and answers wait for it"]);
  disk.full.resolve();
  disk.full = undefined;
  await cluster.run(push);
  await cluster.clock.advance(1000);
  assert.equal(heldMs(), undefined);
  assert.deepEqual(await cluster.run(sums.pull()), Float32Array.of(1, 2));
});
