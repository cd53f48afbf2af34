// 15-multi-device-net — several devices of one process train a net together: node main.ts [devices] [rounds]

import { argv } from "node:process";
import { createSharedModel } from "weighbridge/shared-model";
import { readMnist } from "weighbridge/training";
import { DeviceNet, rowsOf, trainBatches } from "./net.ts";

const deviceCount = Number(argv[2] ?? 4);
const rounds = Number(argv[3] ?? 20);
const devices = Array.from({ length: deviceCount }, (_, device) => device);
const [train, test] = [readMnist("train"), readMnist("test")];
const model = createSharedModel("local");
await model.init(devices);
const nets = await Promise.all(devices.map((device) => DeviceNet.open(model, device, rowsOf(deviceCount))));
for (let round = 0; round < rounds; round++) {
  await trainBatches(nets, train, train.count / 100);
  console.log(`round ${round}: test-err=${((await nets[0]!.errors(test)) / test.count).toFixed(4)}`);
}
await model.close();
