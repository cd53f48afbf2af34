// cache-operation — one operation of a CachedEmbedding in its turn: what it updates and reads, and the one exchange
// with the servers that comes of it. One for each operation; `release` ends it. Which operations there are, and their
// order, is cached-embedding.ts's.
//
// Invariants:
//   CacheOperation.O1. What was acknowledged or answered before something failed is used, then the failure is thrown.

import { bytesOf, joinBytes } from "../../base/bytes.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { ArenaSpans } from "../arena-spans.ts";
import { type Admit, AS_IT_IS } from "../parameter-control.ts";
import type { RowPlan } from "../router/row-plan.ts";
import type { CacheState } from "./cache-state.ts";
import { NO_SLOT } from "./eviction-order.ts";
import { PullPart } from "./pull-part.ts";
import { PushPart } from "./push-part.ts";
import { checkAnswer, type ExchangeCall, type RowExchange } from "./row-exchange.ts";

/** How many rows of failed pushes are kept beside those of cached rows. */
const UNPUSHED_ROWS_MAX = 2 ** 20;

export type OperationSettings = { readonly pushBound: number; readonly isBypassed: boolean };

export class CacheOperation {
  readonly #state: CacheState;
  readonly #exchange: RowExchange;
  readonly #settings: OperationSettings;
  readonly #memory: ArenaSpans;
  readonly #plans: RowPlan[] = [];
  /** Lists of keys whose pending updates are pushed, some perhaps twice. */
  readonly #pushKeys: BigUint64Array[] = [];
  #pull: PullPart | undefined;

  constructor(state: CacheState, exchange: RowExchange, settings: OperationSettings) {
    this.#state = state;
    this.#exchange = exchange;
    this.#settings = settings;
    this.#memory = new ArenaSpans(state.arena);
    state.cached.begin();
  }

