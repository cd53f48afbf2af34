// through-cuts — a worker whose calls reach all servers all the time, whatever becomes of the scheduler: none of
// them may fail. It trains two parameters in step with the others, --steps times with --pause ms between two, for
// which it prints the bits, and pushes to two asynchronous ones meanwhile. Then it checks that each push of all
// workers counted once.

import { createHash } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { connect } from "weighbridge";

const SIZE = 2000;
const PUSH_PAUSE_MS = 10;
const REPORT_MS = 200;
const KEYS = Array.from({ length: 32 }, (_, key) => key * 97);
const WAIT = { timeoutMs: 60_000 };

const { values: options } = parseArgs({ options: { steps: { type: "string" }, pause: { type: "string" } } });
const [steps, pauseMs] = [Number(options.steps), Number(options.pause)];
const session = await connect();
const { rank } = session;
const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: "bsp", optimizer: { type: "momentum", learningRate: 0.1 } });
const rows = await session.embedding("rows", { dim: 4, consistency: "bsp", optimizer: { type: "adam" } });
const shared = await session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp" });
const own = await session.embedding(`own ${rank}`, { dim: 2, optimizer: "sum" });
console.log("begins");

function gradient(length: number, step: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin((step + 1) * (rank + 1) + i));
}

let isTrained = false;
async function trainInStep(): Promise<void> {
  for (let step = 0; step < steps; step++) {
    await Promise.all([tensor.push(gradient(SIZE, step), WAIT), rows.push(KEYS, gradient(KEYS.length * 4, step), WAIT)]);
    session.clock();
    await tensor.pull(WAIT);
    if (step % 10 === 0) console.log(`step ${step}`);
    await setTimeout(pauseMs);
  }
  const [values, table] = [await tensor.pull(WAIT), await rows.pull(KEYS, WAIT)];
  console.log(`bits ${createHash("sha256").update(values).update(table).digest("hex").slice(0, 16)}`);
  isTrained = true;
}

let pushCount = 0;
async function pushAsync(): Promise<void> {
  const [ones, two] = [new Float32Array(SIZE).fill(1), new Float32Array(4).fill(1)];
  for (let reportAt = 0; !isTrained; await setTimeout(PUSH_PAUSE_MS)) {
    await Promise.all([shared.push(ones, WAIT), own.push([1, 2 ** 40], two, WAIT)]);
    pushCount++;
    if (performance.now() < reportAt) continue;
    reportAt = performance.now() + REPORT_MS;
    console.log(`pushed ${pushCount}`);
  }
}

await Promise.all([trainInStep(), pushAsync()]);
const counted = await own.pull([1, 2 ** 40], WAIT);
if (!counted.every((value) => value === pushCount)) throw new Error(`after ${pushCount} pushes the rows are ${counted.join()}`);
const all = await session.rendezvous.meet("pushed", { generation: 0, value: String(pushCount), ...WAIT });
const total = all.reduce((sum, { value }) => sum + Number(value), 0);
const sums = await shared.pull(WAIT);
const wrong = sums.findIndex((sum) => sum !== total);
if (wrong >= 0) throw new Error(`after ${total} pushes of all workers element ${wrong} is ${sums[wrong]}`);
console.log(`verified ${pushCount} pushes of ${total}`);
await session.close();
