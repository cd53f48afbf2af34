// Goal: a read one clock ahead leaves at once and waits at the servers for the end of the clock, everybody's; and a
// worker that joins anew can make the clock again that it had not ended, which then counts once
// (spec/consistency.md, W2 and W5).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { NO_PUSHES } from "../consistency/push-counts.ts";
import { clockAdvance } from "../contracts/clocks.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";

const OPTIONS = { shape: [2], optimizer: { type: "sum" }, consistency: "bsp" } as const;

test("a read ahead of the clock sees the rounds of all workers, also those that come later", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const [w, late] = [await one.tensor("w", OPTIONS), await two.tensor("w", OPTIONS)];
  const table = await one.embedding("t", { dim: 1, optimizer: "sum", consistency: "bsp" });
  await w.push(Float32Array.of(1, 10));
  const ahead = w.pull({ clocksAhead: 1 });
  const row = table.pull([5], { clocksAhead: 1 });
  assert.deepEqual([...(await w.pull())], [0, 0], "what is asked for later at this clock is answered before it");
  one.clock();
  await late.push(Float32Array.of(2, 20));
  two.clock();
  assert.deepEqual([...(await ahead)], [3, 30]);
  assert.deepEqual([...(await row)], [0]);
});

test("clocks ahead are a whole number", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", OPTIONS);
  for (const clocksAhead of [-1, 0.5, Number.NaN]) {
    await assert.rejects(w.pull({ clocksAhead }), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  }
});

test("a worker that joins anew makes its clock again, and it counts once", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const w = await session.tensor("w", OPTIONS);
  await w.push(Float32Array.of(1, 1));
  session.clock();
  await w.push(Float32Array.of(5, 5)); // not ended: it is dropped
  await Promise.all([session.rejoin(), session.rejoin()]);
  assert.equal(session.clocks, 1);
  await w.push(Float32Array.of(2, 2));
  session.clock();
  assert.deepEqual([...(await w.pull())], [3, 3]);
});

test("at the highest clock a worker pushes and pulls; clock(), a read ahead and a later change are refused with OUT_OF_RANGE", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const w = await session.tensor("w", { shape: [2], optimizer: "sum", consistency: { ssp: 1 } });
  await session.callAll(clockAdvance, { clock: 2 ** 32 - 2, leaves: false, ...NO_PUSHES });
  await session.rejoin();
  assert.equal(session.clock(), 2 ** 32 - 1);
  const outOfRange = (error: unknown): boolean => isWeighbridgeError(error, "OUT_OF_RANGE");
  assert.throws(() => session.clock(), outOfRange);
  await assert.rejects(w.pull({ clocksAhead: 1 }), outOfRange);
  await assert.rejects(w.configure({ consistency: "asp" }), outOfRange);
  await w.push(Float32Array.of(1, 2));
  assert.deepEqual([...(await w.pull())], [1, 2]);
});
