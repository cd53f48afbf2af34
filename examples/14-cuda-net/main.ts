// 14-cuda-net — several logical devices of one card train a net together: node main.ts [devices] [rounds]

import { argv } from "node:process";
import { createSharedModel, isWeighbridgeError, openCuda } from "weighbridge/shared-model";
import { readMnist } from "weighbridge/training";
import { DeviceNet, rowsOf, trainBatches } from "./net.ts";

const deviceCount = Number(argv[2] ?? 4);
const rounds = Number(argv[3] ?? 20);

try {
  const cuda = await openCuda({ devicesPerCard: deviceCount });
  const devices = Array.from({ length: deviceCount }, (_, device) => device);
  const [train, test] = [readMnist("train"), readMnist("test")];
  const model = createSharedModel("local", { device: "cuda", cuda });
  await model.init(devices);
  const nets = await Promise.all(devices.map((device) => DeviceNet.open(cuda, model, device, train, rowsOf(deviceCount))));
  const tester = await DeviceNet.open(cuda, model, 0, test, test.count);
  for (let round = 0; round < rounds; round++) {
    const fromMs = performance.now();
    await trainBatches(nets, train.count / 100, train.count);
    await tester.setWeights(await nets[0]!.weights());
    const error = (await tester.errors(test.count)) / test.count;
    console.log(`round ${round}: test-err=${error.toFixed(4)}, ${((performance.now() - fromMs) / 1000).toFixed(1)} s`);
  }
  await model.close();
  cuda.close();
} catch (error) {
  if (!isWeighbridgeError(error, "NO_DEVICE")) throw error;
  console.log(error.message);
}
