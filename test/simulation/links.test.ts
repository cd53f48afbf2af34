// Encoded links under loss, duplication, reordering and broken links, and servers that forget what they were told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { keyList, quietCluster, runLinks } from "./links.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 20;
const CHANGING_SEEDS = 1;
const OPTIONS = { dim: 1, optimizer: "sum", link: { keyCache: true } } as const;

test(`encoded pushes count once, and named key lists are those that were meant, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => void (await runLinks(seed)));
});

test(`so they do while parts move from server to server, for ${CHANGING_SEEDS} seeds, and BSP gives the same bits as if none did`, async () => {
  const changes: Changes = { count: 0 };
  await forSeeds({ from: 1, count: CHANGING_SEEDS }, async (seed) => {
    assert.deepEqual(await runLinks(seed, 2000 + seed, changes), await runLinks(seed));
  });
  assert.ok(changes.count > CHANGING_SEEDS, `${changes.count} changes`);
});

test("BSP over an encoded link gives the same bits whatever the network does", async () => {
  for (let seed = 1; seed <= 3; seed++) assert.deepEqual(await runLinks(seed, 1000 + seed), await runLinks(seed, seed), `seed ${seed}`);
});

test("a server that forgot a key list gets the keys again, and the caller does not notice", async () => {
  const cluster = quietCluster();
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const table = await cluster.run(session.embedding("e", OPTIONS));
  const keys = keyList(1);
  const ones = new Float32Array(keys.length).fill(1);
  await cluster.run(table.push(keys, ones));
  await cluster.run(table.push(keys, ones));
  const { metrics } = cluster.server(0);
  assert.equal(metrics.requestsFailed, 0);
  cluster.server(0).server?.parameters.forgetWorker(idOf("worker", 0));
  await cluster.run(table.push(keys, ones));
  assert.equal(metrics.requestsFailed, 1, "the name was not known");
  assert.deepEqual(await cluster.run(table.pull(keys)), new Float32Array(keys.length).fill(3));
  cluster.server(0).server?.parameters.forgetWorker(idOf("worker", 0));
  assert.deepEqual(await cluster.run(table.pull(keys)), new Float32Array(keys.length).fill(3));
  assert.equal(metrics.requestsFailed, 2);
  await cluster.finalize();
});

test("a push and pull whose key lists a server forgot counts once, and gives the rows right after it", async () => {
  const cluster = quietCluster();
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const table = await cluster.run(session.embedding("e", OPTIONS));
  const [pushed, pulled] = [keyList(1), keyList(1, 40)];
  const ones = new Float32Array(pushed.length).fill(1);
  const { metrics } = cluster.server(0);
  for (let round = 1; round <= 4; round++) {
    if (round === 3) cluster.server(0).server?.parameters.forgetWorker(idOf("worker", 0));
    const rows = await cluster.run(table.pushPull({ keys: pushed, gradients: ones }, pulled));
    assert.deepEqual(rows, new Float32Array(pulled.length).fill(round));
    assert.equal(metrics.requestsFailed, round < 3 ? 0 : 1);
  }
  await cluster.finalize();
});

test("a server that was restarted is told the lists of its new incarnation", async () => {
  const cluster = quietCluster({ serverCount: 2 });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const keys = keyList(1);
  const ones = new Float32Array(keys.length).fill(1);
  const first = await cluster.run(session.embedding("e", OPTIONS));
  for (let i = 0; i < 3; i++) await cluster.run(first.push(keys, ones));
  for (const rank of [0, 1]) {
    cluster.kill(idOf("server", rank));
    await cluster.run(cluster.startNode(idOf("server", rank)));
  }
  // The worker has heard of the new incarnations: a push to an old one may fail with NODE_DEAD.
  await cluster.clock.advance(100);
  const table = await cluster.run(session.embedding("e", OPTIONS));
  for (let pushes = 1; pushes <= 3; pushes++) {
    const isTaken = await cluster.run(
      table.push(keys, ones).then(
        () => true,
        (error: unknown) => {
          // It joins by itself; the push may be repeated.
          assert.ok(isWeighbridgeError(error, "NOT_JOINED"), String(error));
          return false;
        },
      ),
    );
    if (!isTaken) pushes--;
  }
  assert.deepEqual(await cluster.run(table.pull(keys)), new Float32Array(keys.length).fill(3));
  for (const rank of [0, 1])
    assert.ok(cluster.server(rank).metrics.requestsFailed <= 1, "no name reached the new incarnation that it did not know");
  await cluster.finalize();
});

test("a node without a compressor says so when a parameter asks for one, and makes nothing", async () => {
  const cluster = quietCluster();
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  await assert.rejects(
    cluster.run(session.tensor("w", { shape: [4], optimizer: "sum", link: { compression: "zstd" } })),
    throwsCode("UNSUPPORTED", /zstd/),
  );
  assert.deepEqual(await cluster.run(session.parameters()), []);
  await cluster.finalize();
});
