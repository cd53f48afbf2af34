// The door `weighbridge/kv`: ps-lite's words. Nodes are started by `weighbridge/node`.

export type { WaitOptions } from "../../base/deferred.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../../base/errors.ts";
export type { FinalizeOptions } from "../../cluster/cluster-node.ts";
export type { ElementArray } from "../../kernel/elements.ts";
export { type Cuts, type Slicer, sliceByRange } from "../../keys/key-list.ts";
export type { Range } from "../../keys/key-range.ts";
export type { Values } from "../../wire/kv-message.ts";
export { Group, type Role, SCHEDULER_ID } from "../../wire/node-id.ts";
export { type KVMeta, type KVPairs, type KVRequestHandle, KVServer, type ResponseOptions } from "./kv-server.ts";
export { type KVCallback, type KVOptions, type KVPullOptions, type KVPushOptions, KVWorker } from "./kv-worker.ts";
export { Postoffice } from "./postoffice.ts";
export { Customer, SimpleApp, type SimpleData, type SimpleHandle } from "./simple-app.ts";
