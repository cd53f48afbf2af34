// embedding — a table of rows by key as a user meets it: every u64 is a key, rows appear with their initial values when they are first
// named. Arrays given to a call belong to it until its promise settles.

import { WeighbridgeError } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import { showValue } from "../base/show-value.ts";
import type { Arena } from "../kernel/arena.ts";
import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement, wordsOf } from "../kernel/row-element.ts";
import type { TableSpec } from "../store/parameter-spec.ts";
import { elementOf, rowElements, rowTypeName } from "../store/row-types/row-type-spec.ts";
import { takesValues } from "../store/updaters/optimizer-spec.ts";
import type { CacheOptions } from "../worker/cache/bounded-cache.ts";
import { type KeyList, listLength } from "../worker/key-lists.ts";
import type { ParameterControl } from "../worker/parameter-control.ts";
import type { RawRowsOpener } from "../worker/raw-rows.ts";
import type { KeysAndGradients, TableClient } from "../worker/table-client.ts";
import type { ParameterCall } from "../worker/tensor-client.ts";
import { CachedEmbedding } from "./cached-embedding.ts";
import { Parameter } from "./parameter.ts";
import { type CallOptions, NO_OPTIONS, type ReadOptions } from "./tensor.ts";

const INTO = "the array to pull into";

/** Rows of `E`, whose array they are pushed and pulled in: Float32Array unless it was made with another rowType. */
export class Embedding<E extends RowElement = "f32"> extends Parameter {
  readonly dim: number;
  /** What its rows are made of. */
  readonly element: E;
  /** How many of those a row has: `dim`, unless a row type of one's own says otherwise. */
  readonly elements: number;
  readonly #client: TableClient;
  readonly #control: ParameterControl;
  readonly #spec: TableSpec;
  readonly #caches: Set<CachedEmbedding>;

  /** For the session alone, which closes the caches that are still open at its end. */
  constructor(spec: TableSpec, client: TableClient, control: ParameterControl, caches: Set<CachedEmbedding>) {
    super(spec.name, control);
    this.#control = control;
    this.#spec = spec;
    this.#caches = caches;
    this.dim = spec.width;
    this.element = elementOf(spec) as E;
    this.elements = rowElements(spec);
    this.#client = client;
  }

  /** Hands gradients, a row for each key, to the optimizer; those of a key that is named twice are added first. */
  async push(keys: KeyList, gradients: RowArray<E>, options: CallOptions = NO_OPTIONS): Promise<void> {
    await this.#client.push(keys, this.#words(keys, gradients, "gradients"), { ...this.#callNow(options), check: this.#control });
  }

  /** The rows in the order of the keys: in `into` if it is given, in a new array otherwise. Sees every earlier push of this worker. */
  async pull(keys: KeyList, into?: RowArray<E>, options: ReadOptions = NO_OPTIONS): Promise<RowArray<E>> {
    const call = this.#readAhead(options);
    const values = into !== undefined ? into : this.#roomFor(keys);
    await this.#client.pull(keys, this.#words(keys, values, INTO), call);
    return values;
  }

