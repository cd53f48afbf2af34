// Goal: a SumStore agrees with a Map of arrays, whatever the widths; what it refuses leaves no trace.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { Arena } from "../../kernel/arena.ts";
import { type ElementArray, ElementType, elementArrayOf, elementBytesOf } from "../../kernel/elements.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { putFloats, putKeys, putWords, readFloats, readWords } from "../../testing/arena-lists.ts";
import { plainSumHost, simdSumHost } from "../../testing/store-stage.ts";
import { BLOCK_BYTES } from "./large-value.ts";
import type { SumHost } from "./sum-requests.ts";
import { SumStore } from "./sum-store.ts";
import { LARGE_BYTES_MIN } from "./sum-tables.ts";

const KEY_MAX = 2n ** 64n - 1n;
const MIB = 2 ** 20;
const SECRET = 42n;
const BLOCK_FLOATS = BLOCK_BYTES / 4;
const LARGE_WIDTH_MIN = LARGE_BYTES_MIN / 4;

/** A store with ways to call it on plain arrays. The arena's spans for requests are released at once. */
class Bench {
  readonly arena: Arena;
  readonly store: SumStore;

  constructor(bytesMax: number = 16 * MIB, open: (arena: Arena) => SumHost = simdSumHost) {
    this.arena = new Arena({ bytesMax });
    this.store = new SumStore({ ...open(this.arena), secret: SECRET });
  }

  push(keys: readonly bigint[], width: number, values: ArrayLike<number>): void {
    this.#with([keys], [values], ([keysAt, valuesAt]) => {
      this.store.push({ keys: keysAt!, keyCount: keys.length, width, values: valuesAt! });
    });
  }

  pushVariable(keys: readonly bigint[], lens: readonly number[], values: ArrayLike<number>): void {
    const lensAt = putWords(this.arena, lens);
    try {
      this.#with([keys], [values], ([keysAt, valuesAt]) => {
        const valueCount = values.length;
        this.store.pushVariable({ keys: keysAt!, keyCount: keys.length, lens: lensAt, values: valuesAt!, valueCount });
      });
    } finally {
      this.arena.release(lensAt, Math.max(4, lens.length * 4));
    }
  }

  pull(keys: readonly bigint[], width: number): Float32Array {
    const out = new Float32Array(keys.length * width).fill(Number.NaN);
    return this.#with([keys], [out], ([keysAt, outAt]) => {
      this.store.pull({ keys: keysAt!, keyCount: keys.length, width, out: outAt! });
      return readFloats(this.arena, outAt!, out.length);
    });
  }

  lengths(keys: readonly bigint[]): number[] {
    return this.#with([keys], [keys.map(() => 7)], ([keysAt, lensAt]) => {
      const sum = this.store.lengths(keysAt!, keys.length, lensAt!);
      const lens = [...readWords(this.arena, lensAt!, keys.length)];
      assert.equal(
        sum,
        lens.reduce((a, b) => a + b, 0),
      );
      return lens;
    });
  }

  pullVariable(keys: readonly bigint[]): Float32Array {
    const lens = this.lengths(keys);
    const total = lens.reduce((a, b) => a + b, 0);
    const lensAt = putWords(this.arena, lens);
    return this.#with([keys], [new Float32Array(total)], ([keysAt, outAt]) => {
      const count = this.store.pullVariable({ keys: keysAt!, keyCount: keys.length, lens: lensAt, out: outAt! });
      assert.equal(count, total);
      this.arena.release(lensAt, Math.max(4, lens.length * 4));
      return readFloats(this.arena, outAt!, total);
    });
  }

  pushBlock(key: bigint, width: number, blockIndex: number, values: ArrayLike<number>): void {
    this.#with([[key]], [values], ([keyAt, valuesAt]) => {
      this.store.pushBlock({ key: keyAt!, width, blockIndex, values: valuesAt!, elementCount: values.length });
    });
  }

  #with<T>(keyLists: readonly (readonly bigint[])[], floatLists: readonly ArrayLike<number>[], use: (addresses: number[]) => T): T {
    const spans: [number, number][] = [];
    try {
      for (const keys of keyLists) spans.push([putKeys(this.arena, keys), Math.max(8, keys.length * 8)]);
      for (const floats of floatLists) spans.push([putFloats(this.arena, floats), Math.max(4, floats.length * 4)]);
      return use(spans.map(([address]) => address));
    } finally {
      for (const [address, byteCount] of spans) this.arena.release(address, byteCount);
    }
  }
}

