// Goal: trainings that share their work between servers and workers go on when heads are killed, and have the bits of a
// calm run: a hybrid one, whose dense layers are reduced among the workers, and ones with rows that live with the
// workers while they train (vocabCacheSize), in caches that hold everything and in caches smaller than a batch.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model } from "../../src/faces/training/model.ts";
import { parametersOf, setParamPs } from "../../src/faces/training/network.ts";
import { WideDeepNetwork } from "../../src/faces/training/networks/wide-deep-network.ts";
import { BinaryCrossEntropy } from "../../src/nn/losses/binary-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

const [VOCAB, IDS, BATCH, SAMPLES, EPOCHS] = [40, 3, 8, 80, 2];
const random = new Random(3);
const ids = Array.from({ length: SAMPLES * IDS }, () => Math.floor(VOCAB * random.fraction() ** 2));
const labels = Array.from({ length: SAMPLES }, (_, i) => (ids[i * IDS]! + ids[i * IDS + 1]!) % 2);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

type Trained = { readonly weights: readonly Float32Array[]; readonly predictions: Float32Array };

async function trainOne(session: Session, vocabCacheSize: number): Promise<Trained> {
  const workspace = new Workspace();
  const shape = { vocabSize: VOCAB, idsPerSample: IDS, sampleCountMax: BATCH, dim: 4, hidden: [8] };
  const network = new WideDeepNetwork(workspace, vocabCacheSize === 0 ? shape : { ...shape, target: "DEVICE", vocabCacheSize });
  for (const lookup of [network.deep, network.wide]) setParamPs(lookup);
  const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: BATCH });
  const model = new Model(network, { loss, optimizer: { type: "adam", learningRate: 0.02 } });
  await model.train(EPOCHS, dataset, { batchSize: BATCH, session });
  return { weights: parametersOf(network).map(({ values }) => values.slice()), predictions: await model.predict(dataset) };
}

/** Two workers; the head of each server is killed at its time, in simulated ms since the training began. */
async function train(vocabCacheSize: number, killsMs: readonly number[] = []): Promise<{ readonly trained: Trained; readonly ms: number }> {
  const heartbeats = { heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500 };
  const cluster = new SimCluster({ seed: 3, serverCount: 2, workerCount: 2, replicas: 2, settle: SETTLING, ...heartbeats });
  await cluster.start();
  const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  const beganMs = cluster.clock.nowMs();
  for (const [rank, delayMs] of killsMs.entries()) cluster.clock.after(delayMs, () => cluster.kill(idOf("server", rank)));
  const [first, second] = await cluster.run(Promise.all(sessions.map((session) => trainOne(session, vocabCacheSize))));
  assert.deepEqual(first, second, "both workers have the same");
  const ms = cluster.clock.nowMs() - beganMs;
  for (const rank of killsMs.keys()) {
    assert.ok((cluster.scheduler.roster.nodes.find(({ node }) => node === idOf("server", rank))?.incarnation ?? 0) > 1, "it was killed");
    cluster.takenOver(rank);
  }
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  return { trained: first!, ms };
}

for (const [what, vocabCacheSize] of [
  ["a hybrid training", 0],
  ["a training whose caches hold all rows", VOCAB],
  ["a training whose caches hold less than a batch", 4],
] as const)
  test(`${what} has the same bits when the head of each server is killed at some moment`, async () => {
    const calm = await train(vocabCacheSize);
    for (const share of [0.2, 0.5, 0.8]) {
      const { trained } = await train(vocabCacheSize, [share * calm.ms, (1 - share / 2) * calm.ms]);
      assert.deepEqual(trained, calm.trained, `killed at ${share} and ${1 - share / 2} of ${calm.ms} ms`);
    }
  });
