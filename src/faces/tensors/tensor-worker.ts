// tensor-worker — Hetu's worker: its functions under their own names, over a session. It finds tensors by name and
// keeps the calls that nobody has waited for. `workerInit` of weighbridge/node starts it. push, pull and the like begin
// at once and return a promise; `wait(name)` waits for all of them together.
//
// Invariants:
//   TensorWorker.F1. Calls of a name that was not initialised here fail with UNKNOWN_PARAMETER, and nothing is sent.
//   TensorWorker.F2. The failure of a call reaches the caller that awaits it, and the next `wait` of its name; it is
//       never an unhandled rejection.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, showValue, unsupported, WeighbridgeError } from "../../base/errors.ts";
import { checkOptions, checkWaitOptions } from "../../base/known-options.ts";
import { partialReducePartners, sspSync } from "../../contracts/beside-parameters.ts";
import type { CachedEmbedding, CacheOptions } from "../../worker/cache/cached-embedding.ts";
import type { CallOptions, PushPullOptions } from "../../worker/parameter.ts";
import type { FunctionLoad } from "../../worker/router/function-request.ts";
import { DataStore, type IndexList } from "./data-store.ts";
import { hetuLoads, SSP_INIT } from "./function-names.ts";
import { CacheTable, NamedTensor, type RowNames } from "./named-tensor.ts";
import { dimensionsOf, initializerOf, optimizerOf, ParamType, type TensorSettings } from "./tensor-settings.ts";

/** A tensor's name: Hetu's are whole numbers. 7 and "7" are one name. */
export type TensorName = number | string;

const KEY_MAX = 2n ** 64n - 1n;

/** A worker with Hetu's calls. */
export class TensorWorker {
  readonly #session: Session;
  readonly #tensors = new Map<string, NamedTensor>();
  readonly #data: DataStore;

  constructor(session: Session) {
    this.#session = session;
    this.#data = new DataStore(session);
  }

  /** The session under it, for what Hetu does not have. */
  get session(): Session {
    return this.#session;
  }

  get rank(): number {
    return this.#session.rank;
  }

  /** How many workers there are. */
  get nrank(): number {
    return this.#session.workerCount;
  }

  /** Waits until every worker has entered this barrier. */
  async barrierWorker(options: WaitOptions = {}): Promise<void> {
    await this.#session.barrier(options);
  }

  /** Leaves together with all nodes. */
  async finish(options: { readonly barrier?: boolean | undefined } & WaitOptions = {}): Promise<void> {
    await this.#session.close(options);
  }