function ramp(count: number, from = 1): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => from + i / 8);
}

function sum(a: Float32Array, b: Float32Array): Float32Array {
  return a.map((value, i) => value + b[i]!);
}

const WIDTHS = [1, 1, 2, 3, 8, 65, LARGE_WIDTH_MIN - 1, LARGE_WIDTH_MIN, 5000];
const REQUEST_BYTES = 40 * (8 + 4 + 5000 * 4);

type Step = { readonly keys: readonly bigint[]; readonly lens: readonly number[] };

/** Mostly each key with a width of its own, so that pushes succeed; now and then a zero length or a wrong width. */
function randomStep(random: Random): Step {
  const isUniform = random.chance(0.4);
  const width = WIDTHS[random.below(WIDTHS.length)]!;
  const widthOf = (key: bigint): number => WIDTHS[Number(key % BigInt(WIDTHS.length))]!;
  const universe = [KEY_MAX, 2n ** 63n, ...Array.from({ length: 400 }, (_, i) => BigInt(i))];
  const keys = Array.from({ length: 1 + random.below(40) }, () => universe[random.below(universe.length)]!)
    .filter((key) => !isUniform || widthOf(key) === width || random.chance(0.01))
    .sort((a, b) => (a < b ? -1 : 1))
    .filter((key, i, sorted) => key !== sorted[i - 1]);
  const odd = (key: bigint): number => (random.chance(0.02) ? 0 : random.chance(0.005) ? 7 : widthOf(key));
  return { keys, lens: keys.map((key) => (isUniform ? width : odd(key))) };
}

/** Applies pushes to store and oracle; the store's refusals must be the oracle's, or ARENA_FULL, and change nothing. */
function checkAgainstMap(
  bench: Bench,
  random: Random,
  stepCount: number,
): { appliedCount: number; refusedCount: number; fullCount: number } {
  const { arena, store } = bench;
  const request = arena.allocate(REQUEST_BYTES);
  const oracle = new Map<bigint, Float32Array>();
  const counts = { appliedCount: 0, refusedCount: 0, fullCount: 0 };
  for (let step = 0; step < stepCount; step++) {
    const { keys, lens } = randomStep(random);
    const valueCount = lens.reduce((a, b) => a + b, 0);
    const values = ramp(valueCount, random.below(100));
    const isLegal = keys.every((key, i) => lens[i] === 0 || (oracle.get(key)?.length ?? lens[i]) === lens[i]);
    const keysAt = request;
    const lensAt = keysAt + keys.length * 8;
    const valuesAt = lensAt + lens.length * 4;
    for (const [i, key] of keys.entries()) arena.words.set([Number(key & 0xffff_ffffn), Number(key >> 32n)], keysAt / 4 + i * 2);
    arena.words.set(lens, lensAt / 4);
    arena.floats.set(values, valuesAt / 4);
    try {
      if (new Set(lens).size === 1 && lens[0] !== 0) store.push({ keys: keysAt, keyCount: keys.length, width: lens[0]!, values: valuesAt });
      else store.pushVariable({ keys: keysAt, keyCount: keys.length, lens: lensAt, values: valuesAt, valueCount });
      assert.ok(isLegal, "an illegal push went through");
      counts.appliedCount++;
      let from = 0;
      for (const [i, key] of keys.entries()) {
        const part = values.subarray(from, from + lens[i]!);
        from += lens[i]!;
        if (part.length > 0) oracle.set(key, sum(oracle.get(key) ?? new Float32Array(part.length), part));
      }
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "ARENA_FULL")) counts.fullCount++;
      else if (!isLegal && isWeighbridgeError(thrown, "VALUE_LENGTH")) counts.refusedCount++;
      else throw thrown;
    }
    assert.equal(store.keyCount, oracle.size);
  }
  for (const [key, value] of oracle) {
    arena.words.set([Number(key & 0xffff_ffffn), Number(key >> 32n)], request / 4);
    assert.equal(store.lengths(request, 1, request + 8), value.length);
    store.pull({ keys: request, keyCount: 1, width: value.length, out: request + 8 });
    assert.deepEqual(readFloats(arena, request + 8, value.length), value);
  }
  return counts;
}

