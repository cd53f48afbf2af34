// plain-layer-kernels — the reference of LayerKernels in plain TypeScript, every operation rounded to f32 as the
// unfused kernels round it. The tests' oracle; also works where there is no SIMD, slowly.

import type { Arena } from "../../src/kernel/arena.ts";
import { type LayerKernels, PRODUCT } from "../../src/nn/layer-kernels.ts";

const round = Math.fround;

export class PlainLayerKernels implements LayerKernels {
  readonly #floats: Float32Array;
  readonly #words: Uint32Array;
  readonly #doubles: Float64Array;

  constructor(arena: Arena) {
    const { buffer } = arena.memory;
    this.#floats = new Float32Array(buffer);
    this.#words = new Uint32Array(buffer);
    this.#doubles = new Float64Array(buffer);
  }

  multiply(m: number, n: number, k: number, a: number, b: number, c: number, flags: number): void {
    this.multiplyRows(0, m, m, n, k, a, b, c, flags);
  }

  multiplyRows(from: number, to: number, m: number, n: number, k: number, a: number, b: number, c: number, flags: number): void {
    const f = this.#floats;
    const isTransposed = (flags & PRODUCT.firstTransposed) !== 0;
    for (let i = from; i < to; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let d = 0; d < k; d++) sum = round(sum + round(f[a / 4 + (isTransposed ? d * m + i : i * k + d)]! * f[b / 4 + d * n + j]!));
        this.#put(c / 4 + i * n + j, sum, flags);
      }
    }
  }

  multiplyTransposed(m: number, n: number, k: number, a: number, b: number, c: number, flags: number): void {
    const f = this.#floats;
    const lanes = new Float32Array(4);
    const wide = k - (k % 4);
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        const product = (d: number): number => round(f[a / 4 + i * k + d]! * f[b / 4 + j * k + d]!);
        lanes.fill(0);
        for (let d = 0; d < wide; d++) lanes[d % 4] = lanes[d % 4]! + product(d);
        let sum = sumOfLanes(lanes);
        for (let d = wide; d < k; d++) sum = round(sum + product(d));
        this.#put(c / 4 + i * n + j, sum, flags);
      }
    }
  }

  #put(at: number, sum: number, flags: number): void {
    this.#floats[at] = (flags & PRODUCT.accumulate) === 0 ? sum : this.#floats[at]! + sum;
  }

  framePlanes(source: number, planes: number, height: number, width: number, frame: number, target: number): void {
    const [framedHeight, framedWidth] = [height + 2 * frame, width + 2 * frame];
    this.#floats.fill(0, target / 4, target / 4 + planes * framedHeight * framedWidth);
    this.#copyPlanes({ planes, height, width, frame }, (framed, plain) => {
      this.#floats[target / 4 + framed] = this.#floats[source / 4 + plain]!;
    });
  }

  unframePlanes(source: number, planes: number, height: number, width: number, frame: number, target: number): void {
    this.#copyPlanes({ planes, height, width, frame }, (framed, plain) => {
      this.#floats[target / 4 + plain] = this.#floats[source / 4 + framed]!;
    });
  }

  #copyPlanes(
    { planes, height, width, frame }: { planes: number; height: number; width: number; frame: number },
    copy: (framed: number, plain: number) => void,
  ): void {
    for (let plane = 0; plane < planes; plane++) {
      for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
          const framed = (plane * (height + 2 * frame) + y + frame) * (width + 2 * frame) + x + frame;
          copy(framed, (plane * height + y) * width + x);
        }
      }
    }
  }

  unfold(image: number, channels: number, height: number, width: number, size: number, columns: number): void {
    eachUnfolded(channels, height, width, size, (at, source) => {
      this.#floats[columns / 4 + at] = this.#floats[image / 4 + source]!;
    });
  }

  fold(columns: number, channels: number, height: number, width: number, size: number, image: number): void {
    this.#floats.fill(0, image / 4, image / 4 + channels * height * width);
    eachUnfolded(channels, height, width, size, (at, source) => {
      this.#floats[image / 4 + source] = this.#floats[image / 4 + source]! + this.#floats[columns / 4 + at]!;
    });
  }

  addBiasToRows(matrix: number, rows: number, columns: number, bias: number, isRelu: number): void {
    const f = this.#floats;
    for (let i = 0; i < rows * columns; i++) {
      const sum = round(f[matrix / 4 + i]! + f[bias / 4 + Math.floor(i / columns)]!);
      f[matrix / 4 + i] = isRelu === 0 ? sum : Math.max(sum, 0);
    }
  }

  addBiasToColumns(matrix: number, rows: number, columns: number, bias: number, isRelu: number): void {
    const f = this.#floats;
    for (let i = 0; i < rows * columns; i++) {
      const sum = round(f[matrix / 4 + i]! + f[bias / 4 + (i % columns)]!);
      f[matrix / 4 + i] = isRelu === 0 ? sum : Math.max(sum, 0);
    }
  }

  addRowSums(matrix: number, rows: number, columns: number, sums: number): void {
    const f = this.#floats;
    const lanes = new Float32Array(8);
    const wide = columns - (columns % 8);
    for (let i = 0; i < rows; i++) {
      const row = matrix / 4 + i * columns;
      lanes.fill(0);
      for (let j = 0; j < wide; j++) lanes[j % 8] = lanes[j % 8]! + f[row + j]!;
      for (let l = 0; l < 4; l++) lanes[l] = lanes[l]! + lanes[l + 4]!;
      let sum = sumOfLanes(lanes);
      for (let j = wide; j < columns; j++) sum = round(sum + f[row + j]!);
      f[sums / 4 + i] = f[sums / 4 + i]! + sum;
    }
  }

  addColumnSums(matrix: number, rows: number, columns: number, sums: number): void {
    const f = this.#floats;
    for (let i = 0; i < rows * columns; i++) f[sums / 4 + (i % columns)] = f[sums / 4 + (i % columns)]! + f[matrix / 4 + i]!;
  }

  relu(input: number, floatCount: number, output: number): void {
    for (let i = 0; i < floatCount; i++) this.#floats[output / 4 + i] = Math.max(this.#floats[input / 4 + i]!, 0);
  }

  reluGradient(gradient: number, output: number, floatCount: number, target: number): void {
    const f = this.#floats;
    for (let i = 0; i < floatCount; i++) f[target / 4 + i] = f[output / 4 + i]! > 0 ? f[gradient / 4 + i]! : 0;
  }

  sigmoid(input: number, floatCount: number, output: number): void {
    for (let i = 0; i < floatCount; i++) {
      this.#floats[output / 4 + i] = 1 / round(1 + exponential(-this.#floats[input / 4 + i]!));
    }
  }

  sigmoidGradient(gradient: number, output: number, floatCount: number, target: number): void {
    const f = this.#floats;
    for (let i = 0; i < floatCount; i++) {
      const y = f[output / 4 + i]!;
      f[target / 4 + i] = f[gradient / 4 + i]! * round(y * round(1 - y));
    }
  }

  maxPool(input: number, planes: number, height: number, width: number, size: number, output: number, indexes: number): void {
    let at = 0;
    for (let plane = 0; plane < planes; plane++) {
      for (let y = 0; y + size <= height; y += size) {
        for (let x = 0; x + size <= width; x += size, at++) {
          const value = (index: number): number => this.#floats[input / 4 + plane * height * width + index]!;
          let best = y * width + x;
          for (let i = 0; i < size * size; i++) {
            const index = (y + Math.floor(i / size)) * width + x + (i % size);
            if (value(index) > value(best)) best = index;
          }
          this.#floats[output / 4 + at] = value(best);
          this.#words[indexes / 4 + at] = best;
        }
      }
    }
  }

  maxPoolGradient(gradient: number, indexes: number, planes: number, outFloats: number, inFloats: number, target: number): void {
    this.#floats.fill(0, target / 4, target / 4 + planes * inFloats);
    for (let i = 0; i < planes * outFloats; i++) {
      const plane = Math.floor(i / outFloats);
      this.#floats[target / 4 + plane * inFloats + this.#words[indexes / 4 + i]!] = this.#floats[gradient / 4 + i]!;
    }
  }

  softmaxGradient(
    logits: number,
    labels: number,
    rows: number,
    columns: number,
    scale: number,
    gradient: number,
    peaks: number,
    sums: number,
  ): void {
    const f = this.#floats;
    for (let i = 0; i < rows; i++) {
      const row = f.subarray(logits / 4 + i * columns, logits / 4 + (i + 1) * columns);
      const target = f.subarray(gradient / 4 + i * columns, gradient / 4 + (i + 1) * columns);
      const peak = row.reduce((greatest, value) => Math.max(greatest, value), row[0]!);
      for (let j = 0; j < columns; j++) target[j] = exponential(round(row[j]! - peak));
      const sum = target.reduce((partial, value) => round(partial + value), 0);
      f[peaks / 4 + i] = peak;
      f[sums / 4 + i] = sum;
      const label = this.#words[labels / 4 + i]!;
      for (let j = 0; j < columns; j++) target[j] = round(round(target[j]! / sum) - (j === label ? 1 : 0)) * round(scale);
    }
  }

  channelSums(x: number, y: number, samples: number, channels: number, plane: number, sums: number, products: number): void {
    this.#doubles.fill(0, sums / 8, sums / 8 + channels);
    this.#doubles.fill(0, products / 8, products / 8 + channels);
    for (let i = 0; i < samples * channels * plane; i++) {
      const channel = Math.floor(i / plane) % channels;
      const value = this.#floats[x / 4 + i]!;
      this.#doubles[sums / 8 + channel] = this.#doubles[sums / 8 + channel]! + value;
      this.#doubles[products / 8 + channel] = this.#doubles[products / 8 + channel]! + value * this.#floats[y / 4 + i]!;
    }
  }

  combineChannels(
    x: number,
    y: number,
    samples: number,
    channels: number,
    plane: number,
    a: number,
    b: number,
    shift: number,
    target: number,
  ): void {
    const f = this.#floats;
    for (let i = 0; i < samples * channels * plane; i++) {
      const channel = Math.floor(i / plane) % channels;
      const sum = round(round(f[x / 4 + i]! * f[a / 4 + channel]!) + round(f[y / 4 + i]! * f[b / 4 + channel]!));
      f[target / 4 + i] = sum + f[shift / 4 + channel]!;
    }
  }

  dotOfHalves(rows: number, samples: number, width: number, output: number): void {
    for (let i = 0; i < samples; i++) {
      const row = rows + i * width * 8;
      this.multiplyTransposed(1, 1, width, row, row + width * 4, output + i * 4, 0);
    }
  }

  dotOfHalvesGradient(gradient: number, rows: number, samples: number, width: number, target: number): void {
    const f = this.#floats;
    for (let i = 0; i < samples * 2 * width; i++) {
      const other = i % (2 * width) < width ? i + width : i - width;
      f[target / 4 + i] = f[gradient / 4 + Math.floor(i / (2 * width))]! * f[rows / 4 + other]!;
    }
  }

  findOutOfRange(ids: number, idCount: number, rowCount: number): number {
    for (let i = 0; i < idCount; i++) if (this.#words[ids / 4 + i]! >= rowCount) return i;
    return -1;
  }

  sumOfRows(table: number, rowCount: number, width: number, ids: number, bagCount: number, bagSize: number, output: number): void {
    this.#floats.fill(0, output / 4, output / 4 + bagCount * width);
    this.#eachId(ids, bagCount * bagSize, rowCount, (id, i) => {
      this.#addFloats(table / 4 + id * width, width, output / 4 + Math.floor(i / bagSize) * width);
    });
  }

  addToRows(gradient: number, width: number, ids: number, bagCount: number, bagSize: number, rowCount: number, table: number): void {
    this.#eachId(ids, bagCount * bagSize, rowCount, (id, i) => {
      this.#addFloats(gradient / 4 + Math.floor(i / bagSize) * width, width, table / 4 + id * width);
    });
  }

  #eachId(ids: number, idCount: number, rowCount: number, visit: (id: number, index: number) => void): void {
    for (let i = 0; i < idCount; i++) {
      const id = this.#words[ids / 4 + i]!;
      if (id < rowCount) visit(id, i);
    }
  }

  #addFloats(source: number, count: number, target: number): void {
    for (let i = 0; i < count; i++) this.#floats[target + i] = this.#floats[target + i]! + this.#floats[source + i]!;
  }
}

