// parameter-control — what a parameter's handle needs of its session: the worker's clock, the clipping of gradients, and changes for everybody.

import type { WaitOptions } from "../base/deferred.ts";
import { parameterClear, parameterConfigure } from "../functions/parameters/parameter-functions.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import { clipScale, gradientNorm } from "../store/updaters/gradient-norm.ts";
import type { ScheduleSpec } from "../store/updaters/learning-rate-schedule.ts";
import type { FunctionClient } from "../worker/function-client.ts";

/** What may change while training goes on. What is left out stays. */
export type ParameterSettings = {
  readonly learningRate?: number;
  readonly schedule?: ScheduleSpec;
  /** How many clocks a read may be behind; Infinity: any number. */
  readonly staleness?: number;
};

export type ParameterControlOptions = {
  readonly functions: FunctionClient;
  readonly parameter: number;
  readonly spec: ParameterSpec;
  /** The worker's clock. */
  readonly clock: () => number;
};

export class ParameterControl {
  readonly #options: ParameterControlOptions;
  readonly #clipNorm: number | null;

  constructor(options: ParameterControlOptions) {
    this.#options = options;
    this.#clipNorm = options.spec.optimizer.clipNorm ?? null;
  }

  get clock(): number {
    return this.#options.clock();
  }

  /** What a gradient is multiplied with so that its norm is at most what the optimizer allows. */
  gradientScale(gradient: Float32Array): number {
    return this.#clipNorm === null ? 1 : clipScale(gradientNorm(gradient), this.#clipNorm);
  }

  async configure(settings: ParameterSettings, wait: WaitOptions): Promise<void> {
    const { functions, parameter } = this.#options;
    const { staleness, ...rest } = settings;
    const body = { ...rest, ...(staleness === undefined ? {} : { staleness: staleness === Infinity ? "any" : staleness }) };
    await functions.callAll(parameterConfigure, { parameter, settings: JSON.stringify(body) }, { ...wait, scope: parameter });
  }

  async clear(wait: WaitOptions): Promise<void> {
    const { functions, parameter } = this.#options;
    await functions.callAll(parameterClear, { parameter }, { ...wait, scope: parameter });
  }
}
