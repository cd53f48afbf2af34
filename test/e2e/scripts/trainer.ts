// trainer — a worker that pushes ones and counts clocks until it is stopped; with --wait one that first waits until
// somebody has restored its parameter, and says what it found.

import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { connect, isWeighbridgeError } from "weighbridge";

const { values: options } = parseArgs({ options: { wait: { type: "boolean" } } });
const session = await connect();
console.log("connected");
while (options.wait === true && (await session.parameters()).length === 0) await setTimeout(20);
const w = await session.tensor("w", { shape: [1000], optimizer: "sum", consistency: "bsp" });
if (options.wait === true) {
  // The first push finds out that the clocks went on, and joins there.
  const found = [...new Set(await w.pull())].join(" ");
  const push = (): Promise<void> => w.push(new Float32Array(1000).fill(1));
  while (session.clocks === 0) {
    await push().catch((thrown: unknown) => {
      if (!isWeighbridgeError(thrown, "STALE_UPDATE")) throw thrown;
    });
    await setTimeout(20);
  }
  console.log(`restored ${found} at clock ${session.clocks}`);
}
for (;;) {
  await w.push(new Float32Array(1000).fill(1));
  session.clock();
  if (session.clocks % 20 === 0) console.log(`clock ${session.clocks}`);
  await setTimeout(2);
}