/** (l0 + l2) + (l1 + l3). */
function sumOfLanes(lanes: Float32Array): number {
  return round(round(lanes[0]! + lanes[2]!) + round(lanes[1]! + lanes[3]!));
}

/** Every element of the unfolded matrix, and where in the image it comes from. */
function eachUnfolded(channels: number, height: number, width: number, size: number, visit: (at: number, source: number) => void): void {
  let at = 0;
  for (let row = 0; row < channels * size * size; row++) {
    const [channel, dy, dx] = [Math.floor(row / (size * size)), Math.floor(row / size) % size, row % size];
    for (let y = 0; y + size <= height; y++) {
      for (let x = 0; x + size <= width; x++) visit(at++, (channel * height + y + dy) * width + x + dx);
    }
  }
}

const LOG2_E = round(Math.LOG2E);
const LN2_HIGH = 0.693359375;
const LN2_LOW = round(-0.00021219444005469057);
const COEFFICIENTS = [1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1, 1].map(round);

/** e^x as kernels/nn/exponential.as.ts has it. */
export function exponential(x: number): number {
  const held = Math.min(Math.max(x, -87.25), 88.5);
  const n = nearest(round(held * LOG2_E));
  const r = round(round(held - round(n * LN2_HIGH)) - round(n * LN2_LOW));
  const sum = COEFFICIENTS.reduce((partial, coefficient, i) => (i === 0 ? coefficient : round(round(partial * r) + coefficient)), 0);
  return round(sum * 2 ** n);
}

/** To the nearest whole number, of two equally near ones to the even. */
function nearest(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
