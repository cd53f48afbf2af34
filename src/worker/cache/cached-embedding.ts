// cached-embedding — a worker's cache of rows of an embedding with bounded staleness (HET), over a RowCache: a copy may
// be behind the server by `pullBound` updates, and up to `pushBound` of this worker's own updates of a row wait to be
// pushed as one. Versions count a row's updates; every pull asks the servers, but rows that are fresh enough do not
// travel. Only what goes through the cache is in it: a push of the same worker beside it counts as somebody else's.
// Arrays given to a call belong to it until its promise settles.
//
//   pull       select ─► push what was evicted, ask for versions and rows, in one round trip ─► read = copy + pending
//   push       add to pending ─► push the rows that are over the bound or not cached
//
// Invariants:
//   CachedEmbedding.H1. A pull misses at most `pullBound` updates of others to a row, and none of this worker's own.
//   CachedEmbedding.H2. After a push at most `pushBound` updates of a cached row are pending, and none of any other
//       row.
//   CachedEmbedding.H3. No update is lost: it is pending until a server acknowledged it. When a server dies with a push
//       unanswered, the push is made again once another incarnation is there, or the same one is back and has not got
//       it; if it had come into a checkpoint before, it then counts twice. One that failed and may have been applied by
//       a server that lives (LINK_LOST, also as the cause of NODE_DEAD) is not made again, nor one that a server
//       refused with NOT_FINITE: the operation that pushed it rejects with that, and no later one does.
//   CachedEmbedding.H4. Operations of one cache run one after the other, in the order of their calls.
//   CachedEmbedding.H5. A version counts at the server that gave it: when the placement changes, every copy is read
//       anew before it counts as fresh.
//   CachedEmbedding.H6. An exchange carries the worker's clock as it is when it leaves: an operation that waits for its
//       turn (CachedEmbedding.H4) may outlast the clock at which it was called, and servers refuse updates of an
//       earlier one.

import { badArgument, isWeighbridgeError, showValue, WeighbridgeError, withOutcome } from "../../base/errors.ts";
import { refuseFormer } from "../../base/former-members.ts";
import { type Complete, checkOptions, moreThanOptions } from "../../base/known-options.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { failedUpdate, notSent, STILL_OPEN, unheard } from "../../peer/unheard-update.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import { CallerArray, rowOf } from "../caller-array.ts";
import type { FunctionClient } from "../function-client.ts";
import { type KeyList, KeyLists, type KeysAndGradients, listLength } from "../key-lists.ts";
import { type CallOptions, INTO, type ParameterCall, type PushPullOptions } from "../parameter.ts";
import type { ParameterControl } from "../parameter-control.ts";
import type { RowPlanner } from "../router/row-plan.ts";
import { CacheOperation } from "./cache-operation.ts";
import { CacheState } from "./cache-state.ts";
import type { CacheStatistics } from "./cache-statistics.ts";
import { POLICY_NAMES, type PolicyName } from "./eviction-order.ts";
import { type ExchangeCall, RowExchange } from "./row-exchange.ts";

const WORD_MAX = 0xffff_ffff;
const ROWS_MAX = 2 ** 26;

/** How large a cache is, which rows leave it first, and how far it may be behind. */
export type CacheOptions = {
  /** How many rows it holds. */
  readonly rows: number;
  /** Which row goes when another one comes. Defaults to "lru". */
  readonly policy?: PolicyName | undefined;
  /** How many updates by others what is read may miss, for each row; Infinity: any number. Defaults to 0. */
  readonly pullBound?: number | undefined;
  /** How many own updates of a row may wait to be pushed; Infinity: until it is evicted. Defaults to 0. */
  readonly pushBound?: number | undefined;
};

type CachedEmbeddingOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly control: ParameterControl;
  /** Of the table, whose rows are f32. */
  readonly spec: TableSpec;
  readonly cache: CacheOptions;
  /** Called once it is closed. */
  readonly closed: (cache: CachedEmbedding) => void;
};

