// Goal: a server whose memory for parameters is full refuses new rows and parameters, and nothing else: it is read,
// saved and updated as before (Arena.A4).

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryFolder } from "../../test/support/checkpoint-stage.ts";
import type { TakenCheckpoint } from "../api/checkpoint.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { TensorWorker } from "../faces/tensors/tensor-worker.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import type { Embedding } from "../worker/embedding.ts";
import { verifyCheckpoint } from "./checkpoint/verify-checkpoint.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const MIB = 2 ** 20;
const DIM = 16;
const BATCH = 2_000;
const isFull = (thrown: unknown): boolean => isWeighbridgeError(thrown, "ARENA_FULL");

/** Pushes new rows, fewer and fewer, until not one more is taken; returns how many there are. */
async function fill(table: Embedding): Promise<number> {
  let rowCount = 0;
  for (let batch = BATCH; batch >= 1; ) {
    try {
      await table.push(keysFrom(rowCount, batch), new Float32Array(batch * DIM).fill(1));
      rowCount += batch;
    } catch (thrown) {
      assert.ok(isFull(thrown), String(thrown));
      batch = Math.floor(batch / 2);
    }
  }
  return rowCount;
}

const keysFrom = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

const optimizers: readonly OptimizerSpec[] = [{ type: "sgd", learningRate: 1 }, { type: "adam" }];
for (const optimizer of optimizers) {
  test(`a server that is full of rows (${optimizer.type}) is read, updated and saved, and says what it refuses`, async () => {
    using folder = temporaryFolder();
    await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 16 * MIB, checkpointDir: folder.path });
    const { session } = cluster;
    const table = await session.embedding("table", { dim: DIM, optimizer });
    const rowCount = await fill(table);
    assert.ok(rowCount > 10_000, `${rowCount} rows`);

    await assert.rejects(
      table.push(keysFrom(rowCount, BATCH), new Float32Array(BATCH * DIM)),
      /no room for new rows .* kept for reads and checkpoints/,
    );
    await assert.rejects(session.tensor("another", { shape: [1_000_000], optimizer: "sum" }), isFull);

    const before = await table.pull(keysFrom(0, 100));
    await table.push(keysFrom(0, 100), new Float32Array(100 * DIM).fill(1)); // updates of rows that are there
    assert.notDeepEqual(await table.pull(keysFrom(0, 100)), before);
    const all = await table.pull(keysFrom(0, rowCount)); // more than the arena has room for at once
    assert.equal(all.length, rowCount * DIM);
    assert.equal((await table.pull([rowCount + 5])).length, DIM); // a row that is not there reads as ever

    const { path } = await session.checkpoint().saved;
    assert.deepEqual((await verifyCheckpoint(path)).problems, []);
    await session.saveParameter("table", "only-table");
    await table.push(keysFrom(0, rowCount), new Float32Array(rowCount * DIM).fill(1));

    await using again = await EmbeddedCluster.start({ servers: 2, arenaBytesMax: 16 * MIB, restore: path });
    const restored = await again.session.embedding("table", { dim: DIM, optimizer });
    assert.deepEqual(await restored.pull(keysFrom(0, rowCount)), all);
  });
}

test("a server that is full is saved while all its rows are pushed to and new ones are refused", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ workers: 2, arenaBytesMax: 16 * MIB, checkpointDir: folder.path });
  const [session, other] = cluster.sessions;
  assert.ok(session !== undefined && other !== undefined);
  const options = { dim: DIM, optimizer: { type: "sgd", learningRate: 1 } } as const;
  const [table, theirs] = await Promise.all([session.embedding("table", options), other.embedding("table", options)]);
  const rowCount = await fill(table);
  const ones = new Float32Array(BATCH * DIM).fill(1);
  let isSaving = true;
  let [pushes, refused] = [0, 0];
  const pushing = Array.from({ length: 4 }, async (_, lane) => {
    for (let from = lane * BATCH; isSaving; from = (from + 4 * BATCH) % (rowCount - BATCH), pushes++) {
      await theirs.push(keysFrom(from, BATCH), ones);
      if (lane > 0) continue;
      await theirs.push(keysFrom(rowCount, BATCH), ones).catch((thrown: unknown) => {
        assert.ok(isFull(thrown), String(thrown));
        refused++;
      });
    }
  });
  for (let i = 0; i < 3; i++) {
    const saved: TakenCheckpoint = await session.checkpoint().saved;
    assert.deepEqual((await verifyCheckpoint(saved.path)).problems, []);
  }
  isSaving = false;
  await Promise.all(pushing);
  assert.ok(pushes > 0 && refused > 0);
});

test("a server that is full of tensors is read, updated and saved, also while it is read", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 32 * MIB, checkpointDir: folder.path });
  const { session } = cluster;
  const size = 300_000; // 1.2 MB of values, 1.2 MB of slots
  const optimizer = { type: "momentum", learningRate: 1, momentum: 0 } as const;
  const ones = new Float32Array(size).fill(1);
  const untouched = await session.tensor("untouched", { shape: [size], optimizer, init: { type: "constant", value: 3 } });
  const tensors = [];
  for (let i = 0; ; i++) {
    const tensor = await session.tensor(`t${i}`, { shape: [size], optimizer }).catch((thrown: unknown) => assert.ok(isFull(thrown)));
    if (tensor === undefined) break;
    await tensor.push(ones);
    tensors.push(tensor);
  }
  assert.ok(tensors.length >= 2, `${tensors.length}`);
  for (let round = 0; round < 3; round++) {
    const pulls = tensors.map((tensor) => tensor.pull());
    await Promise.all(tensors.map((tensor) => tensor.push(ones))); // while their values leave
    for (const values of await Promise.all(pulls)) assert.ok(values.every((value) => value === values[0]));
  }
  assert.equal((await untouched.pull())[size - 1], 3);
  await untouched.push(ones);
  assert.equal((await untouched.pull())[size - 1], 2);
  const { path } = await session.checkpoint().saved;
  assert.deepEqual((await verifyCheckpoint(path)).problems, []);
  for (const tensor of tensors) assert.equal((await tensor.pull())[size - 1], -4);
});

