// learning-rates — what BSP, SSP and ASP make of one learning rate: LeNet-5 on digits of MNIST, batches of 64, one
// epoch, every weight on two servers, all in one process.
//
//   node bench/learning-rates.ts [--workers n] [--samples n] [--optimizer sgd|momentum|adam] [--rates a,b,c]
//
// Test accuracy in percent after the epoch, by optimizer and rate. Workers in one process take turns: a gradient is
// about as many pushes old as there are other workers. It says nothing about speed.

import { parseArgs } from "node:util";
import { ImageDataset } from "../src/faces/training/dataset.ts";
import { Accuracy } from "../src/faces/training/metrics.ts";
import { Model } from "../src/faces/training/model.ts";
import { setParamPs } from "../src/faces/training/network.ts";
import { SoftmaxCrossEntropy } from "../src/nn/losses/softmax-cross-entropy.ts";
import { createLenet, LENET_CLASSES } from "../src/nn/models/lenet.ts";
import { Workspace } from "../src/nn/workspace.ts";
import { readMnist } from "../src/node/datasets/mnist.ts";
import { EmbeddedCluster } from "../src/node/embedded-cluster.ts";
import type { Consistency } from "../src/store/consistency.ts";
import type { OptimizerSpec } from "../src/store/updaters/optimizer-spec.ts";

const [BATCH, TEST_SAMPLES] = [64, 2000];
const RATES: Readonly<Record<string, readonly number[]>> = {
  sgd: [0.05, 0.1, 0.2, 0.4],
  momentum: [0.0125, 0.025, 0.05, 0.1],
  adam: [0.0005, 0.001, 0.002, 0.004, 0.008],
};
const WAYS: readonly Consistency[] = ["bsp", { ssp: 4 }, "asp"];
const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "4" },
    samples: { type: "string", default: "6400" },
    optimizer: { type: "string" },
    rates: { type: "string" },
  },
});
const workers = Number(values.workers);
const training = new ImageDataset(readMnist("train"), { sampleCount: Number(values.samples) });
const testing = new ImageDataset(readMnist("test"), { sampleCount: TEST_SAMPLES });

async function accuracyOf(optimizer: OptimizerSpec, consistency: Consistency): Promise<string> {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers });
  const accuracies = await Promise.all(
    cluster.sessions.map(async (session) => {
      const workspace = new Workspace();
      const sampleCountMax = Math.ceil(BATCH / workers);
      const network = createLenet(workspace, { sampleCountMax });
      setParamPs(network);
      const loss = new SoftmaxCrossEntropy(workspace, { classCount: LENET_CLASSES, sampleCountMax });
      await using model = new Model(network, { loss, optimizer, metrics: { accuracy: new Accuracy() } });
      await model.train(1, training, { session, batchSize: BATCH, consistency });
      return session.rank === 0 ? (await model.eval(testing)).accuracy! : 0;
    }),
  );
  return (100 * accuracies[0]!).toFixed(1);
}

console.log(`LeNet-5, ${values.samples} digits, ${workers} workers, test accuracy in %\n\noptimizer  rate      bsp    ssp:4  asp`);
for (const type of values.optimizer === undefined ? Object.keys(RATES) : [values.optimizer]) {
  for (const learningRate of values.rates?.split(",").map(Number) ?? RATES[type] ?? []) {
    const optimizer = { type, learningRate } as OptimizerSpec;
    const cells: string[] = [];
    for (const consistency of WAYS) cells.push((await accuracyOf(optimizer, consistency)).padEnd(5));
    console.log(`${type.padEnd(9)}  ${String(learningRate).padEnd(8)}  ${cells.join("  ")}`);
  }
}
