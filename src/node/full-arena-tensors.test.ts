// Goal: a tensor has its room from the moment it is made (TensorStore.T7): one that does not fit is refused
// then, and one that was made takes every push, also after the server has become full.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const MIB = 2 ** 20;
const BLOCK_FLOATS = 131_072;

/** Fills what room there is with new rows, then with tensors of a block, until neither is taken. */
async function fill(session: Session): Promise<void> {
  const table = await session.embedding("filling rows", { dim: 16, optimizer: "sum" });
  for (let batch = 3_000, from = 0; batch >= 1; from += batch) {
    const keys = Array.from({ length: batch }, (_, i) => from + i);
    const isTaken = await table.push(keys, new Float32Array(batch * 16)).then(() => true, isNotFull);
    if (!isTaken) batch = Math.floor(batch / 4);
  }
  for (let i = 0, size = 4_000; size >= 1; i++) {
    const tensor = await session
      .tensor(`filling ${i}`, { shape: [size], optimizer: "sum" })
      .catch((thrown: unknown) => void isNotFull(thrown));
    if (tensor === undefined) size = Math.floor(size / 8);
    else await tensor.push(new Float32Array(size));
  }
}

/** False for what says that a server is full; throws all else. */
function isNotFull(thrown: unknown): boolean {
  assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
  return false;
}

test("a tensor that does not fit is refused when it is made: sizes and option are named, and the name stays free", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, arenaBytesMax: 8 * MIB });
  const { session } = cluster;
  const momentum = { type: "momentum", learningRate: 1 } as const;
  await assert.rejects(
    session.tensor("w", { shape: [40 * BLOCK_FLOATS], optimizer: momentum }),
    /"w" of shape \[5242880\], whose \d+ blocks .* take \d+ bytes: .* --arena-bytes-max/,
  );
  for (const shape of [[2 ** 47], [2 ** 20, 2 ** 20]])
    await assert.rejects(session.tensor("w", { shape, optimizer: "sum" }), { code: "ARENA_FULL" });
  const small = await session.tensor("w", { shape: [BLOCK_FLOATS], optimizer: momentum });
  await small.push(new Float32Array(BLOCK_FLOATS).fill(1));
});

test("a tensor that no server has room for leaves no room taken behind", async () => {
  await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 8 * MIB });
  const { session } = cluster;
  for (let i = 0; i < 20; i++)
    await assert.rejects(session.tensor(`t${i}`, { shape: [20 * BLOCK_FLOATS], optimizer: "sum" }), { code: "ARENA_FULL" });
  const fits = await session.tensor("fits", { shape: [8 * BLOCK_FLOATS], optimizer: "sum" });
  await fits.push(new Float32Array(8 * BLOCK_FLOATS));
});

const optimizers: readonly OptimizerSpec[] = [
  { type: "sum" },
  { type: "adam", learningRate: 1 },
  { type: "lazyAdam", learningRate: 1 },
  { type: "dcAsgd", learningRate: 1 },
];
for (const optimizer of optimizers) {
  for (const consistency of ["asp", "bsp"] as const) {
    test(`a tensor that nobody had pushed to takes pushes, whole and by rows, once its server is full (${optimizer.type}, ${consistency})`, async () => {
      await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 16 * MIB });
      const { session } = cluster;
      const rows = 3 * (BLOCK_FLOATS / 16);
      const whole = await session.tensor("whole", { shape: [rows, 16], optimizer, consistency });
      const byRows = await session.tensor("by rows", { shape: [rows, 16], optimizer, consistency });
      await fill(session);
      await whole.push(new Float32Array(rows * 16).fill(1));
      await byRows.pushRows([0, rows - 1], new Float32Array(32).fill(1));
      session.clock();
      assert.ok((await whole.pull()).every((value) => value !== 0));
      assert.ok((await byRows.pullRows([0, rows - 1])).every((value) => value !== 0));
    });
  }
}

test("room for a tensor costs no memory of the machine until it is touched", async () => {
  await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 2048 * MIB });
  const before = process.memoryUsage.rss();
  const tensor = await cluster.session.tensor("large", { shape: [2 ** 20, 384], optimizer: "sum" });
  assert.equal((await tensor.pullRows([5])).length, 384);
  const grown = process.memoryUsage.rss() - before;
  assert.ok(grown < 300 * MIB, `${grown} bytes`);
});
