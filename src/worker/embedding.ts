// embedding — a table of rows by key, as a user meets it and as it travels: every u64 is a key, rows appear with their
// initial values when they are first named. Calls are cut by owner and into frames of about a block; a request without
// repeated keys to one server travels from and into the caller's own arrays. Arrays given to a call belong to it until
// its promise settles.
//
// Invariants:
//   Embedding.B1. Options, lengths and keys are checked before anything is sent.
//   Embedding.B2. A push counts once, however many frames and servers it goes to: all its frames carry its number
//       (PushNumbers.N1).
//   Embedding.B3. What a push and pull wants of one server travels in order, its last pushed and first pulled rows in
//       one frame: if the rest fits there too, nothing comes in between.
//   Embedding.B4. Keys of a push and pull that takes several frames do not travel by name: a frame whose list is not
//       known would be sent again, behind the others.
//   Embedding.B5. Where a part leaves its server before the answer of a push and pull is sent, or sent again, the push
//       counts, and the rows are requested anew: they have seen the push, and maybe what came in between.

import { assert } from "../base/assert.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue, unsupported } from "../base/errors.ts";
import { refuseFormer } from "../base/former-members.ts";
import { checkOptions, moreThanOptions } from "../base/known-options.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../contracts/rows.ts";
import type { Arena } from "../kernel/arena.ts";
import type { MergeNumber, RowJoin } from "../kernel/duplicate-kernels.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../kernel/elements.ts";
import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement, wordsOf } from "../kernel/row-element.ts";
import { failedUpdate } from "../peer/unheard-update.ts";
import type { TableSpec } from "../store/parameter-spec.ts";
import { elementOf, rowElements, rowTypeName, rowWords } from "../store/row-types/row-type-spec.ts";
import { takesValues } from "../store/updaters/optimizer-spec.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import type { CachedEmbedding, CacheOpener, CacheOptions } from "./cache/cached-embedding.ts";
import { lostArray, rowOf, wrongLength } from "./caller-array.ts";
import { type KeyList, KeyLists, type KeysAndGradients } from "./key-lists.ts";
import {
  type CallOptions,
  type FrameCall,
  INTO,
  type OpenParameter,
  Parameter,
  type ParameterCall,
  type ParameterRequests,
  type PullOptions,
  type PushFrameCall,
  type PushPullOptions,
} from "./parameter.ts";
import type { RawRowsOpener } from "./raw-rows.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import type { RowFrame, RowPlan, RowPlanner } from "./router/row-plan.ts";
import { requestOf } from "./router.ts";
import { admissionOf, isOnlyInto } from "./tensor.ts";

export type OpenTable = OpenParameter & {
  readonly planner: RowPlanner;
  /** How several updates for one key are made one; left out: gradients of f32, which add up. */
  readonly merge?: MergeNumber | RowJoin | undefined;
  /** The caches of the session, which closes those that are still open at its end. */
  readonly caches: Set<CachedEmbedding>;
  /** There for a table that counts versions. */
  readonly openCache: CacheOpener | undefined;
};

/** What requests for rows of a table are made with. */
export type RowRequests = ParameterRequests & {
  readonly planner: RowPlanner;
  /** 32-bit words of a row. */
  readonly width: number;
};

/** Rows of `E`, whose array they are pushed and pulled in: Float32Array unless it was made with another dtype. */
export class Embedding<E extends RowElement = "f32"> extends Parameter {
  /** Elements of a row, as the table was made. */
  readonly dim: number;
  /** What its rows are made of: "f32", "f64", "i32" or "i64". */
  readonly dtype: E;
  readonly #spec: TableSpec;
  readonly #open: OpenTable;
  readonly #planner: RowPlanner;
  readonly #keys: KeyLists;
  /** Elements of a row: `dim`, unless a row type of one's own says otherwise. */
  readonly #rowLength: number;
  /** Of a row: 32-bit words. Rows of other elements than f32 are moved as such. */
  readonly #width: number;

  /** @internal For the session alone. */
  constructor(spec: TableSpec, open: OpenTable) {
    super(open);
    this.dim = spec.width;
    this.dtype = elementOf(spec) as E;
    this.#rowLength = rowElements(spec);
    this.#spec = spec;
    this.#open = open;
    this.#planner = open.planner;
    this.#keys = new KeyLists(this.name, spec.rows);
    this.#width = rowWords(spec);
  }

