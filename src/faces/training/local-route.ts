// local-route — a parameter that lives in this process alone: the optimizer is applied before its next use (ParameterRoute).

import type { Parameter } from "../../nn/parameter.ts";
import type { LocalUpdater } from "./local-updater.ts";
import type { ParameterRoute } from "./parameter-route.ts";

export class LocalRoute implements ParameterRoute {
  readonly parameter: Parameter;
  readonly acknowledged: Promise<void> = Promise.resolve();
  readonly updater: LocalUpdater;
  readonly #clock: () => number;
  /** The clock of a gradient that was given and not applied. */
  #given: number | undefined;

  constructor(parameter: Parameter, updater: LocalUpdater, clock: () => number) {
    this.parameter = parameter;
    this.updater = updater;
    this.#clock = clock;
  }

  async open(): Promise<void> {
    await Promise.resolve(); // the values are here
  }

  give(): void {
    this.#given = this.#clock();
  }

  skip(): void {
    this.#given = undefined;
  }

  repeat(): void {
    // What was given was taken.
  }

  settle(): undefined {
    const clock = this.#given;
    this.#given = undefined;
    if (clock !== undefined) this.updater.apply(clock);
    return undefined;
  }

  close(): void {
    this.updater.close();
  }
}
