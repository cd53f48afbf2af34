// busy-loops — Goal: a worker that computes for longer than the heartbeat timeout in one turn of its loop is
// waited for: tables of staleness 0, tensors and the shared model under BSP read the exact sums after every step,
// and the scheduler declares no node dead. A worker whose process is stopped for as long is declared dead, and
// learns it by a typed error. Five minutes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "../../src/base/random.ts";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Cluster, HEARTBEAT_TIMEOUT_MS } from "../e2e/cluster.ts";
import { Processes, type Running, script } from "../e2e/processes.ts";
import { Strike } from "./strike.ts";

const SEEDS = Number(process.env.SOAK_ROUNDS ?? 4);
const FACES = ["tables", "tensors", "model"] as const;
const STEPS = 12;
const BLOCKS = 2;
/** Steps of a worker that is stopped; each takes `STOPPED_PAUSE_MS` at least. */
const STOPPED_STEPS = 60;
const STOPPED_PAUSE_MS = 100;
/** Processes of a host map have the timeout of the configuration: nothing else reaches their nodes. */
const HOSTED_TIMEOUT_MS = 5000;
/** How long nodes wait for one that is gone: a failing run ends soon. */
const FLAGS = ["--start-timeout", "20000ms"];
const DEATH = /is dead|declared dead|taken out|NODE_DEAD|NOT_JOINED|FENCED/;

type Drawn = { readonly workers: number; readonly args: readonly string[] };

/** Which worker blocks in which step and for how long, 1.2 to 2.5 timeouts, as the seed says. */
function draw(seed: number, face: string, timeoutMs = HEARTBEAT_TIMEOUT_MS): Drawn {
  const random = new Random(seed);
  const workers = 2 + random.below(2);
  const blocks = Array.from({ length: BLOCKS }, () => {
    const ms = Math.round((1.2 + 1.3 * random.fraction()) * timeoutMs);
    return `${random.below(workers)}:${random.below(STEPS)}:${ms}`;
  });
  const how = random.chance(0.5) ? ["--spin"] : [];
  return { workers, args: ["--face", face, "--steps", `${STEPS}`, "--workers", `${workers}`, "--blocks", blocks.join(), ...how] };
}

/** One worker blocks its loop, and all read what they must. */
async function blockLoops(face: string, seed: number): Promise<void> {
  const { workers, args } = draw(seed, face);
  const servers = 1 + (seed % 2);
  await using cluster = await Cluster.create({ servers, workers, flags: FLAGS });
  await Strike.run(`seed ${seed}, ${workers} workers, ${args.join(" ")}`, async (strike) => {
    const others = [cluster.scheduler(), ...Array.from({ length: servers }, (_, rank) => cluster.server(rank))];
    const members = Array.from({ length: workers }, (_, rank) => cluster.worker(rank, "busy-member", ...args));
    const nodes = strike.watch(...members, ...others);
    for (const node of nodes) await node.ends();
    for (const [rank, member] of members.entries())
      assert.equal(member.count(new RegExp(`^worker ${rank} read what it must in ${STEPS} steps$`)), 1, `worker ${rank}`);
    for (const node of nodes) {
      assert.doesNotMatch(node.stdout + node.stderr, DEATH);
      await node.succeeds();
    }
  });
}

/** One worker is stopped until it is dead, and continued. */
async function stopWorker(face: string, seed: number): Promise<void> {
  const random = new Random(seed);
  await using cluster = await Cluster.create({ servers: 1, workers: 2, flags: FLAGS });
  const step = 1 + random.below(STOPPED_STEPS / 4);
  await Strike.run(`seed ${seed}, ${face}, stopped after step ${step}`, async (strike) => {
    const args = ["--face", face, "--steps", `${STOPPED_STEPS}`, "--workers", "2", "--pause", `${STOPPED_PAUSE_MS}`];
    const member = (rank: number) => cluster.worker(rank, "busy-member", ...args, "--lost", "1");
    const [scheduler, , steady, stopped] = strike.watch(cluster.scheduler(), cluster.server(0), member(0), member(1));
    await stopped.says(new RegExp(`^step ${step}$`));
    await sleep(random.below(STOPPED_PAUSE_MS));
    stopped.signal("SIGSTOP");
    await scheduler.says(/^worker\/1 is dead/, 1, 5 * HEARTBEAT_TIMEOUT_MS);
    await steady.says(/^step \d+$/, steady.count(/^step \d+$/) + 5); // it goes on without the other one
    stopped.signal("SIGCONT");
    await stopped.ends();
    assert.match(stopped.stdout, /^learned (NOT_JOINED|STALE_UPDATE|NODE_DEAD|FENCED): /m);
    await steady.says(/^worker 0 read what it must/);
    assert.match(steady.stdout + steady.stderr, /without .*worker 1/, "worker 0 says that it goes on without worker 1");
  });
}

for (const face of FACES) {
  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`${face}: a worker that blocks its loop is waited for, seed ${seed}`, async () => await blockLoops(face, seed));
    test(`${face}: a worker that is stopped is declared dead and learns it, seed ${seed}`, async () => await stopWorker(face, seed));
  }
}

for (let seed = 1; seed <= SEEDS; seed++) {
  const face = FACES[seed % FACES.length] as string;
  const { workers, args } = draw(seed + 100, face);
  test(`launch waits for workers that block their loops, ${face}, seed ${seed}`, async () => {
    await using processes = new Processes();
    await Strike.run(`seed ${seed}, ${args.join(" ")}`, async (strike) => {
      const flags = ["-s", 1, "-w", workers, "--heartbeat-timeout", `${HEARTBEAT_TIMEOUT_MS}ms`, ...FLAGS];
      const [launch] = strike.watch(processes.weighbridge(["launch", ...flags, "--", script("busy-member"), ...args]));
      assert.equal((await launch.ends()).code, 0);
      assert.equal(launch.count(/read what it must/), workers);
      assert.doesNotMatch(launch.stdout + launch.stderr, DEATH);
    });
  });
}

for (let seed = 1; seed <= SEEDS; seed++) {
  const { workers, args } = draw(seed + 200, "tables", HOSTED_TIMEOUT_MS);
  test(`processes of a host map that block their loops, the scheduler's too, are waited for, seed ${seed}`, async () => {
    await using processes = new Processes();
    const ports = await Promise.all(Array.from({ length: workers }, () => freePort("127.0.0.1")));
    await Strike.run(`seed ${seed}, ${args.join(" ")}`, async (strike) => {
      const member = (client: number): Running => {
        const hosts = ["--ports", ports.join(), "--client", `${client}`];
        return processes.run(process.execPath, [script("busy-member"), ...args, ...hosts]);
      };
      const members = strike.watch(...ports.map((_, client) => member(client)));
      for (const node of members) await node.ends();
      for (const [rank, node] of members.entries()) {
        assert.equal(node.count(new RegExp(`^worker ${rank} read what it must in ${STEPS} steps$`)), 1, `worker ${rank}`);
        assert.doesNotMatch(node.stdout + node.stderr, DEATH);
        assert.doesNotMatch(node.stderr, /dialing/, "a scheduler whose thread answers for it is not dialed again");
        await node.succeeds();
      }
    });
  });
}
