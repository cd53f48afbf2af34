// Goal: under SSP and ASP whoever is ready takes the next unit: every unit of an epoch is done once, all workers take
// part, and the model learns what it learns under BSP.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Accuracy } from "../../src/faces/training/metrics.ts";
import { Model, type TrainOptions } from "../../src/faces/training/model.ts";
import { setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";

// The last of 20 batches has 7 samples.
const [VOCAB, IDS, CLASSES, BATCH, SAMPLES, EPOCHS, WORKERS] = [20, 2, 3, 12, 235, 5, 3];
const random = new Random(8);
const ids = Array.from({ length: SAMPLES * IDS }, () => random.below(VOCAB));
const labels = Array.from({ length: SAMPLES }, (_, i) => ids[i * IDS]! % CLASSES);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

async function train(options: Partial<TrainOptions>, isHybrid: boolean): Promise<void> {
  const visits = new Uint32Array(SAMPLES);
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: WORKERS });
  const results = await Promise.all(
    cluster.sessions.map(async (session) => {
      const workspace = new Workspace();
      const lookup = { name: "table", vocabSize: VOCAB, dim: 8, idsPerSample: IDS, sampleCountMax: BATCH };
      const network = new EmbeddingNetwork(workspace, { lookup, layers: [dense({ outputs: CLASSES })] });
      setParamPs(isHybrid ? network.lookup : network);
      const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
      const optimizer = { type: "adam", learningRate: 0.05 } as const;
      const model = new Model(network, { loss, metrics: { accuracy: new Accuracy() }, optimizer });
      let isCounting = false;
      const readLabels = (indexes: Uint32Array, into: Float32Array): void => {
        if (isCounting) for (const index of indexes) visits[index]!++;
        dataset.readLabels(indexes, into);
      };
      const { sampleCount, idsPerSample, readIds } = dataset;
      const begin = (): void => {
        isCounting = true;
      };
      const counted = { sampleCount, idsPerSample, readIds, readLabels };
      const result = await model.train(EPOCHS, counted, {
        batchSize: BATCH,
        session,
        overlap: true,
        callbacks: [{ begin }],
        timeoutMs: 20_000,
        ...options,
      });
      return { ...result, model };
    }),
  );
  const name = `${JSON.stringify(options)}, hybrid ${isHybrid}`;
  assert.ok(
    visits.every((count) => count === EPOCHS),
    `${name}: every sample once in every epoch`,
  );
  assert.ok(
    results.every(({ stepCount, repeatedCount }) => stepCount > 0 && repeatedCount === 0),
    `${name}: all take part, nothing is repeated`,
  );
  const { accuracy } = await results[0]!.model.eval(dataset);
  assert.ok(accuracy! > 0.9, `${name}: accuracy ${accuracy}`);
}

for (const consistency of [{ ssp: 2 }, "asp", "bsp"] as const) {
  for (const isHybrid of [false, true]) {
    test(`${JSON.stringify(consistency)}, ${isHybrid ? "hybrid" : "all on servers"}: every sample once, and it learns`, async () => {
      await train({ consistency }, isHybrid);
    });
  }
}
