// replicas — Goal: with two processes for each server, any one of them, and the scheduler, may be killed or stopped: no
// call of a worker fails, each push counts once, and BSP gives the bits of a run in which nothing happens.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import type { StatusReply } from "../../src/wire/control.ts";
import { temporaryFolder } from "../support/checkpoint-stage.ts";
import { Cluster, HEARTBEAT_TIMEOUT_MS } from "./cluster.ts";
import { Copies } from "./copies.ts";
import { DEADLINE_MS, Processes, type Running, until } from "./processes.ts";

type Pair = { readonly head: Running; readonly standby: Running };

/** A cluster with two processes for each server. */
class Replicated {
  readonly cluster: Cluster;
  scheduler: Running;
  readonly servers: readonly Running[];

  private constructor(cluster: Cluster, servers: number) {
    this.cluster = cluster;
    this.scheduler = cluster.scheduler();
    const ranks = Array.from({ length: servers }, (_, rank) => rank);
    this.servers = [...ranks, ...ranks].map((rank) => cluster.server(rank));
  }

  static async start(cluster: Cluster, servers: number): Promise<Replicated> {
    return new Replicated(cluster, servers);
  }

  /** The processes of a rank, by what the scheduler said of them first. */
  async copies(rank: number): Promise<Pair> {
    const of = async (pattern: RegExp): Promise<Running> => {
      const [, pid] = await this.scheduler.says(pattern);
      const found = this.servers.find((server) => String(server.pid) === pid);
      assert.ok(found !== undefined, `process ${pid}`);
      return found;
    };
    return {
      head: await of(new RegExp(`^server/${rank} ready {2}\\S+ {2}pid (\\d+)`)),
      standby: await of(new RegExp(`^standby/${rank} ready {2}\\S+ {2}pid (\\d+)`)),
    };
  }

  /** The scheduler dies, and is started again. */
  async restartScheduler(): Promise<void> {
    await this.scheduler.kill();
    this.scheduler = this.cluster.scheduler();
  }
}

/** Waits until a worker has pushed more than it had. */
async function goesOn(...workers: readonly Running[]): Promise<void> {
  for (const worker of workers) await worker.says(/^pushed \d+$/, worker.count(/^pushed \d+$/) + 2);
}

async function finish(workers: readonly Running[], others: readonly Running[]): Promise<void> {
  for (const worker of workers) worker.endInput();
  for (const worker of workers) await worker.says(/^(verified|finished)/);
  for (const node of [...workers, ...others]) await node.succeeds();
}

const FLAGS = ["--replicas", 2, "--job", "replicas"];

