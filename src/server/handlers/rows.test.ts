// rows — Goal: a push and pull is refused before anything is done, or counts, and says so: never is a sender made to
// apply it twice. The same for a tensor.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { rowsPushPull } from "../../contracts/rows.ts";
import { tensorPushPull } from "../../contracts/tensors.ts";
import { floatsOf, ParameterStage } from "../../testing/parameter-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";
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
  for (const [pushKeys, pullKeys] of [
    [known, unknown],
    [unknown, known],
  ] as const)
    await assert.rejects(stage.call(0, rowsPushPull, { ...at, pushKeys, pullKeys }), throwsCode("UNKNOWN_KEY_LIST"));
  assert.equal(stage.parameters.table(parameter).store.rowCount, 0);
  const request = { ...at, pushKeys: known, pullKeys: unknown };
  await assert.rejects(stage.call(0, rowsPushPull, request, { again: true }), throwsCode("ANSWER_LOST"));
  const { values } = await stage.call(0, rowsPushPull, { ...at, pushKeys: known, pullKeys: known });
  assert.deepEqual([...floatsOf(values)], [5]);
});

test("a push and pull whose answer cannot be read counts, and its failure says so (WaitingRead.R2)", async () => {
  const link = { push: "f32", pull: "int8", keys: "raw", keyCache: false, compression: "none" } as const;
  const keys = section(KeyForm.RAW, 0n, 1, [7n]);
  const rows = new Uint32Array(0);
  const isLost = (error: unknown): boolean => isWeighbridgeError(error, "ANSWER_LOST");
  for (const kind of ["table", "tensor"] as const) {
    const stage = new ParameterStage();
    const parameter = stage.create(kind === "table" ? { kind, width: 1, link, staleness: 0 } : { kind, shape: [1], link, staleness: 0 });
    const push = async (value: number, clock: number, again = false): Promise<{ readonly values: ArrayBufferView }> => {
      const at = { parameter, clock, pushNumber: 1, scale: 1, gradients: Float32Array.of(value) };
      return kind === "table"
        ? await stage.call(0, rowsPushPull, { ...at, pushKeys: keys, pullKeys: keys }, { again })
        : await stage.call(0, tensorPushPull, { ...at, block: 0, pushRows: rows, pullRows: rows }, { again });
    };
    await assert.rejects(push(1e38, 0), isLost, `${kind}: int8 does not carry it`);
    await assert.rejects(push(1e38, 0, true), isLost, `${kind}: nor when it is answered again`);
    const parked = assert.rejects(push(1e38, 1), isLost, `${kind}: worker 1 does not come`);
    await stage.clock.advance(600_000);
    await parked;
    const { values } = await push(-2e38, 0);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    assert.deepEqual([...bytes], [0, 0, 0x80, 0, 0], `${kind}: both counted once, and the sum is 0 at the smallest scale`);
  }
});
