// ps-parameters — Goal: a jax-js program trained on the servers ends where the same program in one process does; arrays
// are given away and returned as jax-js does it; and what makes no sense is refused.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import * as jax from "@jax-js/jax";
import type { Session } from "../../api/session.ts";
import { Random } from "../../base/random.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { failureOf } from "../../testing/failure-of.ts";
import { assertClose } from "../../testing/numeric-gradients.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { PsParameters } from "./ps-parameters.ts";

const { numpy: np, tree, grad } = jax;
const STEPS = 20;
const BATCH = 16;
const RATE = 0.3;

type Weights = { readonly layers: { readonly kernel: jax.Array; readonly bias: jax.Array }[]; readonly scale: jax.Array };

before(async () => {
  await jax.init("wasm");
  jax.defaultDevice("wasm");
});

/** The same weights every time. */
function drawn(): Weights {
  const random = new Random(5);
  const draw = (...shape: number[]) =>
    np.array(
      Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random.fraction() - 0.5),
      { shape },
    );
  return {
    layers: [
      { kernel: draw(3, 8), bias: draw(8) },
      { kernel: draw(8, 1), bias: draw(1) },
    ],
    scale: draw(),
  };
}

function loss({ layers: [first, second], scale }: Weights, x: jax.Array, y: jax.Array): jax.Array {
  assert.ok(first !== undefined && second !== undefined);
  const hidden = np.tanh(np.dot(x, first.kernel).add(first.bias));
  const error = np.dot(hidden, second.kernel).add(second.bias).mul(scale).sub(y);
  return error.ref.mul(error).mean();
}

/** Batch number `step`: rows [from, to) of it. */
function batch(step: number, from = 0, to = BATCH): [jax.Array, jax.Array] {
  const random = new Random(1000 + step);
  const x = Array.from({ length: BATCH }, () => [random.fraction(), random.fraction(), random.fraction()] as const).slice(from, to);
  const y = x.map(([a, b, c]) => Math.sin(3 * a) + b * c);
  return [np.array(Float32Array.from(x.flat()), { shape: [to - from, 3] }), np.array(Float32Array.from(y), { shape: [to - from, 1] })];
}

async function valuesOf(weights: Weights): Promise<number[]> {
  const arrays = await Promise.all(tree.leaves<jax.Array>(weights as unknown as jax.JsTree<jax.Array>).map((array) => array.data()));
  return arrays.flatMap((values) => [...values]);
}

/** Plain gradient descent in this process. */
async function trainedAlone(): Promise<number[]> {
  let weights = drawn();
  for (let step = 0; step < STEPS; step++) {
    const gradients = grad(loss)(tree.ref(weights), ...batch(step));
    weights = tree.map((w: jax.Array, g: jax.Array) => w.sub(g.mul(RATE)), weights as never, gradients as never) as unknown as Weights;
  }
  return await valuesOf(weights);
}

const half = (step: number, rank: number) => batch(step, (rank * BATCH) / 2, ((rank + 1) * BATCH) / 2);

test("two BSP workers on halves of each batch have the weights of one process on whole batches, within 1e-6 after 20 steps", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const trained = await Promise.all(
    cluster.sessions.map(async (session, rank) => {
      const parameters = await PsParameters.create(jax, session, drawn(), { optimizer: { type: "sgd", learningRate: RATE } });
      let weights = await parameters.pull();
      for (let step = 0; step < STEPS; step++) weights = await parameters.step(grad(loss)(weights, ...half(step, rank)));
      return await valuesOf(weights);
    }),
  );
  const expected = await trainedAlone();
  for (const values of trained) assertClose(values, expected, 1e-6);
  assert.deepEqual(trained[0], trained[1], "both workers have the same bits");
});

test("two ASP workers that meet after each step have the weights of one process on whole batches, within 1e-6 after 20 steps", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const trained = await Promise.all(
    cluster.sessions.map(async (session, rank) => {
      // Each applies the gradient of its half at half the rate: together that of the whole.
      const optimizer = { type: "sgd", learningRate: RATE / 2 } as const;
      const parameters = await PsParameters.create(jax, session, drawn(), { optimizer, consistency: "asp" });
      let weights = await parameters.pull();
      for (let step = 0; step < STEPS; step++) {
        await parameters.push(grad(loss)(weights, ...half(step, rank)));
        await session.barrier();
        weights = await parameters.pull();
        await session.barrier(); // nobody pushes before everybody has seen
      }
      return await valuesOf(weights);
    }),
  );
  const expected = await trainedAlone();
  for (const values of trained) assertClose(values, expected, 1e-6);
});

const SGD = { optimizer: { type: "sgd", learningRate: 1 } } as const;
const vector = (...values: number[]) => np.array(Float32Array.from(values), { shape: [values.length] });

test("the first worker's arrays are those of all; a late one takes over what was learned", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions as [Session, Session];
  const first = await PsParameters.create(jax, one, { w: vector(1, 2) }, { ...SGD, consistency: "asp" });
  (await first.step({ w: vector(1, 1) })).w.dispose();
  const second = await PsParameters.create(jax, two, { w: vector(7, 8) }, { ...SGD, consistency: "asp" });
  assert.deepEqual([...(await (await second.pull()).w.data())], [0, 1]);
});

