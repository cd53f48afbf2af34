// orderly-ends — Goal: a job whose last client has left, and one that serves guests until SIGTERM, keep every
// update that was acknowledged in a checkpoint: a start with --resume finds them bit for bit, one without it
// begins empty. Three minutes.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, isWeighbridgeError, type Session } from "weighbridge";
import { Random } from "../../src/base/random.ts";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Cluster } from "../e2e/cluster.ts";
import { Processes, type Running, script } from "../e2e/processes.ts";
import { temporaryFolder } from "../support/checkpoint-stage.ts";
import { Strike } from "./strike.ts";

const SEEDS = Number(process.env.SOAK_ROUNDS ?? 4);
const RUNS = 3;
const PUSHES_MAX = 120;
const STEPS_MAX = 60;
const CUT_OFF_ENDS = 5;
const KILLED_MS_MAX = 300;
const FOUND = /^(?:\[worker\/0\] )?found (\d+) to (\d+) (\w+)$/;
const KEYS = Array.from({ length: 64 }, (_, key) => key * 97);

type Found = { readonly least: number; readonly most: number; readonly bits: string };

async function foundBy(worker: Running): Promise<Found> {
  const [, least, most, bits = ""] = await worker.says(FOUND);
  return { least: Number(least), most: Number(most), bits };
}

/** How a job is started, by single processes. */
type Start = { readonly servers: number; readonly replicas?: number; readonly flags: readonly (string | number)[] };

/** A job with one worker that pushes, and has done all that it was to; its standard input ends it. */
async function started(strike: Strike, cluster: Cluster, { servers, replicas = 1 }: Start, pushes: number): Promise<Job> {
  const ranks = Array.from({ length: servers * replicas }, (_, index) => index % servers);
  const nodes = strike.watch(cluster.scheduler(), ...ranks.map((rank) => cluster.server(rank)));
  const [worker] = strike.watch(cluster.worker(0, "keeper", "--pushes", `${pushes}`));
  const found = await foundBy(worker);
  const [, end = ""] = await worker.says(/^done (\w+)$/);
  return { worker, nodes, found, end };
}

type Job = { readonly worker: Running; readonly nodes: readonly Running[]; readonly found: Found; readonly end: string };

/** One run whose only worker pushes this often and leaves. */
async function runOnce(told: string, start: Start, pushes: number): Promise<Omit<Job, "worker" | "nodes">> {
  const { servers, replicas = 1, flags } = start;
  await using cluster = await Cluster.create({ servers, workers: 1, flags: ["--replicas", replicas, ...flags] });
  let job: Job | undefined;
  await Strike.run(`${told}, ${servers} servers of ${replicas}, ${flags.join(" ")}`, async (strike) => {
    job = await started(strike, cluster, start, pushes);
    job.worker.endInput();
    for (const node of [job.worker, ...job.nodes]) await node.succeeds();
  });
  return job as Job;
}

async function endInOrder(seed: number): Promise<void> {
  using folder = temporaryFolder();
  using logs = temporaryFolder();
  const random = new Random(seed);
  const every = random.chance(0.5) ? ["--checkpoint-every", "300ms", "--keep", 2] : [];
  const flags = ["--checkpoint-dir", folder.path, ...every];
  // servers with logs restore no checkpoint: they may be the first
  const isDurable = random.chance(0.5);
  let [total, bits] = [0, ""];
  for (let run = 0; run < RUNS; run++) {
    const [servers, pushes, hasLogs] = [1 + random.below(2), 1 + random.below(PUSHES_MAX), isDurable && run === 0];
    const how = hasLogs ? ["--durable", logs.path] : [`--resume=${folder.path}`];
    const start = { servers, replicas: hasLogs ? 1 : 1 + random.below(2), flags: [...flags, ...how] };
    const { found, end } = await runOnce(`seed ${seed}, run ${run}`, start, pushes);
    const where = `seed ${seed}, run ${run}`;
    assert.deepEqual([found.least, found.most], [total, total], `${where}: ${total} pushes were acknowledged before`);
    if (run > 0) assert.equal(found.bits, bits, where);
    [total, bits] = [total + pushes, end];
  }
  const whole = await runOnce(`seed ${seed}, without --resume`, { servers: 1, flags }, total);
  assert.deepEqual([whole.found.least, whole.found.most], [0, 0], `seed ${seed}: without --resume a job begins empty`);
  assert.equal(whole.end, bits, `seed ${seed}: ${total} pushes in one run`);
}

