// Goal: a training survives its nodes. A worker that dies gives its units to the others, who do every unit that is left; a server that comes back from its checkpoint
// lets training go on. Nobody hangs, and what was repeated is counted.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { ArrayDataset } from "../../src/training/dataset.ts";
import { Accuracy } from "../../src/training/metrics.ts";
import { Model, type TrainOptions } from "../../src/training/model.ts";
import { type Network, parametersOf } from "../../src/training/network.ts";
import { EmbeddingNetwork } from "../../src/training/networks/embedding-network.ts";
import { setParamPs } from "../../src/training/set-param-ps.ts";
import { RestartableCluster } from "./restartable-cluster.ts";

const [VOCAB, IDS, CLASSES, BATCH, SAMPLES, EPOCHS] = [30, 2, 3, 12, 240, 3];
const UNITS = (SAMPLES / BATCH) * EPOCHS;
const random = new Random(4);
const ids = Array.from({ length: SAMPLES * IDS }, () => random.below(VOCAB));
const labels = Array.from({ length: SAMPLES }, (_, i) => ids[i * IDS]! % CLASSES);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

function built(isHybrid: boolean): { readonly network: Network; readonly model: Model } {
  const workspace = new Workspace();
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      name: "table",
      vocabSize: VOCAB,
      width: 8,
      idsPerSample: IDS,
      sampleCountMax: BATCH,
      initializer: { type: "normal", std: 0.3 },
    },
    layers: [dense({ outputs: CLASSES })],
  });
  setParamPs(isHybrid ? network.lookup : network);
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  return {
    network,
    model: new Model(network, { loss, metrics: { accuracy: new Accuracy() }, optimizer: { type: "adam", learningRate: 0.05 } }),
  };
}

type Trained = {
  readonly network: Network;
  readonly model: Model;
  readonly stepCount: number;
  readonly repeatedCount: number;
  readonly retryCount: number;
};

async function train(session: Session, isHybrid: boolean, options: Partial<TrainOptions> = {}): Promise<Trained> {
  const { network, model } = built(isHybrid);
  const result = await model.train(EPOCHS, dataset, { batchSize: BATCH, session, deadlineMs: 20_000, ...options });
  return { network, model, ...result };
}

for (const isHybrid of [false, true]) {
  test(`a worker that dies leaves its units to the others, ${isHybrid ? "hybrid" : "all on servers"}`, { timeout: 60_000 }, async () => {
    await using cluster = await RestartableCluster.start({ servers: 2, workers: 3 });
    const [one, victim, three] = cluster.sessions as [Session, Session, Session];
    let doneByVictim = 0;
    const stepEnd = async ({ epoch, step }: { epoch: number; step: number }): Promise<void> => {
      doneByVictim++;
      if (epoch === 2 && step === 6) await cluster.kill("worker", 1);
    };
    const dying = train(victim, isHybrid, { callbacks: [{ stepEnd }] }).then(
      () => "ended well",
      () => "failed",
    );
    const [first, third] = await Promise.all([train(one, isHybrid), train(three, isHybrid)]);
    assert.equal(await dying, "failed");
    const total = first.stepCount + third.stepCount;
    assert.ok(total >= 3 * UNITS - doneByVictim, `${total} steps of the others and ${doneByVictim} of the one that died, of ${3 * UNITS}`);
    const { accuracy } = await first.model.eval(dataset);
    assert.ok(accuracy! > 0.9, `accuracy ${accuracy}`);
    const weights = ({ network }: Trained): Float32Array[] => parametersOf(network).map(({ values }) => values);
    assert.deepEqual(weights(first), weights(third), "those who are left have the same values");
  });
}

test("a server that is restarted from its checkpoint lets training go on", { timeout: 60_000 }, async () => {
  const checkpointDir = mkdtempSync(join(tmpdir(), "weighbridge-churn-"));
  try {
    await using cluster = await RestartableCluster.start({ servers: 2, workers: 2, checkpointDir });
    const [one, two] = cluster.sessions as [Session, Session];
    let restarting: Promise<void> | undefined;
    const stepEnd = async ({ epoch, step }: { epoch: number; step: number }): Promise<void> => {
      if (epoch === 1 && step === 15) await one.checkpoint();
      if (epoch === 2 && step === 3) {
        restarting = cluster.kill("server", 1).then(async () => await cluster.startServer(1, checkpointDir));
      }
    };
    const [first, second] = await Promise.all([train(one, false, { callbacks: [{ stepEnd }] }), train(two, false)]);
    await restarting;
    assert.ok(first.retryCount + second.retryCount > 0, "somebody noticed");
    assert.equal(first.stepCount + second.stepCount, 2 * UNITS);
    const { accuracy } = await first.model.eval(dataset);
    assert.ok(accuracy! > 0.9, `accuracy ${accuracy}`);
  } finally {
    rmSync(checkpointDir, { recursive: true, force: true });
  }
});
