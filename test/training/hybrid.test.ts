// Goal: only the embedding lives on servers, the rest is reduced among the workers, in the same step. The predictions
// are within 1e-4 of those of one process, all workers have the same bits, and a worker that goes leaves the others
// training to the end.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Accuracy } from "../../src/faces/training/metrics.ts";
import { Model, type TrainOptions } from "../../src/faces/training/model.ts";
import { parametersOf, setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { readManifest } from "../../src/node/checkpoint/checkpoint-reader.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";

const [VOCAB, WIDTH, IDS, CLASSES, BATCH] = [30, 8, 2, 3, 12];
const random = new Random(11);
const SAMPLES = 250; // the last of 21 batches has 10 samples
const ids = Array.from({ length: SAMPLES * IDS }, () => random.below(VOCAB + 4) - 2);
const labels = Array.from({ length: SAMPLES }, (_, i) => (Math.abs(ids[i * IDS]! * 7 + ids[i * IDS + 1]!) % 9) % CLASSES);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

function built(): { readonly network: EmbeddingNetwork; readonly model: Model } {
  const workspace = new Workspace();
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      name: "table",
      vocabSize: VOCAB,
      dim: WIDTH,
      idsPerSample: IDS,
      sampleCountMax: BATCH,
      initializer: { type: "normal", std: 0.3 },
    },
    layers: [dense({ outputs: 16, activation: "relu" }), dense({ outputs: CLASSES })],
  });
  setParamPs(network.lookup);
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  const metrics = { accuracy: new Accuracy() };
  return { network, model: new Model(network, { loss, metrics, optimizer: { type: "adam", learningRate: 0.03 } }) };
}

type Trained = { readonly weights: readonly Float32Array[]; readonly predictions: Float32Array };

async function trainTogether(workers: number, options: Partial<TrainOptions> = {}): Promise<Trained> {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers });
  const trained = await Promise.all(
    cluster.sessions.map(async (session): Promise<Trained> => {
      const { network, model } = built();
      await model.train(3, dataset, { batchSize: BATCH, session, overlap: true, ...options });
      const predictions = await model.predict(dataset);
      return { weights: parametersOf(network).map(({ values }) => values.slice()), predictions };
    }),
  );
  for (const one of trained) assert.deepEqual(one, trained[0], "all workers have the same weights and predict the same");
  return trained[0]!;
}

function distance(some: Float32Array, others: Float32Array): number {
  assert.equal(some.length, others.length);
  return some.reduce((most, value, i) => Math.max(most, Math.abs(value - others[i]!)), 0);
}

test("predictions of 1, 2 and 3 workers are within 1e-4 of those of one process, and have the same bits in every run", async () => {
  const { model } = built();
  await model.train(3, dataset, { batchSize: BATCH });
  const alone = await model.predict(dataset);
  const { accuracy } = await model.eval(dataset);
  assert.ok(accuracy! > 0.6, `it learns: ${accuracy}`);
  for (const workers of [1, 2, 3]) {
    const together = await trainTogether(workers);
    const far = distance(together.predictions, alone);
    assert.ok(far <= 1e-4, `${workers} workers: ${far}`);
    if (workers === 2) assert.deepEqual(await trainTogether(workers), together, "second run");
  }
});

test("alone, what is saved and taken up goes on with the same bits, rows and their moments too", async () => {
  const one = built();
  await one.model.train(1, dataset, { batchSize: BATCH });
  const bytes = await one.model.encode();
  assert.ok(bytes !== undefined);
  await one.model.train(3, dataset, { batchSize: BATCH, firstEpoch: 1 });
  const other = built();
  await other.model.decode(bytes, "model.safetensors");
  await other.model.train(3, dataset, { batchSize: BATCH, firstEpoch: 1 });
  assert.deepEqual(await other.model.predict(dataset), await one.model.predict(dataset));
});

test("overlap changes no bit", async () => {
  assert.deepEqual(await trainTogether(2, { overlap: false }), await trainTogether(2));
});

test("a worker that leaves in the middle leaves the others training to the end", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 3 });
  const outcomes = await Promise.all(
    cluster.sessions.map(async (session) => {
      const { network, model } = built();
      const leaves = session.rank === 1;
      const stop = new AbortController();
      const stepEnd = ({ epoch, step }: { epoch: number; step: number }): void => {
        if (leaves && epoch === 2 && step === 5) stop.abort();
      };
      const training = model.train(3, dataset, {
        batchSize: BATCH,
        session,
        overlap: true,
        callbacks: [{ stepEnd }],
        signal: stop.signal,
        timeoutMs: 20_000,
      });
      if (!leaves) {
        const { stepCount } = await training;
        return { stepCount, weights: parametersOf(network).map(({ values }) => values.slice()) };
      }
      await assert.rejects(training, { code: "ABORTED" });
      await session.close({ barrier: false });
      return undefined;
    }),
  );
  const [first, , third] = outcomes;
  assert.ok(first !== undefined && third !== undefined);
  assert.deepEqual(first.weights, third.weights);
  assert.ok(first.stepCount + third.stepCount > 2 * 63, `the others took over its units: ${first.stepCount} and ${third.stepCount}`);
});

test("what workers wait for each other with is in no checkpoint: a training, in step or with a bound, leaves its own parameters and no others", async () => {
  for (const consistency of ["bsp", { ssp: 2 }] as const) {
    const checkpointDir = await mkdtemp(join(tmpdir(), "weighbridge-hybrid-"));
    try {
      await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir });
      const during: string[] = [];
      const callbacks = [{ epochEnd: async () => void during.push(...(await namesOf(cluster.session))) }];
      await Promise.all(
        cluster.sessions.map((session) => built().model.train(2, dataset, { batchSize: BATCH, session, consistency, callbacks })),
      );
      assert.deepEqual([...new Set(during), ...(await namesOf(cluster.session))], ["table.weight", "table.weight"]);
      const [first, second] = cluster.sessions as [Session, Session];
      await second.leaveClocks(); // so that the cut waits for one worker alone
      const { path } = await first.checkpoint().saved;
      const { parameters, state } = await readManifest(path);
      assert.deepEqual(
        parameters.map(({ name }) => name),
        ["table.weight"],
      );
      assert.deepEqual(Object.keys(state), ["run"]);
    } finally {
      await rm(checkpointDir, { recursive: true });
    }
  }
});

async function namesOf(session: Session): Promise<string[]> {
  return (await session.parameters()).map(({ name }) => name);
}
