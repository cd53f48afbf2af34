// embedded-scaling.test — Goal: a cluster inside the process changes its servers while its sessions go on, and refuses
// what cannot be.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

test("servers come and leave while a session pushes, and all that was pushed is there", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, arenaBytesMax: 2 ** 26 });
  const { session } = cluster;
  const rows = await session.embedding("rows", { dim: 4, optimizer: { type: "sum" }, consistency: "asp" });
  const keys = Array.from({ length: 500 }, (_, key) => key * 31);
  const ones = new Float32Array(keys.length * 4).fill(1);
  let [pushes, isOver] = [0, false];
  let owners: readonly number[] = [];
  session.addEventListener("placementchanged", ({ servers }) => {
    owners = servers;
  });
  const lost: number[] = [];
  session.addEventListener("serverlost", ({ server }) => lost.push(server));
  const pushing = (async () => {
    for (; !isOver; pushes++) await rows.push(keys, ones);
  })();
  for (const servers of [4, 3, 1, 2]) {
    await cluster.scale(servers, { timeoutMs: 60_000 });
    assert.equal(session.serverCount, servers);
    assert.equal(owners.length, servers, "a listener knows it, too");
  }
  assert.deepEqual(lost, [], "those that leave are not lost");
  isOver = true;
  await pushing;
  const values = await rows.pull(keys);
  assert.ok(
    values.every((value) => value === pushes),
    `${pushes} pushes`,
  );
});

test("a change that cannot be is refused, and changes nothing", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, arenaBytesMax: 2 ** 26 });
  await assert.rejects(cluster.scale(0), throwsCode("BAD_ARGUMENT"));
  await assert.rejects(cluster.scale(5000), throwsCode("BAD_REQUEST", /1 to 4096 servers/));
  await cluster.scale(1);
});

test("workers come and leave a training, and the sessions are those that are there", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2, workersMax: 4, arenaBytesMax: 2 ** 26 });
  await cluster.scaleWorkers(4, { timeoutMs: 60_000 });
  assert.deepEqual(
    cluster.sessions.map(({ rank }) => rank),
    [0, 1, 2, 3],
  );
  const total = 200;
  const done = cluster.sessions.map(async (session) => {
    const sums = await session.tensor("sums", { shape: [4], optimizer: { type: "sum" }, consistency: "asp" });
    const units = session.units("work", { epoch: 0, batchCount: total, partCount: 1, assignment: "free" });
    for await (const unit of units) {
      await sums.push(Float32Array.of(1, 1, 1, 1));
      unit.done();
    }
    if (session.isLeaving) await session.close();
    return session.rank;
  });
  await cluster.scaleWorkers(2, { timeoutMs: 60_000 });
  await Promise.all(done);
  assert.deepEqual(
    cluster.sessions.map(({ rank }) => rank),
    [0, 1],
  );
  const sums = await cluster.session.tensor("sums", { shape: [4], optimizer: { type: "sum" }, consistency: "asp" });
  assert.equal((await sums.pull())[0], total);
  await assert.rejects(cluster.scaleWorkers(5), throwsCode("BAD_REQUEST", /2 to 4 workers; 5 were asked for/));
  await assert.rejects(cluster.scaleWorkers(0), throwsCode("BAD_ARGUMENT"));
});
