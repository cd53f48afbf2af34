// resumer — a worker that trains in step with the others from the clock where it finds the job up to --steps, and
// prints where it began and the bits that it ends with. It leaves with its last clock.

import { createHash } from "node:crypto";
import { parseArgs } from "node:util";
import { connect } from "weighbridge";

const SIZE = 1000;
const KEYS = Array.from({ length: 32 }, (_, key) => key * 97);
const WAIT = { timeoutMs: 60_000 };

const { values: options } = parseArgs({ options: { steps: { type: "string" } } });
const steps = Number(options.steps);
const session = await connect();
const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: "bsp", optimizer: { type: "momentum", learningRate: 0.1 } });
const rows = await session.embedding("rows", { dim: 4, consistency: "bsp", optimizer: { type: "adam" } });
console.log(`begins at clock ${session.clocks}`);

function gradient(length: number, step: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin((step + 1) * (session.rank + 1) + i));
}

for (let step = session.clocks; step < steps; step++) {
  await Promise.all([tensor.push(gradient(SIZE, step), WAIT), rows.push(KEYS, gradient(KEYS.length * 4, step), WAIT)]);
  session.clock();
  await tensor.pull(WAIT);
}
const [values, table] = [await tensor.pull(WAIT), await rows.pull(KEYS, WAIT)];
console.log(`bits ${createHash("sha256").update(values).update(table).digest("hex").slice(0, 16)}`);
await session.close();
