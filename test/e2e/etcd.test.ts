// etcd — Goal: schedulers that keep their state in etcd take over from each other, with one member of etcd and with
// three, one of which is killed. Needs Debian's etcd-server; skipped without it.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { EtcdClient } from "../../src/node/state/etcd-client.ts";
import { Processes, ROOT, type Running, script, until } from "./processes.ts";

const ETCD = ["/usr/bin/etcd", "/usr/local/bin/etcd"].find((path) => existsSync(path)) ?? "";
const skip = ETCD === "" ? "there is no etcd: apt-get install etcd-server" : false;
const LEASE_MS = 2000;
/** Of a busy machine, beside the lease. */
const SLACK_MS = 3000;

class EtcdCluster extends Processes {
  readonly members: Running[] = [];
  readonly urls: string[] = [];

  async start(count: number): Promise<void> {
    const ports: [number, number][] = [];
    for (let i = 0; i < count; i++) ports.push([await freePort("127.0.0.1"), await freePort("127.0.0.1")]);
    const cluster = ports.map(([, peer], i) => `m${i}=http://127.0.0.1:${peer}`).join(",");
    for (const [i, [client, peer]] of ports.entries()) {
      const url = `http://127.0.0.1:${client}`;
      const args = ["--name", `m${i}`, "--data-dir", mkdtempSync(join(tmpdir(), "weighbridge-etcd-")), "--initial-cluster", cluster];
      args.push("--listen-client-urls", url, "--advertise-client-urls", url, "--heartbeat-interval", "40", "--election-timeout", "200");
      args.push("--listen-peer-urls", `http://127.0.0.1:${peer}`, "--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`);
      this.members.push(this.run(ETCD, args));
      this.urls.push(url);
    }
    const client = new EtcdClient(this.urls);
    for (let tries = 0; ; tries++) {
      try {
        await client.list("/weighbridge/");
        return;
      } catch (error) {
        if (tries > 100) throw new Error(this.members.map(({ transcript }) => transcript).join("\n"), { cause: error });
        await sleep(100);
      }
    }
  }

  /** The member that leads among those of etcd. */
  async leadingMember(): Promise<Running> {
    for (const [i, url] of this.urls.entries()) {
      const response = await fetch(`${url}/v3/maintenance/status`, { method: "POST", body: "{}" });
      const { header, leader } = (await response.json()) as { header: { member_id: string }; leader: string };
      if (header.member_id === leader) return this.members[i] as Running;
    }
    throw new Error("no member of etcd leads");
  }
}

/** A job with two schedulers, a server and a worker that pushes. */
class Job {
  readonly etcd: EtcdCluster;
  readonly ports: readonly number[];
  readonly flags: readonly (string | number)[];

  constructor(etcd: EtcdCluster, ports: readonly number[]) {
    this.etcd = etcd;
    this.ports = ports;
    const schedulers = ports.map((port) => `127.0.0.1:${port}`).join(",");
    this.flags = ["-s", 1, "-w", 1, "--job", "mnist", "--schedulers", schedulers, "--heartbeat-timeout-ms", 2000];
  }

  scheduler(index: number): Running {
    const own = ["--scheduler-port", this.ports[index] ?? 0, "--etcd", this.etcd.urls.join(","), "--etcd-lease-ms", LEASE_MS];
    return this.etcd.weighbridge(["scheduler", ...this.flags, ...own]);
  }

  server(): Running {
    return this.etcd.weighbridge(["server", ...this.flags]);
  }

  worker(): Running {
    return this.etcd.weighbridge(["worker", ...this.flags, script("pusher"), "--verify"]);
  }

