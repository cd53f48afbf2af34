// labelled-images — a data set of grey images with a class each, as bytes; reads a batch of it into a network's input.

import { badArgument } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import { type Activations, checkActivations, floatsOf, type Shape } from "./activations.ts";

/** The value of each pixel: 0 to 1. */
const BRIGHTNESS: Float32Array = Float32Array.from({ length: 256 }, (_, pixel) => pixel / 255);

/** What labelled images are made of. */
export type LabelledImagesOptions = {
  /** The lengths of one image: [channels, height, width]. */
  readonly shape: Shape;
  /** All images, one after the other: a byte for each pixel of each channel, 255 for 1. */
  readonly pixels: Uint8Array;
  /** The class of each image, from 0. */
  readonly labels: Uint8Array;
  /** How many classes there are. */
  readonly classCount: number;
};

/** Images with a class each. */
export class LabelledImages {
  /** How many images there are. */
  readonly count: number;
  /** [channels, height, width]. */
  readonly shape: Shape;
  /** All images, one after the other: a byte for each pixel of each channel. */
  readonly pixels: Uint8Array;
  /** The class of each image, from 0. */
  readonly labels: Uint8Array;
  /** How many classes there are. */
  readonly classCount: number;

  /** Throws BAD_ARGUMENT when lengths or labels do not fit. The arrays are kept, not copied. */
  constructor(options: LabelledImagesOptions) {
    checkOptions(options, ["shape", "pixels", "labels", "classCount"], "the options of LabelledImages");
    const { shape, pixels, labels, classCount } = options;
    if (pixels.length !== labels.length * floatsOf(shape)) {
      throw badArgument(
        `${labels.length} images of [${shape.join(", ")}] have ${labels.length * floatsOf(shape)} pixels, got ${pixels.length}`,
      );
    }
    const bad = labels.findIndex((label) => label >= classCount);
    if (bad !== -1) {
      throw badArgument(`the label of image ${bad} is ${labels[bad]}, expected 0 to ${classCount - 1}`);
    }
    this.count = labels.length;
    this.shape = shape;
    this.pixels = pixels;
    this.labels = labels;
    this.classCount = classCount;
  }

  /** Writes these images into `input` and their labels into `labels`, which has room for them. Throws BAD_ARGUMENT. */
  read(indexes: Uint32Array, input: Activations, labels: Uint8Array): void {
    input.sampleCount = indexes.length;
    checkActivations("images", input, this.shape, input.sampleCountMax);
    const size = input.floatsPerSample;
    const { pixels, labels: all, count } = this;
    for (let i = 0; i < indexes.length; i++) {
      const index = indexes[i]!;
      if (index >= count) throw badArgument(`there are ${count} images, and no image ${index}`);
      labels[i] = all[index]!;
      const [from, to] = [index * size, i * size];
      for (let j = 0; j < size; j++) input.values[to + j] = BRIGHTNESS[pixels[from + j]!]!;
    }
  }
}
