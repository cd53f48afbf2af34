// node-calls — Goal: nodes call functions of nodes of their own role: over one connection, whoever dialed, and across
// links that are cut.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { contract } from "../contracts/contract.ts";
import { psFunction } from "../contracts/ps-function.ts";
import type { Postoffice } from "../faces/kv/postoffice.ts";
import { servedFunction } from "../peer/served-function.ts";
import { SimCluster } from "../testing/sim-cluster.ts";
import { idOf } from "../wire/node-id.ts";
import { FunctionClient } from "../worker/function-client.ts";
import type { WorkerNode } from "../worker/worker-node.ts";

const FIELDS = { n: "u32" } as const;
const count = contract({ name: "test/count", target: "server", effect: "update", request: FIELDS, response: FIELDS });

/** Serves `count` on a server; returns what it was called with. */
function counting(office: Postoffice): number[] {
  const seen: number[] = [];
  office.server?.functions.add(
    psFunction({
      ...{ name: count.name, request: FIELDS, response: FIELDS },
      handler: (_context, { n }) => {
        seen.push(n);
        return { n: n + 1 };
      },
    }),
  );
  return seen;
}

test("a function of a server calls a function of another server, and uses the answer; also while the link between them is cut", async () => {
  const cluster = new SimCluster({ seed: 3, serverCount: 2, workerCount: 1 });
  await cluster.start();
  const seen = counting(cluster.server(1));
  const { node } = cluster.server(0);
  const relayed = psFunction({
    ...{ name: "relayed", request: FIELDS, response: FIELDS },
    handler: async (_context, { n }) => ({ n: 100 * (await node.call(idOf("server", 1), count, { n })).n }),
  });
  cluster.server(0).server?.functions.add(relayed);
  const client = new FunctionClient(cluster.worker(0).worker!.router);
  assert.deepEqual(await cluster.run(client.call(relayed, { server: 0 }, { n: 4 })), { n: 500 });
  cluster.network.partition("server-0", "server-1", { breakLinks: true });
  const calls = [5, 6].map((n) => client.call(relayed, { server: 0 }, { n }));
  await cluster.clock.advance(1000);
  assert.deepEqual(seen, [4]);
  cluster.network.heal();
  assert.deepEqual(await cluster.run(Promise.all(calls)), [{ n: 600 }, { n: 700 }]);
  assert.deepEqual(seen, [4, 5, 6], "each once");
  await cluster.finalize();
});

test("for 40 seeds servers that dial each other at once, over links that break, have one connection, and each call counts once (Peer.P7)", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const cluster = new SimCluster({ seed, serverCount: 2, workerCount: 0 });
    await cluster.start();
    const [low, high] = [cluster.server(0), cluster.server(1)];
    const seen = [counting(low), counting(high)];
    const calls: Promise<unknown>[] = [];
    for (let n = 0; n < 6; n++) {
      for (const [from, to] of cluster.random.chance(0.5)
        ? [[low, 1] as const, [high, 0] as const]
        : [[high, 0] as const, [low, 1] as const])
        calls.push(from.node.call(idOf("server", to), count, { n }));
      await cluster.clock.advance(cluster.random.below(3));
      if (n === 2 || n === 4) cluster.network.breakLinks("server-0", "server-1");
    }
    await cluster.run(Promise.all(calls));
    assert.deepEqual(
      seen,
      [
        [0, 1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, 5],
      ],
      `seed ${seed}`,
    );
    const channels = [low.node.channelTo(idOf("server", 1)), high.node.channelTo(idOf("server", 0))];
    assert.ok(
      channels.every(({ link }) => link !== undefined),
      `seed ${seed}`,
    );
    const dialers = [low, high].filter(({ node }, i) => node.peer.addressOf(channels[i]!) !== undefined);
    assert.equal(dialers.length, 1, `seed ${seed}: one of them dials`);
    await cluster.finalize();
  }
});

