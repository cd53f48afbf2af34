// tiered-rows — a RowSource whose rows live with the workers while they train (MindSpore's vocabCacheSize): in the
// device's span that the layer reads, behind it in host memory, behind that on the servers. Each row belongs to one
// worker, which applies the optimizer to it; rows return to the servers when they expire, at every flush and at the
// end. row-tiers.ts knows where a row is, row-members.ts its owner.
//
//   prefetch   ids to the owners ─► owners fetch missing rows, while the batch before computes
//   acquire    ids to the owners, unless prefetched ─► rows from the owners ─► slots
//   push       gradients to the owners ─► summed by rank, one step of the optimizer for each row
//
// All workers acquire and push in the same steps; one without data acquires an empty list. Results have the bits of the
// uncached table with consistency "bsp".
//
// What may be lost: the servers have the rows as of the last flush, or later. If a worker dies, the steps since its
// last flush are lost for the rows that it owned and had not written back: at most `flushEverySteps`, none after a
// checkpoint before which all workers flushed. In the step in which it died, only some owners may have got the
// gradients. Rows that a server does not accept stay here and are written again.
//
// Invariants:
//   TieredRows.C1. As RowSource.R1 to R4. Steps change the tiers in the order of the calls, one after the other.
//   TieredRows.C2. Operations among the workers begin in the same order at all of them; a failure at one reaches all.
//   TieredRows.C3. A batch that exceeds the cache is served all the same, the rest of it directly from the servers; it
//                  is counted, and logged once.

import { assert } from "../../base/assert.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { asError, badArgument, WeighbridgeError } from "../../base/errors.ts";
import { InTurn } from "../../base/in-turn.ts";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import { simdRowKernels } from "../../kernel/row-kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { ArenaSpans } from "../../worker/arena-spans.ts";
import { openRawRows, type RawRows } from "../../worker/raw-rows.ts";
import type { RowPlanner } from "../../worker/router/row-plan.ts";
import { RowApplier } from "./row-applier.ts";
import { assignRows, RowMembers } from "./row-members.ts";
import * as messages from "./row-messages.ts";
import { encodeOutgoing, type OutgoingGradients, ownGradients } from "./row-messages.ts";
import { type BatchRows, RowRequest, type ServedRows } from "./row-request.ts";
import type { RowSource, RowSourceStatistics } from "./row-source.ts";
import { RowTiers, type TierKernels } from "./row-tiers.ts";
import { RowWindow } from "./row-window.ts";
import { checkTieredRows, FLUSH_EVERY_STEPS, HOST_ROWS_PER_DEVICE_ROW, type TieredRowsOptions } from "./tiered-rows-options.ts";

