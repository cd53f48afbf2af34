// step-runner — computes one unit: forward, loss, backward, and hands every gradient to its route. It does not know where parameters live.
//
//   with overlap      gradients are given when they are final, small ones together (push-order.ts); the values of a stage are waited for just before its forward
//   without           gradients are given after backward, in the same order, and everything is waited for before the next step
//
// Invariants:
//   S1. With and without overlap the same numbers are computed from the same values: under BSP the bits are the same.
//   S2. Nothing is given of a unit whose loss is not finite.
//   S3. What was given and is not acknowledged keeps its gradients until it is: the next backward begins after `acknowledge`.
//   S4. A step of values that workers have in common is applied whole or not at all: nothing is, before all its sums are there. A member dies in between: then every
//       worker has the values of before the step, or those of after it.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Activations } from "../../nn/activations.ts";
import { findNotFinite } from "../../nn/layer.ts";
import type { EmbeddingLookup, IdBatch } from "./embedding-lookup.ts";
import { nextTurn } from "./event-loop.ts";
import { type Loss, lookupsOf, type Network } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import type { ParameterRoute } from "./parameter-route.ts";
import { type Given, pushOrder } from "./push-order.ts";
import type { UnitSamples } from "./unit-reader.ts";
import type { WaitMeter } from "./wait-meter.ts";

/** Values of fewer bytes have room in the links while this worker computes, and are read when they are waited for. */
const COMING_BYTES_MIN = 1024 * 1024;

export type StepRunnerOptions = {
  readonly network: Network;
  readonly loss: Loss;
  readonly open: OpenNetwork;
  readonly overlaps: boolean;
  readonly meter: WaitMeter;
};

export type StepInput = UnitSamples & {
  /** Of the unit; undefined for networks that take none. */
  readonly ids: IdBatch | undefined;
  /** Of the unit after this one, where its rows may be fetched early. */
  readonly nextIds?: IdBatch | undefined;
  /** "epoch 1, step 3": for errors. */
  readonly where: string;
};

export class StepRunner {
  readonly #options: StepRunnerOptions;
  readonly #routes: readonly ParameterRoute[];
  readonly #lookups: readonly EmbeddingLookup[];
  /** By stage. */
  readonly #order: readonly (readonly Given[])[];
  readonly #outputs: Activations[] = [];
  #gives: Promise<void>[] = [];
  #hasGiven = false;
  /** Whether the routes' gradients are those of the last step. */
  #hasGradients = false;

  constructor(options: StepRunnerOptions) {
    this.#options = options;
    this.#routes = [...options.open.routes.values()];
    this.#lookups = lookupsOf(options.network);
    this.#order = pushOrder(options.network.stages);
  }

