// reduced-route — the route of a parameter that every worker has (ParameterRoute): gradients are summed among the
// workers, and each of them applies the same optimizer to the same sum, so that all have the same bits. Every worker
// pushes or skips the same routes in the same order.

import type { WaitOptions } from "../../base/deferred.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { LocalUpdater } from "./local-route.ts";
import type { ParameterRoute } from "./parameter-route.ts";

/** What is needed of a worker's Collective. */
export type Reducing = { allReduce(values: Float32Array, wait?: WaitOptions): Promise<void> };

export class ReducedRoute implements ParameterRoute {
  readonly parameter: Parameter;
  readonly updater: LocalUpdater;
  readonly isReduced = true;
  readonly acknowledged: Promise<void> = Promise.resolve();
  readonly #collective: Reducing;
  readonly #clock: () => number;
  readonly #wait: () => WaitOptions;
  #sum: Promise<void> | undefined;
  /** Of the step that is being summed: the rate of its update. All members make a step at one clock. */
  #pushedAt = 0;

  constructor(options: {
    readonly parameter: Parameter;
    readonly updater: LocalUpdater;
    readonly collective: Reducing;
    readonly clock: () => number;
    readonly wait: () => WaitOptions;
  }) {
    this.parameter = options.parameter;
    this.updater = options.updater;
    this.#collective = options.collective;
    this.#clock = options.clock;
    this.#wait = options.wait;
  }

  /** After a failure: what was under way is over, and its gradient is dropped. */
  async open(): Promise<void> {
    await this.#sum?.catch(() => {}); // the caller of `settle` got the failure
    this.#sum = undefined;
  }

  push(): void {
    this.#pushedAt = this.#clock();
    this.#sum = this.#collective.allReduce(this.parameter.gradient, this.#wait());
    this.#sum.catch(() => {}); // `settle` reports it
  }

  skip(): void {
    this.parameter.gradient.fill(0);
    this.push();
  }

  repeat(): void {
    // Only servers need it.
  }

  /** Resolves when the sum has arrived, which `settle` applies. */
  async summed(): Promise<void> {
    await this.#sum;
  }

  settle(): Promise<void> | undefined {
    const sum = this.#sum;
    return sum === undefined ? undefined : this.#apply(sum);
  }

  close(): void {
    this.updater.close();
  }

  async #apply(sum: Promise<void>): Promise<void> {
    await sum;
    if (this.#sum !== sum) return;
    this.#sum = undefined;
    this.updater.apply(this.#pushedAt);
  }
}
