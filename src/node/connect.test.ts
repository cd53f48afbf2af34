// connect — Goal: a cluster inside one process does what users of the modern API are promised.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { EmbeddingOptions, TensorOptions } from "../api/parameter-options.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

test("a tensor sums what workers push, over any number of servers", async () => {
  for (const servers of [1, 2, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2 });
    const [one, two] = cluster.sessions;
    assert.ok(one !== undefined && two !== undefined);
    const size = 300_000;
    const mine = await one.tensor("w", { shape: [size], optimizer: "sum" });
    const theirs = await two.tensor("w", { shape: [size], optimizer: "sum" });
    const gradient = Float32Array.from({ length: size }, (_, i) => i % 100);
    await Promise.all([mine.push(gradient), theirs.push(gradient)]);
    assert.deepEqual(
      await mine.pull(),
      gradient.map((value) => 2 * value),
      `${servers} servers`,
    );
    assert.deepEqual(
      await theirs.pushPull(gradient, "all"),
      gradient.map((value) => 3 * value),
    );
  }
});

test("a pull sees every earlier push of its worker without waiting for it", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [1000], optimizer: "sum" });
  const one = new Float32Array(1000).fill(1);
  const pushes = Array.from({ length: 10 }, (_, i) => w.push(one, { priority: -i }));
  assert.deepEqual(await w.pull({ priority: 100 }), new Float32Array(1000).fill(10));
  await Promise.all(pushes);
});

test("rows of a tensor are pushed and pulled by index, duplicates summed, and there is no row past the end", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [5000, 64], optimizer: "sum" });
  const rows = [4999, 0, 17, 4999];
  const gradients = Float32Array.from({ length: rows.length * 64 }, (_, i) => Math.floor(i / 64) + 1);
  await w.pushRows(rows, gradients);
  const pulled = await w.pullRows(Uint32Array.of(17, 4999, 1, 17));
  assert.deepEqual(
    [0, 64, 128, 192].map((at) => pulled[at]),
    [3, 5, 0, 3],
  );
  await assert.rejects(w.pullRows([5000]), (error) => isWeighbridgeError(error, "OUT_OF_RANGE") && /no row 5000/.test(error.message));
  await assert.rejects(w.pushRows([-1], new Float32Array(64)), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
});

test("rows of an embedding have any u64 as key, duplicates are summed, order is the caller's", async () => {
  for (const servers of [1, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers });
    const table = await cluster.session.embedding("e", { dim: 3, optimizer: "sum" });
    const keys = BigUint64Array.of(2n ** 64n - 1n, 0n, 7n, 2n ** 64n - 1n, 2n ** 24n + 1n);
    const gradients = Float32Array.from({ length: keys.length * 3 }, (_, i) => i);
    await table.push(keys, gradients);
    const pulled = await table.pull(BigUint64Array.of(7n, 2n ** 64n - 1n, 1n, 2n ** 24n + 1n, 2n ** 24n, 7n));
    assert.deepEqual([...pulled], [6, 7, 8, 9, 11, 13, 0, 0, 0, 12, 13, 14, 0, 0, 0, 6, 7, 8], `${servers} servers`);
    await table.push([5], Float32Array.of(1, 2, 3));
    assert.deepEqual([...(await table.pull([5]))], [1, 2, 3]);
  }
});

test("rows of one element land at every place of the caller's array", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const table = await cluster.session.embedding("e", { dim: 1, optimizer: "sum" });
  const keys = BigUint64Array.from({ length: 101 }, (_, i) => BigInt(i));
  const values = Float32Array.from({ length: 101 }, (_, i) => i + 1);
  await table.push(keys, values);
  const into = new Float32Array(204);
  await table.pull(keys, { into: into.subarray(1, 102) });
  assert.deepEqual(into.subarray(1, 102), values);
});

test("large requests for rows are cut into frames and come back in order", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const table = await cluster.session.embedding("e", { dim: 16, optimizer: "sum" });
  const keys = BigUint64Array.from({ length: 50_000 }, (_, i) => BigInt((i * 7919) % 40_000));
  const ones = new Float32Array(keys.length * 16).fill(1);
  await table.push(keys, ones);
  const pulled = await table.pull(keys);
  const counts = new Map<bigint, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  for (const [i, key] of keys.entries()) assert.equal(pulled[i * 16 + 15], counts.get(key), `key ${key}`);
});

