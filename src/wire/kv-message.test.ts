// Goal: the flags of kv messages do not touch each other, nor the number of the values' type.
//
// Goal: the frames of a kv request become its keys, values and lens again, each once, in order.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../base/bytes.ts";
import { APP_CUT, FrameHeader } from "./frame.ts";
import { dtypeBits, dtypeOfFlags, KvAssembly, KvFlag } from "./kv-message.ts";

test("a type shares the flags with every flag there is, APP_CUT too", () => {
  const all = Object.values(KvFlag).reduce((flags, flag) => flags | flag, 0);
  assert.equal(
    Object.values(KvFlag).reduce((sum, flag) => sum + flag, 0),
    all,
    "no two are the same bit",
  );
  for (let dtype = 0; dtype < 128; dtype++) {
    const flags = dtypeBits(dtype) | all | APP_CUT;
    assert.equal(dtypeOfFlags(flags), dtype);
    assert.equal(flags & all, all);
    assert.ok(flags <= 0xffff);
  }
});

function addFrame(assembly: KvAssembly, payload: readonly ArrayBufferView[], fields: Partial<FrameHeader>): void {
  const bytes = joinBytes(payload.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)));
  const header = Object.assign(new FrameHeader(), { payloadBytes: bytes.length, ...fields });
  assembly.add(header, (list, from, to) => list.push(bytes.subarray(from, to)));
}

const keysOf = ({ keys }: KvAssembly): bigint[] => [...new BigUint64Array(joinBytes(keys).buffer)];
const valuesOf = ({ values }: KvAssembly): number[] => [...new Float32Array(joinBytes(values).buffer)];
const lensOf = ({ lens }: KvAssembly): number[] => [...new Int32Array(joinBytes(lens).buffer)];

test("frames with as many values for each key follow each other, and there are no lens", () => {
  const assembly = new KvAssembly();
  addFrame(assembly, [BigUint64Array.of(1n, 2n), Float32Array.of(1, 2, 3, 4)], { arg0: 2, arg1: 2 });
  addFrame(assembly, [BigUint64Array.of(9n), Float32Array.of(5, 6)], { arg0: 1, arg1: 2 });
  assert.deepEqual([keysOf(assembly), valuesOf(assembly), lensOf(assembly)], [[1n, 2n, 9n], [1, 2, 3, 4, 5, 6], []]);
});

test("the key of a value in pieces is there once, and its length with it where lengths differ", () => {
  const assembly = new KvAssembly();
  const piece = { flags: KvFlag.PIECE | KvFlag.VARIABLE, arg0: 1, arg1: 3 };
  addFrame(assembly, [BigUint64Array.of(1n, 2n), Float32Array.of(1), Int32Array.of(0, 1)], {
    flags: KvFlag.LENS | KvFlag.VARIABLE,
    arg0: 2,
  });
  addFrame(assembly, [BigUint64Array.of(7n), Float32Array.of(2, 3)], { ...piece, arg2: 0 });
  addFrame(assembly, [BigUint64Array.of(7n), Float32Array.of(4)], { ...piece, arg2: 2 });
  assert.deepEqual(
    [keysOf(assembly), valuesOf(assembly), lensOf(assembly)],
    [
      [1n, 2n, 7n],
      [1, 2, 3, 4],
      [0, 1, 3],
    ],
  );
});

test("a frame without values, as of a pull, adds keys alone", () => {
  const assembly = new KvAssembly();
  addFrame(assembly, [BigUint64Array.of(3n)], { arg0: 1, arg1: 1 });
  assert.deepEqual([keysOf(assembly), assembly.values, assembly.lens], [[3n], [], []]);
});
