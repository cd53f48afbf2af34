// ps-optimizer — an optimizer of TensorFlow.js whose work is done by the parameter servers: it pushes gradients when
// they are computed and pulls weights. A real tf.Optimizer: for `model.compile`, `minimize` and everything else that
// accepts one.
//
// TensorFlow.js applies gradients in one synchronous call, and servers are a network away. So a step has two parts:
// `minimize` (which fit() calls) passes the gradients on and returns; `ready` resolves when the resulting weights are
// in the variables. Between the two, variables do not change. A step that begins in between throws BAD_ARGUMENT; it
// never uses stale weights.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, unsupported } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import { checkGroupOptions, type GroupOptions, ParameterGroup } from "../parameter-group.ts";
import type { TfGradients, TfLayerVariable, TfModule, TfOptimizer, TfTensor, TfVariable } from "./tf-module.ts";
import { floatsOf, TfSteps } from "./tf-steps.ts";

export type PsOptimizerOptions = GroupOptions & {
  /**
   * The weights to train: variables, or a model's `trainableWeights`. Defaults to all trainable variables there are at
   * this moment.
   */
  readonly variables?: readonly (TfVariable | TfLayerVariable)[];
  /** The name of a variable on the servers. Defaults to its own name, which counts up with the models of a process. */
  readonly nameOf?: (variable: TfVariable, index: number) => string;
};

/** What the optimizer can do beyond a tf.Optimizer. */
export interface PsOptimizer {
  /** One whole step: gradients of `loss` pushed, weights back in the variables. Resolves with the loss before it. */
  step(loss: () => TfTensor, wait?: WaitOptions): Promise<number>;
  /**
   * Resolves when the weights after the last step are in the variables; rejects with the failure of that step. The step
   * goes on if the wait ends early.
   */
  ready(wait?: WaitOptions): Promise<void>;
  /** Pulls the current weights without a step; after a failed step, call it to continue. */
  pull(wait?: WaitOptions): Promise<void>;
  /** For fit() and fitDataset(): waits for the weights after every batch. */
  readonly callbacks: { onBatchEnd(): Promise<void> };
}

/**
 * Puts the variables on the servers, unless the servers have values already, and resolves when the variables have the
 * servers' values. `tf` is the module `@tensorflow/tfjs-core` (or `@tensorflow/tfjs`, …) that made them. Throws
 * BAD_ARGUMENT, UNSUPPORTED (a variable that is not float32), SPEC_MISMATCH.
 */
export async function psOptimizer<O extends object>(
  tf: TfModule<O>,
  session: Session,
  options: PsOptimizerOptions,
  wait: WaitOptions = {},
): Promise<O & PsOptimizer> {
  checkGroupOptions(options, ["variables", "nameOf"], "the options of psOptimizer");
  checkWaitOptions(wait);
  const registered = Object.values(tf.engine().registeredVariables);
  const { nameOf = ({ name }) => name } = options;
  const variables = (options.variables ?? registered.filter(({ trainable }) => trainable)).map(variableOf);
  const weights = await Promise.all(
    variables.map(async (variable, i) => ({ name: nameOf(variable, i), shape: variable.shape, values: await floatsOf(variable) })),
  );
  const group = await ParameterGroup.open(session, weights, options, wait);
  const steps = new TfSteps({ tf, session, group, variables });
  await steps.pull(wait);
  const Optimizer = optimizerClass(tf.Optimizer as unknown as new () => TfOptimizer);
  return new Optimizer(steps) as unknown as O & PsOptimizer;
}

function variableOf(weight: TfVariable | TfLayerVariable): TfVariable {
  const variable = ("read" in weight ? weight.read() : weight) as TfVariable;
  if (typeof variable.assign === "function") return variable;
  throw badArgument("the variables of psOptimizer are tf.Variables or a model's trainableWeights");
}

/** Extends the module's own class: what it does for every optimizer, it does for this one. */
function optimizerClass(Base: new () => TfOptimizer) {
  return class WeighbridgeOptimizer extends Base implements PsOptimizer {
    static readonly className: string = "WeighbridgeOptimizer";
    readonly callbacks: PsOptimizer["callbacks"];
    readonly #steps: TfSteps;

    constructor(steps: TfSteps) {
      super();
      this.#steps = steps;
      this.callbacks = { onBatchEnd: () => this.ready() };
    }

    async step(loss: () => TfTensor, wait: WaitOptions = {}): Promise<number> {
      checkWaitOptions(wait);
      const cost = this.minimize(loss, true, this.#steps.variables);
      await this.ready(wait);
      const [value = Number.NaN] = cost === null ? [] : await floatsOf(cost);
      cost?.dispose();
      return value;
    }

    ready(wait: WaitOptions = {}): Promise<void> {
      return this.#steps.ready(wait);
    }

    pull(wait: WaitOptions = {}): Promise<void> {
      return this.#steps.pull(wait);
    }

    /** Throws before it computes gradients that could not be applied. */
    override computeGradients(loss: () => TfTensor, variables?: readonly TfVariable[]): unknown {
      this.#steps.checkIdle();
      return super.computeGradients(loss, variables);
    }

    applyGradients(gradients: TfGradients): void {
      this.#steps.begin(gradients);
      this.incrementIterations();
    }

    getConfig(): Readonly<Record<string, never>> {
      return {};
    }

    getWeights(): Promise<never> {
      return Promise.reject(unsupported("the optimizer's state is on the servers: session.checkpoint() saves it, save() without it works"));
    }

    setWeights(): Promise<never> {
      return this.getWeights();
    }
  };
}
