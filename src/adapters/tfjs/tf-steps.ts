// tf-steps — one step after the other for variables of TensorFlow.js: accepts gradients synchronously, as its
// optimizers must, and assigns the weights when they arrive. ps-optimizer.ts makes an optimizer of it.
//
//   idle ── begin(gradients) ──► pending ── weights assigned ──► idle
//                                   └── a call failed ──► broken ── pull() ──► idle
//
// Invariants:
//   TfSteps.F1. At most one step is pending. Variables change when it completes, all of them in one turn of the event
//       loop, and at no other moment.
//   TfSteps.F2. A failed step has changed no variable; until `pull` has updated them, every use throws its failure.
//   TfSteps.F3. Nothing of TensorFlow.js's memory is kept beyond a step.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, unsupported } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import type { ParameterGroup } from "../parameter-group.ts";
import type { TfGradients, TfModule, TfTensor, TfVariable } from "./tf-module.ts";

export type TfStepsOptions = {
  readonly tf: TfModule;
  readonly session: Session;
  readonly group: ParameterGroup;
  /** In the order of the group's names. */
  readonly variables: readonly TfVariable[];
};

export class TfSteps {
  readonly variables: readonly TfVariable[];
  readonly #tf: TfModule;
  readonly #session: Session;
  readonly #group: ParameterGroup;
  #flight: Promise<void> | undefined;
  #failure: { readonly thrown: unknown } | undefined;

  constructor({ tf, session, group, variables }: TfStepsOptions) {
    this.#tf = tf;
    this.#session = session;
    this.#group = group;
    this.variables = variables;
  }

  /** Throws BAD_ARGUMENT while a step is pending, and the failure of the last step (TfSteps.F1, TfSteps.F2). */
  checkIdle(): void {
    if (this.#failure !== undefined) throw this.#failure.thrown;
    if (this.#flight === undefined) return;
    throw badArgument(
      "the weights after the last step are still on their way: await ready() before the next one, or pass the optimizer's callbacks to fit()",
    );
  }

  /**
   * Begins a step. The gradients may be disposed of as soon as this returns. Throws as `checkIdle`, and BAD_ARGUMENT
   * for a gradient of no known weight.
   */
  begin(gradients: TfGradients): void {
    this.checkIdle();
    const found = this.#inOrder(gradients);
    // Clones share their memory. Kept, they outlive the tidy() around this call.
    const kept = found.map((gradient) => (gradient === null ? null : this.#tf.keep(gradient.clone())));
    this.#fly(this.#step(kept));
  }

  /**
   * Resolves when no step is pending and the variables are as the last one left them; rejects with its failure
   * (TfSteps.F2).
   */
  async ready(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#flight !== undefined) await this.#session.wait(this.#flight, "the weights after a step", wait);
    if (this.#failure !== undefined) throw this.#failure.thrown;
  }

  /** Updates the variables, after a pending step. */
  async pull(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    while (this.#flight !== undefined) await this.#session.wait(this.#flight, "the weights after a step", wait);
    this.#failure = undefined;
    this.#fly(this.#group.pull(wait).then((values) => this.#assign(values)));
    await this.ready(wait);
  }

  #fly(work: Promise<void>): void {
    this.#failure = undefined;
    this.#flight = work
      .catch((thrown: unknown) => {
        this.#failure = { thrown };
      })
      .finally(() => {
        this.#flight = undefined;
      });
  }

  async #step(gradients: readonly (TfTensor | null)[]): Promise<void> {
    try {
      const values = await Promise.all(gradients.map((gradient) => (gradient === null ? undefined : floatsOf(gradient))));
      this.#assign(await this.#group.step(values));
    } finally {
      for (const gradient of gradients) gradient?.dispose(); // TfSteps.F3
    }
  }

  #assign(weights: readonly Float32Array[]): void {
    for (const [i, variable] of this.variables.entries()) {
      const value = this.#tf.tensor(weights[i] as Float32Array, [...variable.shape], "float32");
      variable.assign(value);
      value.dispose(); // The variable shares its memory.
    }
  }

  /** By variable; null if there is none. */
  #inOrder(gradients: TfGradients): (TfTensor | null)[] {
    const entries = isList(gradients) ? gradients.map(({ name, tensor }) => [name, tensor] as const) : Object.entries(gradients);
    const byName = new Map(entries);
    const found = this.variables.map(({ name }) => byName.get(name) ?? null);
    for (const { name } of this.variables) byName.delete(name);
    if (byName.size === 0) return found;
    const known = this.variables.map(({ name }) => name).join(", ");
    throw badArgument(`${[...byName.keys()].join(", ")} is not on the servers; these weights are: ${known}`);
  }
}

function isList(gradients: TfGradients): gradients is Extract<TfGradients, readonly unknown[]> {
  return Array.isArray(gradients);
}

/**
 * A view of the tensor's own values, on the backends where they lie in ordinary memory. Throws UNSUPPORTED for others
 * than float32.
 */
export async function floatsOf(tensor: TfTensor): Promise<Float32Array> {
  const values = await tensor.data();
  if (values instanceof Float32Array && tensor.dtype === "float32") return values;
  throw unsupported(`the servers hold float32; this is a tensor of ${tensor.dtype}`);
}
