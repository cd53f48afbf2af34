// scaling — Goal: servers of real jobs come and leave while workers train: by the command line and over HTTP, with
// processes that a launcher starts and with others. No call of a worker fails, each push counts once, and BSP gives the
// bits of a run whose servers stay.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { connect } from "../../src/node/weighbridge.ts";
import type { ScalingReport } from "../../src/wire/scaling.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Cluster } from "./cluster.ts";
import { DEADLINE_MS, Processes, type Running, until } from "./processes.ts";

/** Elements of a tensor that takes some steps to move. */
const LARGE = 2 ** 24;
/** A timeout of a change that is longer than any wait of these tests: whoever waited for it would be found. */
const NEVER = `${2 * DEADLINE_MS}ms`;

/** Waits until a worker has pushed more than it had. */
async function goesOn(...workers: readonly Running[]): Promise<void> {
  for (const worker of workers) await worker.says(/^pushed \d+$/, worker.count(/^pushed \d+$/) + 2);
}

async function bitsOf(worker: Running): Promise<string> {
  const [, bits = ""] = await worker.says(/^bits (\w+)$/);
  return bits;
}

/** A job of one survivor that pushes until this file is there. */
function launchOf(cluster: Cluster, until: string): Running {
  const script = ["test/e2e/scripts/survivor.ts", "--until", until];
  return cluster.weighbridge(["launch", ...cluster.flags, "--log-level", "info", ...script]);
}

/** The bits of a survivor whose servers stay. They have standbys, and from its start to its end nobody warns. */
async function runCalm(): Promise<string> {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--job", "calm", "--replicas", 2] });
  const launch = launchOf(cluster, "package.json"); // it is there: no push but those in step
  await launch.succeeds();
  for (const line of `${launch.stdout}${launch.stderr}`.split("\n")) assert.doesNotMatch(line, / (?:warn|error) /);
  const [, bits = ""] = await launch.says(/^\[worker\/0\] bits (\w+)$/);
  return bits;
}

let calmRun: Promise<string> | undefined;
function calmBits(): Promise<string> {
  calmRun ??= runCalm();
  return calmRun;
}

type Answer = {
  readonly code: string;
  readonly number?: number;
  readonly message?: string;
  readonly cluster_state?: string;
  readonly scaling?: ScalingReport;
};

async function http(port: number, path: string, body?: unknown): Promise<Answer> {
  const json = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, body === undefined ? {} : json);
  return (await response.json()) as Answer;
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Its changes end as the last line says. */
async function scale(processes: Processes, port: number | string, ...flags: readonly (string | number)[]): Promise<Running> {
  const command = processes.weighbridge(["scale", "--scheduler-port", port, ...flags]);
  await command.ends();
  return command;
}

/** What `weighbridge status --json` says of changes of the servers. */
async function scalingOf(cluster: Cluster): Promise<ScalingReport> {
  const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port, "--json"]);
  await status.succeeds();
  return (JSON.parse(status.stdout) as { readonly scaling: ScalingReport }).scaling;
}

