// Goal: a function of the user's own sees all of a tensor, however many servers hold it, and whether anybody has
// touched it or not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const SIZE = 300_000; // three blocks
const sumOf = psFunction({
  name: "sumOf",
  request: { tensor: "string" },
  response: { firsts: "f64[]", count: "u32", sum: "f64" },
  reads: true,
  handler: (server, { tensor }) => {
    let [count, sum] = [0, 0];
    const firsts: number[] = [];
    for (const { first, values } of server.blocksOf(tensor)) {
      firsts.push(first);
      count += values.length;
      for (const value of values) sum += value;
    }
    return { firsts: Float64Array.from(firsts), count, sum };
  },
});

test("blocks that nobody has touched have their initial values, and each is on one server", async () => {
  for (const servers of [1, 2, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers, functions: [sumOf] });
    const { session } = cluster;
    const tensor = await session.tensor("tensor", { shape: [SIZE], optimizer: "sum", init: { type: "constant", value: 2 } });
    const whole = async (): Promise<{ firsts: number[]; count: number; sum: number }> => {
      const parts = await session.callAll(sumOf, { tensor: "tensor" });
      const total = (of: "count" | "sum"): number => parts.reduce((sum, part) => sum + part[of], 0);
      return { firsts: parts.flatMap(({ firsts }) => [...firsts]).sort((a, b) => a - b), count: total("count"), sum: total("sum") };
    };
    const firsts = [0, 131_072, 262_144];
    assert.deepEqual(await whole(), { firsts, count: SIZE, sum: 2 * SIZE }, `${servers} servers, untouched`);
    await tensor.pushRows([0], Float32Array.of(5));
    assert.deepEqual(await whole(), { firsts, count: SIZE, sum: 2 * SIZE + 5 }, `${servers} servers, one block touched`);
  }
});
