// table-parameter — a table of rows by u64 keys on a server, as its functions see it. As tensor-parameter, for rows.
//
// Invariants:
//   TableParameter.T1. A push that is invalid, or refused for a NaN, changes nothing.
//   TableParameter.T2. Sync pushes of one clock are reduced by key in the order of the workers' ranks: the same bits in
//       every run.
//   TableParameter.T3. Applying a round cannot fail: rows were made and memory was allocated when its updates came
//       (row-contribution.ts).
//   TableParameter.T4. Raw rows are written under the newest claim only (RowClaims.K1).

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { ConsistencyChange } from "../../consistency/consistency-phases.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { FreshRows, RowsSync } from "../../contracts/cached-rows.ts";
import type { TableRow } from "../../contracts/function-context.ts";
import type { MergeNumber, RowJoin } from "../../kernel/duplicate-kernels.ts";
import { FLOAT_BYTES, INDEX_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import { CURSOR_BYTES, LIST_ROWS_MAX } from "../../kernel/kernels.ts";
import { elementsAt, floatsOf, ROW_ELEMENTS, type RowArray } from "../../kernel/row-element.ts";
import { firstKeyFrom } from "../../keys/first-key-from.ts";
import { checkChange, type TableSpec } from "../../store/parameter-spec.ts";
import { elementOf, rowElements, rowTypeName, rowWords } from "../../store/row-types/row-type-spec.ts";
import type { PartMarks } from "../../store/table-parts.ts";
import type { KeyList, KeyOwners } from "../../store/table-requests.ts";
import type { TableStore } from "../../store/table-store.ts";
import { takesValues } from "../../store/updaters/optimizer-spec.ts";
import type { UpdateStep } from "../../store/updaters/updater.ts";
import { FIRST_GUEST_ID, rankOf } from "../../wire/node-id.ts";
import { type CallMemory, codedOffset, type Kept, keepKeys, roomFor } from "./call-memory.ts";
import { type FreshRoom, freshRoom, readFresh } from "./fresh-rows.ts";
import { HostedParameter, type ParameterImage } from "./hosted-parameter.ts";
import { checkScale, checkSettable, type ParameterHost, type ParameterIds } from "./parameter-host.ts";
import type { TablePage } from "./part-state.ts";
import type { RowsRound } from "./row-contribution.ts";
import { type RowEncode, rowEncode } from "./row-encode.ts";
import { TableRounds } from "./table-rounds.ts";
import { RowClaims, TakenUpdates } from "./table-workers.ts";

/** Gradients for rows, each key once. */
export type RowsPush = {
  readonly holder: WorkerIncarnation;
  readonly clock: number;
  readonly scale: number;
  /** The number of the push among those of its worker to the table; all its frames have it. */
  readonly pushNumber: number;
  /** In the arena, like the gradients. */
  readonly keys: BigUint64Array;
  /** The owners of the keys, if they were not checked before. */
  readonly owners?: KeyOwners | undefined;
  readonly gradients: Float32Array;
  /** How many updates each gradient sums up, for tables that count versions. Default, or if empty: one each. */
  readonly updates?: Uint32Array | undefined;
};

/** Whole rows, each key once: values, slots and words one after the other, as the bits of floats. */
type RawRowsWrite = {
  readonly holder: WorkerIncarnation;
  readonly clock: number;
  /** The claim under which the rows were computed (TableParameter.T4). */
  readonly claim: number;
  readonly keys: BigUint64Array;
  readonly rows: Float32Array;
};

/** Where rows are read to, by whom, and who owns which keys. */
type RowsReading = { readonly out: number; readonly reader: { readonly worker: number }; readonly owners?: KeyOwners | undefined };

type RowsUpdate = UpdateStep & { readonly gradients: number; readonly updateCounts?: number | undefined };

export class TableParameter extends HostedParameter<TableSpec> {
  readonly store: TableStore;
  /** 32-bit words of a row's values, as they travel. */
  readonly words: number;
  /** 32-bit words of an element. */
  readonly elementWords: number;
  /** How several updates for one row become one; undefined for gradients of f32, which add up. */
  readonly join: MergeNumber | RowJoin | undefined;
  /** Hears of the keys of rows that were updated: at once, or when their round is applied. */
  onChanged: ((keys: BigUint64Array) => void) | undefined;
  /** Of updates by process caches. */
  readonly taken: TakenUpdates = new TakenUpdates();
  /** Encodes rows for a pull; undefined if they travel as they are. */
  readonly #encode: RowEncode | undefined;
  readonly #rounds: TableRounds;
  readonly #claims: RowClaims;

  constructor(host: ParameterHost, ids: ParameterIds, spec: TableSpec) {
    super(host, ids, spec, rowElements(spec));
    this.words = rowWords(spec);
    this.elementWords = this.words / rowElements(spec);
    this.#claims = new RowClaims(spec.name);
    try {
      this.join = host.joinOf(spec);
      this.#encode = rowEncode(host, spec);
      this.store = host.tableStore(spec, this.updater, this.initializer);
    } catch (thrown) {
      this.freeOptimizer();
      throw thrown;
    }
    this.#rounds = new TableRounds(this, host);
  }

  /** Throws VALUE_LENGTH, OUT_OF_RANGE, NOT_FINITE, ARENA_FULL, STALE_UPDATE, NOT_JOINED, FENCED or QUEUE_FULL. */
  push(push: RowsPush): void {
    if (push.holder.worker >= FIRST_GUEST_ID) {
      this.#take({ ...push, clock: this.guestClock(push.holder) });
      return;
    }
    if (this.countsSteps && push.gradients.length > 0) {
      this.counted(push, () => this.#take(push));
      return;
    }
    this.clocks.checkUpdate(push.holder, push.clock);
    this.#take(push);
  }

  /** Puts a push of a worker that may push now into its round, or applies it. */
  #take({ holder, clock, scale, pushNumber, keys, gradients, updates, owners }: RowsPush): void {
    this.#check(keys);
    if (updates !== undefined) this.#checkCached();
    const updateCounts = updates === undefined || updates.length === 0 ? undefined : updates;
    if (updateCounts !== undefined && updateCounts.length !== keys.length)
      throw new WeighbridgeError("VALUE_LENGTH", `${updateCounts.length} counts came for ${keys.length} rows of ${this.spec.name}`);
    if (scale !== 1) checkScale(scale, this.spec);
    const expected = keys.length * this.words;
    if (gradients.length !== expected) throw this.#wrongWords(gradients.length, "gradients", expected);
    const { phases } = this;
    if (clock > phases.clockTop) phases.clockTop = clock;
    if (keys.length === 0) return; // no step
    const magnitude = this.updater.admit(gradients.byteOffset, gradients.length);
    if (magnitude === undefined) return;
    if ((phases.constant ?? phases.at(clock)).updates === "sync") {
      // TableParameter.T3
      this.#rounds.add({ holder, clock, keys, owners, gradients, scale, magnitude, pushNumber });
      return;
    }
    const at = { gradientScale: scale, scheduleStep: clock, workerRank: rankOf(holder.worker), magnitude };
    const update = { ...at, step: this.step, gradients: gradients.byteOffset, updateCounts: updateCounts?.byteOffset };
    this.#apply({ keys: keys.byteOffset, keyCount: keys.length, owners }, update);
  }

  /**
   * Replaces rows, each key once; with `isStart` only gives missing ones what they begin with. Returns how many rows
   * have these values now. Throws OUT_OF_RANGE, VALUE_LENGTH, NOT_FINITE, ARENA_FULL, UNSUPPORTED.
   */
  set(keys: BigUint64Array, values: Float32Array, isStart: boolean): number {
    this.#check(keys);
    if (!isStart) checkSettable(this.spec);
    const element = elementOf(this.spec);
    const expected = keys.length * this.words;
    if (values.length !== expected) throw this.#wrongWords(values.length, "values", expected);
    const floats = ROW_ELEMENTS[element].isFloat ? floatsOf(element, values) : [];
    const wrong = floats.findIndex((value) => !Number.isFinite(value));
    if (wrong >= 0)
      throw new WeighbridgeError("NOT_FINITE", `${this.spec.name} cannot have ${floats[wrong]}, element ${wrong} of ${floats.length}`);
    const { rowCount } = this.store;
    const takenCount = this.store.set({ keys: keys.byteOffset, keyCount: keys.length }, values.byteOffset, isStart);
    this.#noteMagnitude(values.byteOffset, values.length);
    if (!isStart) this.onChanged?.(keys);
    if (this.store.rowCount !== rowCount || this.store.isFrozen) this.host.noteGrowth();
    return takenCount;
  }

  /**
   * The keys of a request: where they lie, or decoded in memory that `memory` holds. Throws as the link, BAD_REQUEST.
   */
  keysIn(payload: ArrayBufferView, holder: WorkerIncarnation, memory: CallMemory): BigUint64Array {
    if (this.link !== undefined) return this.link.keys(payload, holder, this.words, memory);
    if (payload instanceof BigUint64Array) return payload;
    throw badRequest(`${payload.byteLength} bytes of keys came for ${this.spec.name}, which are no whole u64`);
  }

  gradientsIn(payload: ArrayBufferView, rowCount: number, memory: CallMemory): Float32Array {
    if (this.link === undefined && payload instanceof Float32Array) return payload;
    return this.valuesIn(payload, () => ({ rowCount, width: this.words }), memory);
  }

  /** Room for the rows of these keys and their encoded form, which `memory` holds. Throws OUT_OF_RANGE, ARENA_FULL. */
  roomFor(keys: BigUint64Array, memory: CallMemory): number {
    this.#check(keys);
    const { arena } = this.host;
    const { words } = this;
    const rowBytes = keys.length * words * FLOAT_BYTES;
    const codedBytes = keys.length === 0 ? 0 : (this.link?.roomBytes({ rowCount: keys.length, width: words }) ?? 0);
    const byteCount = Math.max(1, codedBytes === 0 ? rowBytes : codedOffset(keys.length * words) + codedBytes);
    const address = arena.allocate(byteCount);
    memory.hold({ release: () => arena.release(address, byteCount), isFresh: true });
    return address;
  }

  /** The rows in order, encoded for this reader, in `out`, which `roomFor` returned for them. */
  pull(keys: BigUint64Array, reading: RowsReading): { readonly values: ArrayBufferView } {
    const values = this.pullPlain(keys, reading);
    if (this.link === undefined) return { values };
    const shape = { rowCount: keys.length, width: this.words };
    return { values: this.link.encoded(values, shape, reading.out + codedOffset(values.length)) };
  }

  /** The same as they are, whatever the link: for functions whose answers carry more than rows. */
  pullPlain(keys: BigUint64Array, { out, reader, owners }: RowsReading): Float32Array {
    const list = { keys: keys.byteOffset, keyCount: keys.length, owners };
    this.store.notePull(list, reader);
    if (this.#encode === undefined) this.store.pull({ ...list, out });
    else this.#encode(out, keys.length, (rows) => this.store.pull({ ...list, out: rows }));
    return this.host.arena.floats.subarray(out >>> 2, (out >>> 2) + keys.length * this.words) as Float32Array;
  }

  /**
   * The rows that the cache of a worker lacks, in memory that `memory` holds. Throws UNSUPPORTED, BAD_REQUEST,
   * ARENA_FULL.
   */
  sync(sync: RowsSync, worker: number, memory: CallMemory): FreshRows {
    return this.#readFresh(sync, this.#freshRoom(sync, memory), worker);
  }

  /** A push, then a sync, with nothing in between. If it throws, as either does, nothing was pushed. */
  pushSync(push: RowsPush, sync: RowsSync, worker: number, memory: CallMemory): FreshRows {
    const room = this.#freshRoom(sync, memory);
    this.push(push);
    return this.#readFresh(sync, room, worker);
  }

  /** Floats of a raw row. */
  get rawWidth(): number {
    return this.store.columns.payload.byteCount / FLOAT_BYTES;
  }

  /**
   * Raw rows as they are now; for a key without a row, what its first update would find. Throws OUT_OF_RANGE,
   * ARENA_FULL.
   */
  readRaw(keys: BigUint64Array, memory: CallMemory): Float32Array {
    this.#check(keys);
    this.#checkFloats();
    const { arena } = this.host;
    const out = roomFor(arena, keys.length * this.rawWidth * FLOAT_BYTES, memory);
    this.store.readPayloads({ keys: keys.byteOffset, keyCount: keys.length, out });
    return arena.floats.subarray(out >>> 2, (out >>> 2) + keys.length * this.rawWidth) as Float32Array;
  }

  /** Overwrites rows. Throws OUT_OF_RANGE, VALUE_LENGTH, ARENA_FULL, FENCED (TableParameter.T4), and as `push`. */
  writeRaw({ holder, clock, claim, keys, rows }: RawRowsWrite): void {
    this.#check(keys);
    this.#checkFloats();
    const expected = keys.length * this.rawWidth;
    if (rows.length !== expected) throw this.wrongLength(rows.length, "floats of raw rows", expected);
    this.clocks.checkUpdate(holder, clock);
    this.phases.take(clock);
    this.#claims.check(claim);
    const { rowCount } = this.store;
    this.store.restore({ keys: keys.byteOffset, keyCount: keys.length, payloads: rows.byteOffset });
    this.#noteMagnitude(rows.byteOffset, rows.length);
    if (this.store.rowCount !== rowCount || this.store.isFrozen) this.host.noteGrowth();
  }

  /**
   * From now on only writers with the returned number write raw rows (TableParameter.T4). Throws UNSUPPORTED unless
   * "bsp".
   */
  claim(): number {
    if (this.spec.updates === "async" || this.pace.isOnly({ updates: "sync" })) return this.#claims.next();
    throw new WeighbridgeError(
      "UNSUPPORTED",
      `the consistency of ${this.spec.name} was changed: only rows of "bsp" tables are held by workers`,
    );
  }

  /** Sets how many steps the raw rows result from; the count never goes back. Throws FENCED (TableParameter.T4). */
  noteSteps(claim: number, step: number): void {
    this.#claims.check(claim);
    if (this.countsSteps) this.step = Math.max(this.step, step);
  }

  /** The learning rate at a clock; 0 for optimizers without one. */
  rateAt(clock: number): number {
    return this.updater.rate.at(clock);
  }

  /** MemberClocks.isFresh, with the fields that a steady pull has at hand (docs/decisions/0047). */
  isFresh(clock: number, holder: WorkerIncarnation): boolean {
    const { phases, clocks } = this;
    const { staleness } = phases.constant ?? phases.at(clock);
    return clocks.clockMin >= clock - staleness && !(clocks.hasTakenOut && clocks.isOut(holder, staleness));
  }

  /** All rows that are here. May miss those that come or go meanwhile. */
  *rows(): Iterable<TableRow<RowArray>> {
    const { arena } = this.host;
    const [element, width] = [elementOf(this.spec), rowElements(this.spec)];
    const cursor = arena.allocate(CURSOR_BYTES);
    const listed = arena.allocate(LIST_ROWS_MAX * INDEX_BYTES);
    try {
      this.host.kernels.zero(cursor, CURSOR_BYTES);
      for (let count = this.store.list(cursor, listed); count >= 0; count = this.store.list(cursor, listed)) {
        for (const address of arena.words.slice(listed >>> 2, (listed >>> 2) + count)) {
          const at = address >>> 2;
          const key = (BigInt(arena.words[at - 1] as number) << 32n) | BigInt(arena.words[at - 2] as number);
          yield { key, values: elementsAt(element, arena.memory.buffer, address, width).slice() };
        }
      }
    } finally {
      arena.release(cursor, CURSOR_BYTES);
      arena.release(listed, LIST_ROWS_MAX * INDEX_BYTES);
    }
  }

  /** A copy that outlives its frame. */
  keep(keys: BigUint64Array): Kept<BigUint64Array> {
    return keepKeys(this.host.arena, keys);
  }

  /** A part: its rows, and their share of open rounds (part-state.ts). Throws ARENA_FULL. */
  *savePart(part: number): Iterable<TablePage> {
    for (const images of this.store.parts.save(part)) yield { kind: "rows", images };
    for (const pulled of this.store.savePulled(part)) yield { kind: "pulledRows", pulled };
    yield* this.#rounds.savePart(part);
  }

  /** Marks the parts of which there is something to save, and perhaps others. Throws ARENA_FULL. */
  markParts(marks: PartMarks): void {
    this.store.markParts(marks);
    this.#rounds.markParts(marks);
  }

  /** The caller notes the growth of the host. Throws ARENA_FULL, and for a round STALE_UPDATE or QUEUE_FULL. */
  loadPage(page: TablePage): void {
    if (page.kind === "openRows") {
      this.#rounds.load(page);
      this.phases.take(page.clock);
      return;
    }
    if (page.kind === "pulledRows") {
      this.store.loadPulled(page.pulled);
      return;
    }
    const { images } = page;
    this.store.loadRows(images, (payloads) => this.#noteMagnitude(payloads, images.payloads.length / FLOAT_BYTES));
  }

  /** Removes what is here of a part; returns how many rows there were. */
  dropPart(part: number): number {
    this.#rounds.dropPart(part);
    return this.store.dropPart(part);
  }

  /** About what a part takes, without its open rounds. */
  weighPart(part: number): number {
    return this.countPart(part) * (KEY_BYTES + this.store.columns.payload.byteCount);
  }

  countPart(part: number): number {
    return this.store.parts.countOfPart(part);
  }

  /**
   * Changes the consistency; returns the clock at which that begins. Throws QUEUE_FULL, and UNSUPPORTED where caches
   * and raw rows would not learn of it: a table that counts versions stays "asp", one whose rows workers hold "bsp".
   */
  override change(change: ConsistencyChange): number {
    if (!this.#claims.isClaimed || change.mode.updates === "sync") return super.change(change);
    checkChange(this.spec, change.mode);
    const why = "workers hold rows of it, and apply the updates of a clock together";
    throw new WeighbridgeError("UNSUPPORTED", `${this.spec.name} stays "bsp": ${why}`);
  }

  override save(): ParameterImage {
    return { ...super.save(), claim: this.#claims.newest, taken: this.taken.save() };
  }

  override load(image: ParameterImage): void {
    super.load(image);
    this.#claims.check(image.claim);
    this.taken.load(image.taken);
  }

  protected override forgetRounds(error: WeighbridgeError): void {
    this.#rounds.forget(error);
  }

  /** A reduced round: one step, also if the sum is refused for not being finite. */
  applyRound(keys: number, keyCount: number, { gradients, gradientScale, clock, magnitude: bound }: RowsRound): void {
    const magnitude = this.updater.admitSum(gradients, keyCount * this.words, bound);
    this.countRound(clock);
    if (magnitude === undefined) return;
    const at = { step: this.step, gradientScale, scheduleStep: clock, workerRank: undefined, magnitude };
    this.inRound(() => this.#apply({ keys, keyCount }, { ...at, gradients })); // it is counted; no caller waits
  }

  /** Runs the work of a round; refused updates are dropped. */
  inRound<T>(act: () => T): T | undefined {
    return this.updater.inRound(act);
  }

  #apply(list: KeyList, { gradients, updateCounts, ...at }: RowsUpdate): void {
    if (list.keyCount === 0) return;
    this.updater.begin({ ...at, step: Math.max(1, at.step) });
    const rowCount = this.store.rowCount;
    this.store.update({ ...list, gradients, updateCounts });
    this.onChanged?.(new BigUint64Array(this.host.arena.memory.buffer, list.keys, list.keyCount));
    if (this.store.rowCount !== rowCount || this.store.isFrozen) this.host.noteGrowth();
  }

  #freshRoom(sync: RowsSync, memory: CallMemory): FreshRoom {
    this.#check(sync.keys);
    this.#checkCached();
    return freshRoom(this.host.arena, this.spec, sync, memory);
  }

  #readFresh(sync: RowsSync, room: FreshRoom, worker: number): FreshRows {
    const fresh = readFresh(this.host.arena, this.store, sync, room);
    if (this.updater.notesPulls) {
      for (const index of fresh.indexes) this.store.notePull({ keys: sync.keys.byteOffset + index * KEY_BYTES, keyCount: 1 }, { worker });
      const unknown = sync.versions.length;
      this.store.notePull({ keys: sync.keys.byteOffset + unknown * KEY_BYTES, keyCount: sync.keys.length - unknown }, { worker });
    }
    return { rate: this.rateAt(sync.clock), ...fresh };
  }

  /** Of values or whole rows that came: counts among them are tiny as floats. */
  #noteMagnitude(address: number, floatCount: number): void {
    this.store.noteMagnitude(this.host.optimizers.greatestMagnitude(address, floatCount));
  }

  /** Throws UNSUPPORTED. */
  #checkFloats(): void {
    if (this.spec.rowType === undefined && this.spec.optimizer.type !== "custom") return;
    const what = this.spec.rowType === undefined ? "an updater of its own" : `rows of ${rowTypeName(this.spec)}`;
    throw new WeighbridgeError("UNSUPPORTED", `${this.spec.name} has ${what}: only servers update them`);
  }

  /** Throws UNSUPPORTED. */
  #checkCached(): void {
    const { name, versions, updates, optimizer } = this.spec;
    if (!versions) throw new WeighbridgeError("UNSUPPORTED", `${name} counts no versions of its rows: create it with versions`);
    if (updates === "sync") throw new WeighbridgeError("UNSUPPORTED", `${name} has sync updates; rows of those are not cached`);
    if (takesValues(optimizer))
      throw new WeighbridgeError("UNSUPPORTED", `${name}: a cache pushes sums of updates, which "${optimizer.type}" cannot take`);
  }

  /** As `wrongLength`, in elements: callers have words. */
  #wrongWords(words: number, what: string, expected: number): WeighbridgeError {
    return this.wrongLength(words / this.elementWords, what, expected / this.elementWords);
  }

  /** TableParameter.T1 */
  #check(keys: BigUint64Array): void {
    const { rows, name } = this.spec;
    const beyond = rows === undefined ? -1 : firstKeyFrom(rows, keys);
    if (beyond < 0) return;
    throw new WeighbridgeError("OUT_OF_RANGE", `${name} has rows 0 to ${(rows ?? 0) - 1}; there is no row ${keys[beyond]}`);
  }
}
