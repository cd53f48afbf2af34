// tensor — a dense parameter, as a user meets it and as it travels: pushes and pulls of all of it or of some rows, cut
// into blocks, values straight from and into the caller's arrays. Arrays given to a call belong to it until its promise
// settles. What a push means, the tensor's spec says.
//
// Invariants:
//   Tensor.T1. Options, lengths and rows are checked before anything is sent.
//   Tensor.T2. What a call pushes and pulls of one block travels in one frame: nothing comes in between there.
//   Tensor.T3. Where a block leaves its server before the answer of a push and pull is sent, or sent again, the push
//       counts, and the values are requested anew: they have seen the push, and maybe what came in between.

import type { WaitOptions } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../contracts/tensors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { TensorSpec } from "../store/parameter-spec.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import { mergeOf } from "../store/updaters/optimizer-spec.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { BlockRows, type RowGroup, type RowList } from "./block-rows.ts";
import { CallerArray } from "./caller-array.ts";
import { noteLost } from "./kept-gradients.ts";
import { listLength } from "./key-lists.ts";
import {
  type CallOptions,
  type FrameCall,
  INTO,
  type OpenParameter,
  Parameter,
  type ParameterCall,
  type PushFrameCall,
  type ReadOptions,
} from "./parameter.ts";
import { AS_IT_IS, type PushAdmission, type PushCheck, WHOLE_CHECK_FLOATS } from "./parameter-control.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import { BlockRoute } from "./router/server-directory.ts";
import { requestOf } from "./router.ts";

/** Some rows, and a row of gradients for each. */
export type RowsAndGradients = { readonly rows: RowList; readonly gradients: Float32Array };

export type OpenTensor = OpenParameter & {
  readonly shape: TensorShape;
  /** Where rows are put in order. */
  readonly arena: Arena;
};

/** A block, or some of its rows, and where their values lie in the array of a call: from `begin` up to `end`. */
type BlockPart = { readonly to: BlockRoute; readonly rows: Uint32Array; readonly begin: number; readonly end: number };

/** What a call pulls: where its parts land, and who brings them on from there, if anybody has to. */
type Landing = {
  readonly parts: readonly BlockPart[];
  readonly landed: Float32Array;
  readonly deliver?: ((part: BlockPart, values: Float32Array) => void) | undefined;
};

const ALL_ROWS = new Uint32Array(0);

/** Bytes of calls about rows are counted apart from those about whole blocks, as Hetu does. */
const ROW_LOADS = {
  push: "wb/tensor/push-rows",
  pull: "wb/tensor/pull-rows",
  pushPull: "wb/tensor/push-rows-pull",
  pushPullRows: "wb/tensor/push-pull-rows",
} as const;

/** What becomes of a push of these gradients, which were made of those that are given. Throws NOT_FINITE. */
export function admissionOf(check: PushCheck, gradients: Float32Array, given: Float32Array): PushAdmission {
  const { scan, clips } = check;
  const isPlain = scan === undefined || gradients.length > WHOLE_CHECK_FLOATS || scan.firstNotFinite(gradients) < 0;
  return isPlain && !clips ? AS_IT_IS : check.admit(gradients, given);
}

export class Tensor extends Parameter {
  readonly shape: readonly number[];
  /** How many elements it has. */
  readonly size: number;
  readonly #blocks: TensorShape;
  readonly #spec: TensorSpec;
  readonly #arena: Arena;
  /** All blocks; each remembers its owner. */
  readonly #whole: readonly BlockPart[];

