// optimizer-types — all optimizers that Weighbridge has, for tests that try each of them: a new one is tried by all of
// these once it stands here, and tsc asks for it.

import type { OptimizerName } from "../store/updaters/optimizer-spec.ts";

/** What an optimizer does with what is pushed: takes it as a value, adds multiples of it, or squares it, too. */
const USES: Readonly<Record<OptimizerName, "takes" | "adds" | "squares">> = {
  sum: "adds",
  assign: "takes",
  min: "takes",
  max: "takes",
  sgd: "adds",
  momentum: "adds",
  nesterov: "adds",
  adagrad: "squares",
  rowWiseAdagrad: "squares",
  adam: "squares",
  lazyAdam: "squares",
  adamW: "squares",
  rmsprop: "squares",
  ftrl: "squares",
  dcAsgd: "squares",
};

export const OPTIMIZER_TYPES: readonly OptimizerName[] = Object.keys(USES) as OptimizerName[];

/** Those that are pushed gradients. */
export const GRADIENT_TYPES: readonly OptimizerName[] = OPTIMIZER_TYPES.filter((type) => USES[type] !== "takes");
/** Those that cannot take a gradient whose square is more than a float32 holds. */
export const SQUARING_TYPES: readonly OptimizerName[] = OPTIMIZER_TYPES.filter((type) => USES[type] === "squares");
