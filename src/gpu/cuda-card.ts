// cuda-card — one GPU: its context, its memory, the events it lends, the modules compiled for it. Logical devices
// (cuda-device.ts) stand on a card; several may share one.
//
// Invariants:
//   CudaCard.C1. Every call to the driver that needs a context is preceded by `enter` in the same turn: the current
//       context belongs to the thread, and other libraries in the process set it, too.
//   CudaCard.C2. A source is compiled and loaded once for a card.
//   CudaCard.C3. `close` frees what the card still holds. The context itself is the process's, shared with other
//       libraries: it is released, not destroyed.

import { badArgument, unsupported, WeighbridgeError } from "../base/errors.ts";
import type { CudaCompiler } from "./cuda-compiler.ts";
import { CUDA_NOT_FOUND, CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_SUCCESS, type CudaDriver } from "./cuda-driver.ts";
import { CudaEvent } from "./cuda-stream.ts";
import { EventWaits } from "./event-waits.ts";
import { PinnedMemory } from "./pinned-memory.ts";
import type { TensorRefs } from "./tensor-refs.ts";

/** From <cuda.h>. */
const ATTRIBUTE = { multiprocessorCount: 16, majorCapability: 75, minorCapability: 76 } as const;
const POINTER_ATTRIBUTE = { memoryType: 2, deviceOrdinal: 9, rangeStart: 11, rangeBytes: 12 } as const;
const DEVICE_MEMORY = 2;
const EVENT_WITHOUT_TIMING = 2;

export class CudaCard {
  readonly driver: CudaDriver;
  readonly compiler: CudaCompiler;
  readonly ordinal: number;
  readonly name: string;
  /** As the compiler names it: "sm_90". */
  readonly architecture: string;
  readonly multiprocessorCount: number;
  readonly waits: EventWaits;
  readonly pinned: PinnedMemory;
  /** Of all cards that were opened together: a ref names a tensor on any of them. */
  readonly refs: TensorRefs;
  readonly #device: number;
  readonly #context: number;
  readonly #modules = new Map<string, number>();
  readonly #allocations = new Set<number>();
  readonly #events: CudaEvent[] = [];
  #isClosed = false;