suite("replicas", { concurrency: 2 }, () => {
  test("heads and standbys of several ranks, and the scheduler, are killed: nothing is lost, counted twice or computed otherwise", async () => {
    const bits: string[] = [];
    for (const isCalm of [true, false]) {
      await using cluster = await Cluster.create({ servers: 3, workers: 2, flags: FLAGS });
      const job = await Replicated.start(cluster, 3);
      const workers = [cluster.worker(0, "survivor"), cluster.worker(1, "survivor")];
      await goesOn(...workers);
      const killed: Running[] = [];
      if (!isCalm) {
        const [first, second, third] = [await job.copies(0), await job.copies(1), await job.copies(2)];
        for (const victim of [first.head, second.standby, third.head]) {
          await victim.kill();
          killed.push(victim);
          await goesOn(...workers);
          if (victim === second.standby) await job.restartScheduler();
        }
        await goesOn(...workers);
      }
      for (const worker of workers) bits.push((await worker.says(/^bits (\w+)$/))[1] as string);
      await finish(workers, [...job.servers.filter((server) => !killed.includes(server)), job.scheduler]);
    }
    assert.deepEqual(new Set(bits).size, 1, bits.join());
  });

  test("kv: a head that is killed, and one that is stopped, are replaced; the stopped one learns that it was", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags: FLAGS });
    const job = await Replicated.start(cluster, 2);
    const worker = cluster.worker(0, "pusher", "--verify");
    await worker.says(/^push works$/);
    const [first, second] = [await job.copies(0), await job.copies(1)];
    await first.head.kill();
    await job.scheduler.says(/^server\/0 taken over by its standby .* incarnation 2$/);
    await goesOn(worker);
    second.head.signal("SIGSTOP");
    await job.scheduler.says(/^server\/1 taken over by its standby .* incarnation 2$/, 1, 10 * HEARTBEAT_TIMEOUT_MS);
    await goesOn(worker);
    second.head.signal("SIGCONT");
    await second.head.fails(/FENCED/);
    await finish([worker], [first.standby, second.standby, job.scheduler]);
    assert.equal(worker.count(/^push failed/), 0);
  });

  test("a head that is asked to end by SIGTERM hands over: no push fails, and each counts once", async () => {
    // longer than any wait of this test: whoever waited for it would be found
    const flags = [...FLAGS, "--heartbeat-timeout", `${2 * DEADLINE_MS}ms`];
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags });
    const job = await Replicated.start(cluster, 1);
    const worker = cluster.worker(0, "pusher", "--verify");
    await worker.says(/^push works$/);
    const { head, standby } = await job.copies(0);
    head.signal("SIGTERM");
    await job.scheduler.says(/^server\/0 handed over to its standby .* incarnation 2$/);
    assert.deepEqual(await head.ends(), { code: null, signal: "SIGTERM" });
    await goesOn(worker);
    await finish([worker], [standby, job.scheduler]);
    assert.equal(worker.count(/^push failed/), 0);
  });

  test("copies that are killed and started again, one after the other, are filled, and may be killed again", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: FLAGS });
    const copies = new Copies(cluster, { servers: 1, seed: 5 });
    const worker = cluster.worker(0, "survivor");
    await goesOn(worker);
    for (let count = 0; count < 4; count++) await copies.strike(count, "SIGKILL");
    await worker.says(/^bits \w+$/);
    await finish([worker], [...copies.processes, copies.scheduler]);
  });

  test("tables: a head that is killed is replaced, and no increment is lost or counted twice", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 2, flags: FLAGS });
    const job = await Replicated.start(cluster, 1);
    const settings = ["mode=alone", "processes=2", "threads=2", "clocks=200", "model=SSPPush"];
    const workers = [0, 1].map((rank) => cluster.worker(rank, "tables-hello", ...settings));
    for (const worker of workers) await worker.says(/^at clock 20$/);
    const { head, standby } = await job.copies(0);
    await head.kill();
    for (const worker of workers) await worker.says(/^2 threads are done$/); // each has seen all of its increments
    for (const node of [...workers, standby, job.scheduler]) await node.succeeds();
  });

  test("launch starts two processes for each server, and goes on without one that is killed", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: FLAGS });
    const launch = cluster.weighbridge([
      "launch",
      ...cluster.flags,
      "--log-level",
      "info",
      "test/e2e/scripts/survivor.ts",
      "--pushes",
      400,
    ]);
    const [, pid] = await launch.says(/server\/0 ready {2}\S+ {2}pid (\d+)/);
    await launch.says(/^\[worker\/0\] pushed \d+$/, 2);
    process.kill(Number(pid), "SIGKILL");
    await until(
      () => / server\/0 \(process \d+\) was ended by SIGKILL; the job goes on with the other process of server\/0/.test(launch.stderr),
      "the launcher's line",
    );
    await launch.succeeds();
    assert.match(launch.stdout, /^\[worker\/0\] verified 400 pushes/m);
    assert.doesNotMatch(launch.stderr, /the scheduler (?:at \S+ is away|was restarted)/, "it was there all the time");
  });

  test("train --replicas 2 goes on when a server is killed, and hands over when it gets SIGTERM; it says so, and ends with the loss of a calm run", async () => {
    const losses: string[] = [];
    for (const signal of [undefined, "SIGKILL", "SIGTERM"] as const) {
      await using processes = new Processes();
      const flags = ["--limit", 1920, "--epochs", 2, "--no-checkpoint", "--every", 10, "-s", 1, "-w", 1];
      const job = processes.weighbridge(["train", "lenet", "--replicas", 2, ...flags]);
      await job.says(/^ {2}epoch: 1 step: 10, loss is/);
      if (signal !== undefined) process.kill(Number((await job.says(/^ *server\/0 ready {2}\S+ {2}pid (\d+)/))[1]), signal);
      await job.succeeds();
      if (signal !== undefined)
        await job.says(
          / server\/0 \(process \d+\) (?:was ended by SIGKILL|ended with exit code 143); the job goes on with the other process/,
        );
      assert.equal(job.count(/^ *server\/0 handed over to its standby/), signal === "SIGTERM" ? 1 : 0);
      losses.push((await job.says(/^ {2}epoch: 2 step: 30, loss is (\S+)$/))[1] as string);
    }
    assert.deepEqual(
      losses,
      Array.from({ length: 3 }, () => losses[0]),
    );
  });

  test("train --replicas 2 whose heads are all killed at the last step saves, prints its result and ends well", async () => {
    await using processes = new Processes();
    using folder = temporaryFolder();
    const flags = ["--limit", 640, "--epochs", 1, "--every", 10, "-s", 2, "-w", 1, "--checkpoint-dir", folder.path];
    const job = processes.weighbridge(["train", "lenet", "--replicas", 2, ...flags]);
    const heads = [0, 1].map(async (rank) => Number((await job.says(new RegExp(`^ *server/${rank} ready {2}\\S+ {2}pid (\\d+)`)))[1]));
    const pids = await Promise.all(heads);
    await job.says(/^ {2}epoch: 1 step: 10, loss is/);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await job.succeeds();
    for (const rank of [0, 1])
      await job.says(new RegExp(` server/${rank} \\(process \\d+\\) was ended by SIGKILL; the job goes on with the other process`));
    await job.says(/^ {2}accuracy {5}\d+\.\d\d % of 10,000 digits/);
    await job.says(/^ {2}checkpoint {3}\S+$/);
  });

  test("launch --restart on-failure starts a copy again that is killed; it is filled, and takes over from the other", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: [...FLAGS, "--restart", "on-failure"] });
    const script = ["test/e2e/scripts/survivor.ts", "--pushes", 1_000_000];
    const launch = cluster.weighbridge(["launch", ...cluster.flags, "--log-level", "info", ...script]);
    const pushed = /^\[worker\/0\] pushed \d+$/;
    const [, head] = await launch.says(/server\/0 ready {2}\S+ {2}pid (\d+)/);
    const [, standby] = await launch.says(/standby\/0 ready {2}\S+ {2}pid (\d+)/);
    await launch.says(pushed);
    process.kill(Number(head), "SIGKILL");
    await until(() => /the standby has everything/.test(launch.stderr), "the copy that was started again to be filled");
    for (let isFilled = false; !isFilled; ) {
      // The scheduler has to hear of it.
      const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port, "--json"]);
      await status.succeeds();
      const { nodes } = JSON.parse(status.stdout) as StatusReply;
      isFilled = nodes.some(({ role, state, isFilling }) => role === "standby" && state === "alive" && isFilling !== true);
    }
    process.kill(Number(standby), "SIGKILL");
    await launch.says(/server\/0 taken over by its standby .* incarnation 3$/);
    await launch.says(pushed, launch.count(pushed) + 2);
  });

  test("launch --restart on-failure starts a scheduler again that is killed: it goes on from its state, and nothing is lost", async () => {
    using folder = temporaryFolder();
    const done = join(folder.path, "done");
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: [...FLAGS, "--job", "again", "--restart", "on-failure"] });
    const script = ["test/e2e/scripts/survivor.ts", "--until", done];
    const launch = cluster.weighbridge(["launch", ...cluster.flags, "--log-level", "info", ...script], { env: { TMPDIR: folder.path } });
    const [, head] = await launch.says(/server\/0 ready {2}\S+ {2}pid (\d+)/);
    await launch.says(/^\[worker\/0\] pushed \d+$/);
    const [state = ""] = readdirSync(folder.path).filter((name) => name.startsWith("weighbridge-launch-"));
    const { pid } = JSON.parse(readFileSync(join(folder.path, state, `again@${cluster.port}`, "lock"), "utf8")) as { readonly pid: number };
    process.kill(pid, "SIGKILL");
    await until(() => /scheduler was ended by SIGKILL; it is started again in 500 ms/.test(launch.stderr), "the launcher's line");
    await launch.says(/the cluster is complete/, 2);
    process.kill(Number(head), "SIGKILL"); // who stands by is in that state
    await launch.says(/server\/0 taken over by its standby .* incarnation 2$/);
    writeFileSync(done, "");
    await launch.succeeds();
    assert.match(launch.stdout, /^\[worker\/0\] verified \d+ pushes/m);
    assert.deepEqual(readdirSync(folder.path), ["done"], "the launcher removes the state");
  });

  test("too many copies, and servers of another number of them, are refused by name", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    await cluster
      .weighbridge(["scheduler", ...cluster.flags, "--replicas", 3])
      .refuses(/--replicas \(command line\): expected a whole number from 1 to 2/);
    const scheduler = cluster.scheduler();
    const server = cluster.weighbridge(["server", ...cluster.flags, "--replicas", 2]);
    await server.refuses(/COUNT_MISMATCH: .*started with replicas 2, but the scheduler with replicas 1/);
    await scheduler.refuses(/COUNT_MISMATCH/);
  });
});
