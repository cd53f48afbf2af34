// rows — Goal: a key list that is not known by its name is refused before anything is done, and never makes a sender apply an update twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { rowsPushPull } from "../../contracts/rows.ts";
import { floatsOf, ParameterStage } from "../../testing/parameter-stage.ts";
import { KeyForm } from "../../wire/codecs/key-codec.ts";

/** A key list of a form, with its keys if it has any. */
function section(form: number, name: bigint, keyCount: number, keys: readonly bigint[] = []): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(24 + 8 * keys.length));
  bytes.setUint8(0, form);
  bytes.setUint32(4, keyCount, true);
  bytes.setUint32(8, 8 * keys.length, true);
  bytes.setBigUint64(16, name, true);
  for (const [i, key] of keys.entries()) bytes.setBigUint64(24 + 8 * i, key, true);
  return new Uint8Array(bytes.buffer);
}

test("a push and pull that names a list which is not held changes nothing; one that was applied before is told that it counts", async () => {
  const stage = new ParameterStage();
  const link = { push: "f32", pull: "f32", keys: "raw", keyCache: true, compression: "none" } as const;
  const parameter = stage.create({ kind: "table", width: 1, link });
  const at = { parameter, clock: 0, pushNumber: 1, scale: 1, gradients: Float32Array.of(5) };
  const known = section(KeyForm.RAW, 0n, 1, [7n]);
  const unknown = section(KeyForm.NAMED, 99n, 1);
  const rejects = (code: string) => (error: unknown) => isWeighbridgeError(error) && error.code === code;
  for (const [pushKeys, pullKeys] of [
    [known, unknown],
    [unknown, known],
  ] as const)
    await assert.rejects(stage.call(0, rowsPushPull, { ...at, pushKeys, pullKeys }), rejects("UNKNOWN_KEY_LIST"));
  assert.equal(stage.parameters.table(parameter).store.rowCount, 0);
  const request = { ...at, pushKeys: known, pullKeys: unknown };
  await assert.rejects(stage.call(0, rowsPushPull, request, { again: true }), rejects("ANSWER_LOST"));
  const { values } = await stage.call(0, rowsPushPull, { ...at, pushKeys: known, pullKeys: known });
  assert.deepEqual([...floatsOf(values)], [5]);
});
