// row-cache — a worker's cache of rows of one table with bounded staleness (HET): a copy may be behind the server by `pullBound` updates, and
// up to `pushBound` of this worker's own updates of a row wait to be pushed as one. Versions count a row's updates; every lookup asks the
// servers, but rows that are fresh enough do not travel.
//
//   lookup     select ─► push what was evicted, ask for versions and rows, in one round trip ─► read = copy + pending
//   update     add to pending ─► push the rows that are over the bound or not cached
//
// Invariants:
//   H1. A lookup misses at most `pullBound` updates of others to a row, and none of this worker's own.
//   H2. After an update at most `pushBound` updates of a cached row are pending, and none of any other row.
//   H3. No update is lost: it is pending until a server acknowledged it. When a server dies with a push unanswered, the push is made again once another
//       incarnation is there, or the same one is back and has not got it; if it had come into a checkpoint before, it then counts twice. One that failed and may have been applied by a server that lives
//       (LINK_LOST, also as the cause of NODE_DEAD) is not made again, nor one that a server refused with NOT_FINITE:
//       the operation that pushed it rejects with that, and no later one does.
//   H4. Operations of one cache run one after the other, in the order of their calls.
//   H5. A version counts at the server that gave it: when the placement changes, every copy is read anew before it counts as fresh.