/** Servers are killed at a moment of the orderly end, and the job is started again with `again`. */
async function cutOffEnd(seed: number, isDurable: boolean): Promise<void> {
  using folder = temporaryFolder();
  using logs = temporaryFolder();
  const random = new Random(seed);
  const servers = 1 + random.below(2);
  const common = ["--checkpoint-dir", folder.path, "--job", `end-${seed}`, "--start-timeout", "20000ms"];
  const flags = [...common, ...(isDurable ? ["--durable", logs.path] : [`--resume=${folder.path}`])];
  /** How often rows were pushed to, at least and at most. */
  let [kept, made] = [0, 0];
  for (let run = 0; run <= CUT_OFF_ENDS; run++) {
    await using cluster = await Cluster.create({ servers, workers: 1, flags });
    await Strike.run(`seed ${seed}, run ${run} of ${servers} servers${isDurable ? " with logs" : ""}`, async (strike) => {
      const pushes = 1 + random.below(PUSHES_MAX);
      const { worker, nodes, found } = await started(strike, cluster, { servers, flags }, pushes);
      const { least, most } = found;
      assert.equal(least, most, "a checkpoint, and logs of a job that has ended, are whole");
      if (isDurable && most === 0 && made > 0) {
        // the logs were removed: the checkpoint of the job's end has everything
        const saved = await runOnce(`seed ${seed}, the checkpoint`, { servers, flags: [...common, `--resume=${folder.path}`] }, 0);
        assert.deepEqual([saved.found.least, saved.found.most], [made, made]);
      } else assert.ok(least >= kept && most <= made, `found ${most}, of ${kept} to ${made}`);
      made = most + pushes;
      // with logs nothing may be lost; without, the checkpoint of the run before is the least
      kept = isDurable ? made : most;
      worker.endInput();
      const ms = random.below(KILLED_MS_MAX);
      strike.did(`killed ${ms} ms into the end`);
      await sleep(ms);
      for (const node of nodes) await node.kill();
    });
  }
}

/** Workers in step stop at a clock, and others go on from there, as if they were the same. */
async function trainOn(seed: number): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const train = async (
    told: string,
    steps: number,
    flags: readonly string[],
  ): Promise<{ readonly from: number; readonly bits: string }> => {
    await using processes = new Processes();
    let trained = { from: -1, bits: "" };
    await Strike.run(`seed ${seed}, ${told} ${steps}`, async (strike) => {
      const counts = ["-s", 1 + random.below(2), "-w", 2, "--replicas", 1 + random.below(2)];
      const args = ["launch", ...counts, ...flags, "--", script("resumer"), "--steps", steps];
      const [launch] = strike.watch(processes.weighbridge(args));
      await launch.succeeds();
      const [, bits = ""] = await launch.says(/ bits (\w+)$/);
      assert.equal((await launch.says(/ bits (\w+)$/, 2))[1], bits);
      trained = { from: Number((await launch.says(/ begins at clock (\d+)$/))[1]), bits };
    });
    return trained;
  };
  const flags = ["--checkpoint-dir", folder.path, `--resume=${folder.path}`];
  let steps = 0;
  let last = "";
  for (let run = 0; run < RUNS; run++) {
    const next = steps + 1 + random.below(STEPS_MAX);
    const { from, bits } = await train(`from ${steps} to`, next, flags);
    assert.equal(from, steps, `seed ${seed}, run ${run}`);
    [steps, last] = [next, bits];
  }
  assert.equal(last, (await train("in one run to", steps, [])).bits, `seed ${seed}`);
}

suite("orderly ends", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`--resume finds what was acknowledged before the last client left, seed ${seed}`, async () => await endInOrder(seed));
    test(`workers in step go on from the clock at which the last one left, seed ${seed}`, async () => await trainOn(seed));
    test(`a job comes up after each of ${CUT_OFF_ENDS} ends that were cut off, seed ${seed}`, async () => await cutOffEnd(seed, false));
    test(`servers with logs lose nothing in ${CUT_OFF_ENDS} ends that were cut off, seed ${seed}`, async () => await cutOffEnd(seed, true));
    test(`what a guest pushed while the job ended is kept, seed ${seed}`, async () => await guestAtEnd(seed));
  }
});

/** Guests that push to one table, and know how much of it was acknowledged. */
class Guests {
  readonly #port: number;
  /** In all runs. */
  acknowledged = 0;

  constructor(port: number) {
    this.#port = port;
  }

  async #session(): Promise<Session> {
    return await connect(`weighbridge://127.0.0.1:${this.#port}`, { logLevel: "silent", startTimeoutMs: 60_000, timeoutMs: 60_000 });
  }

  /** What the rows hold, once servers have loaded their checkpoint. */
  async found(): Promise<readonly number[]> {
    await using session = await this.#session();
    return [...(await (await session.embedding("visits", { dim: 1, optimizer: "sum" })).pull(KEYS))];
  }

  async push(times: number): Promise<void> {
    await using session = await this.#session();
    const visits = await session.embedding("visits", { dim: 1, optimizer: "sum" });
    for (let i = 0; i < times; i++, this.acknowledged++) await visits.push(KEYS, new Float32Array(KEYS.length).fill(1));
  }

  /** Until the job ends under it. */
  async pushOn(): Promise<void> {
    try {
      await this.push(Infinity);
    } catch (error) {
      if (!isWeighbridgeError(error)) throw error;
    }
  }
}

