// Goal: with vocabCacheSize rows live with the workers while they train, and nothing else changes: Wide & Deep has the
// bits of the run without a cache, for one worker and for two, with caches that hold everything and caches that are
// smaller than a batch. What the cache did is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { AreaUnderCurve } from "../../src/faces/training/metrics.ts";
import { Model, type TrainOptions } from "../../src/faces/training/model.ts";
import { parametersOf, setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import { WideDeepNetwork } from "../../src/faces/training/networks/wide-deep-network.ts";
import type { RowSourceStatistics } from "../../src/faces/training/row-source.ts";
import { BinaryCrossEntropy } from "../../src/nn/losses/binary-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";

const [VOCAB, IDS, BATCH, SAMPLES] = [60, 3, 8, 100];
const random = new Random(2);
const ids = Array.from({ length: SAMPLES * IDS }, () => Math.floor(VOCAB * random.fraction() ** 2));
const labels = Array.from({ length: SAMPLES }, (_, i) => (ids[i * IDS]! + ids[i * IDS + 1]!) % 2);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

type Trained = { readonly weights: readonly Float32Array[]; readonly predictions: Float32Array; readonly auc: number };

async function train(
  { workers, vocabCacheSize }: { readonly workers: number; readonly vocabCacheSize: number },
  options: Partial<TrainOptions> = {},
): Promise<Trained & { readonly statistics: RowSourceStatistics | undefined; readonly warnings: readonly string[] }> {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers });
  const trained = await Promise.all(
    cluster.sessions.map(async (session) => {
      const warnings: string[] = [];
      Object.defineProperty(session, "log", { value: { ...SILENT_LOG, warn: (text: string) => void warnings.push(text) } });
      const workspace = new Workspace();
      const shape = { vocabSize: VOCAB, idsPerSample: IDS, sampleCountMax: BATCH, dim: 4, hidden: [8] };
      const network = new WideDeepNetwork(workspace, { ...shape, target: "DEVICE", vocabCacheSize });
      setParamPs(network.deep);
      setParamPs(network.wide);
      const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: BATCH });
      const metrics = { auc: new AreaUnderCurve() };
      const model = new Model(network, { loss, metrics, optimizer: { type: "adam", learningRate: 0.02 } });
      await model.train(3, dataset, { batchSize: BATCH, session, overlap: true, ...options });
      const statistics = network.deep.source?.statistics;
      const weights = parametersOf(network).map(({ values }) => values.slice());
      const predictions = await model.predict(dataset);
      const { auc } = await model.eval(dataset);
      return { weights, predictions, auc: auc!, statistics, warnings };
    }),
  );
  const [first] = trained;
  for (const { predictions, weights } of trained) {
    assert.deepEqual(predictions, first!.predictions);
    assert.deepEqual(weights, first!.weights);
  }
  return first!;
}

for (const workers of [1, 2]) {
  test(`${workers} worker${workers === 1 ? "" : "s"}: cached and uncached runs have the same bits`, async () => {
    const { weights, predictions, auc } = await train({ workers, vocabCacheSize: 0 });
    assert.ok(auc > 0.6, `it learns: ${auc}`);
    for (const vocabCacheSize of [VOCAB, 7]) {
      const cached = await train({ workers, vocabCacheSize });
      assert.deepEqual(cached.weights, weights, `a cache of ${vocabCacheSize}`);
      assert.deepEqual(cached.predictions, predictions, `a cache of ${vocabCacheSize}`);
      const { deviceHits, serverReads, idCount, directBatches } = cached.statistics!;
      assert.ok(idCount > 0 && serverReads > 0);
      assert.equal(
        cached.warnings.length,
        vocabCacheSize === VOCAB ? 0 : 2,
        "the session's node tells once of each table whose cache is too small",
      );
      if (vocabCacheSize === VOCAB) assert.ok(deviceHits > serverReads && directBatches === 0, JSON.stringify(cached.statistics));
      else assert.ok(directBatches > 0, `batches that do not fit go past the cache: ${JSON.stringify(cached.statistics)}`);
    }
    assert.deepEqual((await train({ workers, vocabCacheSize: 20 }, { overlap: false })).predictions, predictions, "without overlap");
  });
}

test("a cache needs bsp", async () => {
  await assert.rejects(
    train({ workers: 1, vocabCacheSize: 5 }, { consistency: { ssp: 1 } }),
    throwsCode("BAD_ARGUMENT", /trained under "bsp"/),
  );
});

test("several models with vocabCacheSize train one after the other in one session, with the bits of a session of their own", async () => {
  const names = ["first", "second", "third"];
  const together = await trainLinear(names);
  for (const [i, name] of names.entries()) assert.deepEqual(together[i], (await trainLinear([name]))[0], name);
});

/** The predictions of a linear model of the ids for each of the names: two workers train them in one session. */
async function trainLinear(names: readonly string[]): Promise<readonly Float32Array[]> {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const predictions = await Promise.all(
    cluster.sessions.map(async (session) => {
      const found: Float32Array[] = [];
      for (const name of names) {
        const workspace = new Workspace();
        const shape = { vocabSize: VOCAB, dim: 1, idsPerSample: IDS, sampleCountMax: BATCH } as const;
        const lookup = { ...shape, name, combine: "sum", target: "DEVICE", vocabCacheSize: 20 } as const;
        const network = new EmbeddingNetwork(workspace, { lookup });
        setParamPs(network);
        const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: BATCH });
        await using model = new Model(network, { loss, optimizer: { type: "adagrad", learningRate: 0.1 } });
        await model.train(1, dataset, { batchSize: BATCH, session, name, timeoutMs: 10_000, patienceMs: 2000 });
        found.push(await model.predict(dataset));
      }
      return found;
    }),
  );
  return predictions[0]!;
}
