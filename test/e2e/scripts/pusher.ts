// pusher — a worker that pushes to all servers until its standard input ends, and tells of every change: works, fails,
// works again. With --verify it checks at the end that each of its pushes counted once.

import { parseArgs } from "node:util";
import { Group, isWeighbridgeError, KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const KEY_COUNT = 64;
const PAUSE_MS = 5;
const REPORT_MS = 100;

const { values: options } = parseArgs({ options: { verify: { type: "boolean" } } });
const office = await start();
const kv = new KVWorker(office, 0);
const step = 2n ** 64n / BigInt(KEY_COUNT);
const keys = BigUint64Array.from({ length: KEY_COUNT }, (_, i) => BigInt(i) * step + BigInt(office.myRank));
const ones = new Float32Array(KEY_COUNT).fill(1);

let isDone = false;
process.stdin.on("end", () => {
  isDone = true;
});
process.stdin.resume();

let pushCount = 0;
let isWorking: boolean | undefined;
let reportAt = 0;
while (!isDone) {
  const startedAt = performance.now();
  try {
    await kv.wait(kv.push(keys, ones));
    pushCount++;
    if (isWorking !== true) console.log(isWorking === undefined ? "push works" : "push works again");
    isWorking = true;
  } catch (error) {
    if (!isWeighbridgeError(error)) throw error;
    if (isWorking !== false)
      console.log(`push failed after ${Math.round(performance.now() - startedAt)} ms: ${error.code}: ${error.message}`);
    isWorking = false;
  }
  if (performance.now() >= reportAt) {
    reportAt = performance.now() + REPORT_MS;
    console.log(`pushed ${pushCount}`);
  }
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}
await office.barrier(0, Group.WORKERS);
if (options.verify === true) {
  const sums = new Float32Array(KEY_COUNT);
  await kv.wait(kv.pull(keys, sums));
  const wrong = sums.findIndex((sum) => sum !== pushCount);
  if (wrong >= 0) throw new Error(`after ${pushCount} pushes key ${wrong} holds ${sums[wrong]}`);
  console.log(`verified ${pushCount} pushes`);
}
await office.finalize();
console.log("finished");
