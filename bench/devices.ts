// devices — how much faster one process makes steps with two threads (devices) than with one: LeNet-5 with batches of
// 64 of random digits, and a multi-layer perceptron of 1.3 million weights, without servers. The two take turns.
//
//   node bench/devices.ts [--devices n] [--rounds n] [--steps n]
//
// Steps a second, without the start of the threads: medians, and in brackets the least and greatest. Needs as many idle
// cores as devices.

import { parseArgs } from "node:util";
import { ArrayDataset, createLenet, dense, Model, type Network, Sequential, SoftmaxCrossEntropy, Workspace } from "../src/node/training.ts";
import { median } from "./statistics.ts";

const BATCH = 64;
const CLASSES = 10;
const { values } = parseArgs({
  options: {
    devices: { type: "string", default: "2" },
    rounds: { type: "string", default: "5" },
    steps: { type: "string", default: "300" },
  },
});
const stepCount = Number(values.steps);

const NETWORKS: Readonly<Record<string, (workspace: Workspace) => Network>> = {
  "LeNet-5": (workspace) => createLenet(workspace, { sampleCountMax: BATCH }),
  "MLP 784-1000-500-10": (workspace) =>
    new Sequential(workspace, {
      inputShape: [1, 28, 28],
      sampleCountMax: BATCH,
      layers: [dense({ outputs: 1000, activation: "relu" }), dense({ outputs: 500, activation: "relu" }), dense({ outputs: CLASSES })],
    }),
};

const sampleCount = stepCount * BATCH;
const floats = Float32Array.from({ length: sampleCount * 784 }, (_, i) => ((i * 2_654_435_761) % 256) / 256);
const labels = Uint8Array.from({ length: sampleCount }, (_, i) => (i * 7) % CLASSES);
const dataset = new ArrayDataset({ labels, values: { shape: [1, 28, 28], floats } });

/** The second epoch counts: code is compiled then. */
async function stepsPerSec(name: string, devices: number): Promise<number> {
  const workspace = new Workspace();
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  const optimizer = { type: "momentum", learningRate: 0.01, momentum: 0.9 } as const;
  const model = new Model(NETWORKS[name]!(workspace), { loss, optimizer });
  let seconds = 0;
  const epochEnd = (event: { readonly seconds: number }): void => {
    seconds = event.seconds;
  };
  await model.train(2, dataset, { batchSize: BATCH, devices, callbacks: [{ epochEnd }] });
  await model.close();
  return stepCount / seconds;
}

console.log(`batches of ${BATCH}, ${stepCount} steps, median of ${values.rounds} [least, greatest]\n`);
console.log("network              devices  steps/s                  times");
for (const name of Object.keys(NETWORKS)) {
  const counts = [1, Number(values.devices)];
  const measured = counts.map((): number[] => []);
  for (let round = 0; round < Number(values.rounds); round++)
    for (const [i, count] of counts.entries()) measured[i]!.push(await stepsPerSec(name, count));
  for (const [i, all] of measured.entries()) {
    const speed = `${median(all).toFixed(1)} [${Math.min(...all).toFixed(1)}, ${Math.max(...all).toFixed(1)}]`;
    const times = (median(all) / median(measured[0]!)).toFixed(2);
    console.log(`${name.padEnd(21)}${String(counts[i]).padStart(7)}  ${speed.padEnd(25)}${times}`);
  }
}
