// open-pulls — the pulls of the devices that one thread runs: which are open, who waits for them, and how they ended. When
// they end is decided elsewhere (key-rounds.ts); data are there by then.
//
// Invariants:
//   OpenPulls.P1. A pull ends once: its data are there, then its callback has ended, then who waits goes on.
//   OpenPulls.P2. What a callback throws is what its pull failed with; it ends no thread.

import { Deferred } from "../../base/deferred.ts";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { KeyPlan } from "./model-backend.ts";

export type PullRequest<Data extends object> = {
  readonly data: Data;
  readonly plan: KeyPlan;
  /** The position of the device. */
  readonly device: number;
  readonly priority: number;
  /** After the data are there, before who waits goes on (P1). */
  readonly callback: (() => unknown) | undefined;
};

/** `ended` is there once somebody waits. */
export type Pull<Data extends object> = {
  readonly request: PullRequest<Data>;
  ended: Deferred<void> | undefined;
  isOver: boolean;
  failure: unknown;
};

type OpenPullsOptions = {
  /** As users number them, by their positions. */
  readonly devices: readonly number[];
  /** Called when the first pull is open, and when none is any more. */
  readonly keepAlive: ((isNeeded: boolean) => void) | undefined;
};

export class OpenPulls<Data extends object> {
  readonly #options: OpenPullsOptions;
  /** The last of every key and device. */
  readonly #pulls: (Pull<Data> | undefined)[] = [];
  #openCount = 0;
  /** By device: how many of its pulls are open, and who waits for all of them. */
  readonly #openOf: number[];
  readonly #allOver: (Deferred<void> | undefined)[] = [];

  constructor(options: OpenPullsOptions) {
    this.#options = options;
    this.#openOf = options.devices.map(() => 0);
  }

  /** The last pull, open or not. */
  of(keyIndex: number, device: number): Pull<Data> | undefined {
    return this.#pulls[keyIndex * this.#options.devices.length + device];
  }

  /** Throws BAD_ARGUMENT if the device has a pull of the key that is open. */
  check({ plan, device }: PullRequest<Data>): void {
    if (this.of(plan.index, device)?.isOver !== false) return;
    const what = `device ${this.#options.devices[device]} has a pull of key ${plan.key} that has not ended: wait for it first`;
    throw new WeighbridgeError("BAD_ARGUMENT", what);
  }

  add(request: PullRequest<Data>): void {
    const { plan, device } = request;
    const number = plan.index * this.#options.devices.length + device;
    const before = this.#pulls[number];
    if (before?.request === request && before.ended === undefined) {
      before.isOver = false; // the same request again, and nobody has waited for the one before: nobody holds it
      before.failure = undefined;
    } else this.#pulls[number] = { request, ended: undefined, isOver: false, failure: undefined };
    this.#openOf[device] = this.openOf(device) + 1;
    if (this.#openCount++ === 0) this.#options.keepAlive?.(true);
  }

  openOf(device: number): number {
    return this.#openOf[device] as number;
  }

  /** Its data are there (P1). */
  there(pull: Pull<Data>): void {
    if (pull.request.callback === undefined) this.over(pull);
    else void this.#call(pull, pull.request.callback);
  }

  over(pull: Pull<Data>, failure?: unknown): void {
    if (pull.isOver) return;
    pull.isOver = true;
    if (--this.#openCount === 0) this.#options.keepAlive?.(false);
    pull.failure = failure;
    pull.ended?.resolve();
    const { device } = pull.request;
    const left = this.openOf(device) - 1;
    this.#openOf[device] = left;
    if (left > 0) return;
    this.#allOver[device]?.resolve();
    this.#allOver[device] = undefined;
  }

  failAll(failure: unknown): void {
    for (const pull of this.#pulls) if (pull !== undefined) this.over(pull, failure);
  }

  failOf(device: number, failure: unknown): void {
    for (const pull of this.#pulls) if (pull?.request.device === device) this.over(pull, failure);
  }

  /** Resolves when it is over. */
  ended(pull: Pull<Data>): Promise<void> {
    pull.ended ??= new Deferred<void>();
    return pull.ended.promise;
  }

  /** Resolves when no pull of the device is open. */
  allEnded(device: number): Promise<void> {
    const all = this.#allOver[device] ?? new Deferred<void>();
    this.#allOver[device] = all;
    return all.promise;
  }

  /** What the first of the device's pulls, by its key, failed with; undefined if none did. */
  failureOf(device: number): unknown {
    for (let number = device; number < this.#pulls.length; number += this.#options.devices.length) {
      const failure = this.#pulls[number]?.failure;
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  /** P2 */
  async #call(pull: Pull<Data>, callback: () => unknown): Promise<void> {
    const { device, plan } = pull.request;
    try {
      await callback();
      this.over(pull);
    } catch (thrown) {
      const what = `the callback of device ${this.#options.devices[device]}'s pull of key ${plan.key} threw: ${reasonOf(thrown)}`;
      this.over(pull, new WeighbridgeError("HANDLER_FAILED", what, { cause: thrown }));
    }
  }
}
