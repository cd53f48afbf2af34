// ps-optimizer — Goal: a model of TensorFlow.js trained on the servers ends where the same model trained in one process
// does, and whoever uses the optimizer wrongly, or meets a failure, is told and can go on.

import assert from "node:assert/strict";
import { test } from "node:test";
import "@tensorflow/tfjs-backend-cpu";
import * as tf from "@tensorflow/tfjs-core";
import * as layers from "@tensorflow/tfjs-layers";
import type { Session } from "../../api/session.ts";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { failureOf } from "../../testing/failure-of.ts";
import { assertClose } from "../../testing/numeric-gradients.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { GroupOptions } from "../parameter-group.ts";
import { type PsOptimizer, psOptimizer } from "./ps-optimizer.ts";

const STEPS = 20;
const BATCH = 16;

/** A small network of two layers, with the same weights every time it is made. */
class Network {
  readonly variables: tf.Variable[];

  constructor() {
    const random = new Random(5);
    const draw = (...shape: number[]) =>
      tf.variable(
        tf.tensor(
          Array.from({ length: shape.reduce((a, b) => a * b) }, () => random.fraction() - 0.5),
          shape,
        ),
      );
    this.variables = [draw(3, 8), draw(8), draw(8, 1), draw(1)];
  }

  loss(x: tf.Tensor2D, y: tf.Tensor2D): tf.Scalar {
    const [w1, b1, w2, b2] = this.variables as [tf.Variable, tf.Variable, tf.Variable, tf.Variable];
    const hidden = tf.tanh(tf.add(tf.matMul(x, w1 as unknown as tf.Tensor2D), b1));
    return tf.mean(tf.square(tf.sub(tf.add(tf.matMul(hidden as tf.Tensor2D, w2 as unknown as tf.Tensor2D), b2), y)));
  }

  values(): number[] {
    return this.variables.flatMap((variable) => [...variable.dataSync()]);
  }
}

/** Batch number `step`: rows [from, to) of it. */
function batch(step: number, from = 0, to = BATCH): [tf.Tensor2D, tf.Tensor2D] {
  const random = new Random(1000 + step);
  const x = Array.from({ length: BATCH }, () => [random.fraction(), random.fraction(), random.fraction()] as const);
  const y = x.map(([a, b, c]) => [Math.sin(3 * a) + b * c]);
  return [tf.tensor2d(x.slice(from, to) as unknown as number[][]), tf.tensor2d(y.slice(from, to))];
}

function trainedAlone(optimizer: tf.Optimizer): number[] {
  const network = new Network();
  for (let step = 0; step < STEPS; step++) {
    const [x, y] = batch(step);
    optimizer.minimize(() => network.loss(x, y), false, network.variables);
  }
  return network.values();
}

const opened = (session: Session, network: Network, options: GroupOptions) =>
  psOptimizer(tf, session, { variables: network.variables, nameOf: (_, index) => `layer/${index}`, ...options });

test("two BSP workers on halves of each batch have the weights of one process on whole batches, within 1e-6 after 20 steps", async () => {
  const optimizers = [
    [{ type: "sgd", learningRate: 0.3 }, tf.train.sgd(0.3)],
    [{ type: "momentum", learningRate: 0.05, momentum: 0.9 }, tf.train.momentum(0.05, 0.9)],
  ] as const;
  for (const [optimizer, alone] of optimizers) {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
    const trained = await Promise.all(
      cluster.sessions.map(async (session, rank) => {
        const network = new Network();
        const ps = await opened(session, network, { optimizer });
        for (let step = 0; step < STEPS; step++) {
          const [x, y] = batch(step, (rank * BATCH) / 2, ((rank + 1) * BATCH) / 2);
          ps.minimize(() => network.loss(x, y), false, network.variables);
          await ps.ready();
        }
        return network.values();
      }),
    );
    const expected = trainedAlone(alone);
    for (const values of trained) assertClose(values, expected, 1e-6);
    assert.deepEqual(trained[0], trained[1], "both workers have the same bits");
  }
});