  constructor(driver: CudaDriver, compiler: CudaCompiler, { ordinal, refs }: { readonly ordinal: number; readonly refs: TensorRefs }) {
    const { functions } = driver;
    this.refs = refs;
    this.driver = driver;
    this.compiler = compiler;
    this.ordinal = ordinal;
    this.#device = driver.readInt("cuDeviceGet", functions.cuDeviceGet, ordinal);
    this.name = driver.deviceName(this.#device);
    const attribute = (number: number): number =>
      driver.readInt("cuDeviceGetAttribute", functions.cuDeviceGetAttribute, number, this.#device);
    this.architecture = `sm_${attribute(ATTRIBUTE.majorCapability)}${attribute(ATTRIBUTE.minorCapability)}`;
    this.multiprocessorCount = attribute(ATTRIBUTE.multiprocessorCount);
    this.#context = driver.read(`${this.title}: cuDevicePrimaryCtxRetain`, functions.cuDevicePrimaryCtxRetain, this.#device);
    this.waits = new EventWaits();
    this.pinned = new PinnedMemory(this);
  }

  /** For messages. */
  get title(): string {
    return `card ${this.ordinal} (${this.name})`;
  }

  /** CudaCard.C1. Throws CLOSED after `close`. */
  enter(): void {
    if (this.#isClosed) throw new WeighbridgeError("CLOSED", `${this.title} was closed`);
    this.driver.check(this.driver.functions.cuCtxSetCurrent(this.#context), "cuCtxSetCurrent");
  }

  /** Throws unless the driver's answer is success. */
  check(code: number, what: string): void {
    if (code !== CUDA_SUCCESS) throw this.driver.failure(code, `${this.title}: ${what}`);
  }

  memory(): { readonly freeBytes: number; readonly totalBytes: number } {
    this.enter();
    const [free, total] = [new BigUint64Array(8), new BigUint64Array(8)];
    this.check(this.driver.functions.cuMemGetInfo(free, total), "cuMemGetInfo");
    return { freeBytes: Number(free[0]), totalBytes: Number(total[0]) };
  }

  /** Device memory, 256-byte aligned, with what was there before in it. Throws DEVICE_MEMORY_FULL. */
  allocate(byteCount: number): number {
    this.enter();
    const pointer = new BigUint64Array(8);
    const code = this.driver.functions.cuMemAlloc(pointer, byteCount);
    if (code !== CUDA_SUCCESS) {
      const { freeBytes, totalBytes } = this.memory();
      throw this.driver.failure(code, `${this.title}: no ${byteCount} bytes of memory (${freeBytes} of ${totalBytes} are free)`);
    }
    const address = Number(pointer[0]);
    this.#allocations.add(address);
    return address;
  }

  /** Waits until the card is done with the memory, as the driver does; not for a path that has to be fast. */
  release(address: number): void {
    if (this.#isClosed || !this.#allocations.delete(address)) return;
    this.enter();
    this.check(this.driver.functions.cuMemFree(address), "cuMemFree");
  }

  /** Throws BAD_ARGUMENT unless so many bytes from the address on are memory of this card. */
  checkForeign(address: number, byteCount: number): void {
    this.enter();
    const { cuPointerGetAttribute } = this.driver.functions;
    const value = new BigUint64Array(8);
    const attribute = (number: number): number => {
      value[0] = 0n;
      return cuPointerGetAttribute(value, number, address) === CUDA_SUCCESS ? Number(value[0]) : -1;
    };
    const shown = `address 0x${address.toString(16)}`;
    if (attribute(POINTER_ATTRIBUTE.memoryType) !== DEVICE_MEMORY || attribute(POINTER_ATTRIBUTE.deviceOrdinal) !== this.ordinal)
      throw badArgument(`${shown} is not memory of ${this.title}`);
    const room = attribute(POINTER_ATTRIBUTE.rangeStart) + attribute(POINTER_ATTRIBUTE.rangeBytes) - address;
    if (room < byteCount) throw badArgument(`${shown} has ${room} bytes behind it, and the tensor takes ${byteCount}`);
  }

  /** Lets kernels of this card read and write the other's memory. Throws UNSUPPORTED if the cards cannot. */
  reach(other: CudaCard): void {
    if (other === this) return;
    this.enter();
    const { functions } = this.driver;
    const can = this.driver.readInt("cuDeviceCanAccessPeer", functions.cuDeviceCanAccessPeer, this.#device, other.#device);
    if (can === 0) throw unsupported(`${this.title} cannot read the memory of ${other.title}`);
    const code = functions.cuCtxEnablePeerAccess(other.#context, 0);
    if (code !== CUDA_PEER_ACCESS_ALREADY_ENABLED) this.check(code, "cuCtxEnablePeerAccess");
  }

  /** An event that nobody uses; `CudaEvent.release` gives it back. */
  borrowEvent(): CudaEvent {
    const kept = this.#events.pop();
    if (kept !== undefined) return kept;
    this.enter();
    const handle = this.driver.read(`${this.title}: cuEventCreate`, this.driver.functions.cuEventCreate, EVENT_WITHOUT_TIMING);
    return new CudaEvent(this, handle);
  }

  /** An event that notes the time when it happens; the caller closes it. */
  timedEvent(): CudaEvent {
    this.enter();
    return new CudaEvent(this, this.driver.read(`${this.title}: cuEventCreate`, this.driver.functions.cuEventCreate, 0));
  }

  keepEvent(event: CudaEvent): void {
    this.#events.push(event);
  }

  /**
   * The handle of a kernel. Throws KERNEL_REJECTED if the source does not compile, BAD_ARGUMENT for an unknown name.
   */
  kernelHandle(source: string, name: string, options: readonly string[] = []): number {
    this.enter();
    const { functions } = this.driver;
    const key = [...options, source].join("\n");
    let module = this.#modules.get(key);
    if (module === undefined) {
      const image = this.compiler.compile(source, { name: `${name}.cu`, architecture: this.architecture, options });
      module = this.driver.read(`${this.title}: cuModuleLoadData of ${name}`, functions.cuModuleLoadData, image);
      this.#modules.set(key, module);
    }
    const handle = new BigUint64Array(8);
    const code = functions.cuModuleGetFunction(handle, module, name);
    if (code === CUDA_NOT_FOUND)
      throw badArgument(`the source has no kernel ${JSON.stringify(name)}; is it declared extern "C" __global__?`);
    this.check(code, `cuModuleGetFunction of ${name}`);
    return Number(handle[0]);
  }

  close(): void {
    if (this.#isClosed) return;
    this.enter();
    const { functions } = this.driver;
    this.waits.close();
    this.pinned.close();
    for (const { handle } of this.#events) functions.cuEventDestroy(handle);
    for (const module of this.#modules.values()) functions.cuModuleUnload(module);
    for (const address of this.#allocations) functions.cuMemFree(address);
    functions.cuDevicePrimaryCtxRelease(this.#device);
    this.#isClosed = true;
  }
}
