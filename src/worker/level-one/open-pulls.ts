// open-pulls — the pulls of the devices that one thread runs: which are open, who waits for them, and how they ended.
// When they end is decided elsewhere (key-rounds.ts); data are there by then.
//
// Invariants:
//   OpenPulls.P1. A pull ends once: its data are there, then its callback has ended, then who waits goes on.
//   OpenPulls.P2. What a callback throws is what its pull failed with; it ends no thread.
//   OpenPulls.P3. The pulls of a folded list begin and end together, and have no callbacks: only those that somebody
//       looks at are there one by one.

import { Deferred } from "../../base/deferred.ts";
import { badArgument, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { KeyPlan } from "./model-backend.ts";

export type PullRequest<Data extends object> = {
  readonly data: Data;
  readonly plan: KeyPlan;
  /** The position of the device. */
  readonly device: number;
  readonly priority: number;
  /** After the data are there, before waiters go on (OpenPulls.P1). */
  readonly callback: (() => unknown) | undefined;
};

/** `ended` is there once somebody waits. */
export type Pull<Data extends object> = {
  readonly request: PullRequest<Data>;
  ended: Deferred<void> | undefined;
  isOver: boolean;
  failure: unknown;
};

/** What a device pulls of a list (list-rounds.ts). */
export type PullList<Data extends object> = {
  readonly requests: readonly PullRequest<Data>[];
  readonly device: number;
  isOpen: boolean;
  /** Those of its open pulls that somebody has looked at, by index of the key (OpenPulls.P3). */
  readonly watched: Map<number, Pull<Data>>;
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
  /** By device: how many of its pulls are open, and the waiters for all of them. */
  readonly #openOf: number[];
  readonly #allOver: (Deferred<void> | undefined)[] = [];
  readonly #lists = new Set<PullList<Data>>();
  /** Of folded lists, by key and device as `#pulls`. */
  readonly #listOf: (PullList<Data> | undefined)[] = [];
  readonly #requestOf: (PullRequest<Data> | undefined)[] = [];

  constructor(options: OpenPullsOptions) {
    this.#options = options;
    this.#openOf = options.devices.map(() => 0);
  }

  /** The last pull, open or not. */
  of(keyIndex: number, device: number): Pull<Data> | undefined {
    const number = this.#numberOf(keyIndex, device);
    const list = this.#listOf[number];
    return list?.isOpen === true ? this.#watch(list, keyIndex, number) : this.#pulls[number];
  }

  /** Throws BAD_ARGUMENT if the device has a pull of the key that is open. */
  check({ plan, device }: PullRequest<Data>): void {
    if (this.of(plan.index, device)?.isOver !== false) return;
    const what = `device ${this.#options.devices[device]} has a pull of key ${plan.key} that has not ended: wait for it first`;
    throw badArgument(what);
  }

  add(request: PullRequest<Data>): void {
    const { plan, device } = request;
    const number = this.#numberOf(plan.index, device);
    const before = this.#pulls[number];
    if (before?.request === request && before.ended === undefined) {
      before.isOver = false; // the same request again, and nobody has waited for the one before: nobody holds it
      before.failure = undefined;
    } else this.#pulls[number] = { request, ended: undefined, isOver: false, failure: undefined };
    this.#count(device, 1);
  }

  openOf(device: number): number {
    return this.#openOf[device] as number;
  }

  /** Its data are there (OpenPulls.P1). */
  there(pull: Pull<Data>): void {
    if (pull.request.callback === undefined) this.over(pull);
    else void this.#call(pull, pull.request.callback);
  }

  over(pull: Pull<Data>, failure?: unknown): void {
    if (pull.isOver) return;
    pull.isOver = true;
    pull.failure = failure;
    pull.ended?.resolve();
    this.#count(pull.request.device, -1);
  }

  // Lists

  /** Whether the last pull of each of these keys has ended well, or there was none. */
  isCalm({ requests, device }: PullList<Data>): boolean {
    return requests.every(({ plan }) => {
      const pull = this.of(plan.index, device);
      return pull === undefined || (pull.isOver && pull.failure === undefined);
    });
  }

  /** The pulls of this list begin and end together from now on. */
  foldList(list: PullList<Data>): void {
    this.#lists.add(list);
    for (const request of list.requests) {
      const number = this.#numberOf(request.plan.index, list.device);
      this.#listOf[number] = list;
      this.#requestOf[number] = request;
    }
  }

  openList(list: PullList<Data>): void {
    list.isOpen = true;
    this.#count(list.device, list.requests.length);
  }

  /** The data of all its pulls are there. */
  endList(list: PullList<Data>): void {
    list.isOpen = false;
    for (const pull of list.watched.values()) {
      pull.isOver = true;
      pull.ended?.resolve();
    }
    list.watched.clear();
    this.#count(list.device, -list.requests.length);
  }

  /** Its pulls are single ones from now on. */
  unfoldList(list: PullList<Data>): void {
    this.#lists.delete(list);
    for (const { plan } of list.requests) {
      const number = this.#numberOf(plan.index, list.device);
      if (list.isOpen) this.#pulls[number] = this.#watch(list, plan.index, number);
      this.#listOf[number] = undefined;
      this.#requestOf[number] = undefined;
    }
    list.isOpen = false;
    list.watched.clear();
  }

  /** OpenPulls.P3 */
  #watch({ watched }: PullList<Data>, keyIndex: number, number: number): Pull<Data> {
    const known = watched.get(keyIndex);
    if (known !== undefined) return known;
    const pull = { request: this.#requestOf[number] as PullRequest<Data>, ended: undefined, isOver: false, failure: undefined };
    watched.set(keyIndex, pull);
    return pull;
  }

  #numberOf(keyIndex: number, device: number): number {
    return keyIndex * this.#options.devices.length + device;
  }

  /** So many more are open, or fewer. */
  #count(device: number, change: number): void {
    const before = this.#openCount;
    this.#openCount = before + change;
    if (before === 0) this.#options.keepAlive?.(true);
    else if (this.#openCount === 0) this.#options.keepAlive?.(false);
    const left = this.openOf(device) + change;
    this.#openOf[device] = left;
    if (left > 0) return;
    this.#allOver[device]?.resolve();
    this.#allOver[device] = undefined;
  }

  failAll(failure: unknown): void {
    for (const list of [...this.#lists]) this.unfoldList(list);
    for (const pull of this.#pulls) if (pull !== undefined) this.over(pull, failure);
  }

  failOf(device: number, failure: unknown): void {
    for (const list of [...this.#lists]) if (list.device === device) this.unfoldList(list);
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

  /** OpenPulls.P2 */
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