test("of two connections that were dialed at once the one of the lower id is kept", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 0 });
  await cluster.start();
  for (const office of [cluster.server(0), cluster.server(1)]) counting(office);
  const both = [cluster.server(1), cluster.server(0)].map(({ node }, i) => node.call(idOf("server", i), count, { n: 1 }));
  await cluster.run(Promise.all(both));
  const [low, high] = [cluster.server(0).node, cluster.server(1).node];
  assert.ok(low.peer.addressOf(low.channelTo(high.id)) !== undefined);
  assert.equal(high.peer.addressOf(high.channelTo(low.id)), undefined);
  await cluster.finalize();
});

test("a server that was restarted is called in its new incarnation, whichever side dialed", async () => {
  for (const caller of [0, 1]) {
    const cluster = new SimCluster({ seed: 5, serverCount: 2, workerCount: 0 });
    await cluster.start();
    const restarted = idOf("server", 1 - caller);
    const dialer = cluster.server(0).node; // dials first, and stays or is restarted
    counting(cluster.server(1));
    assert.deepEqual(await cluster.run(dialer.call(idOf("server", 1), count, { n: 1 })), { n: 2 });
    cluster.kill(restarted);
    await cluster.clock.advance(3000);
    const { node } = cluster.server(caller);
    await assert.rejects(cluster.run(node.call(restarted, count, { n: 2 })), (error) => isWeighbridgeError(error, "NODE_DEAD"));
    const office = await cluster.run(cluster.startNode(restarted));
    const seen = counting(office);
    await cluster.clock.advance(1000);
    assert.deepEqual(await cluster.run(node.call(restarted, count, { n: 3 })), { n: 4 });
    assert.deepEqual(seen, [3]);
    await cluster.finalize();
  }
});

test("a worker calls a function that another worker serves, both ways, once they listen; also while their link is cut", async () => {
  const cluster = new SimCluster({ seed: 4, serverCount: 1, workerCount: 2 });
  await cluster.start();
  const nodes = [0, 1].map((rank) => cluster.worker(rank).node as WorkerNode);
  const seen: number[][] = [[], []];
  for (const [rank, { peer }] of nodes.entries()) {
    const handler = (_: unknown, { n }: { readonly n: number }): { n: number } => {
      seen[rank]!.push(n);
      return { n: n + 10 * (rank + 1) };
    };
    peer.serve(servedFunction(count, { handler }));
  }
  const ask = (from: number, n: number) => nodes[from]!.call(idOf("worker", 1 - from), count, { n });
  const isDeaf = (error: unknown): boolean =>
    isWeighbridgeError(error, "NO_ROUTE") && /worker 1 does not listen .*meshAddress/.test(error.message);
  await assert.rejects(cluster.run(ask(0, 1)), isDeaf);
  await cluster.run(Promise.all(nodes.map(({ mesh }) => mesh!.gather())));
  assert.deepEqual(await cluster.run(Promise.all([ask(0, 1), ask(1, 2)])), [{ n: 21 }, { n: 12 }]);
  cluster.network.partition("worker-0", "worker-1", { breakLinks: true });
  const calls = [ask(0, 3), ask(1, 4)];
  await cluster.clock.advance(1000);
  cluster.network.heal();
  assert.deepEqual(await cluster.run(Promise.all(calls)), [{ n: 23 }, { n: 14 }]);
  assert.deepEqual(seen, [
    [2, 4],
    [1, 3],
  ]);
  await cluster.finalize();
});

test("a node does not call itself, nor a node that does not exist", async () => {
  const cluster = new SimCluster({ seed: 4, serverCount: 1, workerCount: 0 });
  await cluster.start();
  const { node } = cluster.server(0);
  for (const [other, text] of [
    [node.id, /itself/],
    [idOf("server", 1), /no node/],
  ] as const)
    await assert.rejects(node.call(other, count, { n: 1 }), (error) => isWeighbridgeError(error, "NO_ROUTE") && text.test(error.message));
  await cluster.finalize();
});
