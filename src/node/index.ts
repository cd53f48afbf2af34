// The door `weighbridge/node`: starts nodes in a Node process.

export type { FinalizeOptions } from "../cluster/cluster-node.ts";
export type {
  FaultConfig,
  LogFormat,
  NodeConfig,
  NodeConfigOptions,
  Optional,
  PlacementName,
  Role as NodeRole,
  TransportName,
  VanName,
} from "./config/node-config.ts";
export { type StartNodeOptions, type StartOptions, start, startNode } from "./start.ts";
export {
  schedulerFinish,
  schedulerInit,
  serverFinish,
  serverInit,
  type TensorNode,
  workerFinish,
  workerInit,
} from "./tensors.ts";