test("trees that are given are given away, those returned have one reference, and a refused one stays the caller's (PsParameters.P1, PsParameters.P2)", async () => {
  await using cluster = await EmbeddedCluster.start();
  const given = vector(1, 2);
  const parameters = await PsParameters.create(jax, cluster.session, [given], SGD);
  assert.equal(given.refCount, 0);
  const [pulled] = await parameters.pull();
  assert.equal(pulled?.refCount, 1);
  const gradient = vector(1, 1);
  const [next] = await parameters.step([gradient]);
  assert.deepEqual([gradient.refCount, next?.refCount], [0, 1]);
  const refused = vector(1, 1, 1);
  await assert.rejects(parameters.step([refused]), throwsCode("BAD_ARGUMENT"));
  assert.equal(refused.refCount, 1);
  for (const array of [pulled, next, refused]) array?.dispose();
});

test("a push without a step leaves the clock to the caller, and endsClock: false does so for steps", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const parameters = await PsParameters.create(jax, session, vector(0), { ...SGD, endsClock: false });
  assert.deepEqual(parameters.names, ["value"]);
  await parameters.push(vector(1));
  assert.deepEqual([...(await (await parameters.step(vector(1))).data())], [0], "BSP: nothing counts before the clock ends");
  session.clock();
  assert.deepEqual([...(await (await parameters.pull()).data())], [-2]);
});

test("a NaN in one gradient refuses the whole step; the next one counts", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const parameters = await PsParameters.create(jax, session, { a: vector(0), b: vector(0) }, { ...SGD, consistency: "asp" });
  await assert.rejects(parameters.step({ a: vector(1), b: vector(Number.NaN) }), throwsCode("NOT_FINITE"));
  assert.equal(session.clocks, 0);
  const { a, b } = await parameters.step({ b: vector(2), a: vector(1) });
  assert.deepEqual([...(await a.data()), ...(await b.data())], [-1, -2]);
});

test("a NaN is left to the servers when the optimizer skips or zeroes it", async () => {
  await using cluster = await EmbeddedCluster.start();
  const optimizer = { type: "sgd", learningRate: 1, nonFinite: "zero" } as const;
  const parameters = await PsParameters.create(jax, cluster.session, vector(0, 0), { optimizer });
  assert.deepEqual([...(await (await parameters.step(vector(Number.NaN, 1))).data())], [0, -1]);
});

test("options and trees that make no sense are refused, by name", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const created = (value: unknown, options: object = SGD) => PsParameters.create(jax, session, value, options as typeof SGD);
  await assert.rejects(created({ a: 3 }), /a is no array of jax-js/);
  await assert.rejects(created({}), /there are no weights/);
  await assert.rejects(created(vector(1), { ...SGD, consistancy: "bsp" }), /no "consistancy"/);
  await assert.rejects(created(vector(1), {}), throwsCode("BAD_ARGUMENT"));
  await assert.rejects(created(np.array([1, 2], { dtype: np.int32 })), throwsCode("UNSUPPORTED"));
  const parameters = await created({ a: vector(1), b: vector(1, 2) });
  await assert.rejects(created({ a: vector(1, 2), b: vector(1, 2) }), throwsCode("SPEC_MISMATCH"));
  await assert.rejects(parameters.step({ a: vector(1) }), /the gradients are those of a; the parameters are a, b/);
  await assert.rejects(parameters.step({ a: vector(1), b: vector(1), c: vector(1) }), throwsCode("BAD_ARGUMENT"));
  await assert.rejects(parameters.step({ a: vector(1), b: vector(1) }), /b is \[2\], and its gradient \[1\]/);
});

test("two models of one job are kept apart by their prefixes", async () => {
  await using cluster = await EmbeddedCluster.start();
  const one = await PsParameters.create(jax, cluster.session, vector(1), { ...SGD, prefix: "one/" });
  const two = await PsParameters.create(jax, cluster.session, vector(2), { ...SGD, prefix: "two/" });
  assert.deepEqual([...(await (await one.pull()).data()), ...(await (await two.pull()).data())], [1, 2]);
});

test("a step that fails says what became of it; one that sends nothing leaves its tree to the caller (PsParameters.P1)", async () => {
  await using cluster = await EmbeddedCluster.start();
  const created = await PsParameters.create(jax, cluster.session, { w: np.array([1, 2]) }, { optimizer: "sgd" });
  const gradients = { w: np.array([1, 1]) };
  const refused: readonly (readonly [{ w: jax.Array }, object])[] = [
    [gradients, { signal: AbortSignal.abort() }],
    [gradients, { timeoutMs: -1 }],
    [{ v: gradients.w } as never, {}],
  ];
  for (const [tree, wait] of refused)
    for (const call of [() => created.step(tree, wait), () => created.push(tree, wait)]) {
      const { outcome, retryable } = await failureOf(call());
      assert.deepEqual([outcome, retryable], ["not-applied", false]);
    }
  assert.equal(cluster.session.clocks, 0);
  assert.deepEqual(await (await created.step(gradients)).w.data(), Float32Array.of(0.99, 1.99));
});
