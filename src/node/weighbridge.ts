// The door `weighbridge`: parameters by name, for workers in Node. The faces of other systems have doors of their own.

export type { Checkpoint, CheckpointOptions, RestoredCheckpoint, RestoreOptions, TakenCheckpoint } from "../api/checkpoint.ts";
export type { FunctionTarget } from "../api/function-target.ts";
export type {
  CommonDescription,
  EmbeddingDescription,
  ParameterDescription,
  RowTypeDescription,
  TensorDescription,
} from "../api/parameter-description.ts";
export type {
  CommonParameterOptions,
  DtypeOption,
  ElementOf,
  EmbeddingOptions,
  OpenEmbeddingOptions,
  OpenTensorOptions,
  TensorOptions,
} from "../api/parameter-options.ts";
export type { Session } from "../api/session.ts";
export type { WaitOptions } from "../base/deferred.ts";
export type { WeighbridgeErrorOptions } from "../base/errors.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../base/errors.ts";
export type { ListenOptions } from "../base/event-listeners.ts";
export type { LogFields, Logger } from "../base/log.ts";
export type { LeaveBarrier } from "../cluster/cluster-node.ts";
export type { Contract } from "../contracts/contract.ts";
export type { FunctionDescription } from "../contracts/described-function.ts";
export type { FunctionContext, TableRow, TensorBlock, WorkerCallOptions, WorkerCalls } from "../contracts/function-context.ts";
export { type PsFunction, type PsFunctionOptions, psFunction } from "../contracts/ps-function.ts";
export {
  type FunctionCaller,
  type WorkerFunction,
  type WorkerFunctionOptions,
  type WorkerHandler,
  workerFunction,
} from "../contracts/worker-function.ts";
export type { RowArray, RowArrays, RowElement, RowSpans } from "../kernel/row-element.ts";
export { hashKey } from "../keys/hash-key.ts";
export type { Consistency } from "../store/consistency.ts";
export type { Distribution, Fans, InitializerSpec, Seeded } from "../store/initializers/initializer-spec.ts";
export type { PlugInIdentity } from "../store/plug-in-identity.ts";
export type { RowsInHand, SavedColumns } from "../store/row-types/ps-row-type.ts";
export { type PsRowType, type PsRowTypeOptions, psRowType } from "../store/row-types/ps-row-type.ts";
export type { ScheduleSpec } from "../store/updaters/learning-rate-schedule.ts";
export type {
  AdagradSettings,
  AdamSettings,
  Clipped,
  CustomOptimizer,
  DcAsgdSettings,
  Decaying,
  FtrlSettings,
  Guarded,
  MomentumSettings,
  NonFinitePolicy,
  OptimizerName,
  OptimizerSpec,
  RmspropSettings,
  Scheduled,
} from "../store/updaters/optimizer-spec.ts";
export {
  type PsUpdater,
  type PsUpdaterOptions,
  psUpdater,
  type UpdaterColumn,
  type UpdaterSettings,
  type UpdaterStep,
} from "../store/updaters/ps-updater.ts";
export type { NonFiniteCounts } from "../store/updaters/updater.ts";
export type { LinkEncoding, LinkOptions, ValueCodecChoice } from "../wire/codecs/link-encoding.ts";
export type { Fields, FieldType, FieldTypes, FieldValue, FieldValues, JsonField } from "../wire/function-schema.ts";
export type { Check } from "../wire/json-body.ts";
export type { JsonObject, JsonValue } from "../wire/json-value.ts";
export type { Assignment } from "../wire/units-claim.ts";
export type { RowList } from "../worker/block-rows.ts";
export type { CacheStatistics } from "../worker/cache/cache-statistics.ts";
export type { CachedEmbedding, CacheOptions } from "../worker/cache/cached-embedding.ts";
export type { PolicyName } from "../worker/cache/eviction-order.ts";
export type { Collective } from "../worker/collective.ts";
export type { Embedding } from "../worker/embedding.ts";
export type { KeyList, KeysAndGradients } from "../worker/key-lists.ts";
export type { CallOptions, Parameter, PullOptions, PushPullOptions, ReadOptions } from "../worker/parameter.ts";
export type { ParameterSettings } from "../worker/parameter-control.ts";
export type { FunctionCallSettings } from "../worker/router/function-request.ts";
export type {
  LeavingEvent,
  PlacementChangedEvent,
  RejoinedEvent,
  ServerBackEvent,
  ServerLostEvent,
  SessionEvent,
  SessionEventMap,
  SessionEventName,
} from "../worker/session-events.ts";
export type { RowsAndGradients, Tensor } from "../worker/tensor.ts";
export type { Unit, UnitOptions, Units } from "../worker/units.ts";
export { type ConnectOptions, connect } from "./connect.ts";
