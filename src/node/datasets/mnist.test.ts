// Goal: the digits are read whole, and a file that is missing, cut short, too long or of another kind is named in a
// typed error.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import { Activations } from "../../nn/activations.ts";
import { Workspace } from "../../nn/workspace.ts";
import { readMnist } from "./mnist.ts";

const directories: string[] = [];
after(() => {
  for (const directory of directories) rmSync(directory, { recursive: true });
});

function idx(lengths: readonly number[], elements: ArrayLike<number>): Buffer {
  const header = Buffer.alloc(4 + 4 * lengths.length);
  header.set([0, 0, 8, lengths.length]);
  for (const [i, length] of lengths.entries()) header.writeUInt32BE(length, 4 + 4 * i);
  return Buffer.concat([header, Uint8Array.from(elements)]);
}

const IMAGES = idx([2, 28, 28], { length: 1568 });
const LABELS = idx([2], [3, 9]);

/** Two digits to train on, with one or the other file replaced. */
function directoryWith(files: { readonly images?: Buffer; readonly labels?: Buffer } = {}): string {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-mnist-"));
  directories.push(directory);
  writeFileSync(join(directory, "train-images-idx3-ubyte"), files.images ?? IMAGES);
  writeFileSync(join(directory, "train-labels-idx1-ubyte"), files.labels ?? LABELS);
  return directory;
}

function assertRefused(directory: string, code: ErrorCode, culprit: string): void {
  assert.throws(
    () => readMnist("train", { directory }),
    (error) => isWeighbridgeError(error, code) && error.message.includes(culprit),
  );
}

describe("the package's files", () => {
  test("hold 60,000 digits to train on and 10,000 to test with, about as many of each", () => {
    const [train, digits] = [readMnist("train"), readMnist("test")];
    assert.deepEqual([train.count, digits.count], [60_000, 10_000]);
    for (const { labels, count, classCount } of [train, digits]) {
      const counts = Array.from({ length: classCount }, (_, label) => labels.filter((other) => other === label).length);
      assert.ok(Math.min(...counts) > count * 0.08 && Math.max(...counts) < count * 0.12, counts.join(" "));
    }
  });

  test("are read into a network's input, black as 0 and white as 1", () => {
    const digits = readMnist("test");
    const input = new Activations(new Workspace(), [1, 28, 28], 4);
    const labels = new Uint8Array(4);
    digits.read(Uint32Array.of(9_999, 0, 1), input, labels);
    assert.equal(input.sampleCount, 3);
    assert.deepEqual([...labels.subarray(0, 3)], [digits.labels[9_999], digits.labels[0], digits.labels[1]]);
    const [least, most] = [Math.min(...input.current), Math.max(...input.current)];
    assert.deepEqual([least, most], [0, 1]);
    const at = digits.pixels.subarray(784, 1568).findIndex((pixel) => pixel > 0 && pixel < 255);
    assert.equal(input.values[2 * 784 + at], Math.fround(digits.pixels[784 + at]! / 255));
    const isRefused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT");
    assert.throws(() => digits.read(Uint32Array.of(10_000), input, labels), isRefused);
    assert.throws(() => digits.read(new Uint32Array(5), input, labels), isRefused);
    assert.throws(() => digits.read(new Uint32Array(1), new Activations(new Workspace(), [784], 4), labels), isRefused);
  });
});

describe("other files", () => {
  test("a small data set of the same form is taken", () => {
    const { count, labels } = readMnist("train", { directory: directoryWith() });
    assert.equal(count, 2);
    assert.deepEqual([...labels], [3, 9]);
  });

  test("the first digits alone are read where no more are asked for, of whole files", () => {
    const directory = directoryWith();
    for (const [countMax, count] of [
      [1, 1],
      [2, 2],
      [60_000, 2],
    ] as const) {
      const digits = readMnist("train", { directory, countMax });
      assert.deepEqual([digits.count, digits.pixels.length, [...digits.labels]], [count, count * 784, [3, 9].slice(0, count)]);
    }
    for (const countMax of [0, -1, 1.5, NaN])
      assert.throws(
        () => readMnist("train", { directory, countMax }),
        (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
      );
    const torn = directoryWith({ images: IMAGES.subarray(0, IMAGES.length - 1) });
    assert.throws(
      () => readMnist("train", { directory: torn, countMax: 1 }),
      (error) => isWeighbridgeError(error, "DATASET_TORN"),
    );
  });

  test("a part goes by its name or by that of its files; any other is refused with the names there are", () => {
    const directory = directoryWith();
    for (const part of ["t10k", "test"] as const)
      assert.throws(
        () => readMnist(part, { directory }),
        (error) => isWeighbridgeError(error, "DATASET_MISSING") && error.message.includes("t10k-images-idx3-ubyte"),
      );
    for (const part of ["tets", "", "constructor", undefined, 3])
      assert.throws(
        () => readMnist(part as "test", { directory }),
        (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /one of train, test, t10k/.test(error.message),
      );
  });

  test("missing ones are named", () => {
    const directory = directoryWith();
    assert.throws(
      () => readMnist("test", { directory }),
      (error) => isWeighbridgeError(error, "DATASET_MISSING") && error.message.includes("t10k-images-idx3-ubyte"),
    );
    assertRefused(join(directory, "nowhere"), "DATASET_MISSING", "nowhere");
  });

  test("a file that was cut anywhere, or goes on, is torn", () => {
    for (const length of [0, 3, 4, 15, 16, 100, IMAGES.length - 1]) {
      assertRefused(directoryWith({ images: IMAGES.subarray(0, length) }), "DATASET_TORN", "train-images");
    }
    assertRefused(directoryWith({ images: Buffer.concat([IMAGES, Buffer.of(1)]) }), "DATASET_TORN", "train-images");
    assertRefused(directoryWith({ labels: LABELS.subarray(0, 9) }), "DATASET_TORN", "train-labels");
  });

  test("a file of another kind or shape is foreign", () => {
    assertRefused(directoryWith({ images: LABELS }), "DATASET_FOREIGN", "train-images");
    assertRefused(directoryWith({ labels: IMAGES }), "DATASET_FOREIGN", "train-labels");
    assertRefused(directoryWith({ images: Buffer.from("PNG and so on") }), "DATASET_FOREIGN", "train-images");
    assertRefused(directoryWith({ images: idx([2, 14, 56], { length: 1568 }) }), "DATASET_FOREIGN", "14 × 56");
    assertRefused(directoryWith({ images: idx([0, 28, 28], []), labels: idx([0], []) }), "DATASET_FOREIGN", "train-images");
    assertRefused(directoryWith({ labels: idx([3], [1, 2, 3]) }), "DATASET_FOREIGN", "train-labels");
    assertRefused(directoryWith({ labels: idx([2], [1, 10]) }), "DATASET_FOREIGN", "10 at 1");
  });
});
