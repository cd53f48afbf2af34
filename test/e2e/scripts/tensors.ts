// tensors — a script as Hetu's are: one for all roles, which learns its own from DMLC_ROLE. Workers sum their ranks
// into a tensor and a table.

import { schedulerFinish, schedulerInit, serverFinish, serverInit, workerFinish, workerInit } from "weighbridge/node";
import { ParamType } from "weighbridge/tensors";

const ROWS = 16_777_300;

async function work(): Promise<void> {
  const worker = await workerInit();
  await worker.initTensor(worker.rank + 10, { length: 3 }); // each its own first: the order does not matter
  await worker.initTensor(0, { length: 300_000 });
  await worker.initTensor(1, { paramType: ParamType.kCacheTable, length: ROWS, width: 4 });
  void worker.push(0, new Float32Array(300_000).fill(worker.rank + 1));
  void worker.sparsePush(1, [16_777_217, 5, 16_777_217], new Float32Array(12).fill(1));
  await worker.wait(0);
  await worker.wait(1);
  await worker.barrierWorker();
  const sums = new Float32Array(300_000);
  const rows = new Float32Array(8);
  await Promise.all([worker.pull(0, sums), worker.sparsePull(1, [16_777_217, 16_777_216], rows)]);
  const expected = (worker.nrank * (worker.nrank + 1)) / 2;
  const wrong = sums.findIndex((sum) => sum !== expected);
  if (wrong >= 0) throw new Error(`element ${wrong} is ${sums[wrong]} instead of ${expected}`);
  console.log(`sum ${sums[299_999]}, row ${rows[0]}, its neighbour ${rows[7]}`);
  await workerFinish(worker);
}

switch (process.env.DMLC_ROLE) {
  case "scheduler":
    await schedulerFinish(await schedulerInit());
    break;
  case "server":
    await serverFinish(await serverInit());
    break;
  default:
    await work();
}
