// Goal: the processes of a training belong to its own cluster, whatever other job the environment describes.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { loadConfig } from "../../node/config/config.ts";
import { FILE_VARIABLES, FOREIGN_VARIABLES } from "../../node/config/known-names.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { StandardOutput } from "../standard-output.ts";
import { planTraining, type TrainFlags } from "./train-plan.ts";
import { planProcesses, runTraining } from "./training-job.ts";

const FLAGS: TrainFlags = { workers: 2, servers: 1, seed: 1, checkpoint: false, overlap: false };
const PLAN = planTraining("lenet", FLAGS);

/** As each process of the job reads it. */
async function configsIn(env: Readonly<Record<string, string>>) {
  const { processes } = planProcesses({ plan: PLAN }, 9700, env);
  return processes.map(({ inherited, env: own }) => loadConfig({ env: { ...inherited, ...own }, warn: assert.fail }));
}

test("a training obeys no variable of another job: address, port, count, rank, role, file or protocol", async () => {
  const ofAnotherJob = {
    ...Object.fromEntries([...FOREIGN_VARIABLES, ...FILE_VARIABLES].map((name) => [name, "no sense"])),
    DMLC_PS_ROOT_URI: "scheduler.example",
    DMLC_PS_ROOT_PORT: "9000",
    DMLC_NUM_SERVERS: "mistyped",
    MS_SCHED_HOST: "scheduler.example",
    WEIGHBRIDGE_ROLE: "worker",
    WEIGHBRIDGE_RANK: "7",
    WEIGHBRIDGE_SCHEDULER_HOST: "scheduler.example",
    WEIGHBRIDGE_SCHEDULER_PORT: "9000",
    WEIGHBRIDGE_HOST: "node.example",
    WEIGHBRIDGE_ADVERTISE_HOST: "node.example",
    WEIGHBRIDGE_LISTEN_PORT: "9001",
    WEIGHBRIDGE_MANAGE_PORT: "9002",
    WEIGHBRIDGE_SERVER_COUNT: "9",
    WEIGHBRIDGE_WORKER_COUNT: "9",
    WEIGHBRIDGE_THREADS: "3",
    WEIGHBRIDGE_VAN: "zmq",
    WEIGHBRIDGE_RESTORE: "/another/jobs",
    WEIGHBRIDGE_CHECKPOINT_DIR: "/another/jobs",
    WEIGHBRIDGE_FUNCTIONS: "another.ts",
    WEIGHBRIDGE_NODE_ID: "another",
  };
  const [alone, beside] = [await configsIn({}), await configsIn(ofAnotherJob)];
  assert.deepEqual(
    beside.map(({ role, rank }) => [role, rank]),
    [
      ["scheduler", 0],
      ["server", 0],
      ["worker", 0],
      ["worker", 1],
    ],
  );
  const portsApart = (configs: typeof alone) =>
    configs.map(({ listenPort, schedulerPort, ...config }) => ({ ...config, isScheduler: listenPort === schedulerPort }));
  assert.deepEqual(portsApart(beside), portsApart(alone));
});

test("a training obeys what the environment says of how nodes work", async () => {
  const [scheduler] = await configsIn({
    WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS: "900",
    WEIGHBRIDGE_TRANSPORT: "unix",
    WEIGHBRIDGE_LOG_LEVEL: "debug",
  });
  assert.deepEqual([scheduler?.heartbeatTimeoutMs, scheduler?.transport, scheduler?.logLevel], [900, "unix", "debug"]);
});

test("a training refuses an unknown variable of ours, with the nearest", async () => {
  await assert.rejects(configsIn({ WEIGHBRIDGE_HEARTBEAT_TIMEOUT: "900" }), /did you mean WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS\?/);
});

test("a training's scheduler has the port that was asked for", async () => {
  const plan = planTraining("lenet", { ...FLAGS, schedulerPort: 9700 });
  const { processes, scheduler } = planProcesses({ plan }, 9800, {});
  assert.equal(scheduler.schedulerPort, 9700);
  for (const { env } of processes) assert.equal(loadConfig({ env }).schedulerPort, 9700);
});

test("a training whose port is taken is refused before it makes its directory", async () => {
  const taken = createServer();
  await new Promise<void>((listening) => void taken.listen(0, "127.0.0.1", listening));
  const { port: schedulerPort } = taken.address() as AddressInfo;
  const checkpointDir = join(temporaryDirectory("train-port"), "runs");
  const plan = planTraining("mf", { ...FLAGS, checkpoint: true, checkpointDir, schedulerPort });
  const run = runTraining(plan, { compares: false }, new StandardOutput(process.stdout));
  await assert.rejects(run, throwsCode("PORT_IN_USE", new RegExp(String(schedulerPort)))).finally(() => taken.close());
  assert.ok(!existsSync(checkpointDir));
});
