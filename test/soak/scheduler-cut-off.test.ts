// scheduler-cut-off — Goal: a scheduler that alone is stopped, or cut off from everybody, for 1.2 to 4.5 heartbeat
// timeouts hurts nobody when it is back: no server is replaced or FENCED, no call of a worker fails, BSP has the
// bits of a run without cuts, and each push counts once. Ten minutes.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "../../src/base/random.ts";
import { Cluster, HEARTBEAT_TIMEOUT_MS } from "../e2e/cluster.ts";
import { COMMAND, Processes, type Running, script } from "../e2e/processes.ts";
import { NetworkNamespace, NO_NAMESPACES } from "./network-namespace.ts";
import { Strike } from "./strike.ts";

const SEEDS = Number(process.env.SOAK_ROUNDS ?? 4);
const [SERVERS, WORKERS] = [2, 3];
const FLAGS = ["--start-timeout", "20000ms"];
const CUTS = 2;
/** They last for about as long as the cuts and what follows. */
const STEPS = 300;
const STEP_PAUSE_MS = 80;
/** Between the end of a cut and the next one: verdicts that come late fall meanwhile. */
const CALM_MS = 2 * HEARTBEAT_TIMEOUT_MS;
const HURT = /FENCED|NODE_DEAD|NOT_JOINED|STALE_UPDATE|LINK_LOST|is dead|taken over by|handed over|without one|has no standby now/;

/** Of a scheduler whose cluster lost one head. */
const HURT_BEYOND_HEAD = /FENCED|worker\/\d is dead|has no standby now/;

/** What the scheduler is struck by, and what is expected. */
type Struck = {
  readonly cut: () => void;
  readonly heal: () => void;
  readonly seed: number;
  readonly scheduler: Running;
  readonly bits: string;
  readonly replicas: number;
  /** A head is killed in the first cut: its standby takes over when the scheduler is back. */
  readonly isHeadKilled?: boolean;
};

async function calmBits(): Promise<string> {
  await using processes = new Processes();
  const flags = ["-s", SERVERS, "-w", WORKERS];
  const job = processes.weighbridge(["launch", ...flags, "--", script("through-cuts"), "--steps", STEPS, "--pause", 0]);
  await job.succeeds(240_000);
  const bits = [...job.stdout.matchAll(/ bits (\w+)$/gm)].map(([, text]) => text);
  assert.deepEqual([bits.length, new Set(bits).size], [WORKERS, 1], job.transcript);
  return bits[0] as string;
}

/** Cuts the scheduler off, again and again, while workers train; `bits` is what they come to without cuts. */
async function strikeScheduler(cluster: Cluster, struck: Struck): Promise<void> {
  const { seed, scheduler, bits, replicas, cut, heal, isHeadKilled = false } = struck;
  const random = new Random(seed);
  await Strike.run(`seed ${seed}`, async (strike) => {
    const ranks = Array.from({ length: SERVERS * replicas }, (_, index) => index % SERVERS);
    const servers = ranks.map((rank) => cluster.server(rank));
    const args = ["--steps", `${STEPS}`, "--pause", `${STEP_PAUSE_MS}`];
    const workers = Array.from({ length: WORKERS }, (_, rank) => cluster.worker(rank, "through-cuts", ...args));
    let victim: Running | undefined;
    const nodes = strike.watch(...workers, ...servers, scheduler);
    for (const worker of workers) await worker.says(/^begins$/);
    for (let count = 0; count < CUTS; count++) {
      await sleep(500 + random.below(HEARTBEAT_TIMEOUT_MS));
      const ms = Math.round((1.2 + (random.chance(0.5) ? 0.8 : 3.3) * random.fraction()) * HEARTBEAT_TIMEOUT_MS);
      strike.did(`cut at ${new Date().toISOString().slice(11, 23)} for ${ms} ms`);
      cut();
      const killMs = random.below(ms);
      if (isHeadKilled && count === 0) {
        await sleep(killMs);
        const rank = random.below(SERVERS);
        const [, pid] = await scheduler.says(new RegExp(`^server/${rank} ready {2}\\S+ {2}pid (\\d+)`));
        victim = servers.find((server) => `${server.pid}` === pid);
        assert.ok(victim !== undefined, `no head of rank ${rank}`);
        await victim.kill();
        strike.did(`server ${rank} killed after ${killMs} ms`);
        await sleep(ms - killMs);
      } else await sleep(ms);
      heal();
      await sleep(CALM_MS);
    }
    for (const node of nodes) await node.ends();
    for (const node of nodes.filter((one) => one !== victim)) {
      const text = node.stdout + node.stderr;
      if (victim === undefined) assert.doesNotMatch(text, HURT, `${node.name} was hurt`);
      else assert.doesNotMatch(text, node === scheduler ? HURT_BEYOND_HEAD : /FENCED/, `${node.name} was hurt`);
      await node.succeeds();
    }
    if (victim !== undefined) assert.equal(scheduler.count(/ taken over by its standby/), 1);
    for (const worker of workers) assert.equal((await worker.says(/^bits (\w+)$/))[1], bits);
  });
}

let calm: Promise<string> | undefined;

async function stopScheduler(seed: number, replicas: number): Promise<void> {
  calm ??= calmBits();
  const bits = await calm;
  await using cluster = await Cluster.create({ servers: SERVERS, workers: WORKERS, flags: ["--replicas", replicas, ...FLAGS] });
  const scheduler = cluster.scheduler();
  const stop = { cut: () => scheduler.signal("SIGSTOP"), heal: () => scheduler.signal("SIGCONT") };
  await strikeScheduler(cluster, { ...stop, seed, scheduler, bits, replicas });
}

async function cutNetwork(seed: number, replicas: number, isHeadKilled: boolean): Promise<void> {
  calm ??= calmBits();
  const bits = await calm;
  using namespace = new NetworkNamespace();
  const hosts = ["--scheduler-host", namespace.inside, "--host", namespace.outside];
  const flags = ["--replicas", replicas, ...FLAGS, ...hosts];
  await using cluster = await Cluster.create({ servers: SERVERS, workers: WORKERS, flags });
  const own = [...cluster.flags.map(String), "--host", namespace.inside];
  const [command = "", ...args] = namespace.within(process.execPath, COMMAND, "scheduler", ...own);
  const scheduler = cluster.run(command, args);
  const network = { cut: () => namespace.cut(), heal: () => namespace.heal() };
  await strikeScheduler(cluster, { ...network, seed, scheduler, bits, replicas, isHeadKilled });
}

suite("a scheduler that is cut off", () => {
  const skip = NO_NAMESPACES;
  for (let seed = 1; seed <= SEEDS; seed++) {
    for (const replicas of [1, 2]) {
      test(`a scheduler that is stopped and continued hurts no node, ${replicas} for each server, seed ${seed}`, async () =>
        await stopScheduler(seed, replicas));
      test(
        `a scheduler whose network is cut hurts no node when it heals, ${replicas} for each server, seed ${seed}`,
        { skip },
        async () => await cutNetwork(seed, replicas, false),
      );
    }
    test(
      `a head that is killed while the scheduler is cut off is replaced, and no other node is hurt, seed ${seed}`,
      { skip },
      async () => await cutNetwork(SEEDS + seed, 2, true),
    );
  }
});
