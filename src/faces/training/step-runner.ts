// step-runner — computes one unit: forward, loss, backward, and passes every gradient to its route. It does not know
// where parameters live.
//
//   with overlap   pushes gradients when final, small ones together (pushOrder); waits for values stage by stage
//   without        pushes gradients after backward, in the same order; waits for everything before the next step
//
// Invariants:
//   StepRunner.S1. With and without overlap the same numbers are computed from the same values: under BSP the bits are
//       the same.
//   StepRunner.S2. No gradient of a unit whose loss is not finite is pushed.
//   StepRunner.S3. Gradients stay as they are until they are acknowledged: the next backward begins after
//       `acknowledge`.
//   StepRunner.S4. A step of values that workers share is applied whole or not at all, once all its sums have arrived:
//       if a member dies in between, every worker has the values from before the step, or from after it.

import { allEnded } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import type { Activations } from "../../nn/activations.ts";
import { findNotFinite } from "../../nn/layer.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { TrainingDevices } from "./devices/training-devices.ts";
import type { EmbeddingLookup, IdBatch } from "./embedding-lookup.ts";
import { nextTurn } from "./event-loop.ts";
import { type Loss, lookupsOf, type Network, type Stage } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import type { ParameterRoute } from "./parameter-route.ts";
import type { StepTimes } from "./step-times.ts";
import type { UnitSamples } from "./unit-feed.ts";

/** Values of fewer bytes fit the links while this worker computes, and are read when it waits for them. */
const COMING_BYTES_MIN = 1024 * 1024;

export type StepRunnerOptions = {
  readonly network: Network;
  readonly loss: Loss;
  readonly open: OpenNetwork;
  readonly overlaps: boolean;
  readonly meter: StepTimes;
  /** Other threads that have a share of every unit, if any; then there is no overlap. */
  readonly devices?: TrainingDevices | undefined;
};

export type StepInput = UnitSamples & {
  /** Of the unit; undefined for networks without ids. */
  readonly ids: IdBatch | undefined;
  /** Of the unit after this one, if its rows may be fetched early. */
  readonly nextIds?: IdBatch | undefined;
  /** "epoch 1, step 3": for errors. */
  readonly where: string;
};

export class StepRunner {
  readonly #options: StepRunnerOptions;
  readonly #routes: readonly ParameterRoute[];
  readonly #lookups: readonly EmbeddingLookup[];
  /** By stage. */
  readonly #order: readonly (readonly GradientSource[])[];
  #outputs: readonly Activations[] = [];
  #pushes: Promise<void>[] = [];
  #hasGiven = false;
  /** Whether the routes' gradients are those of the last step. */
  #hasGradients = false;

  constructor(options: StepRunnerOptions) {
    this.#options = options;
    this.#routes = [...options.open.routes.values()];
    this.#lookups = lookupsOf(options.network);
    this.#order = pushOrder(options.network.stages);
  }

  /**
   * Computes a unit whose values and labels are in place. Returns the mean loss of its samples. Throws NOT_FINITE
   * (StepRunner.S2).
   */
  async run(input: StepInput): Promise<number> {
    const { devices } = this.#options;
    const mean = (value: number): number => (value * input.globalSize) / input.sampleCount;
    try {
      return mean(devices === undefined ? await this.#compute(input) : await this.#computeShared(input, devices));
    } catch (thrown) {
      if (!(thrown instanceof WeighbridgeError) || thrown.code !== "NOT_FINITE") throw thrown;
      throw thrown.message.startsWith(input.where) ? thrown : this.notFinite(thrown.message, input.where, thrown);
    }
  }

  /** Returns the sum of the losses of all samples of the unit over the size of its global batch. */
  async #compute(input: StepInput): Promise<number> {
    const { loss, overlaps } = this.#options;
    const outputs = await this.#forward(input.ids);
    if (input.nextIds !== undefined) for (const lookup of this.#lookups) lookup.prefetch(input.nextIds);
    const value = loss.compute(outputs, input.labels, input.globalSize);
    this.#checkLoss(value, input.where);
    const given = await this.#backward(loss.gradient);
    await this.#give((overlaps ? this.#order.slice(0, given) : this.#order).toReversed().flat());
    return value;
  }

  /** The same with other threads. */
  async #computeShared(input: StepInput, devices: TrainingDevices): Promise<number> {
    const { meter, open } = this.#options;
    await this.settle(); // TrainingDevices.V1
    devices.begin(input);
    try {
      devices.compute();
    } catch (thrown) {
      await devices.sum(open.patience.wait).catch(() => {}); // TrainingDevices.V2; the first failure counts
      throw thrown;
    }
    const value = await meter.wait(devices.sum(open.patience.wait));
    this.#outputs = devices.outputs;
    this.#checkLoss(value, input.where);
    this.#hasGiven = true;
    this.#hasGradients = true;
    await this.#give(this.#order.toReversed().flat());
    return value;
  }