test("two workers that describe a parameter differently: the second is told in what, and nothing changes", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const w = await one.tensor("w", { shape: [4], optimizer: { type: "sgd", learningRate: 0.1 } });
  await assert.rejects(
    two.tensor("w", { shape: [5], optimizer: { type: "sgd", learningRate: 0.2 } }),
    (error) =>
      isWeighbridgeError(error, "SPEC_MISMATCH") &&
      /learningRate is 0.1 and 0.2/.test(error.message) &&
      /shape is \[4\] and \[5\]/.test(error.message),
  );
  assert.equal((await w.pull()).length, 4);
});

test("initial values are the same for every number of servers, and a row that was only read is not made", async () => {
  const drawn: Float32Array[] = [];
  for (const servers of [1, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers });
    const init = { type: "normal", std: 1, seed: 7 } as const;
    const w = await cluster.session.tensor("w", { shape: [700, 300], optimizer: "sum", init });
    const e = await cluster.session.embedding("e", { dim: 5, optimizer: "sum", init });
    const keys = BigUint64Array.of(0n, 5n, 2n ** 64n - 1n, 5n);
    const rows = await e.pull(keys);
    await e.push(keys, new Float32Array(20));
    assert.deepEqual(await e.pull(keys), rows);
    assert.deepEqual(rows.subarray(5, 10), rows.subarray(15, 20));
    drawn.push(await w.pull(), rows);
  }
  assert.deepEqual(drawn[0], drawn[2]);
  assert.deepEqual(drawn[1], drawn[3]);
  assert.equal(new Set(drawn[0]).size > 200_000, true);
});

test("an optimizer is applied to what is pushed", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", {
    shape: [2],
    init: { type: "constant", value: 1 },
    optimizer: { type: "sgd", learningRate: 0.5 },
  });
  await w.push(Float32Array.of(1, -2));
  assert.deepEqual([...(await w.pull())], [0.5, 2]);
  await w.configure({ learningRate: 0.25 });
  await w.push(Float32Array.of(1, -2));
  assert.deepEqual([...(await w.pull())], [0.25, 2.5]);
});

for (const consistency of ["asp", "bsp"] as const) {
  test(`a schedule goes by the clocks of the pushes, and what one worker sets holds for all (${consistency})`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
    const optimizer = { type: "sgd", learningRate: 1, schedule: { type: "step", every: 2, factor: 0.5 } } as const;
    const workers = await Promise.all(
      cluster.sessions.map(async (session) => ({
        session,
        tensor: await session.tensor("tensor", { shape: [3], optimizer, consistency }),
        rows: await session.tensor("rows", { shape: [4, 2], optimizer, consistency }),
        table: await session.embedding("table", { dim: 1, optimizer, consistency }),
      })),
    );
    const train = async (): Promise<void> => {
      for (const { session, tensor, rows, table } of workers) {
        await Promise.all([tensor.push(ONES), rows.pushRows([1], ONES.subarray(1)), table.push([9], ONES.subarray(2))]);
        session.clock();
      }
    };
    const ONES = new Float32Array(3).fill(1);
    const [one, two] = workers;
    assert.ok(one !== undefined && two !== undefined);
    const values = async (): Promise<number[]> => [
      (await one.tensor.pull())[0] as number,
      (await one.rows.pullRows([1]))[0] as number,
      (await one.table.pull([9]))[0] as number,
    ];
    for (let clock = 0; clock < 6; clock++) await train();
    const expected = -2 * (1 + 1 + 0.5 + 0.5 + 0.25 + 0.25);
    assert.deepEqual(await values(), [expected, expected, expected]);
    for (const parameter of [two.tensor, two.rows, two.table]) {
      await parameter.configure({ learningRate: 2, schedule: { type: "step", every: 3, factor: 0.5 } });
    }
    await train(); // the clock is 6
    assert.deepEqual(await values(), [expected - 1, expected - 1, expected - 1]);
  });
}