for (const { name, open } of [
  { name: "SimdKernels", open: simdSumHost },
  { name: "PlainKernels", open: plainSumHost },
]) {
  describe(`SumStore on ${name}`, () => {
    test("agrees with a Map over random pushes of all widths", () => {
      fc.assert(
        fc.property(fc.nat(), (seed) => {
          const { appliedCount, fullCount } = checkAgainstMap(new Bench(24 * MIB, open), new Random(seed), 25);
          assert.ok(appliedCount > 5 && fullCount === 0);
        }),
        { numRuns: 10 },
      );
    });

    test("a push that finds the arena full leaves everything as it was, and smaller ones go on (SumStore.V2)", () => {
      fc.assert(
        fc.property(fc.nat(), (seed) => {
          const { appliedCount, fullCount } = checkAgainstMap(new Bench(1.75 * MIB, open), new Random(seed), 60);
          assert.ok(appliedCount > 10 && fullCount > 5, `${appliedCount} applied, ${fullCount} times full`);
        }),
        { numRuns: 12 },
      );
    });
  });
}

test("pushes of one key add up, and unknown keys read as zeros without being created (SumStore.V3)", () => {
  const bench = new Bench();
  bench.push([5n], 3, [1, 2, 3]);
  bench.push([0n, 5n, KEY_MAX], 3, [1, 1, 1, 10, 20, 30, 9, 9, 9]);
  assert.deepEqual([...bench.pull([0n, 4n, 5n, KEY_MAX], 3)], [1, 1, 1, 0, 0, 0, 11, 22, 33, 9, 9, 9]);
  assert.deepEqual([...bench.pull([7n], 1)], [0]);
  assert.equal(bench.store.keyCount, 3);
});

test("keys that do not ascend are refused by name, and nothing is applied", () => {
  const bench = new Bench();
  assert.throws(() => bench.push([1n, 3n, 3n], 1, [1, 1, 1]), { code: "KEYS_NOT_ASCENDING", message: /key 2 of 3 is 3,.* 3 before/ });
  assert.throws(() => bench.pushVariable([2n, 1n], [1, 2], [1, 1, 1]), { code: "KEYS_NOT_ASCENDING" });
  assert.equal(bench.store.keyCount, 0);
});

test("a key keeps its width: pushes and pulls of another one are refused, naming key, expected and actual (SumStore.V1)", () => {
  const bench = new Bench();
  const refusal = { code: "VALUE_LENGTH", message: "key 18446744073709551615 has 2 values, the request has 3" };
  const check = (): void => {
    assert.throws(() => bench.push([1n, KEY_MAX], 3, ramp(6)), refusal);
    assert.throws(() => bench.pushVariable([1n, KEY_MAX], [7, 3], ramp(10)), refusal);
    assert.throws(() => bench.pull([1n, KEY_MAX], 3), refusal);
    assert.throws(() => bench.pushBlock(KEY_MAX, 5000, 0, ramp(5000)), { code: "VALUE_LENGTH" });
    assert.throws(() => bench.store.holdBlock(putKeys(bench.arena, [KEY_MAX]), 5000, 0), { code: "VALUE_LENGTH" });
    assert.deepEqual(bench.lengths([1n, KEY_MAX]), [0, 2]);
  };
  bench.push([KEY_MAX], 2, [1, 2]);
  check();
  const before = bench.store.usedBytes;
  check();
  assert.equal(bench.store.usedBytes, before, "a refused width makes no table");
  bench.push([9n], 5, ramp(5)); // from here on there are several widths
  check();
  assert.deepEqual([...bench.pull([KEY_MAX], 2)], [1, 2]);
});

test("a second width takes over the keys of the first, however many", () => {
  const bench = new Bench();
  const keys = Array.from({ length: 20_000 }, (_, i) => BigInt(i * 3));
  bench.push(keys, 1, ramp(20_000));
  bench.push([1n], 2, [1, 2]);
  assert.equal(bench.store.keyCount, 20_001);
  assert.deepEqual(bench.lengths([0n, 1n, 2n, 59_997n]), [1, 2, 0, 1]);
  assert.deepEqual(bench.pull(keys, 1), ramp(20_000));
  assert.throws(() => bench.push([3n], 2, [1, 2]), { code: "VALUE_LENGTH" });
});

