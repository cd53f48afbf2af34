// named-tensor — a tensor or a table under one of Hetu's names, and the calls of it that nobody has waited for yet. Both kinds take the same
// calls: a table of fixed size is pushed and pulled whole by naming all of its rows.

import type { CachedEmbedding } from "../api/cached-embedding.ts";
import type { Embedding } from "../api/embedding.ts";
import type { CallOptions, Tensor } from "../api/tensor.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { CacheOptions } from "../worker/cache/bounded-cache.ts";
import type { KeyList } from "../worker/key-lists.ts";

/** Rows of a tensor or a table: whole numbers, exact up to 2^53 (as bigint, 2^64). */
export type RowNames = Uint32Array | Int32Array | BigUint64Array | readonly number[];

/** What Hetu's dense and sparse functions ask of a parameter. */
export interface PushPull {
  push(values: Float32Array, options: CallOptions): Promise<void>;
  pull(into: Float32Array, options: CallOptions): Promise<void>;
  pushPull(values: Float32Array, into: Float32Array, options: CallOptions): Promise<void>;
  pushRows(rows: RowNames, values: Float32Array, options: CallOptions): Promise<void>;
  pullRows(rows: RowNames, into: Float32Array, options: CallOptions): Promise<void>;
  pushRowsPull(rows: RowNames, values: Float32Array, into: Float32Array, options: CallOptions): Promise<void>;
  pushPullRows(push: PushedRows, pullRows: RowNames, into: Float32Array, options: CallOptions): Promise<void>;
  /** A cache of some rows; only of tables. */
  cached(options: CacheOptions): CachedEmbedding;
  clear(options: CallOptions): Promise<void>;
}

export type PushedRows = { readonly rows: RowNames; readonly values: Float32Array };

export class NamedTensor {
  readonly name: string;
  readonly calls: PushPull;
  readonly #open = new Set<Promise<unknown>>();
  #failure: { readonly thrown: unknown } | undefined;

  constructor(name: string, calls: PushPull) {
    this.name = name;
    this.calls = calls;
  }

  /** Remembers a call until it has ended; its failure until somebody waits. Whoever awaits the call itself gets it too. */
  track<T>(call: Promise<T>): Promise<T> {
    const ended = call
      .catch((thrown: unknown) => {
        this.#failure ??= { thrown };
      })
      .finally(() => this.#open.delete(ended));
    this.#open.add(ended);
    return call;
  }

  /** Ends when every call so far has; rejects with the first failure since the last time, once. */
  async allEnded(): Promise<void> {
    await Promise.all(this.#open);
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.thrown;
  }
}

export class DenseTensor implements PushPull {
  readonly #tensor: Tensor;

  constructor(tensor: Tensor) {
    this.#tensor = tensor;
  }

  async push(values: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.push(values, options);
  }

  async pull(into: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.pull(into, options);
  }

  async pushPull(values: Float32Array, into: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.pushPull(values, into, options);
  }

  async pushRows(rows: RowNames, values: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.pushRows(rows, values, options);
  }

  async pullRows(rows: RowNames, into: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.pullRows(rows, into, options);
  }

  async pushRowsPull(rows: RowNames, values: Float32Array, into: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.pushRowsPull(rows, values, into, options);
  }

  async pushPullRows({ rows, values }: PushedRows, pullRows: RowNames, into: Float32Array, options: CallOptions): Promise<void> {
    await this.#tensor.pushPullRows({ rows, gradients: values }, pullRows, into, options);
  }

  cached(): never {
    throw new WeighbridgeError("UNSUPPORTED", `${this.#tensor.name} is no kCacheTable; only those are cached`);
  }

  async clear(options: CallOptions): Promise<void> {
    await this.#tensor.clear(options);
  }
}

export class CacheTable implements PushPull {
  readonly #table: Embedding;
  readonly #rowCount: number;

  constructor(table: Embedding, rowCount: number) {
    this.#table = table;
    this.#rowCount = rowCount;
  }

  async push(values: Float32Array, options: CallOptions): Promise<void> {
    this.#checkWhole(values);
    await this.#table.push(this.#allRows(), values, options);
  }

  async pull(into: Float32Array, options: CallOptions): Promise<void> {
    this.#checkWhole(into);
    await this.#table.pull(this.#allRows(), into, options);
  }

  async pushPull(values: Float32Array, into: Float32Array, options: CallOptions): Promise<void> {
    this.#checkWhole(values);
    this.#checkWhole(into);
    const keys = this.#allRows();
    await this.#table.pushPull({ keys, gradients: values }, keys, into, options);
  }

  async pushRows(rows: RowNames, values: Float32Array, options: CallOptions): Promise<void> {
    await this.#table.push(rows, values, options);
  }

  async pullRows(rows: RowNames, into: Float32Array, options: CallOptions): Promise<void> {
    await this.#table.pull(rows, into, options);
  }

  async pushRowsPull(rows: RowNames, values: Float32Array, into: Float32Array, options: CallOptions): Promise<void> {
    this.#checkWhole(into);
    await this.#table.pushPull({ keys: rows, gradients: values }, this.#allRows(), into, options);
  }

  async pushPullRows({ rows, values }: PushedRows, pullRows: RowNames, into: Float32Array, options: CallOptions): Promise<void> {
    await this.#table.pushPull({ keys: rows, gradients: values }, pullRows, into, options);
  }

  cached(options: CacheOptions): CachedEmbedding {
    return this.#table.cached(options);
  }

  async clear(options: CallOptions): Promise<void> {
    await this.#table.clear(options);
  }

  #allRows(): KeyList {
    const keys = new BigUint64Array(this.#rowCount);
    const words = new Uint32Array(keys.buffer);
    for (let row = 0; row < this.#rowCount; row++) {
      words[2 * row] = row;
      words[2 * row + 1] = row / 2 ** 32;
    }
    return keys;
  }

  /** Before a list of all rows is made for it. */
  #checkWhole(values: Float32Array): void {
    const expected = this.#rowCount * this.#table.dim;
    if (values instanceof Float32Array && values.length === expected) return;
    const text = `${this.#table.name} has ${this.#rowCount} rows of ${this.#table.dim}: a Float32Array of ${expected} was expected`;
    throw new WeighbridgeError("VALUE_LENGTH", text);
  }
}
