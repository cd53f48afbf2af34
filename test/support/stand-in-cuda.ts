// stand-in-cuda — a CUDA driver and a compiler of plain functions, for tests on machines without a card: calls succeed,
// and compute nothing.

import { type Cuda, openCuda } from "../../src/gpu/cuda.ts";
import type { NativeFunction, NativeLibraries } from "../../src/gpu/cuda-driver.ts";

/** By library and function; a function that is not given succeeds, a library that is not given does not load. */
export type StandIns = Readonly<Record<string, Readonly<Record<string, NativeFunction>>>>;

/** The names are those of Linux. */
export const PLATFORM = "linux";
export const DRIVER = "libcuda.so.1";
export const COMPILER = "libnvrtc.so.13";

export function standIns(functions: StandIns): NativeLibraries {
  return {
    load(library) {
      const known = functions[library];
      if (known === undefined) throw new Error(`${library}: cannot open shared object file`);
      return { func: (declaration) => known[/(\w+)\(/.exec(declaration)?.[1] ?? ""] ?? (() => 0) };
    },
    view: (_, byteCount) => new ArrayBuffer(byteCount),
    address: () => 4096n,
  };
}

/** A function that gives this number through its first parameter. */
export function returns(value: number): NativeFunction {
  return (target) => {
    (target as BigUint64Array)[0] = BigInt(value);
    return 0;
  };
}

/** One card that does nothing. Kernels have no parameters. */
export function standInCuda(): Promise<Cuda> {
  const driver = { cuDeviceGetCount: returns(1), cuMemAlloc_v2: returns(1 << 20), cuFuncGetParamInfo: () => 1 };
  return openCuda({ nativeCalls: async () => standIns({ [DRIVER]: driver, [COMPILER]: {} }), platform: PLATFORM });
}