import { WeighbridgeError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { showValue } from "../../base/show-value.ts";
import { SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { simdRowKernels } from "../../kernel/row-kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { CallerArray } from "../caller-array.ts";
import { type KeyList, KeyLists } from "../key-lists.ts";
import type { RowPlan } from "../router/row-plan.ts";
import type { TableClientOptions } from "../table-client.ts";
import { type Admit, AS_IT_IS, type ParameterCall, type PushCall } from "../tensor-client.ts";
import { type CacheState, openParts } from "./cache-state.ts";
import { CacheCounters, type CacheStatistics } from "./cache-statistics.ts";
import { POLICY_NAMES, type PolicyName } from "./eviction-policy.ts";
import { HeldPushes } from "./held-pushes.ts";
import { OperationMemory } from "./operation-memory.ts";
import { PullPart } from "./pull-part.ts";
import { PushPart } from "./push-part.ts";
import { checkAnswer, type ExchangeCall, RowExchange } from "./row-exchange.ts";
import { NO_SLOT } from "./slot-lists.ts";

const KEY_BYTES = 8;
const WORD_BYTES = 4;
const WORD_MAX = 0xffff_ffff;
const ROWS_MAX = 2 ** 26;
/** How many rows of failed pushes are kept beside those of cached rows. */
const UNPUSHED_ROWS_MAX = 2 ** 20;

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

export type RowCacheOptions = TableClientOptions & { readonly optimizer: ResolvedOptimizer; readonly cache: CacheOptions };

export class RowCache {
  readonly #options: RowCacheOptions;
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
  constructor(options: RowCacheOptions) {
    const { functions, planner, held, width, rowCountMax } = options;
    const { rows, policy, pullBound, pushBound } = checkOptions(held.name, options.cache);
    const { arena } = planner;
    const kernels = {
      arena,
      kernels: new SimdKernels(arena),
      rowKernels: simdRowKernels(arena),
      optimizers: new SimdOptimizerKernels(arena),
    };
    const secret = BigInt(planner.secret);
    this.#options = options;
    this.#keys = new KeyLists(held.name, rowCountMax);
    this.#pushBound = pushBound;
    this.#state = {
      ...kernels,
      planner,
      width,
      ...openParts(kernels, { rows, width, policy, secret, optimizer: options.optimizer }),
      held: new HeldPushes(),
      counters: new CacheCounters(),
    };
    this.#exchange = new RowExchange({ functions, planner, held, width, pullBound: Math.min(pullBound, WORD_MAX) });
  }

  get statistics(): CacheStatistics {
    const { counters, cached, pending, held, optimizer } = this.#state;
    const [rowsCached, rowsPending] = this.#isClosed ? [0, 0] : [cached.rowCount, pending.rowCount + held.rowCount];
    return { ...counters, ...optimizer.nonFinite, rowsCached, rowsPending };
  }

  /** Fills `into`, a row for each of `keys` (H1). */
  async lookup(keys: KeyList, into: Float32Array, call: ParameterCall): Promise<void> {
    const list = this.#checkedKeys(keys, into, "the array to look up into");
    const given = [new CallerArray(list), new CallerArray(into)];
    await this.#operate(call, async (operation) => {
      this.#checkGiven(given, false);
      operation.pull(list);
      await operation.exchange(call);
      this.#checkGiven(given, false);
      operation.deliver(into);
    });
  }

  /** Adds updates, a row of gradients for each of `keys`; those of a key that is named twice count as one. When it rejects after that, they are kept, unless it is with NOT_FINITE (H3). */
  async update(keys: KeyList, gradients: Float32Array, call: PushCall): Promise<void> {
    const list = this.#checkedKeys(keys, gradients, "gradients");
    const given = [new CallerArray(list), new CallerArray(gradients)];
    await this.#operate(call, async (operation) => {
      this.#checkGiven(given, false);
      operation.update(list, gradients, call.admit);
      await operation.exchange(call);
    });
  }

  /** `update`, then `lookup`, in one round trip. */
  async pushPull(pullKeys: KeyList, into: Float32Array, pushKeys: KeyList, gradients: Float32Array, call: PushCall): Promise<void> {
    const pullList = this.#checkedKeys(pullKeys, into, "the array to look up into");
    const pushList = this.#checkedKeys(pushKeys, gradients, "gradients");
    const [pushed, pulled] = [
      [new CallerArray(pushList), new CallerArray(gradients)],
      [new CallerArray(pullList), new CallerArray(into)],
    ];
    await this.#operate(call, async (operation) => {
      this.#checkGiven([...pushed, ...pulled], false);
      operation.update(pushList, gradients, call.admit);
      operation.pull(pullList);
      await operation.exchange(call);
      this.#checkGiven(pulled, true);
      operation.deliver(into);
    });
  }

  /** Pushes all pending updates. */
  async flush(call: ParameterCall): Promise<void> {
    await this.#operate(call, async (operation) => {
      operation.pushAll();
      await operation.exchange(call);
    });
  }

  /** On: pushes all pending updates, and from then on reads and updates go to the servers. Off: the cache serves again, with what it had. */
  async bypass(on: boolean, call: ParameterCall): Promise<void> {
    await this.#operate(call, async (operation) => {
      this.#isBypassed = on;
      if (on) operation.pushAll();
      await operation.exchange(call);
    });
  }

  /** Pushes all pending updates and gives the memory back. When that fails the cache is as it was, and may be closed again. */
  async close(call: ParameterCall): Promise<void> {
    if (this.#isClosed) return;
    await this.#operate(
      call,
      async (operation) => {
        operation.pushAll();
        await operation.exchange(call);
        this.#isClosed = true;
        this.#state.cached.close();
        this.#state.pending.close();
        this.#state.optimizer.close();
      },
      () => {}, // somebody else closed it meanwhile
    );
  }

  /** Throws BUFFER_DETACHED. */
  #checkGiven(given: readonly CallerArray[], isUpdate: boolean): void {
    for (const array of given) array.check(this.#options.held.name, isUpdate);
  }

  #checkedKeys(keys: KeyList, rows: Float32Array, what: string): BigUint64Array {
    const list = this.#keys.arrayOf(keys);
    this.#keys.checkRows(rows, { keyCount: list.length, width: this.#options.width }, what);
    return list;
  }

  /** Versions are those of the server that gave them: of rows that have another owner now they mean nothing (H5). */
  #forgetOldOwners(): void {
    const { epoch } = this.#options.functions;
    if (epoch === this.#epoch) return;
    if (this.#epoch !== 0) this.#state.cached.invalidate();
    this.#epoch = epoch;
  }

  /** H4. The operation goes on when its caller waits no longer. */
  async #operate(
    wait: ParameterCall,
    run: (operation: Operation) => Promise<void>,
    whenClosed: () => void = () => {
      throw new WeighbridgeError("CLOSED", `the cache of ${this.#options.held.name} was closed`);
    },
  ): Promise<void> {
    const { functions, held } = this.#options;
    const turn = this.#last.then(async () => {
      if (this.#isClosed) {
        whenClosed();
        return;
      }
      this.#forgetOldOwners();
      const operation = new Operation(this.#state, this.#exchange, { pushBound: this.#pushBound, isBypassed: this.#isBypassed });
      try {
        await operation.settleHeld(wait.clock);
        await run(operation);
      } finally {
        operation.release();
      }
    });
    this.#last = turn.catch(() => {}); // its caller hears of it
    await functions.wait(turn, `the cache of ${held.name}`, { ...wait, subject: held });
  }
}

