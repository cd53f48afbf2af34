// local-rows — a RowSource whose table is in this process: the same store, initializer and updater as on a server, so
// that the same gradients lead to the same bits. For training alone.

import { assert } from "../../base/assert.ts";
import { FLOAT_BYTES, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { SimdInitializerKernels } from "../../kernel/initializer-kernels.ts";
import { CURSOR_BYTES, LIST_ROWS_MAX } from "../../kernel/kernels.ts";
import { SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { simdRowKernels } from "../../kernel/row-kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import type { Workspace } from "../../nn/workspace.ts";
import { Initializer } from "../../store/initializers/initializer.ts";
import { type InitializerSpec, resolveInitializer } from "../../store/initializers/initializer-spec.ts";
import { TableStore } from "../../store/table-store.ts";
import { clipScale, gradientNorm } from "../../store/updaters/gradient-norm.ts";
import { type OptimizerName, type OptimizerSpec, resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { Updater } from "../../store/updaters/updater.ts";
import { BatchSlots } from "./batch-slots.ts";
import { RowCounts, type RowSource, type RowSourceStatistics } from "./row-source.ts";

/** The description of a table, wherever it is. */
export type TableDescription = {
  /** Of the parameter, on the servers too. */
  readonly name: string;
  readonly vocabSize: number;
  readonly width: number;
  /** The most ids of a batch. */
  readonly idCountMax: number;
  /** With its seed. */
  readonly initializer: InitializerSpec;
  readonly optimizer: OptimizerName | OptimizerSpec;
};

/** Rows with their slots, as they are stored. */
export type SavedRows = { readonly keys: BigUint64Array; readonly rows: Float32Array; readonly rowFloats: number; readonly step: number };

export class LocalRows implements RowSource {
  readonly width: number;
  readonly address: number;
  readonly slotCount: number;
  readonly #workspace: Workspace;
  readonly #updater: Updater;
  readonly #initializer: Initializer;
  readonly #store: TableStore;
  readonly #batch: BatchSlots;
  readonly #counts = new RowCounts({ isRemote: false });
  readonly #keys: number;
  readonly #gradients: { readonly address: number; readonly values: Float32Array };
  readonly #clock: () => number;
  #step = 0;

  /** Schedules of learning rates follow `clock`. Throws BAD_ARGUMENT, ARENA_FULL. */
  constructor(workspace: Workspace, table: TableDescription, clock: () => number) {
    const { name, width, idCountMax, vocabSize } = table;
    const { arena } = workspace;
    this.#workspace = workspace;
    this.#clock = clock;
    this.width = width;
    this.slotCount = idCountMax;
    this.address = workspace.floats(idCountMax * width).address;
    this.#gradients = workspace.floats(idCountMax * width);
    this.#keys = workspace.doubles(idCountMax).address;
    const keys = new BigUint64Array(arena.memory.buffer, this.#keys, idCountMax);
    this.#batch = new BatchSlots({ idCountMax, vocabSize, keys });
    const owner = { kind: "table", width } as const;
    this.#updater = new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer(table.optimizer), owner);
    const [kernels, spec] = [new SimdInitializerKernels(arena), resolveInitializer(table.initializer)];
    this.#initializer = new Initializer(arena, kernels, workspace.quantiles, spec, { name, shape: [width] });
    const store = { arena, kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena), width };
    this.#store = new TableStore({ ...store, updater: this.#updater, initializer: this.#initializer });
  }

  get statistics(): RowSourceStatistics {
    return this.#counts.statistics;
  }

  prefetch(): void {
    // They are here already.
  }

  async acquire(ids: ArrayLike<number>): Promise<Int32Array> {
    this.#batch.assign(ids);
    const { keys, slots } = this.#batch;
    this.#counts.add({ ids: ids.length, rows: keys.length });
    this.#store.pull({ keys: this.#keys, keyCount: keys.length, out: this.address });
    return await Promise.resolve(slots);
  }

  async push(slots: Int32Array, gradients: Float32Array): Promise<void> {
    if (slots.length === 0) return;
    const { address, values } = this.#gradients;
    values.set(gradients);
    const magnitude = this.#updater.admit(address, gradients.length);
    if (magnitude === undefined) return;
    const named = this.#batch.keysOf(slots);
    const keys = this.#workspace.arena.allocate(named.length * KEY_BYTES);
    try {
      new BigUint64Array(this.#workspace.arena.memory.buffer, keys, named.length).set(named);
      const gradientScale = clipScale(gradientNorm(gradients), this.#updater.spec.clipNorm ?? null);
      this.#updater.begin({ step: this.#step + 1, scheduleStep: this.#clock(), gradientScale, workerRank: undefined, magnitude });
      if (this.#store.update({ keys, keyCount: named.length, gradients: address })) this.#step++;
    } finally {
      this.#workspace.arena.release(keys, named.length * KEY_BYTES);
    }
    await Promise.resolve();
  }

  /** All rows that were ever updated, in no order, and the number of updates. */
  save(): SavedRows {
    const { arena, vectors } = this.#workspace;
    const { payload } = this.#store.columns;
    const rowCount = this.#store.rowCount;
    const keys = new BigUint64Array(rowCount);
    const rows = new Float32Array((rowCount * payload.byteCount) / FLOAT_BYTES);
    const bytes = LIST_ROWS_MAX * (WORD_BYTES + Math.max(KEY_BYTES, payload.byteCount));
    const cursor = arena.allocate(CURSOR_BYTES);
    const listed = arena.allocate(bytes);
    const out = listed + LIST_ROWS_MAX * WORD_BYTES;
    try {
      vectors.zero(cursor, CURSOR_BYTES);
      let at = 0;
      for (let count = this.#store.list(cursor, listed); count >= 0; count = this.#store.list(cursor, listed)) {
        this.#store.readColumn(listed, count, "key", out);
        keys.set(new BigUint64Array(arena.memory.buffer, out, count), at);
        this.#store.readColumn(listed, count, "payload", out);
        const floatCount = (count * payload.byteCount) / FLOAT_BYTES;
        rows.set(new Float32Array(arena.memory.buffer, out, floatCount), (at * payload.byteCount) / FLOAT_BYTES);
        at += count;
      }
    } finally {
      arena.release(cursor, CURSOR_BYTES);
      arena.release(listed, bytes);
    }
    return { keys, rows, rowFloats: payload.byteCount / FLOAT_BYTES, step: this.#step };
  }

  /** Loads what `save` returned. Throws ARENA_FULL. */
  load({ keys, rows, rowFloats, step }: SavedRows): void {
    const { arena } = this.#workspace;
    assert(rowFloats * FLOAT_BYTES === this.#store.columns.payload.byteCount, "rows of another optimizer were refused before");
    this.#step = step;
    if (keys.length === 0) return;
    const bytes = keys.byteLength + rows.byteLength;
    const span = arena.allocate(bytes);
    try {
      new BigUint64Array(arena.memory.buffer, span, keys.length).set(keys);
      new Float32Array(arena.memory.buffer, span + keys.byteLength, rows.length).set(rows);
      this.#store.restore({ keys: span, keyCount: keys.length, payloads: span + keys.byteLength });
    } finally {
      arena.release(span, bytes);
    }
  }

  /** Floats of a row with its slots. */
  get rowFloats(): number {
    return this.#store.columns.payload.byteCount / FLOAT_BYTES;
  }

  async flush(): Promise<void> {
    await Promise.resolve(); // `push` has applied all of it
  }

  async close(): Promise<void> {
    this.#store.close();
    this.#updater.close();
    this.#initializer.close();
    await Promise.resolve();
  }
}
