// stopped-servers — Goal: a server without a standby that is stopped by SIGTERM, and started again with the same rank
// and checkpoint directory, goes on where it was; calls wait for it. What is left of a run that is over is not used.

import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { Cluster } from "./cluster.ts";
import { type Running, until } from "./processes.ts";

async function directory(): Promise<string> {
  return await mkdtemp(join(tmpdir(), "weighbridge-stopped-"));
}

suite("stopped servers", { concurrency: 2 }, () => {
  test("a server that is stopped, and started again with the same rank and directory, goes on; no call of a worker fails; the end of the job is saved, and a start with --resume goes on from it", async () => {
    const checkpoints = await directory();
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--checkpoint-dir", checkpoints] });
    const [scheduler, server, worker] = [cluster.scheduler(), cluster.server(0), cluster.worker(0, "keeper", "--pushes", "2000")];
    await worker.says(/^acknowledged \d+$/, 20);
    server.signal("SIGTERM");
    await scheduler.says(/server\/0 was stopped, and is awaited/);
    const again = cluster.server(0);
    const [, bits = ""] = await worker.says(/^done (\w+)$/);
    assert.deepEqual(await readdir(join(checkpoints, "stopped")), [], "what was gone on with is removed");
    worker.endInput();
    for (const node of [worker, again]) await node.succeeds();
    assert.ok((await readdir(checkpoints)).includes("step-000000"), "the end of the job is saved");
    await using next = await Cluster.create({ servers: 1, workers: 1, flags: [`--resume=${checkpoints}`] });
    next.scheduler();
    next.server(0);
    await next.worker(0, "keeper", "--pushes", "1").says(new RegExp(`^found 2000 to 2000 ${bits}$`));
    await rm(checkpoints, { recursive: true });
  });

  test("a server that is stopped by Ctrl-C and started again without a rank finds the only state that was left", async () => {
    const checkpoints = await directory();
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--checkpoint-dir", checkpoints] });
    const start = (): Running => cluster.weighbridge(["server", ...cluster.flags]);
    const [scheduler, server, worker] = [cluster.scheduler(), start(), cluster.worker(0, "keeper", "--pushes", "2000")];
    await worker.says(/^acknowledged \d+$/, 20);
    server.signal("SIGINT");
    await scheduler.says(/server\/0 was stopped, and is awaited/);
    const again = start();
    await worker.says(/^done/);
    worker.endInput();
    for (const node of [worker, again]) await node.succeeds();
    await rm(checkpoints, { recursive: true });
  });

  test("a head whose standby was killed is stopped, and both are started again: no call of a worker fails", async () => {
    const checkpoints = await directory();
    const flags = ["--checkpoint-dir", checkpoints, "--replicas", 2];
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags });
    const scheduler = cluster.scheduler();
    const head = cluster.server(0);
    await cluster.waitsFor(1);
    const [standby, worker] = [cluster.server(0), cluster.worker(0, "keeper", "--pushes", "2000")];
    await worker.says(/^acknowledged \d+$/, 20);
    await standby.kill();
    await until(() => /the standby is gone: going on without one/.test(head.stderr), "the head to go on alone");
    head.signal("SIGTERM");
    await scheduler.says(/server\/0 was stopped, and is awaited/);
    const copies = [cluster.server(0), cluster.server(0)];
    await worker.says(/^done/);
    await until(() => copies.some(({ stderr }) => /the standby has everything|filling a standby/.test(stderr)), "the other to be filled");
    worker.endInput();
    for (const node of [worker, ...copies]) await node.succeeds();
    await rm(checkpoints, { recursive: true });
  });

  test("both processes of a server, then all of all servers, are stopped at once and started again: no call fails, each push counts once", async () => {
    const checkpoints = await directory();
    const flags = ["--checkpoint-dir", checkpoints, "--replicas", 2];
    await using cluster = await Cluster.create({ servers: 2, workers: 1, flags });
    const scheduler = cluster.scheduler();
    const start = (...ranks: readonly number[]): Running[] => ranks.map((rank) => cluster.server(rank));
    let [first, second] = [start(0, 0), start(1, 1)];
    const worker = cluster.worker(0, "survivor");
    const goesOn = async (): Promise<void> => void (await worker.says(/^pushed \d+$/, worker.count(/^pushed \d+$/) + 2));
    const stop = async (...copies: readonly Running[]): Promise<void> => {
      for (const copy of copies) copy.signal("SIGTERM");
      for (const copy of copies) assert.equal((await copy.ends()).signal, "SIGTERM", copy.transcript);
    };
    const isFilled = (copies: readonly Running[]): boolean => copies.some(({ stderr }) => /the standby has everything/.test(stderr));
    await goesOn();
    await stop(...first);
    await scheduler.says(/server\/0 was stopped, and is awaited/);
    first = start(0, 0);
    await until(() => isFilled(first), "the other to be filled");
    await goesOn();
    await stop(...first, ...second);
    await scheduler.says(/server\/1 was stopped, and is awaited/);
    [first, second] = [start(0, 0), start(1, 1)];
    await until(() => isFilled(first) && isFilled(second), "the others to be filled");
    await goesOn();
    worker.endInput();
    await worker.says(/^verified \d+ pushes/);
    for (const node of [worker, ...first, ...second]) await node.succeeds();
    assert.deepEqual(await readdir(join(checkpoints, "stopped")), []);
    await rm(checkpoints, { recursive: true });
  });

  test("what a server left in a run that is over is not used, and says so", async () => {
    const checkpoints = await directory();
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--checkpoint-dir", checkpoints] });
    const first = [cluster.scheduler(), cluster.server(0), cluster.worker(0, "keeper", "--pushes", "1000000")] as const;
    await first[2].says(/^acknowledged \d+$/, 20);
    first[1].signal("SIGTERM");
    await first[0].says(/server\/0 was stopped, and is awaited/);
    await Promise.all(first.map((node) => node.kill()));

    await using next = await Cluster.create({ servers: 1, workers: 1, flags: ["--checkpoint-dir", checkpoints] });
    const [, server, worker] = [next.scheduler(), next.server(0), next.worker(0, "keeper", "--pushes", "5")];
    assert.equal((await worker.says(/^found (\d+) to (\d+) (\w+)$/))[1], "0");
    assert.match(server.stderr, /what a server of this rank left when it was stopped is not used/);
    await worker.says(/^done/);
    worker.endInput();
    for (const node of [worker, server]) await node.succeeds();
    await rm(checkpoints, { recursive: true });
  });

  test("without a directory and without a standby, calls to a server that is stopped fail at once", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    const [, server, worker] = [cluster.scheduler(), cluster.server(0), cluster.worker(0, "keeper", "--pushes", "1000000")];
    await worker.says(/^acknowledged \d+$/, 20);
    server.signal("SIGTERM");
    await worker.fails(/NODE_DEAD: server 0 has left/);
  });
});