test("lengths that make no sense are refused; zero lengths do nothing", () => {
  const bench = new Bench();
  assert.throws(() => bench.pushVariable([1n, 2n], [1, 2], ramp(4)), { code: "BAD_REQUEST", message: /add up to 3, but 4/ });
  assert.throws(() => bench.pushVariable([1n, 2n], [4, -1], ramp(3)), { code: "BAD_REQUEST", message: /negative/ });
  assert.throws(() => bench.push([1n], 0, []), { code: "BAD_REQUEST" });
  bench.pushVariable([1n, 2n, 3n, 4n], [0, 2, 0, 2], ramp(4));
  bench.pushVariable([8n, 9n], [0, 0], []);
  assert.equal(bench.store.keyCount, 2);
  assert.deepEqual(bench.lengths([1n, 2n, 3n, 4n, 8n]), [0, 2, 0, 2, 0]);
});

test("pullVariable gives values of many widths one after the other, large ones too", () => {
  const bench = new Bench();
  const width = BLOCK_FLOATS + 10;
  bench.pushVariable([1n, 2n, 3n, 5n], [2, 2, 1, width], ramp(5 + width));
  assert.deepEqual(bench.pullVariable([1n, 2n, 3n, 4n, 5n]), ramp(5 + width));
  assert.deepEqual(bench.pull([5n], width), ramp(5 + width).slice(5));
  assert.deepEqual(bench.pull([5n, 6n], width).slice(width - 1, width + 1), Float32Array.of(ramp(5 + width)[4 + width]!, 0));
});

test("one pull and one push of a sole width take one call each, and the check of the keys one more", () => {
  const arena = new Arena({ bytesMax: MIB });
  const calls: string[] = [];
  const real = new SimdKernels(arena);
  const kernels = new Proxy(real, {
    get: (target, property: keyof Kernels) => {
      const member = target[property] as (...args: number[]) => number;
      return (...args: number[]): number => {
        calls.push(property);
        return member.apply(target, args);
      };
    },
  });
  const store = new SumStore({ ...simdSumHost(arena), kernels });
  const request = { keys: putKeys(arena, [1n, 2n]), keyCount: 2, width: 2, values: putFloats(arena, ramp(4)) };
  store.push(request);
  calls.length = 0;
  store.push(request);
  store.push({ ...request, keyCount: 1 });
  store.pull({ ...request, out: request.values });
  assert.deepEqual(calls, ["checkAscending", "addRows", "addRows", "gatherRows"]);
});

test("close gives all memory back to the arena", () => {
  const bench = new Bench();
  const used = bench.arena.usedBytes;
  bench.push([1n, 2n], 1, [1, 2]);
  bench.push([3n, 4n], 700, ramp(1400));
  bench.pushBlock(5n, BLOCK_FLOATS + 1, 1, [1]);
  assert.ok(bench.store.usedBytes > 0 && bench.arena.usedBytes - used >= bench.store.usedBytes);
  bench.store.close();
  assert.equal(bench.arena.usedBytes, used);
  assert.equal(bench.store.keyCount, 0);
});

const TYPES = Object.values(ElementType);

/** So many elements of a type, counted from `from` on, and what they come to when they are pushed twice. */
function counted(type: ElementType, count: number, from: number): { readonly values: ElementArray; readonly twice: ElementArray } {
  const values = new (elementArrayOf(type))(new ArrayBuffer(count * elementBytesOf(type)), 0, count);
  for (let i = 0; i < count; i++) {
    if (values instanceof BigInt64Array || values instanceof BigUint64Array) values[i] = 2n ** 62n + BigInt(from + i);
    else values[i] = type === ElementType.F32 || type === ElementType.F64 ? from + i / 8 : 100 + from + i;
  }
  const twice = values.slice();
  for (let i = 0; i < count; i++) {
    if (twice instanceof BigInt64Array || twice instanceof BigUint64Array) twice[i]! += values[i] as bigint;
    else twice[i]! += values[i] as number;
  }
  return { values, twice };
}

function bytesOf({ buffer, byteOffset, byteLength }: ElementArray): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A store of any type, called with bytes. */
class TypedBench {
  readonly arena: Arena;
  readonly store: SumStore;

  constructor(type: ElementType, bytesMax: number = 16 * MIB, open: (arena: Arena) => SumHost = simdSumHost) {
    this.arena = new Arena({ bytesMax });
    this.store = new SumStore({ ...open(this.arena), type, secret: SECRET });
  }

