// cuda-kernel — a kernel of CUDA C++ that was compiled at run time, and how it is launched.
//
// Invariants:
//   CudaKernel.K1. A launch has as many values as the kernel has parameters, each of its size: the driver would read
//       beyond them otherwise.
//   CudaKernel.K2. A launch returns at once; what fails on the card fails the next wait for it (DEVICE_FAILED).

import { badArgument, showValue, unsupported } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import type { CudaCard } from "./cuda-card.ts";
import { CUDA_SUCCESS } from "./cuda-driver.ts";
import type { CudaStream } from "./cuda-stream.ts";
import { DeviceTensor } from "./device-tensor.ts";

/** A tensor stands for its address. Plain numbers do not say how many bytes a kernel reads, so they are named. */
export type KernelArgument =
  | DeviceTensor
  | { readonly i32: number }
  | { readonly u32: number }
  | { readonly f32: number }
  | { readonly f64: number }
  | { readonly u64: number | bigint };

/** Blocks of a grid, or threads of a block: along x, or along x, y and z. */
export type LaunchSize = number | readonly [x: number, y?: number, z?: number];

/** How a kernel is launched. */
export type LaunchOptions = {
  readonly grid: LaunchSize;
  readonly block: LaunchSize;
  /** Bytes of dynamic shared memory. Defaults to 0. */
  readonly sharedBytes?: number | undefined;
  /** Defaults to the stream of the device that compiled the kernel. */
  readonly stream?: CudaStream | undefined;
};

const LAUNCH_OPTIONS = ["grid", "block", "sharedBytes", "stream"];
const PARAMETERS_MAX = 64;
/** The most that a kernel's parameters take together; one that is passed by value may be a structure. */
export const PARAMETER_BYTES_MAX = 4096;

/** A kernel that is compiled for a card. */
export class CudaKernel {
  readonly name: string;
  readonly #card: CudaCard;
  readonly #stream: CudaStream;
  readonly #handle: number;
  /** Bytes of each parameter. */
  readonly #sizes: readonly number[];
  /** Values of the parameters, 8-byte aligned, and where each lies; the driver copies them at the launch. */
  readonly #values = new DataView(new ArrayBuffer(PARAMETERS_MAX * 8));
  readonly #pointers = new BigUint64Array(PARAMETERS_MAX);

  /** @internal A device compiles kernels. */
  constructor(stream: CudaStream, source: string, name: string, options: readonly string[] = []) {
    const { card } = stream;
    this.name = name;
    this.#card = card;
    this.#stream = stream;
    this.#handle = card.kernelHandle(source, name, options);
    this.#sizes = parameterSizes(card, this.#handle);
    if (this.#sizes.length > PARAMETERS_MAX)
      throw unsupported(`kernel ${name} has ${this.#sizes.length} parameters; ${PARAMETERS_MAX} are the most`);
    const base = card.driver.native.address(this.#values);
    for (let i = 0; i < PARAMETERS_MAX; i++) this.#pointers[i] = base + BigInt(8 * i);
  }

  /**
   * Launches it and returns at once (CudaKernel.K2). Throws BAD_ARGUMENT for values that do not fit (CudaKernel.K1),
   * DEVICE_FAILED if the driver refuses the launch.
   */
  launch(options: LaunchOptions, ...values: readonly KernelArgument[]): void {
    if (values.length !== this.#sizes.length)
      throw badArgument(`kernel ${this.name} has ${this.#sizes.length} parameters, and got ${values.length} values`);
    for (const [i, value] of values.entries()) {
      const bytes = writeValue(this.#values, 8 * i, value);
      if (bytes !== this.#sizes[i])
        throw badArgument(`parameter ${i} of kernel ${this.name} takes ${this.#sizes[i]} bytes, and the value has ${bytes}`);
    }
    this.launchWith(this.#pointers, options);
  }

  /**
   * The same with the addresses of the values, for those who keep them. Nothing checks that there are as many values
   * as parameters, each of its size (CudaKernel.K1).
   */
  launchWith(pointers: BigUint64Array, options: LaunchOptions): void {
    checkOptions(options, LAUNCH_OPTIONS, "the options of a launch");
    const { grid, block, sharedBytes = 0, stream = this.#stream } = options;
    const [gridX, gridY, gridZ] = sizes("grid", grid);
    const [blockX, blockY, blockZ] = sizes("block", block);
    this.#card.enter();
    const { cuLaunchKernel } = this.#card.driver.functions;
    const { handle } = stream;
    const code = cuLaunchKernel(this.#handle, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, handle, pointers, null);
    if (code !== CUDA_SUCCESS)
      this.#card.check(code, `launch of kernel ${this.name} with grid ${showValue(grid)} and block ${showValue(block)}`);
  }
}

function sizes(what: string, size: LaunchSize): readonly [number, number, number] {
  const [x, y = 1, z = 1] = typeof size === "number" ? [size] : size;
  for (const number of [x, y, z])
    if (!Number.isSafeInteger(number) || number < 1 || number >= 2 ** 31)
      throw badArgument(`${what} is of whole numbers above 0, not ${showValue(size)}`);
  return [x, y, z];
}

/** Returns how many bytes it has written. */
function writeValue(target: DataView, offset: number, value: KernelArgument): number {
  if (value instanceof DeviceTensor) {
    target.setBigUint64(offset, BigInt(value.address), true);
    return 8;
  }
  if ("i32" in value) target.setInt32(offset, value.i32, true);
  else if ("u32" in value) target.setUint32(offset, value.u32, true);
  else if ("f32" in value) target.setFloat32(offset, value.f32, true);
  else if ("f64" in value) {
    target.setFloat64(offset, value.f64, true);
    return 8;
  } else if ("u64" in value) {
    target.setBigUint64(offset, BigInt(value.u64), true);
    return 8;
  } else throw badArgument(`a kernel takes tensors and { i32: 1 } and the like, not ${showValue(value)}`);
  return 4;
}

function parameterSizes(card: CudaCard, handle: number): readonly number[] {
  const [offset, size] = [new BigUint64Array(8), new BigUint64Array(8)];
  const sizes: number[] = [];
  // The driver refuses an index beyond the last parameter.
  while (card.driver.functions.cuFuncGetParamInfo(handle, sizes.length, offset, size) === CUDA_SUCCESS) sizes.push(Number(size[0]));
  return sizes;
}