test("a tensor begins with the values of the first worker, over blocks and servers, and one restored or trained keeps its own", async () => {
  const checkpointDir = mkdtempSync(join(tmpdir(), "wb-"));
  try {
    const size = 300_000;
    const values = Float32Array.from({ length: size }, (_, i) => i);
    const options = { shape: [size], optimizer: { type: "sgd", learningRate: 1 } } as const;
    {
      await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir });
      const [mine, theirs] = await Promise.all(cluster.sessions.map((session) => session.tensor("w", options)));
      assert.ok(mine !== undefined && theirs !== undefined);
      await assert.rejects(mine.start(new Float32Array(3)), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
      assert.equal(await mine.start(values), true);
      assert.equal(await theirs.start(new Float32Array(size)), false);
      assert.deepEqual(await theirs.pull(), values);
      for (const session of cluster.sessions) session.clock();
      await cluster.session.checkpoint().saved;
    }
    await using cluster = await EmbeddedCluster.start({ servers: 3, checkpointDir, restore: checkpointDir });
    const w = await cluster.session.tensor("w", options);
    assert.equal(await w.start(new Float32Array(size)), false);
    assert.deepEqual(await w.pull(), values);
  } finally {
    rmSync(checkpointDir, { recursive: true });
  }
});

test("BSP: a clock's gradients count together at its end, and a read of the next clock waits for everybody", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const options = { shape: [3], consistency: { bsp: true, reduce: "mean" }, optimizer: { type: "sgd", learningRate: 1 } } as const;
  const mine = await one.tensor("w", options);
  const theirs = await two.tensor("w", options);
  await mine.push(Float32Array.of(1, 1, 1));
  assert.deepEqual([...(await mine.pull())], [0, 0, 0]);
  one.clock();
  let isAnswered = false;
  const waiting = mine.pull().then((values) => {
    isAnswered = true;
    return values;
  });
  await theirs.push(Float32Array.of(3, 3, 3));
  assert.equal(isAnswered, false);
  two.clock();
  assert.deepEqual([...(await waiting)], [-2, -2, -2]);
});

test("SSP: a worker may be ahead by the bound and no further; a raised bound lets it go on", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [fast, slow] = cluster.sessions;
  assert.ok(fast !== undefined && slow !== undefined);
  const options = { shape: [1], optimizer: "sum", consistency: { ssp: 2 } } as const;
  const w = await fast.tensor("w", options);
  await slow.tensor("w", options);
  fast.clock();
  fast.clock();
  await w.pull();
  fast.clock();
  const message = 'waited 50 ms for the pull of "w": it waits at clock 3 for the slowest to reach clock 1: worker 1 at clock 0';
  await assert.rejects(w.pull({ timeoutMs: 50 }), { code: "DEADLINE", message });
  const waiting = w.pull();
  await w.configure({ staleness: 3 });
  assert.deepEqual([...(await waiting)], [0]);
});

test("a consistency changes for all workers and servers from a clock on, there and back", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const sessions = cluster.sessions;
  const keys = Array.from({ length: 20 }, (_, i) => i);
  const ones = new Float32Array(keys.length).fill(1);
  const tables = await Promise.all(sessions.map((session) => session.embedding("rows", { dim: 1, optimizer: "sum", consistency: "bsp" })));
  const [first, second] = tables;
  assert.ok(first !== undefined && second !== undefined);
  const all = async (of: (typeof tables)[number]): Promise<number[]> => [...new Set(await of.pull(keys))];
  const clockAll = (): void => sessions.forEach((session) => void session.clock());
  assert.equal(await first.configure({ consistency: { ssp: 1 } }), 2, "two clocks above the fastest worker");
  assert.equal(await second.configure({ consistency: { ssp: 1 } }), 2, "whoever says the same changes nothing");
  await sessions[0]?.embedding("rows", { dim: 1, optimizer: "sum", consistency: "bsp" }); // as it was created
  await assert.rejects(sessions[1]!.embedding("rows", { dim: 1, optimizer: "sum", consistency: { ssp: 1 } }), (error) =>
    isWeighbridgeError(error, "SPEC_MISMATCH"),
  );
  await first.push(keys, ones);
  assert.deepEqual(await all(first), [0], "clock 0 is BSP");
  clockAll();
  clockAll();
  await first.push(keys, ones);
  assert.deepEqual(await all(first), [2], "clock 2 is SSP: all of the clocks before 1, and its own");
  assert.equal(await second.configure({ consistency: { bsp: true, reduce: "mean" }, fromClock: 5 }), 5);
  for (let clock = 2; clock < 5; clock++) clockAll();
  await Promise.all(tables.map((table) => table.push(keys, ones)));
  clockAll();
  assert.deepEqual([await all(first), await all(second)], [[3], [3]]);
});

