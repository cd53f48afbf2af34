// tensor — a dense parameter, as a user meets it and as it travels: pushes and pulls of all of it or of some rows, cut
// into blocks, values straight from and into the caller's arrays. Arrays given to a call belong to it until its promise
// settles. What a push means, the tensor's spec says.
//
// Invariants:
//   Tensor.T1. Options, lengths and rows are checked before anything is sent.
//   Tensor.T2. What a call pushes and pulls of one block travels in one frame: nothing comes in between there.
//   Tensor.T3. Where a block leaves its server before the answer of a push and pull is sent, or sent again, the push
//       counts, and the values are requested anew: they have seen the push, and maybe what came in between.

import { allEnded, type WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue, type WeighbridgeError } from "../base/errors.ts";
import { refuseFormer } from "../base/former-members.ts";
import { checkOptions, moreThanOptions } from "../base/known-options.ts";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../contracts/tensors.ts";
import { failedUpdate } from "../peer/unheard-update.ts";
import type { TensorSpec } from "../store/parameter-spec.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import { mergeOf } from "../store/updaters/optimizer-spec.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { BlockRows, type RowGroup, type RowList } from "./block-rows.ts";
import { CallerArray, rowOf } from "./caller-array.ts";
import { noteLost } from "./kept-gradients.ts";
import { listLength } from "./key-lists.ts";
import {
  type CallOptions,
  type FrameCall,
  INTO,
  type OpenParameter,
  Parameter,
  type ParameterCall,
  type PullOptions,
  type PushFrameCall,
  type PushPullOptions,
} from "./parameter.ts";
import { AS_IT_IS, type PushAdmission, type PushCheck, WHOLE_CHECK_FLOATS } from "./parameter-control.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import type { RowPlanner } from "./router/row-plan.ts";
import { BlockRoute } from "./router/server-directory.ts";
import { requestOf } from "./router.ts";

/** Some rows, and a row of gradients for each. */
export type RowsAndGradients = {
  /** Which rows are updated. */
  readonly rows: RowList;
  /** One gradient for each row, one after the other. */
  readonly gradients: Float32Array;
};

export type OpenTensor = OpenParameter & {
  readonly shape: TensorShape;
  /** Puts rows in order. It plans for one owner: whose a block is, the router knows. */
  readonly rowPlanner: RowPlanner;
};

/** One of several tensors that are pushed together. */
export type TensorPush = { readonly tensor: Tensor; readonly gradient: Float32Array; readonly priority: number };
/** One of several tensors that are pulled together. */
export type TensorPull = { readonly tensor: Tensor; readonly into: Float32Array; readonly priority: number };

/** A block, or some of its rows, and where their values lie in the array of a call: from `begin` up to `end`. */
type BlockPart = { readonly to: BlockRoute; readonly rows: Uint32Array; readonly begin: number; readonly end: number };

/** What a call pulls, and where its parts land. */
type Landing = { readonly parts: readonly BlockPart[]; readonly landed: Float32Array };

const ALL_ROWS = new Uint32Array(0);

/** Bytes of calls about rows are counted apart from those about whole blocks, as Hetu does. */
const ROW_LOADS = {
  push: "wb/tensor/push-rows",
  pull: "wb/tensor/pull-rows",
  pushPull: "wb/tensor/push-rows-pull",
  pushPullRows: "wb/tensor/push-pull-rows",
} as const;

/** Whether these options of a call say only where values land: it is then sent like a call without options. */
export function isOnlyInto(options: { readonly into?: unknown }): boolean {
  if (options?.into === undefined) return false;
  for (const name in options) if (name !== "into") return false;
  return true;
}

/** What becomes of a push of these gradients, which were made of those that are given. Throws NOT_FINITE. */
export function admissionOf(check: PushCheck, gradients: Float32Array, given: Float32Array): PushAdmission {
  const { scan, clips } = check;
  const isPlain = scan === undefined || gradients.length > WHOLE_CHECK_FLOATS || scan.firstNotFinite(gradients) < 0;
  return isPlain && !clips ? AS_IT_IS : check.admit(gradients, given);
}

