// Goal: a table is a map from keys to rows that appear on first update; what it holds equals the plain reference bit
// for bit, and a full arena changes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { ElementType, elementBytesOf } from "../kernel/elements.ts";
import { SimdInitializerKernels } from "../kernel/initializer-kernels.ts";
import { CURSOR_BYTES, LIST_ROWS_MAX } from "../kernel/kernels.ts";
import { QuantileTable } from "../kernel/normal-quantiles.ts";
import { SimdOptimizerKernels } from "../kernel/optimizer-kernels.ts";
import { PlainKernels } from "../kernel/plain-kernels.ts";
import { PlainOptimizerKernels } from "../kernel/plain-optimizer-kernels.ts";
import { PlainRowKernels } from "../kernel/plain-row-kernels.ts";
import { simdElementKernels, simdRowKernels, VERSION_NONE } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { putFloats, putKeys, putWords, readFloats, readKey, readWords } from "../testing/arena-lists.ts";
import { NEVER_TRIED } from "../testing/store-stage.ts";
import { Initializer } from "./initializers/initializer.ts";
import { resolveInitializer } from "./initializers/initializer-spec.ts";
import { TableStore } from "./table-store.ts";
import { type OptimizerSpec, resolveOptimizer } from "./updaters/optimizer-spec.ts";
import type { RowInitializer } from "./updaters/parameter-updater.ts";
import { Updater } from "./updaters/updater.ts";

const KEY_MAX = 2n ** 64n - 1n;
const MIB = 2 ** 20;
const SECRET = 0x5eed_0123_4567_89abn;

/** Row values that anybody can compute from the key. */
class KeyInitializer implements RowInitializer {
  readonly recipe = 0;
  readonly kernels: RowInitializer["kernels"] = this;
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  initializeRows(_recipe: number, rows: number, keys: number, rowCount: number, width: number): void {
    for (const [i, row] of readWords(this.#arena, rows, rowCount).entries()) {
      this.#arena.floats.set(initialRow(readKey(this.#arena, keys + i * 8), width), row / 4);
    }
  }
}

function initialRow(key: bigint, width: number): Float32Array {
  return Float32Array.from({ length: width }, (_, j) => Number(key % 1009n) / 16 + j);
}

type StageOptions = {
  readonly width: number;
  readonly optimizer?: OptimizerSpec;
  readonly versions?: boolean;
  readonly plain?: boolean;
  readonly bytesMax?: number;
};

class Stage {
  readonly arena: Arena;
  readonly store: TableStore;
  readonly #width: number;

  constructor({ width, optimizer = { type: "sum" }, versions, plain = false, bytesMax = 8 * MIB }: StageOptions) {
    this.arena = new Arena({ bytesMax });
    this.#width = width;
    const kernels = plain ? new PlainKernels(this.arena) : new SimdKernels(this.arena);
    const optimizers = plain ? new PlainOptimizerKernels(this.arena) : new SimdOptimizerKernels(this.arena);
    this.store = new TableStore({
      arena: this.arena,
      kernels,
      rowKernels: plain ? new PlainRowKernels(this.arena, kernels) : simdRowKernels(this.arena),
      width,
      updater: new Updater(this.arena, optimizers, resolveOptimizer(optimizer), { kind: "table", width }),
      initializer: new KeyInitializer(this.arena),
      versions,
      secret: SECRET,
    });
  }

  update(keys: readonly bigint[], gradients: ArrayLike<number>, counts?: readonly number[]): void {
    const updateCounts = counts === undefined ? undefined : putWords(this.arena, counts);
    this.store.update({
      keys: putKeys(this.arena, keys),
      keyCount: keys.length,
      gradients: putFloats(this.arena, gradients),
      updateCounts,
    });
  }

