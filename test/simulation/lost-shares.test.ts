// Goal: the samples of a worker that is killed in a round count all the same. What it had is dealt again, as rounds of
// their own with their own weight: no sample is missing, and those that count twice are within `repeatedCount`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model } from "../../src/faces/training/model.ts";
import { type Loss, setParamPs } from "../../src/faces/training/network.ts";
import type { TrainingResult } from "../../src/faces/training/trainer.ts";
import { Activations } from "../../src/nn/activations.ts";
import type { GradientReady, Layer, LayerPlan, LayerSite } from "../../src/nn/layer.ts";
import { createParameter } from "../../src/nn/parameter.ts";
import { Sequential } from "../../src/nn/sequential.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";

const [SAMPLES, BATCH, EPOCHS, VICTIM] = [120, 12, 3, 2];
const floats = Float32Array.from({ length: SAMPLES }, (_, i) => i);
const dataset = new ArrayDataset({ labels: new Float32Array(SAMPLES), values: { shape: [1], floats } });

/** Its input is the number of a sample. The gradient of that sample's weight is what the loss says; of others 0. */
function countingLayer({ workspace, name, inputShape, sampleCountMax }: LayerSite): Layer {
  const weight = createParameter(workspace, { name: `${name}.weight`, shape: [SAMPLES], initializer: { type: "constant", value: 0 } });
  const output = new Activations(workspace, inputShape, sampleCountMax);
  let input = output;
  return {
    ...{ name, outputShape: inputShape, parameters: [weight], statistics: [] },
    forward: (numbers: Activations) => {
      input = numbers;
      output.sampleCount = numbers.sampleCount;
      return output;
    },
    backward: (gradient: Activations, ready: GradientReady) => {
      weight.gradient.fill(0);
      for (let i = 0; i < gradient.floatCount; i++) weight.gradient[input.values[i]!]! += gradient.values[i]!;
      ready(weight);
      return undefined;
    },
  };
}

/** Each sample has the same gradient, divided by the size of its batch. */
function countingLoss(workspace: Workspace): Loss {
  const gradient = new Activations(workspace, [1], BATCH);
  return {
    ...{ gradient, expectedLabel: "any", acceptsLabel: () => true },
    compute: ({ sampleCount }: Activations, _: ArrayLike<number>, divisor: number) => {
      gradient.sampleCount = sampleCount;
      gradient.values.fill(1 / divisor);
      return 0;
    },
  };
}

/** After training each weight is minus the number of times that its sample has counted. */
function built(isServed: boolean): { readonly network: Sequential; readonly model: Model } {
  const workspace = new Workspace();
  const layers: LayerPlan[] = [{ kind: "count", open: countingLayer }];
  const network = new Sequential(workspace, { inputShape: [1], sampleCountMax: BATCH, layers });
  if (isServed) setParamPs(network);
  return { network, model: new Model(network, { loss: countingLoss(workspace), optimizer: { type: "sgd", learningRate: BATCH } }) };
}

type Survivor = { readonly counts: readonly number[]; readonly result: TrainingResult };

async function withOneKilled(seed: number, isServed: boolean): Promise<readonly Survivor[]> {
  const cluster = new SimCluster({
    ...{ seed, serverCount: 2, workerCount: 3, settle: SETTLING },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500, startTimeoutMs: 3000 },
    network: { latencyMsMin: 0, latencyMsMax: 1 + (seed % 4) },
  });
  await cluster.start();
  const train = async (rank: number): Promise<Survivor> => {
    const { network, model } = built(isServed);
    const session = await Session.open(cluster.worker(rank).node, { timeoutMs: 60_000 });
    const stepEnd = (): Promise<void> => new Promise((go) => void cluster.clock.after(2 + rank, go));
    const result = await model.train(EPOCHS, dataset, { session, batchSize: BATCH, callbacks: [{ stepEnd }] });
    await session.close({ barrier: false });
    return { counts: [...network.parameters[0]!.values].map((value) => -value), result };
  };
  const survivors = [0, 1].map(train);
  void train(VICTIM).catch(() => {}); // its process is gone
  await cluster.clock.advance(5 + new Random(seed).below(150));
  cluster.kill(idOf("worker", VICTIM));
  return await cluster.run(Promise.all(survivors));
}

for (const isServed of [true, false]) {
  test(`no sample of a worker that is killed is missing, and none counts by another weight: ${isServed ? "served" : "reduced"}, for 4 seeds`, async () => {
    await forSeeds({ from: 5, count: 4 }, async (seed) => {
      const [one, other] = (await withOneKilled(seed, isServed)) as [Survivor, Survivor];
      assert.deepEqual(one.counts, other.counts);
      for (const [sample, count] of one.counts.entries()) {
        const times = Math.round(count);
        assert.ok(times >= EPOCHS && Math.abs(count - times) < 1e-4, `sample ${sample} counts ${count} times`);
      }
      const again = one.counts.reduce((sum, count) => sum + Math.round(count) - EPOCHS, 0);
      const { repeatedCount } = one.result; // parts of a batch, of which each has one sample here
      assert.ok(again <= repeatedCount, `${again} samples count twice, and ${repeatedCount} are told`);
    });
  });
}
