// cuda-driver — the functions of the CUDA driver that we call, through koffi, and what their result codes mean. Not the
// objects made of them (cuda-card.ts and what stands on it) and not the compiler (cuda-compiler.ts).
//
// Invariants:
//   CudaDriver.D1. Handles and device addresses are numbers: both are addresses of the process, far below 2^53.
//   CudaDriver.D2. Every result code is looked at. A code that is not success becomes a WeighbridgeError that names the
//       call: DEVICE_MEMORY_FULL when memory ran out, DEVICE_FAILED otherwise.
//   CudaDriver.D3. Nothing is loaded before `loadCudaDriver`; if something is missing then, it throws NO_DEVICE, which
//       names it.

import { reasonOf, WeighbridgeError } from "../base/errors.ts";

export type NativeValue = number | bigint | string | ArrayBufferView | readonly string[] | null;
export type NativeFunction = (...values: readonly NativeValue[]) => number;

/** The part of koffi that CUDA needs; `node/native-calls.ts` gives it. */
export type NativeLibraries = {
  load(library: string): { func(declaration: string): NativeFunction };
  /** Memory of the process as an ArrayBuffer, without a copy. */
  view(address: bigint, byteCount: number): ArrayBuffer;
  /** Where an array of at least 64 bytes lies. */
  address(memory: ArrayBufferView): bigint;
};

/** Handles are u64 for koffi: it takes numbers for them, and none is dereferenced here. */
const DECLARATIONS = {
  cuInit: "int cuInit(uint32_t flags)",
  cuDriverGetVersion: "int cuDriverGetVersion(void *version)",
  cuGetErrorName: "int cuGetErrorName(int code, void *name)",
  cuGetErrorString: "int cuGetErrorString(int code, void *text)",
  cuDeviceGetCount: "int cuDeviceGetCount(void *count)",
  cuDeviceGet: "int cuDeviceGet(void *device, int ordinal)",
  cuDeviceGetName: "int cuDeviceGetName(void *name, int length, int device)",
  cuDeviceGetAttribute: "int cuDeviceGetAttribute(void *value, int attribute, int device)",
  cuDeviceCanAccessPeer: "int cuDeviceCanAccessPeer(void *can, int device, int peer)",
  cuDevicePrimaryCtxRetain: "int cuDevicePrimaryCtxRetain(void *context, int device)",
  cuDevicePrimaryCtxRelease: "int cuDevicePrimaryCtxRelease_v2(int device)",
  cuCtxSetCurrent: "int cuCtxSetCurrent(uint64_t context)",
  cuCtxEnablePeerAccess: "int cuCtxEnablePeerAccess(uint64_t peer, uint32_t flags)",
  cuMemGetInfo: "int cuMemGetInfo_v2(void *free, void *total)",
  cuMemAlloc: "int cuMemAlloc_v2(void *address, size_t byteCount)",
  cuMemFree: "int cuMemFree_v2(uint64_t address)",
  cuMemHostAlloc: "int cuMemHostAlloc(void *address, size_t byteCount, uint32_t flags)",
  cuMemFreeHost: "int cuMemFreeHost(uint64_t address)",
  cuMemcpyHtoDAsync: "int cuMemcpyHtoDAsync_v2(uint64_t target, uint64_t source, size_t byteCount, uint64_t stream)",
  cuMemcpyDtoHAsync: "int cuMemcpyDtoHAsync_v2(uint64_t target, uint64_t source, size_t byteCount, uint64_t stream)",
  cuMemcpyDtoDAsync: "int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t byteCount, uint64_t stream)",
  cuMemsetD8Async: "int cuMemsetD8Async(uint64_t target, uint8_t value, size_t count, uint64_t stream)",
  cuMemsetD32Async: "int cuMemsetD32Async(uint64_t target, uint32_t value, size_t count, uint64_t stream)",
  cuMemsetD2D32Async: "int cuMemsetD2D32Async(uint64_t target, size_t pitch, uint32_t value, size_t width, size_t height, uint64_t stream)",
  cuPointerGetAttribute: "int cuPointerGetAttribute(void *value, int attribute, uint64_t address)",
  cuStreamCreate: "int cuStreamCreate(void *stream, uint32_t flags)",
  cuStreamDestroy: "int cuStreamDestroy_v2(uint64_t stream)",
  cuStreamWaitEvent: "int cuStreamWaitEvent(uint64_t stream, uint64_t event, uint32_t flags)",
  cuStreamSynchronize: "int cuStreamSynchronize(uint64_t stream)",
  cuEventCreate: "int cuEventCreate(void *event, uint32_t flags)",
  cuEventDestroy: "int cuEventDestroy_v2(uint64_t event)",
  cuEventRecord: "int cuEventRecord(uint64_t event, uint64_t stream)",
  cuEventQuery: "int cuEventQuery(uint64_t event)",
  cuEventElapsedTime: "int cuEventElapsedTime(void *milliseconds, uint64_t start, uint64_t end)",
  cuModuleLoadData: "int cuModuleLoadData(void *module, void *image)",
  cuModuleUnload: "int cuModuleUnload(uint64_t module)",
  cuModuleGetFunction: "int cuModuleGetFunction(void *kernel, uint64_t module, const char *name)",
  cuFuncGetParamInfo: "int cuFuncGetParamInfo(uint64_t kernel, size_t index, void *offset, void *size)",
  cuLaunchKernel:
    "int cuLaunchKernel(uint64_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared, uint64_t stream, void *values, void *extra)",
} as const;

