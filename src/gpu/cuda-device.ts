// cuda-device — a logical device: a number, the card it is on, and a stream of its own. Several may share a card.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import type { CudaCard } from "./cuda-card.ts";
import { CudaKernel } from "./cuda-kernel.ts";
import { CudaEvent, CudaStream } from "./cuda-stream.ts";
import {
  arrayOf,
  bytesOf,
  checkShape,
  checkType,
  DeviceTensor,
  type DeviceTensorOptions,
  lengthOf,
  type TensorArray,
  type TensorType,
} from "./device-tensor.ts";

/** A logical device: a card, or a share of one. */
export class CudaDevice {
  readonly number: number;
  /** @internal */
  readonly card: CudaCard;
  /** Copies, fills and kernels run here unless told otherwise. */
  readonly stream: CudaStream;

  /** @internal */
  constructor(number: number, card: CudaCard) {
    this.number = number;
    this.card = card;
    this.stream = new CudaStream(card);
  }

  /** A tensor with anything in it. Throws DEVICE_MEMORY_FULL. */
  allocate(shape: readonly number[], options: DeviceTensorOptions = {}): DeviceTensor {
    const dtype = typeOf(options);
    checkShape(shape);
    const address = this.card.allocate(lengthOf(shape) * bytesOf(dtype));
    return new DeviceTensor(this, { address, isOwn: true, isFree: false, refs: new Set() }, { dtype, shape });
  }

  /** A tensor over memory of another library on the same card. It is not freed with the tensor. */
  foreign(address: number | bigint, shape: readonly number[], options: DeviceTensorOptions = {}): DeviceTensor {
    const dtype = typeOf(options);
    checkShape(shape);
    const number = Number(address);
    if (!Number.isSafeInteger(number) || number <= 0 || number % bytesOf(dtype) !== 0)
      throw badArgument(`a device address is a whole number, a multiple of ${bytesOf(dtype)}, not ${showValue(address)}`);
    this.card.checkForeign(number, lengthOf(shape) * bytesOf(dtype));
    return new DeviceTensor(this, { address: number, isOwn: false, isFree: false, refs: new Set() }, { dtype, shape });
  }

  /** A stream of your own, to be closed when it is not needed any more. */
  createStream(): CudaStream {
    return new CudaStream(this.card);
  }

  /** The stream of another library, by its handle (a CUstream). */
  foreignStream(handle: number | bigint): CudaStream {
    return new CudaStream(this.card, Number(handle));
  }

  /** The event of another library, by its handle (a CUevent). */
  foreignEvent(handle: number | bigint): CudaEvent {
    return new CudaEvent(this.card, Number(handle));
  }

  /**
   * Compiles `source` for this card and finds the kernel `name`, declared `extern "C" __global__`. The same source is
   * compiled once. Throws KERNEL_REJECTED with the compiler's log.
   */
  kernel(source: string, name: string): CudaKernel {
    return new CudaKernel(this.stream, source, name);
  }

  /** An array in pinned memory of the host, which copies read and write where it lies. `unpin` gives it back. */
  pinned(length: number, options: DeviceTensorOptions = {}): TensorArray {
    const dtype = typeOf(options);
    checkShape([length]);
    return arrayOf(dtype, this.card.pinned.take(length * bytesOf(dtype)).buffer, length);
  }

  /** The array is detached; the caller has waited for its copies. */
  unpin(array: TensorArray): void {
    this.card.pinned.releaseArray(array);
  }

  /**
   * Resolves when all work of the device's stream so far is done. Rejects with DEVICE_FAILED if it failed, DEADLINE,
   * ABORTED.
   */
  finish(options: WaitOptions = {}): Promise<void> {
    return this.stream.finish(options);
  }

  /** Frees everything that it holds. */
  close(): void {
    this.stream.close();
  }
}

function typeOf(options: DeviceTensorOptions): TensorType {
  checkOptions(options, ["dtype"], "the options of a tensor");
  const { dtype = "f32" } = options;
  checkType(dtype);
  return dtype;
}
