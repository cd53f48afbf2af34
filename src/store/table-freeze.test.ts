// Goal: whatever happens to a table while it is handed out, what is handed out is the table as it was, bit for bit.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { PlainKernels } from "../kernel/plain-kernels.ts";
import { PlainRowKernels } from "../kernel/plain-row-kernels.ts";
import { simdRowKernels } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { NEVER_TRIED } from "../testing/store-stage.ts";
import type { TableFreeze } from "./table-freeze.ts";
import { TableStore } from "./table-store.ts";

const WIDTH = 2;
const KEYS_MAX = 20_000;

/** A table that adds, with versions, and room for requests of up to KEYS_MAX keys. */
class Stage {
  readonly arena: Arena;
  readonly store: TableStore;
  readonly #keys: number;
  readonly #values: number;

  constructor(kind: "simd" | "plain", bytesMax = 64 << 20) {
    this.arena = new Arena({ bytesMax, shared: false });
    const kernels: Kernels = kind === "simd" ? new SimdKernels(this.arena) : new PlainKernels(this.arena);
    const rowKernels = kind === "simd" ? simdRowKernels(this.arena) : new PlainRowKernels(this.arena, kernels);
    const { words, floats } = this.arena;
    this.store = new TableStore({
      arena: this.arena,
      kernels,
      rowKernels,
      width: WIDTH,
      versions: true,
      secret: 7n,
      updater: {
        ...NEVER_TRIED,
        rowExtraBytes: () => 4,
        startRows: () => {},
        updateRows: (rows, count, gradients) => {
          for (let i = 0; i < count; i++) {
            const at = words[(rows >>> 2) + i]! >>> 2;
            for (let j = 0; j < WIDTH; j++) floats[at + j]! += floats[(gradients >>> 2) + i * WIDTH + j]!;
            words[at + WIDTH]! += 3; // a slot
          }
        },
      },
      initializer: {
        recipe: 0,
        kernels: {
          initializeRows: (_recipe, rows, _keys, count) => {
            for (let i = 0; i < count; i++) floats.fill(0.5, words[(rows >>> 2) + i]! >>> 2, (words[(rows >>> 2) + i]! >>> 2) + WIDTH);
          },
        },
      },
    });
    this.#keys = this.arena.allocate(KEYS_MAX * 8);
    this.#values = this.arena.allocate(KEYS_MAX * WIDTH * 4);
  }