/** A guest pushes all the time while the last worker leaves. */
async function guestAtEnd(seed: number): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const servers = 1 + random.below(2);
  const flags = ["--checkpoint-dir", folder.path, `--resume=${folder.path}`];
  let acknowledged = 0;
  for (let run = 0; run < RUNS; run++) {
    await using cluster = await Cluster.create({ servers, workers: 1, flags });
    await Strike.run(`seed ${seed}, run ${run} of ${servers} servers`, async (strike) => {
      const guests = new Guests(cluster.port);
      const { worker, nodes } = await started(strike, cluster, { servers, flags }, 1 + random.below(PUSHES_MAX));
      const found = await guests.found();
      const [least, most] = [Math.min(...found), Math.max(...found)];
      assert.ok(least >= acknowledged && most <= acknowledged + 1, `found ${least} to ${most} of ${acknowledged}`);
      if (least < most) await levelOut(cluster.port, found, most);
      guests.acknowledged = most;
      const pushing = guests.pushOn();
      await sleep(200 + random.below(400));
      worker.endInput();
      await pushing;
      acknowledged = guests.acknowledged;
      for (const node of [worker, ...nodes]) await node.succeeds();
    });
  }
}

/** A service that is stopped by SIGTERM, again and again, while guests push or after they have. */
async function serveGuests(seed: number): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const port = await freePort("127.0.0.1");
  const guests = new Guests(port);
  for (let run = 0; run < RUNS; run++) {
    await using processes = new Processes();
    const [servers, replicas, isBusy] = [1 + random.below(2), 1 + random.below(2), random.chance(0.5)];
    await Strike.run(`seed ${seed}, run ${run}, ${isBusy ? "busy" : "idle"} at the end`, async (strike) => {
      const flags = ["-s", servers, "-w", 0, "--replicas", replicas, "--port", port, "--checkpoint-dir", folder.path];
      const [launch] = strike.watch(processes.weighbridge(["launch", ...flags, `--resume=${folder.path}`]));
      const found = await Promise.race([guests.found(), launch.ends().then(() => assert.fail("the cluster has ended"))]);
      // a push that was under way at the end counts or does not, on each server by itself
      const [least, most] = [Math.min(...found), Math.max(...found)];
      const { acknowledged } = guests;
      assert.ok(least >= acknowledged && most <= acknowledged + 1, `found ${least} to ${most} of ${acknowledged}`);
      guests.acknowledged = most;
      if (least < most) await levelOut(port, found, most);
      await guests.push(1 + random.below(PUSHES_MAX));
      await sleep(random.below(1500));
      assert.ok(launch.isRunning, "it serves until SIGTERM");
      const last = isBusy ? guests.pushOn() : undefined;
      if (isBusy) await sleep(200 + random.below(400));
      await stop(launch);
      await last;
    });
  }
}

async function serveAfterWorkers(seed: number): Promise<void> {
  using folder = temporaryFolder();
  const random = new Random(seed);
  const port = await freePort("127.0.0.1");
  const guests = new Guests(port);
  let [total, bits] = [0, ""];
  for (let run = 0; run < 2; run++) {
    await using processes = new Processes();
    const [servers, pushes] = [1 + random.below(2), 1 + random.below(PUSHES_MAX)];
    await Strike.run(`seed ${seed}, run ${run}`, async (strike) => {
      const flags = ["-s", servers, "-w", 1, "--serve", "--port", port, "--checkpoint-dir", folder.path, `--resume=${folder.path}`];
      const args = ["--", script("keeper"), "--pushes", pushes];
      const [launch] = strike.watch(processes.weighbridge(["launch", ...flags, ...args]));
      const found = await foundBy(launch);
      assert.deepEqual([found.least, found.most], [total, total]);
      if (run > 0) assert.equal(found.bits, bits);
      [total, bits] = [total + pushes, (await launch.says(/done (\w+)$/))[1] as string];
      await sleep(1000 + random.below(1000));
      assert.ok(launch.isRunning, "it serves until SIGTERM");
      assert.deepEqual(new Set(await guests.found()), new Set([guests.acknowledged]));
      await guests.push(1 + random.below(PUSHES_MAX));
      await stop(launch);
    });
  }
}

async function stop(launch: Running): Promise<void> {
  launch.signal("SIGTERM");
  const { code } = await launch.ends();
  assert.ok(code === 0 || code === 143, `launch ended with ${code}`);
}

suite("clusters that serve", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`launch -w 0 serves guests until SIGTERM, and --resume finds what they pushed, seed ${seed}`, async () => await serveGuests(seed));
    test(`launch --serve goes on after the last worker has left, and keeps what all pushed, seed ${seed}`, async () =>
      await serveAfterWorkers(seed));
  }
});

/** Adds to the rows that lack the last push, so that all are alike again. */
async function levelOut(port: number, found: readonly number[], most: number): Promise<void> {
  await using session = await connect(`weighbridge://127.0.0.1:${port}`, { logLevel: "silent" });
  const visits = await session.embedding("visits", { dim: 1, optimizer: "sum" });
  await visits.push(
    KEYS,
    Float32Array.from(found, (count) => most - count),
  );
}
