// parameter — what tensors and embeddings have in common: the name, the handle by which servers know the parameter, the
// link that its keys and values travel over, and what is changed or counted for everybody. What runs for every steady
// call is in tensor.ts and embedding.ts: no function of this file is on that way.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument } from "../base/errors.ts";
import { moreThanOptions } from "../base/known-options.ts";
import { STILL_OPEN, unheard } from "../peer/unheard-update.ts";
import type { NonFiniteCounts } from "../store/updaters/updater.ts";
import { wrongLength } from "./caller-array.ts";
import type { FunctionClient } from "./function-client.ts";
import type { LinkCalls } from "./link-calls.ts";
import type { ParameterControl, ParameterSettings } from "./parameter-control.ts";
import type { ParameterHandle } from "./parameter-handle.ts";

/** How a call of a tensor or an embedding is sent, and how long its caller waits. */
export interface CallOptions extends WaitOptions {
  /** Higher overtakes lower between blocks. Defaults to 0. */
  readonly priority?: number | undefined;
}

/** The options of calls that read. */
export interface ReadOptions extends CallOptions {
  /**
   * Reads as of this many clocks after this worker's own, 0 by default: the read leaves now, behind what was pushed,
   * and waits at the servers until the clocks in between have ended and the bound allows it. A caller that reads ahead
   * ends those clocks without waiting for the answer.
   */
  readonly clocksAhead?: number | undefined;
}

/** The options of a pull. */
export interface PullOptions<A = Float32Array> extends ReadOptions {
  /** Where the values land: an array of the right length, which the call returns, instead of a new one. */
  readonly into?: A | undefined;
}

/** The options of a call that pushes and pulls. */
export interface PushPullOptions<A = Float32Array> extends CallOptions {
  /** Where the values land: an array of the right length, which the call returns, instead of a new one. */
  readonly into?: A | undefined;
}

/** How a call of a parameter is sent. */
export type ParameterCall = WaitOptions & {
  /** The worker's clock. */
  readonly clock: number;
  readonly priority?: number | undefined;
};

/** How the frames of a call are sent. */
export type FrameCall = { readonly clock: number; readonly priority?: number | undefined };
export type PushFrameCall = FrameCall & { readonly pushNumber: number; readonly scale: number };

/** What messages call the array of a pull. */
export const INTO = "the array to pull into";

export type OpenParameter = {
  readonly functions: FunctionClient;
  readonly control: ParameterControl;
  /** Undefined for a parameter whose keys and values travel as they are. */
  readonly link?: LinkCalls | undefined;
};

/** What requests for a parameter are made with. */
export type ParameterRequests = Pick<OpenParameter, "functions"> & { readonly handle: ParameterHandle };

/** What tensors and embeddings have in common. */
export abstract class Parameter {
  /** The name by which all nodes know it. */
  readonly name: string;
  /** @internal */
  protected readonly functions: FunctionClient;
  /** @internal */
  protected readonly control: ParameterControl;
  /** @internal */
  protected readonly link: LinkCalls | undefined;
  /** @internal */
  protected readonly handle: ParameterHandle;
  /** @internal Its number on the wire. */
  protected readonly number: number;
  /** For what a wait says. */
  readonly #quotedName: string;

  /** @internal */
  constructor({ functions, control, link }: OpenParameter) {
    this.functions = functions;
    this.control = control;
    this.link = link;
    this.handle = control.handle;
    this.name = control.handle.name;
    this.number = control.handle.parameter;
    this.#quotedName = JSON.stringify(this.name);
  }

  /**
   * Changes the learning rate, its schedule, the consistency or only its bound, for all workers, while training
   * continues. Returns the clock from which the change holds on every server: this worker's, or for a consistency one
   * shortly ahead of the fastest worker. When it rejects, some servers may have changed and others not: call it again.
   *
   * @example
   * await w.configure({ learningRate: 0.001 });
   * const from = await w.configure({ consistency: { ssp: 3 } });
   */
  async configure(settings: ParameterSettings): Promise<number>;
  async configure(settings: ParameterSettings, more?: unknown): Promise<number> {
    if (more !== undefined) throw moreThanOptions(more, this.name);
    return await this.control.configure(settings);
  }

  /**
   * How much of what was pushed since the parameter was made was not finite: on the servers by all workers, counted by
   * frame, and what this handle refused or skipped before it was sent. The optimizer's `nonFinite` says what became of
   * it.
   */
  async nonFinite(options: WaitOptions = {}): Promise<NonFiniteCounts> {
    return await this.control.nonFinite(options);
  }

  /** @internal For code that makes requests of its own for the parameter. */
  openWith<T>(open: (requests: ParameterRequests) => T): T {
    return open({ functions: this.functions, handle: this.handle });
  }

  /** Removes the parameter from the servers, for all workers. */
  async drop(options: WaitOptions = {}): Promise<void> {
    await this.control.drop(options);
  }

  /**
   * @internal Waits for calls that go on, and give back their memory, even when nobody waits for them any more.
   * `isUpdate`: whether they push something.
   */
  protected async waitFor(done: Promise<void>, what: string, { timeoutMs, signal }: WaitOptions, isUpdate: boolean): Promise<void> {
    const whole = `${what} of ${this.#quotedName}${isUpdate ? STILL_OPEN : ""}`;
    const wait = { timeoutMs, signal };
    try {
      await this.functions.router.waits.wait(done, whole, wait);
    } catch (thrown) {
      const told = await this.functions.explained(thrown, this.handle, wait);
      throw isUpdate ? unheard(told, done) : told;
    }
  }

  /** @internal Throws BAD_ARGUMENT unless `values` is a Float32Array, VALUE_LENGTH unless it has so many elements. */
  protected checkValues(values: Float32Array, expected: number, what: string): void {
    if (!(values instanceof Float32Array)) throw badArgument(`${this.name}: ${what} must be a Float32Array`);
    if (values.length !== expected) throw wrongLength(this.name, what, { length: values.length, width: expected });
  }
}