  push(keys: readonly bigint[], value: number): void {
    this.#write(keys);
    this.arena.floats.fill(value, this.#values >>> 2, (this.#values >>> 2) + keys.length * WIDTH);
    this.store.update({ keys: this.#keys, keyCount: keys.length, gradients: this.#values });
  }

  remove(keys: readonly bigint[]): void {
    this.#write(keys);
    this.store.remove(this.#keys, keys.length);
  }

  /** Up to `rowsMax` rows as text; undefined at the end. */
  take(freeze: TableFreeze, rowsMax: number): string[] | undefined {
    const { key, payload } = this.store.columns;
    const count = freeze.take(rowsMax, [
      { ...key, address: this.#keys },
      { ...payload, address: this.#values },
    ]);
    if (count < 0) return undefined;
    const keys = new BigUint64Array(this.arena.memory.buffer, this.#keys, count);
    const step = payload.byteCount >>> 2;
    return Array.from(keys, (one, i) => {
      const at = (this.#values >>> 2) + i * step;
      return `${one}: ${this.arena.words.slice(at, at + step).join(" ")}`;
    });
  }

  all(freeze: TableFreeze): string[] {
    const rows: string[] = [];
    for (let some = this.take(freeze, 500); some !== undefined; some = this.take(freeze, 500)) rows.push(...some);
    freeze.close();
    return rows.sort();
  }

  #write(keys: readonly bigint[]): void {
    new BigUint64Array(this.arena.memory.buffer, this.#keys, keys.length).set(keys);
  }
}

const action = fc.record({
  kind: fc.constantFrom("push", "push", "remove", "take"),
  keys: fc.array(fc.bigInt({ min: 0n, max: 60n }), { minLength: 1, maxLength: 20 }),
  value: fc.integer({ min: 1, max: 9 }),
  rows: fc.integer({ min: 1, max: 7 }),
});

for (const kind of ["simd", "plain"] as const) {
  test(`${kind}: with updates, new rows and removals between any two steps, what is handed out is the table of the moment`, () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 12 }), fc.array(action, { maxLength: 40 }), (before, after) => {
        const stage = new Stage(kind, 8 << 20);
        for (const { kind: what, keys, value } of before) {
          if (what === "remove") stage.remove(keys);
          else stage.push(keys, value);
        }
        const expected = stage.all(stage.store.freeze());
        assert.equal(new Set(expected).size, stage.store.rowCount);
        const freeze = stage.store.freeze();
        const seen: string[] = [];
        for (const { kind: what, keys, value, rows } of after) {
          if (what === "push") stage.push(keys, value);
          else if (what === "remove") stage.remove(keys);
          else seen.push(...(stage.take(freeze, rows) ?? []));
        }
        assert.deepEqual([...seen, ...stage.all(freeze)].sort(), expected);
      }),
      { numRuns: kind === "simd" ? 300 : 60 },
    );
  });
}

test("a table of many segments, that doubles while it is handed out, is handed out as it was", () => {
  const stage = new Stage("simd");
  const first = Array.from({ length: 12_000 }, (_, i) => BigInt(i) * 0x9e37_79b9n);
  stage.push(first, 1);
  const expected = stage.all(stage.store.freeze());
  assert.equal(expected.length, first.length);
  const usedBytes = stage.arena.usedBytes;
  const freeze = stage.store.freeze();
  const seen: string[] = [];
  let asideMax = 0;
  for (let round = 0; round < 12; round++) {
    seen.push(...(stage.take(freeze, 1000) ?? []));
    stage.push(first.slice(round * 1000, round * 1000 + 2000), 2);
    stage.push(
      Array.from({ length: 1000 }, (_, i) => BigInt(i + round * 1000) * 0x1_0000_0001n + 5n),
      3,
    );
    stage.remove(first.slice(round * 1000, round * 1000 + 100));
    asideMax = Math.max(asideMax, freeze.asideCount);
  }
  assert.ok(asideMax > 0 && asideMax < 20_000, `${asideMax}`);
  assert.deepEqual([...seen, ...stage.all(freeze)].sort(), expected);
  assert.ok(stage.arena.usedBytes < usedBytes + (4 << 20), "what was set aside was given back");
});

test("without room to set rows aside the freeze is lost, and the update is not", () => {
  const stage = new Stage("simd", 4 << 20);
  const keys = Array.from({ length: 20_000 }, (_, i) => BigInt(i));
  stage.push(keys, 1);
  const freeze = stage.store.freeze();
  const hoard: { at: number; size: number }[] = [];
  for (let size = 1 << 20; size >= 64; size >>= 1) {
    for (let at = stage.arena.tryAllocate(size); at !== 0; at = stage.arena.tryAllocate(size)) hoard.push({ at, size });
  }
  stage.push(keys.slice(0, 5000), 1);
  assert.throws(
    () => stage.take(freeze, 10),
    (error) => isWeighbridgeError(error, "ARENA_FULL"),
  );
  for (const { at, size } of hoard) stage.arena.release(at, size);
  const two = new Uint32Array(Float32Array.of(2.5).buffer)[0];
  assert.match(stage.all(stage.store.freeze())[0] ?? "", new RegExp(`^0: ${two} ${two} 6 2$`));
});

test("a table that is cleared while it is handed out says so", () => {
  const stage = new Stage("simd");
  stage.push([1n], 1);
  const freeze = stage.store.freeze();
  stage.store.close();
  assert.throws(
    () => stage.take(freeze, 1),
    (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"),
  );
});
