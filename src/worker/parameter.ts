// parameter — what tensors and embeddings have in common: the name, the handle by which servers know the parameter, the
// link that its keys and values travel over, and what is changed or counted for everybody. What runs for every steady
// call is in tensor.ts and embedding.ts: no function of this file is on that way.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument } from "../base/errors.ts";
import type { NonFiniteCounts } from "../store/updaters/updater.ts";
import { wrongLength } from "./caller-array.ts";
import type { FunctionClient } from "./function-client.ts";
import type { LinkCalls } from "./link-calls.ts";
import type { ParameterControl, ParameterSettings } from "./parameter-control.ts";
import type { ParameterHandle } from "./parameter-handle.ts";

export type CallOptions = WaitOptions & {
  /** Higher overtakes lower between blocks. Defaults to 0. */
  readonly priority?: number;
};

export type ReadOptions = CallOptions & {
  /**
   * Reads as of so many clocks after this worker's own, 0 by default: the read leaves now, behind what was pushed, and
   * waits at the servers until the clocks in between have ended and the bound allows it. A caller that reads ahead
   * ends those clocks without waiting for the answer.
   */
  readonly clocksAhead?: number;
};

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

export abstract class Parameter {
  readonly name: string;
  protected readonly functions: FunctionClient;
  protected readonly control: ParameterControl;
  protected readonly link: LinkCalls | undefined;
  protected readonly handle: ParameterHandle;
  /** Its number on the wire. */
  protected readonly number: number;

  constructor({ functions, control, link }: OpenParameter) {
    this.functions = functions;
    this.control = control;
    this.link = link;
    this.handle = control.handle;
    this.name = control.handle.name;
    this.number = control.handle.parameter;
  }

  /**
   * Changes the learning rate, its schedule, the consistency or only its bound, for all workers, while training goes
   * on. Returns the clock from which the change holds on every server: this worker's, or for a consistency one shortly
   * ahead of the fastest worker. When it rejects, some servers may have changed and others not: call it again.
   */
  async configure(settings: ParameterSettings, options: WaitOptions = {}): Promise<number> {
    return await this.control.configure(settings, options);
  }

  /**
   * How much of what was pushed since the parameter was made was not finite: on the servers by all workers, counted by
   * frame, and what this handle refused or skipped before it was sent. The optimizer's `nonFinite` says what became of
   * it.
   */
  async nonFinite(options: WaitOptions = {}): Promise<NonFiniteCounts> {
    return await this.control.nonFinite(options);
  }

  /** For code that makes requests of its own for the parameter. */
  openWith<T>(open: (requests: ParameterRequests) => T): T {
    return open({ functions: this.functions, handle: this.handle });
  }

  /** Removes the parameter from the servers. */
  async clear(options: WaitOptions = {}): Promise<void> {
    await this.control.clear(options);
  }

  /** Waits for calls that go on, and give back their memory, even when nobody waits for them any more. */
  protected async waitFor(done: Promise<void>, what: string, { deadlineMs, signal }: WaitOptions): Promise<void> {
    await this.functions.wait(done, `${what} of ${JSON.stringify(this.name)}`, { deadlineMs, signal, subject: this.handle });
  }

  /** The error for the caller of a call that failed. */
  protected async explained(thrown: unknown): Promise<unknown> {
    return await this.functions.explained(thrown, this.handle, {});
  }

  /** Throws BAD_ARGUMENT unless `values` is a Float32Array, VALUE_LENGTH unless it has so many elements. */
  protected checkValues(values: Float32Array, expected: number, what: string): void {
    if (!(values instanceof Float32Array)) throw badArgument(`${this.name}: ${what} must be a Float32Array`);
    if (values.length !== expected) throw wrongLength(this.name, what, { length: values.length, width: expected });
  }
}
