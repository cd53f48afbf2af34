// tiered-rows — a RowSource whose rows live with the workers while they train (MindSpore's vocabCacheSize): in the device's span that the layer reads, behind it
// in host memory, behind that on the servers. Each row belongs to one worker, which applies the optimizer to it, with its moments; the servers get rows back
// when they expire, at every flush and at the end. Which row lies where is row-tiers'; which worker owns it, row-members'.
//
//   announce   ids to the owners ─► owners bring the rows that are missing, while the batch before computes
//   take       ids to the owners, unless announced ─► rows from the owners ─► slots
//   give       gradients to the owners ─► summed by rank, one step of the optimizer for each row
//
// All workers take and give in the same steps; one without data takes an empty list. Results have the bits of the uncached table with consistency "bsp".
//
// What may be lost: the servers have the rows as they were at the last flush, or later. When a worker dies, the steps since its last flush are lost for the rows
// that it owned and had not written back: at most `flushEverySteps`, none after a checkpoint before which all workers flushed. Of the step in which it died some
// owners may have taken the gradients and others not. Nothing else is lost: when a server does not take rows, they are kept here and written again.
//
// Invariants:
//   C1. As R1 to R4 of row-source. What a step does to tiers is done in the order of the calls, one thing after the other.
//   C2. Operations among the workers begin in the same order at every one of them, whatever failed at one: a failure is told to all of them.
//   C3. A batch whose rows exceed the cache is served all the same, the rest of it directly from the servers; it is counted and told once.

import { assert } from "../../base/assert.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import { simdRowKernels } from "../../kernel/row-kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { ArenaSpans } from "../../worker/arena-spans.ts";
import { openRawRows, type RawRows } from "../../worker/raw-rows.ts";
import type { RowPlanner } from "../../worker/router/row-plan.ts";
import type { BatchRows } from "./batch-rows.ts";
import { encodeGiven, type OutgoingGradients, ownGiven } from "./outgoing-gradients.ts";
import { RowApplier } from "./row-applier.ts";
import { asError, assignRows } from "./row-assignment.ts";
import { RowMembers } from "./row-members.ts";
import * as messages from "./row-messages.ts";
import { RowRequest } from "./row-request.ts";
import type { RowSource, RowSourceStatistics } from "./row-source.ts";
import { RowTiers, type TierKernels } from "./row-tiers.ts";
import { RowWindow } from "./row-window.ts";
import type { ServedRows } from "./served-rows.ts";
import { checkTieredRows, FLUSH_EVERY_STEPS, HOST_ROWS_PER_DEVICE_ROW, type TieredRowsOptions } from "./tiered-rows-options.ts";

/** The batch that was taken last. */
type Taken = { readonly asked: BatchRows; readonly served: ServedRows; isGiven: boolean };

export class TieredRows implements RowSource {
  readonly width: number;
  readonly address: number;
  readonly slotCount: number;
  readonly #options: TieredRowsOptions;
  readonly #tools: TierKernels;
  readonly #raw: RawRows;
  readonly #members: RowMembers;
  readonly #window: RowWindow;
  readonly #tiers: RowTiers;
  readonly #applier: RowApplier;
  readonly #rowCountMax: number;
  readonly #flushEverySteps: number;
  readonly #log: Log;
  /** Plans by owner, as the members of this generation have them. */
  #planner: RowPlanner;
  #generation: number;
  readonly #counts = { idCount: 0, uniqueCount: 0, directBatches: 0 };
  /** A batch that the owners were told, or are being told. */
  #next: RowRequest | undefined;
  #taken: Taken | undefined;
  /** Ends when what changes rows so far has (C1). */
  #last: Promise<unknown> = Promise.resolve();
  /** Ends when everything given so far was applied or has failed. */
  #given: Promise<unknown> = Promise.resolve();
  #stepCount = 0;
  #isClosed = false;

