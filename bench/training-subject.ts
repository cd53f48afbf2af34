// training-subject — the three models that bench/training.ts trains, with samples from a formula. A subject is the same
// in every process; what differs is the samples of a part, and whether servers hold the parameters.

import type { Dataset } from "../src/faces/training/dataset.ts";
import type { Activations } from "../src/nn/activations.ts";
import {
  createLenet,
  dense,
  dotOfHalves,
  EmbeddingNetwork,
  Model,
  Sequential,
  SoftmaxCrossEntropy,
  SquaredError,
  setParamPs,
  Workspace,
} from "../src/node/training.ts";

export const SUBJECT_NAMES = ["lenet", "mlp", "embedding"] as const;
export type SubjectName = (typeof SUBJECT_NAMES)[number];

/** Samples of a global batch, and how a table of results names the model. */
export const SUBJECTS: Readonly<Record<SubjectName, { readonly batchSize: number; readonly title: string }>> = {
  lenet: { batchSize: 64, title: "LeNet, batch 64, 62 k weights in 10 tensors" },
  mlp: { batchSize: 64, title: "MLP 256-1024-1024-10, batch 64, 1.3 M weights" },
  embedding: { batchSize: 512, title: "embedding 100 k × 16, batch 512, Adam" },
};

export type Subject = { readonly model: Model; readonly dataset: Dataset };

const CLASSES = 10;
const [ROWS, WIDTH, IDS] = [100_000, 16, 2];
/** Of an epoch, whose end is no part of what is measured: more than any measurement makes. */
const STEPS = 100_000;
/** Samples that differ; further ones are the same again. */
const DISTINCT = 1024;

/** `sampleCountMax`: of one process. `onServers`: every parameter lives there, if the training has a session. */
export function openSubject(name: SubjectName, { sampleCountMax, onServers }: { sampleCountMax: number; onServers: boolean }): Subject {
  const workspace = new Workspace();
  const sampleCount = STEPS * SUBJECTS[name].batchSize;
  if (name === "embedding") {
    const lookup = { name: "rows", vocabSize: ROWS, dim: WIDTH, idsPerSample: IDS, sampleCountMax };
    const network = new EmbeddingNetwork(workspace, { lookup, layers: [dotOfHalves()] });
    if (onServers) setParamPs(network, { initInServer: true });
    const loss = new SquaredError(workspace, { sampleCountMax });
    return { model: new Model(network, { loss, optimizer: { type: "adam", learningRate: 0.001 } }), dataset: idSamples(sampleCount) };
  }
  const layers = [dense({ outputs: 1024, activation: "relu" }), dense({ outputs: 1024, activation: "relu" }), dense({ outputs: CLASSES })];
  const network =
    name === "lenet"
      ? createLenet(workspace, { sampleCountMax })
      : new Sequential(workspace, { inputShape: [256], sampleCountMax, layers });
  if (onServers) setParamPs(network, { initInServer: true });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax });
  const model = new Model(network, { loss, optimizer: { type: "momentum", learningRate: 0.001, momentum: 0.9 } });
  return { model, dataset: valueSamples(sampleCount, network.input.shape) };
}

function valueSamples(sampleCount: number, shape: readonly number[]): Dataset {
  const length = shape.reduce((product, side) => product * side, 1);
  const floats = Float32Array.from({ length: DISTINCT * length }, (_, i) => Math.sin(i * 1.7));
  return {
    ...{ sampleCount, shape },
    readValues: (indexes: Uint32Array, into: Activations): void => {
      const { values } = into;
      for (let i = 0; i < indexes.length; i++) {
        const from = (indexes[i]! % DISTINCT) * length;
        values.set(floats.subarray(from, from + length), i * length);
      }
    },
    readLabels: (indexes, into) => {
      for (let i = 0; i < indexes.length; i++) into[i] = indexes[i]! % CLASSES;
    },
  };
}

/** Ids spread evenly over the table. */
function idSamples(sampleCount: number): Dataset {
  return {
    ...{ sampleCount, idsPerSample: IDS },
    readIds: (indexes, into) => {
      for (let i = 0; i < indexes.length; i++)
        for (let j = 0; j < IDS; j++) into[i * IDS + j] = (Math.imul(indexes[i]! * IDS + j, 0x9e37_79b1) >>> 0) % ROWS;
    },
    readLabels: (indexes, into) => {
      for (let i = 0; i < indexes.length; i++) into[i] = indexes[i]! % 5;
    },
  };
}
