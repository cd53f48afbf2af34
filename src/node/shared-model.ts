// The door `weighbridge/shared-model`: mshadow-ps's words. Devices of a machine that share a model, in rounds.

export type { WaitOptions } from "../base/deferred.ts";
export { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
export type { ChromeTrace, ChromeTraceEvent, ModelStatistics } from "../faces/shared-model/model-statistics.ts";
export type {
  DeviceLossPolicy,
  DeviceModel,
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
export type { RowArray, RowElement } from "../kernel/row-element.ts";
export type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
export { createSharedModel } from "./create-shared-model.ts";
export { attachDevice, type DeviceThreadStart, startDeviceThread } from "./shared-model-threads.ts";
