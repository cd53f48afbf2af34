// plain-updaters — Goal: our updaters of rows that are not f32 do, through the interface of users' own, what the judge
// of the kernels does: f64 to the last bits, integers exactly, wrapping as they do in C++.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EmbeddedCluster } from "weighbridge/embedded";
import { Random } from "../../src/base/random.ts";
import { type OptimizerSpec, resolveOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { newRow64, update64 } from "./float64-optimizers.ts";

const DIM = 5;
const KEYS = [3, 1, 2n ** 63n];
const STEPS = 40;

const F64: readonly OptimizerSpec[] = [
  { type: "sum" },
  { type: "assign" },
  { type: "min" },
  { type: "max" },
  { type: "sgd", learningRate: 0.3, weightDecay: 0.01 },
  { type: "momentum", learningRate: 0.1, momentum: 0.7, weightDecay: 0.05, schedule: { type: "step", every: 10, factor: 0.5 } },
  { type: "nesterov", learningRate: 0.1, momentum: 0.7, weightDecay: 0.05 },
  { type: "adagrad", learningRate: 0.5, initialAccumulator: 0.1, epsilon: 1e-6 },
  { type: "rmsprop", learningRate: 0.05, alpha: 0.9, weightDecay: 0.02 },
  { type: "rmsprop", learningRate: 0.05, momentum: 0.6 },
  { type: "adam", learningRate: 0.05, beta1: 0.8, weightDecay: 0.02 },
  { type: "adamW", learningRate: 0.05, schedule: { type: "step", every: 10, factor: 0.5 } },
  { type: "ftrl", alpha: 0.3, l1: 0.2, l2: 0.1, initialAccumulator: 0.05 },
];

test("f64 rows follow the judge of the kernels within one part in 10^14", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const tables = await Promise.all(
    F64.map((optimizer, i) =>
      session.embedding(`${i} ${optimizer.type}`, { dim: DIM, dtype: "f64", optimizer, init: { type: "constant", value: 0.25 } }),
    ),
  );
  const random = new Random(11);
  const judges = F64.map(() => KEYS.map(() => newRow64(new Float64Array(DIM).fill(0.25))));
  for (let clock = 0; clock < STEPS; clock++) {
    for (const [i, table] of tables.entries()) {
      const gradients = Float64Array.from({ length: KEYS.length * DIM }, () => random.fraction() - 0.5);
      await table.push(KEYS, gradients);
      for (const [row, judge] of judges[i]!.entries()) {
        const gradient = gradients.slice(row * DIM, (row + 1) * DIM);
        const at = { gradient, step: clock + 1, scheduleStep: clock, gradientScale: 1, pulled: undefined };
        update64(resolveOptimizer(F64[i]!), judge, at);
      }
    }
    session.clock();
  }
  for (const [i, table] of tables.entries()) {
    const values = await table.pull(KEYS);
    const expected = judges[i]!.flatMap((row) => [...row.values]);
    for (const [j, value] of values.entries())
      assert.ok(
        Math.abs(value - expected[j]!) <= 1e-14 * Math.max(1, Math.abs(expected[j]!)),
        `${table.name}[${j}]: ${value}, not ${expected[j]}`,
      );
  }
});

test("i32 and i64 rows are summed, assigned, and the least or greatest taken, exactly", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const random = new Random(12);
  const model: Readonly<Record<string, (one: bigint, other: bigint) => bigint>> = {
    sum: (one, other) => one + other,
    assign: (_, other) => other,
    min: (one, other) => sorted(one, other)[0]!,
    max: (one, other) => sorted(one, other)[1]!,
  };
  for (const [type, combine] of Object.entries(model)) {
    const optimizer = { type } as OptimizerSpec;
    const init = { type: "constant", value: -7 } as const;
    const narrow = await session.embedding(`${type} 32`, { dim: DIM, dtype: "i32", optimizer, init });
    const wide = await session.embedding(`${type} 64`, { dim: DIM, dtype: "i64", optimizer, init });
    const length = KEYS.length * DIM;
    const [expected32, expected64] = [new Int32Array(length).fill(-7), new BigInt64Array(length).fill(-7n)];
    for (let step = 0; step < STEPS; step++) {
      const [pushed32, pushed64] = [new Int32Array(length), new BigInt64Array(length)];
      for (let i = 0; i < length; i++) {
        pushed32[i] = random.below(2 ** 32);
        pushed64[i] = BigInt(random.below(2 ** 32)) * 2n ** 32n + BigInt(random.below(2 ** 32));
        expected32[i] = Number(BigInt.asIntN(32, combine(BigInt(expected32[i]!), BigInt(pushed32[i]!))));
        expected64[i] = combine(expected64[i]!, pushed64[i]!);
      }
      await narrow.push(KEYS, pushed32);
      await wide.push(KEYS, pushed64);
    }
    assert.deepEqual(await narrow.pull(KEYS), expected32);
    assert.deepEqual(await wide.pull(KEYS), expected64);
  }
});

function sorted(...values: readonly bigint[]): bigint[] {
  return values.toSorted((one, other) => (one < other ? -1 : 1));
}