  /**
   * Gradients become pending; those of rows over the bound or not cached will be pushed (CachedEmbedding.H2). Throws
   * NOT_FINITE, QUEUE_FULL, ARENA_FULL: nothing is pending.
   */
  update(keys: BigUint64Array, gradients: Float32Array, admit?: Admit): void {
    if (keys.length === 0) return;
    const { arena, optimizer, pending, unsettled, cached, counters, width } = this.#state;
    const waiting = pending.rowCount + unsettled.rowCount;
    if (waiting > cached.slotCount + UNPUSHED_ROWS_MAX)
      throw new WeighbridgeError("QUEUE_FULL", `${waiting} rows wait for servers that do not take them`, { retryable: true });
    const plan = this.#plan(keys);
    const sums = plan.gradients(gradients, width);
    const { scale } = admit?.(sums, gradients) ?? AS_IT_IS;
    const summed = this.#inArena(sums);
    const floatCount = plan.rowCount * width;
    if (scale !== 1) for (let at = summed >>> 2, end = at + floatCount; at < end; at++) arena.floats[at]! *= scale;
    if (!optimizer.admit(summed, floatCount)) return;
    const list = pending.add(plan.keysAddress, plan.rowCount, summed, this.#memory);
    counters.rowsUpdated += plan.rowCount;
    this.#pushDue(plan, list);
  }

  /** Rows to read. */
  pull(keys: BigUint64Array): void {
    if (keys.length === 0) return;
    const plan = this.#plan(keys);
    this.#pull = new PullPart(this.#state, plan, this.#memory);
    const victims = this.#memory.take(plan.rowCount * KEY_BYTES);
    const victimCount = this.#pull.select(this.#settings.isBypassed, victims);
    this.#pushPending(victims, victimCount);
    if (!this.#state.optimizer.isExact) this.#pushPending(plan.keysAddress, plan.rowCount);
  }

  /**
   * What left for a server that was taken for dead is dealt with as soon as it is heard of again (CachedEmbedding.H3).
   * Rejects with LINK_LOST when nobody can say any more.
   */
  async settle(clock: number): Promise<void> {
    const { unsettled, pending } = this.#state;
    if (unsettled.rowCount === 0) return;
    // Still away: what asks it finds out.
    for (const server of unsettled.servers) await this.#exchange.probe(server, clock).catch(() => {});
    unsettled.settle(pending, this.#memory);
  }

  /** An exchange that pushes everything. Rejects as `exchange`, and with NODE_DEAD while something is unsettled. */
  async pushAll(call: ExchangeCall): Promise<void> {
    const { arena, pending, unsettled } = this.#state;
    const { rowCount } = pending;
    if (rowCount > 0) {
      const keys = this.#memory.take(rowCount * KEY_BYTES);
      pending.copyKeys(keys, this.#memory);
      this.#pushKeys.push(new BigUint64Array(arena.memory.buffer, keys, rowCount));
      await this.exchange(call);
    }
    if (unsettled.rowCount > 0) throw unsettled.error;
  }

  /** One round trip to every server that has something to do. Rejects with what failed (CacheOperation.O1). */
  async exchange({ clock, priority }: ExchangeCall): Promise<void> {
    const { cached, counters, unsettled, optimizer, pending, width } = this.#state;
    const pull = this.#pull;
    const push = this.#pushPart();
    if (push === undefined && pull === undefined) return;
    const sync = pull?.sync(push?.advance() ?? new Map());
    const { acknowledged, lost, unsure, answers, failure } = await this.#exchange.run(push?.list, sync, { clock, priority });
    for (const one of acknowledged) push?.acknowledge(one);
    for (const one of lost) push?.giveUp(one);
    for (const one of unsure) push?.hold(one);
    for (const answer of answers) checkAnswer(answer, width);
    if (this.#exchange.noteGenerations(answers)) {
      cached.invalidate();
      counters.resyncs++;
    }
    for (const answer of answers) {
      optimizer.setRate(answer.fresh.rate);
      pull?.take(answer, answer.isWhole && answer.fresh.generation === this.#exchange.generationOf(answer.wanted.server));
    }
    if (failure !== undefined) throw failure;
    const pendingAgain = unsettled.rowCount === 0 ? 0 : unsettled.settle(pending, this.#memory);
    // Else a server came back between the look at what is unsettled and the exchange, which is as if it were away
    // still.
    if (pendingAgain === 0) return;
    const text = `a server came back without updates of ${pendingAgain} rows, which are pushed again`;
    throw new WeighbridgeError("NODE_DEAD", text, { retryable: true, outcome: "not-applied" });
  }

  deliver(into: Float32Array): void {
    this.#pull?.deliver(into);
  }

  release(): void {
    this.#pull?.finish();
    for (const plan of this.#plans.splice(0)) plan.release();
    this.#memory.release();
  }

  /** Will push the rows of an update that are over the bound, or not cached. `list` says where their updates are. */
  #pushDue({ keysAddress, rowCount }: RowPlan, list: number): void {
    const { cached, pending } = this.#state;
    const { words } = this.#state.arena;
    const { pushBound, isBypassed } = this.#settings;
    const slots = new Int32Array(rowCount).fill(NO_SLOT);
    if (!isBypassed) cached.findAll(keysAddress, slots);
    this.#pushThose(
      keysAddress,
      rowCount,
      (row) => slots[row] === NO_SLOT || pending.updatesAt(words[(list >>> 2) + row] as number) > pushBound,
    );
  }

  /** Will push those keys that have pending updates. */
  #pushPending(keys: number, keyCount: number): void {
    const { arena, pending } = this.#state;
    if (keyCount === 0 || pending.rowCount === 0) return;
    const found = this.#memory.take(keyCount * WORD_BYTES);
    if (pending.find(keys, keyCount, found) === keyCount) return;
    this.#pushThose(keys, keyCount, (row) => arena.words[(found >>> 2) + row] !== 0);
  }

  #pushThose(keys: number, keyCount: number, isDue: (row: number) => boolean): void {
    const { buffer } = this.#state.arena.memory;
    const { words } = this.#state.arena;
    const due = this.#memory.take(keyCount * KEY_BYTES);
    let count = 0;
    for (let row = 0; row < keyCount; row++) {
      if (!isDue(row)) continue;
      words[(due >>> 2) + 2 * count] = words[(keys >>> 2) + 2 * row] as number;
      words[(due >>> 2) + 2 * count + 1] = words[(keys >>> 2) + 2 * row + 1] as number;
      count++;
    }
    if (count > 0) this.#pushKeys.push(new BigUint64Array(buffer, due, count));
  }

  #pushPart(): PushPart | undefined {
    const [first, ...more] = this.#pushKeys;
    if (first === undefined) return undefined;
    const keys = more.length === 0 ? first : new BigUint64Array(joinBytes(this.#pushKeys.map(bytesOf)).buffer);
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
