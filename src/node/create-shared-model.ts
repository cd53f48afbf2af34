// create-shared-model — composes a shared model for Node: its clock, its files, the devices that it may have.

import { writeFile } from "node:fs/promises";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import type { ChromeTrace } from "../faces/shared-model/model-statistics.ts";
import { OwnerModel } from "../faces/shared-model/owner-model.ts";
import type { SharedModel, SharedModelOptions, SharedModelType } from "../faces/shared-model/shared-model.ts";
import { type Cuda, type CudaOptions, openCuda as openCudaWith } from "../gpu/cuda.ts";
import { CudaBackend } from "../gpu/cuda-backend.ts";
import type { DeviceTensor } from "../gpu/device-tensor.ts";
import type { RowArrays, RowElement } from "../kernel/row-element.ts";
import { connect } from "./connect.ts";
import { koffi } from "./native-calls.ts";
import { realClock } from "./real-clock.ts";
import { timeline } from "./shared-model-threads.ts";

/** For `device: "cuda"`. */
export type CudaModelOptions<E extends RowElement = RowElement> = SharedModelOptions<E> & {
  readonly device: "cuda";
  /** CUDA as `openCuda` opened it. Default: the model opens it, and closes it with every tensor of it. */
  readonly cuda?: Cuda | undefined;
  /** How many logical devices share a card, if the model opens CUDA. Defaults to 1. */
  readonly devicesPerCard?: number | undefined;
};

/**
 * A model of the devices of this process, alone ("local") or together with other workers ("dist"). Throws BAD_ARGUMENT
 * for an option that does not exist, or a value that cannot be; UNSUPPORTED for what is not offered here. `init`
 * rejects with NO_DEVICE if there is no CUDA.
 */
export function createSharedModel<E extends RowElement = "f32">(
  type: SharedModelType,
  options: CudaModelOptions<E>,
): SharedModel<DeviceTensor>;
export function createSharedModel<E extends RowElement = "f32">(
  type: SharedModelType,
  options?: SharedModelOptions<E>,
): SharedModel<RowArrays[E]>;
export function createSharedModel(
  type: SharedModelType,
  options: SharedModelOptions | CudaModelOptions = {},
): SharedModel<DeviceTensor> | SharedModel<RowArrays[RowElement]> {
  const isForCuda = typeof options === "object" && options?.device === "cuda";
  // A model of the CPU refuses what only CUDA has, as everything that it does not know.
  const { cuda, devicesPerCard, ...others }: Partial<CudaModelOptions> = isForCuda ? (options as CudaModelOptions) : {};
  return new OwnerModel<DeviceTensor>(type, isForCuda ? (others as SharedModelOptions) : options, {
    ...{ clock: realClock(), timeline, connect },
    writeTrace,
    backendOf: (_, { dtype }) =>
      new CudaBackend({ dtype, ownsCuda: cuda === undefined, openCuda: async () => cuda ?? (await openCuda({ devicesPerCard })) }),
  });
}

async function writeTrace(path: string, trace: ChromeTrace): Promise<void> {
  try {
    await writeFile(path, JSON.stringify(trace));
  } catch (thrown) {
    throw new WeighbridgeError("BAD_ARGUMENT", `traceFile ${path} cannot be written: ${reasonOf(thrown)}`, { cause: thrown });
  }
}

/** Opens CUDA, for tensors and kernels of your own. Rejects with NO_DEVICE, which says what is missing. */
export async function openCuda(options: { readonly devicesPerCard?: number | undefined } = {}): Promise<Cuda> {
  checkOptions(options, ["devicesPerCard"], "the options of openCuda");
  const { devicesPerCard = 1 } = options;
  return await openCudaWith({ nativeCalls: koffi, devicesPerCard } satisfies CudaOptions);
}
