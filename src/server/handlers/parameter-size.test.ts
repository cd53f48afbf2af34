// parameter-size — Goal: a server tells what it has of a parameter, without making or reading a row.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { parameterSize } from "../../contracts/parameters.ts";
import { rowsPush } from "../../contracts/rows.ts";
import { ParameterStage } from "../../testing/parameter-stage.ts";
import { BLOCK_BYTES } from "../../wire/frame.ts";

const NO_KEYS = new BigUint64Array(0);

test("a table tells its rows, its bytes, and which of some keys have rows", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "table", width: 4, optimizer: { type: "adagrad", learningRate: 1 } });
  const keys = BigUint64Array.from({ length: 3000 }, (_, i) => BigInt(2 * i));
  const gradients = new Float32Array(4 * keys.length);
  await stage.call(0, rowsPush, { parameter: t, clock: 0, pushNumber: 1, scale: 1, keys, gradients });
  const asked = BigUint64Array.from({ length: 6000 }, (_, i) => BigInt(i)); // more than the store looks up at once
  const { count, bytes, found } = await stage.call(0, parameterSize, { parameter: t, keys: asked });
  assert.equal(count, 3000);
  assert.ok(bytes >= 3000 * (8 + 2 * 16), `${bytes} bytes`);
  assert.deepEqual(
    [...found],
    [...asked].map((key) => (key % 2n === 0n ? 1 : 0)),
  );
  assert.equal(stage.parameters.table(t).store.rowCount, 3000, "no row is made");
});

test("a tensor tells the elements that the server owns, touched or not", async () => {
  const stage = new ParameterStage({ bytesMax: 2 ** 26 });
  const blockFloats = BLOCK_BYTES / 4;
  const t = stage.create({ kind: "tensor", shape: [8 * blockFloats] });
  const whole = await stage.call(0, parameterSize, { parameter: t, keys: NO_KEYS });
  assert.deepEqual([whole.count, whole.found.length], [8 * blockFloats, 0]);
  stage.ownership.adopt({ epoch: 2, policy: "range", servers: [0, 1] }, 0);
  const { count } = await stage.call(0, parameterSize, { parameter: t, keys: NO_KEYS });
  assert.ok(count > 0 && count < 8 * blockFloats, `${count} elements`);
});

test("keys of a tensor, and a parameter that is not there, are refused", async () => {
  const stage = new ParameterStage();
  const t = stage.create({ kind: "tensor", shape: [2] });
  const ask = (parameter: number, keys: BigUint64Array): Promise<unknown> => stage.call(0, parameterSize, { parameter, keys });
  await assert.rejects(ask(t, BigUint64Array.of(1n)), (error) => isWeighbridgeError(error, "UNSUPPORTED"));
  await assert.rejects(ask(t + 1, NO_KEYS), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
});
