// bounded-cache — a worker's cache of rows of one table with bounded staleness (HET), over a RowCache: a copy may be
// behind the server by `pullBound` updates, and up to `pushBound` of this worker's own updates of a row wait to be
// pushed as one. Versions count a row's updates; every lookup asks the servers, but rows that are fresh enough do not
// travel.
//
//   lookup     select ─► push what was evicted, ask for versions and rows, in one round trip ─► read = copy + pending
//   update     add to pending ─► push the rows that are over the bound or not cached
//
// Invariants:
//   BoundedCache.H1. A lookup misses at most `pullBound` updates of others to a row, and none of this worker's own.
//   BoundedCache.H2. After an update at most `pushBound` updates of a cached row are pending, and none of any other
//       row.
//   BoundedCache.H3. No update is lost: it is pending until a server acknowledged it. When a server dies with a push
//       unanswered, the push is made again once another incarnation is there, or the same one is back and has not got
//       it; if it had come into a checkpoint before, it then counts twice. One that failed and may have been applied by
//       a server that lives (LINK_LOST, also as the cause of NODE_DEAD) is not made again, nor one that a server
//       refused with NOT_FINITE: the operation that pushed it rejects with that, and no later one does.
//   BoundedCache.H4. Operations of one cache run one after the other, in the order of their calls.
//   BoundedCache.H5. A version counts at the server that gave it: when the placement changes, every copy is read anew
//       before it counts as fresh.
//   BoundedCache.H6. An exchange carries the worker's clock as it is when it leaves: an operation that waits for its
//       turn (BoundedCache.H4) may outlast the clock at which it was called, and servers refuse updates of an earlier
//       one.

import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import { CallerArray } from "../caller-array.ts";
import type { FunctionClient } from "../function-client.ts";
import { type KeyList, KeyLists } from "../key-lists.ts";
import type { ParameterCall } from "../parameter.ts";
import type { Admit } from "../parameter-control.ts";
import type { ParameterHandle } from "../parameter-handle.ts";
import type { RowPlanner } from "../router/row-plan.ts";
import { CacheOperation } from "./cache-operation.ts";
import { CacheState } from "./cache-state.ts";
import type { CacheStatistics } from "./cache-statistics.ts";
import { POLICY_NAMES, type PolicyName } from "./eviction-order.ts";
import { type ExchangeCall, RowExchange } from "./row-exchange.ts";

const WORD_MAX = 0xffff_ffff;
const ROWS_MAX = 2 ** 26;

export type CacheOptions = {
  /** How many rows it holds. */
  readonly rows: number;
  /** Which row goes when another one comes. Defaults to "lru". */
  readonly policy?: PolicyName;
  /** How many updates by others what is read may miss, for each row; Infinity: any number. Defaults to 0. */
  readonly pullBound?: number;
  /** How many own updates of a row may wait to be pushed; Infinity: until it is evicted. Defaults to 0. */
  readonly pushBound?: number;
};

export type BoundedCacheOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly handle: ParameterHandle;
  /** Of the table, whose rows are f32. */
  readonly spec: TableSpec;
  readonly cache: CacheOptions;
  /** The worker's. */
  readonly clock: () => number;
};

/** A push to a cache, which looks for what is not finite itself. */
type PushCall = ParameterCall & {
  /** Left out: it is pushed as it is. */
  readonly admit?: Admit | undefined;
};

export class BoundedCache {
  readonly #options: BoundedCacheOptions;
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

  /** Throws BAD_ARGUMENT, ARENA_FULL. */
  constructor(options: BoundedCacheOptions) {
    const { functions, planner, handle, spec } = options;
    const { width, optimizer } = spec;
    const { rows, policy, pullBound, pushBound } = checkOptions(handle.name, options.cache);
    this.#options = options;
    this.#keys = new KeyLists(handle.name, spec.rows);
    this.#pushBound = pushBound;
    this.#state = new CacheState(planner, { rows, width, policy, optimizer });
    this.#exchange = new RowExchange({ functions, planner, handle, width, pullBound: Math.min(pullBound, WORD_MAX) });
  }

  get statistics(): CacheStatistics {
    const { counters, cached, pending, unsettled, optimizer } = this.#state;
    const [rowsCached, rowsPending] = this.#isClosed ? [0, 0] : [cached.rowCount, pending.rowCount + unsettled.rowCount];
    return { ...counters, ...optimizer.nonFinite, rowsCached, rowsPending };
  }

  /** Fills `into`, a row for each of `keys` (BoundedCache.H1). */
  async lookup(keys: KeyList, into: Float32Array, call: ParameterCall): Promise<void> {
    await this.#run(call, undefined, { keys, into });
  }

