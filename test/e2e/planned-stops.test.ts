// planned-stops — Goal: servers save by themselves, begin with what was saved or with nothing, and processes that end
// are brought back.

import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { temporaryFolder } from "../support/checkpoint-stage.ts";
import { Cluster } from "./cluster.ts";
import { Processes, script, until } from "./processes.ts";

test("--checkpoint-every saves without a script, --keep leaves the newest, and --resume goes on from there or begins empty", async () => {
  using folder = temporaryFolder();
  const flags = ["--checkpoint-dir", folder.path, `--resume=${folder.path}`, "--checkpoint-every", "300ms", "--keep", 2];
  const saved = (): string[] => readdirSync(folder.path).filter((name) => /^step-\d+$/.test(name));
  {
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags });
    cluster.scheduler();
    const servers = [cluster.server(0), cluster.server(1)];
    const worker = cluster.worker(0, "trainer");
    for (const server of servers)
      await until(() => /there is no checkpoint to resume from yet: beginning empty/.test(server.stderr), "it to begin empty");
    await worker.says(/^clock \d+$/);
    const [first = ""] = await until(() => saved().length > 0 && saved(), "the first checkpoint");
    await until(() => !saved().includes(first), "the first one to be removed");
    assert.ok(saved().length <= 3, `${saved().join(", ")}: two, and one that is about to be removed`);
  }
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags });
  cluster.scheduler();
  const server = cluster.server(0);
  const worker = cluster.worker(0, "trainer");
  await until(() => /restored a checkpoint .*clock=[1-9]/.test(server.stderr), "the server to be restored");
  await worker.says(/^clock \d+$/);
});

test("--restore and --resume refuse a directory that cannot be read, --restore one without a checkpoint", async () => {
  using folder = temporaryFolder();
  await using processes = new Processes();
  const file = join(folder.path, "a-file");
  writeFileSync(file, "no directory");
  const launch = (...flags: readonly string[]): ReturnType<Processes["weighbridge"]> =>
    processes.weighbridge(["launch", "-w", 0, ...flags]);
  await launch("--restore", folder.path).refuses(/BAD_CONFIG: --restore: there is no checkpoint in .*: /);
  await launch("--restore", file).refuses(/BAD_CONFIG: --restore: .*is a file/);
  await launch(`--resume=${file}`).refuses(/BAD_CONFIG: --resume: .*is a file/);
  await launch(`--resume=${folder.path}`, "--restore", folder.path).refuses(/none beside restore/);
  await launch("--checkpoint-every", "60s").refuses(/checkpointDir/);
  await launch("--checkpoint-dir", folder.path, "--keep", "3").refuses(/none without checkpointEvery/);
  await launch("--checkpoint-dir", folder.path, "--checkpoint-every", "soon").refuses(/a time such as 60s/);
});

test("launch --restart on-failure brings a server and a worker back that were killed, a bounded number of times", async () => {
  using folder = temporaryFolder();
  await using processes = new Processes();
  const files = ["--checkpoint-dir", folder.path, "--checkpoint-every", "200ms", "--keep", 2, `--resume=${folder.path}`];
  const flags = ["-s", 1, "-w", 1, "--restart", "on-failure", "--heartbeat-timeout", "2000ms", "--log-level", "info"];
  const launch = processes.weighbridge(["launch", ...flags, ...files, "--", script("patient-trainer")]);
  const [, pid] = await launch.says(/server\/0 ready {2}\S+ {2}pid (\d+)/);
  assert.match(launch.stderr, /^weighbridge: no checkpoint in \S+ yet: the servers begin empty$/m);
  await launch.says(/clock 20/);
  await until(() => readdirSync(folder.path).some((name) => /^step-\d+$/.test(name)), "a checkpoint");
  process.kill(Number(pid), "SIGKILL");
  await launch.says(/step failed: NODE_DEAD/);
  await launch.says(/went on/);
  await launch.succeeds();
  assert.match(launch.stderr, /server\/0 was ended by SIGKILL; it is started again in 500 ms/);
  assert.match(launch.stderr, /warn .*going on from a checkpoint: what came after it is gone path=\S+step-\d+/);
  const again = processes.weighbridge(["launch", ...flags, ...files, "--", script("patient-trainer")]);
  await until(() => /^weighbridge: the servers begin with \S+step-\d+$/m.test(again.stderr), "the launcher's line");
});

test("launch --restart gives a process up that fails time after time, and ends the job with its reason", async () => {
  await using processes = new Processes();
  const flags = ["-s", 1, "-w", 1, "--restart", "on-failure"];
  const launch = processes.weighbridge(["launch", ...flags, "--", script("fails-late")]);
  await launch.fails(/(?:worker\/0 ended with exit code 3.*it is started again in \d+ ms[\s\S]*){5}worker\/0 ended with exit code 3/);
});
