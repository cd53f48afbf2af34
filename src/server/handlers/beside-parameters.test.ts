// Goal: data that workers leave for each other is bounded with everything else on a server, and a push that is refused
// leaves no trace.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { dataPull, dataPush } from "../../contracts/beside-parameters.ts";
import { ParameterStage } from "../../testing/parameter-stage.ts";

function push(stage: ParameterStage, indexes: readonly bigint[], lengths: readonly number[], fill = 1) {
  const values = new Float32Array(lengths.reduce((sum, length) => sum + length, 0)).fill(fill);
  return stage.call(0, dataPush, { indexes: BigUint64Array.from(indexes), lengths: Uint32Array.from(lengths), values });
}

async function pull(stage: ParameterStage, index: bigint): Promise<number[]> {
  return [...(await stage.call(0, dataPull, { indexes: BigUint64Array.of(index) })).values];
}

test("a server that is full refuses data, stores nothing of the push, and keeps what was there (DataHandlers.A1)", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 22 });
  await push(stage, [1n], [3]);
  const usedBytes = stage.arena.usedBytes;
  await assert.rejects(push(stage, [1n, 2n, 3n], [3, 1000, 2 ** 20 - 2000]), (error) => isWeighbridgeError(error, "ARENA_FULL"));
  assert.equal(stage.arena.usedBytes, usedBytes);
  assert.deepEqual(await pull(stage, 1n), [1, 1, 1], "what was there was not added to");
  await assert.rejects(pull(stage, 2n), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
  await push(stage, [2n], [4]);
  assert.deepEqual(await pull(stage, 2n), [1, 1, 1, 1]);
});

test("arrays of no floats take room too: there is an end to them", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 22 });
  const before = stage.arena.usedBytes;
  await push(
    stage,
    Array.from({ length: 1000 }, (_, i) => BigInt(i)),
    new Array<number>(1000).fill(0),
  );
  assert.ok(stage.arena.usedBytes - before >= 1000, `${stage.arena.usedBytes - before} bytes`);
  assert.deepEqual(await pull(stage, 999n), []);
});

test("an index that is new and named twice in one push is added up", async () => {
  const stage = new ParameterStage();
  await push(stage, [7n, 7n], [2, 2], 3);
  assert.deepEqual(await pull(stage, 7n), [6, 6]);
});

test("data goes to the owner of its index: another server refuses it, and what it is asked for there", async () => {
  const stage = new ParameterStage();
  stage.ownership.adopt({ epoch: 2, policy: "range", servers: [0, 1] }, 0);
  const isForeign = (index: bigint): boolean => !stage.ownership.ownsKey(Number(index), 0);
  const own = Array.from({ length: 64 }, (_, i) => BigInt(i)).find((index) => !isForeign(index))!;
  const foreign = Array.from({ length: 64 }, (_, i) => BigInt(i)).find(isForeign)!;
  const wrongOwner = (error: unknown): boolean => isWeighbridgeError(error, "WRONG_OWNER");
  await assert.rejects(push(stage, [foreign], [1]), wrongOwner);
  await assert.rejects(push(stage, [own, foreign], [1, 1]), wrongOwner);
  await assert.rejects(pull(stage, foreign), wrongOwner);
  await assert.rejects(pull(stage, own), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"), "nothing of it was stored");
  await push(stage, [own], [1]);
  assert.deepEqual(await pull(stage, own), [1]);
});
