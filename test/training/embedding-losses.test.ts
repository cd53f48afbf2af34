// Goal: MindSpore's test of sparse embeddings, made stricter: a table of 12 × 4 and a dense layer behind it, Adam, ids
// from -5 to 14, those below zero and past the end among them. Ten losses are within 1e-6 of a plain float64
// computation of the same formulas, written here, whether the table lies in this process or on servers, whether the
// layer behind it lives with it or is trained by the workers among themselves.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model, type TrainOptions } from "../../src/faces/training/model.ts";
import { setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";

const [VOCAB, WIDTH, IDS, CLASSES, BATCH, STEPS] = [12, 4, 3, 5, 8, 10];
const ADAM = { type: "adam", learningRate: 0.02, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 } as const;

const random = new Random(7);
const ids = Array.from({ length: BATCH * STEPS * IDS }, () => random.below(20) - 5); // rows are 0 to 11, ids -5 to 14
const labels = Array.from({ length: BATCH * STEPS }, () => random.below(CLASSES));
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

function built(): { readonly network: EmbeddingNetwork; readonly model: Model } {
  const workspace = new Workspace();
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      name: "embedding",
      vocabSize: VOCAB,
      dim: WIDTH,
      idsPerSample: IDS,
      sampleCountMax: BATCH,
      initializer: { type: "normal", std: 0.5 },
    },
    layers: [dense({ outputs: CLASSES })],
  });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  return { network, model: new Model(network, { loss, optimizer: ADAM }) };
}

/** The losses of all steps, and where each step's samples are. */
async function lossesOf(model: Model, options: Partial<TrainOptions> = {}): Promise<number[]> {
  const losses: number[] = [];
  await model.train(1, dataset, {
    batchSize: BATCH,
    callbacks: [{ stepEnd: ({ loss }) => void losses.push(loss) }],
    overlap: true,
    ...options,
  });
  return losses;
}

/** Adam in float64; a row of the table counts its own updates, as tables do here. */
class Adam64 {
  readonly #moments = new Map<string, { m: number[]; v: number[]; step: number }>();

  update(name: string, values: number[], gradient: readonly number[]): void {
    const zeros = (): number[] => values.map(() => 0);
    const state = this.#moments.get(name) ?? { m: zeros(), v: zeros(), step: 0 };
    this.#moments.set(name, state);
    state.step++;
    for (const [i, g] of gradient.entries()) {
      state.m[i] = ADAM.beta1 * state.m[i]! + (1 - ADAM.beta1) * g;
      state.v[i] = ADAM.beta2 * state.v[i]! + (1 - ADAM.beta2) * g * g;
      const [m, v] = [state.m[i]! / (1 - ADAM.beta1 ** state.step), state.v[i]! / (1 - ADAM.beta2 ** state.step)];
      values[i] = values[i]! - (ADAM.learningRate * m) / (Math.sqrt(v) + ADAM.epsilon);
    }
  }
}

type Reference = { readonly table: number[][]; readonly weight: number[][]; readonly bias: number[] };

