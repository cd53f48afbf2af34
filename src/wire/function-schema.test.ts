// function-schema — Goal: what a function takes and gives crosses the wire as it is, and bytes that are none of it are
// refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { joinBytes } from "../base/bytes.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { EncodedFields } from "./frame.ts";
import { type Fields, FunctionSchema, json } from "./function-schema.ts";
import { count, list, object, optional, text } from "./json-body.ts";

const ALL = {
  a: "u32",
  b: "i32",
  c: "f32",
  d: "f64",
  e: "u64",
  f: "bool",
  g: "string",
  h: "u8[]",
  i: "i32[]",
  j: "u32[]",
  k: "f32[]",
  l: "f64[]",
  m: "i64[]",
  n: "u64[]",
} as const satisfies Fields;

const everything = fc.record({
  a: fc.nat(2 ** 32 - 1),
  b: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  c: fc.float(),
  d: fc.double(),
  e: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  f: fc.boolean(),
  g: fc.string({ unit: "grapheme" }),
  h: fc.uint8Array(),
  i: fc.int32Array(),
  j: fc.uint32Array(),
  k: fc.float32Array(),
  l: fc.float64Array(),
  m: fc.bigInt64Array(),
  n: fc.bigUint64Array(),
});

function joined({ chunks, byteCount }: EncodedFields): Uint8Array {
  const whole = joinBytes(chunks);
  assert.equal(whole.length, byteCount);
  return whole;
}

test("every value of every type comes back as it was", () => {
  const schema = new FunctionSchema(ALL, "the request of test");
  fc.assert(
    fc.property(everything, (values) => {
      const bytes = joined(schema.encode(values));
      assert.deepEqual(schema.decode(bytes, 0, bytes.length), { ...values });
    }),
  );
});

test("every truncation is refused before a field is read", () => {
  const schema = new FunctionSchema({ n: "u32", text: "string", values: "f32[]" }, "the request of test");
  const bytes = joined(schema.encode({ n: 1, text: "abc", values: Float32Array.of(1, 2, 3) }));
  for (let length = 0; length < bytes.length; length++) {
    assert.throws(
      () => schema.decode(bytes, 0, length),
      (error) => isWeighbridgeError(error, "BAD_REQUEST"),
      `${length} bytes`,
    );
  }
  const longer = new Uint8Array(bytes.length + 8);
  longer.set(bytes);
  assert.throws(
    () => schema.decode(longer, 0, longer.length),
    (error) => isWeighbridgeError(error, "BAD_REQUEST"),
  );
});

test("random bytes give values or BAD_REQUEST, and never a view outside of them", () => {
  const schema = new FunctionSchema({ a: "u32", text: "string", values: "f64[]" }, "the request of test");
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (random) => {
      const bytes = new Uint8Array(random); // its own, aligned buffer
      try {
        const { values } = schema.decode(bytes, 0, bytes.length);
        assert.ok(values.byteOffset + values.byteLength <= bytes.length);
      } catch (error) {
        assert.ok(isWeighbridgeError(error, "BAD_REQUEST"), String(error));
      }
    }),
  );
});

test("one array alone is its bytes and nothing else, without a copy", () => {
  const schema = new FunctionSchema({ values: "f32[]" }, "the response of test");
  const values = Float32Array.of(1, 2);
  const { chunks, byteCount } = schema.encode({ values });
  assert.equal(byteCount, 8);
  assert.equal(chunks[0]?.buffer, values.buffer);
  assert.throws(
    () => schema.decode(new Uint8Array(8), 0, 6),
    (error) => isWeighbridgeError(error, "BAD_REQUEST"),
  );
});

test("an empty schema is no bytes", () => {
  const schema = new FunctionSchema({}, "the response of test");
  assert.equal(schema.encode({}).byteCount, 0);
  assert.deepEqual(schema.decode(new Uint8Array(0), 0, 0), {});
});

test("a type that does not exist is refused with those that do", () => {
  assert.throws(
    () => new FunctionSchema({ a: "float32" } as unknown as Fields, "the request of test"),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /f32\[\]/.test(error.message),
  );
});

test("a json field carries lists, records and what is left out, and is checked where it is read", () => {
  const fields = { step: "u32", names: json(list(text)), keep: json(object({ count: optional(count) })) } as const;
  const schema = new FunctionSchema(fields, "the request of save");
  const values = { step: 3, names: ["größe", ""], keep: { count: undefined } };
  const bytes = joinBytes(schema.encode(values).chunks);
  assert.deepEqual(schema.decode(bytes, 0, bytes.length), values);
  assert.equal(schema.signature, "{step: u32, names: json, keep: json}");
  const wrong = joinBytes(schema.encode({ ...values, names: [1] as unknown as string[] }).chunks);
  assert.throws(() => schema.decode(wrong, 0, wrong.length), /the request of save\.names\[0\] must be a string, but is 1/);
});

test("a schema of one json field is its text alone", () => {
  const schema = new FunctionSchema({ body: json(object({ a: count })) }, "the request of ask");
  const { chunks, byteCount } = schema.encode({ body: { a: 7 } });
  assert.equal(new TextDecoder().decode(joinBytes(chunks)), '{"a":7}');
  assert.equal(byteCount, 7);
  assert.equal(schema.isOneArray, false);
  assert.throws(() => schema.decode(new TextEncoder().encode("{"), 0, 1), /the request of ask is not JSON/);
});

test("keys and values take arrays of any elements, and are given as u64 and f32 where they have that many bytes, as bytes otherwise", () => {
  const schema = new FunctionSchema({ keys: "keys", values: "values" }, "the request of f");
  const bytesOf = ({ chunks }: EncodedFields): Uint8Array => Uint8Array.from(chunks.flatMap((chunk) => [...chunk]));
  for (const [keys, values] of [
    [BigUint64Array.of(7n, 2n ** 64n - 1n), Float64Array.of(0.1, -2)],
    [Uint8Array.of(1, 2, 3), BigInt64Array.of(-5n)],
    [new BigUint64Array(0), Uint8Array.of(9)],
  ] as const) {
    const encoded = schema.encode({ keys, values });
    const decoded = schema.decode(bytesOf(encoded), 0, encoded.byteCount);
    for (const [given, read, Elements] of [
      [keys, decoded.keys, BigUint64Array],
      [values, decoded.values, Float32Array],
    ] as const) {
      assert.equal(read instanceof Elements, given.byteLength % Elements.BYTES_PER_ELEMENT === 0);
      assert.equal(read.byteOffset % 8, 0);
      assert.deepEqual(new Uint8Array(read.buffer, read.byteOffset, read.byteLength), new Uint8Array(given.buffer));
    }
  }
  assert.deepEqual([schema.keyNames, schema.valueNames], [["keys"], ["values"]]);
  assert.throws(() => schema.encode({ keys: [1n] as never, values: new Float32Array(0) }), /keys must be a typed array/);
});
