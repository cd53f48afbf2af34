// parameter-route — the route of one parameter's gradient to its new values. A step knows only this interface;
// docs/decisions/0014 has the three routes.
//
//   push (gradient final) ──► … ──► acknowledged ──► settle (values of the next step have arrived) ──► forward …
//
// Invariants:
//   ParameterRoute.R1. `push` is called once in each step, when the `backward` of its stage has returned, or that of
//       one before it. It does not wait. What goes to servers leaves in the same turn, with OpenNetwork.leave.
//   ParameterRoute.R2. The route owns the gradient from `push` until `settle` has resolved; the caller that computes
//       owns the values from then until `push`.
//   ParameterRoute.R3. `acknowledged` resolves when the gradient has reached the place of its optimizer: a step whose
//       gradients are acknowledged need not be repeated.

import type { Parameter } from "../../nn/parameter.ts";
import type { LocalUpdater } from "./local-route.ts";

export interface ParameterRoute {
  readonly parameter: Parameter;
  /** Set if the optimizer runs here. */
  readonly updater?: LocalUpdater | undefined;
  /** Whether workers sum the gradient among themselves: then its step is over when it is settled. */
  readonly isReduced?: boolean | undefined;
  /** Whether values are on their way here, so that `settle` has to wait for a link. */
  readonly isComing?: boolean | undefined;
  /** Of a reduced route: resolves when the sum has arrived, and only `settle` is left. */
  summed?(): Promise<void>;
  /** Pulls the current values, before the first step and after a failure. */
  open(): Promise<void>;
  /** `magnitude`: the greatest of the gradient's, if it is known. */
  push(magnitude?: number): void;
  /** Takes part in a step without a gradient. */
  skip(): void;
  /** Pushes the last gradient again: `acknowledged` was rejected, and the clock of its step has ended. */
  repeat(): void;
  readonly acknowledged: Promise<void>;
  /** Undefined: the values have arrived. After a rejection, `open`. */
  settle(): Promise<void> | undefined;
  close(): void;
}
