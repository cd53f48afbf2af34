// Goal: a server that was only stopped, and is taken for dead meanwhile, comes back as the same incarnation: every
// update of a cache counts once, whether the server had it before it stopped or not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { SimCluster } from "../../src/testing/sim-cluster.ts";
import { quietCluster } from "./links.ts";

const isDead = (thrown: unknown): boolean => isWeighbridgeError(thrown, "NODE_DEAD");
const hosts = ["scheduler", "worker-0", "worker-1"];

/** Nothing comes from the server any more; what is sent to it arrives, or does not either. */
function stop({ network }: SimCluster, hears: boolean): void {
  for (const host of hosts) {
    network.partition("server-0", host, { isOneWay: true });
    if (!hears) network.partition(host, "server-0", { isOneWay: true });
  }
}

for (const hears of [true, false]) {
  for (const again of [false, true]) {
    const what = `${hears ? "it had" : "it had not"} when it was taken for dead${again ? ", beside another one since" : ""}`;
    test(`a cached update that left for a server counts once when the same incarnation comes back, which ${what}`, async () => {
      const cluster = quietCluster({ workerCount: 2 });
      await cluster.start();
      const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
      const [table, plain] = await cluster.run(
        Promise.all(sessions.map((session) => session.embedding("e", { dim: 1, optimizer: "sum", versions: true }))),
      );
      const cache = table!.cached({ rows: 8, pullBound: 2, pushBound: 0 });
      await cluster.run(cache.pull([1, 2]));
      await cluster.run(cache.push([1], Float32Array.of(1)));
      stop(cluster, hears);
      await cluster.run(assert.rejects(cache.push([1, 2], Float32Array.of(10, 10)), isDead));
      if (again) await cluster.run(assert.rejects(cache.push([1], Float32Array.of(100)), isDead));
      cluster.network.heal();
      await cluster.run(new Promise<void>((resolve) => void cluster.clock.after(5_000, resolve)));
      const last = again ? 100 : 0;
      assert.deepEqual(await cluster.run(cache.pull([1, 2])), Float32Array.of(11 + last, 10));
      await cluster.run(cache.flush());
      assert.deepEqual(await cluster.run(plain!.pull([1, 2])), Float32Array.of(11 + last, 10));
      assert.equal(cache.statistics().rowsPending, 0);
      await cluster.run(cache.close());
      await cluster.finalize();
    });
  }
}
