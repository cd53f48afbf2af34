// The door `weighbridge`: parameters by name, for workers in Node. The faces of other systems have doors of their own.

export type { FunctionTarget } from "../api/function-target.ts";
export type { EmbeddingOptions, RowTypeOption, TensorOptions } from "../api/parameter-options.ts";
export type { Session } from "../api/session.ts";
export type { WaitOptions } from "../base/deferred.ts";
export { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
export type { FunctionContext, WorkerCallOptions, WorkerCalls } from "../contracts/function-context.ts";
export { type PsFunction, type PsFunctionOptions, psFunction } from "../contracts/ps-function.ts";
export {
  type FunctionCaller,
  type WorkerFunction,
  type WorkerFunctionOptions,
  type WorkerHandler,
  workerFunction,
} from "../contracts/worker-function.ts";
export type { RowArray, RowElement, RowSpans } from "../kernel/row-element.ts";
export type { Consistency } from "../store/consistency.ts";
export type { InitializerSpec } from "../store/initializers/initializer-spec.ts";
export type { ParameterSpec } from "../store/parameter-spec.ts";
export type { RowsInHand, SavedColumns } from "../store/row-types/ps-row-type.ts";
export { type PsRowType, type PsRowTypeOptions, psRowType } from "../store/row-types/ps-row-type.ts";
export type { ScheduleSpec } from "../store/updaters/learning-rate-schedule.ts";
export type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
export {
  type PsUpdater,
  type PsUpdaterOptions,
  psUpdater,
  type UpdaterColumn,
  type UpdaterSettings,
  type UpdaterStep,
} from "../store/updaters/ps-updater.ts";
export type { NonFiniteCounts } from "../store/updaters/updater.ts";
export type { LinkEncoding, ValueCodecChoice } from "../wire/codecs/link-encoding.ts";
export type { Fields, FieldType, FieldValues } from "../wire/function-schema.ts";
export type { RowList } from "../worker/block-rows.ts";
export type { CacheOptions } from "../worker/cache/bounded-cache.ts";
export type { CacheStatistics } from "../worker/cache/cache-statistics.ts";
export type { CachedEmbedding } from "../worker/cache/cached-embedding.ts";
export type { PolicyName } from "../worker/cache/eviction-order.ts";
export type { Collective } from "../worker/collective.ts";
export type { Embedding, KeysAndGradients } from "../worker/embedding.ts";
export type { KeyList } from "../worker/key-lists.ts";
export type { CallOptions, ReadOptions } from "../worker/parameter.ts";
export type { ParameterSettings } from "../worker/parameter-control.ts";
export type { RowsAndGradients, Tensor } from "../worker/tensor.ts";
export type { UnitOptions } from "../worker/unit-client.ts";
export type { Unit, UnitFeed } from "../worker/unit-feed.ts";
export { type ConnectOptions, connect } from "./connect.ts";
