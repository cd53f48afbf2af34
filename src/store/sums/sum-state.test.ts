// Goal: sums are state as tables are: frozen at one moment while pushes go on, moved part by part, and restored to what
// they were.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { Arena } from "../../kernel/arena.ts";
import { ElementType, elementBytesOf } from "../../kernel/elements.ts";
import { PART_COUNT, partOf } from "../../keys/part.ts";
import { putKeys, putWords } from "../../testing/arena-lists.ts";
import { simdSumHost } from "../../testing/store-stage.ts";
import type { SumImages } from "./sum-requests.ts";
import type { FrozenSums } from "./sum-state.ts";
import { SumStore } from "./sum-store.ts";

const MIB = 2 ** 20;
const TYPES = [ElementType.F32, ElementType.I64, ElementType.U8, ElementType.I16];
const KEY_COUNT = 500;

/** Sums of whole numbers below 128, so that all types hold them, beside a map of what they are. */
class Stage {
  readonly arena = new Arena({ bytesMax: 64 * MIB });
  readonly store: SumStore;
  /** How often each key was pushed to; each time every element of it was 1. */
  readonly counts = new Map<bigint, number>();
  readonly #type: ElementType;
  readonly #random: Random;

  constructor(type: ElementType, seed: number) {
    this.store = new SumStore({ ...simdSumHost(this.arena), type });
    this.#type = type;
    this.#random = new Random(seed);
  }

