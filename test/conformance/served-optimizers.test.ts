// Goal: what the optimizers promise holds for what users call: duplicates and rounds of values, the norm that is
// clipped, steps by row and by push, delays as the paper counts them; for tables and tensors alike, and with any number
// of servers.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import type { Consistency } from "../../src/store/consistency.ts";
import { type OptimizerSpec, resolveOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { newRow64, notePull64, update64 } from "./float64-optimizers.ts";

/** Two blocks of a tensor, and rows of both. */
const SHAPE = [140, 1_000] as const;
const [NEAR, FAR] = [0, 139];
const WIDTH: number = SHAPE[1];

/** Rows of a table or of a tensor, by one worker's handle. */
type Rows = { push(rows: readonly number[], gradients: Float32Array): Promise<void>; pull(rows: readonly number[]): Promise<Float32Array> };
type Options = { readonly optimizer: OptimizerSpec; readonly consistency?: Consistency };

async function rowsOf(session: Session, kind: "table" | "tensor", options: Options): Promise<Rows> {
  if (kind === "table") return await session.embedding(`table ${options.optimizer.type}`, { dim: WIDTH, ...options });
  const tensor = await session.tensor(`tensor ${options.optimizer.type}`, { shape: SHAPE, ...options });
  return { push: (rows, gradients) => tensor.pushRows(rows, gradients), pull: (rows) => tensor.pullRows(rows) };
}

const filled = (...values: readonly number[]): Float32Array =>
  Float32Array.from(values.flatMap((value) => new Array<number>(WIDTH).fill(value)));

/** The first value of each of the rows. */
async function firsts(rows: Rows, list: readonly number[]): Promise<number[]> {
  const values = await rows.pull(list);
  return list.map((_, i) => values[i * WIDTH] as number);
}

test("of duplicates in one call max keeps the greatest, min the least and assign the last: tables and tensors, encoded or not", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  for (const [type, expected] of [
    ["max", 3],
    ["min", -7],
    ["assign", 2],
  ] as const) {
    for (const link of [undefined, { push: "fp16" }] as const) {
      const optimizer: OptimizerSpec = { type };
      const common = { optimizer, ...(link === undefined ? {} : { link }) };
      const name = `${type} ${link?.push}`;
      const table = await cluster.session.embedding(`table ${name}`, { dim: 1, ...common });
      const tensor = await cluster.session.tensor(`tensor ${name}`, { shape: [9, 1], ...common });
      const gradients = Float32Array.of(3, -1, -7, 2);
      await table.push([4, 5, 4, 4], gradients);
      await tensor.pushRows([4, 5, 4, 4], gradients);
      assert.deepEqual([...(await table.pull([4]))], [expected], `table ${name}`);
      assert.deepEqual([...(await tensor.pullRows([4]))], [expected], `tensor ${name}`);
    }
    const both = await cluster.session.embedding(`both ${type}`, { dim: 1, optimizer: { type } });
    assert.deepEqual([...(await both.pushPull({ keys: [4, 4, 4], gradients: Float32Array.of(3, -7, 2) }, [4]))], [expected]);
    const some = await cluster.session.tensor(`some ${type}`, { shape: [9, 1], optimizer: { type } });
    assert.equal((await some.pushPull({ rows: [4, 4, 4], gradients: Float32Array.of(3, -7, 2) }, "all"))[4], expected);
    assert.deepEqual([...(await some.pushPull({ rows: [4, 4], gradients: Float32Array.of(expected, expected) }, [4]))], [expected]);
  }
});

test("under BSP max and min are those of all workers, and assign is the highest rank's, whoever came first", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  for (const [type, expected] of [
    ["max", [3, 3, 3]],
    ["min", [-7, -7, -7]],
    ["assign", [2, 2, 2]],
  ] as const) {
    const options = { optimizer: { type }, consistency: "bsp" } as const;
    const handles = await Promise.all(
      cluster.sessions.map(async (session) => ({
        table: await session.embedding(`table ${type}`, { dim: 1, ...options }),
        rows: await session.tensor(`rows ${type}`, { shape: [5, 1], ...options }),
        dense: await session.tensor(`dense ${type}`, { shape: [2], ...options }),
      })),
    );
    for (const [rank, values] of [
      [1, [2]],
      [0, [3, -7]],
    ] as const) {
      const { table, rows, dense } = handles[rank]!;
      for (const value of values) {
        await table.push([4], Float32Array.of(value));
        await rows.pushRows([4], Float32Array.of(value));
        await dense.push(Float32Array.of(value, value));
      }
      await rows.pushRows([rank], Float32Array.of(10 + rank)); // named by one of them alone
    }
    for (const session of cluster.sessions) session.clock();
    const { table, rows, dense } = handles[0]!;
    const found = [(await table.pull([4]))[0], (await rows.pullRows([4]))[0], (await dense.pull())[1]];
    assert.deepEqual(found, expected, type);
    assert.deepEqual([...(await rows.pullRows([0, 1, 2]))], type === "min" ? [0, 0, 0] : [10, 11, 0], type);
  }
});

