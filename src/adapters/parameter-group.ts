// parameter-group — the weights of another framework's model, as tensors on the servers: opened together, and trained
// in one step for all of them. It knows arrays of floats and names; the folders beside it know the framework.
//
//   step:  push of every gradient ──► clock ──► pull of every weight, the first one first
//          all under way at once, in this order on every link
//
// Invariants:
//   ParameterGroup.G1. The weights begin with the first worker's values; trained or restored values are kept, whichever
//       worker joins later.
//   ParameterGroup.G2. A step that is refused for its gradients (names, lengths, NaN), or aborted before it begins, has
//       pushed nothing and has not ended the clock.
//   ParameterGroup.G3. Weights that were pulled are in new arrays, which belong to the caller.
//   ParameterGroup.G4. The failure of a push or a step says what became of all of its gradients (JointFailure.J1).

import type { Session } from "../api/session.ts";
import { allEnded, checkNotAborted, type WaitOptions } from "../base/deferred.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import { failedUpdate } from "../peer/unheard-update.ts";
import type { Consistency } from "../store/consistency.ts";
import { type OptimizerName, type OptimizerSpec, optimizerMissing, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import type { LinkOptions } from "../wire/codecs/link-encoding.ts";
import type { Tensor } from "../worker/tensor.ts";
import { jointFailure, type OpenPush } from "./joint-failure.ts";

/** How the weights of a model are trained on the servers. */
export type GroupOptions = WaitOptions & {
  /** What the servers do with gradients. A bare name stands for the defaults of that optimizer. */
  readonly optimizer: OptimizerName | OptimizerSpec;
  /** Defaults to BSP with the mean over workers: losses of frameworks are means over a worker's own batch. */
  readonly consistency?: Consistency | undefined;
  /** Precedes the names of the weights: two models of one job need two prefixes. Empty by default. */
  readonly prefix?: string | undefined;
  /**
   * Whether a step ends the worker's clock. Defaults to true; with false, call `session.clock()` where your iteration
   * ends.
   */
  readonly endsClock?: boolean | undefined;
  /** How links encode values. */
  readonly link?: LinkOptions | undefined;
};

const GROUP_OPTIONS: readonly string[] = ["optimizer", "consistency", "prefix", "endsClock", "link", ...WAIT_NAMES];

/** A weight as a framework has it. */
export type Weight = { readonly name: string; readonly shape: readonly number[]; readonly values: Float32Array };

/** A new array, in memory of its own. */
export type OwnArray = Float32Array<ArrayBuffer>;

const MEAN_OVER_WORKERS: Consistency = { bsp: true, reduce: "mean" };

export class ParameterGroup {
  /** Without the prefix, in the order in which they were given. */
  readonly names: readonly string[];
  readonly #session: Session;
  readonly #tensors: readonly Tensor[];
  readonly #endsClock: boolean;
  readonly #refusesNotFinite: boolean;

  private constructor(session: Session, names: readonly string[], tensors: readonly Tensor[], options: GroupOptions) {
    this.names = names;
    this.#session = session;
    this.#tensors = tensors;
    this.#endsClock = options.endsClock ?? true;
    this.#refusesNotFinite = resolveOptimizer(options.optimizer).nonFinite === "refuse";
  }

  /**
   * Creates the tensors that do not exist yet, and offers them these first values (ParameterGroup.G1). Throws
   * BAD_ARGUMENT, SPEC_MISMATCH, NOT_FINITE.
   */
  static async open(session: Session, weights: readonly Weight[], options: GroupOptions): Promise<ParameterGroup> {
    const { optimizer, consistency = MEAN_OVER_WORKERS, prefix = "", link, timeoutMs, signal } = options;
    const wait = { timeoutMs, signal };
    const names = weights.map(({ name }) => name);
    checkNames(names);
    const common = { optimizer, consistency, ...(link === undefined ? {} : { link }) };
    const tensors = await Promise.all(weights.map(({ name, shape }) => session.tensor(prefix + name, { shape, ...common, ...wait })));
    const group = new ParameterGroup(session, names, tensors, options);
    const values = weights.map((weight) => weight.values);
    group.#check(values, "the first values of");
    await Promise.all(tensors.map((tensor, i) => tensor.start(values[i] as Float32Array, wait)));
    return group;
  }

  /** All weights as they are on the servers, as fresh as their consistency says. */
  async pull(wait: WaitOptions = {}): Promise<OwnArray[]> {
    checkWaitOptions(wait);
    const values: OwnArray[] = [];
    await allEnded(this.#pulls(values, wait));
    return values;
  }

  /**
   * Pushes gradients, in the order of `names`; undefined: none for that weight. They belong to the call until it
   * settles. Ends no clock.
   */
  async push(gradients: readonly (Float32Array | undefined)[], wait: WaitOptions = {}): Promise<void> {
    const pushes = this.#pushes(gradients, wait);
    await allUpdated(pushes, []);
  }

  /**
   * Pushes, ends the clock, and pulls what the next step begins with. Rejects when all of its calls have ended and one
   * of them failed.
   */
  async step(gradients: readonly (Float32Array | undefined)[], wait: WaitOptions = {}): Promise<OwnArray[]> {
    const pushes = this.#pushes(gradients, wait);
    if (this.#endsClock) this.#session.clock();
    const values: OwnArray[] = [];
    await allUpdated(pushes, this.#pulls(values, wait));
    return values;
  }

  /** Throws what is wrong with the call, nothing sent (ParameterGroup.G2). */
  #pushes(gradients: readonly (Float32Array | undefined)[], wait: WaitOptions): OpenPush[] {
    try {
      checkWaitOptions(wait);
      checkNotAborted("a step, of which nothing was sent,", wait);
      this.#check(gradients, "the gradient of");
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
    return this.#tensors.flatMap((tensor, i) => {
      const gradient = gradients[i];
      return gradient === undefined ? [] : [{ name: tensor.name, done: tensor.push(gradient, { ...wait, priority: -i }) }];
    });
  }

  #pulls(values: OwnArray[], wait: WaitOptions): Promise<void>[] {
    return this.#tensors.map(async (tensor, i) => {
      const into = new Float32Array(tensor.size); // ParameterGroup.G3
      await tensor.pull({ into, ...wait, priority: -i });
      values[i] = into;
    });
  }

  /** ParameterGroup.G2 */
  #check(arrays: readonly (Float32Array | undefined)[], what: string): void {
    for (const [i, tensor] of this.#tensors.entries()) {
      const array = arrays[i];
      if (array === undefined) continue;
      if (array.length !== tensor.size) {
        throw new WeighbridgeError("VALUE_LENGTH", `${what} ${tensor.name} has ${array.length} elements; ${tensor.size} were expected`);
      }
      if (!this.#refusesNotFinite) continue;
      const index = firstNotFinite(array);
      if (index >= 0) {
        const message = `element ${index} of ${what} ${tensor.name} is ${array[index]}; nothing was pushed`;
        throw new WeighbridgeError("NOT_FINITE", message);
      }
    }
  }
}