  push(keys: readonly bigint[], lens: readonly number[], values: ElementArray): void {
    const keysAt = putKeys(this.arena, keys);
    const lensAt = putWords(this.arena, lens);
    const valuesAt = this.arena.allocate(Math.max(1, values.byteLength));
    this.arena.bytes.set(bytesOf(values), valuesAt);
    try {
      this.store.pushVariable({ keys: keysAt, keyCount: keys.length, lens: lensAt, values: valuesAt, valueCount: values.length });
    } finally {
      this.arena.release(keysAt, Math.max(8, keys.length * 8));
      this.arena.release(lensAt, Math.max(4, lens.length * 4));
      this.arena.release(valuesAt, Math.max(1, values.byteLength));
    }
  }

  /** The values of the keys, one after the other, as bytes. */
  pull(keys: readonly bigint[]): Uint8Array {
    const keysAt = putKeys(this.arena, keys);
    const lensAt = putWords(this.arena, new Uint32Array(keys.length));
    const byteCount = this.store.lengths(keysAt, keys.length, lensAt) * this.store.elementBytes;
    const out = this.arena.allocate(byteCount + 1);
    this.arena.bytes.fill(0xa5, out, out + byteCount + 1);
    this.store.pullVariable({ keys: keysAt, keyCount: keys.length, lens: lensAt, out });
    const bytes = this.arena.bytes.slice(out, out + byteCount);
    assert.equal(this.arena.bytes[out + byteCount], 0xa5, "nothing is written behind the values");
    this.arena.release(keysAt, Math.max(8, keys.length * 8));
    this.arena.release(lensAt, Math.max(4, keys.length * 4));
    this.arena.release(out, byteCount + 1);
    return bytes;
  }
}

for (const { name, open } of [
  { name: "SimdKernels", open: simdSumHost },
  { name: "PlainKernels", open: plainSumHost },
]) {
  test(`sums of all ten types, of narrow, odd and large widths side by side, wrap around as they do in C++ (SumStore.V4; ${name})`, () => {
    for (const type of TYPES) {
      const large = LARGE_BYTES_MIN / elementBytesOf(type);
      const [keys, lens] = [
        [1n, 2n, 3n, 4n, 5n, KEY_MAX],
        [1, 3, 3, 64, large, large + 1],
      ];
      const { values, twice } = counted(
        type,
        lens.reduce((total, length) => total + length, 0),
        3,
      );
      const bench = new TypedBench(type, 16 * MIB, open);
      bench.push(keys, lens, values);
      bench.push(keys, lens, values);
      assert.deepEqual(bench.pull(keys), bytesOf(twice), `type ${type}`);
      assert.throws(() => bench.push([2n, 9n], [2, 3], counted(type, 5, 0).values), { code: "VALUE_LENGTH" });
      assert.equal(bench.store.keyCount, 6);
      assert.deepEqual(bench.pull(keys), bytesOf(twice));
    }
  });
}

test("a push of any type that there is no room for is ARENA_FULL, and the sums stay as they were; what is there takes pushes still (SumStore.V2)", () => {
  for (const type of TYPES) {
    const bench = new TypedBench(type, MIB);
    const width = 96 / elementBytesOf(type);
    const { values, twice } = counted(type, width, 0);
    const keys = Array.from({ length: 40_000 }, (_, i) => BigInt(i));
    let pushed = 0;
    assert.throws(
      () => {
        for (; pushed < keys.length; pushed++) bench.push([keys[pushed]!], [width], values);
      },
      { code: "ARENA_FULL" },
    );
    assert.ok(pushed > 1000 && pushed < keys.length, `${pushed} keys`);
    assert.throws(() => bench.push([0n, keys[pushed]!], [width, width], counted(type, 2 * width, 0).values), { code: "ARENA_FULL" });
    assert.equal(bench.store.keyCount, pushed);
    assert.deepEqual(bench.pull([0n]), bytesOf(values));
    bench.push([0n], [width], values);
    assert.deepEqual(bench.pull([0n]), bytesOf(twice));
  }
});

test("an empty store is of any type, one with keys of its own alone (SumStore.V4)", () => {
  const bench = new TypedBench(ElementType.F32);
  bench.store.use(ElementType.I16);
  bench.store.use(ElementType.F64);
  bench.push([1n], [1], Float64Array.of(1));
  assert.throws(() => bench.store.use(ElementType.F32), { code: "UNSUPPORTED", message: /holds Float64Array values.*no Float32Array/ });
  assert.throws(() => bench.store.use(10), { code: "BAD_REQUEST" });
  bench.store.suspend();
  assert.throws(() => bench.store.use(ElementType.F64), { code: "QUEUE_FULL" });
  bench.store.resume();
  assert.equal(bench.store.type, ElementType.F64);
});