test("a mean of values is refused before anything is sent, when it is made and when its consistency is changed", async () => {
  await using cluster = await EmbeddedCluster.start();
  const mean: Consistency = { bsp: true, reduce: "mean" };
  const isRefused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT") && /mean/.test(error.message);
  for (const type of ["assign", "min", "max"] as const) {
    await assert.rejects(cluster.session.tensor(type, { shape: [1], optimizer: { type }, consistency: mean }), isRefused);
    await assert.rejects(cluster.session.embedding(type, { dim: 1, optimizer: { type }, consistency: mean }), isRefused);
    const bsp = await cluster.session.tensor(type, { shape: [1], optimizer: { type }, consistency: "bsp" });
    await assert.rejects(bsp.configure({ consistency: mean }), isRefused);
  }
});

test("clipNorm is the norm of what is applied: of the sums, where a row is named twice", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const optimizer: OptimizerSpec = { type: "sgd", learningRate: 1, clipNorm: 1 };
  const gradients = Float32Array.of(-1, -1);
  const close = (found: number | undefined, what: string): void =>
    assert.ok(Math.abs((found ?? 0) - 1) < 1e-5, `${what}: ${found} is not 1`);
  for (const link of [undefined, { push: "fp16" }] as const) {
    const common = { optimizer, ...(link === undefined ? {} : { link }) };
    const table = await cluster.session.embedding(`table ${link?.push}`, { dim: 1, ...common });
    await table.push([7, 7], gradients);
    close((await table.pull([7]))[0], `table ${link?.push}`);
    const tensor = await cluster.session.tensor(`tensor ${link?.push}`, { shape: [9, 1], ...common });
    await tensor.pushRows([7, 7], gradients);
    close((await tensor.pullRows([7]))[0], `tensor ${link?.push}`);
  }
  const table = await cluster.session.embedding("both", { dim: 1, optimizer });
  close((await table.pushPull({ keys: [7, 7], gradients }, [7]))[0], "pushPull");
  const tensor = await cluster.session.tensor("some", { shape: [9, 1], optimizer });
  close((await tensor.pushPull({ rows: [7, 7], gradients }, "all"))[7], "pushRowsPull");
  close((await tensor.pushPull({ rows: [6, 6], gradients }, [6]))[0], "pushPullRows");
  const versioned = await cluster.session.embedding("cached", { dim: 1, optimizer, versions: true });
  await using cache = versioned.cached({ rows: 10 });
  await cache.push([7, 7], gradients);
  close((await cache.pull([7]))[0], "cached");
  const opposed = await cluster.session.embedding("opposed", { dim: 1, optimizer });
  await opposed.push([7, 8, 8], Float32Array.of(-1, 5, -5)); // the norm of what is applied is 1: nothing is clipped
  close((await opposed.pull([7]))[0], "opposed");
});

for (const type of ["adam", "adamW"] as const) {
  test(`${type} counts the updates of each row, a dense push as one of each: equal gradients move equally by row, in tables and tensors, on 1 to 3 servers`, async () => {
    const results: number[][] = [];
    for (const [kind, servers] of [
      ["table", 1],
      ["tensor", 1],
      ["tensor", 3],
      ["table", 3],
    ] as const) {
      await using cluster = await EmbeddedCluster.start({ servers });
      const rows = await rowsOf(cluster.session, kind, { optimizer: { type, learningRate: 0.1, weightDecay: 0 } });
      const path: number[][] = [];
      for (const [row, value] of [
        [NEAR, 1],
        [NEAR, 1],
        [NEAR, -3],
        [FAR, 1],
        [1, 1],
        [FAR, 1],
        [FAR, -3],
      ] as const) {
        await rows.push([row], filled(value));
        path.push(await firsts(rows, [NEAR, FAR, 1]));
      }
      const [first, second, third, , , , last] = path;
      assert.ok((first![0] as number) < -0.09 && (second![0] as number) < (first![0] as number));
      assert.equal(path[3]![1], first![0], "a row that comes late moves as the first did");
      assert.equal(path[4]![2], first![0], "also one of a block that has learned");
      assert.equal(last![1], third![0]);
      results.push(path.flat());
    }
    for (const other of results) assert.deepEqual(other, results[0]);
    await using cluster = await EmbeddedCluster.start({ servers: 2 });
    const tensor = await cluster.session.tensor("mixed", { shape: SHAPE, optimizer: { type, learningRate: 0.1, weightDecay: 0 } });
    const dense = new Float32Array(SHAPE[0] * WIDTH).fill(1);
    const model = newRow64([0]);
    const spec = resolveOptimizer({ type, learningRate: 0.1, weightDecay: 0 });
    const step = (): void =>
      update64(spec, model, {
        gradient: Float64Array.of(1),
        step: model.updateCount + 1,
        scheduleStep: 0,
        gradientScale: 1,
        pulled: undefined,
      });
    await tensor.pushRows([NEAR], filled(1));
    await tensor.push(dense);
    await tensor.pushRows([NEAR, FAR], filled(1, 1));
    for (let i = 0; i < 2; i++) step();
    assert.ok(Math.abs((await tensor.pullRows([FAR]))[0]! - model.values[0]!) < 1e-6, "two updates, one of all rows");
    step();
    assert.ok(Math.abs((await tensor.pullRows([NEAR]))[0]! - model.values[0]!) < 1e-6, "three");
  });
}

