// chunk-runner — computes chunks of a unit with a network, in one thread of a training: reads the samples where the
// owner has read them, and leaves the gradients of each chunk in the memory of that chunk. The owner has one over the
// network that is trained, the others over their replicas.

import type { Arena } from "../../../kernel/arena.ts";
import { Activations, type Shape } from "../../../nn/activations.ts";
import { type Parameter, useGradient } from "../../../nn/parameter.ts";
import type { FloatSpan } from "../../../nn/workspace.ts";
import { parametersOf } from "../network.ts";
import { type DeviceControl, NO_CHUNK } from "./device-control.ts";
import { GradientFactors } from "./gradient-factors.ts";
import type { GradientSpans } from "./gradient-sums.ts";
import type { Replica } from "./replica.ts";

/** Where the samples of a unit lie, and their labels. Plain data. */
export type UnitMemory = {
  readonly address: number;
  readonly shape: Shape;
  readonly labelsAt: number;
  readonly sampleCountMax: number;
};

export type ChunkRunnerOptions = {
  readonly arena: Arena;
  readonly replica: Replica;
  readonly control: DeviceControl;
  readonly unit: UnitMemory;
  readonly gradients: GradientSpans;
  /** Whether the network leaves gradients where it is told; otherwise in its own memory, which is its chunk's. */
  readonly isClaimed: boolean;
};

export class ChunkRunner {
  readonly #options: ChunkRunnerOptions;
  /** By chunk, then parameter: where their gradients are left. */
  readonly #gradientSpans: readonly (readonly FloatSpan[])[];
  readonly #parameters: readonly Parameter[];
  readonly #labels: Float32Array;
  readonly #factors: GradientFactors;
  /** By parameter: leaves the factors of its gradient, if that is a product. */
  readonly #leave: readonly Parameter["leaveFactors"][];
  /** The one in hand. */
  #chunk = NO_CHUNK;
  /** By first sample and count: units of one size are dealt alike, so there are few. */
  readonly #inputs = new Map<string, Activations>();
  /** The outputs of the stages for the last chunk. */
  readonly outputs: Activations[] = [];

  constructor(options: ChunkRunnerOptions) {
    const { arena, unit, gradients, isClaimed } = options;
    const { buffer } = arena.memory;
    const { lengths } = gradients;
    this.#options = options;
    this.#parameters = parametersOf(options.replica.network);
    this.#labels = new Float32Array(buffer, unit.labelsAt, unit.sampleCountMax);
    this.#factors = new GradientFactors(gradients.factors, lengths.length);
    this.#leave = gradients.products.map((shape, i) =>
      shape === undefined ? undefined : (factors): void => this.#factors.leave(this.#chunk, i, factors),
    );
    this.#gradientSpans = (isClaimed ? gradients.addresses : []).map((addresses) =>
      addresses.map((address, i) => ({ address, values: new Float32Array(buffer, address, lengths[i]!) })),
    );
  }

  /** Computes chunks while there are some. Returns whether it has computed the last one of the step. */
  run(): boolean {
    let isLast = false;
    for (let i = 0; i < this.#leave.length; i++) this.#parameters[i]!.leaveFactors = this.#leave[i];
    while (this.#take()) isLast = this.#end(this.#compute(this.#chunk)) || isLast;
    this.#restore();
    return isLast;
  }

  /** After `run` has thrown: passes over its chunk and those that are left. Returns as `run`. */
  skip(): boolean {
    let isLast = this.#end(Number.NaN);
    while (this.#take()) isLast = this.#end(Number.NaN) || isLast;
    this.#restore();
    return isLast;
  }

  #take(): boolean {
    this.#chunk = this.#options.control.nextChunk();
    if (this.#chunk === NO_CHUNK) return false;
    this.#factors.clear(this.#chunk);
    return true;
  }

  #end(loss: number): boolean {
    return this.#options.control.done(this.#chunk, loss);
  }

  /** Leaves the gradients of a chunk. Returns the sum of its samples' losses over the divisor. */
  #compute(chunk: number): number {
    const { control, replica } = this.#options;
    const { from, count } = control.samplesOf(chunk);
    if (count === 0) {
      for (const { gradient } of this.#parameters) gradient.fill(0);
      return 0;
    }
    this.#useGradients(chunk);
    const { stages } = replica.network;
    let activations = this.#inputOf(from, count);
    for (let i = 0; i < stages.length; i++) {
      activations = stages[i]!.forward(activations, true);
      this.outputs[i] = activations;
    }
    const value = replica.loss.compute(activations, this.#labels.subarray(from, from + count), control.divisor);
    let gradient: Activations | undefined = replica.loss.gradient;
    for (let i = stages.length - 1; i >= 0 && gradient !== undefined; i--) gradient = stages[i]!.backward(gradient, () => {});
    return value;
  }

  #useGradients(chunk: number): void {
    const spans = this.#gradientSpans[chunk];
    if (spans !== undefined) for (let i = 0; i < spans.length; i++) useGradient(this.#parameters[i]!, spans[i]!);
  }

  /** Outside of chunks the network is as it was. */
  #restore(): void {
    for (const parameter of this.#parameters) parameter.leaveFactors = undefined;
    this.#useGradients(0);
  }

  #inputOf(from: number, count: number): Activations {
    const name = `${from} ${count}`;
    const known = this.#inputs.get(name);
    if (known !== undefined) return known;
    const { arena, unit } = this.#options;
    const floats = (floatCount: number): FloatSpan => {
      const address = unit.address + (from * Float32Array.BYTES_PER_ELEMENT * floatCount) / count;
      return { address, values: new Float32Array(arena.memory.buffer, address, floatCount) };
    };
    const input = new Activations({ floats }, unit.shape, count);
    input.sampleCount = count;
    this.#inputs.set(name, input);
    return input;
  }
}
