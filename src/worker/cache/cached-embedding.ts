// cached-embedding — a worker's cache of an embedding's rows, as a user meets it (HET). Only what goes through the
// cache is in it: a push of the same worker beside it counts as somebody else's. Arrays given to a call belong to it
// until its promise settles.

import { badArgument, showValue } from "../../base/errors.ts";
import { type KeyList, listLength } from "../key-lists.ts";
import type { CallOptions, ParameterCall } from "../parameter.ts";
import type { ParameterControl } from "../parameter-control.ts";
import type { BoundedCache } from "./bounded-cache.ts";
import type { CacheStatistics } from "./cache-statistics.ts";

export class CachedEmbedding {
  readonly name: string;
  readonly dim: number;
  readonly #cache: BoundedCache;
  readonly #control: ParameterControl;
  readonly #onClose: () => void;

  /** For the embedding alone. */
  constructor(
    embedding: { readonly name: string; readonly dim: number },
    cache: BoundedCache,
    control: ParameterControl,
    onClose: () => void,
  ) {
    this.name = embedding.name;
    this.dim = embedding.dim;
    this.#cache = cache;
    this.#control = control;
    this.#onClose = onClose;
  }

  /** The rows in the order of the keys, in `into` or in a new array. Sees every earlier push of this worker. */
  async lookup(keys: KeyList, into?: Float32Array, options: CallOptions = {}): Promise<Float32Array> {
    const values = into !== undefined ? into : new Float32Array(listLength(keys, this.name) * this.dim);
    await this.#cache.lookup(keys, values, this.#call(options));
    return values;
  }

  /**
   * Gradients, a row for each key; those of a key that is named twice are added first. They are pushed once more than
   * `pushBound` have come together for a row. What is wrong with them themselves (NOT_FINITE, lengths, keys) rejects
   * and changes nothing, and so does what a server refuses with NOT_FINITE; when a server does not take them otherwise
   * the promise rejects too, but they are kept and pushed later: do not repeat them.
   */
  async update(keys: KeyList, gradients: Float32Array, options: CallOptions = {}): Promise<void> {
    await this.#cache.update(keys, gradients, { ...this.#call(options), admit: this.#control.admitCached });
  }

  /** `update(pushKeys, gradients)`, then `lookup(pullKeys, into)`, in one round trip with nothing in between. */
  async pushPull(
    pullKeys: KeyList,
    into: Float32Array,
    pushKeys: KeyList,
    gradients: Float32Array,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#cache.pushPull(pullKeys, into, pushKeys, gradients, { ...this.#call(options), admit: this.#control.admitCached });
  }

  /** Pushes everything that is pending: before a checkpoint, or when others should see it. */
  async flush(options: CallOptions = {}): Promise<void> {
    await this.#cache.flush(this.#call(options));
  }

  /**
   * On: pushes everything that is pending, then all reads and updates go to the servers. Off: the cache serves again.
   */
  async bypass(on: boolean, options: CallOptions = {}): Promise<void> {
    if (typeof on !== "boolean") throw badArgument(`${this.name}: a bypass is true or false, not ${showValue(on)}`);
    await this.#cache.bypass(on, this.#call(options));
  }

  statistics(): CacheStatistics {
    return this.#cache.statistics;
  }

  /** Pushes what is pending and frees the memory. If that fails, nothing is lost; it may be closed again. */
  async close(options: CallOptions = {}): Promise<void> {
    await this.#cache.close(this.#call(options));
    this.#onClose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #call(options: CallOptions): ParameterCall {
    return this.#control.callNow(options);
  }
}
