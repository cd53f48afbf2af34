// 05-own-function — calls a function of our own on the servers, with types, and gets its errors as errors.

import { connect, isWeighbridgeError } from "weighbridge";
import { largestRows } from "./functions.ts";

const session = await connect();
const vectors = await session.embedding("vectors", { dim: 8, optimizer: "sum" });

// A thousand rows; the norm of row k is √8 · k.
const keys = BigUint64Array.from({ length: 1000 }, (_, i) => BigInt(i));
await vectors.push(
  keys,
  Float32Array.from({ length: keys.length * 8 }, (_, i) => Math.floor(i / 8)),
);

// Every server answers for its own rows; the best of the best are the best of all.
const answers = await session.callAll(largestRows, { table: "vectors", count: 3 });
const best = answers
  .flatMap((answer) => Array.from(answer.keys, (key, i) => ({ key, norm: answer.norms[i] as number })))
  .sort((a, b) => b.norm - a.norm)
  .slice(0, 3);
console.log(`the largest rows are ${best.map(({ key }) => key).join(", ")}`);

// What a handler throws comes back as an error with a code.
try {
  await session.call(largestRows, { server: 0 }, { table: "no such table", count: 1 });
} catch (error) {
  if (!isWeighbridgeError(error, "UNKNOWN_PARAMETER")) throw error;
  console.log(`a refusal, as it should be: ${error.message}`);
}
await session.close();