  pull(keys: readonly bigint[]): Float32Array {
    const out = this.arena.allocate(Math.max(4, keys.length * this.#width * 4));
    this.store.pull({ keys: putKeys(this.arena, keys), keyCount: keys.length, out });
    return readFloats(this.arena, out, keys.length * this.#width);
  }

  sync(keys: readonly bigint[], known: readonly number[], bound: number) {
    const [indexesOut, versionsOut, rowsOut] = [4, 4, this.#width * 4].map((bytes) => this.arena.allocate(bytes * keys.length + 4));
    const places = { indexesOut: indexesOut!, versionsOut: versionsOut!, rowsOut: rowsOut! };
    const list = putKeys(this.arena, keys);
    const count = this.store.sync({ keys: list, keyCount: keys.length, known: putWords(this.arena, known), bound, ...places });
    return {
      indexes: [...readWords(this.arena, indexesOut!, count)],
      versions: [...readWords(this.arena, versionsOut!, count)],
      rows: readFloats(this.arena, rowsOut!, count * this.#width),
    };
  }

  /** Every key with its whole payload, by key. */
  contents(): Map<bigint, Uint32Array> {
    const [cursor, rows] = [this.arena.allocate(CURSOR_BYTES), this.arena.allocate(LIST_ROWS_MAX * 4)];
    const words = this.store.columns.payload.byteCount / 4;
    const [out, keyOut] = [this.arena.allocate(words * 4), this.arena.allocate(8)];
    this.arena.bytes.fill(0, cursor, cursor + CURSOR_BYTES);
    const found = new Map<bigint, Uint32Array>();
    for (let count = 0; count >= 0; ) {
      count = this.store.list(cursor, rows);
      for (let i = 0; i < count; i++) {
        this.store.readColumn(rows + i * 4, 1, "payload", out);
        this.store.readColumn(rows + i * 4, 1, "key", keyOut);
        const key = readKey(this.arena, keyOut);
        assert.ok(!found.has(key), `${key} is listed twice`);
        found.set(key, readWords(this.arena, out, words));
      }
    }
    return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

const keyArbitrary: fc.Arbitrary<bigint> = fc.oneof(
  fc.constantFrom(0n, 1n, KEY_MAX, 2n ** 63n, 2n ** 32n),
  fc.bigInt({ min: 0n, max: 300n }),
  fc.bigInt({ min: 0n, max: KEY_MAX }),
);
const stepArbitrary = fc.record({
  operation: fc.constantFrom("update", "update", "pull", "remove"),
  keys: fc.uniqueArray(keyArbitrary, { maxLength: 200 }),
  seed: fc.nat(),
});

function randomFloats(seed: number, count: number): Float32Array {
  const random = new Random(seed);
  return Float32Array.from({ length: count }, () => (random.fraction() - 0.5) * 4);
}

test("tables of every optimizer equal the plain reference bit for bit over random updates, pulls and removals", () => {
  const optimizers: OptimizerSpec[] = [
    { type: "sum" },
    { type: "sgd" },
    { type: "momentum" },
    { type: "adagrad", initialAccumulator: 0.1 },
    { type: "rowWiseAdagrad" },
    { type: "ftrl" },
    { type: "dcAsgd" },
    { type: "rmsprop" },
  ];
  for (const [i, optimizer] of optimizers.entries()) {
    const width = [1, 3, 16, 33, 5, 8, 4, 20][i]!;
    fc.assert(
      fc.property(fc.array(stepArbitrary, { minLength: 1, maxLength: 6 }), (steps) => {
        const stages = [true, false].map((plain) => new Stage({ width, optimizer, plain, versions: i % 2 === 0 }));
        for (const { operation, keys, seed } of steps) {
          const results = stages.map((stage) => {
            if (operation === "pull") return stage.pull(keys);
            if (operation === "remove") return stage.store.remove(putKeys(stage.arena, keys), keys.length);
            return stage.update(keys, randomFloats(seed, keys.length * width));
          });
          assert.deepEqual(results[1], results[0]);
        }
        assert.deepEqual(stages[1]!.contents(), stages[0]!.contents());
        assert.equal(stages[1]!.store.rowCount, stages[0]!.store.rowCount);
      }),
      { numRuns: 12 },
    );
  }
});

test("a key without a row reads as its initial value and stays without (TableStore.T2); its first update begins from there", () => {
  const stage = new Stage({ width: 3 });
  const keys = [0n, 17n, KEY_MAX, 17n];
  const initial = Float32Array.from(keys.flatMap((key) => [...initialRow(key, 3)]));
  assert.deepEqual(stage.pull(keys), initial);
  assert.equal(stage.store.rowCount, 0);
  stage.update([17n], [1, 1, 1]);
  assert.equal(stage.store.rowCount, 1);
  assert.deepEqual(
    stage.pull([17n]),
    initialRow(17n, 3).map((value) => value + 1),
  );
  assert.deepEqual(stage.pull([0n, KEY_MAX]), Float32Array.from([...initialRow(0n, 3), ...initialRow(KEY_MAX, 3)]));
});

test("what a pull gives for missing keys is what their rows begin with, for every kind of initializer and on full arenas too", () => {
  const kinds = [{ type: "constant", value: 2.5 }, { type: "uniform" }, { type: "normal" }, { type: "truncatedNormal" }] as const;
  for (const [i, spec] of kinds.entries()) {
    const arena = new Arena({ bytesMax: 2 * MIB });
    const kernels = new SimdKernels(arena);
    const width = [1, 7, 16, 40][i]!;
    const owner = { kind: "table", width } as const;
    const target = { name: "embedding", shape: [width] };
    const resolved = resolveInitializer(spec);
    const store = new TableStore({
      arena,
      kernels,
      rowKernels: simdRowKernels(arena),
      width,
      updater: new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer({ type: "sum" }), owner),
      initializer: new Initializer(arena, new SimdInitializerKernels(arena), new QuantileTable(arena), resolved, target),
    });
    const list = [0n, KEY_MAX, 2n ** 32n, ...Array.from({ length: 1_500 }, (_, j) => BigInt(j) * 7n + 1n)];
    const keys = putKeys(arena, list);
    const [out, zeros] = [arena.allocate(list.length * width * 4), putFloats(arena, new Float32Array(list.length * width))];
    store.pull({ keys, keyCount: list.length, out });
    const initial = readFloats(arena, out, list.length * width);
    store.update({ keys, keyCount: list.length, gradients: zeros });
    store.pull({ keys, keyCount: list.length, out });
    assert.deepEqual(readFloats(arena, out, list.length * width), initial);
    assert.equal(store.rowCount, list.length);
    if (spec.type !== "constant") assert.ok(new Set(initial).size > list.length / 2);
  }
});

test("calls of many chunks, with known and new keys mixed, reach every row", () => {
  for (const width of [1, 16, 300]) {
    const rowCount = width === 300 ? 700 : 5_000;
    const stage = new Stage({ width, bytesMax: 64 * MIB });
    const keys = Array.from({ length: rowCount }, (_, i) => BigInt(i) * 0x9e37_79b9n);
    stage.update(
      keys.filter((_, i) => i % 3 === 0),
      new Float32Array(rowCount * width).fill(1),
    );
    stage.update(keys, new Float32Array(rowCount * width).fill(2));
    const expected = keys.flatMap((key, i) => [...initialRow(key, width)].map((value) => value + (i % 3 === 0 ? 3 : 2)));
    assert.deepEqual(stage.pull(keys), Float32Array.from(expected));
  }
});

test("a full arena refuses an update whole: no row appears, none changes (TableStore.T1)", () => {
  for (const batch of [1, 40, 700]) {
    const stage = new Stage({ width: 16, optimizer: { type: "adagrad" }, bytesMax: 2 * MIB });
    const { arena, store } = stage;
    const keys = putKeys(
      arena,
      Array.from({ length: 20_000 }, (_, i) => BigInt(i)),
    );
    const gradients = putFloats(arena, new Float32Array(700 * 16).fill(1));
    const out = arena.allocate(700 * 64);
    let kept = 0;
    const fill = (): void => {
      for (; ; kept += batch) store.update({ keys: keys + kept * 8, keyCount: batch, gradients });
    };
    assert.throws(fill, { code: "ARENA_FULL" });
    assert.ok(kept > 5_000, `${kept} rows`);
    const [used, bytes] = [arena.usedBytes, store.usedBytes];
    store.pull({ keys, keyCount: 700, out });
    const before = readFloats(arena, out, 700 * 16);
    const mixed = keys + (kept - Math.min(kept, batch)) * 8; // half of them known
    for (let i = 0; i < 3; i++)
      assert.throws(() => store.update({ keys: mixed, keyCount: Math.min(kept, batch) + 700, gradients }), { code: "ARENA_FULL" });
    assert.equal(store.rowCount, kept);
    store.pull({ keys, keyCount: 700, out });
    assert.deepEqual(readFloats(arena, out, 700 * 16), before);
    assert.ok(arena.usedBytes - used <= store.usedBytes - bytes, "nothing but the table itself keeps memory");
    store.update({ keys, keyCount: 700, gradients });
    store.pull({ keys: keys + kept * 8, keyCount: 1, out });
    assert.deepEqual(readFloats(arena, out, 16), initialRow(BigInt(kept), 16));
  }
});

test("versions count updates, and a sync brings only what is further ahead than the bound (TableStore.T4)", () => {
  const stage = new Stage({ width: 2, versions: true });
  stage.update([1n, 2n], [1, 1, 1, 1]);
  stage.update([1n, 3n], [1, 1, 1, 1], [10, 4]);
  const versions = stage.arena.allocate(16);
  const out = stage.arena.allocate(64);
  stage.store.pull({ keys: putKeys(stage.arena, [1n, 2n, 3n, 9n]), keyCount: 4, out, versionsOut: versions });
  assert.deepEqual([...readWords(stage.arena, versions, 4)], [11, 1, 4, 0]);
  const keys = [9n, 3n, 2n, 1n];
  const values = (key: bigint, steps: number) => [...initialRow(key, 2)].map((value) => value + steps);
  assert.deepEqual(stage.sync(keys, [VERSION_NONE, 4, 0, 0], 0), {
    indexes: [0, 2, 3],
    versions: [0, 1, 11],
    rows: Float32Array.from([...values(9n, 0), ...values(2n, 1), ...values(1n, 2)]),
  });
  assert.deepEqual(stage.sync(keys, [0, 0, 0, 0], 4).indexes, [3]);
  assert.deepEqual(stage.sync(keys, [0, 0, 0, VERSION_NONE], Number.POSITIVE_INFINITY).indexes, [3]);
  assert.deepEqual(stage.sync(keys, [0, 4, 1, 11], 0).indexes, []);
  assert.deepEqual(stage.sync([], [], 0).indexes, []);
  assert.equal(stage.store.rowCount, 3);
});

test("what sets rows back begins a new generation of versions, and nothing else does (TableStore.T5)", () => {
  const stage = new Stage({ width: 2, versions: true });
  const first = stage.store.generation;
  stage.update([1n, 2n], [1, 1, 1, 1]);
  stage.sync([1n], [0], 0);
  assert.equal(stage.store.generation, first);
  stage.store.remove(putKeys(stage.arena, [1n]), 1);
  const second = stage.store.generation;
  assert.notEqual(second, first);
  const payloads = stage.arena.allocate(stage.store.columns.payload.byteCount);
  stage.store.restore({ keys: putKeys(stage.arena, [1n]), keyCount: 1, payloads });
  assert.notEqual(stage.store.generation, second);
});

test("a sync of many chunks equals a pull of the stale keys", () => {
  const stage = new Stage({ width: 16, versions: true, bytesMax: 32 * MIB });
  const keys = Array.from({ length: 4_000 }, (_, i) => BigInt(i * 7));
  const updated = keys.filter((_, i) => i % 2 === 0);
  stage.update(updated, randomFloats(1, updated.length * 16));
  const known = keys.map((_, i) => (i % 5 === 0 ? VERSION_NONE : 0));
  const { indexes, rows } = stage.sync(keys, known, 0);
  assert.deepEqual(
    indexes,
    keys.map((_, i) => i).filter((i) => i % 5 === 0 || i % 2 === 0),
  );
  assert.deepEqual(rows, stage.pull(indexes.map((index) => keys[index]!)));
});

test("a restored table is the listed one, slots and versions included, and goes on the same way", () => {
  const options = { width: 5, optimizer: { type: "adagrad" }, versions: true } as const;
  const [source, target] = [new Stage(options), new Stage(options)];
  const keys = Array.from({ length: 3_000 }, (_, i) => BigInt(i) << 33n);
  for (const seed of [1, 2]) source.update(keys, randomFloats(seed, keys.length * 5));
  const listed = source.contents();
  const words = source.store.columns.payload.byteCount / 4;
  const payloads = new Uint32Array(listed.size * words);
  for (const [i, payload] of [...listed.values()].entries()) payloads.set(payload, i * words);
  target.store.restore({
    keys: putKeys(target.arena, [...listed.keys()]),
    keyCount: listed.size,
    payloads: putWords(target.arena, payloads),
  });
  assert.deepEqual(target.contents(), listed);
  for (const stage of [source, target]) stage.update(keys, randomFloats(3, keys.length * 5));
  assert.deepEqual(target.contents(), source.contents());
});

test("a removed row begins anew, with its first values and slots (TableStore.T3)", () => {
  const stage = new Stage({ width: 4, optimizer: { type: "adagrad", initialAccumulator: 0.5 } });
  stage.update([8n], [1, 2, 3, 4]);
  const once = stage.contents();
  stage.update([8n], [1, 2, 3, 4]);
  assert.equal(stage.store.remove(putKeys(stage.arena, [8n, 9n]), 2), 1);
  assert.deepEqual(stage.pull([8n]), initialRow(8n, 4));
  stage.update([8n], [1, 2, 3, 4]);
  assert.deepEqual(stage.contents(), once);
});

test("a closed table gives all its memory back; impossible widths are refused", () => {
  const arena = new Arena({ bytesMax: 8 * MIB });
  const kernels = new SimdKernels(arena);
  const updater = { ...NEVER_TRIED, rowExtraBytes: () => 0, startRows: () => undefined, updateRows: () => undefined };
  const initializer = { recipe: 0, kernels: { initializeRows: () => undefined } };
  const open = (width: number) => new TableStore({ arena, kernels, rowKernels: simdRowKernels(arena), width, updater, initializer });
  const [keys, gradients] = [putKeys(arena, [1n, 2n]), putFloats(arena, new Float32Array(32))];
  const used = arena.usedBytes;
  const store = open(16);
  store.update({ keys, keyCount: 2, gradients });
  store.close();
  store.close();
  assert.equal(arena.usedBytes, used);
  for (const width of [0, -1, 1.5, Number.NaN, 2 ** 20]) assert.throws(() => open(width), { code: "BAD_ARGUMENT" });
  assert.throws(
    () => {
      while (true) open(131_072);
    },
    { code: "ARENA_FULL" },
  );
});

test("rows of other elements than floats are as wide as their bytes say, and their updater adds to them", () => {
  const arena = new Arena({ bytesMax: 8 * MIB });
  const { addRowElements } = simdElementKernels(arena);
  const [width, type] = [3, ElementType.I64];
  const updater = {
    ...NEVER_TRIED,
    rowExtraBytes: () => 0,
    startRows: () => undefined,
    updateRows: (rows: number, rowCount: number, gradients: number) => addRowElements(type, rows, rowCount, 0, width, gradients),
  };
  const initializer = { recipe: 0, kernels: { initializeRows: () => undefined } };
  const [kernels, rowKernels] = [new SimdKernels(arena), simdRowKernels(arena)];
  const store = new TableStore({ arena, kernels, rowKernels, width, elementBytes: elementBytesOf(type), updater, initializer });
  const keys = putKeys(arena, [1n, 2n]);
  const gradients = arena.allocate(48);
  const out = new BigInt64Array(arena.memory.buffer, gradients, 6);
  out.set([1n, -2n, 2n ** 62n, 4n, 5n, 6n]);
  store.update({ keys, keyCount: 2, gradients });
  store.update({ keys, keyCount: 2, gradients });
  store.pull({ keys, keyCount: 2, out: gradients });
  assert.deepEqual([...out], [2n, -4n, -(2n ** 63n), 8n, 10n, 12n]);
  assert.equal(store.columns.values.byteCount, 24);
});

test("rows that are refused give their memory back: a table that is full of nothing takes no room from others", () => {
  /**
   * A table of 500 rows, with memory for 500 more, to which so many are added: how many bytes it has then, and before.
   * Undefined when they fit.
   */
  const refused = (rowCount: number): { readonly bytes: number; readonly before: number } | undefined => {
    const { arena, store } = new Stage({ width: 16, bytesMax: 2 * MIB });
    const keys = putKeys(
      arena,
      Array.from({ length: 40_000 }, (_, i) => BigInt(i)),
    );
    store.touch({ keys, keyCount: 1_000 });
    store.remove(keys, 500);
    const before = store.usedBytes;
    try {
      store.touch({ keys, keyCount: rowCount });
      return undefined;
    } catch (thrown) {
      assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
    }
    const bytes = store.usedBytes;
    assert.equal(store.rowCount, 500);
    store.touch({ keys, keyCount: 2_000 });
    assert.equal(store.rowCount, 2_000);
    return { bytes, before };
  };
  const many = refused(40_000);
  assert.equal(many?.bytes, many?.before, "what is clearly too much is not begun");
  let rowCount = 15_000;
  while (refused(rowCount) === undefined) rowCount += 250;
  const { bytes, before } = refused(rowCount)!;
  assert.ok(
    bytes > before && bytes - before < 0.2 * rowCount * 72,
    `${bytes - before} bytes of index stay, for ${rowCount} rows that were begun`,
  );
});

test("a table of 16 floats and their slots takes at most 20 bytes a row beyond them, from 200,000 rows on", () => {
  const arena = new Arena({ bytesMax: 256 * MIB });
  const kernels = new SimdKernels(arena);
  const updater = { ...NEVER_TRIED, rowExtraBytes: () => 64, startRows: () => undefined, updateRows: () => undefined };
  const rowKernels = simdRowKernels(arena);
  const store = new TableStore({
    arena,
    kernels,
    rowKernels,
    width: 16,
    updater,
    initializer: { recipe: 0, kernels: { initializeRows: () => undefined } },
  });
  const keys = arena.allocate(10_000 * 8);
  for (let from = 0; from < 1_000_000; from += 10_000) {
    for (let i = 0; i < 10_000; i++) arena.words[keys / 4 + i * 2] = from + i;
    store.update({ keys, keyCount: 10_000, gradients: keys });
    const beyond = store.usedBytes / store.rowCount - 128;
    if (from >= 200_000) assert.ok(beyond <= 20, `${beyond} bytes at ${from} rows`);
  }
});
