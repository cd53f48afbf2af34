// named-tensor — a tensor or a table under one of Hetu's names, and its calls that nobody has waited for yet. Both have
// the same calls: a table of fixed size is pushed and pulled whole by listing all of its rows.

import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { CachedEmbedding, CacheOptions } from "../../worker/cache/cached-embedding.ts";
import type { Embedding } from "../../worker/embedding.ts";
import type { KeyList } from "../../worker/key-lists.ts";
import type { CallOptions, PullOptions, PushPullOptions } from "../../worker/parameter.ts";
import type { RowsAndGradients, Tensor } from "../../worker/tensor.ts";

/** Row numbers of a tensor or a table, exact up to 2^53 (as bigint, 2^64). */
export type RowNames = Uint32Array | Int32Array | BigUint64Array | readonly number[];

/** The calls that Hetu's dense and sparse functions need: a tensor's, which a table has too. */
export type PushPull = Pick<Tensor, "push" | "pull" | "pushPull" | "pushRows" | "pullRows" | "drop">;

export class NamedTensor {
  readonly name: string;
  readonly calls: PushPull;
  readonly #open = new Set<Promise<unknown>>();
  #failure: { readonly thrown: unknown } | undefined;

  constructor(name: string, calls: PushPull) {
    this.name = name;
    this.calls = calls;
  }

  /**
   * Keeps a call until it ends, and its failure until the next `allEnded`. A caller that awaits the call itself gets
   * the failure too.
   */
  track<T>(call: Promise<T>): Promise<T> {
    const ended = call
      .catch((thrown: unknown) => {
        this.#failure ??= { thrown };
      })
      .finally(() => this.#open.delete(ended));
    this.#open.add(ended);
    return call;
  }

  /** Resolves when every call so far has ended; rejects with the first failure since the last time, once. */
  async allEnded(): Promise<void> {
    await Promise.all(this.#open);
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.thrown;
  }
}

/** A table of fixed size with the calls of a tensor. */
export class CacheTable implements PushPull {
  readonly #table: Embedding;
  readonly #rowCount: number;

  constructor(table: Embedding, rowCount: number) {
    this.#table = table;
    this.#rowCount = rowCount;
  }

  async push(values: Float32Array, options?: CallOptions): Promise<void> {
    this.#checkWhole(values);
    await this.#table.push(this.#allRows(), values, options);
  }

  async pull(options?: PullOptions): Promise<Float32Array> {
    if (options?.into !== undefined) this.#checkWhole(options.into);
    return await this.#table.pull(this.#allRows(), options);
  }

  async pushPull(push: Float32Array | RowsAndGradients, pull: "all" | RowNames, options?: PushPullOptions): Promise<Float32Array> {
    if (push instanceof Float32Array) this.#checkWhole(push);
    if (pull === "all" && options?.into !== undefined) this.#checkWhole(options.into);
    const pushed =
      push instanceof Float32Array ? { keys: this.#allRows(), gradients: push } : { keys: push.rows, gradients: push.gradients };
    return await this.#table.pushPull(pushed, pull === "all" ? this.#allRows() : pull, options);
  }

  async pushRows(rows: RowNames, values: Float32Array, options?: CallOptions): Promise<void> {
    await this.#table.push(rows, values, options);
  }

  async pullRows(rows: RowNames, options?: PullOptions): Promise<Float32Array> {
    return await this.#table.pull(rows, options);
  }

  /** A cache of some rows. */
  cached(options: CacheOptions): CachedEmbedding {
    return this.#table.cached(options);
  }

  async drop(options?: WaitOptions): Promise<void> {
    await this.#table.drop(options);
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

  /** Throws VALUE_LENGTH, before a list of all rows is made. */
  #checkWhole(values: Float32Array): void {
    const expected = this.#rowCount * this.#table.dim;
    if (values instanceof Float32Array && values.length === expected) return;
    const text = `${this.#table.name} has ${this.#rowCount} rows of ${this.#table.dim}: a Float32Array of ${expected} was expected`;
    throw new WeighbridgeError("VALUE_LENGTH", text);
  }
}