  private constructor(options: TieredRowsOptions, raw: RawRows) {
    const { arena, members = new RowMembers(0), vocabCacheSize, idCountMax, flushEverySteps, log } = options;
    const { hostRows = vocabCacheSize * HOST_ROWS_PER_DEVICE_ROW } = options;
    const { width, rows } = raw.spec;
    this.#options = options;
    this.#raw = raw;
    this.#members = members;
    this.#tools = { arena, kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena) };
    this.#log = log ?? SILENT_LOG;
    this.#rowCountMax = rows ?? Number.MAX_SAFE_INTEGER;
    this.#flushEverySteps = flushEverySteps ?? FLUSH_EVERY_STEPS;
    this.width = width;
    this.#window = new RowWindow(this.#tools, { deviceRows: vocabCacheSize, idCountMax, width, name: raw.spec.name });
    this.slotCount = this.#window.slotCount;
    this.address = this.#window.address;
    const { secret } = raw.planner;
    try {
      this.#tiers = new RowTiers(this.#tools, { raw, width, deviceRows: vocabCacheSize, hostRows, mirror: this.address, secret });
    } catch (thrown) {
      this.#window.close();
      throw thrown;
    }
    this.#applier = new RowApplier(this.#tools, raw);
    this.#planner = members.planner(arena, raw.planner.secret);
    this.#generation = members.generation;
  }

  /** Every member opens it. Rejects with BAD_ARGUMENT, UNSUPPORTED for tables that cannot be cached, ARENA_FULL, and what the servers or members fail with. */
  static async open(options: TieredRowsOptions, wait: WaitOptions = {}): Promise<TieredRows> {
    checkTieredRows(options);
    const raw = options.embedding.raw(openRawRows, options.arena);
    const source = new TieredRows(options, raw);
    const dealt = assignRows(source.#members, raw).then((training) => source.#applier.resume(training));
    try {
      await raw.wait(dealt, wait);
      return source;
    } catch (thrown) {
      source.#free();
      throw thrown;
    }
  }

  get statistics(): RowSourceStatistics {
    return { ...this.#counts, ...this.#tiers.counts };
  }

  announce(ids: ArrayLike<number>): void {
    if (this.#isClosed || this.#generation !== this.#members.generation) return;
    if (this.#next !== undefined || ids.length > this.#options.idCountMax) return;
    const next = this.#ask(ids, true);
    this.#next = next;
    this.#prefetch(next).catch(() => {}); // whoever takes the batch does it again, and is told
  }

  async take(ids: ArrayLike<number>, wait: WaitOptions = {}): Promise<Int32Array> {
    this.#checkOpen();
    this.#checkGeneration();
    const { idCountMax } = this.#options;
    if (ids.length > idCountMax)
      throw new WeighbridgeError(
        "BAD_ARGUMENT",
        `${this.#raw.spec.name}: a batch of ${ids.length} ids, and the cache was opened for ${idCountMax}`,
      );
    const copy = new Float64Array(ids);
    return await this.#raw.wait(
      this.#members.inTurn(() => this.#take(copy)),
      wait,
    );
  }

  /** Resolves when the rows have taken their step. Rejects with NOT_FINITE where the optimizer refuses such gradients: none of this worker's then counts. */
  async give(slots: Int32Array, gradients: Float32Array, wait: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    this.#checkGeneration();
    const taken = this.#taken;
    if (taken === undefined || taken.isGiven)
      throw new WeighbridgeError("BAD_ARGUMENT", `${this.#raw.spec.name}: gradients are given once after each take`);
    const rows = this.#rowsOf(taken.asked, slots, gradients);
    taken.isGiven = true;
    const spans = new ArenaSpans(this.#tools.arena);
    const { given, failure } = this.#admitted(rows, gradients, spans);
    const gathered = this.#gather(taken.asked, given);
    const applied = gathered.then((all) => this.#inOrder(() => this.#apply(taken, all)));
    this.#given = Promise.allSettled([this.#given, applied.finally(() => spans.release())]);
    await this.#raw.wait(applied, wait);
    if (failure !== undefined) throw failure;
  }

  async flush(wait: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    await this.#raw.wait(
      this.#given.then(() => this.#inOrder(() => this.#flush())),
      wait,
    );
  }

  /**
   * The Collective of the members has formed its next generation: everybody writes back what it holds, and rows are dealt out anew. Every member calls it; who has
   * joined opens its source meanwhile. A batch that was taken is void.
   */
  async reform(wait: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    const reformed = this.#given.then(() =>
      this.#inOrder(async () => {
        this.#next?.release();
        this.#next = undefined;
        this.#dropTaken();
        const failure = await this.#flush().then(
          () => undefined,
          (thrown: unknown) => asError(thrown),
        );
        const training = await assignRows(this.#members, this.#raw, failure);
        this.#tiers.clear();
        this.#planner = this.#members.planner(this.#options.arena, this.#raw.planner.secret);
        this.#generation = this.#members.generation;
        this.#applier.resume(training);
      }),
    );
    await this.#raw.wait(reformed, wait);
  }

  /** Writes everything back. When that fails the source is as it was, and may be closed again. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.#given;
    await this.#inOrder(async () => {
      if (this.#isClosed) return;
      await this.#flush();
      this.#isClosed = true;
      this.#next?.release();
      this.#dropTaken();
      this.#free();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new WeighbridgeError("CLOSED", `the cached rows of ${this.#raw.spec.name} were closed`);
  }

  #checkGeneration(): void {
    if (this.#generation === this.#members.generation) return;
    const text = `${this.#raw.spec.name}: the workers have formed generation ${this.#members.generation}; rows are dealt out anew by reform()`;
    throw new WeighbridgeError("ABORTED", text);
  }

  #free(): void {
    this.#tiers.close();
    this.#applier.close();
    this.#window.close();
  }

  /** C1. It goes on when its caller waits no longer. */
  async #inOrder<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(run);
    this.#last = turn.catch(() => {}); // its caller hears of it
    return await turn;
  }

