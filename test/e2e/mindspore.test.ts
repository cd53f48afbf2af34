// mindspore — Goal: MindSpore's pattern works: the same script in three shells, and MS_ROLE decides which of them is
// the scheduler, a server or a worker.

import assert from "node:assert/strict";
import test from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Processes, type Running, script } from "./processes.ts";

const REGISTERED = /^The server node id:\S+,node ip: 127\.0\.0\.1,node port:\d+ assign rank id:0\nStart the scheduler node is successful!$/;

type Environment = Readonly<Record<string, string>>;

/** Starts the script in a shell of this role. */
async function shells(processes: Processes): Promise<(role: string, env?: Environment, ...args: readonly string[]) => Running> {
  const port = String(await freePort("127.0.0.1"));
  const where = { MS_SERVER_NUM: "1", MS_WORKER_NUM: "1", MS_SCHED_HOST: "127.0.0.1", MS_SCHED_PORT: port };
  return (role, env = {}, ...args) =>
    processes.run(process.execPath, [script("mindspore"), ...args], { env: { ...where, MS_ROLE: role, ...env } });
}

test("one script in three shells: the scheduler registers all in MindSpore's lines, the worker trains, and all end with 0", async () => {
  await using processes = new Processes();
  const start = await shells(processes);
  const scheduler = start("MS_SCHED");
  const server = start("MS_PSERVER", { MS_NODE_ID: "b5d8a47c-46d7-49a5-aecf-d29d7f8b6124" });
  const worker = start("MS_WORKER", { MS_NODE_ID: "55e86d4b-d717-4930-b414-ebd80082f541" });
  for (const node of [worker, server, scheduler]) await node.succeeds();
  assert.match(
    scheduler.stdout,
    new RegExp(
      "^The server node id:b5d8a47c-46d7-49a5-aecf-d29d7f8b6124,node ip: 127\\.0\\.0\\.1,node port:\\d+ assign rank id:0\n" +
        "The worker node id:55e86d4b-d717-4930-b414-ebd80082f541 assign rank id:0\n" +
        "Start the scheduler node is successful!$",
      "m",
    ),
  );
  assert.match(worker.stdout, /^a worker of 1\nepoch: 1 step: 1, loss is \d\.\d{6}\nepoch: 2 step: 1, loss is \d\.\d{6}\n$/);
  for (const node of [server, scheduler]) assert.equal(node.count(/a worker of/), 0, "what follows initTraining() is the worker's alone");
});

test("a server that cannot take up its role ends with 1 and the reason, and goes no further in the script", async () => {
  await using processes = new Processes();
  const start = await shells(processes);
  const server = start("MS_PSERVER", { WEIGHBRIDGE_START_TIMEOUT_MS: "300" });
  await server.fails(/SCHEDULER_UNREACHABLE/);
  assert.equal(server.count(/a worker of/), 0);
});

test("when the worker's script throws, the server and the scheduler end with 1 and its name, in one line and without a timeout", async () => {
  await using processes = new Processes();
  const start = await shells(processes);
  const never = { WEIGHBRIDGE_START_TIMEOUT_MS: "600000", WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS: "600000" };
  const [scheduler, server] = [start("MS_SCHED", never), start("MS_PSERVER", never)];
  await start("MS_WORKER", never, "--throw").fails(/this worker is lost/);
  for (const node of [server, scheduler]) {
    await node.fails(/^weighbridge: NODE_DEAD: .*worker 0 died: its process ended with exit code 1, without session\.close\(\)$/m);
    assert.equal(node.count(/^ +at /m), 0, `no stack: ${node.stderr}`);
  }
});

test("MindSpore's registration lines come with --log-format mindspore, and in a launch that MS_* variables describe", async () => {
  await using processes = new Processes();
  const port = await freePort("127.0.0.1");
  const scheduler = processes.weighbridge([
    ...["scheduler", "-s", 1, "-w", 0, "--port", port, "--state-dir", "none"],
    ...["--log-format", "mindspore", "--log-level", "warn"],
  ]);
  processes.weighbridge(["server", "-s", 1, "-w", 0, "--scheduler-port", port]);
  await scheduler.says(REGISTERED);
  const flag = processes.weighbridge(["launch", "-s", 1, "-w", 0, "--log-format", "mindspore"]);
  const variables = processes.weighbridge(["launch"], { env: { MS_SERVER_NUM: "1", MS_WORKER_NUM: "0" } });
  for (const job of [flag, variables]) await job.says(/^\[scheduler\] Start the scheduler node is successful!$/);
  for (const job of [flag, variables]) assert.equal(job.count(/^\[scheduler\] The server node id:.* assign rank id:0$/), 1, job.transcript);
});
