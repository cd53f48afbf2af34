// gradient-factors — where the devices of a training leave the factors of gradients that are products: the gradient of
// a matrix of weights is the sum over samples of what its layer was given times the gradient of what it gave. A device
// leaves the addresses of both for its chunk, and no gradient: rows of the product are a share of the sum
// (gradient-sums.ts), which any thread makes. So no large gradient is written twice and added up.
//
//   words   by chunk, then parameter: output gradients | inputs | samples
//
// Invariants:
//   GradientFactors.A1. What the addresses name stays as it is until the sum is made: a device computes one chunk in a
//       step, and the next step begins after the sum (TrainingDevices.V1).

import type { Factors, Parameter } from "../../../nn/parameter.ts";

const OUTPUT_GRADIENT = 0;
const INPUT = 1;
const SAMPLES = 2;
const FIELDS = 3;

/** A smaller gradient is written and added up in no time. */
const FLOATS_MIN = 2 ** 14;

/** Of a parameter whose gradient is a product. */
export type ProductShape = { readonly rows: number; readonly columns: number };

/**
 * By parameter: undefined for those whose gradients devices write themselves. `hasOwnChunks`: see GradientFactors.A1.
 */
export function productShapes(parameters: readonly Parameter[], hasOwnChunks: boolean): readonly (ProductShape | undefined)[] {
  return parameters.map(({ isProduct, shape, values: { length } }) => {
    const [rows = 0] = shape;
    return hasOwnChunks && isProduct === true && length >= FLOATS_MIN ? { rows, columns: length / rows } : undefined;
  });
}

/** Plain data: it can be posted to another thread. */
export function createFactorWords(chunkCountMax: number, parameterCount: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(chunkCountMax * parameterCount * FIELDS * Int32Array.BYTES_PER_ELEMENT));
}

export class GradientFactors {
  readonly #words: Int32Array;
  readonly #parameterCount: number;

  constructor(words: Int32Array, parameterCount: number) {
    this.#words = words;
    this.#parameterCount = parameterCount;
  }

  leave(chunk: number, parameter: number, { outputGradientAt, inputAt, sampleCount }: Factors): void {
    const at = this.#at(chunk, parameter);
    this.#words[at + OUTPUT_GRADIENT] = outputGradientAt;
    this.#words[at + INPUT] = inputAt;
    this.#words[at + SAMPLES] = sampleCount;
  }

  /** A chunk has none so far. */
  clear(chunk: number): void {
    this.#words.fill(0, this.#at(chunk, 0), this.#at(chunk + 1, 0));
  }

  of(chunk: number, parameter: number): Factors {
    const at = this.#at(chunk, parameter);
    const words = this.#words;
    return { outputGradientAt: words[at + OUTPUT_GRADIENT]! >>> 0, inputAt: words[at + INPUT]! >>> 0, sampleCount: words[at + SAMPLES]! };
  }

  #at(chunk: number, parameter: number): number {
    return (chunk * this.#parameterCount + parameter) * FIELDS;
  }
}