test("two ASP workers that meet after each step have the weights of one process on whole batches, within 1e-6 after 20 steps", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const trained = await Promise.all(
    cluster.sessions.map(async (session, rank) => {
      const network = new Network();
      // Each applies the gradient of its half at half the rate: together that of the whole.
      const ps = await opened(session, network, { optimizer: { type: "sgd", learningRate: 0.15 }, consistency: "asp" });
      for (let step = 0; step < STEPS; step++) {
        const [x, y] = batch(step, (rank * BATCH) / 2, ((rank + 1) * BATCH) / 2);
        await ps.step(() => network.loss(x, y));
        await session.barrier();
        await ps.pull();
        await session.barrier(); // nobody pushes before everybody has seen
      }
      return network.values();
    }),
  );
  const expected = trainedAlone(tf.train.sgd(0.3));
  for (const values of trained) assertClose(values, expected, 1e-6);
});

test("fit() of a compiled model waits for the weights after each batch, and trains as in one process, within 1e-6", async () => {
  const made = () => {
    const kernelInitializer = "ones";
    const model = layers.sequential({
      layers: [
        layers.layers.dense({ units: 4, inputShape: [3], activation: "tanh", kernelInitializer }),
        layers.layers.dense({ units: 1, kernelInitializer }),
      ],
    });
    return model;
  };
  const [x, y] = batch(0);
  const fit = { batchSize: 4, epochs: 3, shuffle: false, verbose: 0 } as const;
  const alone = made();
  alone.compile({ optimizer: tf.train.sgd(0.1), loss: "meanSquaredError" });
  const expected = await alone.fit(x, y, fit);
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const model = made();
  const optimizer = await psOptimizer(tf, cluster.session, {
    variables: model.trainableWeights,
    optimizer: { type: "sgd", learningRate: 0.1 },
  });
  model.compile({ optimizer, loss: "meanSquaredError" });
  const history = await model.fit(x, y, { ...fit, callbacks: optimizer.callbacks });
  assertClose(history.history.loss as number[], expected.history.loss as number[], 1e-6);
  assert.equal(cluster.session.clocks, 12);
  assert.equal(optimizer.iterations, 12);
  // Without the callbacks.
  await assert.rejects(model.fit(x, y, { ...fit, yieldEvery: "never" }), throwsCode("BAD_ARGUMENT"));
  await optimizer.ready();
  let savedCount = 0;
  const handler = tf.io.withSaveHandler(() => {
    savedCount++;
    return Promise.resolve({ modelArtifactsInfo: { dateSaved: new Date(0), modelTopologyType: "JSON" } });
  });
  await assert.rejects(model.save(handler, { includeOptimizer: true }), throwsCode("UNSUPPORTED"));
  await model.save(handler);
  assert.equal(savedCount, 1);
});

test("fit() takes the optimizer's callback in one list with those of TensorFlow.js, such as earlyStopping", async () => {
  const model = layers.sequential({ layers: [layers.layers.dense({ units: 1, inputShape: [3], kernelInitializer: "ones" })] });
  const [x, y] = batch(0);
  await using cluster = await EmbeddedCluster.start();
  const optimizer = await psOptimizer({ ...tf, Callback: layers.Callback }, cluster.session, {
    variables: model.trainableWeights,
    optimizer: { type: "sgd", learningRate: 0 }, // nothing improves
  });
  model.compile({ optimizer, loss: "meanSquaredError" });
  const fit = { batchSize: 4, epochs: 9, shuffle: false, verbose: 0 } as const;
  const stops = (): layers.EarlyStopping => layers.callbacks.earlyStopping({ monitor: "loss", patience: 1 });
  for (const list of [
    [optimizer.callbacks, stops()],
    [stops(), optimizer.callbacks],
  ]) {
    const { epoch } = await model.fit(x, y, { ...fit, callbacks: list });
    assert.deepEqual(epoch, [0, 1], "it stops when nothing has improved");
  }
  assert.equal(cluster.session.clocks, 16, "every batch was a step");
  await model.fit(x, y, { ...fit, epochs: 1, callbacks: optimizer.callbacks });
  assert.equal(cluster.session.clocks, 20);
});

