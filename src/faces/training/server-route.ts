// server-route — the route of a parameter that lives on servers (ParameterRoute): its gradient is pushed when it is
// final; the pull of the next clock follows at once, waits at the servers, and lands in the parameter's values. Both
// leave with those of the other parameters (server-exchange.ts).

import type { Parameter } from "../../nn/parameter.ts";
import type { Tensor } from "../../worker/tensor.ts";
import type { ParameterRoute } from "./parameter-route.ts";
import type { ExchangedParameter, ServerExchange } from "./server-exchange.ts";

export type ServerRouteOptions = {
  readonly parameter: Parameter;
  readonly tensor: Tensor;
  /** Of pushes and pulls; higher overtakes lower. */
  readonly priority: number;
  readonly exchange: ServerExchange;
};

export class ServerRoute implements ParameterRoute {
  readonly parameter: Parameter;
  readonly #exchange: ServerExchange;
  readonly #exchanged: ExchangedParameter;

  constructor({ parameter, tensor, priority, exchange }: ServerRouteOptions) {
    this.parameter = parameter;
    this.#exchange = exchange;
    this.#exchanged = { parameter, tensor, priority, pushed: Promise.resolve(), pulled: undefined, isComing: false };
  }

  get acknowledged(): Promise<void> {
    return this.#exchanged.pushed;
  }

  get isComing(): boolean {
    return this.#exchanged.isComing;
  }

  async open(): Promise<void> {
    const exchanged = this.#exchanged;
    // `acknowledged` reported it; until its end it reads the gradient, which the next step owns from now on
    // (ParameterRoute.R2).
    await exchanged.pushed.catch(() => {});
    await exchanged.pulled?.catch(() => {}); // its values are pulled again
    exchanged.pulled = undefined;
    this.#exchange.pull(exchanged, 0);
    this.#exchange.leave();
    await exchanged.pulled;
  }

  push(): void {
    this.#exchange.push(this.#exchanged);
    this.#exchange.pull(this.#exchanged, 1);
  }

  skip(): void {
    this.#exchange.pull(this.#exchanged, 1);
  }

  repeat(): void {
    this.#exchange.push(this.#exchanged);
    this.#exchange.pull(this.#exchanged, 0);
  }

  settle(): Promise<void> | undefined {
    return this.#exchanged.pulled;
  }

  close(): void {
    // Nothing is held here.
  }
}
