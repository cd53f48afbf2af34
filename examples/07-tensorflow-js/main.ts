// 07-tensorflow-js — a model of TensorFlow.js, compiled and fitted as always; its weights live on the parameter
// servers, and every worker fits its own share of the digits.

import "@tensorflow/tfjs-backend-cpu";
import * as tf from "@tensorflow/tfjs-core";
import { layers, sequential } from "@tensorflow/tfjs-layers";
import { connect } from "weighbridge";
import { psOptimizer } from "weighbridge/tfjs";
import { readDigits } from "./digits.ts";

const TRAIN_COUNT = Number(process.argv[2] ?? 8_000);
const TEST_COUNT = 1000;

const session = await connect();
const { rank, workerCount } = session;

const model = sequential({
  layers: [layers.dense({ units: 32, inputShape: [784], activation: "relu" }), layers.dense({ units: 10, activation: "softmax" })],
});

// From here on the weights are the servers': those of the first worker that came, and Adam runs there.
const optimizer = await psOptimizer(tf, session, {
  variables: model.trainableWeights,
  optimizer: { type: "adam", learningRate: 0.003 },
});
model.compile({ optimizer, loss: "categoricalCrossentropy", metrics: ["accuracy"] });

const share = Math.floor(TRAIN_COUNT / workerCount);
const { images, labels } = await readDigits("train", rank * share, (rank + 1) * share);
const { history } = await model.fit(images, labels, {
  batchSize: 50,
  epochs: 2,
  verbose: 0,
  callbacks: optimizer.callbacks, // after every batch: wait for the weights that all workers' gradients made
});
console.log(`worker ${rank}: ${share} digits, loss ${history.loss?.map((loss) => Number(loss).toFixed(3)).join(" → ")}`);

if (rank === 0) {
  const test = await readDigits("t10k", 0, TEST_COUNT);
  const [, accuracy] = model.evaluate(test.images, test.labels) as tf.Scalar[];
  console.log(`accuracy ${accuracy?.dataSync()[0]?.toFixed(3)} on ${TEST_COUNT} digits that nobody trained on`);
}
await session.close();