/** A dense parameter of a fixed shape. `session.tensor()` opens or makes one. */
export class Tensor extends Parameter {
  /** Its sizes, as they were given when it was made. */
  readonly shape: readonly number[];
  /** How many elements it has. */
  readonly size: number;
  readonly #blocks: TensorShape;
  readonly #spec: TensorSpec;
  readonly #rowPlanner: RowPlanner;
  /** All blocks; each remembers its owner. */
  readonly #whole: readonly BlockPart[];

  /** @internal For the session alone. */
  constructor(spec: TensorSpec, { shape, rowPlanner, ...open }: OpenTensor) {
    super(open);
    this.shape = spec.shape;
    this.size = shape.floatCount;
    this.#blocks = shape;
    this.#spec = spec;
    this.#rowPlanner = rowPlanner;
    this.#whole = Array.from({ length: shape.blockCount }, (_, block) => {
      const begin = shape.firstFloat(block);
      return { to: new BlockRoute(this.number, block), rows: ALL_ROWS, begin, end: begin + shape.floatsOf(block) };
    });
  }

  /**
   * Row `i` of an array that `pull` or `pullRows` gave: a view, not a copy. Throws OUT_OF_RANGE for a row that the
   * array does not have.
   */
  row(values: Float32Array, i: number): Float32Array {
    return rowOf(values, i, { name: this.name, width: this.#blocks.width });
  }

  /**
   * Gives the tensor the values it begins with, in place of its initializer's. The first worker to come decides, block
   * by block; once it did, or anybody has pushed, or a checkpoint was restored, nothing is changed. So every worker may
   * call it, at any time. Resolves with whether the servers took all of these values, which travel as they are,
   * whatever the link carries. Throws VALUE_LENGTH, NOT_FINITE.
   *
   * @example
   * const w = await session.tensor("w", { shape: [784], optimizer: { type: "sgd" } });
   * const wereTaken = await w.start(pretrained); // false where another worker came first
   */
  async start(values: Float32Array, options: WaitOptions = {}): Promise<boolean> {
    try {
      this.control.checkCall(options);
      this.checkValues(values, this.size, "the values to begin with");
      let takenCount = 0;
      const answered = ({ isTaken }: { readonly isTaken: boolean }): void => {
        if (isTaken) takenCount++;
      };
      const [parameter, scope] = [this.number, this.number];
      const requests = this.#whole.map(({ to, begin, end }) => {
        const request = { parameter, block: to.block, values: values.subarray(begin, end) };
        return { to, scope, request, answered };
      });
      await this.functions.callEach(tensorStart, requests, { ...options, subject: this.handle });
      return takenCount === this.#whole.length;
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** Hands a gradient to the optimizer. Throws VALUE_LENGTH, NOT_FINITE. */
  async push(gradient: Float32Array, options?: CallOptions): Promise<void> {
    try {
      const call = this.#now(options);
      this.#checkWhole(gradient, "gradients");
      const { scale, skips } = admissionOf(this.control, gradient, gradient);
      if (!skips) await this.#send(this.#pushes(this.#whole, gradient, this.#pushCall(call, scale)), "the push", call, call.clock);
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /**
   * @internal Pushes gradients of several tensors of one session, as one call: what a step pushes is cut, sent and
   * waited for once. As `push` of each, but that nothing is sent if one of them is refused here.
   */
  static async pushTogether(pushes: readonly TensorPush[], wait: WaitOptions): Promise<void> {
    try {
      pushes[0]?.tensor.control.checkCall(wait); // Tensor.T1
      const requests: AnyRequest[] = [];
      const numbered: Tensor[] = [];
      let clock = 0;
      for (const { tensor, gradient, priority } of pushes) {
        if (tensor.link !== undefined) continue;
        clock = tensor.control.clock;
        tensor.#checkWhole(gradient, "gradients");
        const { scale, skips } = admissionOf(tensor.control, gradient, gradient);
        if (skips) continue;
        const call = tensor.#pushCall({ clock, priority }, scale);
        for (const part of tensor.#whole) requests.push(tensor.#pushOf(part, gradient, call));
        numbered.push(tensor);
      }
      const alone = pushes
        .filter(({ tensor }) => tensor.link !== undefined)
        .map(({ tensor, gradient, priority }) => tensor.push(gradient, { ...wait, priority }));
      for (const { handle, number } of numbered) handle.pushes.next(number, clock);
      const [first] = numbered;
      if (first !== undefined) alone.push(first.#sendTogether(requests, { what: "the push", count: numbered.length }, wait, true));
      await allEnded(alone);
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** @internal The same for pulls, as of so many clocks after this worker's own. */
  static async pullTogether(pulls: readonly TensorPull[], clocksAhead: number, wait: WaitOptions): Promise<void> {
    pulls[0]?.tensor.control.checkCall(wait); // Tensor.T1
    const requests: AnyRequest[] = [];
    let first: Tensor | undefined;
    for (const { tensor, into, priority } of pulls) {
      if (tensor.link !== undefined) continue;
      const call = tensor.control.readAhead({ clocksAhead, priority });
      tensor.#checkWhole(into, INTO);
      for (const part of tensor.#whole) requests.push(tensor.#pullOf(part, { parts: tensor.#whole, landed: into }, call));
      first ??= tensor;
    }
    const alone: Promise<unknown>[] = pulls
      .filter(({ tensor }) => tensor.link !== undefined)
      .map(({ tensor, into, priority }) => tensor.pull({ into, ...wait, priority, clocksAhead }));
    const count = pulls.length - alone.length;
    if (first !== undefined) alone.push(first.#sendTogether(requests, { what: "the pull", count }, wait, false));
    await allEnded(alone);
  }

  /** Requests of so many tensors, of which this is the first. */
  async #sendTogether(
    requests: readonly AnyRequest[],
    { what, count }: { readonly what: string; readonly count: number },
    wait: WaitOptions,
    isUpdate: boolean,
  ): Promise<void> {
    const whole = count === 1 ? what : `${what} of ${count - 1} other${count === 2 ? "" : "s"} and`;
    await this.waitFor(this.functions.router.call(requests), whole, wait, isUpdate);
  }

  /** The values: in `into` if it is given, in a new array otherwise. Sees every earlier push of this worker. */
  async pull(options?: PullOptions): Promise<Float32Array>;
  async pull(options?: PullOptions, more?: unknown): Promise<Float32Array> {
    if (more !== undefined) throw moreThanOptions(more, this.name);
    const call = this.#pullCall(options);
    const into = options?.into === undefined ? new Float32Array(this.size) : options.into;
    this.#checkWhole(into, INTO);
    await this.#send(this.#pulls({ parts: this.#whole, landed: into }, call), "the pull", call);
    return into;
  }

  /** Gradients for some rows; those of a row that is named twice are added first. Throws OUT_OF_RANGE. */
  async pushRows(rows: RowList, gradients: Float32Array, options?: CallOptions): Promise<void> {
    try {
      const call = this.#now(options);
      this.#checkRows(gradients, rows, "gradients");
      await this.#withSpans(call, true, async (spans) => {
        const { sums, parts } = this.#pushed({ rows, gradients }, spans);
        const { scale, skips } = admissionOf(this.control, sums, gradients);
        if (skips || parts.length === 0) return;
        await this.#send(this.#pushes(parts, sums, this.#pushCall(call, scale)), "the push", {}, call.clock);
      });
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** Some rows, in the order of the list: in `into` if it is given, in a new array otherwise. Throws OUT_OF_RANGE. */
  async pullRows(rows: RowList, options?: PullOptions): Promise<Float32Array>;
  async pullRows(rows: RowList, options?: PullOptions, more?: unknown): Promise<Float32Array> {
    if (more !== undefined) throw moreThanOptions(more, this.name);
    const call = this.#pullCall(options);
    const into = options?.into === undefined ? this.#roomFor(rows) : options.into;
    this.#checkRows(into, rows, INTO);
    await this.#withSpans(call, false, async (spans) => {
      await this.#land(rows, into, spans, false, async (landing) => await this.#send(this.#pulls(landing, call), "the pull", {}));
    });
    return into;
  }

  /**
   * Pushes all of the tensor or some of its rows, and pulls all of it or some rows as they are right after that, block
   * by block in one round trip. Throws VALUE_LENGTH, NOT_FINITE, OUT_OF_RANGE.
   *
   * @example
   * const values = await w.pushPull(gradient, "all");
   * const rows = await w.pushPull({ rows: [3, 7], gradients }, [3, 7], { into });
   */
  async pushPull(push: Float32Array | RowsAndGradients, pull: "all" | RowList, options?: PushPullOptions): Promise<Float32Array>;
  async pushPull(
    push: Float32Array | RowsAndGradients,
    pull: "all" | RowList,
    options?: PushPullOptions,
    more?: unknown,
  ): Promise<Float32Array> {
    try {
      if (more !== undefined) throw moreThanOptions(more, this.name);
      const call = options === undefined || isOnlyInto(options) ? this.#now(undefined) : this.control.pushPullNow(options);
      this.#checkPull(pull);
      const isWhole = push instanceof Float32Array;
      if (isWhole) this.#checkWhole(push, "gradients");
      else this.#checkPushedRows(push);
      const into = options?.into === undefined ? this.#roomFor(pull) : options.into;
      if (pull === "all") this.#checkWhole(into, INTO);
      else this.#checkRows(into, pull, INTO);
      if (isWhole && pull === "all") {
        const { scale, skips } = admissionOf(this.control, push, push);
        const landing = { parts: this.#whole, landed: into };
        if (skips) await this.#send(this.#pulls(landing, call), "the pull", call);
        else await this.#send(this.#pushPulls(this.#whole, push, landing, this.#pushCall(call, scale)), "the push-pull", call, call.clock);
      } else await this.#withSpans(call, true, async (spans) => await this.#pushPullRows(push, pull, into, call, spans));
      return into;
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  async #pushPullRows(
    push: Float32Array | RowsAndGradients,
    pull: "all" | RowList,
    into: Float32Array,
    call: ParameterCall,
    spans: ArenaSpans,
  ): Promise<void> {
    if (pull === "all") await this.#pushThenPull(push, { parts: this.#whole, landed: into }, call, spans);
    else await this.#land(pull, into, spans, true, async (landing) => await this.#pushThenPull(push, landing, call, spans));
  }

  async #pushThenPull(push: Float32Array | RowsAndGradients, landing: Landing, call: ParameterCall, spans: ArenaSpans): Promise<void> {
    const { sums, parts } = push instanceof Float32Array ? { sums: push, parts: this.#whole } : this.#pushed(push, spans);
    const { scale, skips } = admissionOf(this.control, sums, push instanceof Float32Array ? push : push.gradients);
    if (skips || parts.length === 0) await this.#send(this.#pulls(landing, call), "the pull", {});
    else await this.#send(this.#pushPulls(parts, sums, landing, this.#pushCall(call, scale)), "the push-pull", {}, call.clock);
  }

  /**
   * Sends what top-k has kept for later, exactly; does nothing for a tensor without it. `session.close()` does it too.
   * What could not be sent is kept.
   */
  async flushResidual(options?: CallOptions): Promise<void> {
    await this.#flush(() => this.#now(options));
  }

  /** @internal Whether top-k keeps something of it. */
  get hasResidual(): boolean {
    return this.link?.kept?.isEmpty === false;
  }

  /** @internal The same at a clock of the session's; for the session alone. */
  async flushAt(call: ParameterCall): Promise<void> {
    await this.#flush(() => call);
  }

  async #flush(callOf: () => ParameterCall): Promise<void> {
    try {
      const call = callOf();
      const { kept } = this.link ?? {};
      if (this.link === undefined || kept === undefined) return;
      const spans = new ArenaSpans(this.#rowPlanner.arena);
      const left = kept.takeAll(spans);
      const { clock, priority, pushNumber, scale } = this.#pushCall(call, 1);
      const [parameter, scope, rows] = [this.number, this.number, ALL_ROWS];
      const requests = left.map((each) => {
        const { to } = this.#whole[each.block] as BlockPart;
        const request = { parameter, block: each.block, clock, pushNumber, scale, rows, gradients: each.gradients };
        const answered = (): void => {
          each.isSent = true;
        };
        const failed = (error: WeighbridgeError): void => noteLost(each, error);
        return requestOf(tensorPush, { to, scope, request, priority, answered, failed });
      });
      const pushClock = left.length === 0 ? undefined : clock;
      const done = this.link
        .call(requests, this.handle, { pushClock, isExact: true })
        .catch((thrown: unknown) => {
          kept.putBack(left);
          throw thrown;
        })
        .finally(() => spans.release());
      await this.waitFor(done, "what is left", call, true);
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  /** Removes the parameter from the servers, for all workers, and what top-k has kept of it. */
  override async drop(options: WaitOptions = {}): Promise<void> {
    await super.drop(options);
    this.link?.kept?.close();
  }

  /** The rows of a push, each once, by block. Throws OUT_OF_RANGE (Tensor.T1), UNSUPPORTED, ARENA_FULL. */
  #pushed({ rows, gradients }: RowsAndGradients, spans: ArenaSpans): { readonly sums: Float32Array; readonly parts: readonly BlockPart[] } {
    const named = this.#named(rows, spans);
    const sums = named.gradients(gradients, this.#blocks.width, mergeOf(this.#spec.optimizer));
    return { sums, parts: named.groups.map((group) => this.#partOf(group)) };
  }

  /**
   * Pulls rows that the caller named, to `into`: `pull` brings them to where they land. `isUpdate`: whether it pushes
   * something before. Throws as `#pushed`, and BUFFER_DETACHED.
   */
  async #land(
    rows: RowList,
    into: Float32Array,
    spans: ArenaSpans,
    isUpdate: boolean,
    pull: (landing: Landing) => Promise<void>,
  ): Promise<void> {
    const { width } = this.#blocks;
    const given = new CallerArray(into);
    const named = this.#named(rows, spans);
    const landed = named.landing(into, width);
    await pull({ parts: named.groups.map((group) => this.#partOf(group)), landed });
    given.check(this.name, isUpdate);
    named.deliver(landed, into, width);
  }

  #named(rows: RowList, spans: ArenaSpans): BlockRows {
    return new BlockRows(rows, this.#blocks, this.name, { planner: this.#rowPlanner, spans });
  }

  #partOf({ block, rows, from, to }: RowGroup): BlockPart {
    const { width } = this.#blocks;
    return { to: (this.#whole[block] as BlockPart).to, rows, begin: from * width, end: to * width };
  }

  #pushes(parts: readonly BlockPart[], gradients: Float32Array, call: PushFrameCall): AnyRequest[] {
    return parts.map((part) => this.#pushOf(part, gradients, call));
  }

  #pushOf({ to, rows, begin, end }: BlockPart, values: Float32Array, { clock, priority, pushNumber, scale }: PushFrameCall): AnyRequest {
    const [parameter, scope] = [this.number, this.number];
    const request = { parameter, block: to.block, clock, pushNumber, scale, rows, gradients: values.subarray(begin, end) };
    const countedAs = rows.length === 0 ? undefined : ROW_LOADS.push;
    return requestOf(tensorPush, { to, subject: this.handle, scope, request, priority, countedAs });
  }

  #pulls(landing: Landing, call: FrameCall): AnyRequest[] {
    return landing.parts.map((part) => this.#pullOf(part, landing, call));
  }

  #pullOf({ to, rows, begin, end }: BlockPart, { landed }: Landing, { clock, priority }: FrameCall): AnyRequest {
    const [parameter, scope] = [this.number, this.number];
    const request = { parameter, block: to.block, clock, rows };
    const countedAs = rows.length === 0 ? undefined : ROW_LOADS.pull;
    return requestOf(tensorPull, { to, subject: this.handle, scope, request, priority, countedAs, into: landed.subarray(begin, end) });
  }

  /** Both lists are in the order of the blocks (Tensor.T2). */
  #pushPulls(pushed: readonly BlockPart[], gradients: Float32Array, landing: Landing, call: PushFrameCall): AnyRequest[] {
    const requests: AnyRequest[] = [];
    const pulled = landing.parts;
    for (let i = 0, j = 0; i < pushed.length || j < pulled.length; ) {
      const [push, pull] = [pushed[i], pulled[j]];
      if (push !== undefined && (pull === undefined || push.to.block < pull.to.block)) {
        requests.push(this.#pushOf(push, gradients, call));
        i++;
      } else if (pull !== undefined && (push === undefined || pull.to.block < push.to.block)) {
        requests.push(this.#pullOf(pull, landing, call));
        j++;
      } else {
        requests.push(this.#pushPullOf(push as BlockPart, gradients, pull as BlockPart, landing, call));
        i++;
        j++;
      }
    }
    return requests;
  }

  #pushPullOf(push: BlockPart, gradients: Float32Array, pull: BlockPart, landing: Landing, call: PushFrameCall): AnyRequest {
    const { to, rows: pushRows, begin, end } = push;
    const { clock, priority, pushNumber, scale } = call;
    const at = { parameter: this.number, block: to.block, clock, pushNumber, scale };
    const request = { ...at, pushRows, gradients: gradients.subarray(begin, end), pullRows: pull.rows };
    const answerLost = (): Recut => ({ requests: [this.#pullOf(pull, landing, call)], release: () => {} }); // Tensor.T3
    const countedAs = pushRows.length === 0 ? undefined : pull.rows.length === 0 ? ROW_LOADS.pushPull : ROW_LOADS.pushPullRows;
    const into = landing.landed.subarray(pull.begin, pull.end);
    return requestOf(tensorPushPull, { to, scope: this.number, request, priority, countedAs, into, answerLost });
  }

  /** `what` completes "waiting for … of". `pushClock`: that of the push that these are. */
  async #send(requests: readonly AnyRequest[], what: string, wait: WaitOptions, pushClock?: number): Promise<void> {
    const { link, handle } = this;
    const done = link === undefined ? this.functions.router.call(requests, handle, pushClock) : link.call(requests, handle, { pushClock });
    if (wait.timeoutMs !== undefined || wait.signal !== undefined) return await this.waitFor(done, what, wait, pushClock !== undefined);
    try {
      await done;
    } catch (thrown) {
      throw await this.functions.explained(thrown, this.handle, {});
    }
  }

  /** Memory that is kept until the last call has ended, even when nobody waits for it any more. */
  async #withSpans(wait: WaitOptions, isUpdate: boolean, run: (spans: ArenaSpans) => Promise<void>): Promise<void> {
    const spans = new ArenaSpans(this.#rowPlanner.arena);
    await this.waitFor(
      run(spans).finally(() => spans.release()),
      "rows",
      wait,
      isUpdate,
    );
  }

  /** How a call is sent at this worker's clock; without options it is plain. Throws BAD_ARGUMENT, NOT_JOINED. */
  #now(options: CallOptions | undefined): ParameterCall {
    const { workerClock } = this.control;
    return options === undefined && workerClock.lost === undefined ? { clock: workerClock.value } : this.control.callNow(options);
  }

  /** The same for a pull. */
  #pullCall(options: PullOptions | undefined): ParameterCall {
    return options === undefined || isOnlyInto(options) ? this.#now(undefined) : this.control.readAhead(options);
  }

  /** That of a push whose requests are made now; its number is taken when they leave. */
  #pushCall({ clock, priority }: ParameterCall, scale: number): PushFrameCall {
    return { clock, priority, scale, pushNumber: this.handle.pushes.last(this.number) + 1 };
  }

  /** A new array for what is pulled. */
  #roomFor(pull: "all" | RowList): Float32Array {
    return new Float32Array(pull === "all" ? this.size : listLength(pull, this.name) * this.#blocks.width);
  }

  /** Throws BAD_ARGUMENT for what names neither the whole tensor nor rows: an array to pull into, or nothing. */
  #checkPull(pull: "all" | RowList): void {
    if (pull === "all" || (typeof pull === "object" && pull !== null && !(pull instanceof Float32Array))) return;
    const what = `${this.name}: what pushPull pulls must be "all" or a list of rows, got ${showValue(pull)}`;
    throw badArgument(`${what}: call it as pushPull(gradient, "all", { into })`);
  }

  /** Tensor.T1 */
  #checkPushedRows(push: RowsAndGradients): void {
    checkOptions(push, ["rows", "gradients"], `the pushed rows of ${this.name}`);
    this.#checkRows(push.gradients, push.rows, "gradients");
  }

  #checkRows(values: Float32Array, rows: RowList, what: string): void {
    this.checkValues(values, listLength(rows, this.name) * this.#blocks.width, what);
  }

  /** Tensor.T1 */
  #checkWhole(values: Float32Array, what: string): void {
    if (!(values instanceof Float32Array && values.length === this.size)) this.checkValues(values, this.size, what);
  }
}

refuseFormer(Tensor, {
  pushRowsPull: 'pushPull({ rows, gradients }, "all", options)',
  pushPullRows: "pushPull({ rows, gradients }, rows, options)",
  clear: "drop()",
});
