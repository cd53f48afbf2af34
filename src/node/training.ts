// The door `weighbridge/training`: MindSpore's words. Networks whose parameters live on servers, are reduced among the
// workers, or both.

export type { Session } from "../api/session.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../base/errors.ts";
export type { Complete } from "../base/known-options.ts";
export type { LogFields, Logger } from "../base/log.ts";
export {
  type CallbackOutcome,
  type EpochEvent,
  LossMonitor,
  type StepEvent,
  TimeMonitor,
  type TrainingCallback,
  type TrainingView,
} from "../faces/training/callbacks/callback.ts";
export type {
  ModelCheckpoint as CheckpointCallback,
  ModelCheckpointOptions as CheckpointCallbackOptions,
} from "../faces/training/callbacks/model-checkpoint.ts";
export { ArrayDataset, type ArrayDatasetOptions, type Dataset, ImageDataset } from "../faces/training/dataset.ts";
export type { DevicesOptions } from "../faces/training/devices/training-devices.ts";
export { EmbeddingLookup, type EmbeddingLookupOptions } from "../faces/training/embedding-lookup.ts";
export { Accuracy, AreaUnderCurve, Confusion, MeanSquaredError, type Metric } from "../faces/training/metrics.ts";
export type { Model as FaceModel, ModelOptions, OpenOptions, TrainOptions } from "../faces/training/model.ts";
export type { Loss, Network, Stage } from "../faces/training/network.ts";
export { type SetParamPsOptions, setParamPs } from "../faces/training/network.ts";
export { EmbeddingNetwork, type EmbeddingNetworkOptions } from "../faces/training/networks/embedding-network.ts";
export { WideDeepNetwork, type WideDeepNetworkOptions } from "../faces/training/networks/wide-deep-network.ts";
export type { RowSourceStatistics } from "../faces/training/row-source.ts";
export type { TrainingResult } from "../faces/training/trainer.ts";
export { Activations, type Shape } from "../nn/activations.ts";
export { LabelledImages, type LabelledImagesOptions } from "../nn/labelled-images.ts";
export type { GradientReady, Layer, LayerPlan, LayerSite, Statistic } from "../nn/layer.ts";
export type { BatchNormOptions } from "../nn/layers/batch-norm.ts";
export { batchNorm } from "../nn/layers/batch-norm.ts";
export type { ConvolutionOptions } from "../nn/layers/convolution.ts";
export { convolution } from "../nn/layers/convolution.ts";
export type { DenseOptions } from "../nn/layers/dense.ts";
export { dense } from "../nn/layers/dense.ts";
export { dotOfHalves } from "../nn/layers/dot-of-halves.ts";
export { relu, sigmoid } from "../nn/layers/elementwise.ts";
export { maxPool } from "../nn/layers/max-pool.ts";
export { BinaryCrossEntropy } from "../nn/losses/binary-cross-entropy.ts";
export { SoftmaxCrossEntropy } from "../nn/losses/softmax-cross-entropy.ts";
export { SquaredError } from "../nn/losses/squared-error.ts";
export { createLenet } from "../nn/models/lenet.ts";
export { createParameter, type Parameter, type ParameterOptions, type ServerTarget } from "../nn/parameter.ts";
export type { OnGradient } from "../nn/sequential.ts";
export { Sequential, type SequentialOptions } from "../nn/sequential.ts";
export { type FloatSpan, Workspace } from "../nn/workspace.ts";
export type { Consistency } from "../store/consistency.ts";
export type { InitializerSpec } from "../store/initializers/initializer-spec.ts";
export type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
export type { MnistOptions } from "./datasets/mnist.ts";
export { readMnist } from "./datasets/mnist.ts";
export { loadModel, ModelCheckpoint, type ModelCheckpointOptions } from "./model-files.ts";
export type { PsContextKey, PsContextValues } from "./ps-context.ts";
export { getPsContext, initTraining, resetPsContext, setPsContext } from "./training-context.ts";
export { Model } from "./training-devices.ts";