  /** For the session alone. */
  constructor(spec: TensorSpec, { shape, arena, ...open }: OpenTensor) {
    super(open);
    this.shape = spec.shape;
    this.size = shape.floatCount;
    this.#blocks = shape;
    this.#spec = spec;
    this.#arena = arena;
    this.#whole = Array.from({ length: shape.blockCount }, (_, block) => {
      const begin = shape.firstFloat(block);
      return { to: new BlockRoute(this.number, block), rows: ALL_ROWS, begin, end: begin + shape.floatsOf(block) };
    });
  }

  /**
   * Gives the tensor the values it begins with, in place of its initializer's. The first worker to come decides, block
   * by block; once it did, or anybody has pushed, or a checkpoint was restored, nothing is changed. So every worker may
   * call it, at any time. Resolves with whether the servers took all of these values, which travel as they are,
   * whatever the link carries. Throws VALUE_LENGTH, NOT_FINITE.
   */
  async start(values: Float32Array, options: WaitOptions = {}): Promise<boolean> {
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
  }

  /** Hands a gradient to the optimizer. Throws VALUE_LENGTH, NOT_FINITE. */
  async push(gradient: Float32Array, options?: CallOptions): Promise<void> {
    const call = this.#now(options);
    this.#checkWhole(gradient, "gradients");
    const { scale, skips } = admissionOf(this.control, gradient, gradient);
    if (!skips) await this.#send(this.#pushes(this.#whole, gradient, this.#pushCall(call, scale)), "the push", call, call.clock);
  }

  /** The values: in `into` if it is given, in a new array otherwise. Sees every earlier push of this worker. */
  async pull(into: Float32Array = new Float32Array(this.size), options?: ReadOptions): Promise<Float32Array> {
    const call = options === undefined ? this.#now(undefined) : this.control.readAhead(options);
    this.#checkWhole(into, INTO);
    await this.#send(this.#pulls({ parts: this.#whole, landed: into }, call), "the pull", call);
    return into;
  }

  /** A push, and what the tensor is right after it, block by block in one round trip. */
  async pushPull(gradient: Float32Array, into: Float32Array = new Float32Array(this.size), options?: CallOptions): Promise<Float32Array> {
    const call = this.#now(options);
    this.#checkWhole(gradient, "gradients");
    this.#checkWhole(into, INTO);
    const { scale, skips } = admissionOf(this.control, gradient, gradient);
    const landing = { parts: this.#whole, landed: into };
    if (skips) await this.#send(this.#pulls(landing, call), "the pull", call);
    else await this.#send(this.#pushPulls(this.#whole, gradient, landing, this.#pushCall(call, scale)), "the push-pull", call, call.clock);
    return into;
  }

  /** Gradients for some rows; those of a row that is named twice are added first. Throws OUT_OF_RANGE. */
  async pushRows(rows: RowList, gradients: Float32Array, options?: CallOptions): Promise<void> {
    const call = this.#now(options);
    this.#checkRows(gradients, rows, "gradients");
    await this.#withSpans(call, async (spans) => {
      const { sums, parts } = this.#pushed({ rows, gradients }, spans);
      const { scale, skips } = admissionOf(this.control, sums, gradients);
      if (skips || parts.length === 0) return;
      await this.#send(this.#pushes(parts, sums, this.#pushCall(call, scale)), "the push", {}, call.clock);
    });
  }

  /** Some rows, in the order of the list. Throws OUT_OF_RANGE. */
  async pullRows(rows: RowList, into?: Float32Array, options?: CallOptions): Promise<Float32Array> {
    const values = into !== undefined ? into : this.#roomFor(rows);
    const call = this.#now(options);
    this.#checkRows(values, rows, INTO);
    await this.#withSpans(call, async (spans) => {
      const given = new CallerArray(values);
      await this.#send(this.#pulls(this.#landing(rows, values, given, spans), call), "the pull", {});
      given.check(this.name, false);
    });
    return values;
  }

  /** Pushes some rows, and pulls the whole tensor as it is then, in one round trip per block. Throws OUT_OF_RANGE. */
  async pushRowsPull(
    rows: RowList,
    gradients: Float32Array,
    into: Float32Array = new Float32Array(this.size),
    options?: CallOptions,
  ): Promise<Float32Array> {
    const call = this.#now(options);
    this.#checkRows(gradients, rows, "gradients");
    this.#checkWhole(into, INTO);
    const whole = { parts: this.#whole, landed: into };
    await this.#withSpans(call, async (spans) => await this.#pushRowsThenPull({ rows, gradients }, whole, call, spans));
    return into;
  }

  /** Pushes some rows, and pulls others as they are then, in one round trip per block. Throws OUT_OF_RANGE. */
  async pushPullRows(push: RowsAndGradients, pullRows: RowList, into?: Float32Array, options?: CallOptions): Promise<Float32Array> {
    checkOptions(push, ["rows", "gradients"], `the pushed rows of ${this.name}`);
    const values = into !== undefined ? into : this.#roomFor(pullRows);
    const call = this.#now(options);
    this.#checkRows(push.gradients, push.rows, "gradients");
    this.#checkRows(values, pullRows, INTO);
    await this.#withSpans(call, async (spans) => {
      const given = new CallerArray(values);
      await this.#pushRowsThenPull(push, this.#landing(pullRows, values, given, spans), call, spans);
      given.check(this.name, true);
    });
    return values;
  }

  async #pushRowsThenPull(push: RowsAndGradients, landing: Landing, call: ParameterCall, spans: ArenaSpans): Promise<void> {
    const { sums, parts } = this.#pushed(push, spans);
    const { scale, skips } = admissionOf(this.control, sums, push.gradients);
    if (skips || parts.length === 0) await this.#send(this.#pulls(landing, call), "the pull", {});
    else await this.#send(this.#pushPulls(parts, sums, landing, this.#pushCall(call, scale)), "the push-pull", {}, call.clock);
  }

  /**
   * Sends what top-k has kept for later, exactly; does nothing for a tensor without it. `session.close()` does it too.
   * What could not be sent is kept.
   */
  async flushResidual(options?: CallOptions): Promise<void> {
    await this.flushAt(this.#now(options));
  }

  /** The same at a clock of the session's; for the session alone. */
  async flushAt(call: ParameterCall): Promise<void> {
    const { kept } = this.link ?? {};
    if (this.link === undefined || kept === undefined) return;
    const spans = new ArenaSpans(this.#arena);
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
    await this.waitFor(done, "what is left", call);
  }

  /** Removes the parameter from the servers, and what top-k has kept of it. */
  override async clear(options: WaitOptions = {}): Promise<void> {
    await super.clear(options);
    this.link?.kept?.close();
  }

  /** The rows of a push, each once, by block. Throws OUT_OF_RANGE (Tensor.T1), UNSUPPORTED, ARENA_FULL. */
  #pushed({ rows, gradients }: RowsAndGradients, spans: ArenaSpans): { readonly sums: Float32Array; readonly parts: readonly BlockPart[] } {
    const named = new BlockRows(rows, this.#blocks, this.name, spans);
    const sums = named.gradients(gradients, this.#blocks.width, mergeOf(this.#spec.optimizer));
    return { sums, parts: named.groups.map((group) => this.#partOf(group)) };
  }

  /** Where rows land that the caller named; each block's are brought to `into` while the others are on their way. */
  #landing(rows: RowList, into: Float32Array, given: CallerArray, spans: ArenaSpans): Landing {
    const { width } = this.#blocks;
    const named = new BlockRows(rows, this.#blocks, this.name, spans);
    const groups = new Map(named.groups.map((group) => [this.#partOf(group), group]));
    const deliver = (part: BlockPart, values: Float32Array): void => {
      // A call's `answered` must not throw.
      if (given.isIntact) named.deliver(groups.get(part) as RowGroup, values, into, width);
    };
    return { parts: [...groups.keys()], landed: named.landing(into, width), deliver: named.isAsGiven ? undefined : deliver };
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
    return requestOf(tensorPush, { to, scope, request, priority, countedAs: rows.length === 0 ? undefined : ROW_LOADS.push });
  }

  #pulls(landing: Landing, call: FrameCall): AnyRequest[] {
    return landing.parts.map((part) => this.#pullOf(part, landing, call));
  }

  #pullOf(part: BlockPart, landing: Landing, { clock, priority }: FrameCall): AnyRequest {
    const { to, rows } = part;
    const [parameter, scope] = [this.number, this.number];
    const request = { parameter, block: to.block, clock, rows };
    const countedAs = rows.length === 0 ? undefined : ROW_LOADS.pull;
    return requestOf(tensorPull, { to, scope, request, priority, countedAs, ...landingOf(part, landing) });
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
    return requestOf(tensorPushPull, { to, scope: this.number, request, priority, countedAs, ...landingOf(pull, landing), answerLost });
  }

  /** `what` completes "waiting for … of". `pushClock`: that of the push that these are. */
  async #send(requests: readonly AnyRequest[], what: string, wait: WaitOptions, pushClock?: number): Promise<void> {
    const { link, handle } = this;
    const done = link === undefined ? this.functions.router.call(requests, handle, pushClock) : link.call(requests, handle, { pushClock });
    if (wait.deadlineMs !== undefined || wait.signal !== undefined) return await this.waitFor(done, what, wait);
    try {
      await done;
    } catch (thrown) {
      throw await this.explained(thrown);
    }
  }

  /** Memory that is kept until the last call has ended, even when nobody waits for it any more. */
  async #withSpans(wait: WaitOptions, run: (spans: ArenaSpans) => Promise<void>): Promise<void> {
    const spans = new ArenaSpans(this.#arena);
    await this.waitFor(
      run(spans).finally(() => spans.release()),
      "rows",
      wait,
    );
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

  #roomFor(rows: RowList): Float32Array {
    return new Float32Array(listLength(rows, this.name) * this.#blocks.width);
  }

  #checkRows(values: Float32Array, rows: RowList, what: string): void {
    this.checkValues(values, listLength(rows, this.name) * this.#blocks.width, what);
  }

  /** Tensor.T1 */
  #checkWhole(values: Float32Array, what: string): void {
    if (!(values instanceof Float32Array && values.length === this.size)) this.checkValues(values, this.size, what);
  }
}

function landingOf(
  part: BlockPart,
  { landed, deliver }: Landing,
): { into: Float32Array; passing?: true; answered?: (answer: { values: ArrayBufferView }) => void } {
  const into = landed.subarray(part.begin, part.end);
  if (deliver === undefined) return { into };
  return { into, passing: true, answered: ({ values }) => deliver(part, values as Float32Array) };
}
