// reader — a worker that pushes once and then only reads, every few milliseconds, and says when that goes another way
// than before. With --remake it makes the parameter again whenever it is gone; without, only when its standard input
// ends. It ends then, together with the others.

import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { connect, type Embedding, isWeighbridgeError } from "weighbridge";

const { values: options } = parseArgs({ options: { remake: { type: "boolean", default: false } } });
const session = await connect();
const open = (): Promise<Embedding> => session.embedding("e", { dim: 1, optimizer: "sum" });
const keys = Array.from({ length: 32 }, (_, key) => key);
const rowsOf = async (table: Embedding): Promise<string> => {
  const rows = await table.pull(keys, { timeoutMs: 30_000 });
  return `reads ${Math.min(...rows)} to ${Math.max(...rows)}`;
};

let isDone = false;
process.stdin.on("end", () => {
  isDone = true;
});
process.stdin.resume();

let table = await open();
if (options.remake) await table.push(keys, new Float32Array(keys.length).fill(1));
await session.barrier();
let last = "";
while (!isDone) {
  const said = await rowsOf(table).catch((error: unknown) => {
    if (!isWeighbridgeError(error)) throw error;
    return `read failed: ${error.code}: ${error.message}`;
  });
  if (said !== last) console.log(said);
  last = said;
  if (options.remake && said.startsWith("read failed: UNKNOWN_PARAMETER")) table = await open();
  await setTimeout(20);
}
console.log(`made again: ${await rowsOf(await open())}`);
await session.close();
