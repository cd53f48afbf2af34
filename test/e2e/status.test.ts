// status — Goal: whoever asks a scheduler learns who is there, from the first node on.

import assert from "node:assert/strict";
import test from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Cluster } from "./cluster.ts";
import { Processes, type Running } from "./processes.ts";

test("shows who waits, who is there, and who is dead", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1 });
  const scheduler = cluster.scheduler();
  const server = cluster.server(0);
  const ask = async (...flags: readonly string[]): Promise<string> => {
    const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port, ...flags]);
    await status.succeeds();
    return status.stdout;
  };
  await scheduler.says(/^waiting for 1 server, 1 worker at 127\./);
  const forming = await untilSays(ask, / waiting /);
  assert.match(forming, /is forming: 1 of 2 nodes are there/);
  const check = (): Running => cluster.weighbridge(["status", "--scheduler-port", cluster.port, "--check"]);
  await check().fails(/^weighbridge: the cluster is not complete: 1 of 2 nodes are there\n$/);
  assert.match(forming, /^server\/0 +waiting +127\.0\.0\.1:\d+ /m);

  const worker = cluster.worker(0, "pusher");
  await worker.says(/^push works$/);
  const [running] = await Promise.all([ask(), check().succeeds()]);
  assert.match(
    running,
    /is running: 2 of 2 nodes are there \(1 of 1 server, 1 of 1 worker\); placement epoch 1; scheduler up \d.*, weighbridge \d+\.\d+\.\d+/,
  );
  assert.match(running, /^node +state +address +heartbeat {2}process$/m);
  assert.match(running, new RegExp(`^scheduler +ready +127\\.0\\.0\\.1:${cluster.port} `, "m"));
  assert.match(running, /^worker\/0 +ready +- +[\d.]+ m?s ago {2}pid \d+$/m);
  assert.match(running, /^server\/0 +ready +127\.0\.0\.1:\d+ +[\d.]+ m?s ago {2}pid \d+$/m);

  await server.kill();
  await worker.says(/^push failed/);
  type Told = { phase: string; packageVersion: string; nodes: { node: number; state: string; packageVersion: string }[] };
  const { phase, packageVersion, nodes } = JSON.parse(await ask("--json")) as Told;
  assert.deepEqual(new Set(nodes.map((node) => node.packageVersion)), new Set([packageVersion]));
  await check().fails(/^weighbridge: server\/0 is dead\n$/);
  assert.equal(phase, "running");
  assert.deepEqual(nodes.map(({ node, state }) => `${node} ${state}`).sort(), ["8 dead", "9 alive"]);
});

test("finds a scheduler that speaks ps-lite's protocol over Unix sockets where it says that it is (DMLC_LOCAL)", async () => {
  await using processes = new Processes();
  const port = String(await freePort("127.0.0.1"));
  const env = { DMLC_LOCAL: "1", DMLC_PS_VAN_TYPE: "zmq", DMLC_PS_ROOT_PORT: port, DMLC_NUM_SERVER: "1", DMLC_NUM_WORKER: "1" };
  const scheduler = processes.weighbridge(["scheduler"], { env });
  await scheduler.says(new RegExp(`^waiting for 1 server, 1 worker at unix:///tmp/${port}$`));
  const ask = async (): Promise<string> => {
    const status = processes.weighbridge(["status"], { env });
    await status.succeeds();
    return status.stdout;
  };
  processes.weighbridge(["server"], { env });
  await untilSays(ask, /is forming: 1 of 2 nodes are there/);
});

test("says so at once when nobody is there", async () => {
  await using processes = new Processes();
  const startedAt = performance.now();
  const status = processes.weighbridge(["status", "--scheduler-port", 1]);
  await status.fails(/^weighbridge: SCHEDULER_UNREACHABLE: no scheduler answers at 127\.0\.0\.1:1: .*: weighbridge:\/\/HOST:PORT\n$/);
  assert.ok(performance.now() - startedAt < 20_000);
});

async function untilSays(ask: () => Promise<string>, pattern: RegExp): Promise<string> {
  for (let attempt = 0; attempt < 30; attempt++) {
    const text = await ask();
    if (pattern.test(text)) return text;
  }
  return assert.fail(`status never said ${pattern}`);
}