  /** Hands gradients, a row for each key, to the optimizer; those of a key that is named twice are added first. */
  async push(keys: KeyList, gradients: RowArray<E>, options?: CallOptions): Promise<void> {
    try {
      const call = this.#now(options);
      const list = this.#listOf(keys);
      await this.#push(list, this.#words(list, gradients, "gradients"), call);
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** The rows in the order of the keys, in `into` or in a new array. Sees every earlier push of this worker. */
  async pull(keys: KeyList, options?: PullOptions<RowArray<E>>): Promise<RowArray<E>>;
  async pull(keys: KeyList, options?: PullOptions<RowArray<E>>, more?: unknown): Promise<RowArray<E>> {
    if (more !== undefined) throw moreThanOptions(more, this.name);
    const call = options === undefined || isOnlyInto(options) ? this.#now(undefined) : this.control.readAhead(options);
    const list = this.#listOf(keys);
    const into = options?.into === undefined ? this.#roomFor(list) : options.into;
    await this.#pull(list, this.#words(list, into, INTO), call);
    return into;
  }

  /**
   * A push, and the rows of these keys as they are right after it, server by server in one round trip (Embedding.B3).
   *
   * @example
   * const rows = await users.pushPull({ keys: [17], gradients }, [17, 42]);
   */
  async pushPull(push: KeysAndGradients<RowArray<E>>, keys: KeyList, options?: PushPullOptions<RowArray<E>>): Promise<RowArray<E>>;
  async pushPull(
    push: KeysAndGradients<RowArray<E>>,
    keys: KeyList,
    options?: PushPullOptions<RowArray<E>>,
    more?: unknown,
  ): Promise<RowArray<E>> {
    try {
      if (more !== undefined) throw moreThanOptions(more, this.name);
      checkOptions(push, ["keys", "gradients"], `the pushed rows of ${this.name}`);
      const call = options === undefined || isOnlyInto(options) ? this.#now(undefined) : this.control.pushPullNow(options);
      const [pushList, pullList] = [this.#listOf(push.keys), this.#listOf(keys)];
      const into = options?.into === undefined ? this.#roomFor(pullList) : options.into;
      const given = this.#words(pushList, push.gradients, "gradients");
      const target = this.#words(pullList, into, INTO);
      if (pullList.length === 0) await this.#push(pushList, given, call);
      else if (pushList.length === 0) await this.#pull(pullList, target, call);
      else await this.#pushPull({ keys: pushList, gradients: given }, pullList, target, call);
      return into;
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /**
   * Row `i` of an array that was pulled, or that is to be pushed: a view, not a copy. Throws OUT_OF_RANGE for a row
   * that the array does not have.
   *
   * @example
   * const rows = await users.pull(["user:5", "user:9"]);
   * const second = users.row(rows, 1); // of "user:9"
   */
  row(values: RowArray<E>, i: number): RowArray<E> {
    return rowOf(values, i, { name: this.name, width: this.#rowLength });
  }

  /**
   * A cache of this worker's own for some of the rows, whose bounds say how far what it holds may be from the servers.
   * Throws UNSUPPORTED unless the table counts versions and its consistency is "asp" (the bounds of a cache take the
   * place of those by clocks), and for assign, min and max; BAD_ARGUMENT for rows that are not f32, and for updaters of
   * one's own.
   *
   * @example
   * const users = await session.embedding("users", { dim: 16, versions: true, optimizer: { type: "sgd" } });
   * await using cache = users.cached({ rows: 10_000, pullBound: 10, pushBound: 10 });
   * const values = await cache.pull([17, 42]);
   */
  cached(options: CacheOptions): CachedEmbedding {
    checkOptions(options, ["rows", "policy", "pullBound", "pushBound"], `the options of a cache of ${this.name}`);
    const { versions, updates, staleness, optimizer } = this.#spec;
    this.#requireFloats("cached");
    if (!versions) throw unsupported(`${this.name} counts no versions of its rows: create it with versions: true`);
    if (updates !== "async" || staleness !== undefined)
      throw unsupported(`${this.name} is bound by clocks; rows are cached of tables whose consistency is "asp"`);
    if (takesValues(optimizer)) throw unsupported(`${this.name}: a cache pushes sums of updates, which "${optimizer.type}" cannot take`);
    const { functions, control } = this;
    const { caches, openCache } = this.#open;
    assert(openCache !== undefined, "a table that counts versions was opened with what opens its caches");
    const closed = (cache: CachedEmbedding): void => void caches.delete(cache);
    const cached = openCache({ functions, control, planner: this.#planner, spec: this.#spec, cache: options, closed });
    caches.add(cached);
    return cached;
  }

  /**
   * @internal The table for workers that apply its optimizer themselves (training's cache of rows): rows with the
   * optimizer's slots, as they are. The caller brings what reads and writes them (`openRawRows`); plans are made in
   * `arena`. Throws UNSUPPORTED unless its consistency is "bsp", when it counts versions, and for dcAsgd.
   */
  raw<T>(open: RawRowsOpener<T>, arena: Arena): T {
    const { versions, updates, optimizer } = this.#spec;
    this.#requireFloats("held by workers");
    if (updates !== "sync") throw unsupported(`${this.name}: workers apply the updates of a clock together; its consistency must be "bsp"`);
    if (versions) throw unsupported(`${this.name} counts versions of its rows, which only servers can`);
    if (optimizer.type === "dcAsgd")
      throw unsupported(`${this.name}: dcAsgd compensates for delays, and rows that workers hold have none: use sgd`);
    const { functions, handle, control } = this;
    const clipScaleOf = (gradient: Float32Array): number => control.clipScaleOf(gradient);
    return open({ functions, planner: this.#planner, handle, spec: this.#spec, arena, clock: () => control.clock, clipScaleOf });
  }

  /**
   * @internal What a face stands on that moves the rows of this table in its own way (tables): how its requests are
   * made.
   */
  override openWith<T>(open: (requests: RowRequests) => T): T {
    return super.openWith((requests) => open({ ...requests, planner: this.#planner, width: this.#width }));
  }

  /** Throws BAD_ARGUMENT for rows that only servers update. */
  #requireFloats(what: string): void {
    const { rowType, optimizer } = this.#spec;
    if (rowType === undefined && optimizer.type !== "custom") return;
    const why = rowType === undefined ? "has an updater of its own" : `has rows of ${rowTypeName(this.#spec)}`;
    throw badArgument(`${this.name} ${why}: rows that are ${what} are of f32, with one of our optimizers`);
  }

  /** A new array for the rows of these keys. */
  #roomFor({ length: keyCount }: BigUint64Array): RowArray<E> {
    const { dtype } = this;
    const length = keyCount * this.#rowLength;
    if (dtype === "f32") return new Float32Array(length) as RowArray<E>;
    return elementsAt(dtype, new ArrayBuffer(length * ROW_ELEMENTS[dtype].bytes), 0, length);
  }

  /**
   * Throws BAD_ARGUMENT for what is no key, OUT_OF_RANGE (Embedding.B1). Every u64 is a key of a table without bounds.
   */
  #listOf(keys: KeyList): BigUint64Array {
    return keys instanceof BigUint64Array && this.#spec.rows === undefined ? keys : this.#keys.arrayOf(keys);
  }

  /** Rows as they travel. Throws BAD_ARGUMENT and VALUE_LENGTH (Embedding.B1). */
  #words({ length: keyCount }: BigUint64Array, values: RowArray<E>, what: string): Float32Array {
    const { Array: View } = ROW_ELEMENTS[this.dtype];
    const length = keyCount * this.#rowLength;
    if (values instanceof View && values.length === length) return values instanceof Float32Array ? values : wordsOf(values);
    if (!(values instanceof View)) throw badArgument(`${this.name}: ${what} must be a ${View.name}, not ${showValue(values)}`);
    throw wrongLength(this.name, what, { length: values.length, width: this.#rowLength, keyCount });
  }

  async #push(keys: BigUint64Array, gradients: Float32Array, call: ParameterCall): Promise<void> {
    await this.#withPlan(keys, call, true, async (plan) => {
      const rows = plan.gradients(gradients, this.#width, this.#open.merge);
      const { scale, skips } = admissionOf(this.control, rows, gradients);
      if (!skips) await this.#send(this.#pushes(this.#frames(plan), rows, this.#pushCall(call, scale)), call.clock);
    });
  }

  async #pull(keys: BigUint64Array, into: Float32Array, call: ParameterCall): Promise<void> {
    await this.#withPlan(keys, call, false, async (plan) => {
      const intoLength = into.length;
      const landed = plan.landing(into, this.#width);
      await this.#send(this.#pulls(this.#frames(plan), landed, call));
      if (into.length < intoLength) throw lostArray(this.name, false);
      plan.deliver(landed, into, this.#width);
    });
  }

  async #pushPull(push: KeysAndGradients, pullKeys: BigUint64Array, into: Float32Array, call: ParameterCall): Promise<void> {
    await this.#withPlan(push.keys as BigUint64Array, call, true, async (pushPlan) => {
      const { clock, priority } = call;
      const rows = pushPlan.gradients(push.gradients, this.#width, this.#open.merge);
      const { scale, skips } = admissionOf(this.control, rows, push.gradients);
      if (skips) return await this.#pull(pullKeys, into, { clock, priority });
      await this.#withPlan(pullKeys, {}, false, async (pullPlan) => {
        const intoLength = into.length;
        const landed = pullPlan.landing(into, this.#width);
        await this.#sendPairs(pairFrames(this.#frames(pushPlan), this.#frames(pullPlan)), { rows, landed }, this.#pushCall(call, scale));
        if (into.length < intoLength) throw lostArray(this.name, true);
        pullPlan.deliver(landed, into, this.#width);
      });
    });
  }

  /** How a call is sent at this worker's clock; without options it is plain. Throws BAD_ARGUMENT, NOT_JOINED. */
  #now(options: CallOptions | undefined): ParameterCall {
    const { workerClock } = this.control;
    return options === undefined && workerClock.lost === undefined ? { clock: workerClock.value } : this.control.callNow(options);
  }

  /** That of a push whose requests are made now; its number is taken when they leave. */
  #pushCall({ clock, priority }: ParameterCall, scale: number): PushFrameCall {
    return { clock, priority, scale, pushNumber: this.handle.pushes.last(this.number) + 1 };
  }

  /** The plan lives until its calls have ended, also when their caller waits no longer. */
  async #withPlan(keys: BigUint64Array, wait: WaitOptions, isUpdate: boolean, run: (plan: RowPlan) => Promise<void>): Promise<void> {
    if (keys.length === 0) return;
    const plan = this.#planner.plan(keys, this.link !== undefined);
    const done = run(plan).finally(() => plan.release());
    if (wait.timeoutMs === undefined && wait.signal === undefined) return await done;
    await this.waitFor(done, "rows", wait, isUpdate);
  }

  /** The parts cut into frames of about a block, values included. */
  #frames(plan: RowPlan): RowFrame[] {
    return plan.frames(Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + this.#width * FLOAT_BYTES))));
  }

  /** `pushClock`: that of the push that these are. `isNaming`: whether keys may travel by name (Embedding.B4). */
  async #send(requests: readonly AnyRequest[], pushClock?: number, isNaming = true): Promise<void> {
    const { link, handle } = this;
    try {
      if (link === undefined) await this.functions.router.call(requests, handle, pushClock);
      else await link.call(requests, handle, { pushClock, isNaming });
    } catch (thrown) {
      throw await this.functions.explained(thrown, this.handle, {});
    }
  }

  async #sendPairs({ pushes, both, pulls }: PairedFrames, { rows, landed }: RowArrays, call: PushFrameCall): Promise<void> {
    const paired = this.#pushPulls(both, { rows, landed }, call);
    if (pushes.length === 0 && pulls.length === 0) return await this.#send(paired, call.clock);
    const requests = [...this.#pushes(pushes, rows, call), ...paired, ...this.#pulls(pulls, landed, call)];
    await this.#send(requests, call.clock, false); // Embedding.B4
  }

  /** Plans keys of a frame that is cut again, as its own were. */
  #again<T extends object>(
    keys: BigUint64Array,
    make: (plan: RowPlan, other: RowPlan) => T,
    others?: BigUint64Array,
  ): T & { readonly release: () => void } {
    return this.#planner.again(keys, make, { others, isAscending: this.link !== undefined });
  }

  /** `rows` has the gradients of all frames. A frame that is cut again is a plan of its own keys and gradients. */
  #pushes(frames: readonly RowFrame[], rows: Float32Array, call: PushFrameCall): AnyRequest[] {
    const { clock, pushNumber, scale, priority } = call;
    const [parameter, scope] = [this.number, this.number];
    return frames.map((frame) => {
      const gradients = this.#rowsOf(rows, frame);
      const cutAgain = (): Recut =>
        this.#again(frame.keys, (plan) => ({
          requests: this.#pushes(this.#frames(plan), plan.gradients(gradients, this.#width), call),
        }));
      const request = { parameter, clock, pushNumber, scale, keys: frame.keys, gradients };
      return requestOf(rowsPush, { to: frame, request, priority, scope, cutAgain });
    });
  }

  /** The rows of all frames land in `landed`. */
  #pulls(frames: readonly RowFrame[], landed: Float32Array, call: FrameCall): AnyRequest[] {
    const { clock, priority } = call;
    const [parameter, scope] = [this.number, this.number];
    return frames.map((frame) => {
      const into = this.#rowsOf(landed, frame);
      const cutAgain = (): Recut => this.#pullAgain(frame, into, call);
      return requestOf(rowsPull, { to: frame, request: { parameter, clock, keys: frame.keys }, priority, scope, into, cutAgain });
    });
  }

  /** The rows of a frame, as the placement is now. */
  #pullAgain(frame: RowFrame, into: Float32Array, call: FrameCall): Recut {
    return this.#again(frame.keys, (plan) => {
      const landing = plan.landing(into, this.#width);
      const requests = this.#pulls(this.#frames(plan), landing, call);
      return { requests, answered: () => plan.deliver(landing, into, this.#width) };
    });
  }

  #pushPulls(pairs: readonly FramePair[], { rows, landed }: RowArrays, call: PushFrameCall): AnyRequest[] {
    const { clock, pushNumber, scale, priority } = call;
    const [parameter, scope] = [this.number, this.number];
    return pairs.map(({ pushed, pulled }) => {
      const [gradients, into] = [this.#rowsOf(rows, pushed), this.#rowsOf(landed, pulled)];
      const cutAgain = (): Recut =>
        this.#again(
          pushed.keys,
          (pushPlan, pullPlan) => {
            const landing = pullPlan.landing(into, this.#width);
            const [sums, next] = [pushPlan.gradients(gradients, this.#width), pairFrames(this.#frames(pushPlan), this.#frames(pullPlan))];
            const both = this.#pushPulls(next.both, { rows: sums, landed: landing }, call);
            const requests = [...this.#pushes(next.pushes, sums, call), ...both, ...this.#pulls(next.pulls, landing, call)];
            return { requests, answered: () => pullPlan.deliver(landing, into, this.#width) };
          },
          pulled.keys,
        );
      const request = { parameter, clock, pushNumber, scale, pushKeys: pushed.keys, gradients, pullKeys: pulled.keys };
      const answerLost = (): Recut => this.#pullAgain(pulled, into, call); // Embedding.B5
      return requestOf(rowsPushPull, { to: pushed, request, priority, scope, into, cutAgain, answerLost });
    });
  }

  #rowsOf(rows: Float32Array, { from, to }: RowFrame): Float32Array {
    return rows.subarray(from * this.#width, to * this.#width);
  }
}

refuseFormer(Embedding, { clear: "drop()", element: "dtype", elements: "dim" });

/** The rows of all frames of a call, pushed and pulled. */
type RowArrays = { readonly rows: Float32Array; readonly landed: Float32Array };

type FramePair = { readonly pushed: RowFrame; readonly pulled: RowFrame };

type PairedFrames = {
  readonly pushes: readonly RowFrame[];
  readonly both: readonly FramePair[];
  readonly pulls: readonly RowFrame[];
};

/** For each server with both: its pushes but the last, the last with its first pull, and the other pulls. */
function pairFrames(pushed: readonly RowFrame[], pulled: readonly RowFrame[]): PairedFrames {
  const lastPushes = new Map(pushed.map((frame) => [frame.server, frame]));
  const both = pulled.flatMap((frame) => {
    const last = lastPushes.get(frame.server);
    return last === undefined || !frame.opens ? [] : [{ pushed: last, pulled: frame }];
  });
  const paired = new Set(both.flatMap((pair) => [pair.pushed, pair.pulled]));
  return { pushes: pushed.filter((frame) => !paired.has(frame)), both, pulls: pulled.filter((frame) => !paired.has(frame)) };
}
