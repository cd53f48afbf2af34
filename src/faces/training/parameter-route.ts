// parameter-route — the way of one parameter's gradient to its new values. A step only knows this interface;
// docs/decisions/0014 has the three ways.
//
//   push (gradient final) ──► … ──► acknowledged ──► settle (values of the next step are there) ──► forward …
//
// Invariants:
//   R1. `push` is called once in each step, when the `backward` of its stage has returned, or that of one before it. It
//       does not wait.
//   R2. The route owns the gradient from `push` until `settle` has resolved; the values are from then until `push`
//       whoever computes.
//   R3. `acknowledged` resolves when whoever applies the gradient has it: a step whose gradients are acknowledged need
//       not be made again.

import type { Parameter } from "../../nn/parameter.ts";
import type { LocalUpdater } from "./local-route.ts";

export interface ParameterRoute {
  readonly parameter: Parameter;
  /** Where the optimizer is applied here. */
  readonly updater?: LocalUpdater | undefined;
  /** Whether workers sum the gradient among themselves: then its step is over when it is settled. */
  readonly isReduced?: boolean | undefined;
  /** Whether values are on their way here, so that `settle` has to wait for a link. */
  readonly isComing?: boolean | undefined;
  /** Of those that are reduced: resolves when the sum is there, and only `settle` is left. */
  summed?(): Promise<void>;
  /** Brings the values here as they are now, before the first step and after a failure. */
  open(): Promise<void>;
  push(): void;
  /** Takes part in a step with nothing to give. */
  skip(): void;
  /** Pushes the last gradient again: `acknowledged` was rejected, and the clock of its step has ended. */
  repeat(): void;
  readonly acknowledged: Promise<void>;
  /** Undefined: the values are there. After a rejection, `open`. */
  settle(): Promise<void> | undefined;
  close(): void;
}
