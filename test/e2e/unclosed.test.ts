// unclosed — Goal: a worker whose process ends without session.close() is not waited for, and people are told.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Cluster } from "./cluster.ts";
import { isAlive, never, Processes, script, until } from "./processes.ts";

// Two at a time: they mostly wait.
suite("processes that end without having closed their session", { concurrency: 2 }, () => {
  test("workers that end without session.close() keep nobody waiting: launch names them at once, and exits with 1", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 3, "--", script("unclosed")]);
    await job.fails(/^weighbridge: worker\/0 ended without session\.close\(\)$/m);
    assert.match(job.stderr, /^weighbridge: worker\/1 ended without session\.close\(\)$/m, job.transcript);
    assert.match(job.stdout, /^\[worker\/2\] 2 of 2$/m, "what worker 1 did not await has arrived");
    assert.equal([...job.stderr.matchAll(/session\.close/g)].length, 2, job.transcript);
  });

  test("a worker that nobody starts again says to its scheduler that it ends: the others end, and nobody waits", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
    const worker = cluster.weighbridge(["worker", ...cluster.flags, script("ends"), "exit"]);
    await worker.succeeds();
    await Promise.all([scheduler.succeeds(), server.succeeds()]);
    assert.match(scheduler.stderr, /worker 0 ended without session\.close\(\)/, scheduler.transcript);
  });

  test("the rank of a worker that is started with --rank is kept for its next process", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
    await cluster.worker(0, "ends", "exit").succeeds();
    await until(() => /its rank is kept for the next process/.test(scheduler.stderr), "the scheduler to say so");
    await cluster.worker(0, "ends", "close").succeeds();
    await Promise.all([scheduler.succeeds(), server.succeeds()]);
  });

  test("with --restart a worker that ends without session.close() is started again", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 1, "--restart", "on-failure", "--", script("ends"), "exit"]);
    await job.says(/^\[worker\/0\] connected$/, 2);
    assert.match(job.stderr, /^weighbridge: worker\/0 ended without session\.close\(\); it is started again in 500 ms$/m, job.transcript);
  });

  test("a session that serves a function keeps its process alive", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 1, "--", script("ends"), "serve"]);
    await job.says(/^\[worker\/0\] connected$/);
    await never(() => !isAlive(job.pid), "the job has ended", 500);
  });

  test("a session that only listens for its servers keeps no process alive", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
    await cluster.weighbridge(["worker", ...cluster.flags, script("ends"), "listen"]).succeeds();
    await Promise.all([scheduler.succeeds(), server.succeeds()]);
  });

  test("a cluster inside the process keeps it no longer than its sessions do: a script that just ends, ends", async () => {
    await using processes = new Processes();
    const ends = processes.run(process.execPath, [script("embedded-ends")]);
    const serves = processes.run(process.execPath, [script("embedded-ends"), "serve"]);
    await ends.succeeds();
    assert.equal(ends.stdout, "2 of 2\n", "what it did not await was answered");
    await serves.says(/^2 of 2$/);
    await never(() => !isAlive(serves.pid), "the session that serves has ended", 500);
  });

  for (const [how, what] of [
    ["reduced", "a collective that was closed"],
    ["open", "an open collective without an operation"],
  ] as const)
    test(`${what} keeps no process alive`, async () => {
      await using processes = new Processes();
      const job = processes.weighbridge(["launch", "-w", 2, "--", script("ends"), how]);
      await job.fails(/^weighbridge: worker\/0 ended without session\.close\(\)$/m);
      assert.match(job.stderr, /^weighbridge: worker\/1 ended without session\.close\(\)$/m, job.transcript);
    });

  test("an operation among workers keeps its process until the others have taken part in it", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 2, "--", script("ends"), "receiving"]);
    await job.fails(/ended without session\.close\(\)/);
    for (const rank of [0, 1]) assert.match(job.stdout, new RegExp(`^\\[worker/${rank}\\] has 2$`, "m"), job.transcript);
  });

  test("updates that a cache and top-k have held back leave at the end of a script", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 2, "--", script("held")]);
    await job.fails(/^weighbridge: worker\/0 ended without session\.close\(\)$/m);
    assert.match(job.stdout, /^\[worker\/1\] cached 3, top-k 1,2,3,4$/m, job.transcript);
    assert.doesNotMatch(job.stderr, /held back/, job.transcript);
  });

  test("updates that are held back at process.exit() are lost, which is an error in the log", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 2, "--", script("held"), "exit"]);
    await job.fails(/updates that were held back are lost/);
    assert.match(job.stdout, /^\[worker\/1\] cached 1, top-k 0,0,0,4$/m, job.transcript);
  });

  test("what threads added to tables leaves at the end of a script, also what was not clocked", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 2, "--", script("held-tables")]);
    await job.fails(/^weighbridge: worker\/0 ended without session\.close\(\)$/m);
    assert.match(job.stdout, /^\[worker\/1\] row 7 is 1, 2$/m, job.transcript);
    assert.doesNotMatch(job.stderr, /held back/, job.transcript);
  });

  test("rows that servers push keep the process of their tables alive", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-w", 1, "--", script("subscribes")]);
    await job.says(/^\[worker\/0\] connected$/);
    await never(() => /ended|unsettled/.test(job.transcript) || !isAlive(job.pid), "the worker has ended", 500);
  });

  test("a worker that only waits to be asked to leave keeps its process, whatever else it listens for", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 1, "-w", 2, "--", script("ends"), "leaving"]);
    await Promise.all([0, 1].map((rank) => job.says(new RegExp(`^\\[worker/${rank}\\] connected$`))));
    await never(() => /ended|unsettled/.test(job.transcript) || !isAlive(job.pid), "a worker has ended", 500);
  });
});
