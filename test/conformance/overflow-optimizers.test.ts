// Goal: a finite gradient whose square is more than a float32 holds does what PyTorch's float32 does where that stays
// finite, and otherwise leaves no trace but in the counts: it is refused, skipped, or its elements count as 0, as the
// parameter says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import type { NonFinitePolicy, OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { SQUARING_TYPES } from "../../src/testing/optimizer-types.ts";

const f = Math.fround;
const isNotFinite = (error: unknown): boolean => isWeighbridgeError(error, "NOT_FINITE");

type Moments = { w: number; m: number; v: number };

/**
 * PyTorch's Adam in float32: exp_avg.lerp_, exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2),
 * param.addcdiv_.
 */
function torchAdam(state: Moments, g: number, step: number, decay: number): void {
  const [rate, beta1, beta2] = [0.1, 0.9, 0.999];
  state.w = f(state.w * f(1 - rate * decay));
  state.m = f(state.m + f(f(1 - beta1) * f(g - state.m)));
  state.v = f(f(state.v * f(beta2)) + f(f(f(1 - beta2) * g) * g));
  const root = f(f(Math.sqrt(state.v)) / f(Math.sqrt(1 - beta2 ** step)));
  state.w = f(state.w + f(f(f(-rate / (1 - beta1 ** step)) * state.m) / f(root + f(1e-8))));
}

/** PyTorch's RMSprop: square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha), param.addcdiv_. */
function torchRmsprop(state: Moments, g: number): void {
  state.v = f(f(state.v * f(0.99)) + f(f(f(0.01) * g) * g));
  state.w = f(state.w + f(f(f(-0.1) * g) / f(f(Math.sqrt(state.v)) + f(1e-8))));
}

const LIKE_TORCH: readonly { readonly optimizer: OptimizerSpec; step(state: Moments, g: number, step: number): void }[] = [
  { optimizer: { type: "adam", learningRate: 0.1 }, step: (state, g, step) => torchAdam(state, g, step, 0) },
  { optimizer: { type: "adamW", learningRate: 0.1, weightDecay: 0.5 }, step: (state, g, step) => torchAdam(state, g, step, 0.5) },
  { optimizer: { type: "lazyAdam", learningRate: 0.1 }, step: (state, g, step) => torchAdam(state, g, step, 0) },
  { optimizer: { type: "rmsprop", learningRate: 0.1 }, step: torchRmsprop },
];

test("a gradient of 2e19, whose square is infinite, moves adam, adamW, lazyAdam and rmsprop as PyTorch's float32, and so do the next ones", async () => {
  await using cluster = await EmbeddedCluster.start();
  for (const { optimizer, step } of LIKE_TORCH) {
    const tensor = await cluster.session.tensor(optimizer.type, { shape: [2, 1], init: { type: "constant", value: 1 }, optimizer });
    const table = await cluster.session.embedding(`${optimizer.type} rows`, { dim: 1, init: { type: "constant", value: 1 }, optimizer });
    const state = { w: 1, m: 0, v: 0 };
    for (const [i, g] of [1, 2e19, -3, 1e20, 0.5].entries()) {
      await tensor.push(Float32Array.of(g, g));
      await table.push([9], Float32Array.of(g));
      step(state, f(g), i + 1);
      assert.ok(Number.isFinite(state.w) && Number.isFinite(state.v));
      for (const [what, found] of [
        ["tensor", (await tensor.pull())[1]!],
        ["table", (await table.pull([9]))[0]!],
      ] as const)
        assert.ok(Math.abs(found - state.w) <= 1e-5, `${optimizer.type}, ${what}, push ${i}: ${found} is not ${state.w}`);
    }
    assert.deepEqual(await tensor.nonFinite(), { refusedPushes: 0, skippedPushes: 0, zeroedElements: 0 });
  }
});

const SQUARING: readonly OptimizerSpec[] = [...SQUARING_TYPES.map((type) => ({ type })), { type: "rmsprop", momentum: 0.5 }];

for (const nonFinite of ["refuse", "skip", "zero"] as const satisfies readonly NonFinitePolicy[]) {
  test(`a gradient that an optimizer cannot square in float32 leaves nothing behind and is counted: ${nonFinite}`, async () => {
    await using cluster = await EmbeddedCluster.start();
    for (const [i, spec] of SQUARING.entries()) {
      const optimizer = { ...spec, nonFinite };
      const init = { type: "constant", value: 0.5 } as const;
      const pairs = await Promise.all(
        ["huge", "plain"].map(async (name) => ({
          tensor: await cluster.session.tensor(`${name} ${i}`, { shape: [2, 2], init, optimizer }),
          table: await cluster.session.embedding(`${name} rows ${i}`, { dim: 2, init, optimizer }),
        })),
      );
      const [huge, plain] = pairs as [(typeof pairs)[0], (typeof pairs)[0]];
      const first = Float32Array.of(0.25, -0.5, 1, 2);
      for (const { tensor, table } of pairs) {
        await tensor.push(first);
        await table.push([1, 2], first);
      }
      const [bad, left] = [Float32Array.of(1, 3e38), Float32Array.of(spec.type === "rowWiseAdagrad" ? 0 : 1, 0)];
      const pushes = [() => huge.tensor.pushRows([1], bad), () => huge.table.push([2], bad)];
      for (const push of pushes) await (nonFinite === "refuse" ? assert.rejects(push(), isNotFinite) : push());
      if (nonFinite === "zero") {
        await plain.tensor.pushRows([1], left);
        await plain.table.push([2], left);
      }
      for (const { tensor, table } of pairs) {
        await tensor.push(first);
        await table.push([1, 2], first);
      }
      const what = JSON.stringify(spec);
      assert.deepEqual(await huge.tensor.pull(), await plain.tensor.pull(), `tensor of ${what}`);
      assert.deepEqual(await huge.table.pull([1, 2, 3]), await plain.table.pull([1, 2, 3]), `table of ${what}`);
      const zeroedElements = nonFinite === "zero" ? (spec.type === "rowWiseAdagrad" ? 2 : 1) : 0;
      const counts = { refusedPushes: nonFinite === "refuse" ? 1 : 0, skippedPushes: nonFinite === "skip" ? 1 : 0, zeroedElements };
      assert.deepEqual(await huge.tensor.nonFinite(), counts, what);
      assert.deepEqual(await huge.table.nonFinite(), counts, what);
    }
  });
}