/** One worker, one variable [2] that begins with 1, 2. */
async function single(use: (ps: tf.Optimizer & PsOptimizer, w: tf.Variable<tf.Rank.R1>, session: Session) => Promise<void>): Promise<void> {
  await using cluster = await EmbeddedCluster.start();
  const w = tf.variable(tf.tensor1d([1, 2]));
  const optimizer = { type: "sgd", learningRate: 0.5 } as const;
  await use(await psOptimizer(tf, cluster.session, { variables: [w], nameOf: () => "w", optimizer }), w, cluster.session);
  w.dispose();
}

test("the first worker's weights are those of all, and of one who comes later or starts anew", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const options = { nameOf: () => "w", optimizer: { type: "sgd", learningRate: 1 }, consistency: "asp" } as const;
  const [one, two] = [tf.variable(tf.tensor1d([1, 2])), tf.variable(tf.tensor1d([7, 8]))];
  const first = await psOptimizer(tf, cluster.sessions[0] as Session, { variables: [one], ...options });
  await first.step(() => tf.sum(one));
  await psOptimizer(tf, cluster.sessions[1] as Session, { variables: [two], ...options });
  assert.deepEqual([...two.dataSync()], [0, 1]);
});

test("a step keeps variables as they were until ready, and nothing of TensorFlow.js's memory after it", async () => {
  await single(async (ps, w) => {
    assert.equal(await ps.step(() => tf.sum(tf.square(w))), 5); // makes what is made once
    const { numTensors } = tf.memory();
    for (let i = 0; i < 5; i++) {
      const before = [...w.dataSync()];
      if (i % 2 === 0) ps.minimize(() => tf.sum(tf.mul(w, w)));
      else tf.tidy(() => void ps.minimize(() => tf.sum(tf.mul(w, w)))); // as fit() does
      assert.deepEqual([...w.dataSync()], before);
      assert.throws(() => ps.minimize(() => tf.sum(w)), throwsCode("BAD_ARGUMENT"));
      await ps.ready();
      await ps.ready();
      assert.deepEqual(
        [...w.dataSync()],
        before.map((value) => value - 0.5 * 2 * value),
      );
    }
    assert.equal(tf.memory().numTensors, numTensors);
  });
});

test("a NaN in a gradient fails its step, changes nothing, is said again until pull(), and training goes on after it", async () => {
  await single(async (ps, w, session) => {
    ps.applyGradients({ [w.name]: tf.tensor1d([1, Number.NaN]) });
    await assert.rejects(ps.ready(), throwsCode("NOT_FINITE"));
    await assert.rejects(ps.ready(), throwsCode("NOT_FINITE"));
    assert.throws(() => ps.minimize(() => tf.sum(w)), throwsCode("NOT_FINITE"));
    assert.deepEqual([session.clocks, ...w.dataSync()], [0, 1, 2]);
    await ps.pull();
    ps.applyGradients([{ name: w.name, tensor: tf.tensor1d([1, 1]) }]);
    await ps.ready();
    assert.deepEqual([session.clocks, ...w.dataSync()], [1, 0.5, 1.5]);
  });
});

test("a step whose servers go away fails, and does not hang", async () => {
  const cluster = await EmbeddedCluster.start();
  const w = tf.variable(tf.tensor1d([1, 2]));
  const ps = await psOptimizer(tf, cluster.session, { variables: [w], nameOf: () => "w", optimizer: { type: "sgd" } });
  await cluster.close();
  ps.minimize(() => tf.sum(w));
  await assert.rejects(ps.ready(), (error) => isWeighbridgeError(error));
  assert.deepEqual([...w.dataSync()], [1, 2]);
});

