// durable — Goal: with --durable, a job whose processes are all killed comes back with every update that was
// acknowledged; damage is found, and a directory serves one process.

import assert from "node:assert/strict";
import { mkdtemp, open, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { Cluster } from "./cluster.ts";
import type { Running } from "./processes.ts";

async function directory(): Promise<string> {
  return await mkdtemp(join(tmpdir(), "weighbridge-durable-"));
}

/** One worker, and so many servers. */
class Job {
  readonly cluster: Cluster;
  readonly nodes: Running[];
  readonly worker: Running;

  constructor(cluster: Cluster, servers: number, ...args: readonly string[]) {
    this.cluster = cluster;
    this.nodes = [cluster.scheduler(), ...Array.from({ length: servers }, (_, rank) => cluster.server(rank))];
    this.worker = cluster.worker(0, "keeper", ...args);
  }

  /** Once its only server is known to have ended, the next process of the rank takes over, and the worker finishes. */
  async goesOn(): Promise<void> {
    await (this.nodes[0] as Running).says(/server\/0 (is dead, and is waited for|was stopped, and is awaited)/);
    const again = this.cluster.server(0);
    await this.worker.says(/^acknowledged \d+$/, this.worker.count(/^acknowledged/) + 20);
    this.worker.tell("enough");
    await this.worker.says(/^done/);
    this.worker.endInput();
    for (const node of [this.worker, again]) await node.succeeds();
  }

  async killAll(): Promise<void> {
    await Promise.all([...this.nodes, this.worker].map((node) => node.kill()));
  }
}

const FOUND = /^found (\d+) to (\d+) (\w+)$/;

suite("durable", { concurrency: 2 }, () => {
  test("everything is killed during pushes, and again when all are acknowledged: nothing is lost, and bits are the same", async () => {
    const [durable, state] = [await directory(), await directory()];
    const flags = ["--durable", durable, "--state-dir", state, "--job", "durable"];
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags });
    const first = new Job(cluster, 2);
    await first.worker.says(/^acknowledged \d+$/, 50);
    await first.killAll();
    const acknowledged = first.worker.count(/^acknowledged/);

    const second = new Job(cluster, 2, "--pushes", "20");
    const [, least, most] = await second.worker.says(FOUND);
    assert.ok(Number(least) >= acknowledged && Number(most) <= acknowledged + 1, `${acknowledged} acknowledged, found ${least} to ${most}`);
    const [, bits] = await second.worker.says(/^done (\w+)$/);
    await second.killAll();

    const third = new Job(cluster, 2, "--pushes", "0");
    assert.equal((await third.worker.says(FOUND))[3], bits);
    third.worker.endInput();
    for (const node of [third.worker, ...third.nodes]) await node.succeeds();
    assert.deepEqual(await readdir(join(durable, "durable")), [], "a job that ends leaves nothing");
    for (const path of [durable, state]) await rm(path, { recursive: true });
  });

  test("a server that is killed and started again, after it was declared dead, goes on; no call of a worker fails", async () => {
    const durable = await directory();
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--durable", durable] });
    const job = new Job(cluster, 1);
    await job.worker.says(/^acknowledged \d+$/, 20);
    const server = job.nodes[1] as Running;
    const second = cluster.server(0);
    await second.fails(/STATE_HELD: the server of process \d+ on .* uses the state in/);
    await server.kill();
    await job.goesOn();
    await rm(durable, { recursive: true });
  });

  test("a server that is stopped, and started again once its end is known, goes on; no call of a worker fails", async () => {
    const durable = await directory();
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--durable", durable] });
    const job = new Job(cluster, 1);
    await job.worker.says(/^acknowledged \d+$/, 20);
    (job.nodes[1] as Running).signal("SIGTERM");
    await job.goesOn();
    await rm(durable, { recursive: true });
  });

  test("a flipped byte is found, with its path and offset; an unfinished end is dropped", async () => {
    const durable = await directory();
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--durable", durable] });
    const job = new Job(cluster, 1, "--pushes", "30");
    const [, bits] = await job.worker.says(/^done (\w+)$/);
    await job.killAll();
    const path = join(durable, "server-0", "log-000000000001");
    const file = await open(path, "r+");
    const bytes = await file.readFile();
    const end = bytes.findLastIndex((byte) => byte !== 0) + 1;

    await file.write(Uint8Array.of((bytes[300] ?? 0) ^ 1), 0, 1, 300);
    const damaged = new Job(cluster, 1);
    await (damaged.nodes[1] as Running).fails(/STATE_CORRUPT: .*log-000000000001 is damaged at byte \d+/);
    await damaged.killAll();

    await file.write(Uint8Array.of(bytes[300] ?? 0), 0, 1, 300);
    await file.write(new Uint8Array(64).fill(7), 0, 64, Math.ceil(end / 8) * 8); // of a batch that nobody was told of
    await file.close();
    const whole = new Job(cluster, 1, "--pushes", "0");
    assert.equal((await whole.worker.says(FOUND))[3], bits);
    await whole.killAll();
    await rm(durable, { recursive: true });
  });

  test("what a durable server cannot be is refused", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--durable", "/proc/nowhere"] });
    await cluster.weighbridge(["server", ...cluster.flags, "--start-timeout", "2000ms"]).refuses(/--rank/);
  });
});
