// tensor-client — pushes and pulls of one dense tensor, whole or some of its rows: cut into blocks, values straight from
// and into the caller's arrays. The shape and the servers are known; what a push means, the tensor's spec says.
//
// Invariants:
//   TensorClient.T1. Lengths and rows are checked before anything is sent.
//   TensorClient.T2. What a call pushes and pulls of one block travels in one frame: nothing comes in between there.
//   TensorClient.T5. Where a block leaves its server before the answer of a push and pull is sent, or sent again, the push
//       counts, and the values are asked for anew: they have seen the push, and maybe what came in between.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../contracts/tensors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { MergeNumber } from "../kernel/duplicate-kernels.ts";
import type { FiniteScan } from "../kernel/finite-scan.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { BlockRows, type RowGroup, type RowList } from "./block-rows.ts";
import { CallerArray } from "./caller-array.ts";
import type { FunctionClient } from "./function-client.ts";
import { noteLost } from "./kept-gradients.ts";
import { listLength } from "./key-lists.ts";
import type { LinkCalls } from "./link-calls.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import { BlockRoute } from "./router/server-directory.ts";
import { requestOf } from "./router.ts";

/** How a call of a parameter is sent. */
export type ParameterCall = WaitOptions & {
  /** The worker's clock. */
  readonly clock: number;
  /** Higher overtakes lower between blocks. */
  readonly priority?: number | undefined;
};

/** What becomes of a push. */
export type Admission = {
  /** Times every gradient, on the server. */
  readonly scale: number;
  /** Nothing is pushed: its optimizer leaves out what is not finite. */
  readonly skips: boolean;
};

/** Looks at a gradient as it is sent, what belongs to one row made one; `given` is the caller's. Throws NOT_FINITE. */
export type Admit = (gradients: Float32Array, given: Float32Array) => Admission;

/** How gradients are looked at before they are pushed. */
export type PushCheck = {
  /** Whether their norm is bounded. */
  readonly clips: boolean;
  /** Finds what is not finite; undefined where that is pushed like anything else. */
  readonly scan: Pick<FiniteScan, "firstNotFinite"> | undefined;
  /** For those that are clipped, or not finite. */
  readonly admit: Admit;
};

/** A push to a cache, which looks for what is not finite itself. */
export type PushCall = ParameterCall & {
  /** Left out: it is pushed as it is. */
  readonly admit?: Admit | undefined;
};

export type CheckedPush = ParameterCall & {
  /** Left out: it is pushed as it is. */
  readonly check?: PushCheck | undefined;
};

export const AS_IT_IS: Admission = { scale: 1, skips: false };

/** Longer gradients are not looked through here: it would take a seventh of the time of pushing them. */
export const WHOLE_CHECK_FLOATS = 262_144;

/** What becomes of a push of these gradients, which were made of those that are given. Throws NOT_FINITE. */
export function admissionOf(check: PushCheck | undefined, gradients: Float32Array, given: Float32Array): Admission {
  if (check === undefined) return AS_IT_IS;
  const { scan, clips } = check;
  const isPlain = scan === undefined || gradients.length > WHOLE_CHECK_FLOATS || scan.firstNotFinite(gradients) < 0;
  return isPlain && !clips ? AS_IT_IS : check.admit(gradients, given);
}

/** Some rows, and a row of gradients for each. */
export type RowsAndGradients = { readonly rows: RowList; readonly gradients: Float32Array };

export type TensorClientOptions = {
  readonly functions: FunctionClient;
  readonly held: ParameterHandle;
  readonly shape: TensorShape;
  /** For a tensor whose link carries less. */
  readonly link?: LinkCalls | undefined;
  /** Where rows are put in order. */
  readonly arena: Arena;
  /** How values for one row are made one; left out: gradients, which add up. */
  readonly merge?: MergeNumber | undefined;
};

/** A block, or some of its rows, and where their values lie in the array of a call: from `from` up to `to`. */
type BlockPart = { readonly to: BlockRoute; readonly rows: Uint32Array; readonly begin: number; readonly end: number };

/** What a call pulls: where its parts land, and who brings them on from there, if anybody has to. */
type Landing = {
  readonly parts: readonly BlockPart[];
  readonly landed: Float32Array;
  readonly deliver?: ((part: BlockPart, values: Float32Array) => void) | undefined;
};

type FrameCall = { readonly clock: number; readonly priority?: number | undefined };
type PushFrameCall = FrameCall & { readonly pushNumber: number; readonly scale: number };

