// local-sum — mshadow-ps's local_sum: every device, a thread, has two rows, pushes them, and gets the sums of all
// devices.

import { isMainThread } from "node:worker_threads";
import { attachDevice, createSharedModel, startDeviceThread } from "weighbridge/shared-model";

async function runModel(devices: readonly number[]): Promise<void> {
  const model = createSharedModel("local");
  await model.init(devices);
  const threads = devices.map((device) => startDeviceThread(model, device, import.meta.filename));
  await Promise.all(threads.map(async (thread) => await new Promise((resolve) => void thread.once("exit", resolve))));
  await model.close();
}

async function runDevice(): Promise<void> {
  const model = attachDevice();
  const { device } = model;
  const rows = [model.tensor([3], device).fill(1), model.tensor([3], device).fill(device + 1)];
  console.log(`device ${device} before: ${rows.map((row) => row.join(" ")).join(" / ")}`);
  for (const [key, row] of rows.entries()) {
    await model.initKey([3], key, device);
    model.push(row, key, device, -key); // returns at once, as pullReq does: the device may compute meanwhile
    model.pullReq(row, key, device, -key);
  }
  for (const key of rows.keys()) await model.pullWait(key, device);
  console.log(`device ${device} after: ${rows.map((row) => row.join(" ")).join(" / ")}`);
}

const devices = process.argv.slice(2).map(Number);
if (!isMainThread) await runDevice();
else await runModel(devices.length > 0 ? devices : [0, 1, 2]);
