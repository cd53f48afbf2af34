// ps-optimizer — an optimizer of TensorFlow.js whose work is done by the parameter servers: it pushes gradients when
// they are computed and pulls weights. A real tf.Optimizer: for `model.compile`, `minimize` and everything else that
// accepts one.
//
// TensorFlow.js applies gradients in one synchronous call, and servers are a network away. So a step has two parts:
// `minimize` (which fit() calls) passes the gradients on and returns; `ready` resolves when the resulting weights are
// in the variables. Between the two, variables do not change. A step that begins in between throws BAD_ARGUMENT; it
// never uses stale weights.

import type { Session } from "../../api/session.ts";
import { checkNotAborted, type WaitOptions } from "../../base/deferred.ts";
import { badArgument, unsupported } from "../../base/errors.ts";
import { checkWaitOptions, moreThanOptions } from "../../base/known-options.ts";
import { failedUpdate, unheard } from "../../peer/unheard-update.ts";
import { checkGroupOptions, type GroupOptions, ParameterGroup } from "../parameter-group.ts";
import type { TfGradients, TfLayerVariable, TfModule, TfOptimizer, TfTensor, TfVariable } from "./tf-module.ts";
import { floatsOf, TfSteps } from "./tf-steps.ts";

/** How an optimizer on the servers is made. */
export type PsOptimizerOptions = GroupOptions & {
  /**
   * The weights to train: variables, or a model's `trainableWeights`. Defaults to all trainable variables there are at
   * this moment.
   */
  readonly variables?: readonly (TfVariable | TfLayerVariable)[] | undefined;
  /** The name of a variable on the servers. Defaults to its own name, which counts up with the models of a process. */
  readonly nameOf?: ((variable: TfVariable, index: number) => string) | undefined;
};

/** What the optimizer can do beyond a tf.Optimizer. */
export interface PsOptimizer<C = object> {
  /**
   * One whole step: gradients of `loss` pushed, weights back in the variables. Resolves with the loss before it. Where
   * it fails, `error.outcome` says what became of the gradients of all weights together.
   */
  step(loss: () => TfTensor, options?: WaitOptions): Promise<number>;
  /**
   * Resolves when the weights after the last step are in the variables; rejects with the failure of that step. The step
   * continues if the wait ends early.
   */
  ready(options?: WaitOptions): Promise<void>;
  /** Pulls the current weights without a step; after a failed step, call it to continue. */
  pull(options?: WaitOptions): Promise<void>;
  /**
   * For fit() and fitDataset(): waits for the weights after every batch. Alone, or first in a list with callbacks of
   * TensorFlow.js, if the module has its class `Callback` (TfModule).
   */
  readonly callbacks: C & { onBatchEnd(): Promise<void> };
}

/**
 * Puts the variables on the servers, unless the servers have values already, and resolves when the variables have the
 * servers' values. `tf` is the module `@tensorflow/tfjs-core` (or `@tensorflow/tfjs`, …) that made them. Throws
 * BAD_ARGUMENT, UNSUPPORTED (a variable that is not float32), SPEC_MISMATCH.
 *
 * @example
 * ```ts
 * const optimizer = await psOptimizer(tf, session, { variables: model.trainableWeights, optimizer: "adam" });
 * model.compile({ optimizer, loss: "meanSquaredError" });
 * await model.fit(xs, ys, { callbacks: optimizer.callbacks });
 * ```
 */
export async function psOptimizer<O extends object, C extends object = object>(
  tf: TfModule<O, C>,
  session: Session,
  options: PsOptimizerOptions,
): Promise<O & PsOptimizer<C>>;
export async function psOptimizer<O extends object, C extends object = object>(
  tf: TfModule<O, C>,
  session: Session,
  options: PsOptimizerOptions,
  more?: unknown,
): Promise<O & PsOptimizer<C>> {
  if (more !== undefined) throw moreThanOptions(more, "psOptimizer");
  checkGroupOptions(options, ["variables", "nameOf"], "the options of psOptimizer");
  const registered = Object.values(tf.engine().registeredVariables);
  const { nameOf = ({ name }) => name } = options;
  const variables = (options.variables ?? registered.filter(({ trainable }) => trainable)).map(variableOf);
  const weights = await Promise.all(
    variables.map(async (variable, i) => ({ name: nameOf(variable, i), shape: variable.shape, values: await floatsOf(variable) })),
  );
  const group = await ParameterGroup.open(session, weights, options);
  const steps = new TfSteps({ tf, session, group, variables });
  const { timeoutMs, signal } = options;
  await steps.pull({ timeoutMs, signal });
  const Optimizer = optimizerClass(tf.Optimizer as unknown as new () => TfOptimizer);
  const callbacks = callbackOf(tf.Callback as (new () => object) | undefined, () => steps.ready({}));
  return new Optimizer(steps, callbacks) as unknown as O & PsOptimizer<C>;
}

/** fit() takes a list of its own callbacks, or one of plain objects, and no list of both. */
function callbackOf(Base: (new () => object) | undefined, onBatchEnd: () => Promise<void>): PsOptimizer["callbacks"] {
  if (Base === undefined) return { onBatchEnd };
  return new (class WeighbridgeCallback extends Base {
    onBatchEnd(): Promise<void> {
      return onBatchEnd();
    }
  })();
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

    constructor(steps: TfSteps, callbacks: PsOptimizer["callbacks"]) {
      super();
      this.#steps = steps;
      this.callbacks = callbacks;
    }

    async step(loss: () => TfTensor, wait: WaitOptions = {}): Promise<number> {
      const cost = await this.#stepOnce(loss, wait);
      const [value = Number.NaN] = cost === null ? [] : await floatsOf(cost);
      cost?.dispose();
      return value;
    }

    /** Rejects with what became of the step. Nothing of it is sent where its signal has fired. */
    async #stepOnce(loss: () => TfTensor, wait: WaitOptions): Promise<TfTensor | null> {
      try {
        checkWaitOptions(wait);
        checkNotAborted("a step, of which nothing was sent,", wait);
        const cost = this.minimize(loss, true, this.#steps.variables);
        const ended = this.ready();
        ended.catch(() => {}); // the wait below gets it
        await this.ready(wait).catch((thrown: unknown) => {
          cost?.dispose();
          throw unheard(thrown, ended);
        });
        return cost;
      } catch (thrown) {
        throw failedUpdate(thrown);
      }
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
