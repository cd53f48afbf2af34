// A script in MindSpore's words, the same in every role: MS_ROLE decides what the process is.

import {
  ArrayDataset,
  dense,
  initTraining,
  LossMonitor,
  Model,
  Sequential,
  SoftmaxCrossEntropy,
  setParamPs,
  setPsContext,
  Workspace,
} from "weighbridge/training";

setPsContext({ enablePs: true });
const session = await initTraining();
console.log(`a worker of ${session?.workerCount}`);
const workspace = new Workspace();
const network = new Sequential(workspace, { inputShape: [2], sampleCountMax: 4, layers: [dense({ outputs: 2 })] });
setParamPs(network);
const loss = new SoftmaxCrossEntropy(workspace, { classCount: 2, sampleCountMax: 4 });
const model = new Model(network, { loss, optimizer: { type: "sgd", learningRate: 0.1 } });
const floats = Float32Array.of(1, 0, 0, 1, 1, 0, 0, 1);
const dataset = new ArrayDataset({ labels: [0, 1, 0, 1], values: { shape: [2], floats } });
await model.train(2, dataset, { session, batchSize: 4, callbacks: [new LossMonitor()] });
if (process.argv.includes("--throw")) throw new Error("this worker is lost");
await session?.close();
