// The door `weighbridge/node`: starts nodes in a Node process.

export type { NodeConfig, NodeConfigOptions } from "./config/node-config.ts";
export { type StartOptions, start, startNode } from "./start.ts";
export {
  schedulerFinish,
  schedulerInit,
  serverFinish,
  serverInit,
  type TensorNode,
  workerFinish,
  workerInit,
} from "./tensors.ts";
