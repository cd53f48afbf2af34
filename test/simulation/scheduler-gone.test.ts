// Goal: a scheduler that dies for good stops nobody from training, and leaves nobody waiting (Availability.I7).

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { type Log, SILENT_LOG } from "../../src/base/log.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { meshOf } from "../../src/testing/start-office.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { Group, idOf, nameOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { keptLog } from "./cut-links.ts";

const START_TIMEOUT_MS = 3000;
const HEARTBEAT_TIMEOUT_MS = 2000;
const KEY = BigUint64Array.of(7n);

/** A cluster of two servers that wait for its end, and two workers. */
async function runningCluster() {
  const lines = new Map<number, string[]>();
  const optionsOf = (node: number) => {
    const own = lines.get(node) ?? [];
    lines.set(node, own);
    return { log: keptLog(own), ...(node === SCHEDULER_ID ? { startTimeoutMs: 20 * START_TIMEOUT_MS } : {}) };
  };
  const cluster = new SimCluster({
    seed: 1,
    serverCount: 2,
    workerCount: 2,
    startTimeoutMs: START_TIMEOUT_MS,
    heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS,
    optionsOf,
    settle: SETTLING,
  });
  await cluster.start();
  const ends = [0, 1].map((rank) => {
    new KVServer(cluster.server(rank), 0);
    const end: { error?: unknown } = {};
    cluster
      .server(rank)
      .finalize()
      .catch((error: unknown) => {
        end.error = error;
      });
    return end;
  });
  const kv = new KVWorker(cluster.worker(0), 0);
  const add = async (value: number): Promise<number> => {
    const values = new Float32Array(1);
    await kv.wait(kv.pushPull(KEY, Float32Array.of(value), values));
    return values[0] as number;
  };
  return { cluster, ends, kv, add, lines };
}

/** What may happen to a scheduler that stays away: it is killed, or it is stopped or cut off, and nobody is told. */
const LOSSES: Readonly<Record<string, (cluster: SimCluster) => void>> = {
  killed: (cluster) => cluster.kill(SCHEDULER_ID),
  "stopped or cut off": (cluster) => cluster.network.isolate(cluster.hostOf(SCHEDULER_ID)),
};

for (const [loss, lose] of Object.entries(LOSSES)) {
  test(`servers with live workers stay when the scheduler is ${loss} for good, and end once the workers are gone, saying why`, async () => {
    const { cluster, ends, add } = await runningCluster();
    lose(cluster);
    await cluster.clock.advance(10 * START_TIMEOUT_MS);
    assert.equal(await cluster.run(add(2)), 2);
    assert.deepEqual(ends, [{}, {}]);
    await cluster.run(Promise.all([cluster.worker(0).close(), cluster.worker(1).close()]));
    await cluster.clock.advance(2 * START_TIMEOUT_MS);
    for (const { error } of ends) {
      assert.ok(isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"), String(error));
      assert.match(error.message, /the scheduler at sim:\/\/scheduler:1 has been away for \d+ ms.*no worker is connected either/);
    }
  });

  for (const [death, kill] of Object.entries({
    killed: (cluster: SimCluster) => cluster.kill(idOf("server", 0)),
    stopped: (cluster: SimCluster) => cluster.network.isolate("server-0"),
  })) {
    test(`a server that is ${death} while the scheduler is ${loss} is noticed within the heartbeat timeout: calls fail naming it`, async () => {
      const { cluster, add, lines } = await runningCluster();
      await cluster.run(add(1));
      lose(cluster);
      await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
      kill(cluster);
      const killedAtMs = cluster.clock.nowMs();
      await assert.rejects(
        cluster.run(add(1)),
        (error) =>
          isWeighbridgeError(error, "NODE_DEAD") &&
          /server 0 could not be reached over sim:.*and the scheduler is away/.test(error.message),
      );
      assert.ok(cluster.clock.nowMs() - killedAtMs <= HEARTBEAT_TIMEOUT_MS, `${cluster.clock.nowMs() - killedAtMs} ms`);
      const idle = lines.get(idOf("worker", 1)) ?? [];
      await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS / 10);
      assert.ok(
        idle.some((line) => line.startsWith("warn a node cannot be reached from=worker 1 to=server 0")),
        "a worker without calls notices it too",
      );
    });
  }

  test(`what needs the scheduler fails naming it, when it is ${loss}`, async () => {
    const { cluster } = await runningCluster();
    lose(cluster);
    const office = cluster.worker(0);
    const names = (error: unknown): boolean =>
      isWeighbridgeError(error, "SCHEDULER_UNREACHABLE") && error.message.includes("the scheduler at sim://scheduler:1 has been away");
    const units = { epoch: 0, batchCount: 1, partCount: 1, assignment: "free" } as const;
    const lent = office.worker?.sessions?.units;
    assert.ok(lent !== undefined);
    const asked = [office.barrier(0, Group.WORKERS), lent.open("train", units), meshOf(office).gather()];
    const ends = asked.map((promise) => assert.rejects(promise as Promise<unknown>, names));
    await cluster.run(Promise.all(ends));
    await assert.rejects(cluster.run(office.finalize()), names);
  });
}

test("a killed scheduler is mentioned in every node's log at once, and so is its return", async () => {
  const { cluster, lines } = await runningCluster();
  cluster.kill(SCHEDULER_ID);
  await cluster.clock.advance(10);
  const others = cluster.nodes().filter((node) => node !== SCHEDULER_ID);
  const says = (node: number, text: string): boolean => (lines.get(node) ?? []).some((line) => line.startsWith(text));
  for (const node of others) assert.ok(says(node, "warn the scheduler at sim://scheduler:1 is away"), nameOf(node));
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.clock.advance(2000);
  for (const node of others) assert.ok(says(node, "info the scheduler at sim://scheduler:1 is back"), nameOf(node));
});

test("a scheduler that comes back long after the start timeout finds everybody there, and the job ends well", async () => {
  const { cluster, ends, add, lines } = await runningCluster();
  cluster.network.isolate(cluster.hostOf(SCHEDULER_ID));
  await cluster.clock.advance(16_000);
  assert.equal(await cluster.run(add(1)), 1);
  cluster.network.heal();
  for (let i = 2; i < 40; i++) {
    assert.equal(await cluster.run(add(1)), i);
    await cluster.clock.advance(100);
  }
  assert.deepEqual(ends, [{}, {}]);
  const told = [...lines.values()].flat().filter((line) => /server \d has left/.test(line));
  assert.deepEqual(told, []);
  await cluster.finalize();
  assert.deepEqual(ends, [{}, {}]);
});

test("a node whose new scheduler is cut off before it took it back tells what waits, and goes on when it is heard of again", async () => {
  const { cluster, add, lines } = await runningCluster();
  cluster.kill(SCHEDULER_ID);
  cluster.startNode(SCHEDULER_ID).catch(() => {}); // the barriers below tell
  const isResuming = (): boolean => lines.get(idOf("worker", 0))?.some((line) => line.includes("resuming")) === true;
  for (let turn = 0; turn < 10_000 && !isResuming(); turn++) await cluster.clock.advance(0.1);
  assert.ok(isResuming());
  cluster.network.isolate(cluster.hostOf(SCHEDULER_ID));
  const waiting = cluster.worker(0).barrier(0, Group.WORKERS);
  waiting.catch(() => {}); // looked at below
  await assert.rejects(cluster.run(waiting), throwsCode("SCHEDULER_UNREACHABLE"));
  cluster.network.heal();
  await cluster.clock.advance(2000);
  await cluster.run(Promise.all([cluster.worker(0).barrier(0, Group.WORKERS), cluster.worker(1).barrier(0, Group.WORKERS)]));
  assert.equal(await cluster.run(add(1)), 1);
});

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
  await assert.rejects(cluster.run(waiting), throwsCode("SCHEDULER_UNREACHABLE"));
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
  const cluster = new SimCluster({ seed: 3004, serverCount: 0, workerCount: 2, log, settle: SETTLING });
  await cluster.start();
  const office = cluster.worker(0);
  const before = office.barrier(0, Group.WORKERS); // open with the old one, and held back
  before.catch(() => {}); // looked at below
  await cluster.clock.advance(100);
  cluster.kill(SCHEDULER_ID);
  cluster.startNode(SCHEDULER_ID).catch(() => {}); // it is never complete
  for (let turn = 0; turn < 1000 && !isResuming; turn++) await cluster.clock.advance(10);
  const units = office.worker?.sessions?.units;
  assert.ok(isResuming && units !== undefined);
  const after = units.open("train", { epoch: 0, batchCount: 1, partCount: 1, assignment: "free" });
  after.catch(() => {}); // as above
  await cluster.run(office.close());
  await assert.rejects(cluster.run(before), throwsCode("CLOSED"));
  await assert.rejects(cluster.run(after), throwsCode("CLOSED"));
});
