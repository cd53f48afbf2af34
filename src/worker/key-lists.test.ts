// Goal: keys and rows are taken in every form in which programs hold them, and a pulled array is read by row.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { hashKey } from "../keys/hash-key.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";

test("keys and rows may be an Int32Array; negative ones are refused, nothing sent", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [5000, 64], optimizer: "sum" });
  const users = await cluster.session.embedding("users", { dim: 2, optimizer: "sum", versions: true });
  await w.pushRows(Int32Array.of(4999, 3), new Float32Array(128).fill(1));
  assert.equal(
    (await w.pullRows(Int32Array.of(3, 4, 4999))).join(),
    [...Array(64).fill(1), ...Array(64).fill(0), ...Array(64).fill(1)].join(),
  );
  await users.push(Int32Array.of(7, 2 ** 31 - 1, 7), Float32Array.of(1, 2, 3, 4, 5, 6));
  assert.deepEqual([...(await users.pull(Int32Array.of(2 ** 31 - 1, 7)))], [3, 4, 6, 8]);
  await using cached = users.cached({ rows: 10 });
  assert.deepEqual([...(await cached.pull(Int32Array.of(7)))], [6, 8]);
  await assert.rejects(users.push(Int32Array.of(-1), new Float32Array(2)), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await assert.rejects(w.pullRows(Int32Array.of(-1)), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
});

/** Whether an error has this code, and a message like this. */
function told(code: ErrorCode, message: RegExp): (error: unknown) => boolean {
  return (error) => isWeighbridgeError(error, code) && message.test(error.message);
}

test("keys may be strings, in every call that takes keys: the rows are those of their hashes", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const users = await cluster.session.embedding("users", { dim: 2, versions: true, optimizer: "sum" });
  await users.push(["user:5", "17", "", "größe"], Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  await users.push(["user:5", "user:5"], Float32Array.of(10, 10, 10, 10));
  const hashes = ["user:5", "17", "", "größe"].map(hashKey);
  assert.deepEqual([...(await users.pull(hashes))], [21, 22, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual([...(await users.pull([17]))], [0, 0], '"17" is no number');
  const both = await users.pushPull({ keys: ["17"], gradients: Float32Array.of(1, 1) }, ["17", "user:5"]);
  assert.deepEqual([...both], [4, 5, 21, 22]);
  await using cached = users.cached({ rows: 10 });
  await cached.push(["user:9"], Float32Array.of(9, 9));
  assert.deepEqual([...(await cached.pull(["user:9", "17"]))], [9, 9, 4, 5]);
  assert.deepEqual([...(await users.pull([hashKey("user:9")]))], [9, 9]);
});

test("a function is called at the owner of a string's key", async () => {
  const reads = psFunction({
    name: "reads",
    request: { key: "u64" },
    response: { isThere: "bool" },
    handler: (context, { key }) => ({ isThere: [...context.rowsOf("users")].some((row) => row.key === key) }),
  });
  await using cluster = await EmbeddedCluster.start({ servers: 3, functions: [reads] });
  const { session } = cluster;
  const users = await session.embedding("users", { dim: 1, optimizer: "sum" });
  const names = Array.from({ length: 20 }, (_, i) => `user:${i}`);
  await users.push(names, new Float32Array(20).fill(1));
  for (const name of names) assert.deepEqual(await session.call(reads, { key: name }, { key: hashKey(name) }), { isThere: true });
  await users.push([5], Float32Array.of(1));
  assert.deepEqual(await session.call(reads, { key: 5 }, { key: 5n }), { isThere: true });
});

test("a list of strings and numbers is refused with the position; so are strings for rows that numbers name", async () => {
  await using cluster = await EmbeddedCluster.start();
  const users = await cluster.session.embedding("users", { dim: 1, optimizer: "sum" });
  const bounded = await cluster.session.embedding("bounded", { dim: 1, rows: 10, optimizer: "sum" });
  const mixed = (...keys: unknown[]): string[] => keys as string[];
  await assert.rejects(
    users.pull(mixed("a", "b", 7)),
    told("BAD_ARGUMENT", /all strings or all numbers, but key 2 is 7, and key 0 is a str/),
  );
  await assert.rejects(users.pull(mixed(7, 8n, "a")), told("BAD_ARGUMENT", /all numbers, but key 2 is "a", and key 0 is a number/));
  await assert.rejects(users.pull(mixed("a", undefined)), told("BAD_ARGUMENT", /key 1 is undefined/));
  await assert.rejects(users.pull(mixed({})), told("BAD_ARGUMENT", /keys must be whole numbers .* or strings, got .* \(key 0\)/));
  await assert.rejects(users.pull(["a", "\ud800"]), told("BAD_ARGUMENT", /key 1, .* has half of a surrogate pair/));
  await assert.rejects(bounded.pull(["a"]), told("BAD_ARGUMENT", /bounded has rows 0 to 9, which only numbers name, not "a"/));
  await assert.rejects(users.pull("user:5" as unknown as string[]), told("BAD_ARGUMENT", /users: keys and rows are named by/));
  const w = await cluster.session.tensor("w", { shape: [4, 2], optimizer: "sum" });
  await assert.rejects(w.pullRows(["1"] as unknown as number[]), told("OUT_OF_RANGE", /no row "1"/));
});

test("a row of a pulled array is a view of it, for every type of element; one that is not there is refused", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const counts = await session.embedding("counts", { dim: 3, dtype: "i64", optimizer: "sum" });
  await counts.push([5, 9], BigInt64Array.of(1n, 2n, 3n, 4n, 5n, 6n));
  const pulled = await counts.pull([5, 9]);
  const second: BigInt64Array = counts.row(pulled, 1);
  assert.deepEqual([...second], [4n, 5n, 6n]);
  assert.equal(second.buffer, pulled.buffer, "no copy");
  const users = await session.embedding("users", { dim: 2, versions: true, optimizer: "sum" });
  const gradients = new Float32Array(4);
  users.row(gradients, 1).set([7, 8]);
  assert.deepEqual([...gradients], [0, 0, 7, 8]);
  await using cached = users.cached({ rows: 4 });
  assert.deepEqual([...cached.row(gradients, 1)], [7, 8]);
  const w = await session.tensor("w", { shape: [3, 2, 2], optimizer: "sum" });
  assert.equal(w.row(await w.pull(), 2).length, 4);
  for (const i of [2, -1, 0.5, NaN, "1" as unknown as number])
    assert.throws(() => users.row(gradients, i), told("OUT_OF_RANGE", /users: an array of 4 elements has 2 rows of 2; there is no row /));
  assert.throws(() => users.row([1, 2] as unknown as Float32Array, 0), told("BAD_ARGUMENT", /an array that was pulled/));
});
