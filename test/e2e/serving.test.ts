// serving — Goal: a cluster serves on without workers until it is told to end, and then ends in order.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { connect } from "../../src/node/connect.ts";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Cluster } from "./cluster.ts";
import { Processes, until } from "./processes.ts";

const ONE = new Float32Array([1]);

// Two at a time: they mostly wait.
suite("a cluster that serves", { concurrency: 2 }, () => {
  test("a launch with -w 0 serves guests until SIGTERM, and then ends well", async () => {
    await using processes = new Processes();
    const port = await freePort("127.0.0.1");
    const job = processes.weighbridge(["launch", "-s", 1, "-w", 0, "--port", port]);
    await until(
      () => job.stderr.includes(`serving guests, connect("weighbridge://127.0.0.1:${port}"), until Ctrl-C or SIGTERM`),
      "its line",
    );
    for (const expected of [1, 2]) {
      await using guest = await connect(`weighbridge://127.0.0.1:${port}`, { timeoutMs: 20_000 });
      const table = await guest.embedding("t", { dim: 1, optimizer: "sum" });
      await table.push([1n], ONE);
      assert.deepEqual([...(await table.pull([1n]))], [expected]);
    }
    const scale = processes.weighbridge(["scale", "--servers", 1, "--scheduler-port", port]);
    await scale.succeeds();
    assert.equal(scale.stdout, "there is 1 server already: nothing changes\n");
    job.signal("SIGTERM");
    await job.succeeds();
    assert.match(job.stderr, /^weighbridge: SIGTERM: the cluster ends in order; send it again to end it at once$/m);
  });

  test("with --serve scheduler and server stay when the last worker has left, until the scheduler gets SIGTERM", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--serve"] });
    const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
    const worker = await connect({ role: "worker", serverCount: 1, workerCount: 1, schedulerPort: cluster.port });
    const table = await worker.embedding("t", { dim: 1, optimizer: "sum" });
    await table.push([1n], ONE);
    await worker.close();
    await using guest = await connect(`weighbridge://127.0.0.1:${cluster.port}`, { timeoutMs: 20_000 });
    assert.deepEqual([...(await (await guest.embedding("t")).pull([1n]))], [1]);
    scheduler.signal("SIGTERM");
    await Promise.all([scheduler.succeeds(), server.succeeds()]);
  });

  test("nothing is lost of a cluster without workers, whether its processes are stopped together or one after the other", async () => {
    const directory = temporaryDirectory();
    await using cluster = await Cluster.create({ servers: 1, workers: 0, flags: ["--checkpoint-dir", directory, `--resume=${directory}`] });
    for (const [stops, expected] of [
      ["together", 1],
      ["one after the other", 2],
      ["together", 3],
    ] as const) {
      const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
      await server.says(/ready .* job /); // with what it has restored
      await using guest = await connect(`weighbridge://127.0.0.1:${cluster.port}`, { timeoutMs: 20_000, logLevel: "error" });
      const table = await guest.embedding("t", { dim: 1, optimizer: "sum" });
      await table.push([1n], ONE);
      assert.deepEqual([...(await table.pull([1n]))], [expected], server.transcript);
      server.signal("SIGTERM");
      if (stops === "one after the other") await server.ends();
      scheduler.signal("SIGTERM");
      await Promise.all([server.ends(), scheduler.ends()]);
    }
  });
});
