// Goal: what a server of N bytes held is restored on a server of N bytes, however full it was; what does not fit is
// refused with the size that would do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryFolder } from "../../test/support/checkpoint-stage.ts";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import type { Embedding } from "../worker/embedding.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const MIB = 2 ** 20;
const keysFrom = (from: number, count: number): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));

/**
 * Pushes new rows to all tables in turn, fewer and fewer, until none takes one more; returns how many keys were tried.
 */
async function fill(tables: readonly Embedding[]): Promise<number> {
  let keyCount = 0;
  for (let batch = 4_000; batch >= 1; keyCount += batch) {
    let isRefused = false;
    for (const table of tables) {
      await table.push(keysFrom(keyCount, batch), new Float32Array(batch * table.dim).fill(1)).catch((thrown: unknown) => {
        assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
        isRefused = true;
      });
    }
    if (isRefused) batch = Math.floor(batch / 10);
  }
  return keyCount;
}

type Filled = { readonly dims: readonly number[]; readonly optimizer: OptimizerSpec; readonly servers: number; readonly mib: number };

const openTables = (session: Session, { dims, optimizer }: Filled): Promise<Embedding[]> =>
  Promise.all(dims.map((dim, i) => session.embedding(`table ${i}`, { dim, optimizer })));

const cases: readonly Filled[] = [
  { dims: [16], optimizer: { type: "sum" }, servers: 1, mib: 8 },
  { dims: [1], optimizer: { type: "sum" }, servers: 1, mib: 4 },
  { dims: [16, 3], optimizer: { type: "momentum", learningRate: 1 }, servers: 1, mib: 8 },
  { dims: [40, 1, 9], optimizer: { type: "adam" }, servers: 2, mib: 6 },
];
for (const filled of cases) {
  const { dims, optimizer, servers, mib } = filled;
  const what = `tables of ${dims.join(", ")} floats, ${optimizer.type}, ${servers} × ${mib} MiB`;
  test(`the checkpoint of a server that is full is restored on one of the same size, and again (${what})`, async () => {
    using folder = temporaryFolder();
    const arenaBytesMax = mib * MIB;
    let saved: { readonly path: string; readonly keyCount: number; readonly values: readonly Float32Array[] };
    {
      await using cluster = await EmbeddedCluster.start({ servers, arenaBytesMax, checkpointDir: folder.path });
      const tables = await openTables(cluster.session, filled);
      const tensor = await cluster.session.tensor("tensor", { shape: [1_000, 16], optimizer });
      const keyCount = await fill(tables);
      await tensor.push(new Float32Array(16_000).fill(1));
      const values = await Promise.all(tables.map((table) => table.pull(keysFrom(0, keyCount))));
      saved = { path: (await cluster.session.checkpoint().saved).path, keyCount, values };
    }
    for (let time = 0; time < 2; time++) {
      await using again = await EmbeddedCluster.start({ servers, arenaBytesMax, checkpointDir: folder.path, restore: saved.path });
      const tables = await openTables(again.session, filled);
      const known = keysFrom(0, 4_000);
      for (const [i, table] of tables.entries()) {
        assert.deepEqual(await table.pull(keysFrom(0, saved.keyCount)), saved.values[i], `table ${i}`);
        await table.push(known, new Float32Array(known.length * table.dim)); // what is there is updated
      }
      const values = await Promise.all(tables.map((table) => table.pull(keysFrom(0, saved.keyCount))));
      saved = { ...saved, path: (await again.session.checkpoint().saved).path, values };
    }
  });
}

test("what does not fit is refused with the arena that would do: it does", async () => {
  using folder = temporaryFolder();
  const options = { dims: [16], optimizer: { type: "momentum", learningRate: 1 }, servers: 2, mib: 6 } as const;
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, arenaBytesMax: options.mib * MIB, checkpointDir: folder.path });
    await cluster.session.tensor("tensor", { shape: [150_000], optimizer: "sum" });
    await fill(await openTables(cluster.session, options));
    await cluster.session.checkpoint().saved;
  }
  const refusal = await EmbeddedCluster.start({ servers: 1, arenaBytesMax: options.mib * MIB, restore: folder.path }).then(
    () => assert.fail("it does not fit"),
    (thrown: unknown) => thrown,
  );
  assert.ok(isWeighbridgeError(refusal, "ARENA_FULL"), String(refusal));
  const size = Number(/--arena-bytes-max (\d+) or more, or with more servers/.exec(refusal.message)?.[1]);
  assert.ok(size > options.mib * MIB && size < 4 * options.mib * MIB, refusal.message);
  await using cluster = await EmbeddedCluster.start({ servers: 1, arenaBytesMax: size, restore: folder.path });
  assert.ok(
    (
      await cluster.session.embedding(
        "table 0",
        options.dims[0] === 16 ? { dim: 16, optimizer: options.optimizer } : { dim: 1, optimizer: "sum" },
      )
    ).dim,
  );
});