test("sums never store Infinity: what would be one is refused and counted, dense, by rows and in a table", async () => {
  await using cluster = await EmbeddedCluster.start();
  const tensor = await cluster.session.tensor("w", { shape: [3, 1], optimizer: { type: "sum" } });
  const table = await cluster.session.embedding("t", { dim: 1, optimizer: "sum", init: { type: "constant", value: 2e38 } });
  await tensor.push(Float32Array.of(1, 2e38, 1));
  await assert.rejects(tensor.push(Float32Array.of(1, 2e38, 1)), isNotFinite);
  await assert.rejects(tensor.pushRows([0, 1], Float32Array.of(1, 2e38)), isNotFinite);
  await assert.rejects(tensor.pushRows([0, 0], Float32Array.of(3e38, 3e38)), isNotFinite, "their sum is none before it is sent");
  await assert.rejects(table.push([5], Float32Array.of(2e38)), isNotFinite);
  assert.deepEqual([...(await tensor.pull())], [1, f(2e38), 1]);
  assert.equal((await tensor.nonFinite()).refusedPushes, 3);
  assert.equal((await table.nonFinite()).refusedPushes, 1);
  await tensor.push(Float32Array.of(1, -2e38, 1));
  assert.deepEqual([...(await tensor.pull())], [2, 0, 2], "and it goes on");
});

test("a clock whose step would overflow is left out and counted: nobody is there to be told", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  for (const [type, refusedPushes] of [
    ["sum", 1],
    ["adagrad", 2],
  ] as const) {
    const options = { optimizer: { type }, consistency: "bsp" } as const;
    const handles = await Promise.all(
      cluster.sessions.map(async (session) => ({
        tensor: await session.tensor(type, { shape: [1], ...options }),
        table: await session.embedding(`${type} rows`, { dim: 1, ...options }),
      })),
    );
    for (const value of [1, 1e38, 1e38, 1]) {
      for (const { tensor, table } of handles) {
        await tensor.push(Float32Array.of(value));
        await table.push([3], Float32Array.of(value));
      }
      for (const session of cluster.sessions) session.clock();
    }
    const { tensor, table } = handles[0]!;
    const [dense, row] = [(await tensor.pull())[0]!, (await table.pull([3]))[0]!];
    assert.ok(Number.isFinite(dense) && dense !== 0 && dense === row, `${dense}, ${row}`);
    if (type === "sum") assert.equal(dense, f(2e38));
    assert.equal((await tensor.nonFinite()).refusedPushes, refusedPushes);
    assert.equal((await table.nonFinite()).refusedPushes, refusedPushes);
  }
});

test("values that begin large are refused what a decay makes of them: start() as an initializer", async () => {
  await using cluster = await EmbeddedCluster.start();
  for (const type of ["adam", "rmsprop", "adagrad", "dcAsgd"] as const) {
    const tensor = await cluster.session.tensor(type, { shape: [1], optimizer: { type, weightDecay: 0.5 } });
    await tensor.start(Float32Array.of(1e38));
    await assert.rejects(tensor.push(Float32Array.of(10)), isNotFinite, type);
    assert.deepEqual([...(await tensor.pull())], [f(1e38)], type);
    assert.equal((await tensor.nonFinite()).refusedPushes, 1, type);
  }
});

test("DC-ASGD whose compensation grows from push to push, with gradients of 10 and no pull, ends in NOT_FINITE and not in NaN", async () => {
  await using cluster = await EmbeddedCluster.start();
  const optimizer: OptimizerSpec = { type: "dcAsgd", learningRate: 1 };
  const tensor = await cluster.session.tensor("w", { shape: [1], optimizer });
  const table = await cluster.session.embedding("t", { dim: 1, optimizer });
  for (const push of [() => tensor.push(Float32Array.of(10)), () => table.push([3], Float32Array.of(10))]) {
    const outcomes = await Promise.allSettled(Array.from({ length: 60 }, push));
    const refused = outcomes.filter((outcome) => outcome.status === "rejected");
    assert.ok(refused.length > 0 && refused.every(({ reason }) => isNotFinite(reason)));
  }
  for (const value of [...(await tensor.pull()), ...(await table.pull([3]))]) assert.ok(Number.isFinite(value), `${value}`);
  assert.ok((await tensor.nonFinite()).refusedPushes > 0 && (await table.nonFinite()).refusedPushes > 0);
});

test("FTRL with a beta of 0 does not divide by the root of a square that is 0 in float32", async () => {
  await using cluster = await EmbeddedCluster.start();
  const tensor = await cluster.session.tensor("w", { shape: [1], optimizer: { type: "ftrl", beta: 0 } });
  await assert.rejects(tensor.push(Float32Array.of(1e-30)), isNotFinite);
  await tensor.push(Float32Array.of(1));
  const [value] = await tensor.pull();
  assert.ok(Math.abs((value as number) + 0.1) < 1e-6, `${value}`);
});