  /** A push, and the rows of `pullKeys` as they are right after it, server by server in one round trip. */
  async pushPull(
    push: KeysAndGradients<RowArray<E>>,
    pullKeys: KeyList,
    into?: RowArray<E>,
    options: CallOptions = NO_OPTIONS,
  ): Promise<RowArray<E>> {
    checkOptions(push, ["keys", "gradients"], `the pushed rows of ${this.name}`);
    const { keys, gradients } = push;
    const values = into !== undefined ? into : this.#roomFor(pullKeys);
    const [pushed, pulled] = [this.#words(keys, gradients, "gradients"), this.#words(pullKeys, values, INTO)];
    await this.#client.pushPull({ keys, gradients: pushed }, pullKeys, pulled, { ...this.#callNow(options), check: this.#control });
    return values;
  }

  /**
   * A cache of this worker's own for some of the rows, whose bounds say how far what it holds may be from the servers. Throws UNSUPPORTED
   * unless the table counts versions and its consistency is "asp" (the bounds of a cache take the place of those by clocks), and for assign,
   * min and max; BAD_ARGUMENT for rows that are not f32, and for updaters of one's own.
   */
  cached(options: CacheOptions): CachedEmbedding {
    checkOptions(options, ["rows", "policy", "pullBound", "pushBound"], `the options of a cache of ${this.name}`);
    const { versions, updates, staleness, optimizer } = this.#spec;
    this.#requireFloats("cached");
    if (!versions) throw new WeighbridgeError("UNSUPPORTED", `${this.name} counts no versions of its rows: create it with versions: true`);
    if (updates !== "async" || staleness !== undefined)
      throw new WeighbridgeError("UNSUPPORTED", `${this.name} is bound by clocks; rows are cached of tables whose consistency is "asp"`);
    if (takesValues(optimizer))
      throw new WeighbridgeError("UNSUPPORTED", `${this.name}: a cache pushes sums of updates, which "${optimizer.type}" cannot take`);
    const cache = this.#client.cache(optimizer, options);
    const cached: CachedEmbedding = new CachedEmbedding(this, cache, this.#control, () => this.#caches.delete(cached));
    this.#caches.add(cached);
    return cached;
  }

  /**
   * The table for workers that apply its optimizer themselves (training's cache of rows): rows with the optimizer's slots, as they are. Whoever needs them brings
   * what reads and writes them (`openRawRows`); plans are made in `arena`. Throws UNSUPPORTED unless its consistency is "bsp", when it counts versions, and for dcAsgd.
   */
  raw<T>(open: RawRowsOpener<T>, arena: Arena): T {
    const { versions, updates, optimizer } = this.#spec;
    this.#requireFloats("held by workers");
    if (updates !== "sync")
      throw new WeighbridgeError(
        "UNSUPPORTED",
        `${this.name}: workers apply the updates of a clock together; its consistency must be "bsp"`,
      );
    if (versions) throw new WeighbridgeError("UNSUPPORTED", `${this.name} counts versions of its rows, which only servers can`);
    if (optimizer.type === "dcAsgd")
      throw new WeighbridgeError(
        "UNSUPPORTED",
        `${this.name}: dcAsgd compensates for delays, and rows that workers hold have none: use sgd`,
      );
    const clipScaleOf = (gradient: Float32Array): number => this.#control.clipScaleOf(gradient);
    return this.#client.raw(open, { spec: this.#spec, arena, clock: () => this.#control.clock, clipScaleOf });
  }

  /** Throws BAD_ARGUMENT for rows that only servers update. */
  #requireFloats(what: string): void {
    const { rowType, optimizer } = this.#spec;
    if (rowType === undefined && optimizer.type !== "custom") return;
    const why = rowType === undefined ? "has an updater of its own" : `has rows of ${rowTypeName(this.#spec)}`;
    throw new WeighbridgeError("BAD_ARGUMENT", `${this.name} ${why}: rows that are ${what} are of f32, with one of our optimizers`);
  }

  #roomFor(keys: KeyList): RowArray<E> {
    if (this.element === "f32") return this.#client.roomFor(keys) as RowArray<E>;
    const length = listLength(keys, this.name) * this.elements;
    return elementsAt(this.element, new ArrayBuffer(length * ROW_ELEMENTS[this.element].bytes), 0, length);
  }

  /** Rows as they travel. Throws BAD_ARGUMENT and VALUE_LENGTH; of f32 the client does. */
  #words(keys: KeyList, values: RowArray<E>, what: string): Float32Array {
    if (this.element === "f32") return values as Float32Array;
    const { Array: View } = ROW_ELEMENTS[this.element];
    if (!(values instanceof View))
      throw new WeighbridgeError("BAD_ARGUMENT", `${this.name}: ${what} must be a ${View.name}, not ${showValue(values)}`);
    const keyCount = listLength(keys, this.name);
    if (values.length === keyCount * this.elements) return wordsOf(values);
    const each = `${this.elements} for each of ${keyCount} keys`;
    throw new WeighbridgeError(
      "VALUE_LENGTH",
      `${this.name}: ${keyCount * this.elements} elements are wanted for ${what}, ${each}, not ${values.length}`,
    );
  }

  /** How a call is sent at this worker's clock; one whose caller says nothing about it needs no closer look. Throws BAD_ARGUMENT. */
  #callNow(options: CallOptions): ParameterCall {
    const { workerClock } = this.#control;
    return options === NO_OPTIONS && workerClock.lost === undefined ? { clock: workerClock.value } : this.#control.callNow(options);
  }

  /** The same for a read, perhaps ahead of that clock. */
  #readAhead(options: ReadOptions): ParameterCall {
    return options === NO_OPTIONS ? this.#callNow(options) : this.#control.readAhead(options);
  }
}
