// guide-names — what the scripts of pages use and do not declare, because the text around them does: with its type, for
// all pages and for single ones. test/guide-types.test.ts declares those that a script uses.

const MAIN = 'import("weighbridge")';
const TRAINING = 'import("weighbridge/training")';
const SHARED_MODEL = 'import("weighbridge/shared-model")';

type Names = Readonly<Record<string, string>>;

/** Names that mean the same on every page. */
export const COMMON_NAMES: Names = {
  connect: `typeof ${MAIN}.connect`,
  session: `${MAIN}.Session`,
  users: `${MAIN}.Embedding`,
  keys: "readonly number[]",
  gradient: "Float32Array",
  gradients: "Float32Array",
  values: "Float32Array",
};

/** Those of single pages. */
export const PAGE_NAMES: Readonly<Record<string, Names>> = {
  "docs/compatibility.md": { rows: "Uint32Array", nextRows: "Uint32Array", into: "Float32Array" },
  "docs/configuration.md": { spawn: 'typeof import("node:child_process").spawn', rank: "number" },
  "docs/guides/adapters.md": {
    ...{ model: 'import("@tensorflow/tfjs-layers").LayersModel', images: "tf.Tensor", labels: "tf.Tensor" },
    ...{ loss: "(weights: Record<'w' | 'b', jax.Array>, batch: jax.Array) => jax.Array", batches: "readonly jax.Array[]" },
    ...{ shape: "readonly number[]", initialValues: "Float32Array" },
  },
  "docs/guides/checkpoints.md": { STEPS: "number", train: "(step: number) => Promise<void>" },
  "docs/guides/consistency.md": { dense: `${MAIN}.Tensor` },
  "docs/guides/cuda.md": {
    ...{ cuda: `${SHARED_MODEL}.Cuda`, device: `${SHARED_MODEL}.CudaDevice`, stream: `${SHARED_MODEL}.CudaStream` },
    ...{ x: `${SHARED_MODEL}.DeviceTensor`, y: `${SHARED_MODEL}.DeviceTensor` },
    shared: `${SHARED_MODEL}.SharedModel<${SHARED_MODEL}.DeviceTensor>`,
    gradient: `${SHARED_MODEL}.DeviceTensor`,
  },
  "docs/guides/grow-and-shrink.md": {
    weights: `${MAIN}.Tensor`,
    gradientOf: "(batch: number, part: number, parts: number) => Float32Array",
  },
  "docs/guides/join-a-cluster.md": { reopenParameters: "() => void", units: `${MAIN}.Units` },
  "docs/guides/move-a-ps-lite-job.md": {
    ...{ keys: "BigUint64Array", weights: "Float32Array" },
    ...{
      assign: '(keys: BigUint64Array, vals: import("weighbridge/kv").ElementArray) => void',
      read: "(keys: BigUint64Array) => Float32Array",
    },
  },
  "docs/guides/parameters.md": { nextKeys: "readonly number[]", outgoing: "readonly Uint8Array[]" },
  "docs/guides/shared-model.md": {
    model: `${SHARED_MODEL}.SharedModel<Float32Array>`,
    createSharedModel: `typeof ${SHARED_MODEL}.createSharedModel`,
  },
  "docs/guides/train-your-own-model.md": {
    ...{ sampleCount: "number", batchSize: "number", dataset: `${TRAINING}.Dataset` },
    model: `${TRAINING}.Model`,
  },
  "docs/guides/when-nodes-fail.md": {
    pushGradientsOf: "(batch: number, part: number) => Promise<void>",
    gradientOf: "(values: Float32Array) => Float32Array",
  },
};

/** Packages of others that pages import and that are not installed here. */
export const OTHER_PACKAGES = `declare module "pino" {
  export default function pino(): import("weighbridge").Logger;
}
`;