test("a wait for a slower worker ends at its deadline; the step goes on", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const networks = [new Network(), new Network()];
  const [fast, slow] = await Promise.all(
    cluster.sessions.map((session, rank) => opened(session, networks[rank] as Network, { optimizer: { type: "sgd" } })),
  );
  const [x, y] = batch(0);
  assert.ok(fast !== undefined && slow !== undefined);
  fast.minimize(() => (networks[0] as Network).loss(x, y), false, networks[0]?.variables);
  await assert.rejects(fast.ready({ timeoutMs: 20 }), throwsCode("DEADLINE"));
  slow.minimize(() => (networks[1] as Network).loss(x, y), false, networks[1]?.variables);
  await Promise.all([fast.ready(), slow.ready()]);
  assert.deepEqual(networks[0]?.values(), networks[1]?.values());
});

test("options, variables and gradients that make no sense are refused, by name", async () => {
  await single(async (ps, w, session) => {
    const sgd = { type: "sgd" } as const;
    const refused = async (options: object, pattern: RegExp, code: ErrorCode = "BAD_ARGUMENT") =>
      await assert.rejects(
        psOptimizer(tf, session, options as { optimizer: typeof sgd }),
        (error) => isWeighbridgeError(error, code) && pattern.test(error.message),
      );
    await refused({ optimizer: sgd, learningRate: 3 }, /no "learningRate"/);
    await refused({}, /optimizer/);
    await refused({ optimizer: sgd, variables: [] }, /no weights/);
    await refused({ optimizer: sgd, variables: [w, w] }, /two weights have the name/);
    await refused({ optimizer: sgd, variables: [{ read: () => tf.ones([2]) }] }, /tf\.Variables/);
    await refused({ optimizer: sgd, variables: [tf.variable(tf.tensor1d([1], "int32"))] }, /int32/, "UNSUPPORTED");
    await refused({ optimizer: sgd, variables: [w], nameOf: () => "w" }, /learningRate is 0.5 and 0.01/, "SPEC_MISMATCH");
    assert.throws(() => ps.applyGradients({ other: tf.tensor1d([1, 1]) }), /other is not on the servers; these weights are: /);
    ps.applyGradients({ [w.name]: tf.tensor1d([1, 1, 1]) });
    await assert.rejects(ps.ready(), throwsCode("VALUE_LENGTH"));
  });
});

test("a step() that ends at its deadline is unknown and not retryable, and settled says that it was applied; one aborted before sends nothing", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const networks = [new Network(), new Network()];
  const [fast, slow] = await Promise.all(
    cluster.sessions.map((session, rank) => opened(session, networks[rank] as Network, { optimizer: { type: "sgd" } })),
  );
  const [x, y] = batch(0);
  const loss = (rank: number) => () => (networks[rank] as Network).loss(x, y);
  assert.ok(fast !== undefined && slow !== undefined);
  const early = await failureOf(fast.step(loss(0), { signal: AbortSignal.abort() }));
  assert.deepEqual([early.code, early.outcome, cluster.sessions[0]?.clocks], ["ABORTED", "not-applied", 0]);
  const late = await failureOf(fast.step(loss(0), { timeoutMs: 20 }));
  assert.deepEqual([late.code, late.outcome, late.retryable], ["DEADLINE", "unknown", false]);
  const again = await failureOf(fast.step(loss(0)));
  assert.deepEqual([again.code, again.outcome], ["BAD_ARGUMENT", "not-applied"], "the first one is still on its way");
  await slow.step(loss(1));
  assert.equal(await late.settled, "applied");
  await fast.ready();
  assert.deepEqual(networks[0]?.values(), networks[1]?.values());
  const refused = await failureOf(fast.step(() => tf.mul(loss(0)(), Number.NaN)));
  assert.deepEqual([refused.code, refused.outcome], ["NOT_FINITE", "not-applied"]);
});