  /**
   * Adds updates, a row of gradients for each of `keys`; those of a key that is named twice count as one. When it
   * rejects after that, they are kept, unless it is with NOT_FINITE (BoundedCache.H3).
   */
  async update(keys: KeyList, gradients: Float32Array, call: PushCall): Promise<void> {
    await this.#run(call, { keys, gradients }, undefined);
  }

  /** `update`, then `lookup`, in one round trip. */
  async pushPull(pullKeys: KeyList, into: Float32Array, pushKeys: KeyList, gradients: Float32Array, call: PushCall): Promise<void> {
    await this.#run(call, { keys: pushKeys, gradients }, { keys: pullKeys, into });
  }

  /** Pushes all pending updates. */
  async flush(call: ParameterCall): Promise<void> {
    await this.#operate(call, async (operation) => await operation.pushAll(this.#now(call)));
  }

  /** On: pushes what is pending; reads and updates then go to the servers. Off: the cache serves again. */
  async bypass(on: boolean, call: ParameterCall): Promise<void> {
    await this.#operate(call, async (operation) => {
      this.#isBypassed = on;
      if (on) await operation.pushAll(this.#now(call));
    });
  }

  /** Pushes what is pending and frees the memory. If that fails, the cache is as it was and may be closed again. */
  async close(call: ParameterCall): Promise<void> {
    if (this.#isClosed) return;
    const run = async (operation: CacheOperation): Promise<void> => {
      await operation.pushAll(this.#now(call));
      this.#isClosed = true;
      this.#state.close();
    };
    await this.#operate(call, run, () => {}); // somebody else may close it meanwhile
  }

  async #run(
    call: PushCall,
    push: { readonly keys: KeyList; readonly gradients: Float32Array } | undefined,
    pull: { readonly keys: KeyList; readonly into: Float32Array } | undefined,
  ): Promise<void> {
    const pullKeys = pull && this.#checkedKeys(pull.keys, pull.into, "the array to look up into");
    const pushKeys = push && this.#checkedKeys(push.keys, push.gradients, "gradients");
    const given = [pushKeys, push?.gradients, pullKeys, pull?.into].map((array) => array && new CallerArray(array));
    await this.#operate(call, async (operation) => {
      this.#checkGiven(given, false);
      if (push && pushKeys) operation.update(pushKeys, push.gradients, call.admit);
      if (pullKeys) operation.pull(pullKeys);
      await operation.exchange(this.#now(call));
      if (pull === undefined) return;
      this.#checkGiven(given.slice(2), push !== undefined);
      operation.deliver(pull.into);
    });
  }

  /**
   * How an exchange is sent: at the clock at which it leaves, which its caller may have passed since (BoundedCache.H6).
   */
  #now({ priority }: ParameterCall): ExchangeCall {
    return { clock: this.#options.clock(), priority };
  }

  /** Throws BUFFER_DETACHED. */
  #checkGiven(given: readonly (CallerArray | undefined)[], isUpdate: boolean): void {
    for (const array of given) array?.check(this.#options.handle.name, isUpdate);
  }

  #checkedKeys(keys: KeyList, rows: Float32Array, what: string): BigUint64Array {
    const list = this.#keys.arrayOf(keys);
    this.#keys.checkRows(rows, { keyCount: list.length, width: this.#options.spec.width }, what);
    return list;
  }

  /**
   * Versions are those of the server that gave them: of rows that have another owner now they mean nothing
   * (BoundedCache.H5).
   */
  #forgetOldOwners(): void {
    const { epoch } = this.#options.functions;
    if (epoch === this.#epoch) return;
    if (this.#epoch !== 0) this.#state.cached.invalidate();
    this.#epoch = epoch;
  }

  /** BoundedCache.H4. The operation goes on when its caller waits no longer. */
  async #operate(
    wait: ParameterCall,
    run: (operation: CacheOperation) => Promise<void>,
    whenClosed: () => void = () => {
      throw new WeighbridgeError("CLOSED", `the cache of ${this.#options.handle.name} was closed`);
    },
  ): Promise<void> {
    const { functions, handle } = this.#options;
    const turn = this.#last.then(async () => {
      if (this.#isClosed) {
        whenClosed();
        return;
      }
      this.#forgetOldOwners();
      const operation = new CacheOperation(this.#state, this.#exchange, { pushBound: this.#pushBound, isBypassed: this.#isBypassed });
      try {
        await operation.settle(this.#options.clock());
        await run(operation);
      } finally {
        operation.release();
      }
    });
    this.#last = turn.catch(() => {}); // its caller hears of it
    await functions.wait(turn, `the cache of ${handle.name}`, { ...wait, subject: handle });
  }
}

/** Throws BAD_ARGUMENT. */
function checkOptions(name: string, options: CacheOptions): Required<CacheOptions> {
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
