// Goal: a scheduler that cannot take a job over, because nodes of ps-lite are in it or because it is one of ps-lite's,
// leaves nobody waiting, is not dialed more often than ps-lite's nodes would, and our nodes say what is true of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { EMPTY, PsCommand, PsRole } from "../../src/pslite/wire/ps-meta.ts";
import { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import { Group } from "../../src/wire/node-id.ts";
import { messageBytes, metasOf } from "./pslite-notes.ts";
import { RawDialer, RawListener } from "./pslite-recording.ts";
import { workerOfOurs } from "./pslite-worker.ts";

const START_TIMEOUT_MS = 8000;
const REDIAL_MS = 100;

/** A server and a worker of ours with a worker of theirs, which listens at 9650, under our scheduler. */
async function mixedCluster(): Promise<PsliteCluster> {
  const cluster = new PsliteCluster({ workerCount: 2, startTimeoutMs: START_TIMEOUT_MS, startBarrier: false });
  const starting = Promise.all(
    (["scheduler", "server", "worker"] as const).map((role) => cluster.startNode(role, role === "scheduler" ? role : `${role}-0`)),
  );
  await RawListener.at(cluster, 9650);
  await cluster.clock.advance(50);
  const theirs = await RawDialer.to(cluster, 9600);
  theirs.greet("");
  const node = { role: PsRole.WORKER, id: EMPTY, hostname: "127.0.0.1", port: 9650, isRecovery: false, customerId: 0 };
  theirs.write(messageBytes({ command: PsCommand.ADD_NODE, nodes: [node], timestamp: 0 }));
  await cluster.run(starting);
  return cluster;
}

test("a scheduler of ours that is started again under nodes of theirs is told nothing, and who waits hears that the job cannot go on", async () => {
  const cluster = await mixedCluster();
  const waiting = cluster.office("worker-0").barrier(0, Group.WORKERS);
  waiting.catch(() => {}); // looked at below
  await cluster.clock.advance(100);
  cluster.kill("scheduler");
  const killedAtMs = cluster.clock.nowMs();
  const linkCount = (name: string): number => cluster.links.get(name)?.length ?? 0;
  const before = linkCount("server-0");
  await cluster.clock.advance(1000);
  cluster.startNode("scheduler", "scheduler-2").catch(() => {}); // it is never complete
  await assert.rejects(cluster.run(waiting), (error) => {
    assert.ok(isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"));
    assert.match(
      error.message,
      /\(the scheduler at its address was started later, and does not know this job\); under nodes of ps-lite .*start it anew/,
    );
    return true;
  });
  const awayMs = cluster.clock.nowMs() - killedAtMs;
  assert.ok(awayMs <= START_TIMEOUT_MS + 100, `after ${awayMs} ms`);
  const dialCount = linkCount("server-0") - before;
  assert.ok(dialCount > 0 && dialCount <= 20, `${dialCount} connections in ${awayMs} ms`);
  assert.deepEqual(
    cluster.logLines.filter((line) => /^scheduler-2 (warn|error) /.test(line)),
    [],
  );
});

test("who stands at a barrier when their scheduler is started again hears of it, after the start's time, and again when it asks again", async () => {
  const { cluster, office, scheduler, schedulerListens } = await workerOfOurs();
  const dialed = cluster.links.get("worker-0") ?? [];
  for (let holder = 2; holder <= 3; holder++) {
    const waiting = office.barrier(0, Group.ALL);
    waiting.catch(() => {}); // looked at below
    await cluster.clock.advance(100);
    const brokeAtMs = cluster.clock.nowMs();
    const before = dialed.length;
    if (holder === 2) {
      await schedulerListens.kill();
      scheduler.destroy();
      await RawListener.at(cluster, 9600);
    }
    await assert.rejects(cluster.run(waiting), (error) => {
      assert.ok(isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"));
      assert.match(error.message, /waited at the barrier of group 7, and 60000 ms later it is not over: a scheduler of ps-lite/);
      return true;
    });
    assert.ok(cluster.clock.nowMs() - brokeAtMs <= 60_200);
    assert.ok(dialed.length - before <= 2, `${dialed.length - before} connections`);
  }
  await cluster.run(office.close());
});

test("their scheduler that cuts off whoever dials it is dialed at a pace that falls, and never faster than once in 100 ms (RemoteProcess.B3)", async () => {
  const { cluster, office, scheduler, schedulerListens } = await workerOfOurs();
  await schedulerListens.kill();
  scheduler.destroy();
  const listener = await RawListener.at(cluster, 9600);
  const dialedAtMs: number[] = [];
  for (let tick = 0; tick < 2000; tick++) {
    await cluster.clock.advance(5);
    if (listener.connections.length > dialedAtMs.length) dialedAtMs.push(cluster.clock.nowMs());
    const last = listener.connections.at(-1);
    if (last !== undefined && last.hex.length > 0 && !last.isClosed) listener.cutOff();
  }
  const pausesMs = dialedAtMs.slice(1).map((atMs, i) => atMs - (dialedAtMs[i] as number));
  assert.ok(pausesMs.length >= 5 && pausesMs.every((pauseMs) => pauseMs >= REDIAL_MS - 5), pausesMs.join());
  assert.ok((pausesMs.at(-1) ?? 0) >= 1000, pausesMs.join());
  assert.equal(listener.connections.flatMap(({ hex }) => metasOf(hex)).length, 0);
  await cluster.run(office.close());
});

test("a node without a place hears why the job is over, also when the scheduler was gone before it had read that", async () => {
  const cluster = new PsliteCluster({ startTimeoutMs: START_TIMEOUT_MS });
  const listener = await RawListener.at(cluster, 9600);
  const starting = cluster.startNode("worker", "worker-0");
  starting.catch(() => {}); // looked at below
  await cluster.clock.advance(200);
  const dialer = await RawDialer.to(cluster, 9601);
  dialer.greet("ps1");
  await cluster.clock.advance(10);
  await listener.kill();
  await cluster.clock.advance(10);
  const body = new TextEncoder().encode(JSON.stringify({ code: "NO_ROUTE", message: "the job is over", retryable: false }));
  const killedAtMs = cluster.clock.nowMs();
  dialer.write(messageBytes({ command: PsCommand.TERMINATE, customerId: 0, body }));
  await assert.rejects(cluster.run(starting), (error) => isWeighbridgeError(error, "NO_ROUTE") && error.message === "the job is over");
  assert.ok(cluster.clock.nowMs() - killedAtMs < 1000);
});