for (const consistency of ["asp", "bsp"] as const) {
  test(`lazyAdam counts the pushes to the parameter, as SparseAdam, whatever rows they name: tables and tensors, 1 to 5 servers, ${consistency}`, async () => {
    const optimizer: OptimizerSpec = { type: "lazyAdam", learningRate: 0.1 };
    const [near, far] = [newRow64([0]), newRow64([0])];
    const pushes = [[NEAR], [NEAR], [FAR], [NEAR, FAR], [FAR]] as const;
    for (const [i, rows] of pushes.entries()) {
      for (const row of rows) {
        const at = { gradient: Float64Array.of(i - 1.5), step: i + 1, scheduleStep: 0, gradientScale: 1, pulled: undefined };
        update64(resolveOptimizer(optimizer), row === NEAR ? near : far, at);
      }
    }
    for (const [kind, servers] of [
      ["table", 1],
      ["tensor", 1],
      ["table", 2],
      ["tensor", 3],
      ["table", 3],
      ["table", 4],
      ["tensor", 5],
      ["table", 5],
    ] as const) {
      await using cluster = await EmbeddedCluster.start({ servers });
      const rows = await rowsOf(cluster.session, kind, { optimizer, consistency });
      for (const [i, list] of pushes.entries()) {
        await rows.push(list, filled(...list.map(() => i - 1.5)));
        cluster.session.clock();
      }
      const found = await firsts(rows, [NEAR, FAR]);
      for (const [i, expected] of [near.values[0]!, far.values[0]!].entries())
        assert.ok(Math.abs(found[i]! - expected) < 1e-5, `${kind}, ${servers} servers, row ${i}: ${found[i]} is not ${expected}`);
    }
  });
}

test("lazyAdam counts a dense push once, among pushes of rows", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const optimizer: OptimizerSpec = { type: "lazyAdam", learningRate: 0.1 };
  const tensor = await cluster.session.tensor("w", { shape: SHAPE, optimizer });
  const model = newRow64([0]);
  for (let step = 1; step <= 4; step++) {
    const isDense = step % 2 === 0;
    if (isDense) await tensor.push(new Float32Array(SHAPE[0] * WIDTH).fill(step));
    else await tensor.pushRows([NEAR], filled(step));
    if (!isDense) continue;
    const at = { gradient: Float64Array.of(step), step, scheduleStep: 0, gradientScale: 1, pulled: undefined };
    update64(resolveOptimizer(optimizer), model, at);
  }
  assert.ok(Math.abs((await tensor.pullRows([FAR]))[0]! - model.values[0]!) < 1e-5);
});

for (const kind of ["table", "tensor"] as const) {
  test(`DC-ASGD compensates what happened since the pushing worker's last pull, as the paper has it in float64: ${kind}s`, async () => {
    const workers = 3;
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers });
    const optimizer: OptimizerSpec = { type: "dcAsgd", learningRate: 0.05, lambda: 1, epsilon: 1e-3 };
    const handles = await Promise.all(cluster.sessions.map((session) => rowsOf(session, kind, { optimizer })));
    const model = new Map([NEAR, 1, FAR].map((row) => [row, newRow64([0])]));
    for (const row of model.values()) for (let rank = 0; rank < workers; rank++) notePull64(row, `${rank}`);
    const random = new Random(7);
    for (let i = 0; i < 120; i++) {
      const rank = random.below(workers);
      const row = [NEAR, 1, FAR][random.below(3)]!;
      const own = model.get(row)!;
      if (random.chance(0.35)) {
        const [value] = await firsts(handles[rank]!, [row]);
        assert.ok(Math.abs(value! - own.values[0]!) < 1e-5, `call ${i}: ${value} is not ${own.values[0]}`);
        notePull64(own, `${rank}`);
      } else {
        const gradient = Math.fround(random.fraction() * 3 - 1);
        await handles[rank]!.push([row], filled(gradient));
        const at = { step: 1, scheduleStep: 0, gradientScale: 1, pulled: `${rank}` };
        update64(resolveOptimizer(optimizer), own, { gradient: Float64Array.of(gradient), ...at });
      }
    }
  });
}

test("a push to a tensor of DC-ASGD is no pull: the next one of the same worker is as late as if another had pushed", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const optimizer: OptimizerSpec = { type: "dcAsgd", learningRate: 0.5, lambda: 1 };
  const values: number[] = [];
  for (const [name, ranks] of [
    ["same", [0, 0]],
    ["other", [0, 1]],
  ] as const) {
    const handles = await Promise.all(cluster.sessions.map((session) => session.tensor(name, { shape: [1], optimizer })));
    for (const rank of ranks) await handles[rank]!.push(Float32Array.of(1));
    values.push((await handles[0]!.pull())[0]!);
  }
  assert.equal(values[0], values[1]);
});
