// The door `weighbridge/embedded`: a whole cluster inside the process, for tests and small jobs. It loads every role,
// which a worker does not need.

export type { Session } from "../api/session.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../base/errors.ts";
export type { ListenOptions } from "../base/event-listeners.ts";
export type { LogFields, Logger, LogLevel } from "../base/log.ts";
export { type PsFunction, type PsFunctionOptions, psFunction } from "../contracts/ps-function.ts";
export { type WorkerFunction, type WorkerFunctionOptions, workerFunction } from "../contracts/worker-function.ts";
export { hashKey } from "../keys/hash-key.ts";
export { type PsRowType, type PsRowTypeOptions, psRowType } from "../store/row-types/ps-row-type.ts";
export { type PsUpdater, type PsUpdaterOptions, psUpdater } from "../store/updaters/ps-updater.ts";
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
export { EmbeddedCluster, type EmbeddedOptions } from "./embedded-cluster.ts";