  /** Tells the owners what this worker wants, at once (C2); `ids` left out: it does not know yet. */
  #ask(ids: ArrayLike<number> | undefined, isHint = false): RowRequest {
    return new RowRequest({ members: this.#members, planner: this.#planner, ids, rowCountMax: this.#rowCountMax, isHint });
  }

  async #prefetch(next: RowRequest): Promise<void> {
    const asks = await next.answers;
    if (asks.some(({ isKnown }) => !isKnown)) return;
    await this.#inOrder(async () => {
      if (this.#next === next && !this.#isClosed) await next.admit(asks, this.#raw.planner, this.#tiers);
    });
  }

  async #take(ids: Float64Array): Promise<Int32Array> {
    await this.#given;
    for (let attempt = 0; ; attempt++) {
      assert(attempt < 3, "C2: a batch that was asked for again is known to everybody");
      const next = this.#next ?? this.#ask(ids);
      try {
        const asks = await next.answers.finally(() => {
          this.#next = undefined;
        });
        const isKnown = asks.every((ask) => ask.isKnown);
        const slots = isKnown ? await this.#inOrder(() => this.#takeAsked(next, asks, ids)) : undefined;
        if (slots !== undefined) return slots;
      } catch (thrown) {
        next.release();
        throw thrown;
      }
      next.release();
    }
  }

  /** Undefined when somebody asked for the wrong rows, and everybody asks again. */
  async #takeAsked(next: RowRequest, asks: readonly messages.Ask[], ids: Float64Array): Promise<Int32Array | undefined> {
    this.#dropTaken();
    const { asked } = next;
    const isRight = asked?.isOf(ids) === true;
    const outgoing = await this.#rowMessages(next, asks, isRight);
    const incoming = (await this.#members.exchange(outgoing)).map((bytes) => messages.decodeRows(bytes, this.width));
    if (incoming.includes("again")) return undefined;
    assert(asked !== undefined && next.served !== undefined, "rows came that nobody asked for");
    const own = { served: next.served, position: this.#members.position, tiers: this.#tiers };
    this.#window.place(asked, own, incoming as Float32Array[]);
    const slots = asked.idSlots(this.#rowCountMax);
    this.#taken = { asked, served: next.served, isGiven: false };
    this.#counts.idCount += asked.namedCount;
    this.#counts.uniqueCount += asked.rowCount;
    return slots;
  }

  /** What each member asked for, or for all of them why they do not get it (C2). Throws nothing unless this worker is alone. */
  async #rowMessages(next: RowRequest, asks: readonly messages.Ask[], isRight: boolean): Promise<Uint8Array[]> {
    const { ranks, position: own } = this.#members;
    if (!isRight && next.failure === undefined) return ranks.map(() => messages.askAgainMessage());
    try {
      if (next.failure !== undefined) throw next.failure;
      const served = await next.admit(asks, this.#raw.planner, this.#tiers);
      const outside = await this.#tiers.settle(served.keys, served.keyCount);
      if (outside > 0) this.#noteDirect(served.keyCount);
      return ranks.map((_, i) => (i === own ? messages.rowsMessage(0, this.width).bytes : this.#rowsFor(served, i)));
    } catch (thrown) {
      if (this.#members.isAlone) throw thrown;
      return ranks.map(() => messages.failureMessage(asError(thrown)));
    }
  }

  #rowsFor(served: ServedRows, position: number): Uint8Array {
    const { address, keyCount } = served.keysOf(position);
    const { bytes, rows } = messages.rowsMessage(keyCount, this.width);
    this.#tiers.read(address, keyCount, rows);
    return bytes;
  }

  /** The rows of the slots. Throws BAD_ARGUMENT, VALUE_LENGTH. */
  #rowsOf(asked: BatchRows, slots: Int32Array, gradients: Float32Array): Int32Array {
    const rows = this.#window.rowsOf(asked, slots);
    if (gradients.length === rows.length * this.width) return rows;
    throw new WeighbridgeError(
      "VALUE_LENGTH",
      `${this.#raw.spec.name}: ${gradients.length} gradients for ${rows.length} rows of ${this.width}`,
    );
  }

  /** A copy of the gradients as the optimizer's policy for NaN and infinities leaves them; none of them, and a failure, where it refuses them. */
  #admitted(
    rows: Int32Array,
    gradients: Float32Array,
    spans: ArenaSpans,
  ): { readonly given: OutgoingGradients; readonly failure: unknown } {
    const { arena } = this.#tools;
    const common = { width: this.width, clock: this.#raw.clock };
    const nothing = { ...common, rows: new Int32Array(0), gradients: new Float32Array(0), scale: 1 };
    if (rows.length === 0) return { given: nothing, failure: undefined };
    try {
      const scale = Math.fround(this.#raw.clipScaleOf(gradients)); // as it travels to a server
      const address = spans.take(gradients.byteLength);
      arena.floats.set(gradients, address >>> 2);
      const isAdmitted = this.#applier.admit(address, gradients.length);
      const copy = arena.floats.subarray(address >>> 2, (address >>> 2) + gradients.length) as Float32Array;
      return { given: isAdmitted ? { ...common, rows, gradients: copy, scale } : nothing, failure: undefined };
    } catch (thrown) {
      return { given: nothing, failure: thrown };
    }
  }

  /** Sends gradients to their owners, at once (C2); resolves with what all members gave for this worker's rows. */
  async #gather(asked: BatchRows, given: OutgoingGradients): Promise<readonly messages.Gradients[]> {
    if (this.#members.isAlone) return [ownGiven(given)];
    this.#next ??= this.#ask(undefined); // those who announced have asked before they give
    const incoming = await this.#members.exchange(encodeGiven(asked, given));
    return incoming.map((bytes) => messages.decodeGradients(bytes, this.width));
  }

  async #apply({ served }: Taken, given: readonly messages.Gradients[]): Promise<void> {
    this.#applier.apply(served, given, this.#tiers);
    this.#tiers.release();
    this.#stepCount++;
    await this.#tiers.writeLoose();
    if (this.#stepCount % this.#flushEverySteps === 0) await this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#raw.wasRestarted) this.#tiers.distrust();
    await this.#tiers.flush();
    this.#applier.configure(await this.#raw.sync(this.#applier.step));
  }

  /** C3 */
  #noteDirect(rowCount: number): void {
    const { vocabCacheSize } = this.#options;
    if (this.#counts.directBatches++ > 0) return;
    const text = `a step needs more rows of ${this.#raw.spec.name} than the cache has; it goes to the servers for the others: enlarge vocabCacheSize`;
    this.#log.warn(text, { rowCount, vocabCacheSize });
  }

  #dropTaken(): void {
    this.#taken?.asked.release();
    this.#taken?.served.release();
    this.#taken = undefined;
  }
}
