// tf-module — what this adapter needs of TensorFlow.js, by shape alone: `@tensorflow/tfjs-core` and all packages that
// re-export it have it. The user passes the module in, so that the process has one of it, and this package no
// dependency.

export interface TfTensor {
  readonly shape: readonly number[];
  readonly dtype: string;
  data(): Promise<unknown>;
  clone(): TfTensor;
  dispose(): void;
}

export interface TfVariable extends TfTensor {
  readonly name: string;
  readonly trainable: boolean;
  assign(value: TfTensor): void;
}

/** A weight of a layer, as models list them; reads as a variable. */
export interface TfLayerVariable {
  read(): TfTensor;
}

/** Gradients as TensorFlow.js passes them. A weight that the loss does not depend on has null. */
export type TfGradients =
  | Readonly<Record<string, TfTensor | null>>
  | readonly { readonly name: string; readonly tensor: TfTensor | null }[];

/** What tf.Optimizer does for classes that extend it. */
export interface TfOptimizer {
  minimize(loss: () => TfTensor, returnCost?: boolean, variables?: readonly TfVariable[]): TfTensor | null;
  computeGradients(loss: () => TfTensor, variables?: readonly TfVariable[]): unknown;
  incrementIterations(): void;
}

/** `O` is the module's own type of an optimizer. */
export interface TfModule<O = object> {
  readonly Optimizer: abstract new () => O;
  tensor(values: Float32Array, shape: number[], dtype: "float32"): TfTensor;
  keep(tensor: TfTensor): TfTensor;
  engine(): { readonly registeredVariables: Readonly<Record<string, TfVariable>> };
}