/** Waits for pushes and what else a call has begun; rejects with the first failure (ParameterGroup.G4). */
async function allUpdated(pushes: readonly OpenPush[], others: readonly Promise<void>[]): Promise<void> {
  try {
    await allEnded([...pushes.map(({ done }) => done), ...others]);
  } catch (thrown) {
    throw await jointFailure(thrown, pushes);
  }
}

/** Throws BAD_ARGUMENT for options that do not exist, or without an optimizer, before it touches the framework. */
export function checkGroupOptions(options: GroupOptions, more: readonly string[], what: string): void {
  checkWaitOptions(options, [...GROUP_OPTIONS, ...more], what);
  if (options.optimizer === undefined) throw optimizerMissing(what.replace(/^the options of /, ""));
  resolveOptimizer(options.optimizer);
}

function checkNames(names: readonly string[]): void {
  if (names.length === 0) throw badArgument("there are no weights to put on the servers");
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw badArgument(`two weights have the name ${JSON.stringify(twice)}`);
}

function firstNotFinite(values: Float32Array): number {
  let total = 0; // a NaN or an infinity stays in it to the end; a sum of finite float32 cannot overflow float64
  for (let i = 0; i < values.length; i++) total += values[i] as number;
  return Number.isFinite(total) ? -1 : values.findIndex((value) => !Number.isFinite(value));
}
