// The door `weighbridge/shared-model`: mshadow-ps's words. Devices of a machine that share a model, in rounds, and
// machines that share it through servers or among themselves.

export type { WaitOptions } from "../base/deferred.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../base/errors.ts";
export type { ChromeTrace, ChromeTraceEvent, ModelStatistics } from "../faces/shared-model/model-statistics.ts";
export {
  type ModelUpdate,
  type ModelUpdater,
  type ModelUpdaterOptions,
  modelUpdater,
} from "../faces/shared-model/model-updater.ts";
export type {
  DeviceLossPolicy,
  DeviceModel,
  DistOptions,
  ModelInitOptions,
  ModelPushOptions,
  PullCallback,
  PulledData,
  PullItem,
  PushItem,
  SharedModel,
  SharedModelOptions,
  SharedModelType,
} from "../faces/shared-model/shared-model.ts";
export type { Updater } from "../faces/shared-model/updater.ts";
export type { Cuda } from "../gpu/cuda.ts";
export type { CudaDevice } from "../gpu/cuda-device.ts";
export type { CudaKernel, KernelArgument, LaunchOptions, LaunchSize } from "../gpu/cuda-kernel.ts";
export type { CudaEvent, CudaStream } from "../gpu/cuda-stream.ts";
export type { DeviceTensor, DeviceTensorOptions, TensorArray, TensorType } from "../gpu/device-tensor.ts";
export type { RowArray, RowElement } from "../kernel/row-element.ts";
export type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
export type { DeviceTimes, KeyTimes } from "../worker/level-one/model-meter.ts";
export { type CudaModelOptions, createSharedModel, openCuda } from "./create-shared-model.ts";
export { attachDevice, type DeviceThreadStart, startDeviceThread } from "./shared-model-threads.ts";
