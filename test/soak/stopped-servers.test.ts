// stopped-servers — Goal: servers that are stopped come back. Two processes of each rank that are started together
// after a planned stop both serve, again and again. A stop that is cut off, since its servers are killed 0 to 300
// ms into it, keeps no later start from the newest checkpoint: the next one comes up at once, with all that the
// checkpoint had. Four minutes.

import assert from "node:assert/strict";
import { suite, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "../../src/base/random.ts";
import { Cluster } from "../e2e/cluster.ts";
import { type Running, until } from "../e2e/processes.ts";
import { temporaryFolder } from "../support/checkpoint-stage.ts";
import { Strike } from "./strike.ts";

const SEEDS = Number(process.env.SOAK_ROUNDS ?? 4);
const STOPS = 20;
/** Half of the copies are started in the same moment; this much later at most are the second copies of the others. */
const TOGETHER_MS = 60;
const CUT_OFF_STOPS = 6;
const KILLED_MS_MAX = 300;
const SERVERS = 2;
/** Which copy has which rank. */
const RANKS = Array.from({ length: 2 * SERVERS }, (_, index) => index % SERVERS);

async function startTogether(seed: number): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const flags = ["--checkpoint-dir", folder.path, "--replicas", 2, "--heartbeat-timeout", "6000ms"];
  await using cluster = await Cluster.create({ servers: SERVERS, workers: 1, flags });
  await Strike.run(`seed ${seed}`, async (strike) => {
    const [scheduler, worker] = strike.watch(cluster.scheduler(), cluster.worker(0, "survivor"));
    const goesOn = async (): Promise<void> => void (await worker.says(/^pushed \d+$/, worker.count(/^pushed \d+$/) + 2));
    let copies = strike.watch(...RANKS.map((rank) => cluster.server(rank)));
    await goesOn();
    for (let stop = 1; stop <= STOPS; stop++) {
      for (const copy of copies) copy.signal("SIGTERM");
      for (const copy of copies) assert.equal((await copy.ends()).signal, "SIGTERM", copy.name);
      for (let rank = 0; rank < SERVERS; rank++) await scheduler.says(new RegExp(`server/${rank} was stopped, and is awaited`), stop);
      const ms = random.chance(0.5) ? 0 : random.below(TOGETHER_MS);
      strike.did(`start ${stop}: ${ms} ms`);
      const first = strike.watch(...RANKS.slice(0, SERVERS).map((rank) => cluster.server(rank)));
      if (ms > 0) await sleep(ms);
      copies = [...first, ...strike.watch(...RANKS.slice(SERVERS).map((rank) => cluster.server(rank)))];
      const filled = (): number => copies.filter(({ stderr }) => /the standby has everything/.test(stderr)).length;
      await until(() => filled() === SERVERS || copies.some((copy) => !copy.isRunning), "the other copies to be filled");
      for (const copy of copies) assert.ok(copy.isRunning, `${copy.name} has ended\n${copy.transcript}`);
      await goesOn();
    }
    worker.endInput();
    await worker.says(/^verified \d+ pushes/);
    for (const node of [worker, ...copies, scheduler]) await node.succeeds();
  });
}

/** All processes are killed, servers in the middle of a planned stop, and started again from the newest checkpoint. */
async function cutOffJobs(t: TestContext, seed: number, begins: "--restore" | "--resume"): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const replicas = 1 + random.below(2);
  const flags = ["--checkpoint-dir", folder.path, "--replicas", replicas, "--job", `cut-off-${seed}`];
  flags.push("--heartbeat-timeout", "1500ms", "--start-timeout", "20000ms");
  let saved = 0;
  const startsMs: number[] = [];
  for (let stop = 0; stop <= CUT_OFF_STOPS; stop++) {
    await using cluster = await Cluster.create({
      servers: SERVERS,
      workers: 1,
      flags: stop === 0 ? flags : [...flags, `${begins}=${folder.path}`],
    });
    await Strike.run(`seed ${seed}, ${replicas} for each server, start ${stop}`, async (strike) => {
      const startedAtMs = performance.now();
      strike.watch(cluster.scheduler());
      const servers = strike.watch(...RANKS.slice(0, SERVERS * replicas).map((rank) => cluster.server(rank)));
      const [worker] = strike.watch(cluster.worker(0, "keeper", "--pushes", "1000000"));
      const [, least, most] = await worker.says(/^found (\d+) to (\d+) (\w+)$/);
      startsMs.push(Math.round(performance.now() - startedAtMs));
      assert.ok(Number(least) >= saved, `${saved} pushes were in the checkpoint, found ${least} to ${most}`);
      await worker.says(/^acknowledged \d+$/, 10 + random.below(50));
      // all that was acknowledged before it was asked for is in it
      saved = Number(most) + worker.count(/^acknowledged/);
      const [save] = strike.watch(cluster.weighbridge(["checkpoint", "save", "--scheduler-port", cluster.port]));
      await save.succeeds();
      await worker.says(/^acknowledged \d+$/, worker.count(/^acknowledged/) + random.below(20));
      await cutOffStop(servers, random, strike);
    });
  }
  t.diagnostic(`seed ${seed}: starts took ${startsMs.join(", ")} ms`);
}

/** The servers of a job that goes on are killed in the middle of a planned stop, and started again. */
async function cutOffServers(seed: number): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const flags = ["--checkpoint-dir", folder.path, "--checkpoint-every", "300ms", "--keep", 3, `--resume=${folder.path}`];
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: [...flags, "--start-timeout", "20000ms"] });
  await Strike.run(`seed ${seed}`, async (strike) => {
    const [scheduler, worker] = strike.watch(cluster.scheduler(), cluster.worker(0, "steady-trainer"));
    const saved = async (): Promise<void> => void (await worker.says(/^saved clock \d+$/, worker.count(/^saved clock/) + 1));
    let [server] = strike.watch(cluster.server(0));
    for (let stop = 0; stop < CUT_OFF_STOPS; stop++) {
      await saved();
      await cutOffStop([server], random, strike);
      [server] = strike.watch(cluster.server(0));
      await server.says(/^server\/0 ready .* job /);
    }
    await saved();
    worker.endInput();
    for (const node of [worker, server, scheduler]) await node.succeeds();
  });
}

async function cutOffStop(servers: readonly Running[], random: Random, strike: Strike): Promise<void> {
  const ms = random.below(KILLED_MS_MAX);
  strike.did(`killed ${ms} ms into the stop`);
  for (const server of servers) server.signal("SIGTERM");
  await sleep(ms);
  for (const server of servers) await server.kill();
}

suite("stopped servers", () => {
  for (let seed = 1; seed <= Math.ceil(SEEDS / 4); seed++)
    test(`two copies of each rank are started together after a planned stop, ${STOPS} times, seed ${seed}`, async () =>
      await startTogether(seed));

  for (let seed = 1; seed <= SEEDS; seed++) {
    const begins = seed % 2 === 0 ? "--resume" : "--restore";
    test(`${begins} comes up at once after each of ${CUT_OFF_STOPS} stops that were cut off, seed ${seed}`, async (t) =>
      await cutOffJobs(t, seed, begins));
    test(`a job goes on when servers whose stop was cut off are started again, seed ${seed}`, async () => await cutOffServers(seed));
  }
});
