// Goal: sums of all ten types are those of JavaScript's own arrays, wrapped around where they are integers, and touch nothing beside them.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Random } from "../base/random.ts";
import { Arena } from "./arena.ts";
import { putWords } from "./arena-lists.ts";
import { type ElementKernels, simdElementKernels } from "./element-kernels.ts";
import { type ElementArray, ElementType, elementArrayOf, elementBytesOf } from "./elements.ts";
import { PlainElementKernels } from "./plain-element-kernels.ts";

const COUNTS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100];
const GUARD = 0xa5;
const GUARD_BYTES = 16;

type Put = { readonly address: number; readonly values: ElementArray };

/** So many elements with any bits that are no NaN, at any address, between bytes that must stay. */
function put(arena: Arena, type: ElementType, count: number, random: Random): Put {
  const byteCount = count * elementBytesOf(type);
  const span = arena.allocate(byteCount + 3 * GUARD_BYTES);
  arena.bytes.fill(GUARD, span, span + byteCount + 3 * GUARD_BYTES);
  const address = span + GUARD_BYTES + random.below(GUARD_BYTES);
  const bytes = Uint8Array.from({ length: byteCount }, () => random.below(256));
  const values = new (elementArrayOf(type))(bytes.buffer, 0, count);
  if (values instanceof Float32Array || values instanceof Float64Array)
    for (let i = 0; i < count; i++) values[i] = random.below(2 ** 20) / 7;
  arena.bytes.set(bytes, address);
  return { address, values };
}

function bytesOf({ buffer }: ElementArray): number[] {
  return [...new Uint8Array(buffer)];
}

function read(arena: Arena, address: number, byteCount: number): number[] {
  return [...arena.bytes.subarray(address, address + byteCount)];
}

/** As JavaScript's arrays add and wrap. */
function sumOf(one: ElementArray, other: ElementArray): ElementArray {
  const sum = one.slice();
  for (let i = 0; i < sum.length; i++) {
    if (sum instanceof BigInt64Array || sum instanceof BigUint64Array) sum[i] = (one[i] as bigint) + (other[i] as bigint);
    else sum[i] = (one[i] as number) + (other[i] as number);
  }
  return sum;
}

const IMPLEMENTATIONS: Readonly<Record<string, (arena: Arena) => ElementKernels>> = {
  PlainElementKernels: (arena) => new PlainElementKernels(arena),
  simdElementKernels,
};

for (const [name, kernelsOf] of Object.entries(IMPLEMENTATIONS)) {
  describe(name, () => {
    for (const [typeName, type] of Object.entries(ElementType)) {
      test(`${typeName} adds runs of any length at any address, and nothing beside them (E1)`, () => {
        const random = new Random(type + 1);
        for (const count of COUNTS) {
          const arena = new Arena({ bytesMax: 2 ** 19 });
          const [target, source] = [put(arena, type, count, random), put(arena, type, count, random)];
          kernelsOf(arena).addElements(type, target.address, source.address, count);
          const byteCount = count * elementBytesOf(type);
          assert.deepEqual(read(arena, target.address, byteCount), bytesOf(sumOf(target.values, source.values)), `${count} elements`);
          assert.deepEqual(read(arena, source.address, byteCount), bytesOf(source.values));
          assert.deepEqual(read(arena, target.address - GUARD_BYTES, GUARD_BYTES), new Array(GUARD_BYTES).fill(GUARD));
          assert.deepEqual(read(arena, target.address + byteCount, GUARD_BYTES), new Array(GUARD_BYTES).fill(GUARD));
        }
      });

      test(`${typeName} adds to listed rows, to one that is listed twice both times`, () => {
        const random = new Random(type + 100);
        for (const width of [1, 3, 8, 21]) {
          const arena = new Arena({ bytesMax: 2 ** 19 });
          const rows = Array.from({ length: 3 }, () => put(arena, type, width, random));
          const values = put(arena, type, 4 * width, random);
          const list = putWords(
            arena,
            [0, 2, 1, 2].map((row) => rows[row]!.address - 8),
          );
          kernelsOf(arena).addRowElements(type, list, 4, 8, width, values.address);
          const part = (i: number): ElementArray => values.values.slice(i * width, (i + 1) * width);
          const sums = [sumOf(rows[0]!.values, part(0)), sumOf(rows[1]!.values, part(2)), sumOf(sumOf(rows[2]!.values, part(1)), part(3))];
          const byteCount = width * elementBytesOf(type);
          for (const [i, sum] of sums.entries()) {
            assert.deepEqual(read(arena, rows[i]!.address, byteCount), bytesOf(sum), `row ${i} of width ${width}`);
            assert.deepEqual(read(arena, rows[i]!.address + byteCount, GUARD_BYTES), new Array(GUARD_BYTES).fill(GUARD));
          }
        }
      });
    }
  });
}
