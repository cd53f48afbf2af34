// etcd — Goal: schedulers that keep their state in etcd take over from each other, with one member of etcd and with
// three, one of which is killed. Needs Debian's etcd-server; skipped without it.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "../../src/node/connect.ts";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { EtcdClient } from "../../src/node/state/etcd-client.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { EtcdCluster, EtcdJob, LEASE_MS, NO_ETCD } from "./etcd-cluster.ts";
import { Processes, ROOT, type Running, until } from "./processes.ts";

/** Of a busy machine, beside the lease. */
const SLACK_MS = 3000;

async function pushed(worker: Running): Promise<number> {
  return Number((await worker.says(/^pushed (\d+)$/, worker.count(/^pushed \d+$/) + 1))[1]);
}

suite("etcd", { skip: NO_ETCD, concurrency: 2 }, () => {
  test("a scheduler that is killed is replaced by its standby when its lease has ended, and the job goes on and ends; etcd keeps nothing of it", async () => {
    await using etcd = new EtcdCluster();
    await etcd.start(1);
    const job = new EtcdJob(etcd, [await freePort("127.0.0.1"), await freePort("127.0.0.1")]);
    const first = job.scheduler(0);
    await first.says(/^waiting for 1 server, 1 worker/);
    const second = job.scheduler(1);
    await second.says(new RegExp(`^standing by: the scheduler at 127.0.0.1:${job.ports[0]} leads$`));
    const [server, worker] = [job.server(), job.worker()];
    await worker.says(/^push works$/);
    await until(() => first.isRunning, "the first scheduler");
    await sleep(LEASE_MS / 2); // so that the leader has looked for standbys
    assert.match((await job.status()).stdout, new RegExp(`^scheduler +standby +127.0.0.1:${job.ports[1]} `, "m"));

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
    const job = new EtcdJob(etcd, [await freePort("127.0.0.1")]);
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

  test("a scheduler whose etcd is stopped for longer than its lease leads the job again when etcd goes on", async () => {
    await using etcd = new EtcdCluster();
    await etcd.start(1);
    const job = new EtcdJob(etcd, [await freePort("127.0.0.1")]);
    const scheduler = job.scheduler(0);
    const [server, worker] = [job.server(), job.worker()];
    await worker.says(/^push works$/);
    const [member] = etcd.members;
    member?.signal("SIGSTOP");
    await scheduler.says(/^standing by again: /);
    member?.signal("SIGCONT");
    await scheduler.says(/^the cluster is complete/, 2);
    worker.endInput();
    for (const node of [worker, server, scheduler]) await node.succeeds();
    assert.equal(worker.count(/^push failed/), 0);
  });

  test("a launch with -w 0 and etcd ends in order at SIGTERM: its servers save, and etcd keeps nothing of it", async () => {
    await using etcd = new EtcdCluster();
    await etcd.start(1);
    await using processes = new Processes();
    const [port, directory] = [await freePort("127.0.0.1"), temporaryDirectory()];
    const flags = [
      "-s",
      1,
      "-w",
      0,
      "--port",
      port,
      "--job",
      "mnist",
      "--etcd",
      etcd.urls.join(),
      "--checkpoint-dir",
      directory,
      "--resume",
    ];
    for (const expected of [1, 2]) {
      const job = processes.weighbridge(["launch", ...flags]);
      const guest = await connect(`weighbridge://127.0.0.1:${port}`, { timeoutMs: 20_000, logLevel: "error" });
      const table = await guest.embedding("t", { dim: 1, optimizer: "sum" });
      await table.push([1n], new Float32Array([1]));
      assert.deepEqual([...(await table.pull([1n]))], [expected], job.transcript);
      await guest.close();
      job.signal("SIGTERM");
      await job.succeeds();
      assert.deepEqual(await new EtcdClient(etcd.urls).list("/weighbridge/mnist/"), []);
    }
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
      "--start-timeout",
      "500ms",
    ];
    const nameless = processes.weighbridge(["scheduler", ...flags]);
    await nameless.refuses(/a job with a name/);
    const alone = processes.weighbridge(["scheduler", ...flags, "--job", "mnist"], { cwd: ROOT });
    await alone.fails(/etcd at http:\/\/127\.0\.0\.1:9 does not answer/);
  });
});