export type DriverFunctions = Readonly<Record<keyof typeof DECLARATIONS, NativeFunction>>;

/** Result codes that we tell apart, from <cuda.h>. */
export const CUDA_SUCCESS = 0;
const CUDA_OUT_OF_MEMORY = 2;
export const CUDA_NOT_FOUND = 500;
export const CUDA_NOT_READY = 600;
export const CUDA_PEER_ACCESS_ALREADY_ENABLED = 704;

const DRIVER_NAMES: Readonly<Record<string, string>> = { linux: "libcuda.so.1", win32: "nvcuda.dll" };
const TEXT_BYTES_MAX = 256;

/** Throws NO_DEVICE if the driver is not installed, does not start or is too old. */
export function loadCudaDriver(native: NativeLibraries, platform: string = process.platform): CudaDriver {
  const name = DRIVER_NAMES[platform];
  if (name === undefined) throw noDevice(`CUDA runs on Linux and Windows, not on ${platform}`);
  let functions: DriverFunctions;
  try {
    const library = native.load(name);
    functions = Object.fromEntries(
      Object.entries(DECLARATIONS).map(([key, declaration]) => [key, library.func(declaration)]),
    ) as DriverFunctions;
  } catch (thrown) {
    throw noDevice(`the library of NVIDIA's driver does not load (${reasonOf(thrown)})`, thrown);
  }
  const driver = new CudaDriver(native, functions);
  const code = functions.cuInit(0);
  if (code !== CUDA_SUCCESS) throw noDevice(`the driver does not start: ${driver.nameOf(code)}`);
  return driver;
}

export function noDevice(reason: string, cause?: unknown): WeighbridgeError {
  return new WeighbridgeError("NO_DEVICE", `no CUDA on this machine: ${reason}; device: "cpu" needs none`, { cause });
}

export class CudaDriver {
  readonly native: NativeLibraries;
  readonly functions: DriverFunctions;
  /** Results of calls that return through a pointer; read at once, so that one for all is enough. */
  readonly #result = new BigUint64Array(TEXT_BYTES_MAX / 8);

  constructor(native: NativeLibraries, functions: DriverFunctions) {
    this.native = native;
    this.functions = functions;
  }

  /** Calls a function whose first parameter is a pointer to its result, a handle or an address. */
  read(what: string, call: NativeFunction, ...values: readonly NativeValue[]): number {
    this.#result[0] = 0n;
    this.check(call(this.#result, ...values), what);
    return Number(this.#result[0]);
  }

  /** The same for a result of 32 bits. */
  readInt(what: string, call: NativeFunction, ...values: readonly NativeValue[]): number {
    this.#result[0] = 0n;
    this.check(call(this.#result, ...values), what);
    return new Int32Array(this.#result.buffer, 0, 1)[0]!;
  }

  /** The same for a result that is a float. */
  readFloat(what: string, call: NativeFunction, ...values: readonly NativeValue[]): number {
    this.#result[0] = 0n;
    this.check(call(this.#result, ...values), what);
    return new Float32Array(this.#result.buffer, 0, 1)[0]!;
  }

  deviceName(device: number): string {
    const bytes = new Uint8Array(this.#result.buffer);
    bytes.fill(0);
    this.check(this.functions.cuDeviceGetName(bytes, TEXT_BYTES_MAX - 1, device), "cuDeviceGetName");
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  /** Throws unless the code is success (CudaDriver.D2). `what` says which call it was, and of what. */
  check(code: number, what: string): void {
    if (code !== CUDA_SUCCESS) throw this.failure(code, what);
  }

  failure(code: number, what: string): WeighbridgeError {
    const kind = code === CUDA_OUT_OF_MEMORY ? "DEVICE_MEMORY_FULL" : "DEVICE_FAILED";
    return new WeighbridgeError(kind, `${what}: ${this.nameOf(code)}`, { detail: { cudaCode: code } });
  }

  /** "CUDA_ERROR_ILLEGAL_ADDRESS (700, an illegal memory access was encountered)". */
  nameOf(code: number): string {
    const name = this.#text(this.functions.cuGetErrorName, code);
    const text = this.#text(this.functions.cuGetErrorString, code);
    return `${name ?? "an unknown error"} (${code}${text === undefined ? "" : `, ${text}`})`;
  }

  /** The text behind a pointer that the driver returns; it belongs to the driver for good. */
  #text(call: NativeFunction, code: number): string | undefined {
    const pointer = new BigUint64Array(8);
    if (call(code, pointer) !== CUDA_SUCCESS || pointer[0] === 0n) return undefined;
    const bytes = new Uint8Array(this.native.view(pointer[0]!, TEXT_BYTES_MAX));
    const end = bytes.indexOf(0);
    return new TextDecoder().decode(bytes.slice(0, end === -1 ? TEXT_BYTES_MAX : end));
  }
}
