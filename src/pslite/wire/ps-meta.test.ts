// Metas both ways: whatever is written is read back, and whatever is read never ends the process.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../../base/errors.ts";
import { decodeMeta, EMPTY, encodeMeta, metaBytesMax, PsCommand, PsMeta, signatureOf } from "./ps-meta.ts";
import { isRawMeta } from "./raw-meta.ts";

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

function encoded(meta: PsMeta): Uint8Array {
  const bytes = new Uint8Array(metaBytesMax(meta));
  return bytes.subarray(0, encodeMeta(meta, bytes, 0));
}

function decoded(bytes: Uint8Array): PsMeta {
  const meta = new PsMeta();
  decodeMeta(bytes, 0, bytes.length, meta);
  return meta;
}

const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const node = fc.record(
  {
    role: fc.integer({ min: 0, max: 2 }),
    id: int32,
    hostname: fc.string({ unit: "binary", maxLength: 40 }),
    port: int32,
    isRecovery: fc.boolean(),
    customerId: int32,
  },
  { noNullPrototype: true },
);
const meta = fc
  .record(
    {
      head: int32,
      body: fc.uint8Array({ maxLength: 300 }),
      command: fc.constantFrom(...Object.values(PsCommand)),
      nodes: fc.array(node, { maxLength: 5 }),
      barrierGroup: int32,
      signature: fc.record({ high: uint32, low: uint32 }, { noNullPrototype: true }),
      request: fc.boolean(),
      push: fc.boolean(),
      pull: fc.boolean(),
      simpleApp: fc.boolean(),
      appId: int32,
      timestamp: int32,
      types: fc.array(fc.integer({ min: 0, max: 11 }), { maxLength: 3 }),
      customerId: int32,
      priority: int32,
    },
    { noNullPrototype: true },
  )
  .map(({ types, ...fields }) => {
    const made = Object.assign(new PsMeta(), fields);
    made.dataTypes.push(...types);
    if (made.command === PsCommand.NONE) made.nodes = [];
    if (made.command !== PsCommand.BARRIER) made.barrierGroup = 0;
    if (made.command !== PsCommand.ACK) made.signature = { high: 0, low: 0 };
    return made;
  });

test("every meta is read back as it was written", () => {
  fc.assert(
    fc.property(meta, (original) => {
      const copy = decoded(encoded(original));
      assert.deepEqual({ ...copy, body: [...copy.body] }, { ...original, body: [...original.body] });
    }),
  );
});

test("what ps-lite leaves out is left out, and what it always writes is written", () => {
  const push = new PsMeta();
  Object.assign(push, { head: 0, request: true, push: true, appId: 0, timestamp: 0, customerId: 0 });
  push.dataTypes.push(8, 9);
  assert.equal(hexOf(encoded(push)), "0800200128013000380040004a020809500060006800");
  const terminate = Object.assign(new PsMeta(), { command: PsCommand.TERMINATE, customerId: 0 });
  assert.equal(hexOf(encoded(terminate)), "08ffffffff071a020801200028003000500060006800");
  assert.deepEqual([decoded(encoded(terminate)).appId, decoded(encoded(terminate)).timestamp], [EMPTY, EMPTY]);
});

test("random bytes are a meta or a BAD_FRAME", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        decoded(bytes);
      } catch (thrown) {
        assert.ok(isWeighbridgeError(thrown, "BAD_FRAME"), String(thrown));
      }
    }),
  );
});

test("fields of newer versions are left out, and required ones must be there", () => {
  assert.equal(decoded(Uint8Array.of(0xa0, 0x06, 0x01, 0x08, 0x05, 0xad, 0x06, 1, 2, 3, 4)).head, 5);
  for (const bytes of [Uint8Array.of(0x1a, 0x00), Uint8Array.of(0x1a, 0x04, 0x08, 0x02, 0x12, 0x00)])
    assert.throws(
      () => decoded(bytes),
      (error) => isWeighbridgeError(error, "BAD_FRAME"),
    );
});

test("signatures are ps-lite's", () => {
  const push = Object.assign(new PsMeta(), { appId: 0, timestamp: 0, request: true });
  assert.deepEqual(signatureOf(push, 9, 8), { high: 0x0908, low: 1 });
  const heartbeat = Object.assign(new PsMeta(), { command: PsCommand.HEARTBEAT, timestamp: 5 });
  assert.deepEqual(signatureOf(heartbeat, 265, 1), { high: 0xffff0901, low: 10 });
});

test("a message of bytedance's fork is recognised, and none of ps-lite's is", () => {
  const raw = new Uint8Array(112 + 552);
  const view = new DataView(raw.buffer);
  view.setInt32(0, 32767, true);
  view.setInt32(8, 2, true);
  view.setInt32(12, 1, true);
  assert.ok(isRawMeta(raw, 0, raw.length));
  assert.ok(!isRawMeta(raw, 0, raw.length - 1));
  assert.throws(() => decoded(raw));
  fc.assert(fc.property(meta, (original) => !isRawMeta(encoded(original), 0, encoded(original).length)));
});
