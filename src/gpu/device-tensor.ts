// device-tensor — numbers in the memory of a card, with a shape. It is memory and a way in and out; arithmetic is what
// kernels do with it.
//
// Invariants:
//   DeviceTensor.D1. Copies and fills are work of the device's stream, in the order of the calls; kernels launched on
//       that stream afterwards see them, without a wait in between.
//   DeviceTensor.D2. A copy reads or writes the caller's array through pinned memory, which is the one documented copy;
//       an array that lies in pinned memory itself (`CudaDevice.pinned`) is read and written where it lies.
//   DeviceTensor.D3. A view shares the memory of its tensor; once that is freed, every use of either is CLOSED.

import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import type { CudaDevice } from "./cuda-device.ts";

/** What a tensor on a card is made of. */
export type TensorType = "f32" | "f64" | "i32" | "i64" | "u32" | "u8";
/** The array of the host that holds the values of a tensor. */
export type TensorArray = Float32Array | Float64Array | Int32Array | BigInt64Array | Uint32Array | Uint8Array;

const ARRAYS = { f32: Float32Array, f64: Float64Array, i32: Int32Array, i64: BigInt64Array, u32: Uint32Array, u8: Uint8Array } as const;

/** Memory that a tensor and its views share. */
export type TensorMemory = {
  readonly address: number;
  /** False for a foreign pointer, which its owner frees. */
  readonly isOwn: boolean;
  isFree: boolean;
  /** Of the tensors that have one (tensor-refs.ts). */
  readonly refs: Set<number>;
};

/** How a tensor on a card is made. */
export type DeviceTensorOptions = {
  /** Defaults to "f32". */
  readonly dtype?: TensorType | undefined;
};

/** An array in the memory of a card. */
export class DeviceTensor {
  readonly device: CudaDevice;
  readonly dtype: TensorType;
  readonly shape: readonly number[];
  /** The number of elements. */
  readonly length: number;
  readonly byteCount: number;
  readonly #memory: TensorMemory;
  readonly #offset: number;
  #ref = 0;

  /** @internal `CudaDevice` makes tensors; `offset` is in bytes. */
  constructor(
    device: CudaDevice,
    memory: TensorMemory,
    spec: { readonly dtype: TensorType; readonly shape: readonly number[] },
    offset = 0,
  ) {
    this.device = device;
    this.dtype = spec.dtype;
    this.shape = spec.shape;
    this.length = lengthOf(spec.shape);
    this.byteCount = this.length * bytesOf(spec.dtype);
    this.#memory = memory;
    this.#offset = offset;
  }

