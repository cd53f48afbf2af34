// mshadow-ps's nnet_ps: a net of 784, 100 and 10 neurons whose batches several devices share. Every device has all
// weights; gradients are summed by the shared model, and the callback of each pull updates the weights on the device.

import type { Cuda, CudaKernel, DeviceTensor, KernelArgument, SharedModel } from "weighbridge/shared-model";
import { SOURCE } from "./kernels.ts";

const INPUTS = 784;
const HIDDEN = 100;
const OUTPUTS = 10;
const BATCH = 100;
const RATE = 0.8;
const DECAY = 1e-5; // of weights, not of biases
const THREADS = 128;
const KERNELS = [
  "readImages",
  "forward",
  "softmaxGradient",
  "weightGradient",
  "biasGradient",
  "backward",
  "update",
  "countErrors",
] as const;

/** Keys of the model, in the order in which a forward pass needs them. */
const HIDDEN_WEIGHTS = 0;
const HIDDEN_BIAS = 1;
const OUTPUT_WEIGHTS = 2;
const OUTPUT_BIAS = 3;
const SHAPES: readonly (readonly number[])[] = [[INPUTS, HIDDEN], [HIDDEN], [HIDDEN, OUTPUTS], [OUTPUTS]];

export type Images = { readonly pixels: Uint8Array; readonly labels: Uint8Array; readonly count: number };

/** What one device has. Tensors of a batch are for up to `rows` images. */
export class DeviceNet {
  readonly #model: SharedModel<DeviceTensor>;
  readonly #device: number;
  readonly #rows: number;
  readonly #kernels: Readonly<Record<(typeof KERNELS)[number], CudaKernel>>;
  readonly #weights: readonly DeviceTensor[];
  readonly #gradients: readonly DeviceTensor[];
  readonly #images: DeviceTensor;
  readonly #labels: DeviceTensor;
  readonly #input: DeviceTensor;
  readonly #hidden: DeviceTensor;
  readonly #output: DeviceTensor;
  readonly #hiddenDelta: DeviceTensor;
  readonly #errors: DeviceTensor;

  private constructor(cuda: Cuda, model: SharedModel<DeviceTensor>, device: number, images: Images, rows: number) {
    const card = cuda.device(device);
    this.#model = model;
    this.#device = device;
    this.#rows = rows;
    const kernels = KERNELS.map((name) => [name, card.kernel(SOURCE, name)] as const);
    this.#kernels = Object.fromEntries(kernels) as Record<(typeof KERNELS)[number], CudaKernel>;
    this.#weights = SHAPES.map((shape) => card.allocate(shape));
    this.#gradients = SHAPES.map((shape) => card.allocate(shape));
    this.#images = card.allocate([images.count, INPUTS], { dtype: "u8" });
    this.#labels = card.allocate([images.count], { dtype: "u8" });
    this.#input = card.allocate([rows, INPUTS]);
    this.#hidden = card.allocate([rows, HIDDEN]);
    this.#output = card.allocate([rows, OUTPUTS]);
    this.#hiddenDelta = card.allocate([rows, HIDDEN]);
    this.#errors = card.allocate([1], { dtype: "u32" });
  }

  /** The same first weights on every device: normal, σ = 0.01; biases 0. */
  static async open(cuda: Cuda, model: SharedModel<DeviceTensor>, device: number, images: Images, rows: number): Promise<DeviceNet> {
    const net = new DeviceNet(cuda, model, device, images, rows);
    const draw = normal(1);
    for (const [key, weights] of net.#weights.entries()) {
      await model.initKey(weights.shape, key, device);
      await weights.copyFrom(Float32Array.from({ length: weights.length }, () => (weights.shape.length === 1 ? 0 : 0.01 * draw())));
    }
    await net.#images.copyFrom(images.pixels);
    await net.#labels.copyFrom(images.labels);
    return net;
  }