  /** Keys have a width each: narrow, odd, and large in one block or two. */
  widthOf(key: bigint): number {
    const bytes = elementBytesOf(this.#type);
    return key % 100n === 0n ? 20_000 / bytes : key === 7n ? 600_000 / bytes : 1 + Number(key % 5n);
  }

  push(): void {
    const random = this.#random;
    const chosen = new Set(Array.from({ length: 1 + random.below(60) }, () => BigInt(random.below(KEY_COUNT))));
    const keys = [...chosen].sort((a, b) => (a < b ? -1 : 1));
    const lens = keys.map((key) => this.widthOf(key));
    const count = lens.reduce((sum, length) => sum + length, 0);
    const byteCount = count * elementBytesOf(this.#type);
    const [keysAt, lensAt, values] = [putKeys(this.arena, keys), putWords(this.arena, lens), this.arena.allocate(byteCount)];
    this.arena.bytes.set(onesOf(this.#type, count), values);
    this.store.pushVariable({ keys: keysAt, keyCount: keys.length, lens: lensAt, values, valueCount: count });
    for (const key of keys) this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
    this.arena.release(keysAt, keys.length * 8);
    this.arena.release(lensAt, keys.length * 4);
    this.arena.release(values, byteCount);
  }

  /** What is frozen, by key: the count that all elements of its value say. */
  thaw(frozen: readonly FrozenSums[]): Map<bigint, number> {
    const found = new Map<bigint, number>();
    const add = (key: bigint, bytes: Uint8Array): void => {
      assert.equal(found.has(key), false, `key ${key} comes once`);
      found.set(key, countIn(this.#type, bytes));
    };
    for (const sums of frozen) {
      const valueBytes = sums.width * elementBytesOf(this.#type);
      if ("values" in sums) {
        for (const { key, blocks } of sums.values) {
          const bytes = blocks.map((block) => this.arena.bytes.slice(block!.address, block!.address + block!.byteCount));
          add(key, Uint8Array.from(bytes.flatMap((part) => [...part])));
          for (const block of blocks) block?.release();
        }
        continue;
      }
      const rowsMax = 16;
      const [keys, values] = [this.arena.allocate(rowsMax * 8), this.arena.allocate(rowsMax * valueBytes)];
      const columns = [
        { offset: -8, byteCount: 8, address: keys },
        { offset: 0, byteCount: valueBytes, address: values },
      ];
      for (let taken = sums.rows.take(rowsMax, columns); taken >= 0; taken = sums.rows.take(rowsMax, columns)) {
        for (let i = 0; i < taken; i++)
          add(
            new BigUint64Array(this.arena.memory.buffer, keys + i * 8, 1)[0]!,
            this.arena.bytes.slice(values + i * valueBytes, values + (i + 1) * valueBytes),
          );
        this.push();
      }
      sums.rows.close();
      this.arena.release(keys, rowsMax * 8);
      this.arena.release(values, rowsMax * valueBytes);
    }
    return found;
  }

  /** All sums, part by part. */
  save(): SumImages[] {
    return Array.from({ length: PART_COUNT }, (_, part) => [...this.store.savePart(part)]).flat();
  }
}

function onesOf(type: ElementType, count: number): Uint8Array {
  if (type === ElementType.F32) return new Uint8Array(new Float32Array(count).fill(1).buffer);
  const bytes = new Uint8Array(count * elementBytesOf(type));
  for (let i = 0; i < count; i++) bytes[i * elementBytesOf(type)] = 1;
  return bytes;
}

/** The number that all elements of a value are. */
function countIn(type: ElementType, bytes: Uint8Array): number {
  const elementBytes = elementBytesOf(type);
  const count = type === ElementType.F32 ? new Float32Array(bytes.buffer, 0, 1)[0]! : bytes[0]!;
  assert.deepEqual(
    bytes,
    Uint8Array.from({ length: bytes.length }, (_, i) => bytes[i % elementBytes]!),
    "all elements are the same",
  );
  return count;
}

test("what is frozen is what there was, each key once, whatever is pushed while it is taken; then all memory is back (SumStore.V5)", () => {
  for (const [index, type] of TYPES.entries()) {
    for (let seed = 1; seed <= 5; seed++) {
      const stage = new Stage(type, 100 * index + seed);
      const { usedBytes } = stage.arena;
      for (let i = 0; i < 4; i++) stage.push();
      for (let times = 0; times < 2; times++) {
        const expected = new Map(stage.counts);
        const frozen = stage.store.freeze();
        for (let i = 0; i < 3; i++) stage.push();
        const found = stage.thaw(frozen);
        assert.deepEqual(found, expected, `type ${type}, seed ${seed}`);
        assert.equal(stage.store.retiredBytes, 0);
      }
      stage.store.close();
      assert.equal(stage.arena.usedBytes, usedBytes);
    }
  }
});

test("one width of floats is pushed to by one kernel call again once what was frozen is closed", () => {
  const arena = new Arena({ bytesMax: MIB });
  const host = simdSumHost(arena);
  const calls: string[] = [];
  const kernels = new Proxy(host.kernels, {
    get: (target, property: keyof typeof host.kernels) => {
      const member = target[property] as (...args: number[]) => number;
      return (...args: number[]): number => {
        calls.push(property);
        return member.apply(target, args);
      };
    },
  });
  const store = new SumStore({ ...host, kernels });
  const request = { keys: putKeys(arena, [1n, 2n]), keyCount: 2, width: 2, values: arena.allocate(16) };
  store.push(request);
  const [frozen] = store.freeze();
  store.push(request);
  assert.ok(frozen !== undefined && "rows" in frozen);
  assert.ok(frozen.rows.asideCount > 0, "rows were set aside");
  frozen.rows.close();
  store.push(request);
  calls.length = 0;
  store.push(request);
  assert.deepEqual(calls, ["checkAscending", "addRows"]);
});

test("parts are saved, counted, dropped and put again, twice as once; those of other parts stay", () => {
  for (const type of TYPES) {
    const [from, to] = [new Stage(type, 3), new Stage(type, 4)];
    for (let i = 0; i < 8; i++) from.push();
    const images = from.save();
    for (const image of [...images, ...images]) to.store.put(image);
    assert.equal(to.store.keyCount, from.counts.size);
    assert.deepEqual(to.thaw(to.store.freeze()), from.counts);
    const key = [...from.counts.keys()].find((other) => other % 100n === 0n)!; // a large one
    const part = partOf(Number(key), 0);
    const inPart = [...from.counts.keys()].filter((other) => partOf(Number(other), 0) === part);
    assert.equal(from.store.countPart(part), inPart.length);
    assert.equal(from.store.dropPart(part), inPart.length);
    assert.deepEqual([from.store.countPart(part), from.store.dropPart(part), [...from.store.savePart(part)]], [0, 0, []]);
    assert.equal(from.store.keyCount, from.counts.size - inPart.length);
  }
});

test("a part that is dropped while it is frozen is in what was frozen", () => {
  for (const type of TYPES) {
    const stage = new Stage(type, 9);
    for (let i = 0; i < 8; i++) stage.push();
    const expected = new Map(stage.counts);
    const frozen = stage.store.freeze();
    for (let part = 0; part < PART_COUNT; part++) stage.store.dropPart(part);
    assert.equal(stage.store.keyCount, 0);
    assert.deepEqual(stage.thaw(frozen), expected);
  }
});
