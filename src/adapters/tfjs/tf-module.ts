// tf-module — what this adapter needs of TensorFlow.js, by shape alone: `@tensorflow/tfjs-core` and all packages that
// re-export it have it. The user passes the module in, so that the process has one of it, and this package no
// dependency.

/** What this adapter needs of a tensor of TensorFlow.js. */
export interface TfTensor {
  readonly shape: readonly number[];
  readonly dtype: string;
  data(): Promise<unknown>;
  clone(): TfTensor;
  dispose(): void;
}

/** What this adapter needs of a variable of TensorFlow.js. */
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

/** `O` and `C` are the module's own types of an optimizer, and of a callback of fit(). */
export interface TfModule<O = object, C = object> {
  readonly Optimizer: abstract new () => O;
  /**
   * `@tensorflow/tfjs` has it. With `@tensorflow/tfjs-core` alone it is in `@tensorflow/tfjs-layers`: pass `{ ...tf,
   * Callback: layers.Callback }` to use `callbacks` together with callbacks of TensorFlow.js.
   */
  readonly Callback?: abstract new () => C;
  tensor(values: Float32Array, shape: number[], dtype: "float32"): TfTensor;
  keep(tensor: TfTensor): TfTensor;
  engine(): { readonly registeredVariables: Readonly<Record<string, TfVariable>> };
}