  /** Learns from `rows` images from this one on, its share of a batch. */
  async learn(first: number): Promise<void> {
    const rows = this.#rows;
    await this.#compute(first, rows);
    const size = [{ i32: rows }, { i32: HIDDEN }, { i32: OUTPUTS }] as const;
    this.#launch("softmaxGradient", rows, this.#output, this.#labels, { i32: first }, { i32: rows }, { i32: OUTPUTS }, { f32: 1 / BATCH });
    // The last layer is done first; its gradients travel while the first is computed, and go behind those of the first.
    this.#launch("backward", rows * HIDDEN, this.#hiddenDelta, this.#output, this.#weights[OUTPUT_WEIGHTS]!, this.#hidden, ...size);
    this.#launch("weightGradient", HIDDEN * OUTPUTS, this.#gradients[OUTPUT_WEIGHTS]!, this.#hidden, this.#output, ...size);
    this.#launch("biasGradient", OUTPUTS, this.#gradients[OUTPUT_BIAS]!, this.#output, { i32: rows }, { i32: OUTPUTS });
    this.#share(OUTPUT_BIAS);
    this.#share(OUTPUT_WEIGHTS);
    const firstSize = [{ i32: rows }, { i32: INPUTS }, { i32: HIDDEN }] as const;
    this.#launch("weightGradient", INPUTS * HIDDEN, this.#gradients[HIDDEN_WEIGHTS]!, this.#input, this.#hiddenDelta, ...firstSize);
    this.#launch("biasGradient", HIDDEN, this.#gradients[HIDDEN_BIAS]!, this.#hiddenDelta, { i32: rows }, { i32: HIDDEN });
    this.#share(HIDDEN_BIAS);
    this.#share(HIDDEN_WEIGHTS);
  }

  /** How many of the first `count` images it takes for another digit. */
  async errors(count: number): Promise<number> {
    this.#errors.fill(0);
    await this.#compute(0, count);
    this.#launch("countErrors", count, this.#errors, this.#output, this.#labels, { i32: count }, { i32: OUTPUTS });
    return Number((await this.#errors.toArray())[0]);
  }

  /** When all updates that are under way are done. */
  async weights(): Promise<readonly Float32Array[]> {
    for (const key of this.#weights.keys()) await this.#model.pullWait(key, this.#device);
    return Promise.all(this.#weights.map(async (weights) => (await weights.toArray()) as Float32Array));
  }

  /** The weights that this net learns with from now on. */
  async setWeights(weights: readonly Float32Array[]): Promise<void> {
    for (const [key, values] of weights.entries()) await this.#weights[key]!.copyFrom(values);
  }

  /** Waits for the weights of a layer just before it needs them. */
  async #compute(first: number, rows: number): Promise<void> {
    const pixels = rows * INPUTS;
    this.#launch("readImages", pixels, this.#input, this.#images, { i32: first * INPUTS }, { i32: pixels });
    for (const [from, to, weights, bias, isSigmoid] of [
      [this.#input, this.#hidden, HIDDEN_WEIGHTS, HIDDEN_BIAS, 1],
      [this.#hidden, this.#output, OUTPUT_WEIGHTS, OUTPUT_BIAS, 0],
    ] as const) {
      await this.#model.pullWait(weights, this.#device);
      await this.#model.pullWait(bias, this.#device);
      const [inputs, outputs] = this.#weights[weights]!.shape as [number, number];
      const sizes = [{ i32: rows }, { i32: inputs }, { i32: outputs }, { i32: isSigmoid }] as const;
      this.#launch("forward", rows * outputs, to, from, this.#weights[weights]!, this.#weights[bias]!, ...sizes);
    }
  }

  /** Sums a gradient over the devices and updates the weights with it; the first layer goes first. */
  #share(key: number): void {
    const [weights, gradient] = [this.#weights[key]!, this.#gradients[key]!];
    this.#model.push(gradient, key, this.#device, -key);
    this.#model.pullReq(gradient, key, this.#device, -key, () => {
      const decay = weights.shape.length === 1 ? 0 : DECAY;
      this.#launch("update", weights.length, weights, gradient, { f32: RATE }, { f32: decay }, { i32: weights.length });
    });
  }

  #launch(name: (typeof KERNELS)[number], count: number, ...values: readonly KernelArgument[]): void {
    this.#kernels[name].launch({ grid: Math.ceil(count / THREADS), block: THREADS }, ...values);
  }
}

/** Trains for so many batches of 100, which the devices share. */
export async function trainBatches(nets: readonly DeviceNet[], batches: number, imageCount: number): Promise<void> {
  const rows = BATCH / nets.length;
  await Promise.all(
    nets.map(async (net, position) => {
      for (let batch = 0; batch < batches; batch++) await net.learn(((batch * BATCH) % imageCount) + position * rows);
    }),
  );
}

export function rowsOf(deviceCount: number): number {
  if (BATCH % deviceCount !== 0) throw new Error(`a batch of ${BATCH} does not divide by ${deviceCount} devices`);
  return BATCH / deviceCount;
}

/** Box and Muller over a linear congruential generator: the same numbers everywhere. */
function normal(seed: number): () => number {
  let state = seed;
  const fraction = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(fraction())) * Math.cos(2 * Math.PI * fraction());
}