/** Opens a cache. Throws BAD_ARGUMENT. */
export type CacheOpener = (options: CachedEmbeddingOptions) => CachedEmbedding;

/** An array to pull into, a row for each of these keys. */
type GivenPull = { readonly keys: KeyList; readonly into: Float32Array };

/** Rows of an embedding that this worker keeps, which may be a little behind. `embedding.cached()` opens one. */
export class CachedEmbedding {
  /** The embedding's name. */
  readonly name: string;
  /** Elements of a row. */
  readonly dim: number;
  readonly #options: CachedEmbeddingOptions;
  readonly #keys: KeyLists;
  readonly #state: CacheState;
  readonly #exchange: RowExchange;
  readonly #pushBound: number;
  #isBypassed = false;
  #isClosed = false;
  /** Of the placement that the versions are of. */
  #epoch = 0;
  /** Ends when all operations so far have. */
  #last: Promise<unknown> = Promise.resolve();

  /** @internal */
  static readonly open: CacheOpener = (options) => new CachedEmbedding(options);

  /** @internal */
  constructor(options: CachedEmbeddingOptions) {
    const { functions, planner, spec } = options;
    const { handle } = options.control;
    const { width, optimizer } = spec;
    const { rows, policy, pullBound, pushBound } = checkCacheOptions(handle.name, options.cache);
    this.name = spec.name;
    this.dim = width;
    this.#options = options;
    this.#keys = new KeyLists(handle.name, spec.rows);
    this.#pushBound = pushBound;
    this.#state = new CacheState(planner, { rows, width, policy, optimizer });
    this.#exchange = new RowExchange({ functions, planner, handle, width, pullBound: Math.min(pullBound, WORD_MAX) });
  }

  /** What the cache has done since it was opened. */
  statistics(): CacheStatistics {
    const { counters, cached, pending, unsettled, optimizer } = this.#state;
    const [rowsCached, rowsPending] = this.#isClosed ? [0, 0] : [cached.rowCount, pending.rowCount + unsettled.rowCount];
    return { ...counters, ...optimizer.nonFinite, rowsCached, rowsPending };
  }

