// Goal: a push that a full server refuses leaves no trace, and one that only some servers refuse says who applied it
// (spec/consistency.md, N1 and N3).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { EmbeddingOptions } from "../api/parameter-options.ts";
import { isWeighbridgeError, reasonOf } from "../base/errors.ts";
import type { Consistency } from "../store/consistency.ts";
import type { Embedding } from "../worker/embedding.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const MIB = 2 ** 20;
const DIM = 16;
const OLD = 500;
const keysFrom = (from: number, count: number): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));
const isFull = (thrown: unknown): boolean => isWeighbridgeError(thrown, "ARENA_FULL");

/** Whether a push of new rows was taken. */
async function pushNew(table: Embedding, from: number, count: number): Promise<boolean> {
  return await table.push(keysFrom(from, count), new Float32Array(count * DIM).fill(1)).then(
    () => true,
    (thrown: unknown) => {
      assert.ok(isFull(thrown), String(thrown));
      return false;
    },
  );
}

/** Fills the servers with rows of another table. */
async function fill(cluster: EmbeddedCluster): Promise<void> {
  const filling = await cluster.session.embedding("filling", { dim: DIM, optimizer: "sum" });
  for (let batch = 2_000, from = 0; batch >= 1; from += batch) if (!(await pushNew(filling, from, batch))) batch = Math.floor(batch / 6);
}

const consistencies: readonly (readonly [string, Consistency])[] = [
  ["asp", "asp"],
  ["ssp", { ssp: 1 }],
];
for (const [name, consistency] of consistencies) {
  test(`lazyAdam counts no push that a full server refused (${name})`, async () => {
    const options = { dim: DIM, optimizer: { type: "lazyAdam", learningRate: 0.1 }, consistency } as const;
    const old = keysFrom(0, OLD);
    /** What a table comes to after some pushes, with pushes in between that servers refuse once they are full. */
    const valuesAfter = async (cluster: EmbeddedCluster, isFilled: boolean): Promise<Float32Array> => {
      const { session } = cluster;
      const table = await session.embedding("table", options);
      for (let step = 0; step < 4; step++) {
        await table.push(
          old,
          new Float32Array(OLD * DIM).map((_, i) => Math.sin(i + step)),
        );
        session.clock();
        if (isFilled && step === 0) await fill(cluster);
        for (let i = 0; isFilled && i < 3; i++) assert.ok(!(await pushNew(table, 1e6, 3_000)));
        session.clock();
      }
      return await table.pull(old);
    };
    await using full = await EmbeddedCluster.start({ arenaBytesMax: 2 * MIB });
    await using roomy = await EmbeddedCluster.start({});
    assert.deepEqual(await valuesAfter(full, true), await valuesAfter(roomy, false));
  });
}

test("lazyAdam counts no refused push among pushes that are under way together", async () => {
  const options = { dim: DIM, optimizer: { type: "lazyAdam", learningRate: 0.1 } } as const;
  const old = keysFrom(0, OLD);
  const gradients = new Float32Array(OLD * DIM).fill(1);
  const valuesAfter = async (cluster: EmbeddedCluster, isFilled: boolean): Promise<Float32Array> => {
    const table = await cluster.session.embedding("table", options);
    await table.push(old, gradients);
    if (isFilled) await fill(cluster);
    for (let round = 0; round < 3; round++) {
      const between = async (): Promise<void> => {
        if (isFilled) assert.ok(!(await pushNew(table, 1e6, 3_000)));
      };
      await Promise.all([table.push(old, gradients), between(), table.push(old, gradients), between(), between()]);
    }
    return await table.pull(old);
  };
  await using full = await EmbeddedCluster.start({ arenaBytesMax: 2 * MIB });
  await using roomy = await EmbeddedCluster.start({});
  assert.deepEqual(await valuesAfter(full, true), await valuesAfter(roomy, false));
});

test("a push that one full server refuses and another applies names both, is not worth a retry, and is whole on each", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, arenaBytesMax: 2 * MIB });
  const table = await cluster.session.embedding("table", { dim: DIM, optimizer: "sum" });
  let failure: unknown;
  let from = 0;
  for (let batch = 400; failure === undefined && from < 1e6; from += batch) {
    const keys = keysFrom(from, batch);
    const taken = await table.push(keys, new Float32Array(batch * DIM).fill(1)).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (taken === undefined) continue;
    const values = await table.pull(keys);
    const applied = keys.filter((_, i) => values[i * DIM] !== 0).length;
    if (applied === 0)
      batch = Math.max(1, Math.floor(batch / 2)); // both refused it
    else failure = taken;
    const text = reasonOf(taken);
    assert.ok(isFull(taken), text);
    assert.equal(isWeighbridgeError(taken) && taken.outcome, applied === 0 ? "not-applied" : "unknown", text);
    assert.equal(/applied in part: applied by server [01], not by server [01]$/.test(text), applied > 0, text);
  }
  assert.ok(isWeighbridgeError(failure) && !failure.retryable, "one server is full before the other");
  assert.equal(failure.outcome, "unknown");
  assert.deepEqual(failure.parts?.map(({ outcome }) => outcome).sort(), ["applied", "not-applied"]);
});

const links: readonly (readonly [string, EmbeddingOptions["link"]])[] = [
  ["as it is", undefined],
  ["encoded", { push: "fp16" }],
];
for (const [how, link] of links) {
  test(`a push in several pieces that a server refuses some of says how many were applied, and each is whole (${how})`, async () => {
    await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 16 * MIB });
    const table = await cluster.session.embedding("table", { dim: DIM, optimizer: "sum", ...(link === undefined ? {} : { link }) });
    const count = 40_000;
    let failure: unknown;
    for (let from = 0; failure === undefined && from < 1e6; from += count) {
      const keys = keysFrom(from, count);
      await table.push(keys, new Float32Array(count * DIM).fill(1)).catch(async (thrown: unknown) => {
        assert.ok(isFull(thrown), String(thrown));
        failure = thrown;
        const values = await table.pull(keys);
        const applied = keys.filter((_, i) => values[i * DIM] !== 0).length;
        const [, some, all] = /applied in part: (\d+) of its (\d+) pieces by server 0$/.exec(reasonOf(thrown)) ?? [];
        const [pieces, pieceCount] = [Number(some), Number(all)];
        assert.ok(applied > 0 && pieces > 0 && pieces < pieceCount, `${applied} rows: ${reasonOf(thrown)}`);
        const ofPieces = applied / (count / pieceCount);
        assert.ok(Math.abs(ofPieces - pieces) <= 1, `${ofPieces} of ${pieceCount} pieces are there: ${reasonOf(thrown)}`);
      });
    }
    assert.ok(isWeighbridgeError(failure) && !failure.retryable, "it becomes full");
  });
}
