// keeper — a worker of durable servers. Prints what it finds: how often each row was pushed to, and the bits of a table
// with an optimizer. Then it pushes to both, one push after the other, and prints the number of each that was
// acknowledged; after --pushes of them, or when it reads a line, it prints the bits, and waits for the end of its
// standard input.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { connect } from "weighbridge";

const KEYS = Array.from({ length: 64 }, (_, key) => key * 97);
const WAIT = { timeoutMs: 60_000 };
const { values: options } = parseArgs({ options: { pushes: { type: "string" } } });

const session = await connect();
const counts = await session.embedding("counts", { dim: 1, optimizer: "sum" });
const moving = await session.embedding("moving", { dim: 4, optimizer: { type: "adam" } });
const tensor = await session.tensor("tensor", { shape: [5000], consistency: "asp", optimizer: { type: "momentum", learningRate: 0.1 } });

async function bits(): Promise<string> {
  const [table, values] = [await moving.pull(KEYS, WAIT), await tensor.pull(WAIT)];
  return createHash("sha256").update(table).update(values).digest("hex").slice(0, 16);
}

const found = await counts.pull(KEYS, WAIT);
console.log(`found ${Math.min(...found)} to ${Math.max(...found)} ${await bits()}`);
let pushed = Math.max(...found);
let isEnough = false;
process.stdin.on("data", () => {
  isEnough = true;
});
for (let left = Number(options.pushes ?? Infinity); left > 0 && !isEnough; left--) {
  const gradient = (length: number): Float32Array => Float32Array.from({ length }, (_, i) => Math.sin(pushed + i));
  await Promise.all([
    counts.push(KEYS, new Float32Array(KEYS.length).fill(1), WAIT),
    moving.push(KEYS, gradient(KEYS.length * 4), WAIT),
    tensor.push(gradient(5000), WAIT),
  ]);
  console.log(`acknowledged ${++pushed}`);
}
console.log(`done ${await bits()}`);
if (!process.stdin.readableEnded) await once(process.stdin, "end");
await session.close();
