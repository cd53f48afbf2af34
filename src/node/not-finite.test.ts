// not-finite — Goal: what is not finite in a gradient, or becomes so in a sum, is refused, skipped or set to 0 as its
// parameter says, counted, and never stored.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Embedding } from "../worker/embedding.ts";
import type { Tensor } from "../worker/tensor.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

test("a gradient that is not finite is refused, and nothing of it is stored", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", { shape: [3], optimizer: "sum" });
  await assert.rejects(w.push(Float32Array.of(1, Number.NaN, 1)), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  assert.deepEqual([...(await w.pull())], [0, 0, 0]);
});

test("what was not finite is counted, whatever became of it: refused here or on a server, skipped, or zeroed", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [one, two] = cluster.sessions as [Session, Session];
  const bad = new Float32Array(10).fill(1);
  bad[7] = Number.NaN;
  bad[9] = Number.NEGATIVE_INFINITY;
  const options = { shape: [10], optimizer: "sum", link: { push: "fp16" } } as const;
  const [refusing, same] = [await one.tensor("refusing", options), await two.tensor("refusing", options)];
  await assert.rejects(refusing.push(bad), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  assert.deepEqual([(await refusing.nonFinite()).refusedPushes, (await same.nonFinite()).refusedPushes], [1, 0]);
  // Too much for fp16.
  await assert.rejects(refusing.push(new Float32Array(10).fill(1e6)), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  assert.deepEqual(await same.nonFinite(), { refusedPushes: 1, skippedPushes: 0, zeroedElements: 0 });
  const table = await one.embedding("table", { dim: 2, optimizer: "sum" });
  await assert.rejects(table.push([1], bad.subarray(7, 9)), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  assert.equal((await table.nonFinite()).refusedPushes, 1);
  for (const [nonFinite, counts, values] of [
    ["skip", { refusedPushes: 0, skippedPushes: 1, zeroedElements: 0 }, [0, 0, 0, 0]],
    ["zero", { refusedPushes: 0, skippedPushes: 0, zeroedElements: 2 }, [1, 0, 1, 0]],
  ] as const) {
    const rows = await one.embedding(nonFinite, { dim: 4, optimizer: { type: "sum", nonFinite } });
    await rows.push([5], bad.subarray(6, 10));
    assert.deepEqual(await rows.nonFinite(), counts);
    assert.deepEqual([...(await rows.pull([5]))], values);
  }
});

test("a gradient of several blocks with a NaN is refused or skipped whole: no block of it is applied on any server", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const [rowCount, width] = [4_000, 64]; // two blocks, in the limit of what a worker looks through
  const bad = new Float32Array(rowCount * width).fill(1);
  bad[bad.length - 1] = Number.NaN;
  const lastRow = { rows: [0, rowCount - 1], gradients: bad.slice(-2 * width) };
  for (const nonFinite of ["refuse", "skip"] as const) {
    const tensor = await cluster.session.tensor(nonFinite, { shape: [rowCount, width], optimizer: { type: "sum", nonFinite } });
    const into = new Float32Array(bad.length).fill(-1);
    const rowsInto = new Float32Array(width).fill(-1);
    const pushes = [
      () => tensor.push(bad),
      () => tensor.pushPull(bad, "all", { into }),
      () => tensor.pushRows(lastRow.rows, lastRow.gradients),
      () => tensor.pushPull({ rows: lastRow.rows, gradients: lastRow.gradients }, "all", { into }),
      () => tensor.pushPull(lastRow, [0], { into: rowsInto }),
    ];
    for (const push of pushes) {
      if (nonFinite === "skip") await push();
      else
        await assert.rejects(push(), {
          code: "NOT_FINITE",
          message: /^refuse: element \d+ of the gradient is NaN; nothing of it was pushed$/,
        });
    }
    assert.ok((await tensor.pull()).every((value) => value === 0));
    const { refusedPushes, skippedPushes } = await tensor.nonFinite();
    assert.deepEqual([refusedPushes, skippedPushes], nonFinite === "skip" ? [0, pushes.length] : [pushes.length, 0]);
    const expected = nonFinite === "skip" ? 0 : -1; // what is skipped still pulls
    assert.ok([...into, ...rowsInto].every((value) => value === expected));
  }
});

test("of a gradient that is too long to be looked through the servers refuse or skip the blocks with a NaN, and store none of it", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const bad = new Float32Array(300_000).fill(1);
  bad[0] = Number.NaN;
  for (const nonFinite of ["refuse", "skip"] as const) {
    const tensor = await cluster.session.tensor(nonFinite, { shape: [bad.length], optimizer: { type: "sum", nonFinite } });
    if (nonFinite === "skip") await tensor.push(bad);
    else await assert.rejects(tensor.push(bad), { code: "NOT_FINITE" });
    const values = await tensor.pull();
    assert.equal(values[0], 0);
    assert.ok(values.every(Number.isFinite));
    const { refusedPushes, skippedPushes } = await tensor.nonFinite();
    assert.equal(refusedPushes + skippedPushes, 1);
  }
});

