// learning-rate — the rate of one parameter's optimizer as it is now, and its schedule: both may change while training
// goes on. What a schedule gives at a step is a pure function, not a counter: callers pass the step.
//
//   constant   1
//   step       factor^⌊step / every⌋
//   cosine     floor + (1 - floor)·(1 + cos(π·min(step, steps)/steps))/2
//   warmUp     from + (1 - from)·(step + 1)/steps up to step `steps` - 1, then `after`, counted from 0 again
//
// Invariants:
//   LearningRateSchedule.L1. A schedule gives the share of the base rate that counts at a step: from 0 to 1.
//   LearningRateSchedule.L2. Steps count from 0; equal specs and steps give equal rates on every node.

import { badField } from "../bad-field.ts";
import { CONSTANT_SCHEDULE, type ResolvedSchedule } from "./learning-rate-schedule.ts";
import { isFloat32, type ResolvedOptimizer } from "./optimizer-spec.ts";

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

/** The share of the base rate at `step` (LearningRateSchedule.L1, LearningRateSchedule.L2). */
export function rateShare(schedule: ResolvedSchedule, step: number): number {
  switch (schedule.type) {
    case "constant":
      return 1;
    case "step":
      return schedule.factor ** Math.floor(step / schedule.every);
    case "cosine": {
      const { steps, floor } = schedule;
      return floor + ((1 - floor) * (1 + Math.cos((Math.PI * Math.min(step, steps)) / steps))) / 2;
    }
    case "warmUp": {
      const { steps, from, after } = schedule;
      return step < steps ? from + ((1 - from) * (step + 1)) / steps : rateShare(after, step - steps);
    }
  }
}
