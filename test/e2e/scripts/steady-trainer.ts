// steady-trainer — a worker that trains on while servers die and come back from their checkpoints: it says what went
// wrong, and repeats the step. Worker 0 has a checkpoint taken every 20 clocks. It ends with its standard input,
// together with the others.

import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { connect, isWeighbridgeError } from "weighbridge";

const { values: options } = parseArgs({ options: { consistency: { type: "string" } } });
const consistency = options.consistency === "bsp" ? "bsp" : "asp";
const session = await connect();
const w = await session.tensor("w", { shape: [1000], optimizer: "sum", consistency });
const e = await session.embedding("e", { dim: 4, optimizer: "sum", consistency });
const keys = Array.from({ length: 32 }, (_, key) => key);

let isDone = false;
process.stdin.on("end", () => {
  isDone = true;
});
process.stdin.resume();

async function step(): Promise<void> {
  const wait = { timeoutMs: 30_000 };
  const values = await w.pull(wait);
  await e.pull(keys, wait);
  await Promise.all([w.push(new Float32Array(values.length).fill(1), wait), e.push(keys, new Float32Array(128).fill(1), wait)]);
  session.clock();
}

let lastCode = "";
while (!isDone) {
  try {
    await step();
    if (lastCode !== "") console.log(`goes on at clock ${session.clocks}`);
    lastCode = "";
  } catch (error) {
    if (!isWeighbridgeError(error)) throw error;
    if (!error.retryable && error.outcome !== "unknown") throw error;
    if (error.code !== lastCode) console.log(`step failed: ${error.code}: ${error.message}`);
    lastCode = error.code;
    await setTimeout(50);
  }
  if (session.rank === 0 && session.clocks % 20 === 0) {
    session.checkpoint({ keep: 2 }).saved.then(
      ({ clock }) => console.log(`saved clock ${clock}`),
      (error: Error) => console.log(`not saved: ${error.message}`),
    );
  }
  await setTimeout(10);
}
const rows = await e.pull(keys);
console.log(`ends at clock ${session.clocks} with rows of ${Math.min(...rows)} to ${Math.max(...rows)}`);
await session.close();
