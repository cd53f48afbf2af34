// Goal: keys and rows are taken in every form in which programs hold them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";

test("keys and rows may be an Int32Array; negative ones are refused, nothing sent", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [5000, 64] });
  const users = await cluster.session.embedding("users", { dim: 2, versions: true });
  await w.pushRows(Int32Array.of(4999, 3), new Float32Array(128).fill(1));
  assert.equal(
    (await w.pullRows(Int32Array.of(3, 4, 4999))).join(),
    [...Array(64).fill(1), ...Array(64).fill(0), ...Array(64).fill(1)].join(),
  );
  await users.push(Int32Array.of(7, 2 ** 31 - 1, 7), Float32Array.of(1, 2, 3, 4, 5, 6));
  assert.deepEqual([...(await users.pull(Int32Array.of(2 ** 31 - 1, 7)))], [3, 4, 6, 8]);
  await using cached = users.cached({ rows: 10 });
  assert.deepEqual([...(await cached.lookup(Int32Array.of(7)))], [6, 8]);
  await assert.rejects(users.push(Int32Array.of(-1), new Float32Array(2)), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await assert.rejects(w.pullRows(Int32Array.of(-1)), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
});