test("an option that does not exist is refused, with those that do", async () => {
  await using cluster = await EmbeddedCluster.start();
  const misspelt = { shape: [4], optimizer: "sum", consistancy: "bsp" } as TensorOptions;
  await assert.rejects(
    cluster.session.tensor("w", misspelt),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /consistancy.*consistency/.test(error.message),
  );
  const w = await cluster.session.tensor("w", { shape: [4], optimizer: "sum" });
  await assert.rejects(w.configure({ learnrate: 3 } as Record<string, number>), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await assert.rejects(
    cluster.session.embedding("e", { optimizer: "sum" } as EmbeddingOptions),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /dim/.test(error.message),
  );
});

test("wrong lengths, unknown parameters and cleared ones are errors at the caller", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", { shape: [3], optimizer: "sum" });
  await assert.rejects(w.push(new Float32Array(2)), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
  await w.drop();
  const message = /^server 0: this server has no parameter "w": it was dropped; make it again with tensor\(\)$/;
  await assert.rejects(w.pull(), { code: "UNKNOWN_PARAMETER", message });
});

test("a function of the user's own is called with types, by server or by key", async () => {
  const count = psFunction({
    name: "count",
    request: { by: "u32" },
    response: { total: "u32" },
    handler: (context, { by }) => {
      const state = context.own("count", () => ({ total: 0 }));
      state.total += by;
      return { total: state.total };
    },
  });
  await using cluster = await EmbeddedCluster.start({ servers: 2, functions: [count] });
  const { session } = cluster;
  assert.deepEqual(await session.call(count, { server: 1 }, { by: 2 }), { total: 2 });
  assert.deepEqual(await session.callAll(count, { by: 3 }), [{ total: 3 }, { total: 5 }]);
  const { total } = await session.call(count, { key: 9n }, { by: 1 });
  assert.ok(total === 4 || total === 6);
});

test("sessions of a cluster inside the process can be closed like any others", async () => {
  const cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  await Promise.all(cluster.sessions.map((session) => session.close({ timeoutMs: 20_000 })));
  await cluster.close();
});

test("a session that is closed already, or is closing, is closed without an error", async () => {
  await using cluster = await EmbeddedCluster.start();
  await using session = cluster.session; // closes it once more
  const closing = session.close();
  await Promise.all([closing, session.close()]);
  await session.close();
  await assert.rejects(session.tensor("w", { shape: [1], optimizer: "sum" }), (error) => isWeighbridgeError(error, "CLOSED"));
});

test("the last push of a worker that leaves is not lost", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const w = await one.tensor("w", { shape: [1], optimizer: "sum" });
  const late = await two.tensor("w", { shape: [1], optimizer: "sum" });
  await w.push(Float32Array.of(5));
  await one.close({ barrier: false });
  assert.deepEqual([...(await late.pull())], [5]);
});

test("a push and pull of rows larger than frames and blocks gives what it pushed, over any number of servers", async () => {
  for (const servers of [1, 2, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers });
    const rowCount = 60_000;
    const keys = Array.from({ length: rowCount }, (_, i) => (i * 7919) % 50_000); // some of them twice
    const counts = new Map<number, number>();
    for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
    const gradients = new Float32Array(rowCount * 8).fill(1);
    const pullKeys = Array.from({ length: rowCount }, (_, i) => (i * 31) % 55_000);
    const expected = pullKeys.map((key) => counts.get(key) ?? 0);

    const table = await cluster.session.embedding("table", { dim: 8, optimizer: "sum" });
    const rows = await table.pushPull({ keys, gradients }, pullKeys);
    assert.deepEqual(
      expected.map((_, i) => rows[8 * i + 7]),
      expected,
      `table, ${servers} servers`,
    );

    const tensor = await cluster.session.tensor("tensor", { shape: [55_000, 8], optimizer: "sum" });
    const some = await tensor.pushPull({ rows: keys, gradients }, pullKeys);
    assert.deepEqual(
      expected.map((_, i) => some[8 * i]),
      expected,
      `tensor, ${servers} servers`,
    );
    const whole = await tensor.pushPull({ rows: [54_999, 3], gradients: new Float32Array(16).fill(5) }, "all");
    assert.equal(whole.length, 55_000 * 8);
    assert.deepEqual([whole[54_999 * 8], whole[3 * 8 + 7], whole[7]], [5, (counts.get(3) ?? 0) + 5, counts.get(0) ?? 0]);
  }
});