  /**
   * The rows in the order of the keys, in `into` or in a new array. Sees every earlier push of this cache
   * (CachedEmbedding.H1).
   */
  async pull(keys: KeyList, options?: PushPullOptions): Promise<Float32Array>;
  async pull(keys: KeyList, options: PushPullOptions = {}, more?: unknown): Promise<Float32Array> {
    if (more !== undefined) throw moreThanOptions(more, this.#what);
    const call = this.#options.control.pushPullNow(options);
    const into = options.into === undefined ? this.#roomFor(keys) : options.into;
    await this.#run(call, undefined, { keys, into });
    return into;
  }

  /**
   * Row `i` of an array that was read through the cache: a view, not a copy. Throws OUT_OF_RANGE for a row that the
   * array does not have.
   */
  row(values: Float32Array, i: number): Float32Array {
    return rowOf(values, i, { name: this.name, width: this.dim });
  }

  /**
   * Gradients, a row for each key; those of a key that is named twice are added first. They are pushed once more than
   * `pushBound` have come together for a row. What is wrong with them themselves (NOT_FINITE, lengths, keys) rejects
   * and changes nothing, and so does what a server refuses with NOT_FINITE (CachedEmbedding.H3); when a server does not
   * take them otherwise the promise rejects too, but they are kept and pushed later: do not repeat them.
   */
  async push(keys: KeyList, gradients: Float32Array, options: CallOptions = {}): Promise<void> {
    try {
      await this.#run(this.#call(options), { keys, gradients }, undefined);
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** A push, and the rows of these keys right after it, in one round trip with nothing in between. */
  async pushPull(push: KeysAndGradients, keys: KeyList, options: PushPullOptions = {}): Promise<Float32Array> {
    try {
      checkOptions(push, ["keys", "gradients"], `the pushed rows of ${this.name}`);
      const call = this.#options.control.pushPullNow(options);
      const into = options.into === undefined ? this.#roomFor(keys) : options.into;
      await this.#run(call, push, { keys, into });
      return into;
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** Pushes everything that is pending: before a checkpoint, or when others should see it. */
  async flush(options: CallOptions = {}): Promise<void> {
    const call = this.#call(options);
    await this.#operate({ ...call, what: this.#what, isUpdate: true }, async (operation) => await operation.pushAll(this.#now(call)));
  }

  /**
   * On: pushes everything that is pending, then all reads and updates go to the servers. Off: the cache serves again.
   */
  async bypass(on: boolean, options: CallOptions = {}): Promise<void> {
    if (typeof on !== "boolean") throw badArgument(`${this.name}: a bypass is true or false, not ${showValue(on)}`);
    const call = this.#call(options);
    await this.#operate({ ...call, what: this.#what, isUpdate: on }, async (operation) => {
      this.#isBypassed = on;
      if (on) await operation.pushAll(this.#now(call));
    });
  }

  /** Pushes what is pending and frees the memory. If that fails, nothing is lost; it may be closed again. */
  async close(options: CallOptions = {}): Promise<void> {
    const call = this.#call(options);
    const run = async (operation: CacheOperation): Promise<void> => {
      await operation.pushAll(this.#now(call));
      this.#isClosed = true;
      this.#state.close();
    };
    // somebody else may close it meanwhile
    if (!this.#isClosed) await this.#operate({ ...call, what: this.#what, isUpdate: true }, run, () => {});
    this.#options.closed(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Of a call that pushes what is pending. Throws what is wrong with it, nothing sent. */
  #call(options: CallOptions): ParameterCall {
    try {
      return this.#options.control.callNow(options);
    } catch (thrown) {
      throw notSent(thrown);
    }
  }

  /** A new array for the rows of these keys. */
  #roomFor(keys: KeyList): Float32Array {
    return new Float32Array(listLength(keys, this.name) * this.dim);
  }

  async #run(call: ParameterCall, push: KeysAndGradients | undefined, pull: GivenPull | undefined): Promise<void> {
    const pullKeys = pull && this.#checkedKeys(pull.keys, pull.into, INTO);
    const pushKeys = push && this.#checkedKeys(push.keys, push.gradients, "gradients");
    const given = [pushKeys, push?.gradients, pullKeys, pull?.into].map((array) => array && new CallerArray(array));
    const what = push === undefined ? this.#what : `the update of ${this.#what}`;
    await this.#operate({ ...call, what, isUpdate: push !== undefined }, async (operation) => {
      this.#checkGiven(given, false);
      if (push && pushKeys) operation.update(pushKeys, push.gradients, this.#options.control.admitCached);
      try {
        if (pullKeys) operation.pull(pullKeys);
        await operation.exchange(this.#now(call));
        if (pull === undefined) return;
        this.#checkGiven(given.slice(2), push !== undefined);
        operation.deliver(pull.into);
      } catch (thrown) {
        throw push === undefined ? thrown : kept(thrown);
      }
    });
  }

  /** How an exchange is sent: at the clock at which it leaves, not that of its caller (CachedEmbedding.H6). */
  #now({ priority }: ParameterCall): ExchangeCall {
    return { clock: this.#clock, priority };
  }

  /** What messages call it. */
  get #what(): string {
    return `the cache of ${this.name}`;
  }

  get #clock(): number {
    return this.#options.control.workerClock.value;
  }

  /** Throws BUFFER_DETACHED. */
  #checkGiven(given: readonly (CallerArray | undefined)[], isUpdate: boolean): void {
    for (const array of given) array?.check(this.name, isUpdate);
  }

  #checkedKeys(keys: KeyList, rows: Float32Array, what: string): BigUint64Array {
    const list = this.#keys.arrayOf(keys);
    this.#keys.checkRows(rows, { keyCount: list.length, width: this.dim }, what);
    return list;
  }

