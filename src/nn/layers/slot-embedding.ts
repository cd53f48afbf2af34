// slot-embedding — an embedding on rows in another owner's span: slots of the span replace ids. It does what
// layers/embedding.ts does, without a table of its own: its gradient has a row for each slot of the batch, and no
// others.
//
// Invariants:
//   SlotEmbedding.S1. A slot below 0 stands for a row of zeros, and gets no gradient.
//   SlotEmbedding.S2. Gradients are in the order of `touchedSlots`, which ascend, each once. Equal slots are added in
//       the order of the batch.

import { badArgument } from "../../base/errors.ts";
import { Activations, checkActivations } from "../activations.ts";
import { checkCount } from "../layer.ts";
import type { FloatSpan, Workspace } from "../workspace.ts";

export type SlotEmbeddingOptions = {
  readonly name: string;
  readonly width: number;
  readonly idsPerSample: number;
  readonly sampleCountMax: number;
  /** "sum" makes samples of [width], "concat" of [idsPerSample · width]. */
  readonly combine: "sum" | "concat";
};

/** Where rows are: slot i at i · width floats from `address`. */
export type SlotRows = { readonly address: number; readonly slotCount: number };

export class SlotEmbedding {
  readonly output: Activations;
  readonly #workspace: Workspace;
  readonly #options: SlotEmbeddingOptions;
  readonly #slots: { readonly address: number; readonly values: Int32Array };
  /** For each id of the batch: the index of its slot among the touched ones. */
  readonly #indexes: { readonly address: number; readonly values: Int32Array };
  readonly #touched: Int32Array;
  readonly #gradients: FloatSpan;
  #touchedCount = 0;

  constructor(workspace: Workspace, options: SlotEmbeddingOptions) {
    const { name, combine } = options;
    const width = checkCount(`${name}: width`, options.width);
    const idsPerSample = checkCount(`${name}: idsPerSample`, options.idsPerSample);
    const sampleCountMax = checkCount(`${name}: sampleCountMax`, options.sampleCountMax);
    const idCountMax = idsPerSample * sampleCountMax;
    this.#workspace = workspace;
    this.#options = options;
    this.output = new Activations(workspace, [combine === "sum" ? width : idsPerSample * width], sampleCountMax);
    this.#slots = workspace.words(idCountMax);
    this.#indexes = workspace.words(idCountMax);
    this.#touched = new Int32Array(idCountMax);
    this.#gradients = workspace.floats(idCountMax * width);
  }

  /** `slots`: idsPerSample for each sample, one sample after the other. They are copied. Throws BAD_ARGUMENT. */
  forward(slots: Int32Array, rows: SlotRows): Activations {
    const { idsPerSample, width, name } = this.#options;
    if (slots.length % idsPerSample !== 0) {
      throw badArgument(`${name}: ${slots.length} ids are no multiple of ${idsPerSample}, the ids per sample`);
    }
    this.output.sampleCount = slots.length / idsPerSample;
    this.#slots.values.set(slots);
    const { bagCount, bagSize } = this.#bags();
    const { address } = this.output;
    this.#workspace.kernels.sumOfRows(rows.address, rows.slotCount, width, this.#slots.address, bagCount, bagSize, address);
    return this.output;
  }

  backward(outputGradient: Activations): void {
    const { name, width } = this.#options;
    checkActivations(`${name}: gradient`, outputGradient, this.output.shape, this.output.sampleCount);
    this.#listTouched();
    const { address, values } = this.#gradients;
    values.fill(0, 0, this.#touchedCount * width);
    if (this.#touchedCount === 0) return;
    const { bagCount, bagSize } = this.#bags();
    const { kernels } = this.#workspace;
    kernels.addToRows(outputGradient.address, width, this.#indexes.address, bagCount, bagSize, this.#touchedCount, address);
  }

  /** The slots for which the last `backward` computed a gradient. A view, valid until the next. */
  get touchedSlots(): Int32Array {
    return this.#touched.subarray(0, this.#touchedCount);
  }

  /** A row for each touched slot. A view, valid until the next `backward`. */
  get gradients(): Float32Array {
    return this.#gradients.values.subarray(0, this.#touchedCount * this.#options.width);
  }

  #listTouched(): void {
    const idCount = this.output.sampleCount * this.#options.idsPerSample;
    const slots = this.#slots.values;
    const touched = this.#touched;
    touched.set(slots.subarray(0, idCount));
    touched.subarray(0, idCount).sort();
    let count = 0;
    for (let i = 0; i < idCount; i++) {
      const slot = touched[i]!;
      if (slot >= 0 && (count === 0 || touched[count - 1] !== slot)) touched[count++] = slot;
    }
    this.#touchedCount = count;
    for (let i = 0; i < idCount; i++) this.#indexes.values[i] = slots[i]! < 0 ? -1 : ascendingIndex(touched, count, slots[i]!);
  }

  /** A bag is what is summed into one row of the output. */
  #bags(): { readonly bagCount: number; readonly bagSize: number } {
    const { combine, idsPerSample } = this.#options;
    const { sampleCount } = this.output;
    return combine === "sum" ? { bagCount: sampleCount, bagSize: idsPerSample } : { bagCount: sampleCount * idsPerSample, bagSize: 1 };
  }
}

/** The index of `value` among the first `count`, which ascend and have it. */
export function ascendingIndex(ascending: Int32Array | Float64Array, count: number, value: number): number {
  let low = 0;
  let high = count - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
