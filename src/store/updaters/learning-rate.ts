// learning-rate — the rate of one parameter's optimizer as it is now, and its schedule: both may change while training
// goes on.

import { badField } from "../bad-field.ts";
import { CONSTANT_SCHEDULE, type ResolvedSchedule } from "./learning-rate-schedule.ts";
import { isFloat32, type ResolvedOptimizer } from "./optimizer-spec.ts";
import { rateShare } from "./rate-share.ts";

export class LearningRate {
  /** The rate at every step; undefined where the schedule changes it. Nobody else writes it. */
  constant: number | undefined;
  readonly #spec: ResolvedOptimizer;
  #schedule: ResolvedSchedule;
  #value: number;

  constructor(spec: ResolvedOptimizer) {
    this.#spec = spec;
    this.#schedule = spec.schedule ?? CONSTANT_SCHEDULE;
    this.#value = spec.learningRate ?? spec.alpha ?? 0;
    this.constant = this.#constant();
  }

  get schedule(): ResolvedSchedule {
    return this.#schedule;
  }

  /** Of the schedule's full share; 0 for optimizers without one. */
  get value(): number {
    return this.#value;
  }

  /** Throws BAD_ARGUMENT for an optimizer without a learning rate, unless it is constant. */
  setSchedule(schedule: ResolvedSchedule): void {
    if (this.#spec.learningRate === undefined && schedule.type !== "constant")
      throw badField("schedule", `no schedule of ${this.#spec.type}, which has no learning rate`, schedule);
    this.#schedule = schedule;
    this.constant = this.#constant();
  }

  /** Throws BAD_ARGUMENT for an optimizer without one, or a rate that cannot be. */
  set(learningRate: number): void {
    if (this.#spec.learningRate === undefined) throw badField("learningRate", `no learning rate of ${this.#spec.type}`, learningRate);
    if (!(learningRate >= 0 && isFloat32(learningRate)))
      throw badField("learningRate", "a number of at least 0 that float32 can hold", learningRate);
    this.#value = learningRate;
    this.constant = this.#constant();
  }

  /** At a step of the schedule. */
  at(scheduleStep: number): number {
    return this.constant ?? this.#value * rateShare(this.#schedule, scheduleStep);
  }

  #constant(): number | undefined {
    return this.#schedule.type === "constant" ? this.#value : undefined;
  }
}
