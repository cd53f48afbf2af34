// tensor — a dense parameter as a user meets it. Arrays given to a call belong to it until its promise settles.

import type { WaitOptions } from "../base/deferred.ts";
import { checkOptions } from "../base/known-options.ts";
import type { TensorSpec } from "../store/parameter-spec.ts";
import type { RowList } from "../worker/block-rows.ts";
import { listLength } from "../worker/key-lists.ts";
import type { ParameterControl } from "../worker/parameter-control.ts";
import type { ParameterCall, RowsAndGradients, TensorClient } from "../worker/tensor-client.ts";
import { Parameter } from "./parameter.ts";

export type CallOptions = WaitOptions & {
  /** Higher overtakes lower between blocks. Defaults to 0. */
  readonly priority?: number;
};

export type ReadOptions = CallOptions & {
  /**
   * Reads as of so many clocks after this worker's own, 0 by default: the read leaves now, behind what was pushed, and waits at the servers until the
   * clocks in between have ended and the bound allows it. Whoever reads ahead ends those clocks without waiting for the answer.
   */
  readonly clocksAhead?: number;
};

type OpenTensor = { readonly client: TensorClient; readonly control: ParameterControl };

/** Of a call whose caller says nothing about it. */
export const NO_OPTIONS: ReadOptions = {};

export class Tensor extends Parameter {
  readonly shape: readonly number[];
  readonly #client: TensorClient;
  readonly #control: ParameterControl;

  /** For the session alone. */
  constructor(spec: TensorSpec, { client, control }: OpenTensor) {
    super(spec.name, control);
    this.#control = control;
    this.shape = spec.shape;
    this.#client = client;
  }

  /** How many elements it has. */
  get size(): number {
    return this.#client.shape.floatCount;
  }

  /**
   * Gives the tensor the values it begins with, in place of its initializer's. The first worker to come decides, block by block; once it did, or anybody has
   * pushed, or a checkpoint was restored, nothing is changed. So every worker may call it, at any time. Resolves with whether all of these values
   * were taken. Throws VALUE_LENGTH, NOT_FINITE.
   */
  async start(values: Float32Array, options: WaitOptions = {}): Promise<boolean> {
    this.#control.checkCall(options);
    return (await this.#client.start(values, options)) === this.#client.shape.blockCount;
  }

  /** Hands a gradient to the optimizer. Throws VALUE_LENGTH, NOT_FINITE. */
  async push(gradient: Float32Array, options: CallOptions = NO_OPTIONS): Promise<void> {
    await this.#client.push(gradient, { ...this.#callNow(options), check: this.#control });
  }

  /** The values: in `into` if it is given, in a new array otherwise. Sees every earlier push of this worker. */
  async pull(into: Float32Array = new Float32Array(this.size), options: ReadOptions = NO_OPTIONS): Promise<Float32Array> {
    await this.#client.pull(into, this.#readAhead(options));
    return into;
  }

  /** A push, and what the tensor is right after it, block by block in one round trip. */
  async pushPull(
    gradient: Float32Array,
    into: Float32Array = new Float32Array(this.size),
    options: CallOptions = NO_OPTIONS,
  ): Promise<Float32Array> {
    await this.#client.pushPull(gradient, into, { ...this.#callNow(options), check: this.#control });
    return into;
  }

  /** Gradients for some rows; those of a row that is named twice are added first. Throws OUT_OF_RANGE. */
  async pushRows(rows: RowList, gradients: Float32Array, options: CallOptions = NO_OPTIONS): Promise<void> {
    await this.#client.pushRows(rows, gradients, { ...this.#callNow(options), check: this.#control });
  }

  /** Some rows, in the order of the list. Throws OUT_OF_RANGE. */
  async pullRows(rows: RowList, into?: Float32Array, options: CallOptions = NO_OPTIONS): Promise<Float32Array> {
    const values = into !== undefined ? into : new Float32Array(listLength(rows, this.name) * this.#client.shape.width);
    await this.#client.pullRows(rows, values, this.#callNow(options));
    return values;
  }

  /** A push of some rows, and the whole tensor as it is right after that, block by block in one round trip. Throws OUT_OF_RANGE. */
  async pushRowsPull(
    rows: RowList,
    gradients: Float32Array,
    into: Float32Array = new Float32Array(this.size),
    options: CallOptions = NO_OPTIONS,
  ): Promise<Float32Array> {
    await this.#client.pushRowsPull(rows, gradients, into, { ...this.#callNow(options), check: this.#control });
    return into;
  }

  /** A push of some rows, and other rows as they are right after that, block by block in one round trip. Throws OUT_OF_RANGE. */
  async pushPullRows(
    push: RowsAndGradients,
    pullRows: RowList,
    into?: Float32Array,
    options: CallOptions = NO_OPTIONS,
  ): Promise<Float32Array> {
    checkOptions(push, ["rows", "gradients"], `the pushed rows of ${this.name}`);
    const values = into !== undefined ? into : new Float32Array(listLength(pullRows, this.name) * this.#client.shape.width);
    await this.#client.pushPullRows(push, pullRows, values, { ...this.#callNow(options), check: this.#control });
    return values;
  }

  /**
   * Sends what top-k has kept for later, exactly; does nothing for a tensor without it. `session.close()` does it too. What could not be sent
   * is kept.
   */
  async flushResidual(options: CallOptions = NO_OPTIONS): Promise<void> {
    await this.#client.flushResidual(this.#callNow(options));
  }

  /** Removes the parameter from the servers, and what top-k has kept of it. */
  override async clear(options: WaitOptions = {}): Promise<void> {
    await super.clear(options);
    this.#client.dropResidual();
  }

  /** How a call is sent at this worker's clock; one whose caller says nothing about it needs no closer look. Throws BAD_ARGUMENT. */
  #callNow(options: CallOptions): ParameterCall {
    const { workerClock } = this.#control;
    return options === NO_OPTIONS && workerClock.lost === undefined ? { clock: workerClock.value } : this.#control.callNow(options);
  }

  /** The same for a read, perhaps ahead of that clock. */
  #readAhead(options: ReadOptions): ParameterCall {
    return options === NO_OPTIONS ? this.#callNow(options) : this.#control.readAhead(options);
  }
}
