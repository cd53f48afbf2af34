// dataset — samples to train a network on, read by index: values, ids, or both, and a label each. A data set that does
// not fit a network is refused before the first step.

import { badArgument, showValue } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { type Activations, floatsOf, type Shape } from "../../nn/activations.ts";
import type { LabelledImages } from "../../nn/labelled-images.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import type { Loss, Network } from "./network.ts";

/** Samples to train on, by number. */
export interface Dataset {
  /** How many samples there are; the first has index 0. */
  readonly sampleCount: number;
  /** Lengths of a sample's values; left out if samples have none. */
  readonly shape?: Shape | undefined;
  /** Ids of a sample; left out if samples have none. */
  readonly idsPerSample?: number | undefined;
  /**
   * Writes the values of these samples; `into.sampleCount` is set already. A promise is awaited, and its rejection is
   * that of the training.
   */
  readonly readValues?: ((indexes: Uint32Array, into: Activations) => void | Promise<void>) | undefined;
  /** Writes the ids of these samples, `idsPerSample` each: whole numbers, or NaN; any may lack a row. As readValues. */
  readonly readIds?: ((indexes: Uint32Array, into: Float64Array) => void | Promise<void>) | undefined;
  /** Writes the labels before it returns. */
  readLabels(indexes: Uint32Array, into: Float32Array): void;
}

const LABELS_AT_ONCE = 8192;

/** Writes the values of these samples into the network's input, and their labels. */
export async function readSamples(dataset: Dataset, { input }: Network, indexes: Uint32Array, labels: Float32Array): Promise<void> {
  if (input !== undefined) {
    input.sampleCount = indexes.length;
    await dataset.readValues?.(indexes, input);
  }
  dataset.readLabels(indexes, labels);
}

/** The ids of these samples, in an array of their own. */
export async function readIdBatch(dataset: Dataset, { idsPerSample }: Network, indexes: Uint32Array): Promise<IdBatch> {
  const ids = new Float64Array(indexes.length * idsPerSample);
  await dataset.readIds?.(indexes, ids);
  return { ids, sampleCount: indexes.length, idsPerSample };
}

/** Throws BAD_ARGUMENT unless this network and this loss accept every sample. */
export function checkDataset(dataset: Dataset, network: Network, loss: Loss): void {
  if (typeof dataset?.readLabels !== "function") {
    throw badArgument(`a Model takes a data set, such as an ArrayDataset, not ${showValue(dataset)}`);
  }
  const { sampleCount, shape, idsPerSample = 0 } = dataset;
  if (!(Number.isSafeInteger(sampleCount) && sampleCount >= 1)) {
    throw badArgument(`a data set has at least one sample, not ${sampleCount}`);
  }
  checkShape(shape, network.input?.shape, dataset.readValues !== undefined);
  if (idsPerSample !== network.idsPerSample || idsPerSample > 0 !== (dataset.readIds !== undefined)) {
    throw badArgument(`the network takes ${network.idsPerSample} ids a sample, the data set has ${idsPerSample}`);
  }
  checkLabels(dataset, loss);
}

function checkShape(shape: Shape | undefined, wanted: Shape | undefined, hasValues: boolean): void {
  const text = (lengths: Shape | undefined): string => (lengths === undefined ? "no values" : `samples of [${lengths.join(", ")}]`);
  const isSame = shape?.length === wanted?.length && (shape ?? []).every((length, i) => length === wanted?.[i]);
  if (isSame && hasValues === (shape !== undefined)) return;
  throw badArgument(`the network takes ${text(wanted)}, the data set has ${text(shape)}`);
}

function checkLabels(dataset: Dataset, loss: Loss): void {
  const { sampleCount } = dataset;
  const labels = new Float32Array(Math.min(sampleCount, LABELS_AT_ONCE));
  for (let from = 0; from < sampleCount; from += labels.length) {
    const count = Math.min(labels.length, sampleCount - from);
    const indexes = Uint32Array.from({ length: count }, (_, i) => from + i);
    const read: unknown = dataset.readLabels(indexes, labels.subarray(0, count));
    if (read instanceof Promise) {
      read.catch(() => {}); // the error below is the one that counts
      throw badArgument("readLabels must write the labels before it returns, got a promise: only readValues and readIds are awaited");
    }
    for (let i = 0; i < count; i++) {
      if (loss.acceptsLabel(labels[i]!)) continue;
      throw badArgument(`the label of sample ${from + i} is ${labels[i]}: expected ${loss.expectedLabel}`);
    }
  }
}