  /**
   * Creates a tensor on the servers, or finds it there; no barrier is needed. Throws BAD_ARGUMENT, and SPEC_MISMATCH if
   * another worker described it differently.
   */
  async initTensor(name: TensorName, settings: TensorSettings, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const key = nameOf(name);
    const { paramType, length, width } = dimensionsOf(settings);
    const common = { init: initializerOf(settings), optimizer: optimizerOf(settings) };
    const calls =
      paramType === ParamType.kCacheTable
        ? new CacheTable(await this.#session.embedding(key, { ...common, dim: width, rows: length, versions: true, ...options }), length)
        : await this.#session.tensor(key, { ...common, shape: paramType === ParamType.kParam ? [length] : [length, width], ...options });
    this.#tensors.set(key, new NamedTensor(key, calls));
  }

  /** Hands values, as many as the tensor has, to its optimizer. */
  push(name: TensorName, values: Float32Array, options?: CallOptions): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.push(values, options));
  }

  /** Fills `into` with the tensor. Sees every earlier push of this worker. */
  pull(name: TensorName, into: Float32Array, options?: CallOptions): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.pull(pulled(into, options)));
  }

  /** Pushes, and fills `into` with the tensor right after the push. */
  ddPushPull(name: TensorName, values: Float32Array, into: Float32Array, options?: CallOptions): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.pushPull(values, "all", pulled(into, options)));
  }

  /** Pushes values of some rows; those of a row that is listed twice are added first. */
  sparsePush(name: TensorName, rows: RowNames, values: Float32Array, options?: CallOptions): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.pushRows(rows, values, options));
  }

  /** Fills `into` with some rows, in the order of the list. */
  sparsePull(name: TensorName, rows: RowNames, into: Float32Array, options?: CallOptions): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.pullRows(rows, pulled(into, options)));
  }

  /** Pushes rows, and fills `into` with the whole tensor right after the push. */
  sdPushPull(name: TensorName, rows: RowNames, values: Float32Array, into: Float32Array, options?: CallOptions): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.pushPull({ rows, gradients: values }, "all", pulled(into, options)));
  }

  /** Pushes rows, and fills `into` with rows of the tensor right after the push, or with none. */
  ssPushPull(
    name: TensorName,
    pushRows: RowNames,
    values: Float32Array,
    pullRows: RowNames,
    into: Float32Array,
    options?: CallOptions,
  ): Promise<void> {
    return this.#begin(name, ({ calls }) => calls.pushPull({ rows: pushRows, gradients: values }, pullRows, pulled(into, options)));
  }

  /**
   * A cache of some rows of a kCacheTable, with bounds by row (Hetu: CacheSparseTable). Throws UNSUPPORTED for other
   * tensors.
   */
  cacheSparseTable(name: TensorName, options: CacheOptions): CachedEmbedding {
    const { name: key, calls } = this.#find(name);
    if (calls instanceof CacheTable) return calls.cached(options);
    throw unsupported(`${key} is no kCacheTable; only those are cached`);
  }

  /** Resolves when all calls of this name so far have ended. Rejects with the first that failed since the last wait. */
  async wait(name: TensorName, options: WaitOptions = {}): Promise<void> {
    const tensor = this.#find(name);
    checkWaitOptions(options); // before a failure is reported, which happens once
    await this.#session.wait(tensor.allEnded(), `the calls of tensor ${tensor.name}`, options);
  }

  /** Forgets the name here; the servers keep the tensor. */
  clear(name: TensorName): void {
    this.#tensors.delete(this.#find(name).name);
  }

  /** Removes the tensor from the servers, for all workers, and forgets it here. */
  async clearOnServer(name: TensorName, options: WaitOptions = {}): Promise<void> {
    const tensor = this.#find(name);
    await tensor.calls.drop(options);
    this.#tensors.delete(tensor.name);
  }

  /**
   * Makes the servers write the tensor, optimizer state included, to `directory` below their checkpoint directory, and
   * replace what was there. Throws UNSUPPORTED if they were started without a checkpoint directory, BAD_ARGUMENT for a
   * path that leads out of it.
   */
  save(name: TensorName, directory: string, options: WaitOptions = {}): Promise<void> {
    return this.#begin(name, async (tensor) => await this.#session.saveParameter(tensor.name, directory, options));
  }

  /**
   * Makes the servers read what `save` wrote, however many servers there were then. Throws CHECKPOINT_MISSING, _TORN,
   * _FOREIGN or _IO, and changes nothing.
   */
  load(name: TensorName, directory: string, options: WaitOptions = {}): Promise<void> {
    return this.#begin(name, async (tensor) => await this.#session.loadParameter(tensor.name, directory, options));
  }

  /**
   * Adds arrays of any length to those that the servers keep by index, apart from the tensors. `values` has them one
   * after the other. Returns the query for `waitData`.
   */
  pushData(indexes: IndexList, values: Float32Array, lengths: ArrayLike<number>, options: CallOptions = {}): number {
    return this.#data.push(indexes, values, lengths, options);
  }

  /** Fills `into` with the arrays of these indexes, which have these lengths. Otherwise as `pushData`. */
  pullData(indexes: IndexList, into: Float32Array, lengths: ArrayLike<number>, options: CallOptions = {}): number {
    return this.#data.pull(indexes, into, lengths, options);
  }

  /** Resolves when that `pushData` or `pullData` has ended; rejects if it failed. */
  async waitData(query: number, options: WaitOptions = {}): Promise<void> {
    await this.#data.wait(query, options);
  }

  /**
   * Joins a group of `size` workers that keep within `tolerance` versions of each other. Returns the version to start
   * at.
   */
  async sspInit(
    key: number | bigint,
    settings: { readonly size: number; readonly tolerance: number },
    options: WaitOptions = {},
  ): Promise<number> {
    const group = keyOf(key);
    checkOptions(settings, ["size", "tolerance"], "the settings of an SSP group");
    const { size, tolerance } = settings;
    if (size === 0) throw badArgument("a group has at least one member, not 0"); // 0: a member synchronizes
    checkWaitOptions(options);
    const call = { ...options, countedAs: SSP_INIT };
    const { version } = await this.#session.call(sspSync, { key: group }, { group, size, tolerance, version: 0 }, call);
    return version;
  }

  /**
   * Resolves when no worker of the group is further behind `version` than its tolerance. Waits at the server, without
   * polling.
   */
  async sspSync(key: number | bigint, version: number, options: WaitOptions = {}): Promise<void> {
    const group = keyOf(key);
    if (!(Number.isSafeInteger(version) && version >= 0))
      throw badArgument(`a version must be a whole number from 0 up, got ${showValue(version)}`);
    await this.#session.call(sspSync, { key: group }, { group, size: 0, tolerance: 0, version }, options);
  }

  /**
   * The ranks, ascending, of the workers that are ready under this key: `want` of them, or those that came within
   * `waitMs` of the first.
   */
  async preduceGetPartner(
    key: number | bigint,
    settings: { readonly want: number; readonly waitMs: number },
    options: WaitOptions = {},
  ): Promise<readonly number[]> {
    const group = keyOf(key);
    checkOptions(settings, ["want", "waitMs"], "the settings of a partial reduce");
    const { want, waitMs } = settings;
    const { ranks } = await this.#session.call(partialReducePartners, { key: group }, { group, want, patienceMs: waitMs }, options);
    return [...ranks];
  }

  /** Counts payload bytes by function from now on. */
  startRecord(): void {
    this.#session.startRecord();
  }

  /** The bytes counted since `startRecord` or the last `getLoads`, by Hetu's function names. */
  getLoads(): ReadonlyMap<string, Readonly<FunctionLoad>> {
    return hetuLoads(this.#session.takeLoads());
  }

  /** TensorWorker.F1, TensorWorker.F2 */
  #begin(name: TensorName, call: (tensor: NamedTensor) => Promise<unknown>): Promise<void> {
    try {
      const tensor = this.#find(name);
      return tensor.track(call(tensor).then(() => {}));
    } catch (thrown) {
      return Promise.reject(thrown as Error);
    }
  }

  #find(name: TensorName): NamedTensor {
    const key = nameOf(name);
    const tensor = this.#tensors.get(key);
    if (tensor !== undefined) return tensor;
    throw new WeighbridgeError("UNKNOWN_PARAMETER", `tensor ${key} was not initialised on this worker, or was cleared`);
  }
}

function nameOf(name: TensorName): string {
  if (typeof name === "string" && name !== "") return name;
  if (typeof name === "number" && Number.isSafeInteger(name) && name >= 0) return String(name);
  throw badArgument(`a tensor's name must be a whole number from 0 up or a string, not ${showValue(name)}`);
}

/** Options of a call that fills `into`. */
function pulled(into: Float32Array, options: CallOptions | undefined): PushPullOptions {
  if (options === undefined) return { into };
  return typeof options === "object" && options !== null ? { ...options, into } : options; // others are refused
}

function keyOf(key: number | bigint): bigint {
  if (typeof key === "bigint" ? key >= 0n && key <= KEY_MAX : Number.isSafeInteger(key) && key >= 0) return BigInt(key);
  throw badArgument(`a key is a whole number from 0 to 2^64 - 1, not ${showValue(key)}`);
}
