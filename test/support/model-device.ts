// model-device — a device of a shared model in a thread of its own. Its workerData say how many rounds of which keys it
// does, and where it ends: it throws, exits, or stands still. It posts the digest of what it holds after each round, or
// how it failed.

import { parentPort, workerData } from "node:worker_threads";
import { attachDevice, isWeighbridgeError } from "weighbridge/shared-model";
import { digestOf, pushedValue } from "./model-values.ts";

export type DeviceTask = {
  readonly rounds: number;
  /** Of each key. */
  readonly lengths: readonly number[];
  /** Whether its arrays lie in the memory of the model. */
  readonly isOwn: boolean;
  /** What it does before it pushes in round `failsAt`. */
  readonly failure: "none" | "throw" | "exit" | "stop";
  readonly failsAt: number;
  /** Whether it does a round again that failed because another device has ended. */
  readonly retries: boolean;
};

async function fail(failure: DeviceTask["failure"]): Promise<void> {
  if (failure === "throw") throw new TypeError("the device fell over");
  if (failure === "exit") process.exit(7);
  // It has nothing left to do when it is ended: a thread that ends with the lock breaks the model.
  for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => void setImmediate(resolve));
  parentPort?.postMessage("stopped");
  await new Promise<void>((resolve) => void setTimeout(resolve, 2 ** 30));
}

async function run({ rounds, lengths, isOwn, failure, failsAt, retries }: DeviceTask): Promise<number[]> {
  const model = attachDevice();
  const { device } = model;
  for (const [key, length] of lengths.entries()) await model.initKey([length], key, device);
  const data = lengths.map((length) => (isOwn ? model.tensor([length], device) : new Float32Array(length)));
  const digests: number[] = [];
  const exchange = async (round: number, key: number): Promise<void> => {
    const each = data[key] as Float32Array;
    for (let i = 0; i < each.length; i++) each[i] = pushedValue(device, round, i + key);
    model.push(each, key, device, -key);
    model.pullReq(each, key, device, -key);
    try {
      await model.pullWait(key, device);
    } catch (thrown) {
      if (!retries || !isWeighbridgeError(thrown, "NODE_DEAD")) throw thrown;
      await exchange(round, key);
    }
  };
  for (let round = 0; round < rounds; round++) {
    if (failure !== "none" && round === failsAt) await fail(failure);
    await Promise.all(data.map(async (_, key) => await exchange(round, key)));
    digests.push(digestOf(data));
  }
  return digests;
}

try {
  parentPort?.postMessage(await run(workerData as DeviceTask));
} catch (thrown) {
  if (!isWeighbridgeError(thrown)) throw thrown;
  const { code, message, detail } = thrown;
  parentPort?.postMessage({ code, message, detail });
}