  /** Where it lies on the card. Throws CLOSED after `free`. */
  get address(): number {
    if (this.#memory.isFree) throw new WeighbridgeError("CLOSED", `a tensor of device ${this.device.number} was freed`);
    return this.#memory.address + this.#offset;
  }

  /** @internal A number that stands for its address where addresses do not fit. */
  get ref(): number {
    if (this.#ref === 0 && !this.#memory.isFree) this.#ref = this.device.card.refs.add(this, this.#memory, this.#offset);
    return this.#ref;
  }

  /** Whether `free` was called, on this tensor or on one that shares its memory. */
  get isFree(): boolean {
    return this.#memory.isFree;
  }

  /** Resolves when the array may be changed again; what is launched on the device's stream sees the values at once. */
  async copyFrom(source: TensorArray): Promise<void> {
    this.#checkArray(source);
    const { card, stream } = this.device;
    const { cuMemcpyHtoDAsync } = card.driver.functions;
    const target = this.address;
    card.enter();
    const pinned = card.pinned.addressOf(source);
    if (pinned !== undefined) {
      card.check(cuMemcpyHtoDAsync(target, pinned, this.byteCount, stream.handle), "a copy to the card");
      return stream.finish();
    }
    const span = card.pinned.take(this.byteCount);
    try {
      new Uint8Array(span.buffer).set(new Uint8Array(source.buffer, source.byteOffset, source.byteLength));
      card.check(cuMemcpyHtoDAsync(target, span.address, this.byteCount, stream.handle), "a copy to the card");
      await stream.finish();
    } finally {
      card.pinned.giveBack(span);
    }
  }

  /** Resolves when the array has the values that the tensor has after all work of the device's stream so far. */
  async copyTo(target: TensorArray): Promise<void> {
    this.#checkArray(target);
    const { card, stream } = this.device;
    const { cuMemcpyDtoHAsync } = card.driver.functions;
    const source = this.address;
    card.enter();
    const pinned = card.pinned.addressOf(target);
    if (pinned !== undefined) {
      card.check(cuMemcpyDtoHAsync(pinned, source, this.byteCount, stream.handle), "a copy from the card");
      return stream.finish();
    }
    const span = card.pinned.take(this.byteCount);
    try {
      card.check(cuMemcpyDtoHAsync(span.address, source, this.byteCount, stream.handle), "a copy from the card");
      await stream.finish();
      new Uint8Array(target.buffer, target.byteOffset, target.byteLength).set(new Uint8Array(span.buffer, 0, this.byteCount));
    } finally {
      card.pinned.giveBack(span);
    }
  }

  /** The values in a new array. */
  async toArray(): Promise<TensorArray> {
    const array = new ARRAYS[this.dtype](this.length);
    await this.copyTo(array);
    return array;
  }

  /** Copies another tensor of the same type and length on the same card. */
  copyFromTensor(source: DeviceTensor): void {
    if (source.dtype !== this.dtype || source.length !== this.length || source.device.card !== this.device.card)
      throw badArgument(`${source.title} cannot be copied to ${this.title}`);
    const { card, stream } = this.device;
    stream.follow(source.device.stream);
    card.enter();
    card.check(
      card.driver.functions.cuMemcpyDtoDAsync(this.address, source.address, this.byteCount, stream.handle),
      "a copy within the card",
    );
  }

  /** Sets every element. */
  fill(value: number): void {
    const { card, stream } = this.device;
    const { functions } = card.driver;
    const bits = new Uint32Array(elementOf(this.dtype, value).buffer);
    const target = this.address;
    card.enter();
    if (this.dtype === "u8") card.check(functions.cuMemsetD8Async(target, bits[0]! & 255, this.length, stream.handle), "a fill");
    else if (bits.length === 1 || bits[0] === bits[1])
      card.check(functions.cuMemsetD32Async(target, bits[0]!, this.byteCount / 4, stream.handle), "a fill");
    else {
      // Two words an element: first all low ones, then all high ones, as columns one word wide.
      for (const [word, half] of bits.entries())
        card.check(functions.cuMemsetD2D32Async(target + 4 * word, 8, half, 1, this.length, stream.handle), "a fill");
    }
  }

  /** A part of this tensor, from element `from` on, with a shape of its own. */
  view(from: number, shape: readonly number[]): DeviceTensor {
    checkShape(shape);
    if (!Number.isSafeInteger(from) || from < 0 || from + lengthOf(shape) > this.length)
      throw badArgument(`a view of ${showValue(shape)} from element ${showValue(from)} on is beyond ${this.title}`);
    return new DeviceTensor(this.device, this.#memory, { dtype: this.dtype, shape }, this.#offset + from * bytesOf(this.dtype));
  }

  /** Gives the memory back once the card is done with it; a foreign pointer is only forgotten. */
  free(): void {
    if (this.#memory.isFree) return;
    this.#memory.isFree = true;
    this.device.card.refs.forget(this.#memory);
    if (this.#memory.isOwn) this.device.card.release(this.#memory.address);
  }

  /** For messages: "a tensor f32[2,3] of device 0". */
  get title(): string {
    return `a tensor ${this.dtype}[${this.shape.join(",")}] of device ${this.device.number}`;
  }

  #checkArray(array: TensorArray): void {
    if (!(array instanceof ARRAYS[this.dtype]))
      throw badArgument(`${this.title} takes a ${ARRAYS[this.dtype].name}, not ${showValue(array)}`);
    if (array.length !== this.length) throw badArgument(`${this.title} has ${this.length} elements, the array ${array.length}`);
  }
}

/** One element, of 4 or 8 bytes. */
function elementOf(dtype: TensorType, value: number): TensorArray {
  if (dtype === "i64") return BigInt64Array.of(BigInt(value));
  return new ARRAYS[dtype === "u8" ? "u32" : dtype]([value]);
}

export function bytesOf(dtype: TensorType): number {
  return ARRAYS[dtype].BYTES_PER_ELEMENT;
}

export function arrayOf(dtype: TensorType, buffer: ArrayBuffer, length: number): TensorArray {
  return new ARRAYS[dtype](buffer, 0, length);
}

export function lengthOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Throws BAD_ARGUMENT unless every size is a whole number above 0. */
export function checkShape(shape: readonly number[]): void {
  if (shape.length === 0 || !shape.every((size) => Number.isSafeInteger(size) && size > 0) || !Number.isSafeInteger(lengthOf(shape)))
    throw badArgument(`a shape is a list of whole numbers above 0, not ${showValue(shape)}`);
}

export function checkType(dtype: TensorType): void {
  if (!Object.hasOwn(ARRAYS, dtype))
    throw badArgument(`a tensor's type is one of ${Object.keys(ARRAYS).join(", ")}, not ${showValue(dtype)}`);
}
