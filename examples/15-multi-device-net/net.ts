// mshadow-ps's nnet_ps on the CPU: a net of 784, 100 and 10 neurons whose batches several devices share. Every device
// has all weights; the shared model sums gradients, and the callback of each pull updates the weights of its device.

import type { SharedModel } from "weighbridge/shared-model";

const [INPUTS, HIDDEN, OUTPUTS, BATCH] = [784, 100, 10, 100];
const RATE = 0.8;
const DECAY = 1e-5; // of weights, not of biases
/** Keys of the model, in the order in which a forward pass needs them. */
const SHAPES: readonly (readonly number[])[] = [[INPUTS, HIDDEN], [HIDDEN], [HIDDEN, OUTPUTS], [OUTPUTS]];

export type Images = { readonly pixels: Uint8Array; readonly labels: Uint8Array; readonly count: number };

/** What one device has. */
export class DeviceNet {
  readonly weights: readonly Float32Array[];
  readonly #model: SharedModel<Float32Array>;
  readonly #device: number;
  readonly #rows: number;
  readonly #gradients: readonly Float32Array[];
  readonly #input: Float32Array;
  readonly #hidden: Float32Array;
  readonly #output: Float32Array;
  readonly #hiddenDelta: Float32Array;

  private constructor(model: SharedModel<Float32Array>, device: number, rows: number) {
    this.#model = model;
    this.#device = device;
    this.#rows = rows;
    const draw = normal(1); // the same first weights on every device
    this.weights = SHAPES.map((shape) => Float32Array.from({ length: sizeOf(shape) }, () => (shape.length === 1 ? 0 : 0.01 * draw())));
    this.#gradients = SHAPES.map((shape) => model.tensor(shape, device));
    [this.#input, this.#hidden, this.#output, this.#hiddenDelta] = [INPUTS, HIDDEN, OUTPUTS, HIDDEN].map(
      (width) => new Float32Array(rows * width),
    ) as [Float32Array, Float32Array, Float32Array, Float32Array];
  }

  /** A device that takes so many images of each batch. */
  static async open(model: SharedModel<Float32Array>, device: number, rows: number): Promise<DeviceNet> {
    const net = new DeviceNet(model, device, rows);
    for (const [key, shape] of SHAPES.entries()) await model.initKey(shape, key, device);
    return net;
  }

  /** Learns from its share of a batch: the images from this one on. */
  async learn(images: Images, first: number): Promise<void> {
    await this.#compute(images, first);
    const [rows, output] = [this.#rows, this.#output];
    for (let r = 0; r < rows; r++) softmaxGradient(output.subarray(r * OUTPUTS, (r + 1) * OUTPUTS), images.labels[first + r]!);
    // The last layer is done first; its gradients travel while the first is computed, and go behind those of the first.
    this.#send(2, this.#hidden, output, HIDDEN, OUTPUTS);
    backward(this.#hiddenDelta, output, this.weights[2]!, this.#hidden, rows);
    this.#send(0, this.#input, this.#hiddenDelta, INPUTS, HIDDEN);
  }

  /** How many of the images it takes for another digit. */
  async errors(images: Images): Promise<number> {
    let count = 0;
    for (let first = 0; first < images.count; first += this.#rows) {
      await this.#compute(images, first);
      for (let r = 0; r < this.#rows; r++) {
        const row = this.#output.subarray(r * OUTPUTS, (r + 1) * OUTPUTS);
        if (row.indexOf(Math.max(...row)) !== images.labels[first + r]) count++;
      }
    }
    return count;
  }

  async #compute({ pixels }: Images, first: number): Promise<void> {
    for (let i = 0; i < this.#input.length; i++) this.#input[i] = pixels[first * INPUTS + i]! / 256;
    await this.#layer(0, this.#input, this.#hidden, INPUTS, HIDDEN);
    for (let i = 0; i < this.#hidden.length; i++) this.#hidden[i] = 1 / (1 + Math.exp(-this.#hidden[i]!));
    await this.#layer(2, this.#hidden, this.#output, HIDDEN, OUTPUTS);
  }

  /** Waits for the weights of a layer, whose keys are `key` and `key + 1`, no earlier than they are needed. */
  async #layer(key: number, input: Float32Array, output: Float32Array, inputs: number, outputs: number): Promise<void> {
    await this.#model.pullWait(key, this.#device);
    await this.#model.pullWait(key + 1, this.#device);
    forward(output, input, this.weights[key]!, this.weights[key + 1]!, inputs, outputs);
  }

  #send(key: number, input: Float32Array, delta: Float32Array, inputs: number, outputs: number): void {
    const [weights, bias] = [this.#gradients[key]!, this.#gradients[key + 1]!];
    weightGradient(weights, input, delta, inputs, outputs);
    biasGradient(bias, delta, outputs);
    for (const [at, gradient] of [weights, bias].entries()) this.#exchange(key + at, gradient);
  }

  #exchange(key: number, gradient: Float32Array): void {
    const weights = this.weights[key]!;
    const decay = SHAPES[key]!.length === 1 ? 0 : DECAY;
    this.#model.push(gradient, key, this.#device, -key); // the first layer is needed first
    this.#model.pullReq(gradient, key, this.#device, -key, () => {
      for (let i = 0; i < weights.length; i++) weights[i]! -= RATE * (gradient[i]! / BATCH + decay * weights[i]!);
    });
  }
}

