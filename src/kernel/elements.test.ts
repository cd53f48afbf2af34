// Goal: numbers of all ten types have their numbers, bytes and arrays, and no others do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ElementArray, ElementType, elementArrayOf, elementBytesOf, elementTypeOf, isElementType } from "./elements.ts";

test("each of the ten types has its number and its array", () => {
  const arrays = [
    Float32Array,
    Float64Array,
    Int8Array,
    Uint8Array,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    BigInt64Array,
    BigUint64Array,
  ];
  assert.deepEqual(Object.values(ElementType), [...arrays.keys()]);
  for (const [type, array] of arrays.entries()) {
    assert.ok(isElementType(type));
    assert.equal(elementTypeOf(new array(2)), type);
    assert.equal(elementArrayOf(type), array);
    assert.equal(elementBytesOf(type), array.BYTES_PER_ELEMENT);
  }
});

test("other numbers and other arrays are no type's; a subclass of Float32Array is floats", () => {
  assert.equal(elementTypeOf(new (class extends Float32Array {})(1)), ElementType.F32);
  for (const values of [new Uint8ClampedArray(1), new DataView(new ArrayBuffer(1)), [1]])
    assert.equal(elementTypeOf(values as unknown as ElementArray), -1);
  for (const type of [10, 11, 255, -1, 0.5]) {
    assert.equal(isElementType(type), false);
    assert.equal(elementArrayOf(type), undefined);
  }
});