/** One operation in its turn. */
class Operation {
  readonly #state: CacheState;
  readonly #exchange: RowExchange;
  readonly #settings: { readonly pushBound: number; readonly isBypassed: boolean };
  readonly #memory: OperationMemory;
  readonly #plans: RowPlan[] = [];
  /** Lists of keys whose pending updates are pushed, some perhaps twice. */
  readonly #pushKeys: BigUint64Array[] = [];
  #pull: PullPart | undefined;
  #pushesAll = false;

  constructor(state: CacheState, exchange: RowExchange, settings: { readonly pushBound: number; readonly isBypassed: boolean }) {
    this.#state = state;
    this.#exchange = exchange;
    this.#settings = settings;
    this.#memory = new OperationMemory(state.arena);
    state.cached.begin();
  }

  /** Gradients become pending; those of rows over the bound or not cached will be pushed (H2). Throws NOT_FINITE, QUEUE_FULL, ARENA_FULL: nothing is pending. */
  update(keys: BigUint64Array, gradients: Float32Array, admit?: Admit): void {
    if (keys.length === 0) return;
    const { arena, optimizer, pending, held, cached, counters, width } = this.#state;
    const waiting = pending.rowCount + held.rowCount;
    if (waiting > cached.slotCount + UNPUSHED_ROWS_MAX)
      throw new WeighbridgeError("QUEUE_FULL", `${waiting} rows wait for servers that do not take them`, { retryable: true });
    const plan = this.#plan(keys);
    const sums = plan.gradients(gradients, width);
    const { scale } = admit?.(sums, gradients) ?? AS_IT_IS;
    const summed = this.#inArena(sums);
    const floatCount = plan.rowCount * width;
    if (scale !== 1) for (let at = summed >>> 2, end = at + floatCount; at < end; at++) arena.floats[at]! *= scale;
    if (!optimizer.admit(summed, floatCount)) return;
    pending.add(plan.keysAddress, plan.rowCount, summed, this.#memory);
    counters.rowsUpdated += plan.rowCount;
    this.#pushDue(plan);
  }

  /** Rows to read. */
  pull(keys: BigUint64Array): void {
    if (keys.length === 0) return;
    const { optimizer } = this.#state;
    const plan = this.#plan(keys);
    this.#pull = new PullPart(this.#state, plan, this.#memory);
    const { victims, victimCount } = this.#pull.select(this.#settings.isBypassed);
    this.#pushPending(victims, victimCount, () => true);
    if (!optimizer.isExact) this.#pushPending(plan.keysAddress, plan.rowCount, () => true);
  }

  /** What left for a server that was taken for dead is dealt with as soon as it is heard of again (H3). Rejects with LINK_LOST when nobody can say any more. */
  async settleHeld(clock: number): Promise<void> {
    const { held, pending } = this.#state;
    if (held.rowCount === 0) return;
    for (const server of held.servers) await this.#exchange.probe(server, clock).catch(() => {}); // still away: what asks it finds out
    held.settle(pending, this.#memory);
  }

  pushAll(): void {
    const { arena, pending } = this.#state;
    const { rowCount } = pending;
    this.#pushesAll = true;
    if (rowCount === 0) return;
    const keys = this.#memory.take(rowCount * KEY_BYTES);
    pending.copyKeys(keys, this.#memory);
    this.#pushKeys.push(new BigUint64Array(arena.memory.buffer, keys, rowCount));
  }

  /** One round trip to every server that has something to do. Rejects with what failed, after what did not fail was taken in. */
  async exchange({ clock, priority }: ExchangeCall): Promise<void> {
    const pull = this.#pull;
    const push = this.#pushPart();
    if (push === undefined && pull === undefined) {
      this.#checkAllPushed(0);
      return;
    }
    const ask = pull?.ask(push?.advance() ?? new Map());
    const { acknowledged, lost, unsure, answers, failure } = await this.#exchange.run(push?.list, ask, { clock, priority });
    for (const one of acknowledged) push?.acknowledge(one);
    for (const one of lost) push?.giveUp(one);
    for (const one of unsure) push?.hold(one);
    for (const answer of answers) checkAnswer(answer, this.#state.width);
    if (this.#exchange.noteGenerations(answers)) {
      this.#state.cached.invalidate();
      this.#state.counters.resyncs++;
    }
    for (const answer of answers) {
      this.#state.optimizer.setRate(answer.fresh.rate);
      pull?.take(answer, answer.isWhole && answer.fresh.generation === this.#exchange.generationOf(answer.asked.server));
    }
    if (failure !== undefined) throw failure;
    const { held, pending } = this.#state;
    this.#checkAllPushed(held.rowCount === 0 ? 0 : held.settle(pending, this.#memory));
  }

  /** A server came back between the look at what is held and the exchange, which is as if it were away still; or it is. Throws NODE_DEAD, retryable. */
  #checkAllPushed(pendingAgain: number): void {
    const { held } = this.#state;
    if (pendingAgain > 0)
      throw new WeighbridgeError("NODE_DEAD", `a server came back without updates of ${pendingAgain} rows, which are pushed again`, {
        retryable: true,
      });
    if (this.#pushesAll && held.rowCount > 0) throw held.error;
  }

  deliver(into: Float32Array): void {
    this.#pull?.deliver(into);
  }

  release(): void {
    this.#pull?.finish();
    for (const plan of this.#plans.splice(0)) plan.release();
    this.#memory.release();
  }

  /** The rows of an update that are over the bound, or not cached. */
  #pushDue({ keysAddress, rowCount }: RowPlan): void {
    const { arena, cached, pending } = this.#state;
    const { pushBound, isBypassed } = this.#settings;
    const slots = this.#memory.take(rowCount * WORD_BYTES);
    cached.find(keysAddress, rowCount, slots);
    const slotOf = new Int32Array(arena.memory.buffer, slots, rowCount);
    this.#pushPending(
      keysAddress,
      rowCount,
      (row, gradients) => isBypassed || slotOf[row] === NO_SLOT || pending.updatesAt(gradients) > pushBound,
    );
  }

  /** Will push those keys that have pending updates and are due. */
  #pushPending(keys: number, keyCount: number, isDue: (row: number, gradients: number) => boolean): void {
    if (keyCount === 0) return;
    const { arena, pending } = this.#state;
    const found = this.#memory.take(keyCount * WORD_BYTES);
    if (pending.find(keys, keyCount, found) === keyCount) return;
    const { words } = arena;
    const due = this.#memory.take(keyCount * KEY_BYTES);
    let count = 0;
    for (let row = 0; row < keyCount; row++) {
      const gradients = words[(found >>> 2) + row] as number;
      if (gradients === 0 || !isDue(row, gradients)) continue;
      words[(due >>> 2) + 2 * count] = words[(keys >>> 2) + 2 * row] as number;
      words[(due >>> 2) + 2 * count + 1] = words[(keys >>> 2) + 2 * row + 1] as number;
      count++;
    }
    if (count > 0) this.#pushKeys.push(new BigUint64Array(arena.memory.buffer, due, count));
  }

  #pushPart(): PushPart | undefined {
    const [first, ...more] = this.#pushKeys;
    if (first === undefined) return undefined;
    const keys = more.length === 0 ? first : joined(this.#pushKeys);
    return new PushPart(this.#state, this.#plan(keys), this.#memory);
  }

  /** Where floats lie in the arena: the plan's own, or copied from the caller's array. */
  #inArena(floats: Float32Array): number {
    const { arena } = this.#state;
    if (floats.buffer === arena.memory.buffer) return floats.byteOffset;
    const address = this.#memory.take(floats.byteLength);
    arena.floats.set(floats, address >>> 2);
    return address;
  }

  #plan(keys: BigUint64Array): RowPlan {
    const plan = this.#state.planner.plan(keys);
    this.#plans.push(plan);
    return plan;
  }
}

function joined(lists: readonly BigUint64Array[]): BigUint64Array {
  const all = new BigUint64Array(lists.reduce((count, { length }) => count + length, 0));
  let at = 0;
  for (const list of lists) {
    all.set(list, at);
    at += list.length;
  }
  return all;
}

/** Throws BAD_ARGUMENT. */
function checkOptions(name: string, options: CacheOptions): Required<CacheOptions> {
  const { rows, policy = "lru", pullBound = 0, pushBound = 0 } = options;
  const bad = (what: string): WeighbridgeError => new WeighbridgeError("BAD_ARGUMENT", `the cache of ${name}: ${what}`);
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
