// activations — what flows between layers: up to `sampleCountMax` samples of one shape, side by side in a workspace.
// Gradients of activations are activations too.

import { badArgument } from "../base/errors.ts";
import type { Workspace } from "./workspace.ts";

/** Lengths of one sample, such as [channels, height, width]; the batch is not in it. */
export type Shape = readonly number[];

export function floatsOf(shape: Shape): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** The values of a batch between two layers. */
export class Activations {
  /** The lengths of one sample. */
  readonly shape: Shape;
  /** How many floats a sample has. */
  readonly floatsPerSample: number;
  /** The most samples that there is room for. */
  readonly sampleCountMax: number;
  /** @internal Where the first sample is, in bytes from the start of the workspace's memory. */
  readonly address: number;
  /** All samples, also those beyond `sampleCount`. */
  readonly values: Float32Array;
  #sampleCount = 0;

  constructor(workspace: Pick<Workspace, "floats">, shape: Shape, sampleCountMax: number) {
    if (shape.length === 0 || ![...shape, sampleCountMax].every((length) => Number.isSafeInteger(length) && length >= 1)) {
      throw badArgument(`lengths are whole numbers from 1 on, not [${shape.join(", ")}] × ${sampleCountMax} samples`);
    }
    this.shape = shape;
    this.floatsPerSample = floatsOf(shape);
    this.sampleCountMax = sampleCountMax;
    const { address, values } = workspace.floats(this.floatsPerSample * sampleCountMax);
    this.address = address;
    this.values = values;
  }

  /** How many samples there are now. */
  get sampleCount(): number {
    return this.#sampleCount;
  }

  /** Throws BAD_ARGUMENT for none or for more than there is room for. */
  set sampleCount(count: number) {
    if (!(Number.isSafeInteger(count) && count >= 1 && count <= this.sampleCountMax)) {
      throw badArgument(`a batch has 1 to ${this.sampleCountMax} samples, not ${count}`);
    }
    this.#sampleCount = count;
  }

  /** How many floats the samples have that there are now. */
  get floatCount(): number {
    return this.#sampleCount * this.floatsPerSample;
  }

  /** The values of the samples that there are. A new view. */
  get current(): Float32Array {
    return this.values.subarray(0, this.floatCount);
  }

  /** @internal The address of one sample. */
  sampleAddress(index: number): number {
    return this.address + index * this.floatsPerSample * Float32Array.BYTES_PER_ELEMENT;
  }
}

/** Throws BAD_ARGUMENT unless the samples have this shape, and there is at least one and at most the maximum. */
export function checkActivations(what: string, activations: Activations, shape: Shape, sampleCountMax: number): void {
  if (activations.floatsPerSample !== floatsOf(shape) || activations.shape.some((length, i) => length !== shape[i])) {
    throw badArgument(`${what}: expected samples of [${shape.join(", ")}], got [${activations.shape.join(", ")}]`);
  }
  if (activations.sampleCount < 1 || activations.sampleCount > sampleCountMax) {
    throw badArgument(`${what}: expected 1 to ${sampleCountMax} samples, got ${activations.sampleCount}`);
  }
}
