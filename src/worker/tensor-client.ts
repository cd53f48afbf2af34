// tensor-client — pushes and pulls of one dense tensor: cut into blocks, values straight from and into the
// caller's arrays. Some of its rows: tensor-rows.ts. The shape and the servers are known; what a push means, the tensor's spec
// says.
//
// Invariants:
//   T1. Lengths and rows are checked before anything is sent.
//   T2. What a call pushes and pulls of one block travels in one frame: nothing comes in between there.
//   T5. Where a block leaves its server before the answer of a push and pull is sent, or sent again, the push counts, and the values are asked for anew: they have
//       seen the push, and maybe what came in between.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../contracts/tensors.ts";
import type { FiniteScan } from "../kernel/finite-scan.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import type { Fields } from "../wire/function-schema.ts";
import type { EncodedTensor } from "./encoded-tensor.ts";
import type { FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
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

export type TensorClientOptions = {
  readonly functions: FunctionClient;
  readonly held: HeldParameter;
  readonly shape: TensorShape;
  /** For a tensor whose link carries less. */
  readonly encoded?: EncodedTensor | undefined;
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
  /** By block; each remembers its owner. */
  readonly #routes: readonly BlockRoute[];

  constructor({ functions, held, shape, encoded }: TensorClientOptions) {
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
    this.checkLength(values, this.shape.floatCount, "the values to begin with");
    let takenCount = 0;
    const answered = ({ isTaken }: { readonly isTaken: boolean }): void => {
      if (isTaken) takenCount++;
    };
    await this.#functions.callEach(
      tensorStart,
      this.blocks((block, from, to) => ({ request: { parameter: this.#parameter, block, values: values.subarray(from, to) }, answered })),
      { ...wait, subject: this.#subject },
    );
    return takenCount;
  }

  async push(gradients: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.checkLength(gradients, this.shape.floatCount, "gradients");
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
    this.checkLength(into, this.shape.floatCount, "the array to pull into");
    if (this.#encoded?.encodesPull) return await this.#encoded.pull(into, { ...call, subject: this.#subject });
    const requests = this.#ofBlocks(tensorPull, (to, block, from, end) => {
      const request = { parameter: this.#parameter, block, clock };
      return { to, scope: this.#parameter, request, priority, into: into.subarray(from, end) };
    });
    await this.#call(requests, "pull", wait);
  }

  async pushPull(gradients: Float32Array, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.checkLength(gradients, this.shape.floatCount, "gradients");
    this.checkLength(into, this.shape.floatCount, "the array to pull into");
    const { scale, skips } = admissionOf(check, gradients, gradients);
    if (skips) return await this.pull(into, { clock, priority, ...wait });
    if (this.#encoded?.encodesPush || this.#encoded?.encodesPull)
      return await this.#encoded.pushPull(gradients, into, { clock, priority, ...wait, scale, subject: this.#subject });
    const pushNumber = this.#subject.pushes.next(this.#parameter, clock);
    const requests = this.#ofBlocks(tensorPushPull, (to, block, from, end) => {
      const request = { parameter: this.#parameter, block, clock, pushNumber, scale, gradients: gradients.subarray(from, end) };
      const landing = into.subarray(from, end);
      const answerLost = (): Recut => this.pullAnew(block, landing, { clock, priority });
      return { to, scope: this.#parameter, request, priority, into: landing, answerLost };
    }); // T2
    await this.#call(requests, "push-pull", wait);
  }

  /** Sends what top-k has kept for later. */
  async flushResidual(call: ParameterCall): Promise<void> {
    await this.#encoded?.flush({ ...call, subject: this.#subject });
  }

  /** The parameter is gone, and with it what was kept for it. */
  dropResidual(): void {
    this.#encoded?.dropResiduals();
  }

  /** The values of a block, once it was pushed (T5). */
  pullAnew(block: number, into: Float32Array, { clock, priority }: Pick<ParameterCall, "clock" | "priority">): Recut {
    return only(requestOf(tensorPull, this.about(block, { request: { parameter: this.#parameter, block, clock }, priority, into })));
  }

  /** A call about a block, for its owner. */
  about<T extends object>(block: number, call: T): T & OfBlock {
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

  /** The same about each block, of which it has the elements from `from` up to `to`. */
  blocks<T extends object>(make: (block: number, from: number, to: number) => T): (T & OfBlock)[] {
    const { shape } = this;
    return Array.from({ length: shape.blockCount }, (_, block) => {
      const from = shape.firstFloat(block);
      return this.about(block, make(block, from, from + shape.floatsOf(block)));
    });
  }

  /** T1 */
  checkLength(values: Float32Array, expected: number, what: string): void {
    if (!(values instanceof Float32Array)) throw new WeighbridgeError("BAD_ARGUMENT", `${this.#name}: ${what} must be a Float32Array`);
    if (values.length === expected) return;
    throw new WeighbridgeError("VALUE_LENGTH", `${this.#name}: ${expected} elements are wanted for ${what}, not ${values.length}`);
  }
}

/** What takes the place of a request is one other. */
export function only(request: AnyRequest): Recut {
  return { requests: [request], release: () => {} };
}
