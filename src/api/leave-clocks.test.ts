// Goal: a worker leaves the clock set and joins it again as often as it likes (spec/consistency.md, W7): nobody waits
// for it meanwhile, and nothing that was pushed is lost or counted twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import type { Session } from "./session.ts";

const WAIT = { timeoutMs: 10_000 };
const SUM = { shape: [1, 1], optimizer: { type: "sum" }, consistency: "bsp" } as const;

test("a worker leaves and rejoins the clock set as often as it likes, with and without a collective in between", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  for (const collective of [false, true, false, true, false]) {
    await Promise.all(
      cluster.sessions.map(async (session) => {
        await session.leaveClocks(WAIT);
        if (collective) await session.collective(WAIT);
        await session.rejoin(WAIT);
      }),
    );
  }
  const sums = await Promise.all(
    cluster.sessions.map(async (session) => {
      const tensor = await session.tensor("x", { ...SUM, ...WAIT });
      for (let i = 0; i < 3; i++) {
        await tensor.push(Float32Array.of(1 + session.rank));
        session.clock();
      }
      return (await tensor.pull(WAIT))[0];
    }),
  );
  assert.deepEqual(sums, [9, 9]);
});

test("what a worker pushed before it left counts once, and nobody waits for it until it rejoins", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  const [one, two] = cluster.sessions as [Session, Session];
  const [mine, theirs] = [await one.tensor("x", SUM), await two.tensor("x", SUM)];
  let expected = 0;
  for (let turn = 0; turn < 3; turn++) {
    await theirs.push(Float32Array.of(10));
    await two.leaveClocks(WAIT);
    for (let i = 0; i < 2; i++) {
      await mine.push(Float32Array.of(1));
      one.clock();
    }
    expected += 12;
    assert.equal((await mine.pull(WAIT))[0], expected, `turn ${turn}`);
    await two.rejoin(WAIT);
    assert.equal(two.clocks, one.clocks);
  }
});

test("a worker that left has finished its clock: it rejoins above it, and another rejoin takes nothing of it back", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  const [one, two] = cluster.sessions as [Session, Session];
  const [mine, theirs] = [await one.tensor("x", SUM), await two.tensor("x", SUM)];
  await theirs.push(Float32Array.of(10));
  await two.leaveClocks(WAIT);
  await two.rejoin(WAIT);
  assert.equal(two.clocks, 1);
  await two.rejoin(WAIT); // drops what it has not finished: nothing
  await mine.push(Float32Array.of(1));
  one.clock();
  assert.equal((await mine.pull(WAIT))[0], 11);
});

test("a worker that left does not join by itself when a call of its is refused: the others would wait for it", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  const [one, two] = cluster.sessions as [Session, Session];
  const [mine, theirs] = [await one.tensor("x", SUM), await two.tensor("x", SUM)];
  await two.leaveClocks(WAIT);
  await assert.rejects(theirs.push(Float32Array.of(10)), { code: "NOT_JOINED" });
  assert.equal(two.clock(), 2, "its clock counts on, and the servers are told when it rejoins");
  await mine.push(Float32Array.of(1));
  one.clock();
  assert.equal((await mine.pull(WAIT))[0], 1);
  await two.rejoin(WAIT);
  await theirs.push(Float32Array.of(10));
  two.clock();
  while (one.clocks < two.clocks) one.clock();
  assert.equal((await mine.pull(WAIT))[0], 11);
});

test("a clock that was ended counts, also when its worker joins again at once behind a long push", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const counted = await session.embedding("counted", { dim: 1, optimizer: "sum", consistency: "bsp" });
  const long = await session.tensor("long", { shape: [2_000_000], optimizer: "sum" });
  const keys = [1n, 2n ** 64n - 1n];
  await counted.push(keys, Float32Array.of(1, 1));
  const pushed = long.push(new Float32Array(2_000_000));
  session.clock();
  await session.rejoin();
  assert.deepEqual([...(await counted.pull(keys))], [1, 1]);
  await pushed;
});