suite("scaling", { concurrency: 1 }, () => {
  test("a launched job whose servers have standbys ends without a warning of any process", async () => {
    assert.match(await calmBits(), /^\w+$/);
  });

  test("servers that are started by hand join, and some leave, rank 0 too, while workers push: nothing is lost", async () => {
    const bits: string[] = [];
    for (const isCalm of [true, false]) {
      const managePort = await freePort("127.0.0.1");
      const checkpoints = temporaryDirectory("scaling");
      const flags = ["--job", "scaling", "--manage-port", managePort, "--checkpoint-dir", checkpoints];
      await using cluster = await Cluster.create({ servers: 2, workers: 2, flags });
      const scheduler = cluster.scheduler();
      const [first, second] = [cluster.server(0), cluster.server(1)];
      const workers = [cluster.worker(0, "survivor"), cluster.worker(1, "survivor")];
      await goesOn(...workers);
      const others: Running[] = [second];
      if (isCalm) others.push(first);
      else {
        const change = cluster.weighbridge(["scale", "--scheduler-port", cluster.port, "--servers", 4]);
        await change.says(/^change 1, 2 servers to 4: waiting for server\/2, server\/3$/);
        assert.equal((await http(managePort, "/state")).cluster_state, "CLUSTER_SCALE_OUT");
        const joining = ["server", "--scheduler-port", cluster.port, "-s", 4, "-w", 2, "--checkpoint-dir", checkpoints];
        const added = [2, 3].map(() => cluster.weighbridge(joining));
        await change.succeeds();
        await change.says(/^change 1 is done$/);
        await goesOn(...workers);
        const { message } = await http(managePort, "/scalein", { node_ids: ["server 0"] });
        assert.equal(message, "Cluster begin to scale in.");
        await first.succeeds();
        assert.match(first.stderr, /all parts have moved to other servers: this server leaves/);
        await scheduler.says(/^server\/0 has left$/);
        const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port]);
        await status.says(/\(3 of 3 servers, 2 of 2 workers\); placement epoch \d+, the fullest server has 1\.\d\d of the mean/);
        others.push(...added);
      }
      await goesOn(...workers);
      bits.push(...(await Promise.all(workers.map(bitsOf))));
      for (const worker of workers) worker.endInput();
      for (const worker of workers) await worker.says(/^verified/);
      for (const node of [...workers, ...others, scheduler]) await node.succeeds();
      assert.ok(readdirSync(checkpoints).includes("latest"), "those that are left save the end of the job");
    }
    assert.equal(new Set(bits).size, 1, bits.join(" "));
  });

  test("scale to the number there is says that nothing changes, also where the kv face holds keys that do not move", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    const nodes = [cluster.scheduler(), cluster.server(0)];
    const worker = cluster.worker(0, "pusher");
    await worker.says(/^push works$/);
    const scale = (servers: number): Running => cluster.weighbridge(["scale", "--servers", servers, "--scheduler-port", cluster.port]);
    const same = scale(1);
    await same.succeeds();
    assert.equal(same.stdout, "there is 1 server already: nothing changes\n");
    await scale(2).fails(/has keys of the kv face/);
    worker.endInput();
    for (const node of [worker, ...nodes]) await node.succeeds();
  });

  test("where no server comes, the change is taken back after --timeout; a spare is let in by the next one", async () => {
    const managePort = await freePort("127.0.0.1");
    // nobody dies, though the worker is stopped below
    const flags = ["--job", "scaling-spare", "--manage-port", managePort, "--heartbeat-timeout", "20000ms"];
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags });
    const scheduler = cluster.scheduler();
    const server = cluster.server(0);
    const worker = cluster.worker(0, "survivor");
    await goesOn(worker);
    const late = await scale(cluster, cluster.port, "--servers", 2, "--timeout", "500ms");
    assert.equal((await late.ends()).code, 1, late.transcript);
    await late.says(/^change 1 was rolled back: waited \d+ ms for server 1 to come$/);
    const spare = cluster.weighbridge(["server", ...cluster.flags]);
    await until(() => /waiting as a spare: all 1 servers/.test(spare.stderr), "the spare to say so");
    const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port]);
    await status.says(/^server +spare +\S+ /);
    await using guest = await connect(`weighbridge://127.0.0.1:${cluster.port}`);
    await guest.tensor("large", { shape: [LARGE], optimizer: "sum", consistency: "asp" }); // its parts take a while
    const change = cluster.weighbridge(["scale", "--scheduler-port", cluster.port, "--servers", 2]);
    while (((await http(managePort, "/status")).scaling?.current?.moved ?? 0) === 0) assert.ok(change.isRunning, change.transcript);
    worker.signal("SIGSTOP"); // every step waits for it
    const { current } = await scalingOf(cluster);
    worker.signal("SIGCONT");
    assert.deepEqual([current?.step, current?.from, current?.to], ["moving", [0], [0, 1]]);
    const { moved = 0, parts = 0 } = current ?? {};
    assert.ok(moved > 0 && moved < parts, `${moved} of ${parts} parts`);
    await change.succeeds();
    const { shares, skew = 0, ended } = await scalingOf(cluster);
    assert.ok(skew >= 1 && skew < 1.1, `the JSON has the skew, ${skew}`);
    assert.deepEqual([shares.map(({ rank }) => rank), ended.at(-1)], [[0, 1], { number: 2, outcome: "done" }]);
    worker.endInput();
    await worker.says(/^verified/);
    for (const node of [worker, server, spare, scheduler]) await node.succeeds();
  });

  test("launch starts and ends both processes of replicated servers: from 2 to 3 and back, a head is killed in between, nothing is lost", async () => {
    const stop = join(temporaryDirectory("scaling-replicas"), "stop");
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags: ["--job", "scaling-replicas", "--replicas", 2] });
    const launch = launchOf(cluster, stop);
    await launch.says(/^\[worker\/0\] pushed \d+$/);
    await (await scale(cluster, cluster.port, "--servers", 3)).succeeds();
    assert.equal(launch.stderr.match(/server\/2 is started/g)?.length, 2);
    const [, head] = await launch.says(/server\/0 ready {2}\S+ {2}pid (\d+)/);
    process.kill(Number(head), "SIGKILL");
    await launch.says(/server\/0 taken over by its standby .* incarnation 2$/);
    await (await scale(cluster, cluster.port, "--servers", 2)).succeeds();
    for (const pattern of [/server\/2 ready {2}\S+ {2}pid (\d+)/, /standby\/2 ready {2}\S+ {2}pid (\d+)/]) {
      const [, pid] = await launch.says(pattern);
      await until(() => !isRunning(Number(pid)), `process ${pid} of server 2 to end by itself`);
    }
    const [, bits] = await launch.says(/^\[worker\/0\] bits (\w+)$/);
    await writeFile(stop, "");
    await launch.succeeds();
    assert.match(launch.stdout, /^\[worker\/0\] verified \d+ pushes/m);
    assert.match(launch.stdout, /^\[scheduler\] server\/2 has left$/m);
    assert.doesNotMatch(launch.stderr, /server\/2 (?:was ended|ended with)/);
    assert.equal(bits, await calmBits(), "BSP has the bits of a run whose servers stay");
  });

  test("a joining head is killed before it has a standby, and the next one when it has parts: the change goes on, nothing is lost", async () => {
    const managePort = await freePort("127.0.0.1");
    const flags = ["--job", "joining-head", "--replicas", 2, "--manage-port", managePort];
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags });
    const scheduler = cluster.scheduler();
    const another = (): Running => cluster.weighbridge(["server", ...cluster.flags]);
    const servers = [another(), another()];
    const worker = cluster.worker(0, "survivor");
    await goesOn(worker);
    await using guest = await connect(`weighbridge://127.0.0.1:${cluster.port}`);
    const large = await guest.tensor("large", { shape: [LARGE], consistency: "asp", optimizer: { type: "sum" } });
    await large.push(new Float32Array(LARGE).fill(1));
    const change = cluster.weighbridge(["scale", "--scheduler-port", cluster.port, "--servers", 2, "--timeout", NEVER]);
    const joined = /^server\/1 ready(?: again)? {2}\S+ {2}pid (\d+)/;
    const leader = async (times: number): Promise<Running | undefined> => {
      const [, pid] = await scheduler.says(joined, times);
      return servers.find((server) => String(server.pid) === pid);
    };
    const first = another();
    servers.push(first);
    assert.equal(await leader(1), first);
    await first.kill();
    servers.push(another(), another());
    const second = await leader(2);
    assert.ok(second !== undefined);
    while (((await http(managePort, "/status")).scaling?.current?.moved ?? 0) === 0) assert.ok(change.isRunning, change.transcript);
    await second.kill();
    await scheduler.says(/^server\/1 taken over by its standby .* incarnation 3$/);
    await change.succeeds();
    await change.says(/^change 1 is done$/);
    assert.deepEqual(new Set(await large.pull()), new Set([1]), "parts that moved have what was pushed, once");
    await guest.close();
    await goesOn(worker);
    assert.equal(await bitsOf(worker), await calmBits(), "BSP has the bits of a run whose servers stay");
    worker.endInput();
    await worker.says(/^verified/);
    for (const node of [worker, ...servers, scheduler]) if (node !== first && node !== second) await node.succeeds();
  });

  test("launch: a joining head is killed as soon as it is there: its standby goes on, or the change is taken back at once", async () => {
    const stop = join(temporaryDirectory("scaling-replicas"), "stop");
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--job", "joining-launched", "--replicas", 2] });
    const launch = launchOf(cluster, stop);
    await launch.says(/^\[worker\/0\] pushed \d+$/);
    const change = cluster.weighbridge(["scale", "--scheduler-port", cluster.port, "--servers", 2, "--timeout", NEVER]);
    const [, head] = await launch.says(/server\/1 ready {2}\S+ {2}pid (\d+)/);
    process.kill(Number(head), "SIGKILL");
    const { code } = await change.ends();
    await change.says(code === 0 ? /^change 1 is done$/ : /^change 1 was rolled back: .*server 1/);
    const pushed = /^\[worker\/0\] pushed \d+$/;
    await launch.says(pushed, launch.count(pushed) + 2);
    const [, bits] = await launch.says(/^\[worker\/0\] bits (\w+)$/);
    await writeFile(stop, "");
    await launch.succeeds();
    assert.match(launch.stdout, /^\[worker\/0\] verified \d+ pushes/m);
    assert.equal(bits, await calmBits());
  });

  test("a training goes from 2 servers to 4 and to 3, and learns what it learns with 2", async () => {
    const train = ["train", "lenet", "-s", 2, "--limit", 3840, "--no-checkpoint", "--every", 10];
    const results: string[] = [];
    for (const changes of [[], [4, 3]]) {
      await using processes = new Processes();
      // Longer with changes: it must not end before they have, however slow they are.
      const job = processes.weighbridge([...train, "--epochs", changes.length === 0 ? 6 : 14]);
      const [, port = ""] = await job.says(/^ {2}address {2}\S+:(\d+), /);
      if (changes.length > 0) await job.says(/^ {2}epoch: 1 step: 10, loss is/);
      for (const servers of changes) {
        const change = await scale(processes, port, "--servers", servers);
        await change.succeeds();
      }
      await job.succeeds();
      const [, loss = ""] = await job.says(/^ {2}epoch: 6 step: 60, loss is (\S+)$/);
      results.push(loss);
      if (changes.length > 0) await job.says(/server\/3 is started/);
    }
    assert.equal(results[0], results[1], "BSP has the bits of a run whose servers stay");
  });
});
