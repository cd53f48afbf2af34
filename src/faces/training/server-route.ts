// server-route — the route of a parameter that lives on servers (ParameterRoute): its gradient is pushed when it is
// final; the pull of the next clock follows at once, waits at the servers, and lands in the parameter's values.

import type { WaitOptions } from "../../base/deferred.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Tensor } from "../../worker/tensor.ts";
import type { ParameterRoute } from "./parameter-route.ts";

export type ServerRouteOptions = {
  readonly parameter: Parameter;
  readonly tensor: Tensor;
  /** Of pushes and pulls; higher overtakes lower. */
  readonly priority: number;
  readonly wait: () => WaitOptions;
};

export class ServerRoute implements ParameterRoute {
  readonly parameter: Parameter;
  readonly #options: ServerRouteOptions;
  #push: Promise<void> = Promise.resolve();
  /** Until its values have landed; one that failed stays. */
  #pull: Promise<void> | undefined;
  #isComing = false;

  constructor(options: ServerRouteOptions) {
    this.parameter = options.parameter;
    this.#options = options;
  }

  get acknowledged(): Promise<void> {
    return this.#push;
  }

  get isComing(): boolean {
    return this.#isComing;
  }

  async open(): Promise<void> {
    // `acknowledged` reported it; until its end it reads the gradient, which the next step owns from now on
    // (ParameterRoute.R2).
    await this.#push.catch(() => {});
    await this.#pull?.catch(() => {}); // its values are pulled again
    this.#pull = undefined;
    await this.#pulled(0);
  }

  push(): void {
    this.#startPush();
    this.#follow(1);
  }

  skip(): void {
    this.#follow(1);
  }

  repeat(): void {
    this.#startPush();
    this.#follow(0);
  }

  settle(): Promise<void> | undefined {
    return this.#pull;
  }

  close(): void {
    // Nothing is held here.
  }

  #startPush(): void {
    const { tensor, priority, wait } = this.#options;
    this.#push = tensor.push(this.parameter.gradient, { ...wait(), priority });
    this.#push.catch(() => {}); // `acknowledged` reports it
  }

  /** Pulls after all that was pushed. */
  #follow(clocksAhead: number): void {
    const before = this.#pull;
    const pull = before === undefined ? this.#pulled(clocksAhead) : before.then(noop, noop).then(() => this.#pulled(clocksAhead));
    this.#pull = pull;
    pull.then(() => {
      if (this.#pull === pull) this.#pull = undefined;
    }, noop); // `settle` reports it
  }

  async #pulled(clocksAhead: number): Promise<void> {
    const { tensor, priority, wait } = this.#options;
    this.#isComing = true;
    try {
      await tensor.pull({ into: this.parameter.values, ...wait(), priority, clocksAhead });
    } finally {
      this.#isComing = false;
    }
  }
}

/** One pull at a time lands in the values; how the one before ended does not matter. */
function noop(): void {}