  /** Computes a unit whose values and labels are in place. Returns the mean loss of its samples. Throws NOT_FINITE (S2). */
  async run(input: StepInput): Promise<number> {
    const { loss } = this.#options;
    const outputs = await this.#forward(input.ids);
    if (input.nextIds !== undefined) for (const lookup of this.#lookups) lookup.announce(input.nextIds);
    const value = loss.compute(outputs, input.labels, input.globalSize);
    if (!Number.isFinite(value)) throw this.notFinite(`the loss is ${value}`, input.where);
    try {
      await this.#backward(loss.gradient);
    } catch (thrown) {
      if (!(thrown instanceof WeighbridgeError) || thrown.code !== "NOT_FINITE") throw thrown;
      throw this.notFinite(thrown.message, input.where, thrown);
    }
    return (value * input.globalSize) / input.sampleCount;
  }

  /** Takes part in a step in which this worker has no samples. `nextIds` are announced when all workers announce theirs. */
  async skip(nextIds?: IdBatch): Promise<void> {
    const { meter, network, open } = this.#options;
    for (const route of this.#routes) await this.#ready(route);
    for (const take of this.#take({ ids: new Float64Array(0), sampleCount: 0, idsPerSample: network.idsPerSample }).values()) {
      await meter.wait(take);
    }
    if (nextIds !== undefined) for (const lookup of this.#lookups) lookup.announce(nextIds);
    for (const given of this.#order.toReversed().flat()) {
      if ("lookup" in given) this.#gives.push(tolerated(given.lookup.giveNothing(open.patience.wait)));
      else open.routeOf(given.parameter).skip();
    }
    this.#hasGiven = true;
    this.#hasGradients = false;
    await this.#reduce();
  }

  /** Resolves when all that was given is where it is applied (S3). */
  async acknowledge(): Promise<void> {
    if (!this.#hasGiven) return;
    const { meter, open } = this.#options;
    await open.persist(async (isFirst) => {
      if (!isFirst) this.#giveAgain();
      await meter.wait(allEnded([...this.#routes.map(({ acknowledged }) => acknowledged), ...this.#gives]));
    });
    this.#gives = [];
    this.#hasGiven = false;
  }

  /** Forgets what was given and not acknowledged: its unit is computed again. Resolves when nothing of it reads gradients any more (S3). */
  async drop(): Promise<void> {
    const gives = this.#gives;
    this.#gives = [];
    this.#hasGiven = false;
    await Promise.allSettled([...this.#routes.map(({ acknowledged }) => acknowledged), ...gives]);
  }

  /** Resolves when all values are those of the next step. */
  async settle(): Promise<void> {
    for (const route of this.#routes) await this.#ready(route);
  }

  /** Resolves when all values are those of this worker's clock, however many of them it has ended since its last step. */
  async refresh(): Promise<void> {
    const { meter, open } = this.#options;
    await this.settle();
    for (const route of this.#routes) if (route.isReduced !== true) await meter.wait(open.persist(async () => await route.open()));
  }

  /** What the network gives for samples that are in place, with the parameters as they are. */
  async predict(ids: IdBatch | undefined): Promise<Activations> {
    return await this.#forward(ids, false);
  }

  /** The error of a batch that led to `what`, with the first parameter or output that is no number. */
  notFinite(what: string, where: string, cause?: unknown): WeighbridgeError {
    const culprit = findNotFinite(this.#options.network.stages, this.#outputs) ?? "no parameter and no output of a layer";
    return new WeighbridgeError("NOT_FINITE", `${where}: ${what}; not finite: ${culprit}`, { cause });
  }

  async #forward(ids: IdBatch | undefined, isTraining = true): Promise<Activations> {
    const { network, meter, overlaps, open } = this.#options;
    const takes = ids === undefined ? undefined : this.#take(ids);
    let activations = network.input;
    for (const [i, stage] of network.stages.entries()) {
      const take = stage.lookup === undefined ? undefined : takes?.get(stage.lookup);
      if (take !== undefined) await meter.wait(take);
      for (const parameter of stage.parameters) await this.#ready(open.routeOf(parameter));
      activations = stage.forward(activations, isTraining);
      this.#outputs[i] = activations;
      if (overlaps && this.#comingBytes(i + 1) >= COMING_BYTES_MIN) await nextTurn();
    }
    return activations!;
  }

  /** What is under way for the stages from this one on, in bytes: what has come lies with the link until this worker pauses. */
  #comingBytes(from: number): number {
    const { network, open } = this.#options;
    let byteCount = 0;
    for (let i = from; i < network.stages.length; i++) {
      for (const parameter of network.stages[i]!.parameters) {
        if (open.routeOf(parameter).isComing === true) byteCount += parameter.values.byteLength;
      }
    }
    return byteCount;
  }

  /** Begins to take the rows of all lookups. Each is awaited at its stage. */
  #take(ids: IdBatch): ReadonlyMap<EmbeddingLookup, Promise<void>> {
    const { open } = this.#options;
    const { wait } = open.patience;
    return new Map(this.#lookups.map((lookup) => [lookup, tolerated(open.persist(async () => await lookup.take(ids, wait)))]));
  }

  /** What stages give is given when their backward has returned: nothing leaves before this worker lets go of its thread. */
  async #backward(lossGradient: Activations): Promise<void> {
    const { network, overlaps } = this.#options;
    this.#hasGiven = true;
    this.#hasGradients = true;
    let gradient: Activations | undefined = lossGradient;
    let i = network.stages.length;
    while (i > 0 && gradient !== undefined) {
      gradient = network.stages[--i]!.backward(gradient, () => {});
      if (!overlaps || this.#order[i]!.length === 0) continue;
      for (const given of this.#order[i]!) this.#give(given);
      if (i > 0) await nextTurn();
    }
    for (const given of overlaps ? this.#order.slice(0, i).toReversed().flat() : this.#order.toReversed().flat()) this.#give(given);
    await this.#reduce();
  }

  /** S4 */
  async #reduce(): Promise<void> {
    const { meter } = this.#options;
    const reduced = this.#routes.filter(({ isReduced }) => isReduced === true);
    for (const route of reduced) await meter.wait(route.summed?.() ?? Promise.resolve());
    for (const route of reduced) await route.settle();
  }

  #give(given: Given): void {
    if ("lookup" in given) this.#giveRows(given.lookup);
    else this.#options.open.routeOf(given.parameter).give();
  }

  #giveRows(lookup: EmbeddingLookup): void {
    this.#gives.push(tolerated(lookup.give(this.#options.open.patience.wait))); // `acknowledge` tells
  }

  #giveAgain(): void {
    if (!this.#hasGradients) return;
    for (const route of this.#routes) route.repeat();
    this.#gives = [];
    for (const lookup of this.#lookups) if (this.#options.open.pushesRows(lookup)) this.#giveRows(lookup);
  }

  async #ready(route: ParameterRoute): Promise<void> {
    const settling = route.settle();
    if (settling === undefined) return;
    const { meter, open } = this.#options;
    if (route.isReduced === true) return await meter.wait(settling);
    await meter.wait(open.persist(async (isFirst) => (isFirst ? await settling : await route.open())));
  }
}

/** A promise whose rejection is told to whoever waits for it later, and is nobody's fault until then. */
function tolerated(promise: Promise<void>): Promise<void> {
  promise.catch(() => {}); // as said
  return promise;
}

/** Waits for all, also when one fails: afterwards nothing reads the gradients any more. */
async function allEnded(promises: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(promises)) if (outcome.status === "rejected") throw outcome.reason;
}