  /** StepRunner.S2 */
  #checkLoss(value: number, where: string): void {
    if (!Number.isFinite(value)) throw this.notFinite(`the loss is ${value}`, where);
  }

  /** Takes part in a step without samples. `nextIds` are prefetched when all workers prefetch theirs. */
  async skip(nextIds?: IdBatch): Promise<void> {
    const { meter, network, open } = this.#options;
    await this.settle();
    for (const acquired of this.#acquire({ ids: new Float64Array(0), sampleCount: 0, idsPerSample: network.idsPerSample }).values()) {
      await meter.wait(acquired);
    }
    if (nextIds !== undefined) for (const lookup of this.#lookups) lookup.prefetch(nextIds);
    for (const source of this.#order.toReversed().flat()) {
      if ("lookup" in source) this.#pushes.push(tolerated(source.lookup.pushNothing(open.patience.wait)));
      else open.routeOf(source.parameter).skip();
    }
    open.leave();
    this.#hasGiven = true;
    this.#hasGradients = false;
    await this.#reduce();
  }

  /** Resolves when all gradients are acknowledged (StepRunner.S3). */
  async acknowledge(): Promise<void> {
    if (!this.#hasGiven) return;
    const { meter, open } = this.#options;
    await open.withRetry(async (isFirst) => {
      if (!isFirst) this.#pushAgain();
      // also if one fails: afterwards nothing reads the gradients any more
      await meter.wait(allEnded([...this.#routes.map(({ acknowledged }) => acknowledged), ...this.#pushes]));
    });
    this.#pushes = [];
    this.#hasGiven = false;
  }

  /**
   * Forgets pushes without acknowledgement: their unit is computed again. Resolves when none reads gradients
   * (StepRunner.S3).
   */
  async drop(): Promise<void> {
    const pushes = this.#pushes;
    this.#pushes = [];
    this.#hasGiven = false;
    await Promise.allSettled([...this.#routes.map(({ acknowledged }) => acknowledged), ...pushes]);
  }

  /** Resolves when all values are those of the next step. */
  async settle(): Promise<void> {
    for (const route of this.#routes) {
      const ready = this.#ready(route);
      if (ready !== undefined) await ready;
    }
  }

  /**
   * Resolves when all values are those of this worker's clock, however many clocks it has ended since its last step.
   */
  async refresh(): Promise<void> {
    const { meter, open } = this.#options;
    await this.settle();
    for (const route of this.#routes) if (route.isReduced !== true) await meter.wait(open.withRetry(async () => await route.open()));
  }

  /** The outputs for the samples in the input, with the current parameters. */
  async predict(ids: IdBatch | undefined): Promise<Activations> {
    return await this.#forward(ids, false);
  }

  /** The error of a batch that led to `what`, with the first parameter or output that is not finite. */
  notFinite(what: string, where: string, cause?: unknown): WeighbridgeError {
    const culprit = findNotFinite(this.#options.network.stages, this.#outputs) ?? "no parameter and no output of a layer";
    return new WeighbridgeError("NOT_FINITE", `${where}: ${what}; not finite: ${culprit}`, { cause });
  }

  async #forward(ids: IdBatch | undefined, isTraining = true): Promise<Activations> {
    const { network, meter, overlaps, open } = this.#options;
    const acquiring = ids === undefined ? undefined : this.#acquire(ids);
    const outputs: Activations[] = [];
    this.#outputs = outputs;
    let activations = network.input;
    for (const [i, stage] of network.stages.entries()) {
      const acquired = stage.lookup === undefined ? undefined : acquiring?.get(stage.lookup);
      if (acquired !== undefined) await meter.wait(acquired);
      for (const parameter of stage.parameters) {
        const ready = this.#ready(open.routeOf(parameter));
        if (ready !== undefined) await ready;
      }
      activations = stage.forward(activations, isTraining);
      outputs[i] = activations;
      if (overlaps && this.#comingBytes(i + 1) >= COMING_BYTES_MIN) await nextTurn();
    }
    return activations!;
  }

  /** Bytes on their way for the stages from this one on: they wait at the link until this worker pauses. */
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

  /** Begins to acquire the rows of all lookups. Each is awaited at its stage. */
  #acquire(ids: IdBatch): ReadonlyMap<EmbeddingLookup, Promise<void>> {
    const { open } = this.#options;
    const { wait } = open.patience;
    return new Map(this.#lookups.map((lookup) => [lookup, tolerated(open.withRetry(async () => await lookup.acquire(ids, wait)))]));
  }

  /**
   * Pushes a stage's gradients when its backward has returned, with overlap: nothing leaves before the thread is free.
   * Returns the first stage whose gradients were pushed.
   */
  async #backward(lossGradient: Activations): Promise<number> {
    const { network, overlaps } = this.#options;
    this.#hasGiven = true;
    this.#hasGradients = true;
    let gradient: Activations | undefined = lossGradient;
    let i = network.stages.length;
    while (i > 0 && gradient !== undefined) {
      gradient = network.stages[--i]!.backward(gradient, () => {});
      if (!overlaps || this.#order[i]!.length === 0) continue;
      this.#send(this.#order[i]!);
      if (i > 0) await nextTurn();
    }
    return i;
  }

  async #give(sources: readonly GradientSource[]): Promise<void> {
    this.#send(sources);
    await this.#reduce();
  }

  #send(sources: readonly GradientSource[]): void {
    const push = (): void => {
      for (const source of sources) this.#push(source);
      this.#options.open.leave();
    };
    if (this.#options.open.session === undefined) push();
    else this.#options.meter.send(push);
  }

  /** StepRunner.S4 */
  async #reduce(): Promise<void> {
    const { meter } = this.#options;
    const reduced = this.#routes.filter(({ isReduced }) => isReduced === true);
    for (const route of reduced) await meter.wait(route.summed?.() ?? Promise.resolve());
    for (const route of reduced) await route.settle();
  }

  #push(source: GradientSource): void {
    if ("lookup" in source) this.#pushRows(source.lookup);
    else this.#options.open.routeOf(source.parameter).push(this.#options.devices?.magnitudeOf(source.parameter));
  }

  #pushRows(lookup: EmbeddingLookup): void {
    this.#pushes.push(tolerated(lookup.push(this.#options.open.patience.wait))); // `acknowledge` reports it
  }

  #pushAgain(): void {
    if (!this.#hasGradients) return;
    for (const route of this.#routes) route.repeat();
    this.#options.open.leave();
    this.#pushes = [];
    for (const lookup of this.#lookups) if (this.#options.open.pushesRows(lookup)) this.#pushRows(lookup);
  }

  /** Undefined: its values are there. */
  #ready(route: ParameterRoute): Promise<void> | undefined {
    const settling = route.settle();
    if (settling === undefined) return undefined;
    const { meter, open } = this.#options;
    if (route.isReduced === true) return meter.wait(settling);
    return meter.wait(open.withRetry(async (isFirst) => (isFirst ? await settling : await route.open())));
  }
}

/** A promise whose rejection is reported to a later waiter, and is not unhandled until then. */
function tolerated(promise: Promise<void>): Promise<void> {
  promise.catch(() => {}); // a later waiter gets it
  return promise;
}

/** Fewer bytes are not worth a pause of their own. */
export const PUSH_BYTES_MIN: number = 128 * 1024;

/** A gradient: of a parameter, or of the rows that a lookup has acquired. */
export type GradientSource = { readonly parameter: Parameter } | { readonly lookup: EmbeddingLookup };

/** For each stage, in order, the gradients to push when its backward has returned, the last stage first. */
export function pushOrder(stages: readonly Pick<Stage, "parameters" | "lookup">[]): readonly (readonly GradientSource[])[] {
  const groups: GradientSource[][] = stages.map(() => []);
  let waiting: GradientSource[] = [];
  let waitingBytes = 0;
  for (let i = stages.length - 1; i >= 0; i--) {
    for (const source of sourcesOf(stages[i]!)) {
      const byteCount = bytesOf(source);
      if (byteCount >= PUSH_BYTES_MIN) groups[i]!.push(source);
      else {
        waiting.push(source);
        waitingBytes += byteCount;
      }
    }
    if (waitingBytes < PUSH_BYTES_MIN && i > 0) continue;
    groups[i]!.push(...waiting);
    [waiting, waitingBytes] = [[], 0];
  }
  return groups;
}

function sourcesOf({ lookup, parameters }: Pick<Stage, "parameters" | "lookup">): readonly GradientSource[] {
  return [...(lookup === undefined ? [] : [{ lookup }]), ...parameters.map((parameter) => ({ parameter }))];
}

/**
 * The most that a lookup pushes: the gradients of a batch of distinct ids. A lookup whose table is a parameter pushes
 * only that.
 */
function bytesOf(source: GradientSource): number {
  if ("parameter" in source) return source.parameter.gradient.byteLength;
  const { sparse, idsPerSample, sampleCountMax, dim: width } = source.lookup.options;
  return sparse ? idsPerSample * sampleCountMax * width * FLOAT_BYTES : 0;
}
