// string-keys — how many strings one thread makes keys of in a second, in process: `node bench/string-keys.ts`.
// Lists of 10,000 different strings, hashed into an array that is there; the median of the rounds, and in brackets the
// slowest and the fastest. No string is seen twice in a round, and nothing is cached.

import { parseArgs } from "node:util";
import { KeyHasher } from "../src/keys/hash-key.ts";
import { median } from "./statistics.ts";

const COUNT = 10_000;
const { values: options } = parseArgs({
  options: { rounds: { type: "string", default: "9" }, "round-ms": { type: "string", default: "200" } },
});
const [roundCount, roundMs] = [Number(options.rounds), Number(options["round-ms"])];

const hasher = new KeyHasher();
const keys = new BigUint64Array(COUNT);
const numbers = Array.from({ length: COUNT }, (_, i) => String(10_000 + i));
const lists: Readonly<Record<string, readonly string[]>> = {
  "10 bytes, ASCII": numbers.map((number) => `user:${number}`),
  "36 bytes, ASCII": numbers.map((number) => `7b9a3f00-1c2d-4e5f-8a6b-9c0d1e2${number}`),
  "11 letters, 13 bytes": numbers.map((number) => `größe:${number}`),
};

for (const [name, list] of Object.entries(lists)) {
  const rates = Array.from({ length: roundCount }, () => rateOf(list)).sort((a, b) => a - b);
  const [slowest = 0, fastest = 0] = [rates[0], rates.at(-1)];
  console.log(`${name}: ${median(rates).toFixed(1)} M keys/s (${slowest.toFixed(1)} to ${fastest.toFixed(1)})`);
}

/** Millions of keys in a second. */
function rateOf(list: readonly string[]): number {
  const from = performance.now();
  let count = 0;
  let passedMs = 0;
  while (passedMs < roundMs) {
    hasher.hash(list, keys);
    count += list.length;
    passedMs = performance.now() - from;
  }
  return count / passedMs / 1e3;
}
