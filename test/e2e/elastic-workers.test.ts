// elastic-workers — Goal: two workers train LeNet on two servers, three workers and two servers more join the running
// job, and two workers and a server leave it, because `scale` asks for it: no step fails, and since every sync round
// has the samples of one batch whoever is there, the accuracy is that of two workers (docs/decisions/0073, 0074).

import assert from "node:assert/strict";
import { test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Processes, type Running, script } from "./processes.ts";

const TRAIN = ["train", "lenet", "-s", 2, "--limit", 1920, "--epochs", 8, "--no-checkpoint", "--every", 10] as const;

async function accuracyOf(job: Running): Promise<number> {
  await job.succeeds();
  const [, accuracy] = await job.says(/(\d+\.\d+) % of .*digits/);
  return Number(accuracy);
}

test("2 workers become 5 and then 3, and 2 servers 4 and then 3, while they train LeNet: no failed step, and the accuracy of 2", async () => {
  await using processes = new Processes();
  const expected = await accuracyOf(processes.weighbridge([...TRAIN, "-w", 2]));
  // It sleeps: others have time to come.
  const job = processes.weighbridge([...TRAIN, "-w", "2..5", "--slow-worker", "0:8"]);
  const [, port = ""] = await job.says(/^ {2}address {2}\S+:(\d+), /);
  const scale = async (workers: number): Promise<Running> => {
    const command = processes.weighbridge(["scale", "--scheduler-port", port, "--workers", workers]);
    await command.ends();
    return command;
  };
  const scaleServers = async (servers: number): Promise<void> => {
    const command = processes.weighbridge(["scale", "--scheduler-port", port, "--servers", servers]);
    await command.succeeds();
  };
  await job.says(/^ {2}epoch: 1 step: 10, loss is/);
  const more = await scale(5);
  await more.succeeds();
  await more.says(/^5 workers$/);
  for (const rank of [2, 3, 4]) await job.says(new RegExp(`worker/${rank} is started`));
  await scaleServers(4);
  const fewer = await scale(3);
  await fewer.succeeds();
  await fewer.says(/^3 workers: worker\/3, worker\/4 leaving$/);
  await fewer.says(/^3 workers$/);
  await scaleServers(3);
  const tooMany = await scale(6);
  assert.equal((await tooMany.ends()).code, 1, tooMany.transcript);
  assert.match(tooMany.stderr, /this job has 2 to 5 workers; 6 were asked for/);
  const accuracy = await accuracyOf(job);
  assert.ok(Math.abs(accuracy - expected) <= 0.3, `${accuracy} %, and ${expected} % with two workers`);
  assert.doesNotMatch(job.transcript, /repeated|retried|no checkpoint/);
});

test("launch -w 2..3 starts a third worker and lets it leave, and the job ends well", async () => {
  await using processes = new Processes();
  const port = await freePort("127.0.0.1");
  const flags = ["-s", 1, "-w", "2..3", "--scheduler-port", port];
  const job = processes.weighbridge(["launch", ...flags, "--", script("until-leaving")]);
  for (const rank of [0, 1]) await job.says(new RegExp(`worker ${rank} is here`));
  const more = processes.weighbridge(["scale", "--scheduler-port", port, "--workers", 3]);
  await job.says(/worker 2 is here/);
  await more.succeeds();
  const fewer = processes.weighbridge(["scale", "--scheduler-port", port, "--workers", 2]);
  await job.says(/asked to leave/);
  await job.succeeds();
  await fewer.ends();
  assert.equal(job.count(/asked to leave/), 1, job.transcript);
});

test("workers that nobody starts: status says how many are waited for, and the change is rolled back after --timeout, or when that is asked for", async () => {
  await using processes = new Processes();
  const port = await freePort("127.0.0.1");
  const flags = ["-s", 1, "-w", "2..4", "--scheduler-port", port];
  const nodes = [processes.weighbridge(["scheduler", ...flags]), processes.weighbridge(["server", ...flags])];
  const workers = [0, 1].map(() => processes.weighbridge(["worker", ...flags, script("until-leaving")]));
  for (const worker of workers) await worker.says(/^worker \d is here$/);
  const tool = (...args: (string | number)[]): Running => processes.weighbridge([...args, "--scheduler-port", port]);
  const statusText = async (): Promise<string> => {
    const status = tool("status");
    await status.succeeds();
    return status.stdout;
  };
  const late = tool("scale", "--workers", 4, "--timeout", "100ms");
  await late.says(/^the change of the workers was rolled back: 2 of 4 workers were there after 100 ms$/);
  assert.equal((await late.ends()).code, 1, late.transcript);
  assert.match(await statusText(), /^the change of the workers was rolled back: 2 of 4 workers/m);
  const waiting = tool("scale", "--workers", 4);
  await waiting.says(/^2 of 4 workers: waiting for 2$/);
  assert.match(await statusText(), /^2 of 4 workers: waiting for 2, .* left$/m);
  const rollBack = async (): Promise<void> => {
    const back = tool("scale", "--rollback");
    await back.says(/^the change of the workers was rolled back: there are to be 2 workers again$/);
    await back.succeeds();
  };
  await rollBack();
  await waiting.says(/^the change of the workers was rolled back: its rollback was asked for$/);
  assert.equal((await waiting.ends()).code, 1, waiting.transcript);
  await tool("scale", "--workers", 4).says(/^2 of 4 workers: waiting for 2$/);
  const third = processes.weighbridge(["worker", ...flags, script("until-leaving")]);
  await third.says(/^worker 2 is here$/);
  await rollBack();
  await third.says(/^asked to leave$/); // then this job ends
  for (const node of [third, ...workers, ...nodes]) await node.succeeds();
  assert.equal(workers.filter((worker) => worker.count(/^asked to leave$/) > 0).length, 0);
});
