// parameter-control — what a parameter's handle needs of its session: the worker's clock, the clipping of gradients, and changes for everybody.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { parameterClear, parameterConfigure, parameterCreate, parameterNonFinite } from "../functions/parameters/parameter-functions.ts";
import { badField } from "../store/bad-field.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import { clipScale, gradientNorm } from "../store/updaters/gradient-norm.ts";
import { resolveSchedule, type ScheduleSpec } from "../store/updaters/learning-rate-schedule.ts";
import type { NonFiniteCounts } from "../store/updaters/updater.ts";
import type { CallSubject } from "../worker/call-subject.ts";
import type { FunctionClient } from "../worker/function-client.ts";
import { checkOptions } from "./known-options.ts";

/** What may change while training goes on. What is left out stays. */
export type ParameterSettings = {
  readonly learningRate?: number;
  readonly schedule?: ScheduleSpec;
  /** How many clocks a read may be behind; Infinity: any number. */
  readonly staleness?: number;
};

/** A pass over so many floats takes about a quarter of a millisecond. */
const WHOLE_CHECK_FLOATS = 262_144;

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
  readonly #subject: CallSubject;
  /** Pushes that were refused before anything of them was sent. */
  #refusedCount = 0;

  constructor(options: ParameterControlOptions) {
    this.#options = options;
    this.#clipNorm = options.spec.optimizer.clipNorm ?? null;
    this.#subject = { name: options.spec.name, maker: options.spec.kind === "tensor" ? "tensor" : "embedding" };
  }

  get clock(): number {
    return this.#options.clock();
  }

  /** The clock that this worker will have after so many more. Throws BAD_ARGUMENT. */
  clockAhead(clocks: number): number {
    if (Number.isSafeInteger(clocks) && clocks >= 0) return this.clock + clocks;
    throw new WeighbridgeError("BAD_ARGUMENT", `clocksAhead of ${this.#options.spec.name}: a whole number from 0 on, not ${clocks}`);
  }

  /**
   * Refuses a gradient of up to WHOLE_CHECK_FLOATS that is not finite before anything of it is sent, where the optimizer asks for that. Of longer
   * ones the servers refuse the blocks it concerns.
   */
  #checkFinite(gradient: Float32Array): void {
    const { name, optimizer } = this.#options.spec;
    if (optimizer.nonFinite !== "refuse" || gradient.length > WHOLE_CHECK_FLOATS) return;
    let total = 0; // of at most 2^18 floats: it is finite exactly when all of them are
    for (let i = 0; i < gradient.length; i++) total += gradient[i] as number;
    if (Number.isFinite(total)) return;
    this.#refusedCount++;
    const index = gradient.findIndex((value) => !Number.isFinite(value));
    throw new WeighbridgeError("NOT_FINITE", `${name}: element ${index} of the gradient is ${gradient[index]}; nothing of it was pushed`);
  }

  /** What a gradient is multiplied with so that its norm is at most what the optimizer allows. What is not finite does not count: the servers see to it. */
  gradientScale(gradient: Float32Array): number {
    if (!(gradient instanceof Float32Array)) return 1; // whoever sends it says what is wrong with it
    this.#checkFinite(gradient);
    return this.clipScaleOf(gradient);
  }

  /** The same, for whoever checks itself whether it is finite. */
  clipScaleOf(gradient: Float32Array): number {
    if (this.#clipNorm === null) return 1;
    const norm = gradientNorm(gradient);
    return clipScale(Number.isFinite(norm) ? norm : gradientNorm(gradient.filter(Number.isFinite)), this.#clipNorm);
  }

  /** Makes the parameter, unless it is there. Throws SPEC_MISMATCH. One server is asked before the others: of two workers that differ one has it, on all of them. */
  async create(wait: WaitOptions): Promise<void> {
    const { functions, parameter, spec } = this.#options;
    const request = { spec: JSON.stringify(spec) };
    const judge = parameter % functions.serverCount;
    await functions.call(parameterCreate, judge, request, wait);
    const others = Array.from({ length: functions.serverCount }, (_, server) => ({ server, request })).filter(
      ({ server }) => server !== judge,
    );
    await functions.callEach(parameterCreate, others, wait);
  }

  async configure(settings: ParameterSettings, wait: WaitOptions): Promise<void> {
    const { functions, parameter } = this.#options;
    checkOptions(settings, ["learningRate", "schedule", "staleness"], `the settings of ${this.#options.spec.name}`);
    const { learningRate, schedule, staleness } = settings;
    if (!(learningRate === undefined || Number.isFinite(learningRate))) throw badField("learningRate", "a finite number", learningRate);
    if (!(staleness === undefined || staleness === Infinity || (Number.isSafeInteger(staleness) && staleness >= 0)))
      throw badField("staleness", "a whole number of clocks, or Infinity", staleness);
    const body = {
      learningRate,
      schedule: schedule === undefined ? undefined : resolveSchedule(schedule, "schedule"),
      staleness: staleness === Infinity ? "any" : staleness,
    };
    await functions.callAll(
      parameterConfigure,
      { parameter, settings: JSON.stringify(body) },
      { ...wait, scope: parameter, subject: this.#subject },
    );
  }

  async nonFinite(wait: WaitOptions): Promise<NonFiniteCounts> {
    const { functions, parameter } = this.#options;
    const counts = await functions.callAll(parameterNonFinite, { parameter }, { ...wait, scope: parameter, subject: this.#subject });
    const sum = (of: keyof NonFiniteCounts): number => counts.reduce((total, count) => total + count[of], 0);
    return {
      refusedPushes: this.#refusedCount + sum("refusedPushes"),
      skippedPushes: sum("skippedPushes"),
      zeroedElements: sum("zeroedElements"),
    };
  }

  async clear(wait: WaitOptions): Promise<void> {
    const { functions, parameter } = this.#options;
    await functions.callAll(parameterClear, { parameter }, { ...wait, scope: parameter, subject: this.#subject });
  }
}