/** How many images of a batch a device takes. */
export function rowsOf(deviceCount: number): number {
  if (BATCH % deviceCount !== 0) throw new Error(`batches of ${BATCH} images cannot be dealt to ${deviceCount} devices`);
  return BATCH / deviceCount;
}

/** Trains on so many batches; each device takes its share, and none waits for another but for the sums. */
export async function trainBatches(nets: readonly DeviceNet[], images: Images, batchCount: number): Promise<void> {
  await Promise.all(
    nets.map(async (net, i) => {
      const rows = BATCH / nets.length;
      for (let batch = 0; batch < batchCount; batch++) await net.learn(images, ((batch * BATCH) % images.count) + i * rows);
    }),
  );
}

function forward(out: Float32Array, input: Float32Array, weights: Float32Array, bias: Float32Array, inputs: number, outputs: number): void {
  for (let r = 0, at = 0; at < out.length; r++, at += outputs) {
    out.set(bias, at);
    for (let i = 0; i < inputs; i++) {
      const value = input[r * inputs + i]!;
      if (value === 0) continue; // most pixels are
      for (let j = 0, from = i * outputs; j < outputs; j++) out[at + j]! += value * weights[from + j]!;
    }
  }
}

function weightGradient(out: Float32Array, input: Float32Array, delta: Float32Array, inputs: number, outputs: number): void {
  out.fill(0);
  for (let r = 0, at = 0; at < delta.length; r++, at += outputs) {
    for (let i = 0; i < inputs; i++) {
      const value = input[r * inputs + i]!;
      if (value === 0) continue;
      for (let j = 0, to = i * outputs; j < outputs; j++) out[to + j]! += value * delta[at + j]!;
    }
  }
}

function biasGradient(out: Float32Array, delta: Float32Array, outputs: number): void {
  out.fill(0);
  for (let i = 0; i < delta.length; i++) out[i % outputs]! += delta[i]!;
}

/** Back through the weights of the last layer, and the sigmoid. */
function backward(out: Float32Array, delta: Float32Array, weights: Float32Array, hidden: Float32Array, rows: number): void {
  for (let r = 0; r < rows; r++) {
    for (let i = 0; i < HIDDEN; i++) {
      let sum = 0;
      for (let j = 0; j < OUTPUTS; j++) sum += delta[r * OUTPUTS + j]! * weights[i * OUTPUTS + j]!;
      const value = hidden[r * HIDDEN + i]!;
      out[r * HIDDEN + i] = sum * value * (1 - value);
    }
  }
}

/** Of softmax and cross entropy, in place. */
function softmaxGradient(row: Float32Array, label: number): void {
  const most = Math.max(...row);
  let sum = 0;
  for (let j = 0; j < row.length; j++) sum += row[j] = Math.exp(row[j]! - most);
  for (let j = 0; j < row.length; j++) row[j] = row[j]! / sum - (j === label ? 1 : 0);
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Numbers of the normal distribution, by Box and Muller, from a seed. */
function normal(seed: number): () => number {
  let state = seed;
  const fraction = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 1) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(fraction())) * Math.cos(2 * Math.PI * fraction());
}
