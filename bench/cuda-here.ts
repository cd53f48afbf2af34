// cuda-here — CUDA for a bench that needs it. Where there is none, the process says why and ends.

import { isWeighbridgeError } from "../src/base/errors.ts";
import type { Cuda } from "../src/gpu/cuda.ts";

export async function cudaHere(open: () => Promise<Cuda>): Promise<Cuda> {
  try {
    return await open();
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "NO_DEVICE")) throw thrown;
    console.log(thrown.message);
    process.exit(1);
  }
}