for (const consistency of ["asp", "bsp"] as const) {
  test(`rows of a tensor of a full server count their steps from their first update by rows on (adam, ${consistency})`, async () => {
    await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 32 * MIB });
    const { session } = cluster;
    const optimizer = { type: "adam", learningRate: 0.5 } as const;
    const tensor = await session.tensor("w", { shape: [50_000, 4], optimizer, consistency });
    await tensor.push(new Float32Array(200_000).fill(1));
    session.clock();
    let isRefused = false;
    for (let i = 0; !isRefused; i++) {
      const filler = await session
        .tensor(`filler ${i}`, { shape: [1000], optimizer: "sum" })
        .catch((thrown: unknown) => assert.ok(isFull(thrown)));
      await filler?.push(new Float32Array(1000)).catch((thrown: unknown) => assert.ok(isFull(thrown)));
      isRefused = filler === undefined;
    }
    await tensor.pushRows([1, 49_999], new Float32Array(8).fill(1));
    session.clock();
    const [one, other] = [await tensor.pullRows([1, 49_999]), await tensor.pullRows([2])];
    assert.ok(one.every((value) => Math.abs(value + 1) < 1e-5) && Math.abs((other[0] as number) + 0.5) < 1e-5, `${one[0]}, ${other[0]}`);
  });
}

test("a full server takes rounds of sync updates to all its rows, of several workers, whatever their size", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 3, arenaBytesMax: 16 * MIB });
  const sgd = { type: "sgd", learningRate: 1 } as const;
  const tables = await Promise.all(
    cluster.sessions.map((session) => session.embedding("table", { dim: DIM, optimizer: sgd, consistency: "bsp" })),
  );
  const [first] = cluster.sessions;
  const filling = await first!.embedding("filling", { dim: DIM, optimizer: sgd });
  const rows = keysFrom(0, 60_000);
  const clock = async (): Promise<void> => {
    for (const session of cluster.sessions) session.clock();
  };
  await Promise.all(tables.map((table, rank) => table.push(rank === 0 ? rows : [], new Float32Array(rank === 0 ? rows.length * DIM : 0))));
  await clock();
  await fill(filling);
  const ones = new Float32Array(rows.length * DIM).fill(1);
  for (let round = 1; round <= 2; round++) {
    await Promise.all(tables.map((table) => table.push(rows, ones)));
    await clock();
    const values = await tables[0]!.pull(rows);
    assert.ok(
      values.every((value) => value === -3 * round),
      `round ${round}: ${values[0]}`,
    );
  }
});

test("a full server takes rounds of sync updates to whole tensors, of several workers, whatever their size", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 3, arenaBytesMax: 16 * MIB });
  const sgd = { type: "sgd", learningRate: 1 } as const;
  const size = 2 * MIB; // 8 MiB of values
  const tensors = await Promise.all(
    cluster.sessions.map((session) => session.tensor("w", { shape: [size], optimizer: sgd, consistency: "bsp" })),
  );
  const ones = new Float32Array(size).fill(1);
  for (let round = 1; round <= 2; round++) {
    await Promise.all(tensors.map((tensor) => tensor.push(ones)));
    for (const session of cluster.sessions) session.clock();
    const values = await tensors[0]!.pull();
    assert.ok(
      values.every((value) => value === -3 * round),
      `round ${round}: ${values[0]}`,
    );
    if (round === 1) await fill(await cluster.session.embedding("filling", { dim: DIM, optimizer: sgd }));
  }
});

for (const mib of [2, 4, 8]) {
  for (const consistency of ["asp", "bsp"] as const) {
    test(`rows are pushed to again and again within one clock in a full arena of ${mib} MiB (${consistency})`, async () => {
      await using cluster = await EmbeddedCluster.start({ arenaBytesMax: mib * MIB });
      const { session } = cluster;
      const options = { dim: DIM, optimizer: { type: "sgd", learningRate: 1 }, consistency } as const;
      const table = await session.embedding("table", options);
      const rows = keysFrom(0, 3_000);
      const ones = new Float32Array(rows.length * DIM).fill(1);
      await table.push(rows, ones);
      await fill(await session.embedding("filling", { dim: DIM, optimizer: { type: "sgd", learningRate: 1 } }));
      await Promise.all(Array.from({ length: 60 }, () => table.push(rows, ones)));
      session.clock();
      const values = await table.pull(rows);
      assert.ok(
        values.every((value) => value === -61),
        `${values[0]}`,
      );
    });
  }
}

test("data arrays of a server that is full are read and added to, and new ones are refused whole", async () => {
  await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 16 * MIB });
  const worker = new TensorWorker(cluster.session);
  const size = 100_000;
  const ones = new Float32Array(2 * size).fill(1);
  const push = async (indexes: number[]): Promise<void> =>
    await worker.waitData(
      worker.pushData(
        indexes,
        ones.subarray(0, indexes.length * size),
        indexes.map(() => size),
      ),
    );
  await push([1, 2]);
  await fill(await cluster.session.embedding("filling", { dim: DIM, optimizer: "sum" }));
  await push([2, 1]);
  await assert.rejects(push([1, 3]), isFull);
  const into = new Float32Array(2 * size);
  await worker.waitData(worker.pullData([1, 2], into, [size, size]));
  assert.ok(
    into.every((value) => value === 2),
    "what was refused has added nothing",
  );
});