/** The losses of batches of samples by plain loops. */
function referenceLosses({ table, weight, bias }: Reference, batches: readonly (readonly number[])[]): number[] {
  const adam = new Adam64();
  return batches.map((samples) => {
    const rowGradients = new Map<number, number[]>();
    const weightGradient = weight.map((row) => row.map(() => 0));
    const biasGradient = bias.map(() => 0);
    let loss = 0;
    for (const sample of samples) {
      const own = ids.slice(sample * IDS, (sample + 1) * IDS);
      const input = own.flatMap((id) => table[id] ?? Array.from({ length: WIDTH }, () => 0));
      const logits = weight.map((row, o) => row.reduce((sum, w, i) => sum + w * input[i]!, bias[o]!));
      const peak = Math.max(...logits);
      const total = logits.reduce((sum, logit) => sum + Math.exp(logit - peak), 0);
      loss += (Math.log(total) + peak - logits[labels[sample]!]!) / samples.length;
      const error = logits.map((logit, o) => (Math.exp(logit - peak) / total - (o === labels[sample] ? 1 : 0)) / samples.length);
      for (const [o, e] of error.entries()) {
        biasGradient[o] = biasGradient[o]! + e;
        for (const [i, x] of input.entries()) weightGradient[o]![i] = weightGradient[o]![i]! + e * x;
      }
      for (const [k, id] of own.entries()) {
        if (table[id] === undefined) continue;
        const gradient = rowGradients.get(id) ?? Array.from({ length: WIDTH }, () => 0);
        rowGradients.set(id, gradient);
        for (let j = 0; j < WIDTH; j++) gradient[j] = gradient[j]! + error.reduce((sum, e, o) => sum + e * weight[o]![k * WIDTH + j]!, 0);
      }
    }
    for (const [id, gradient] of rowGradients) adam.update(`row ${id}`, table[id]!, gradient);
    for (const [o, row] of weight.entries()) adam.update(`weight ${o}`, row, weightGradient[o]!);
    adam.update("bias", bias, biasGradient);
    return loss;
  });
}

/** What a fresh network begins with, read through its own rows. */
async function firstValues(): Promise<Reference> {
  const { network, model } = built();
  const probe = new ArrayDataset({ labels: [0], ids: { idsPerSample: IDS, list: [0, 0, 0] } });
  await model.predict(probe);
  const table: number[][] = [];
  for (let id = 0; id < VOCAB; id++) {
    await network.lookup.acquire({ ids: Float64Array.of(id, -1, -1), sampleCount: 1, idsPerSample: IDS });
    table.push([...network.lookup.forward().current.subarray(0, WIDTH)]);
  }
  const [weight, bias] = network.stages[1]!.parameters;
  const rows = Array.from({ length: CLASSES }, (_, o) => [...weight!.values.subarray(o * IDS * WIDTH, (o + 1) * IDS * WIDTH)]);
  await model.close();
  return { table, weight: rows, bias: [...bias!.values] };
}

/** The order in which samples come: as the loss callback cannot tell it, a data set that notes it does. */
async function batchesOf(): Promise<number[][]> {
  const batches: number[][] = [];
  const { model } = built();
  const noting = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });
  const spy = { ...noting, sampleCount: noting.sampleCount, idsPerSample: IDS, readIds: noting.readIds };
  const readLabels = (indexes: Uint32Array, into: Float32Array): void => {
    if (indexes.length === BATCH) batches.push([...indexes]);
    noting.readLabels(indexes, into);
  };
  await model.train(1, { ...spy, readLabels }, { batchSize: BATCH });
  await model.close();
  return batches;
}

function assertClose(actual: readonly number[], expected: readonly number[], what: string): void {
  assert.equal(actual.length, expected.length, what);
  for (const [i, value] of expected.entries())
    assert.ok(Math.abs(actual[i]! - value) <= 1e-6, `${what}, step ${i + 1}: ${actual[i]} and ${value}`);
}

test("ten losses with ids out of range equal those of a float64 reference, alone and with the table on servers", async () => {
  const batches = await batchesOf();
  const reference = referenceLosses(await firstValues(), batches);
  assert.equal(reference.length, STEPS);
  assert.ok(reference[0]! - reference[STEPS - 1]! !== 0 && new Set(reference).size === STEPS, "the losses differ from step to step");

  const alone = await lossesOf(built().model);
  assertClose(alone, reference, "alone");

  for (const overlap of [true, false]) {
    await using cluster = await EmbeddedCluster.start({ servers: 2 });
    const { network, model } = built();
    setParamPs(network);
    assert.deepEqual(await lossesOf(model, { session: cluster.session, overlap }), alone, `on servers, overlap ${overlap}: the same bits`);
  }

  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { network, model } = built();
  setParamPs(network.lookup, { initInServer: true });
  assert.deepEqual(await lossesOf(model, { session: cluster.session }), alone, "the table alone on servers");
});
