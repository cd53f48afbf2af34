// The door `weighbridge/tfjs`: models of TensorFlow.js trained on parameter servers (docs/guides/adapters.md).

export type { GroupOptions } from "../parameter-group.ts";
export { type PsOptimizer, type PsOptimizerOptions, psOptimizer } from "./ps-optimizer.ts";
export type { TfLayerVariable, TfModule, TfTensor, TfVariable } from "./tf-module.ts";
