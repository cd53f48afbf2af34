// rate-share — how much of its learning rate an optimizer uses at a step of a schedule: a pure function. Not a counter:
// callers pass the step.
//
//   constant   1
//   step       factor^⌊step / every⌋
//   cosine     floor + (1 - floor)·(1 + cos(π·min(step, steps)/steps))/2
//   warmUp     from + (1 - from)·(step + 1)/steps up to step `steps` - 1, then `after`, counted from 0 again
//
// Invariants:
//   LearningRateSchedule.L1. A schedule gives the share of the base rate that counts at a step: from 0 to 1.
//   LearningRateSchedule.L2. Steps count from 0; equal specs and steps give equal rates on every node.

import type { ResolvedSchedule } from "./learning-rate-schedule.ts";

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