test("a push that would be skipped is checked all the same, and its pull is done", async () => {
  await using cluster = await EmbeddedCluster.start();
  const optimizer = { type: "sum", nonFinite: "skip" } as const;
  const tensor = await cluster.session.tensor("t", { shape: [4, 2], optimizer });
  const table = await cluster.session.embedding("e", { dim: 2, rows: 10, optimizer });
  const bad = Float32Array.of(1, Number.NaN);
  await assert.rejects(tensor.push(bad), { code: "VALUE_LENGTH" });
  await assert.rejects(tensor.pushRows([4], bad), { code: "OUT_OF_RANGE" });
  await assert.rejects(table.push([1, 2], bad), { code: "VALUE_LENGTH" });
  await assert.rejects(table.push([10], bad), { code: "OUT_OF_RANGE" });
  await table.push([3], Float32Array.of(5, 6));
  assert.deepEqual([...(await table.pushPull({ keys: [3], gradients: bad }, [3]))], [5, 6]);
  assert.deepEqual([...(await table.pull([3]))], [5, 6]);
});

for (const [nonFinite, counts, values] of [
  ["refuse", { refusedPushes: 1, skippedPushes: 0, zeroedElements: 0 }, [0, 0]],
  ["skip", { refusedPushes: 0, skippedPushes: 1, zeroedElements: 0 }, [0, 0]],
  ["zero", { refusedPushes: 0, skippedPushes: 0, zeroedElements: 1 }, [0, 2]],
] as const) {
  test(`under BSP a sum that is more than a float holds is not stored, and counted (${nonFinite})`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
    const large = Float32Array.of(3e38, 1);
    const options = { consistency: "bsp", optimizer: { type: "sum", nonFinite } } as const;
    const tensors = await Promise.all(cluster.sessions.map((session) => session.tensor("tensor", { shape: [2], ...options })));
    const tables = await Promise.all(cluster.sessions.map((session) => session.embedding("table", { dim: 2, ...options })));
    await Promise.all(tensors.map((tensor) => tensor.push(large)));
    await Promise.all(tables.map((table) => table.push([7], large)));
    for (const session of cluster.sessions) session.clock();
    const [tensor, table] = [tensors[0] as Tensor, tables[0] as Embedding];
    assert.deepEqual([...(await tensor.pull())], values);
    assert.deepEqual([...(await table.pull([7]))], values);
    assert.deepEqual(await tensor.nonFinite(), counts);
    assert.deepEqual(await table.nonFinite(), counts);
  });
}

test("one worker's two pushes of a clock that are too much together are not stored either", async () => {
  await using cluster = await EmbeddedCluster.start();
  const tensor = await cluster.session.tensor("tensor", { shape: [2], optimizer: "sum", consistency: "bsp" });
  for (let i = 0; i < 2; i++) await tensor.push(Float32Array.of(3e38, 1));
  cluster.session.clock();
  assert.deepEqual([...(await tensor.pull())], [0, 0]);
  await tensor.push(Float32Array.of(3e38, 1)); // alone it is fine
  cluster.session.clock();
  assert.deepEqual([...(await tensor.pull())], [Math.fround(3e38), 1]);
});

test("a NaN anywhere in a gradient is found before any server has a part of it", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const table = await cluster.session.embedding("e", { dim: 1, optimizer: "sum" });
  const keys = BigUint64Array.from({ length: 20 }, (_, i) => BigInt(i));
  const gradients = new Float32Array(20).fill(1);
  gradients[19] = Number.NaN;
  await assert.rejects(
    table.push(keys, gradients),
    (error) => isWeighbridgeError(error, "NOT_FINITE") && /e: element 19/.test(error.message),
  );
  assert.deepEqual(await table.pull(keys), new Float32Array(20));
});

test("a NaN among gradients that are clipped by their norm is treated by the policy, and the others are clipped by theirs", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const w = await session.tensor("w", { shape: [3], optimizer: { type: "sum", clipNorm: 5, nonFinite: "zero" } });
  const values = await w.pushPull(Float32Array.of(6, NaN, 8), "all");
  assert.ok(Math.abs((values[0] as number) - 3) < 1e-5 && values[1] === 0 && Math.abs((values[2] as number) - 4) < 1e-5, values.join());
  const refusing = await session.tensor("refusing", { shape: [2], optimizer: { type: "sum", clipNorm: 5 } });
  await assert.rejects(refusing.push(Float32Array.of(1, Infinity)), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  assert.deepEqual([...(await refusing.pull())], [0, 0]);
});
