// collective — Goal: real processes reduce among themselves over TCP and unix sockets; one is killed by the system, and
// the others go on.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Cluster } from "./cluster.ts";
import { script } from "./processes.ts";

suite("collective", { concurrency: 2 }, () => {
  for (const transport of ["tcp", "unix"]) {
    test(`three workers reduce over ${transport}; one is killed, the other two know its name and go on`, async () => {
      await using cluster = await Cluster.create({ servers: 1, workers: 3, flags: ["--transport", transport] });
      cluster.scheduler();
      cluster.server(0);
      const [first, second, victim] = [0, 1, 2].map((rank) => cluster.worker(rank, "reducer"));
      assert.ok(first !== undefined && second !== undefined && victim !== undefined);
      for (const worker of [first, second, victim]) {
        await worker.says(/^members 0 1 2, generation 1$/);
        await worker.says(/^reduced \d+$/, 2);
      }
      await victim.kill();
      for (const worker of [first, second]) {
        await worker.says(/^failed: NODE_DEAD .*worker 2/);
        await worker.says(/^members 0 1, generation 2$/);
        await worker.says(/^reduced \d+$/, worker.count(/^reduced \d+$/) + 2);
      }
      for (const worker of [first, second]) worker.endInput();
      for (const worker of [first, second]) await worker.succeeds();
    });
  }

  test("a worker listens where DMLC_PS_WORKER_PORT says", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 2 });
    cluster.scheduler();
    cluster.server(0);
    const port = await freePort("127.0.0.1");
    const flags = [...cluster.flags, "--rank", 0];
    const first = cluster.weighbridge(["worker", ...flags, script("reducer")], { env: { DMLC_PS_WORKER_PORT: String(port) } });
    const second = cluster.worker(1, "reducer");
    await first.says(/^members 0 1, generation 1$/);
    const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port]);
    await status.succeeds();
    assert.match(status.stdout, new RegExp(`^worker/0 +ready +127\\.0\\.0\\.1:${port}\\b`, "m"));
    for (const worker of [first, second]) worker.endInput();
    for (const worker of [first, second]) await worker.succeeds();
  });

  test("over ps-lite's protocol it is refused, clearly", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--van", "zmq"] });
    cluster.scheduler();
    cluster.server(0);
    await cluster.worker(0, "reducer").fails(/--van weighbridge|UNSUPPORTED|ps-lite/);
  });
});
