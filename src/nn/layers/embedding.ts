// embedding — rows of a table, chosen by ids: their sum for each sample (a bag), or all of them side by side. Not a
// Layer, because its input is ids; it precedes a Sequential, or is used alone in a linear model. The table may be a
// whole vocabulary, or the rows of one batch that were pulled from the servers, with ids rewritten to their indices.
//
// Invariants:
//   Embedding.E1. After `backward` the gradient is 0 in every row that `touchedRows` does not name, also where others
//       have written meanwhile: workers sum gradients in place.
//   Embedding.E2. An id without a row is refused before anything is computed, or, with `outOfRange: "zero"`, stands for
//       a row of zeros. An id that is no whole number is refused.

import { badArgument, WeighbridgeError } from "../../base/errors.ts";
import type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
import { Activations, checkActivations } from "../activations.ts";
import { checkCount, type GradientReady } from "../layer.ts";
import { createParameter, type Parameter } from "../parameter.ts";
import type { Workspace } from "../workspace.ts";

export type EmbeddingOptions = {
  readonly name: string;
  readonly rowCount: number;
  readonly width: number;
  readonly idsPerSample: number;
  readonly sampleCountMax: number;
  /** "sum" makes samples of [width], "concat" of [idsPerSample · width]. */
  readonly combine: "sum" | "concat";
  /** How an id without a row is treated (Embedding.E2); "refuse" by default. */
  readonly outOfRange?: "refuse" | "zero";
  readonly initializer?: InitializerSpec;
};

const NO_ROW = -1;

/** An id between two rows. NaN and infinities are outside of any table, which is another matter. */
export function isFraction(id: number): boolean {
  return !Number.isInteger(id) && Number.isFinite(id);
}

export class Embedding {
  readonly name: string;
  readonly weight: Parameter;
  readonly output: Activations;
  readonly #workspace: Workspace;
  readonly #options: EmbeddingOptions;
  readonly #ids: { readonly address: number; readonly values: Int32Array };
  readonly #touched: Int32Array;
  #touchedCount = 0;

  constructor(workspace: Workspace, options: EmbeddingOptions) {
    const { name, combine, initializer = { type: "normal", std: 0.01 } } = options;
    const rowCount = checkCount(`${name}: rowCount`, options.rowCount);
    const width = checkCount(`${name}: width`, options.width);
    const idsPerSample = checkCount(`${name}: idsPerSample`, options.idsPerSample);
    const sampleCountMax = checkCount(`${name}: sampleCountMax`, options.sampleCountMax);
    this.name = name;
    this.#workspace = workspace;
    this.#options = options;
    this.weight = createParameter(workspace, { name: `${name}.weight`, shape: [rowCount, width], initializer });
    this.output = new Activations(workspace, [combine === "sum" ? width : idsPerSample * width], sampleCountMax);
    this.#ids = workspace.words(idsPerSample * sampleCountMax);
    this.#touched = new Int32Array(idsPerSample * sampleCountMax);
  }

  /**
   * `ids`: idsPerSample for each sample, one sample after the other. They are copied. Throws BAD_ARGUMENT or
   * OUT_OF_RANGE.
   */
  forward(ids: ArrayLike<number>): Activations {
    const { idsPerSample, width, rowCount, outOfRange = "refuse" } = this.#options;
    if (ids.length % idsPerSample !== 0) {
      throw badArgument(`${this.name}: ${ids.length} ids are no multiple of ${idsPerSample}, the ids per sample`);
    }
    this.output.sampleCount = ids.length / idsPerSample;
    this.#setIds(ids);
    const { kernels } = this.#workspace;
    const bad = outOfRange === "zero" ? -1 : kernels.findOutOfRange(this.#ids.address, ids.length, rowCount);
    if (bad !== -1) {
      throw new WeighbridgeError("OUT_OF_RANGE", `${this.name}: id ${ids[bad]} at index ${bad} has no row: the table has ${rowCount}`);
    }
    const { bagCount, bagSize } = this.#bags();
    kernels.sumOfRows(this.weight.address, rowCount, width, this.#ids.address, bagCount, bagSize, this.output.address);
    return this.output;
  }

  backward(outputGradient: Activations, ready: GradientReady): void {
    checkActivations(`${this.name}: gradient`, outputGradient, this.output.shape, this.output.sampleCount);
    const { width, rowCount } = this.#options;
    const { gradient, gradientAddress } = this.weight;
    gradient.fill(0); // Embedding.E1
    this.#listTouched();
    const { bagCount, bagSize } = this.#bags();
    this.#workspace.kernels.addToRows(outputGradient.address, width, this.#ids.address, bagCount, bagSize, rowCount, gradientAddress);
    ready(this.weight);
  }

  /** The rows for which the last `backward` computed a gradient, ascending, each once. A view, valid until the next. */
  get touchedRows(): Int32Array {
    return this.#touched.subarray(0, this.#touchedCount);
  }

  /** As 32-bit words; an id without a row is NO_ROW, and not its lower 32 bits. */
  #setIds(ids: ArrayLike<number>): void {
    const { rowCount } = this.#options;
    const words = this.#ids.values;
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]!;
      if (isFraction(id)) throw badArgument(`${this.name}: id ${id} at ${i} is no whole number`);
      words[i] = id >= 0 && id < rowCount ? id : NO_ROW;
    }
  }

  #listTouched(): void {
    const { idsPerSample, rowCount } = this.#options;
    const idCount = this.output.sampleCount * idsPerSample;
    this.#touched.set(this.#ids.values.subarray(0, idCount));
    const sorted = this.#touched.subarray(0, idCount).sort();
    this.#touchedCount = 0;
    for (let i = 0; i < idCount; i++) {
      const row = sorted[i]!;
      const isKnown = row >= 0 && row < rowCount;
      if (isKnown && (this.#touchedCount === 0 || sorted[this.#touchedCount - 1] !== row)) sorted[this.#touchedCount++] = row;
    }
  }

  /** A bag is what is summed into one row of the output. */
  #bags(): { readonly bagCount: number; readonly bagSize: number } {
    const { combine, idsPerSample } = this.#options;
    const { sampleCount } = this.output;
    return combine === "sum" ? { bagCount: sampleCount, bagSize: idsPerSample } : { bagCount: sampleCount * idsPerSample, bagSize: 1 };
  }
}
