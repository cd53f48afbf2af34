// Goal: the multi-device net of the examples learns the same with any number of devices.

import assert from "node:assert/strict";
import test from "node:test";
import { createSharedModel } from "weighbridge/shared-model";
import { DeviceNet, rowsOf, trainBatches } from "../../examples/15-multi-device-net/net.ts";
import { readMnist } from "./datasets/mnist.ts";

const train = readMnist("train");

async function trained(deviceCount: number, batchCount: number): Promise<readonly Float32Array[]> {
  const devices = Array.from({ length: deviceCount }, (_, device) => device);
  await using model = createSharedModel("local");
  await model.init(devices);
  const nets = await Promise.all(devices.map((device) => DeviceNet.open(model, device, rowsOf(deviceCount))));
  await trainBatches(nets, train, batchCount);
  await Promise.all(devices.map((device) => model.pullWaitAll(device)));
  for (const net of nets) assert.deepEqual(net.weights, nets[0]!.weights, "every device holds the same bits");
  return nets[0]!.weights;
}

test("the 784-100-10 net has the same weights within 1e-4 after 100 batches on 1, 2, 4 and 5 devices", async () => {
  const one = await trained(1, 100);
  for (const deviceCount of [2, 4, 5]) {
    const several = await trained(deviceCount, 100);
    const difference = Math.max(...several.map((weights, key) => largestDifference(weights, one[key]!)));
    assert.ok(difference <= 1e-4, `${deviceCount} devices: ${difference}`);
  }
});

function largestDifference(some: Float32Array, others: Float32Array): number {
  return some.reduce((most, value, i) => Math.max(most, Math.abs(value - others[i]!)), 0);
}