  async status(): Promise<Running> {
    const status = this.etcd.weighbridge(["status", "--schedulers", this.ports.map((port) => `127.0.0.1:${port}`).join(",")]);
    await status.succeeds();
    return status;
  }
}

async function pushed(worker: Running): Promise<number> {
  return Number((await worker.says(/^pushed (\d+)$/, worker.count(/^pushed \d+$/) + 1))[1]);
}

suite("etcd", { skip, concurrency: 2 }, () => {
  test("a scheduler that is killed is replaced by its standby when its lease has ended, and the job goes on and ends; etcd keeps nothing of it", async () => {
    await using etcd = new EtcdCluster();
    await etcd.start(1);
    const job = new Job(etcd, [await freePort("127.0.0.1"), await freePort("127.0.0.1")]);
    const first = job.scheduler(0);
    await first.says(/^waiting for 1 server, 1 worker/);
    const second = job.scheduler(1);
    await second.says(new RegExp(`^standing by: the scheduler at tcp://127.0.0.1:${job.ports[0]} leads$`));
    const [server, worker] = [job.server(), job.worker()];
    await worker.says(/^push works$/);
    await until(() => first.isRunning, "the first scheduler");
    await sleep(LEASE_MS / 2); // so that the leader has looked for standbys
    assert.match((await job.status()).stdout, new RegExp(`scheduler .*127.0.0.1:${job.ports[1]} +standby`));

    const killedAt = performance.now();
    await first.kill();
    await second.says(/^waiting for 1 server, 1 worker/);
    const leadsAfterMs = performance.now() - killedAt;
    console.log(`a killed scheduler's standby led after ${Math.round(leadsAfterMs)} ms, with a lease of ${LEASE_MS} ms`);
    assert.ok(leadsAfterMs < LEASE_MS + SLACK_MS, `led after ${leadsAfterMs} ms`);
    await second.says(/^the cluster is complete/);
    const third = job.scheduler(0);
    await third.says(/^standing by/);
    const before = await pushed(worker);
    assert.ok((await pushed(worker)) > before);

    const endedAt = performance.now();
    second.signal("SIGTERM");
    await third.says(/^the cluster is complete/);
    console.log(`a standby led, with all nodes, ${Math.round(performance.now() - endedAt)} ms after the leader was told to end`);
    const fourth = job.scheduler(1);
    await fourth.says(/^standing by/);
    await sleep(LEASE_MS / 2); // so that it has seen the job

    worker.endInput();
    await worker.says(/^verified \d+ pushes$/);
    for (const node of [worker, server, third, fourth]) await node.succeeds();
    await fourth.says(/^the job that this scheduler stood by for has ended$/);
    assert.equal(worker.count(/^push failed/), 0);
    assert.deepEqual(await new EtcdClient(etcd.urls).list("/weighbridge/mnist/"), []);
  });

  test("etcd's own leader is killed, one of three: the scheduler goes on to lead, and what it decides is written again within seconds", async () => {
    await using etcd = new EtcdCluster();
    await etcd.start(3);
    const job = new Job(etcd, [await freePort("127.0.0.1")]);
    const scheduler = job.scheduler(0);
    const [server, worker] = [job.server(), job.worker()];
    await worker.says(/^push works$/);
    const client = new EtcdClient(etcd.urls);
    const [leader] = await client.list("/weighbridge/mnist/leader");
    const member = await etcd.leadingMember();
    const killedAt = performance.now();
    await member.kill();
    for (;;) {
      const isChanged = await client
        .change({ ifKey: "/weighbridge/mnist/leader", hasCreateRevision: leader?.createRevision ?? 0, puts: [{ key: "/test", value: "" }] })
        .catch(() => false);
      if (isChanged) break;
      assert.ok(performance.now() - killedAt < 10_000, "etcd has a leader again");
    }
    const usableAfterMs = performance.now() - killedAt;
    console.log(`etcd took a fenced write ${Math.round(usableAfterMs)} ms after its leader was killed`);
    assert.ok(usableAfterMs < 2000 + SLACK_MS, `usable after ${usableAfterMs} ms`);
    await sleep(LEASE_MS * 1.5);
    assert.ok(scheduler.isRunning, scheduler.transcript);
    worker.endInput();
    for (const node of [worker, server, scheduler]) await node.succeeds();
    assert.equal(worker.count(/^push failed/), 0);
  });

  test("a scheduler without its etcd, or without a job's name, ends and says why", async () => {
    await using processes = new Processes();
    const flags = [
      "-s",
      1,
      "-w",
      1,
      "--scheduler-port",
      await freePort("127.0.0.1"),
      "--etcd",
      "http://127.0.0.1:9",
      "--start-timeout-ms",
      500,
    ];
    const nameless = processes.weighbridge(["scheduler", ...flags]);
    await nameless.refuses(/a job with a name/);
    const alone = processes.weighbridge(["scheduler", ...flags, "--job", "mnist"], { cwd: ROOT });
    await alone.fails(/etcd at http:\/\/127\.0\.0\.1:9 does not answer/);
  });
});
