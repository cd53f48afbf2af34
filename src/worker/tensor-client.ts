// tensor-client — pushes and pulls of one dense tensor: cut into blocks, values straight from and into the
// caller's arrays. Rows are grouped by their block (block-rows.ts). The shape and the servers are known; what a push means, the tensor's spec
// says.
//
// Invariants:
//   T1. Lengths and rows are checked before anything is sent.
//   T2. What a call pushes and pulls of one block travels in one frame: nothing comes in between there.
//   T3. Where pushes by rows are counted, every server hears of one before its rows come there.
//   T5. Where a block leaves its server before the answer of a push and pull is sent, or sent again, the push counts, and the values are asked for anew: they have
//       seen the push, and maybe what came in between.
//   T4. Rows that are pushed and pulled by one call over a link that carries less travel as the link says, in two frames one behind the other: what is pulled has
//       seen what was pushed, and maybe what came in between.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import {
  tensorPull,
  tensorPullRows,
  tensorPush,
  tensorPushPull,
  tensorPushPullRows,
  tensorPushRows,
  tensorPushRowsPull,
  tensorStart,
} from "../contracts/tensors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { MergeNumber } from "../kernel/duplicate-kernels.ts";
import type { FiniteScan } from "../kernel/finite-scan.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import type { Fields } from "../wire/function-schema.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { BlockRows, type RowGroup, type RowList } from "./block-rows.ts";
import { CallerArray } from "./caller-array.ts";
import type { EncodedTensor } from "./encoded-tensor.ts";
import { allEnded, type FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { listLength } from "./key-lists.ts";
import type { AnyRequest, FunctionRequest, Recut } from "./router/function-request.ts";
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
  readonly held: HeldParameter;
  readonly shape: TensorShape;
  /** Where rows are put in order. */
  readonly arena: Arena;
  /** For a tensor whose link carries less. */
  readonly encoded?: EncodedTensor | undefined;
  /** How values for one row are made one; left out: gradients, which add up. */
  readonly merge?: MergeNumber | undefined;
};

/** The part of a request that is a push of rows of one block. */
type RowsRequest = {
  readonly parameter: number;
  readonly block: number;
  readonly clock: number;
  readonly pushNumber: number;
  readonly scale: number;
  readonly rows: Uint32Array;
  readonly gradients: Float32Array;
};

/** A call about one block; the router finds its owner. */
type OfBlock = { readonly to: BlockRoute; readonly scope: number };

export class TensorClient {
  readonly shape: TensorShape;
  readonly #functions: FunctionClient;
  readonly #name: string;
  readonly #subject: HeldParameter;
  readonly #parameter: number;
  readonly #encoded: EncodedTensor | undefined;
  readonly #arena: Arena;
  readonly #merge: MergeNumber | undefined;
  /** By block; each remembers its owner. */
  readonly #routes: readonly BlockRoute[];

  constructor({ functions, held, shape, arena, encoded, merge }: TensorClientOptions) {
    this.#arena = arena;
    this.#merge = merge;
    this.shape = shape;
    this.#functions = functions;
    this.#name = held.name;
    this.#subject = held;
    this.#parameter = held.parameter;
    this.#encoded = encoded;
    this.#routes = Array.from({ length: shape.blockCount }, (_, block) => new BlockRoute(held.parameter, block));
  }

  /** Gives the tensor the values it begins with; how many of its blocks took them. They travel as they are, whatever the link carries. */
  async start(values: Float32Array, wait: WaitOptions): Promise<number> {
    this.#checkLength(values, this.shape.floatCount, "the values to begin with");
    let takenCount = 0;
    const answered = ({ isTaken }: { readonly isTaken: boolean }): void => {
      if (isTaken) takenCount++;
    };
    await this.#functions.callEach(
      tensorStart,
      this.#blocks((block, from, to) => ({ request: { parameter: this.#parameter, block, values: values.subarray(from, to) }, answered })),
      { ...wait, subject: this.#subject },
    );
    return takenCount;
  }

