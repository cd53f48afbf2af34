// plug-in-trainer — trains with the row type and the updater of plug-ins.ts: saves a checkpoint after the first half,
// or does the second half alone with what was restored; says at the end what came of it.

import { createHash } from "node:crypto";
import { connect } from "weighbridge";
import { residues, runningMean } from "./plug-ins.ts";

const [half] = process.argv.slice(2);
const session = await connect();
const keys = Array.from({ length: 3000 }, (_, i) => i * i);
const table = await session.embedding("table", { dim: 4, dtype: "f64", optimizer: runningMean.with() });
const counts = await session.embedding("counts", { dim: 2, optimizer: "sum", dtype: residues });
const tensor = await session.tensor("tensor", { shape: [300, 1000], optimizer: runningMean.with() });

async function train(step: number): Promise<void> {
  await table.push(
    keys,
    Float64Array.from({ length: 12_000 }, (_, i) => Math.sin(i * step) * 1e-9),
  );
  await counts.push(
    keys,
    Int32Array.from({ length: 6000 }, (_, i) => (i * step * 7919) % 65_521),
  );
  await tensor.push(Float32Array.from({ length: 300_000 }, (_, i) => Math.cos(i + step)));
}

if (half === "first") {
  for (const step of [1, 2, 3]) await train(step);
  const { path } = await session.checkpoint().saved;
  console.log(`saved ${path}`);
}
for (const step of [4, 5]) await train(step);
const hash = createHash("sha256");
for (const values of [await table.pull(keys), await counts.pull(keys), await tensor.pull()])
  hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
console.log(`outcome ${hash.digest("hex")}`);
await session.close();
