// patient-trainer — a worker that repeats a step which failed, and ends when so many have gone well after a failure.

import { setTimeout } from "node:timers/promises";
import { connect, isWeighbridgeError } from "weighbridge";

const GOOD_STEPS = 20;
const session = await connect();
const w = await session.tensor("w", { shape: [8], consistency: "asp", optimizer: { type: "sum" } });
let hasFailed = false;
for (let good = 0; good < GOOD_STEPS; ) {
  try {
    await w.push(new Float32Array(8).fill(1), { timeoutMs: 30_000 });
    const [sum = 0] = await w.pull({ timeoutMs: 30_000 });
    session.clock();
    if (session.clocks % 10 === 0) console.log(`clock ${session.clocks}, sum ${sum}`);
    if (hasFailed) good++;
  } catch (error) {
    if (!isWeighbridgeError(error)) throw error;
    if (!hasFailed) console.log(`step failed: ${error.code}`);
    hasFailed = true;
    good = 0;
  }
  await setTimeout(20);
}
console.log("went on");
await session.close();