  async push(gradients: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.#checkLength(gradients, this.shape.floatCount, "gradients");
    const { scale, skips } = admissionOf(check, gradients, gradients);
    if (skips) return;
    if (this.#encoded?.encodesPush) return await this.#encoded.push(gradients, { clock, priority, ...wait, scale, subject: this.#subject });
    const pushNumber = this.#subject.pushes.next(this.#parameter, clock);
    const requests = this.#ofBlocks(tensorPush, (to, block, from, end) => {
      const request = { parameter: this.#parameter, block, clock, pushNumber, scale, gradients: gradients.subarray(from, end) };
      return { to, scope: this.#parameter, request, priority };
    });
    await this.#call(requests, "push", wait);
  }

  /** Fills `into`. */
  async pull(into: Float32Array, call: ParameterCall): Promise<void> {
    const { clock, priority, ...wait } = call;
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    if (this.#encoded?.encodesPull) return await this.#encoded.pull(into, { ...call, subject: this.#subject });
    const requests = this.#ofBlocks(tensorPull, (to, block, from, end) => {
      const request = { parameter: this.#parameter, block, clock };
      return { to, scope: this.#parameter, request, priority, into: into.subarray(from, end) };
    });
    await this.#call(requests, "pull", wait);
  }

  async pushPull(gradients: Float32Array, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.#checkLength(gradients, this.shape.floatCount, "gradients");
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    const { scale, skips } = admissionOf(check, gradients, gradients);
    if (skips) return await this.pull(into, { clock, priority, ...wait });
    if (this.#encoded?.encodesPush || this.#encoded?.encodesPull)
      return await this.#encoded.pushPull(gradients, into, { clock, priority, ...wait, scale, subject: this.#subject });
    const pushNumber = this.#subject.pushes.next(this.#parameter, clock);
    const requests = this.#ofBlocks(tensorPushPull, (to, block, from, end) => {
      const request = { parameter: this.#parameter, block, clock, pushNumber, scale, gradients: gradients.subarray(from, end) };
      const landing = into.subarray(from, end);
      const answerLost = (): Recut => this.#pullAnew(block, landing, { clock, priority });
      return { to, scope: this.#parameter, request, priority, into: landing, answerLost };
    }); // T2
    await this.#call(requests, "push-pull", wait);
  }

  /** `gradients` has a row for each of `rows`. */
  async pushRows(rows: RowList, gradients: Float32Array, call: CheckedPush): Promise<void> {
    const { priority, clock, check, ...wait } = call;
    this.#checkLength(gradients, listLength(rows, this.#name) * this.shape.width, "gradients");
    await this.#withSpans(wait, async (spans) => {
      const named = new BlockRows(rows, this.shape, this.#name, spans);
      const sums = named.gradients(gradients, this.shape.width, this.#merge);
      const { scale, skips } = admissionOf(check, sums, gradients);
      if (skips) return;
      if (this.#encoded?.encodesPushOfRows) {
        await this.#encoded.pushRows(named.groups, sums, { priority, clock, scale, subject: this.#subject });
        return;
      }
      const requests = this.#rowsRequests(named, sums, { clock, scale }).map((request) => this.#to(request.block, { request, priority }));
      await this.#functions.callEach(tensorPushRows, requests, { subject: this.#subject });
    });
  }

  /** Fills `into`, a row for each of `rows`. */
  async pullRows(rows: RowList, into: Float32Array, call: ParameterCall): Promise<void> {
    const { clock, priority, ...wait } = call;
    const { width } = this.shape;
    this.#checkLength(into, listLength(rows, this.#name) * width, "the array to pull into");
    await this.#withSpans(wait, async (spans) => {
      const given = new CallerArray(into);
      const named = new BlockRows(rows, this.shape, this.#name, spans);
      const landed = named.landing(into, width);
      const landingOf = ({ from, to }: RowGroup): Float32Array => landed.subarray(from * width, to * width);
      if (this.#encoded?.encodesPull) {
        await this.#encoded.pullRows(named.groups, landed, { clock, priority, subject: this.#subject });
        given.check(this.#name, false);
        for (const group of named.groups) named.deliver(group, landingOf(group), into, width);
        return;
      }
      const requests = named.groups.map((group) => {
        const { block, rows: own } = group;
        return this.#to(block, {
          request: { parameter: this.#parameter, block, clock, rows: own },
          priority,
          into: landingOf(group),
          passing: !named.isAsGiven,
          // While the others are on their way. A call's `answered` must not throw.
          answered: ({ values }: { readonly values: Float32Array }) => {
            if (given.isIntact) named.deliver(group, values, into, width);
          },
        });
      });
      await this.#functions.callEach(tensorPullRows, requests, { subject: this.#subject });
      given.check(this.#name, false);
    });
  }

  /** Sends what top-k has kept for later. */
  async flushResidual(call: ParameterCall): Promise<void> {
    await this.#encoded?.flush({ ...call, subject: this.#subject });
  }

  /** The parameter is gone, and with it what was kept for it. */
  dropResidual(): void {
    this.#encoded?.dropResiduals();
  }

  /** Pushes gradients for some rows and fills `into` with the whole tensor: of each block what it is right after the push. */
  async pushRowsPull(rows: RowList, gradients: Float32Array, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.#checkLength(gradients, listLength(rows, this.#name) * this.shape.width, "gradients");
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    if (this.#encodesRows) return await allEnded([this.pushRows(rows, gradients, call), this.pull(into, { clock, priority, ...wait })]); // T4
    await this.#withSpans(wait, async (spans) => {
      const named = new BlockRows(rows, this.shape, this.#name, spans);
      const sums = named.gradients(gradients, this.shape.width, this.#merge);
      const { scale, skips } = admissionOf(check, sums, gradients);
      if (skips) return await this.pull(into, { clock, priority });
      const pushes = new Map(this.#rowsRequests(named, sums, { clock, scale }).map((request) => [request.block, request]));
      const blocks = this.#blocks((block, from, to) => ({ block, priority, into: into.subarray(from, to) }));
      const both = blocks.flatMap(({ block, ...call }) => {
        const request = pushes.get(block);
        const answerLost = (): Recut => this.#pullAnew(block, call.into, { clock, priority });
        return request === undefined ? [] : [{ ...call, request, answerLost }];
      });
      const pulls = blocks.filter(({ block }) => !pushes.has(block));
      await allEnded([
        this.#functions.callEach(tensorPushRowsPull, both, { subject: this.#subject }),
        this.#functions.callEach(
          tensorPull,
          pulls.map(({ block, ...call }) => ({ ...call, request: { parameter: this.#parameter, block, clock } })),
          { subject: this.#subject },
        ),
      ]);
    });
  }

  /** Pushes gradients for some rows, and fills `into` with other rows: of each block what they are right after the push. */
  async pushPullRows(rows: RowsAndGradients, pullRows: RowList, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    const { width } = this.shape;
    this.#checkLength(rows.gradients, listLength(rows.rows, this.#name) * width, "gradients");
    this.#checkLength(into, listLength(pullRows, this.#name) * width, "the array to pull into");
    if (this.#encodesRows) {
      new BlockRows(pullRows, this.shape, this.#name, new ArenaSpans(this.#arena)); // T1: its rows are checked before anything is sent
      return await allEnded([this.pushRows(rows.rows, rows.gradients, call), this.pullRows(pullRows, into, { clock, priority, ...wait })]); // T4
    }
    await this.#withSpans(wait, async (spans) => {
      const pushed = new BlockRows(rows.rows, this.shape, this.#name, spans);
      const sums = pushed.gradients(rows.gradients, width, this.#merge);
      const { scale, skips } = admissionOf(check, sums, rows.gradients);
      if (skips) return await this.pullRows(pullRows, into, { clock, priority });
      const given = new CallerArray(into);
      const pulled = new BlockRows(pullRows, this.shape, this.#name, spans);
      const landed = pulled.landing(into, width);
      const pushes = new Map(this.#rowsRequests(pushed, sums, { clock, scale }).map((request) => [request.block, request]));
      const landings = new Map(pulled.groups.map((group) => [group.block, group]));
      const landingOf = ({ from, to }: RowGroup): Float32Array => landed.subarray(from * width, to * width);
      const single = [...pushes.values()].filter(({ block }) => !landings.has(block));
      const readOf = (group: RowGroup) => {
        const { block, rows: own } = group;
        return this.#to(block, { request: { parameter: this.#parameter, block, clock, rows: own }, priority, into: landingOf(group) });
      };
      const both = pulled.groups.flatMap((group) => {
        const push = pushes.get(group.block);
        if (push === undefined) return [];
        const { rows: pushRows, ...rest } = push;
        const answerLost = (): Recut => only(requestOf(tensorPullRows, readOf(group))); // T5
        return [
          this.#to(group.block, { request: { ...rest, pushRows, pullRows: group.rows }, priority, into: landingOf(group), answerLost }),
        ];
      });
      const reads = pulled.groups.filter(({ block }) => !pushes.has(block)).map(readOf);
      await allEnded([
        this.#functions.callEach(
          tensorPushRows,
          single.map((request) => this.#to(request.block, { request, priority })),
          { subject: this.#subject },
        ),
        this.#functions.callEach(tensorPushPullRows, both, { subject: this.#subject }),
        this.#functions.callEach(tensorPullRows, reads, { subject: this.#subject }),
      ]);
      given.check(this.#name, true);
      for (const group of pulled.groups) pulled.deliver(group, landingOf(group), into, width);
    });
  }

  /** T5 */
  #pullAnew(block: number, into: Float32Array, { clock, priority }: Pick<ParameterCall, "clock" | "priority">): Recut {
    return only(requestOf(tensorPull, this.#to(block, { request: { parameter: this.#parameter, block, clock }, priority, into })));
  }

  /** Whether rows travel otherwise than as they are, in one direction at least. */
  get #encodesRows(): boolean {
    return this.#encoded !== undefined && (this.#encoded.encodesPushOfRows || this.#encoded.encodesPull);
  }

  /** Memory that is kept until the last call has ended, even when nobody waits for it any more. */
  async #withSpans(wait: WaitOptions, run: (spans: ArenaSpans) => Promise<void>): Promise<void> {
    const spans = new ArenaSpans(this.#arena);
    const done = run(spans).finally(() => spans.release());
    await this.#functions.wait(done, `rows of ${JSON.stringify(this.#name)}`, { ...wait, subject: this.#subject });
  }

  /** The frames of one push. One of no rows is none. */
  #rowsRequests(named: BlockRows, sums: Float32Array, { clock, scale }: { readonly clock: number; readonly scale: number }): RowsRequest[] {
    const { width } = this.shape;
    const pushNumber = named.rowCount === 0 ? 0 : this.#subject.pushes.next(this.#parameter, clock);
    return named.groups.map(({ block, rows, from, to }) => ({
      parameter: this.#parameter,
      block,
      clock,
      pushNumber,
      scale,
      rows,
      gradients: sums.subarray(from * width, to * width),
    }));
  }

  #to<T extends object>(block: number, call: T): T & OfBlock {
    return { ...call, to: this.#routes[block] as BlockRoute, scope: this.#parameter };
  }

  /** A request about each block, of which it has the elements from `from` up to `end`. */
  #ofBlocks<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    make: (to: BlockRoute, block: number, from: number, end: number) => FunctionRequest<Q, R>,
  ): AnyRequest[] {
    const { blockFloats, floatCount } = this.shape;
    const requests: AnyRequest[] = [];
    for (let block = 0, from = 0; from < floatCount; block++, from += blockFloats)
      requests.push(requestOf(fn, make(this.#routes[block] as BlockRoute, block, from, Math.min(floatCount, from + blockFloats))));
    return requests;
  }

  /** `what` completes "waiting for the … of". */
  async #call(requests: readonly AnyRequest[], what: string, wait: WaitOptions): Promise<void> {
    if (wait.deadlineMs !== undefined || wait.signal !== undefined) {
      const waiting = `the ${what} of ${JSON.stringify(this.#name)}`;
      return await this.#functions.callMixed(requests, waiting, { ...wait, subject: this.#subject });
    }
    try {
      await this.#functions.router.call(requests, this.#subject);
    } catch (thrown) {
      throw await this.#functions.explained(thrown, this.#subject, wait);
    }
  }

  #blocks<T extends object>(make: (block: number, from: number, to: number) => T): (T & OfBlock)[] {
    const { shape } = this;
    return Array.from({ length: shape.blockCount }, (_, block) => {
      const from = shape.firstFloat(block);
      return this.#to(block, make(block, from, from + shape.floatsOf(block)));
    });
  }

  /** T1 */
  #checkLength(values: Float32Array, expected: number, what: string): void {
    if (!(values instanceof Float32Array)) throw new WeighbridgeError("BAD_ARGUMENT", `${this.#name}: ${what} must be a Float32Array`);
    if (values.length === expected) return;
    throw new WeighbridgeError("VALUE_LENGTH", `${this.#name}: ${expected} elements are wanted for ${what}, not ${values.length}`);
  }
}

function only(request: AnyRequest): Recut {
  return { requests: [request], release: () => {} };
}