const ALL_ROWS = new Uint32Array(0);

/** Bytes of calls about rows are counted apart from those about whole blocks, as Hetu does. */
const ROW_LOADS = {
  push: "wb/tensor/push-rows",
  pull: "wb/tensor/pull-rows",
  pushPull: "wb/tensor/push-rows-pull",
  pushPullRows: "wb/tensor/push-pull-rows",
} as const;

export class TensorClient {
  readonly shape: TensorShape;
  readonly #functions: FunctionClient;
  readonly #name: string;
  readonly #subject: ParameterHandle;
  readonly #parameter: number;
  readonly #link: LinkCalls | undefined;
  readonly #arena: Arena;
  readonly #merge: MergeNumber | undefined;
  /** All blocks; each remembers its owner. */
  readonly #whole: readonly BlockPart[];

  constructor({ functions, held, shape, link, arena, merge }: TensorClientOptions) {
    this.shape = shape;
    this.#functions = functions;
    this.#name = held.name;
    this.#subject = held;
    this.#parameter = held.parameter;
    this.#link = link;
    this.#arena = arena;
    this.#merge = merge;
    this.#whole = Array.from({ length: shape.blockCount }, (_, block) => {
      const begin = shape.firstFloat(block);
      return { to: new BlockRoute(held.parameter, block), rows: ALL_ROWS, begin, end: begin + shape.floatsOf(block) };
    });
  }

  /** Gives the tensor the values it begins with; how many of its blocks took them. They travel as they are, whatever the link carries. */
  async start(values: Float32Array, wait: WaitOptions): Promise<number> {
    this.#checkLength(values, this.shape.floatCount, "the values to begin with");
    let takenCount = 0;
    const answered = ({ isTaken }: { readonly isTaken: boolean }): void => {
      if (isTaken) takenCount++;
    };
    const parameter = this.#parameter;
    await this.#functions.callEach(
      tensorStart,
      this.#whole.map(({ to, begin, end }) => {
        const request = { parameter, block: to.block, values: values.subarray(begin, end) };
        return { to, scope: parameter, request, answered };
      }),
      { ...wait, subject: this.#subject },
    );
    return takenCount;
  }

  async push(gradients: Float32Array, { clock, priority, check, ...wait }: CheckedPush): Promise<void> {
    this.#checkLength(gradients, this.shape.floatCount, "gradients");
    const { scale, skips } = admissionOf(check, gradients, gradients);
    if (skips) return;
    const requests = this.#pushes(this.#whole, gradients, { clock, priority, scale, pushNumber: this.#nextNumber });
    await this.#send(requests, "push", wait, clock);
  }

  /** Fills `into`. */
  async pull(into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    await this.#send(this.#pulls({ parts: this.#whole, landed: into }, { clock, priority }), "pull", wait);
  }

  async pushPull(gradients: Float32Array, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.#checkLength(gradients, this.shape.floatCount, "gradients");
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    const { scale, skips } = admissionOf(check, gradients, gradients);
    if (skips) return await this.pull(into, { clock, priority, ...wait });
    const at = { clock, priority, scale, pushNumber: this.#nextNumber };
    await this.#send(this.#pushPulls(this.#whole, gradients, { parts: this.#whole, landed: into }, at), "push-pull", wait, clock);
  }

  /** `gradients` has a row for each of `rows`. */
  async pushRows(rows: RowList, gradients: Float32Array, { clock, priority, check, ...wait }: CheckedPush): Promise<void> {
    this.#checkRows(gradients, rows, "gradients");
    await this.#withSpans(wait, async (spans) => {
      const { sums, parts } = this.#pushed({ rows, gradients }, spans);
      const { scale, skips } = admissionOf(check, sums, gradients);
      if (skips || parts.length === 0) return;
      const at = { clock, priority, scale, pushNumber: this.#nextNumber };
      await this.#send(this.#pushes(parts, sums, at), "push", {}, clock);
    });
  }

  /** Fills `into`, a row for each of `rows`. */
  async pullRows(rows: RowList, into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    this.#checkRows(into, rows, "the array to pull into");
    await this.#withSpans(wait, async (spans) => {
      const given = new CallerArray(into);
      await this.#send(this.#pulls(this.#landing(rows, into, given, spans), { clock, priority }), "pull", {});
      given.check(this.#name, false);
    });
  }

  /**
   * Pushes gradients for some rows and fills `into` with the whole tensor: of each block what it is right after the
   * push.
   */
  async pushRowsPull(rows: RowList, gradients: Float32Array, into: Float32Array, call: CheckedPush): Promise<void> {
    this.#checkRows(gradients, rows, "gradients");
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    const whole = { parts: this.#whole, landed: into };
    await this.#withSpans(call, async (spans) => await this.#pushRowsThenPull({ rows, gradients }, whole, call, spans));
  }

  /**
   * Pushes gradients for some rows, and fills `into` with other rows: of each block what they are right after the
   * push.
   */
  async pushPullRows(push: RowsAndGradients, pullRows: RowList, into: Float32Array, call: CheckedPush): Promise<void> {
    this.#checkRows(push.gradients, push.rows, "gradients");
    this.#checkRows(into, pullRows, "the array to pull into");
    await this.#withSpans(call, async (spans) => {
      const given = new CallerArray(into);
      await this.#pushRowsThenPull(push, this.#landing(pullRows, into, given, spans), call, spans);
      given.check(this.#name, true);
    });
  }

  async #pushRowsThenPull(
    push: RowsAndGradients,
    landing: Landing,
    { clock, priority, check }: CheckedPush,
    spans: ArenaSpans,
  ): Promise<void> {
    const { sums, parts } = this.#pushed(push, spans);
    const { scale, skips } = admissionOf(check, sums, push.gradients);
    if (skips || parts.length === 0) return await this.#send(this.#pulls(landing, { clock, priority }), "pull", {});
    const at = { clock, priority, scale, pushNumber: this.#nextNumber };
    await this.#send(this.#pushPulls(parts, sums, landing, at), "push-pull", {}, clock);
  }

  /** Sends what top-k has kept for later, exactly. What fails is kept. */
  async flushResidual({ clock, priority, ...wait }: ParameterCall): Promise<void> {
    const { kept } = this.#link ?? {};
    if (kept === undefined) return;
    const spans = new ArenaSpans(this.#arena);
    const left = kept.takeAll(spans);
    const pushNumber = this.#nextNumber;
    const requests = left.map((each) => {
      const { to } = this.#whole[each.block] as BlockPart;
      const request = {
        parameter: this.#parameter,
        block: each.block,
        clock,
        pushNumber,
        scale: 1,
        rows: ALL_ROWS,
        gradients: each.gradients,
      };
      const answered = (): void => {
        each.isSent = true;
      };
      const failed = (error: WeighbridgeError): void => noteLost(each, error);
      return requestOf(tensorPush, { to, scope: this.#parameter, request, priority, answered, failed });
    });
    const done = this.#call(requests, left.length === 0 ? undefined : clock, true)
      .catch((thrown: unknown) => {
        kept.putBack(left);
        throw thrown;
      })
      .finally(() => spans.release());
    await this.#functions.wait(done, `what is left of ${this.#name}`, { ...wait, subject: this.#subject });
  }

  /** The parameter is gone, and with it what was kept for it. */
  dropResidual(): void {
    this.#link?.kept?.close();
  }

  /** The rows of a push, each once, by block. Throws OUT_OF_RANGE (T1), UNSUPPORTED, ARENA_FULL. */
  #pushed({ rows, gradients }: RowsAndGradients, spans: ArenaSpans): { readonly sums: Float32Array; readonly parts: readonly BlockPart[] } {
    const named = new BlockRows(rows, this.shape, this.#name, spans);
    return { sums: named.gradients(gradients, this.shape.width, this.#merge), parts: named.groups.map((group) => this.#partOf(group)) };
  }

  /** Where rows land that the caller named; each block's are brought to `into` while the others are on their way. */
  #landing(rows: RowList, into: Float32Array, given: CallerArray, spans: ArenaSpans): Landing {
    const { width } = this.shape;
    const named = new BlockRows(rows, this.shape, this.#name, spans);
    const groups = new Map(named.groups.map((group) => [this.#partOf(group), group]));
    const deliver = (part: BlockPart, values: Float32Array): void => {
      if (given.isIntact) named.deliver(groups.get(part) as RowGroup, values, into, width); // a call's `answered` must not throw
    };
    return { parts: [...groups.keys()], landed: named.landing(into, width), deliver: named.isAsGiven ? undefined : deliver };
  }

  #partOf({ block, rows, from, to }: RowGroup): BlockPart {
    const { width } = this.shape;
    return { to: (this.#whole[block] as BlockPart).to, rows, begin: from * width, end: to * width };
  }

  #pushes(parts: readonly BlockPart[], gradients: Float32Array, call: PushFrameCall): AnyRequest[] {
    return parts.map((part) => this.#pushOf(part, gradients, call));
  }

  #pushOf({ to, rows, begin, end }: BlockPart, values: Float32Array, { clock, priority, pushNumber, scale }: PushFrameCall): AnyRequest {
    const [parameter, scope] = [this.#parameter, this.#parameter];
    const request = { parameter, block: to.block, clock, pushNumber, scale, rows, gradients: values.subarray(begin, end) };
    return requestOf(tensorPush, { to, scope, request, priority, countedAs: rows.length === 0 ? undefined : ROW_LOADS.push });
  }

  #pulls(landing: Landing, call: FrameCall): AnyRequest[] {
    return landing.parts.map((part) => this.#pullOf(part, landing, call));
  }

  #pullOf(part: BlockPart, landing: Landing, { clock, priority }: FrameCall): AnyRequest {
    const { to, rows } = part;
    const [parameter, scope] = [this.#parameter, this.#parameter];
    const request = { parameter, block: to.block, clock, rows };
    const countedAs = rows.length === 0 ? undefined : ROW_LOADS.pull;
    return requestOf(tensorPull, { to, scope, request, priority, countedAs, ...landingOf(part, landing) });
  }

  /** Both lists are in the order of the blocks (T2). */
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
    const at = { parameter: this.#parameter, block: to.block, clock, pushNumber, scale };
    const request = { ...at, pushRows, gradients: gradients.subarray(begin, end), pullRows: pull.rows };
    const answerLost = (): Recut => ({ requests: [this.#pullOf(pull, landing, call)], release: () => {} }); // T5
    const countedAs = pushRows.length === 0 ? undefined : pull.rows.length === 0 ? ROW_LOADS.pushPull : ROW_LOADS.pushPullRows;
    return requestOf(tensorPushPull, { to, scope: this.#parameter, request, priority, countedAs, ...landingOf(pull, landing), answerLost });
  }

  /** `what` completes "waiting for the … of". `pushClock`: that of the push that these are. */
  async #send(requests: readonly AnyRequest[], what: string, wait: WaitOptions, pushClock?: number): Promise<void> {
    const done = this.#call(requests, pushClock);
    if (wait.deadlineMs === undefined && wait.signal === undefined) {
      try {
        return await done;
      } catch (thrown) {
        throw await this.#functions.explained(thrown, this.#subject, wait);
      }
    }
    await this.#functions.wait(done, `the ${what} of ${JSON.stringify(this.#name)}`, { ...wait, subject: this.#subject });
  }

  #call(requests: readonly AnyRequest[], pushClock: number | undefined, isExact = false): Promise<void> {
    const leaving = (): void => void (pushClock === undefined || this.#subject.pushes.next(this.#parameter, pushClock));
    if (this.#link !== undefined) return this.#link.call(requests, this.#subject, { leaving, isExact });
    leaving();
    return this.#functions.router.call(requests, this.#subject);
  }

  /** That of a push whose requests are made now; it is taken when they leave. */
  get #nextNumber(): number {
    return this.#subject.pushes.last(this.#parameter) + 1;
  }

  /** Memory that is kept until the last call has ended, even when nobody waits for it any more. */
  async #withSpans({ deadlineMs, signal }: WaitOptions, run: (spans: ArenaSpans) => Promise<void>): Promise<void> {
    const spans = new ArenaSpans(this.#arena);
    const done = run(spans).finally(() => spans.release());
    await this.#functions.wait(done, `rows of ${JSON.stringify(this.#name)}`, { deadlineMs, signal, subject: this.#subject });
  }

  #checkRows(values: Float32Array, rows: RowList, what: string): void {
    this.#checkLength(values, listLength(rows, this.#name) * this.shape.width, what);
  }

  /** T1 */
  #checkLength(values: Float32Array, expected: number, what: string): void {
    if (!(values instanceof Float32Array)) throw new WeighbridgeError("BAD_ARGUMENT", `${this.#name}: ${what} must be a Float32Array`);
    if (values.length === expected) return;
    throw new WeighbridgeError("VALUE_LENGTH", `${this.#name}: ${expected} elements are wanted for ${what}, not ${values.length}`);
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