/** The batch that was acquired last. */
type Acquired = { readonly requested: BatchRows; readonly served: ServedRows; isPushed: boolean };

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
  /** A batch whose request has been sent to the owners, or is being sent. */
  #next: RowRequest | undefined;
  #acquired: Acquired | undefined;
  /** Changes of rows (TieredRows.C1). */
  readonly #changes = new InTurn();
  /** Ends when everything pushed so far was applied or has failed. */
  #applying: Promise<unknown> = Promise.resolve();
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

  /** Every member opens it. Rejects with BAD_ARGUMENT, UNSUPPORTED for tables that cannot be cached, ARENA_FULL. */
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

  prefetch(ids: ArrayLike<number>): void {
    if (this.#isClosed || this.#generation !== this.#members.generation) return;
    if (this.#next !== undefined || ids.length > this.#options.idCountMax) return;
    const next = this.#request(ids, true);
    this.#next = next;
    this.#admitNext(next).catch(() => {}); // `acquire` does it again, and reports the failure
  }

  async acquire(ids: ArrayLike<number>, wait: WaitOptions = {}): Promise<Int32Array> {
    this.#checkOpen();
    this.#checkGeneration();
    const { idCountMax } = this.#options;
    if (ids.length > idCountMax)
      throw badArgument(`${this.#raw.spec.name}: a batch of ${ids.length} ids, and the cache was opened for ${idCountMax}`);
    const copy = new Float64Array(ids);
    return await this.#raw.wait(
      this.#members.turns.run(() => this.#acquire(copy)),
      wait,
    );
  }

  /** Resolves when the step is applied. Rejects with NOT_FINITE if the optimizer refuses the gradients. */
  async push(slots: Int32Array, gradients: Float32Array, wait: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    this.#checkGeneration();
    const acquired = this.#acquired;
    if (acquired === undefined || acquired.isPushed)
      throw badArgument(`${this.#raw.spec.name}: gradients are pushed once after each acquire`);
    const rows = this.#rowsOf(acquired.requested, slots, gradients);
    acquired.isPushed = true;
    const spans = new ArenaSpans(this.#tools.arena);
    const { outgoing, failure } = this.#admitted(rows, gradients, spans);
    const gathered = this.#gather(acquired.requested, outgoing);
    const applied = gathered.then((all) => this.#changes.run(() => this.#apply(acquired, all)));
    this.#applying = Promise.allSettled([this.#applying, applied.finally(() => spans.release())]);
    await this.#raw.wait(applied, wait);
    if (failure !== undefined) throw failure;
  }

  async flush(wait: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    await this.#raw.wait(
      this.#applying.then(() => this.#changes.run(() => this.#flush())),
      wait,
    );
  }

  /**
   * The Collective of the members has formed its next generation: every member writes back what it holds, and rows are
   * assigned anew. Every member calls it; a new one opens its source meanwhile. An acquired batch becomes void.
   */
  async reform(wait: WaitOptions = {}): Promise<void> {
    this.#checkOpen();
    const reformed = this.#applying.then(() =>
      this.#changes.run(async () => {
        this.#next?.release();
        this.#next = undefined;
        this.#dropTaken();
        const failure = await this.#flush().then(
          () => undefined,
          (thrown: unknown) => asError(thrown, "HANDLER_FAILED"),
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

  /** Writes everything back. If that fails the source is unchanged, and may be closed again. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.#applying;
    await this.#changes.run(async () => {
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
    const text = `${this.#raw.spec.name}: the workers have formed generation ${this.#members.generation}; reform() assigns their rows anew`;
    throw new WeighbridgeError("ABORTED", text);
  }

  #free(): void {
    this.#tiers.close();
    this.#applier.close();
    this.#window.close();
  }

  /**
   * Sends this worker's request to the owners, at once (TieredRows.C2); `ids` left out: it does not know its next batch
   * yet.
   */
  #request(ids: ArrayLike<number> | undefined, isHint = false): RowRequest {
    return new RowRequest({ members: this.#members, planner: this.#planner, ids, rowCountMax: this.#rowCountMax, isHint });
  }

  async #admitNext(next: RowRequest): Promise<void> {
    const requests = await next.answers;
    if (requests.some(({ isKnown }) => !isKnown)) return;
    await this.#changes.run(async () => {
      if (this.#next === next && !this.#isClosed) await next.admit(requests, this.#raw.planner, this.#tiers);
    });
  }

  async #acquire(ids: Float64Array): Promise<Int32Array> {
    await this.#applying;
    for (let attempt = 0; ; attempt++) {
      assert(attempt < 3, "TieredRows.C2: a batch that was requested again is known to every worker");
      const next = this.#next ?? this.#request(ids);
      try {
        const requests = await next.answers.finally(() => {
          this.#next = undefined;
        });
        const isKnown = requests.every(({ isKnown }) => isKnown);
        const slots = isKnown ? await this.#changes.run(() => this.#acquireRequested(next, requests, ids)) : undefined;
        if (slots !== undefined) return slots;
      } catch (thrown) {
        next.release();
        throw thrown;
      }
      next.release();
    }
  }

  /** Undefined if a worker requested the wrong rows: all of them request again. */
  async #acquireRequested(next: RowRequest, requests: readonly messages.KeyRequest[], ids: Float64Array): Promise<Int32Array | undefined> {
    this.#dropTaken();
    const { requested } = next;
    const isRight = requested?.isOf(ids) === true;
    const outgoing = await this.#rowMessages(next, requests, isRight);
    const incoming = (await this.#members.exchange(outgoing)).map((bytes) => messages.decodeRows(bytes, this.width));
    if (incoming.includes("again")) return undefined;
    assert(requested !== undefined && next.served !== undefined, "rows arrived that nobody requested");
    const own = { served: next.served, position: this.#members.position, tiers: this.#tiers };
    this.#window.assign(requested, own, incoming as Float32Array[]);
    const slots = requested.idSlots(this.#rowCountMax);
    this.#acquired = { requested, served: next.served, isPushed: false };
    this.#counts.idCount += requested.namedCount;
    this.#counts.uniqueCount += requested.rowCount;
    return slots;
  }

  /** The rows that each member requested, or why none gets any (TieredRows.C2). Throws only if this worker is alone. */
  async #rowMessages(next: RowRequest, requests: readonly messages.KeyRequest[], isRight: boolean): Promise<Uint8Array[]> {
    const { ranks, position: own } = this.#members;
    if (!isRight && next.failure === undefined) return ranks.map(() => messages.requestAgainMessage());
    try {
      if (next.failure !== undefined) throw next.failure;
      const served = await next.admit(requests, this.#raw.planner, this.#tiers);
      const outside = await this.#tiers.settle(served.keys, served.keyCount);
      if (outside > 0) this.#noteDirect(served.keyCount);
      return ranks.map((_, i) => (i === own ? messages.rowsMessage(0, this.width).bytes : this.#rowsFor(served, i)));
    } catch (thrown) {
      if (this.#members.isAlone) throw thrown;
      return ranks.map(() => messages.failureMessage(asError(thrown, "HANDLER_FAILED")));
    }
  }

  #rowsFor(served: ServedRows, position: number): Uint8Array {
    const { address, keyCount } = served.keysOf(position);
    const { bytes, rows } = messages.rowsMessage(keyCount, this.width);
    this.#tiers.read(address, keyCount, rows);
    return bytes;
  }

  /** The rows of the slots. Throws BAD_ARGUMENT, VALUE_LENGTH. */
  #rowsOf(requested: BatchRows, slots: Int32Array, gradients: Float32Array): Int32Array {
    const rows = this.#window.rowsOf(requested, slots);
    if (gradients.length === rows.length * this.width) return rows;
    throw new WeighbridgeError(
      "VALUE_LENGTH",
      `${this.#raw.spec.name}: ${gradients.length} gradients for ${rows.length} rows of ${this.width}`,
    );
  }

  /** Applies the optimizer's policy for NaN and infinities; returns no gradients, and a failure, if it refuses them. */
  #admitted(
    rows: Int32Array,
    gradients: Float32Array,
    spans: ArenaSpans,
  ): { readonly outgoing: OutgoingGradients; readonly failure: unknown } {
    const { arena } = this.#tools;
    const common = { width: this.width, clock: this.#raw.clock };
    const nothing = { ...common, rows: new Int32Array(0), gradients: new Float32Array(0), scale: 1 };
    if (rows.length === 0) return { outgoing: nothing, failure: undefined };
    try {
      const scale = Math.fround(this.#raw.clipScaleOf(gradients)); // as it travels to a server
      const address = spans.take(gradients.byteLength);
      arena.floats.set(gradients, address >>> 2);
      const isAdmitted = this.#applier.admit(address, gradients.length);
      const copy = arena.floats.subarray(address >>> 2, (address >>> 2) + gradients.length) as Float32Array;
      return { outgoing: isAdmitted ? { ...common, rows, gradients: copy, scale } : nothing, failure: undefined };
    } catch (thrown) {
      return { outgoing: nothing, failure: thrown };
    }
  }

  /**
   * Sends gradients to their owners, at once (TieredRows.C2); resolves with what all members sent for this worker's
   * rows.
   */
  async #gather(requested: BatchRows, outgoing: OutgoingGradients): Promise<readonly messages.Gradients[]> {
    if (this.#members.isAlone) return [ownGradients(outgoing)];
    this.#next ??= this.#request(undefined); // those that prefetched have requested before they push
    const incoming = await this.#members.exchange(encodeOutgoing(requested, outgoing));
    return incoming.map((bytes) => messages.decodeGradients(bytes, this.width));
  }

  async #apply({ served }: Acquired, outgoing: readonly messages.Gradients[]): Promise<void> {
    this.#applier.apply(served, outgoing, this.#tiers);
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

  /** TieredRows.C3 */
  #noteDirect(rowCount: number): void {
    const { vocabCacheSize } = this.#options;
    if (this.#counts.directBatches++ > 0) return;
    const text = `a step needs more rows of ${this.#raw.spec.name} than the cache has; it goes to the servers for the others: enlarge vocabCacheSize`;
    this.#log.warn(text, { rowCount, vocabCacheSize });
  }

  #dropTaken(): void {
    this.#acquired?.requested.release();
    this.#acquired?.served.release();
    this.#acquired = undefined;
  }
}
