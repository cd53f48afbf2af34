// elastic-lenet — a worker that trains LeNet-5 on some digits of MNIST, with all weights on the servers. It prints every
// step, and at the end the accuracy on the digits of the test.

import { connect } from "weighbridge";
import { Accuracy, createLenet, ImageDataset, Model, readMnist, SoftmaxCrossEntropy, setParamPs, Workspace } from "weighbridge/training";

const [BATCH, SAMPLES, EPOCHS] = [100, 6000, 2];
const training = new ImageDataset(readMnist("train"), { sampleCount: SAMPLES }); // before it connects: the others wait for its first clock
const test = new ImageDataset(readMnist("test"));
const workspace = new Workspace();
const network = createLenet(workspace, { sampleCountMax: BATCH });
const loss = new SoftmaxCrossEntropy(workspace, { classCount: 10, sampleCountMax: BATCH });
setParamPs(network);
const optimizer = { type: "momentum", learningRate: 0.02, momentum: 0.9 } as const;
const model = new Model(network, { loss, optimizer, metrics: { accuracy: new Accuracy() } });

const session = await connect();
console.log(`worker ${session.rank} of the job`);
const { retryCount } = await model.train(EPOCHS, training, {
  session,
  batchSize: BATCH,
  callbacks: [{ stepEnd: ({ epoch, globalStep }) => console.log(`epoch ${epoch} step ${globalStep}`) }],
});
const { accuracy = 0 } = await model.eval(test);
console.log(`accuracy ${(100 * accuracy).toFixed(2)} after ${retryCount} retries`);
await session.close({ barrier: false });
