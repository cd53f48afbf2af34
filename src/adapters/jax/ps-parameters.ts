// ps-parameters — the parameters of a jax-js program on the servers: a tree of arrays in, a tree of arrays out.
// Functions of jax-js stay as they are:
//
//   let weights = await parameters.pull();
//   const gradients = grad(loss)(weights, batch);          weights are passed in, as a tree
//   weights = await parameters.step(gradients);            pushes gradients, pulls new weights
//
// Invariants:
//   PsParameters.P1. Trees that are passed in are consumed, as jax-js's own functions consume arrays: `tree.ref(x)`
//       keeps one. A tree that is refused for its names, shapes or types stays the caller's.
//   PsParameters.P2. Trees that are returned have the structure of the one it was created with, new arrays, and one
//       reference each.

import type { Session } from "../../api/session.ts";
import { checkNotAborted, type WaitOptions } from "../../base/deferred.ts";
import { badArgument, unsupported } from "../../base/errors.ts";
import { checkWaitOptions, moreThanOptions } from "../../base/known-options.ts";
import { failedUpdate } from "../../peer/unheard-update.ts";
import { checkGroupOptions, type GroupOptions, type OwnArray, ParameterGroup } from "../parameter-group.ts";
import { buildTree, type FlatTree, flattenTree, type JaxArray, type TreeStructure } from "./array-tree.ts";

/** What this adapter needs of the module `@jax-js/jax`. */
export interface JaxModule {
  readonly numpy: { array(values: OwnArray, options: { shape: number[] }): JaxArray };
}

/** How parameters on the servers are made. */
export type PsParametersOptions = GroupOptions;

/** The arrays of a jax-js model, which the servers hold and train. */
export class PsParameters<T> {
  /** Of the arrays, by their path from the root: "layers/0/kernel". */
  readonly names: readonly string[];
  readonly #jax: JaxModule;
  readonly #group: ParameterGroup;
  readonly #shapes: readonly (readonly number[])[];
  readonly #structure: TreeStructure;

  private constructor(jax: JaxModule, group: ParameterGroup, shapes: readonly (readonly number[])[], structure: TreeStructure) {
    this.names = group.names;
    this.#jax = jax;
    this.#group = group;
    this.#shapes = shapes;
    this.#structure = structure;
  }

  /**
   * Puts the arrays of a tree on the servers, unless the servers have values already: `pull` returns what they have.
   * `jax` is the module that made the arrays. Throws BAD_ARGUMENT, UNSUPPORTED (an array that is not float32),
   * SPEC_MISMATCH.
   *
   * @example
   * ```ts
   * const parameters = await PsParameters.create(jax, session, { w, b }, { prefix: "model/", optimizer: "adam" });
   * let current = await parameters.pull();
   * await parameters.push(gradientsOf(current));
   * session.clock();
   * ```
   */
  static async create<T>(jax: JaxModule, session: Session, tree: T, options: PsParametersOptions): Promise<PsParameters<T>>;
  static async create<T>(
    jax: JaxModule,
    session: Session,
    tree: T,
    options: PsParametersOptions,
    more?: unknown,
  ): Promise<PsParameters<T>> {
    if (more !== undefined) throw moreThanOptions(more, "PsParameters.create");
    checkGroupOptions(options, [], "the options of PsParameters.create"); // PsParameters.P1
    const flat = flattenTree(tree);
    checkFloat32(flat);
    const shapes = flat.arrays.map(({ shape }) => [...shape]); // A consumed array has none.
    const values = await floatsOf(flat.arrays);
    const weights = flat.names.map((name, i) => ({ name, shape: shapes[i] as number[], values: values[i] as Float32Array }));
    const group = await ParameterGroup.open(session, weights, options);
    return new PsParameters<T>(jax, group, shapes, flat.structure);
  }

  /** The weights, as fresh as their consistency says (PsParameters.P2). */
  async pull(options: WaitOptions = {}): Promise<T> {
    return this.#tree(await this.#group.pull(options));
  }

  /**
   * Pushes gradients to the servers' optimizer (PsParameters.P1). Ends no clock. Throws BAD_ARGUMENT for a tree of
   * another structure, NOT_FINITE. `error.outcome` says what became of the gradients of all arrays together.
   */
  async push(gradients: T, options: WaitOptions = {}): Promise<void> {
    await this.#group.push(await this.#gradients(gradients, options), options);
  }

  /**
   * One step: pushes gradients (PsParameters.P1), ends the clock, and returns the weights that the next step begins
   * with (PsParameters.P2). Throws as `push`.
   */
  async step(gradients: T, options: WaitOptions = {}): Promise<T> {
    return this.#tree(await this.#group.step(await this.#gradients(gradients, options), options));
  }

  /**
   * The values of a tree with the names and shapes of the parameters, in their order. Throws what is wrong with a call
   * that pushes them, nothing sent.
   */
  async #gradients(tree: T, wait: WaitOptions): Promise<Float32Array[]> {
    try {
      checkWaitOptions(wait); // PsParameters.P1
      checkNotAborted("a call, of which nothing was sent,", wait);
      return await floatsOf(this.#inOrder(tree));
    } catch (thrown) {
      throw failedUpdate(thrown);
    }
  }

  #inOrder(tree: T): readonly JaxArray[] {
    const flat = flattenTree(tree);
    const ordered = this.names.flatMap((name) => flat.arrays[flat.names.indexOf(name)] ?? []);
    if (ordered.length !== this.names.length || flat.names.length !== this.names.length) {
      const message = `the gradients are those of ${flat.names.join(", ")}; the parameters are ${this.names.join(", ")}`;
      throw badArgument(message);
    }
    for (const [i, name] of this.names.entries()) {
      const [expected, actual] = [this.#shapes[i]?.join(", "), ordered[i]?.shape.join(", ")];
      if (actual !== expected) throw badArgument(`${name} is [${expected}], and its gradient [${actual}]`);
    }
    checkFloat32(flat);
    return ordered;
  }

  #tree(values: readonly OwnArray[]): T {
    const arrays = values.map((value, i) => this.#jax.numpy.array(value, { shape: [...(this.#shapes[i] as readonly number[])] }));
    return buildTree(this.#structure, arrays) as T;
  }
}

function checkFloat32({ names, arrays }: FlatTree): void {
  for (const [i, { dtype }] of arrays.entries()) {
    if (dtype !== "float32") throw unsupported(`the servers hold float32; ${names[i]} is of ${dtype}`);
  }
}

/** Consumes the arrays (PsParameters.P1). */
async function floatsOf(arrays: readonly JaxArray[]): Promise<Float32Array[]> {
  return await Promise.all(arrays.map(async (array) => (await array.data()) as Float32Array));
}
