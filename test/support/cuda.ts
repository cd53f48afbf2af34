// cuda — CUDA for the tests that need it, or the reason why they are skipped.

import { isWeighbridgeError } from "../../src/base/errors.ts";
import { type Cuda, openCuda } from "../../src/gpu/cuda.ts";
import { koffi } from "../../src/node/native-calls.ts";

/** `skip` is what `test` takes: false, or the reason. `cuda()` may be called unless skipped. */
export type CudaForTests = { readonly skip: false | string; cuda(): Cuda };

/** Four logical devices share the first card. */
export async function cudaForTests(): Promise<CudaForTests> {
  try {
    const cuda = await openCuda({ nativeCalls: koffi, devicesPerCard: 4 });
    return { skip: false, cuda: () => cuda };
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "NO_DEVICE")) throw thrown;
    return {
      skip: thrown.message,
      cuda: () => {
        throw thrown;
      },
    };
  }
}
