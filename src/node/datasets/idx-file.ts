// idx-file — reads a file of bytes in the IDX format, in which MNIST comes:
//
//   offset   type        field            big-endian
//        0   u8 × 2      0
//        2   u8          8: elements are unsigned bytes
//        3   u8          d, the number of lengths
//        4   u32 × d     lengths
//    4+4·d   u8 × …      elements, last length fastest

import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";

const UNSIGNED_BYTE = 8;
const PREFIX_BYTES = 4;
const LENGTH_BYTES = 4;

export type IdxFile = {
  readonly lengths: readonly number[];
  /** A view of what was read. */
  readonly elements: Uint8Array;
};

/** Throws DATASET_MISSING, DATASET_FOREIGN where it is no such file, and DATASET_TORN where it is shorter or longer than it says. */
export function readIdxFile(path: string, lengthCount: number): IdxFile {
  const bytes = readBytes(path);
  const headerBytes = PREFIX_BYTES + LENGTH_BYTES * lengthCount;
  if (bytes.length < PREFIX_BYTES) throw torn(path, `at least ${headerBytes} bytes`, bytes.length);
  const [zero, alsoZero, type, count] = bytes;
  if (zero !== 0 || alsoZero !== 0 || type !== UNSIGNED_BYTE || count !== lengthCount) {
    const expected = [0, 0, UNSIGNED_BYTE, lengthCount].join(" ");
    throw new WeighbridgeError(
      "DATASET_FOREIGN",
      `${path} is no IDX file of bytes with ${lengthCount} lengths: it starts with ${bytes.subarray(0, PREFIX_BYTES).join(" ")}, expected ${expected}`,
    );
  }
  if (bytes.length < headerBytes) throw torn(path, `at least ${headerBytes} bytes`, bytes.length);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const lengths = Array.from({ length: lengthCount }, (_, i) => view.getUint32(PREFIX_BYTES + LENGTH_BYTES * i));
  const size = headerBytes + lengths.reduce((product, length) => product * length, 1);
  if (bytes.length !== size) throw torn(path, `${size} bytes for [${lengths.join(", ")}]`, bytes.length);
  return { lengths, elements: bytes.subarray(headerBytes) };
}

/** The first length, without reading the rest; undefined when there is no such file, or one of another kind. */
export function countOfIdxFile(path: string, lengthCount: number): number | undefined {
  const header = Buffer.alloc(PREFIX_BYTES + LENGTH_BYTES);
  try {
    const file = openSync(path, "r");
    try {
      if (readSync(file, header) < header.length) return undefined;
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined; // Who reads it says what is wrong.
  }
  const isIdx = header.readUInt16BE(0) === 0 && header[2] === UNSIGNED_BYTE && header[3] === lengthCount;
  return isIdx ? header.readUInt32BE(PREFIX_BYTES) : undefined;
}

function readBytes(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new WeighbridgeError("DATASET_MISSING", `${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
}

function torn(path: string, expected: string, actual: number): WeighbridgeError {
  return new WeighbridgeError("DATASET_TORN", `${path}: expected ${expected}, found ${actual}: it is not whole`);
}
