// Goal: sums of spans and their copies equal the reference bit for bit, for every type, count, offset and length, in
// place too, and from two instances over one memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { putWords } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { ElementType, elementArrayOf, elementBytesOf } from "./elements.ts";
import { PlainReduceKernels } from "./plain-reduce-kernels.ts";
import { type ReduceKernels, simdReduceKernels } from "./reduce-kernels.ts";

const MIB = 2 ** 20;
const TYPES = [ElementType.F32, ElementType.F64, ElementType.I32, ElementType.I64] as const;

type Case = {
  readonly type: ElementType;
  readonly sources: number;
  readonly targets: number;
  readonly first: number;
  readonly count: number;
};

/** All bytes after one call, with sources of drawn bits; a third of the targets are sources. */
function reduced(open: (arena: Arena) => ReduceKernels, seed: number, { type, sources, targets, first, count }: Case): Uint8Array {
  const arena = new Arena({ bytesMax: 4 * MIB });
  const random = new Random(seed);
  const elementBytes = elementBytesOf(type);
  const spanBytes = (first + count) * elementBytes + 64;
  const TypedArray = elementArrayOf(type);
  const spans = Array.from({ length: sources }, () => {
    const span = arena.allocate(spanBytes);
    const isFloat = type === ElementType.F32 || type === ElementType.F64;
    const elements = new TypedArray(arena.memory.buffer, span, first + count) as Float64Array | BigInt64Array;
    for (let i = 0; i < elements.length; i++) {
      const drawn = random.below(2 ** 31) - 2 ** 30;
      if (elements instanceof BigInt64Array) elements[i] = BigInt(drawn) << 33n;
      else elements[i] = isFloat ? drawn / 2 ** (random.below(40) + 1) : drawn * 2;
    }
    return span;
  });
  const wanted = Array.from({ length: targets }, (_, i) => (i % 3 === 2 ? spans[i % sources]! : arena.allocate(spanBytes)));
  const result = arena.allocate(spanBytes);
  const [sourceList, targetList] = [putWords(arena, spans), putWords(arena, wanted.length === 0 ? [0] : wanted)];
  open(arena).reduceSpans(type, result, sourceList, sources, targetList, targets, first * elementBytes, count * elementBytes);
  return arena.bytes.slice(0, arena.usedBytes + 2 ** 16);
}

test("sums and copies are those of the reference, for every type, count of sources and targets, offset and length (ReduceKernels.D1, ReduceKernels.D2)", () => {
  const random = new Random(7);
  for (let seed = 1; seed <= 200; seed++) {
    const drawn: Case = {
      ...{ type: TYPES[random.below(4)]!, sources: 1 + random.below(9), targets: random.below(5) },
      ...{ first: random.below(20), count: [1, 3, 17, 64, 1023, 2048, 5001][random.below(7)]! },
    };
    const expected = reduced((arena) => new PlainReduceKernels(arena), seed, drawn);
    assert.deepEqual(reduced(simdReduceKernels, seed, drawn), expected, `seed ${seed}: ${JSON.stringify(drawn)}`);
  }
});

test("an arena over the memory of another has its spans, and sums them", () => {
  const arena = new Arena({ bytesMax: MIB });
  const spans = [1, 2, 3].map((value) => {
    const span = arena.allocate(64);
    arena.floats.fill(value, span / 4, span / 4 + 16);
    return span;
  });
  const [list, result] = [putWords(arena, spans), arena.allocate(64)];
  const other = new Arena({ opened: arena.memory });
  assert.equal(other.usedBytes, arena.usedBytes);
  simdReduceKernels(other).reduceSpans(ElementType.F32, result, list, 3, list, 0, 0, 64);
  assert.deepEqual([...arena.floats.subarray(result / 4, result / 4 + 16)], new Array<number>(16).fill(6));
  const span = other.allocate(64);
  assert.notEqual(arena.allocate(64), span);
});
