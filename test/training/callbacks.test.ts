// Goal: callbacks of workers that train together may evaluate the model, and one that returns false stops all workers
// at one place (Model.M3, Trainer.T6).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import type { TrainingCallback } from "../../src/faces/training/callbacks/callback.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model } from "../../src/faces/training/model.ts";
import { parametersOf, setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import type { TrainingResult } from "../../src/faces/training/trainer.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";

const [VOCAB, IDS, CLASSES, BATCH, SAMPLES, STEPS] = [20, 2, 3, 12, 120, 10];
const ids = Array.from({ length: SAMPLES * IDS }, (_, i) => (i * 7 + (i >> 3)) % VOCAB);
const labels = Array.from({ length: SAMPLES }, (_, i) => (ids[i * IDS]! + ids[i * IDS + 1]!) % CLASSES);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

/** Where parameters live: all on servers, some reduced among the workers, or with rows in caches too. */
type Kind = "served" | "hybrid" | "cached";

function built(kind: Kind): { readonly network: EmbeddingNetwork; readonly model: Model } {
  const workspace = new Workspace();
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      ...{ name: "table", vocabSize: VOCAB, dim: 4, idsPerSample: IDS, sampleCountMax: BATCH },
      ...(kind === "cached" ? { vocabCacheSize: 2 * BATCH * IDS, target: "DEVICE" } : {}),
    },
    layers: [dense({ outputs: CLASSES })],
  });
  setParamPs(kind === "served" ? network : network.lookup);
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  return { network, model: new Model(network, { loss, optimizer: { type: "adam", learningRate: 0.03 } }) };
}

type CallbackOf = (model: Model, session: Session) => TrainingCallback;
type Trained = { readonly result: TrainingResult; readonly epochs: number; readonly weights: readonly Float32Array[] };

async function train(kind: Kind, consistency: "bsp" | "asp", callbackOf: CallbackOf): Promise<readonly Trained[]> {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  return await Promise.all(
    cluster.sessions.map(async (session) => {
      const { network, model } = built(kind);
      let epochs = 0;
      const callbacks = [callbackOf(model, session), { epochEnd: () => void epochs++ }];
      const result = await model.train(4, dataset, { batchSize: BATCH, session, consistency, callbacks, timeoutMs: 20_000 });
      return { result, epochs, weights: parametersOf(network).map(({ values }) => values.slice()) };
    }),
  );
}

for (const kind of ["served", "hybrid", "cached"] as const) {
  test(`a worker evaluates the model after an epoch while the others train on, and the bits are the same: ${kind}`, async () => {
    const losses: number[] = [];
    const epochEnd = (model: Model) => async (): Promise<void> => void losses.push((await model.eval(dataset)).loss!);
    const watched = await train(kind, "bsp", (model, { rank }) => (rank === 0 ? { epochEnd: epochEnd(model) } : {}));
    const plain = await train(kind, "bsp", () => ({}));
    assert.deepEqual(
      watched.map(({ weights }) => weights),
      plain.map(({ weights }) => weights),
    );
    assert.equal(losses.length, 4);
    assert.ok(losses.at(-1)! < losses[0]!, losses.join(", "));
  });

  test(`all workers stop after the epoch in which a callback of one of them returned false: ${kind}`, async () => {
    const stops = (rank: number): TrainingCallback => (rank === 1 ? { epochEnd: ({ epoch }) => epoch < 2 } : {});
    const trained = await train(kind, "bsp", (_, { rank }) => stops(rank));
    assert.deepEqual(
      trained.map(({ result: { hasStopped, hasLeft }, epochs }) => ({ hasStopped, hasLeft, epochs })),
      [0, 1].map(() => ({ hasStopped: true, hasLeft: false, epochs: 2 })),
    );
    assert.deepEqual(trained[0]!.weights, trained[1]!.weights);
  });
}

for (const kind of ["served", "hybrid"] as const) {
  test(`the global step counts the steps of all epochs alike at every worker: ${kind}`, async () => {
    const steps: number[][] = [[], []];
    await train(kind, "bsp", (_, { rank }) => ({
      stepEnd: ({ globalStep, epoch, epochStep }) => {
        assert.equal(globalStep, (epoch - 1) * STEPS + epochStep);
        steps[rank]!.push(globalStep);
      },
    }));
    const all = Array.from({ length: 4 * STEPS }, (_, i) => i + 1);
    assert.deepEqual(steps, [all, all]);
  });
}

test("a worker of an asynchronous training stops by its own callbacks, and the others train on", async () => {
  const stops: TrainingCallback = { epochEnd: ({ epoch }) => epoch < 2 };
  const trained = await train("served", "asp", (_, { rank }) => (rank === 1 ? stops : {}));
  assert.deepEqual(
    trained.map(({ result: { hasStopped, hasLeft }, epochs }) => ({ hasStopped, hasLeft, epochs })),
    [
      { hasStopped: false, hasLeft: false, epochs: 4 },
      { hasStopped: true, hasLeft: false, epochs: 2 },
    ],
  );
});

test("a callback that returns false after a step stops a hybrid training before the next one, and a served one after the epoch", async () => {
  const stepEnd: TrainingCallback["stepEnd"] = ({ epoch, step }) => !(epoch === 2 && step === 3);
  const outcomes = async (kind: Kind): Promise<readonly unknown[]> => {
    const trained = await train(kind, "bsp", (_, { rank }) => (rank === 1 ? { stepEnd } : {}));
    return trained.map(({ result: { stepCount, hasStopped }, epochs }) => ({ stepCount, hasStopped, epochs }));
  };
  const both = (outcome: unknown): readonly unknown[] => [outcome, outcome];
  assert.deepEqual(await outcomes("hybrid"), both({ stepCount: STEPS + 3, hasStopped: true, epochs: 1 }));
  assert.deepEqual(await outcomes("cached"), both({ stepCount: STEPS + 3, hasStopped: true, epochs: 1 }));
  assert.deepEqual(await outcomes("served"), both({ stepCount: 2 * STEPS, hasStopped: true, epochs: 2 }));
});
