// killed-while-starting — Goal: with --replicas 2 a job starts whichever single process of a rank is killed
// between its registration and the barrier of the start: the rank needs one copy. Copies are killed while others
// are still missing, and as soon as the scheduler says that all have come. The same for the processes of a launch,
// before its worker has come. Five minutes.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "../../src/base/random.ts";
import { Cluster } from "../e2e/cluster.ts";
import { type Running, script } from "../e2e/processes.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Strike } from "./strike.ts";

const ROUNDS = Number(process.env.SOAK_ROUNDS ?? 4) * 5;
const SERVERS = 2;
const PUSHES = "100";
/** After the scheduler has said that the cluster is complete: all have passed the barrier of the start by then. */
const BARRIER_MS = 40;

async function saidAtOnce(node: Running, text: string): Promise<void> {
  while (node.isRunning && !node.stdout.includes(text)) await sleep(1);
}

async function killWhileStarting(seed: number, isComplete: boolean): Promise<void> {
  const random = new Random(seed);
  const flags = ["--replicas", 2, "--start-timeout", "20000ms"];
  await using cluster = await Cluster.create({ servers: SERVERS, workers: 1, flags });
  await Strike.run(`seed ${seed}`, async (strike) => {
    const [scheduler, ...copies] = strike.watch(
      cluster.scheduler(),
      ...Array.from({ length: 2 * SERVERS }, (_, index) => cluster.server(index % SERVERS)),
    );
    assert.ok(scheduler !== undefined);
    const index = random.below(copies.length);
    const victim = copies[index] as Running;
    const killAfter = async (msMax: number, what: string): Promise<void> => {
      const ms = random.below(msMax);
      await sleep(ms);
      await victim.kill();
      strike.did(`process ${victim.pid} of server ${index % SERVERS} was killed ${ms} ms after ${what}`);
    };
    if (!isComplete) {
      const count = copies.length - random.below(2);
      await cluster.waitsFor(count);
      await killAfter(300, `${count} copies had come`);
    }
    const [worker] = strike.watch(cluster.worker(0, "survivor", "--pushes", PUSHES));
    if (isComplete) {
      await saidAtOnce(scheduler, "the cluster is complete");
      await killAfter(BARRIER_MS, "all had come");
    }
    for (const node of [worker, ...copies.filter((copy) => copy !== victim), scheduler]) await node.succeeds();
    assert.equal(worker.count(new RegExp(`^verified ${PUSHES} pushes`)), 1);
  });
}

for (let seed = 1; seed <= ROUNDS; seed++) {
  const isComplete = seed % 2 === 0;
  const when = isComplete ? "when all have come" : "while others are missing";
  test(`a copy that is killed ${when} does not end the start, seed ${seed}`, async () => await killWhileStarting(seed, isComplete));
}

const LAUNCHES = ROUNDS / 2;
for (let seed = 1; seed <= LAUNCHES; seed++)
  test(`launch: a copy that is killed before the worker comes does not end the job, seed ${seed}`, async () => {
    const random = new Random(seed);
    await using cluster = await Cluster.create({ servers: SERVERS, workers: 1, flags: ["--replicas", 2, "--start-timeout", "20000ms"] });
    await Strike.run(`seed ${seed}`, async (strike) => {
      const mayCome = join(temporaryDirectory(), "may-come");
      const worker = 'until [ -e "$0" ]; do sleep 0.1; done; exec "$@"';
      const survivor = [process.execPath, script("survivor"), "--pushes", PUSHES];
      const [launch] = strike.watch(cluster.weighbridge(["launch", ...cluster.flags, "--", "sh", "-c", worker, mayCome, ...survivor]));
      const copies = await cluster.waitsFor(random.below(2) + 2 * SERVERS - 1);
      const victim = Number(copies[random.below(copies.length)]?.label.split(":").at(-1));
      await sleep(random.below(300));
      process.kill(victim, "SIGKILL");
      strike.did(`process ${victim} was killed when ${copies.length} copies had come`);
      await sleep(random.below(300));
      writeFileSync(mayCome, "");
      await launch.succeeds();
      assert.match(launch.stdout, new RegExp(`verified ${PUSHES} pushes`));
      assert.match(launch.stderr, /server\/\d.* was ended by SIGKILL; the job goes on with the other process of server\/\d/);
    });
  });
