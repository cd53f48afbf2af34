// The door `weighbridge/tensors`: Hetu's parameter server by its own names. `workerInit` and the other init functions
// are in `weighbridge/node`.

export type { Session } from "../../api/session.ts";
export type { WaitOptions } from "../../base/deferred.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../../base/errors.ts";
export type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
export type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
export type { CachedEmbedding, CacheOptions } from "../../worker/cache/cached-embedding.ts";
export type { CallOptions } from "../../worker/parameter.ts";
export type { FunctionLoad } from "../../worker/router/function-request.ts";
export type { IndexList } from "./data-store.ts";
export type { RowNames } from "./named-tensor.ts";
export { InitType, OptType, ParamType, type TensorSettings } from "./tensor-settings.ts";
export { type TensorName, TensorWorker } from "./tensor-worker.ts";