  /**
   * Versions are those of the server that gave them: of rows that have another owner now they mean nothing
   * (CachedEmbedding.H5).
   */
  #forgetOldOwners(): void {
    const { epoch } = this.#options.functions;
    if (epoch === this.#epoch) return;
    if (this.#epoch !== 0) this.#state.cached.invalidate();
    this.#epoch = epoch;
  }

  /** CachedEmbedding.H4. The operation goes on when its caller waits no longer. */
  async #operate(
    { what, isUpdate, ...wait }: ParameterCall & { readonly what: string; readonly isUpdate: boolean },
    run: (operation: CacheOperation) => Promise<void>,
    whenClosed: () => void = () => {
      throw new WeighbridgeError("CLOSED", `${this.#what} was closed`);
    },
  ): Promise<void> {
    const { functions, control } = this.#options;
    const turn = this.#last.then(async () => {
      if (this.#isClosed) {
        whenClosed();
        return;
      }
      this.#forgetOldOwners();
      const operation = new CacheOperation(this.#state, this.#exchange, { pushBound: this.#pushBound, isBypassed: this.#isBypassed });
      try {
        await operation.settle(this.#clock);
        await run(operation);
      } finally {
        operation.release();
      }
    });
    this.#last = turn.catch(() => {}); // its caller hears of it
    try {
      await functions.wait(turn, `${what}${isUpdate ? STILL_OPEN : ""}`, { ...wait, subject: control.handle });
    } catch (thrown) {
      throw isUpdate ? notSent(unheard(thrown, turn)) : readFailure(thrown);
    }
  }
}

refuseFormer(CachedEmbedding, { lookup: "pull(keys, options)", update: "push(keys, gradients, options)" });

/** That of a read, which may have pushed rows for which it needed the room: what becomes of those is not about it. */
function readFailure(thrown: unknown): unknown {
  return isWeighbridgeError(thrown) && thrown.outcome !== undefined ? withOutcome(thrown, undefined, { parts: undefined }) : thrown;
}

/**
 * The failure of an operation whose update is in the cache: what no server has is pushed later, unless one has refused
 * all of it for its numbers (CachedEmbedding.H3).
 */
function kept(thrown: unknown): unknown {
  if (!isWeighbridgeError(thrown) || thrown.outcome === "applied") return thrown;
  const isRefused = thrown.code === "NOT_FINITE" && thrown.outcome === "not-applied" && thrown.parts?.length === 1;
  return isRefused ? thrown : withOutcome(thrown, "unknown", { parts: undefined });
}

/** Throws BAD_ARGUMENT. */
function checkCacheOptions(name: string, options: CacheOptions): Complete<CacheOptions> {
  const { rows, policy = "lru", pullBound = 0, pushBound = 0 } = options;
  const bad = (what: string): WeighbridgeError => badArgument(`the cache of ${name}: ${what}`);
  if (!(Number.isInteger(rows) && rows >= 1 && rows <= ROWS_MAX))
    throw bad(`rows is a whole number from 1 to ${ROWS_MAX}, not ${showValue(rows)}`);
  if (!POLICY_NAMES.includes(policy))
    throw bad(`policy is one of ${POLICY_NAMES.join(", ")}, not ${showValue(policy)}${didYouMean(policy, POLICY_NAMES)}`);
  for (const [what, bound] of Object.entries({ pullBound, pushBound })) {
    const isBound = bound === Infinity || (Number.isInteger(bound) && bound >= 0 && bound < WORD_MAX);
    if (!isBound) throw bad(`${what} is a whole number from 0, or Infinity, not ${showValue(bound)}`);
  }
  return { rows, policy, pullBound, pushBound };
}