/** Images with a class each. */
export class ImageDataset implements Dataset {
  /** How many of the images are samples. */
  readonly sampleCount: number;
  /** The lengths of an image: [channels, height, width]. */
  readonly shape: Shape;
  readonly #images: LabelledImages;
  readonly #classes: Uint8Array;

  /** The first `sampleCount` images; all by default. Throws BAD_ARGUMENT. */
  constructor(images: LabelledImages, options: { readonly sampleCount?: number | undefined } = {}) {
    checkOptions(options, ["sampleCount"], "the options of an ImageDataset");
    const { sampleCount = images.count } = options;
    this.sampleCount = checkedCount(sampleCount, images.count);
    this.shape = images.shape;
    this.#images = images;
    this.#classes = new Uint8Array(images.count);
  }

  readValues(indexes: Uint32Array, into: Activations): void {
    this.#images.read(indexes, into, this.#classes);
  }

  readLabels(indexes: Uint32Array, into: Float32Array): void {
    const { labels } = this.#images;
    for (let i = 0; i < indexes.length; i++) into[i] = labels[indexes[i]!]!;
  }
}

/** The samples of an ArrayDataset. */
export type ArrayDatasetOptions = {
  /** One for each sample: a class, or a number. */
  readonly labels: ArrayLike<number>;
  /** The values of the samples, if they have some. */
  readonly values?:
    | {
        /** The lengths of one sample. */
        readonly shape: Shape;
        /** All samples, one after the other. */
        readonly floats: Float32Array;
      }
    | undefined;
  /** The ids of the samples, if they have some. */
  readonly ids?:
    | {
        /** How many ids a sample has. */
        readonly idsPerSample: number;
        /** The ids of all samples, one sample after the other. */
        readonly list: ArrayLike<number>;
      }
    | undefined;
};

/** Samples in arrays, one after the other. They are kept, not copied. */
export class ArrayDataset implements Dataset {
  /** How many samples there are: as many as labels. */
  readonly sampleCount: number;
  /** The lengths of a sample's values; undefined without values. */
  readonly shape: Shape | undefined;
  /** How many ids a sample has; 0 without ids. */
  readonly idsPerSample: number;
  /** Writes the values of these samples; undefined without values. */
  readonly readValues: Dataset["readValues"];
  /** Writes the ids of these samples; undefined without ids. */
  readonly readIds: Dataset["readIds"];
  readonly #labels: ArrayLike<number>;

  /** Throws BAD_ARGUMENT if lengths do not fit each other. */
  constructor(options: ArrayDatasetOptions) {
    checkOptions(options, ["labels", "values", "ids"], "the options of an ArrayDataset");
    const { labels, values, ids } = options;
    this.sampleCount = labels.length;
    this.shape = values?.shape;
    this.idsPerSample = ids?.idsPerSample ?? 0;
    this.#labels = labels;
    if (values !== undefined) {
      const size = floatsOf(values.shape);
      checkLength("values", values.floats.length, size * labels.length);
      this.readValues = (indexes, into) => {
        for (let i = 0; i < indexes.length; i++)
          into.values.set(values.floats.subarray(indexes[i]! * size, (indexes[i]! + 1) * size), i * size);
      };
    }
    if (ids !== undefined) {
      const { idsPerSample, list } = ids;
      checkLength("ids", list.length, idsPerSample * labels.length);
      this.readIds = (indexes, into) => {
        for (let i = 0; i < indexes.length; i++) {
          for (let j = 0; j < idsPerSample; j++) into[i * idsPerSample + j] = list[indexes[i]! * idsPerSample + j]!;
        }
      };
    }
  }

  readLabels(indexes: Uint32Array, into: Float32Array): void {
    for (let i = 0; i < indexes.length; i++) into[i] = this.#labels[indexes[i]!]!;
  }
}

function checkedCount(wanted: number, there: number): number {
  if (Number.isSafeInteger(wanted) && wanted >= 1 && wanted <= there) return wanted;
  throw badArgument(`sampleCount: expected 1 to ${there}, got ${wanted}`);
}

function checkLength(what: string, actual: number, expected: number): void {
  if (actual === expected) return;
  throw badArgument(`the data set has ${actual} ${what}, but its labels require ${expected}`);
}
