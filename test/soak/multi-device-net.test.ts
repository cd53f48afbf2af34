// Goal: the multi-device net of the examples learns as well with several devices as with one, for 20 rounds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createSharedModel } from "weighbridge/shared-model";
import { readMnist } from "weighbridge/training";
import { DeviceNet, rowsOf, trainBatches } from "../../examples/15-multi-device-net/net.ts";

const ROUNDS = 20;

/** After each round. */
async function errorsOf(deviceCount: number): Promise<number[]> {
  const [train, digits] = [readMnist("train"), readMnist("test")];
  const devices = Array.from({ length: deviceCount }, (_, device) => device);
  await using model = createSharedModel("local");
  await model.init(devices);
  const nets = await Promise.all(devices.map((device) => DeviceNet.open(model, device, rowsOf(deviceCount))));
  const errors: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await trainBatches(nets, train, train.count / 100);
    errors.push((await nets[0]!.errors(digits)) / digits.count);
  }
  return errors;
}

test("the test error on 2, 4 and 5 devices is within 0.003 of one device's after each of 20 rounds, and at most 0.03 at the end", async () => {
  const one = await errorsOf(1);
  for (const deviceCount of [2, 4, 5]) {
    const several = await errorsOf(deviceCount);
    for (const [round, error] of several.entries())
      assert.ok(Math.abs(error - one[round]!) <= 0.003, `${deviceCount} devices, round ${round}: ${error}, one device ${one[round]}`);
    assert.ok(several.at(-1)! <= 0.03, `${several.at(-1)}`);
  }
});
