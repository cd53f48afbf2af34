// churn-cases — trainings whose workers die and come back, for churn.test.ts (all on servers) and the soak (hybrid,
// cached).

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import type { Session } from "../../src/api/session.ts";
import type { WaitOptions } from "../../src/base/deferred.ts";
import { Random } from "../../src/base/random.ts";
import type { TrainingCallback } from "../../src/faces/training/callbacks/callback.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Accuracy } from "../../src/faces/training/metrics.ts";
import { Model, type TrainOptions } from "../../src/faces/training/model.ts";
import { type Network, parametersOf, setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import type { Collective } from "../../src/worker/collective.ts";
import { RestartableCluster } from "./restartable-cluster.ts";

const [VOCAB, IDS, CLASSES, BATCH, SAMPLES, EPOCHS] = [30, 2, 3, 12, 240, 3];
export const UNITS: number = (SAMPLES / BATCH) * EPOCHS;
const random = new Random(4);
const ids = Array.from({ length: SAMPLES * IDS }, () => random.below(VOCAB));
const labels = Array.from({ length: SAMPLES }, (_, i) => ids[i * IDS]! % CLASSES);
export const dataset: ArrayDataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

export type Setup = { readonly isHybrid: boolean; readonly vocabCacheSize?: number };

function built({ isHybrid, vocabCacheSize = 0 }: Setup): { readonly network: Network; readonly model: Model } {
  const workspace = new Workspace();
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      name: "table",
      vocabSize: VOCAB,
      dim: 8,
      idsPerSample: IDS,
      sampleCountMax: BATCH,
      initializer: { type: "normal", std: 0.3 },
      target: vocabCacheSize > 0 ? "DEVICE" : "CPU",
      vocabCacheSize,
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

export type Trained = {
  readonly network: Network;
  readonly model: Model;
  readonly stepCount: number;
  readonly repeatedCount: number;
  readonly retryCount: number;
  /** By epoch, then by sample: how often this worker has computed it. */
  readonly visits: readonly Uint32Array[];
};

export async function train(session: Session, setup: Setup, options: Partial<TrainOptions> = {}): Promise<Trained> {
  const { network, model } = built(setup);
  const visits = Array.from({ length: EPOCHS }, () => new Uint32Array(SAMPLES));
  let last: number[] = [];
  const { sampleCount, idsPerSample, readIds } = dataset;
  const readLabels = (indexes: Uint32Array, into: Float32Array): void => {
    last = [...indexes];
    dataset.readLabels(indexes, into);
  };
  const stepEnd = ({ epoch }: { epoch: number }): void => {
    for (const index of last) visits[epoch - 1]![index]!++;
  };
  const { callbacks = [], ...rest } = options;
  const all = { batchSize: BATCH, session, overlap: true, timeoutMs: 20_000, ...rest, callbacks: [{ stepEnd }, ...callbacks] };
  const result = await model.train(EPOCHS, { sampleCount, idsPerSample, readIds, readLabels }, all);
  return { network, model, visits, ...result };
}

const weightsOf = ({ network }: Trained): Float32Array[] => parametersOf(network).map(({ values }) => values);

/** Samples of an epoch that nobody in the list has computed, and how many visits there were too many. */
function countVisits(trained: readonly Trained[], epoch: number): { readonly missed: number; readonly again: number } {
  const counts = Array.from({ length: SAMPLES }, (_, i) => trained.reduce((sum, { visits }) => sum + visits[epoch]![i]!, 0));
  return {
    missed: counts.filter((count) => count === 0).length,
    again: counts.reduce((sum, count) => sum + Math.max(0, count - 1), 0),
  };
}

/** A worker is killed in the middle of the second epoch: the others do what is left. */
export async function workerDies(setup: Setup): Promise<void> {
  await using cluster = await RestartableCluster.start({ servers: 2, workers: 3 });
  const [one, victim, three] = cluster.sessions as [Session, Session, Session];
  const stepEnd = async ({ epoch, step }: { epoch: number; step: number }): Promise<void> => {
    if (epoch === 2 && step === 6) await cluster.kill("worker", 1);
  };
  const dying = assert.rejects(train(victim, setup, { callbacks: [{ stepEnd }] }));
  const [first, third] = await Promise.all([train(one, setup), train(three, setup)]);
  await dying;
  const parts = BATCH / 3;
  const [, second, last] = Array.from({ length: EPOCHS }, (_, epoch) => countVisits([first, third], epoch));
  assert.ok(second!.missed <= 6 * parts, `of the epoch in which it died only what it had done is missing: ${second!.missed} samples`);
  assert.ok(first.repeatedCount > 0, "what it had begun is counted");
  assert.ok(second!.again <= first.repeatedCount * parts + third.repeatedCount * parts, "what was done twice is counted");
  assert.deepEqual(last, { missed: 0, again: 0 });
  const { accuracy } = await first.model.eval(dataset);
  assert.ok(accuracy! > 0.9, `accuracy ${accuracy}`);
  assert.deepEqual(weightsOf(first), weightsOf(third), "those who are left have the same values");
}

/**
 * A worker is killed in the first epoch and started again: it takes part in what is left. The others end that epoch
 * without it, and begin the next one when it is there.
 */
export async function workerComesBack(setup: Setup): Promise<void> {
  await using cluster = await RestartableCluster.start({ servers: 2, workers: 3 });
  const [one, victim, three] = cluster.sessions as [Session, Session, Session];
  const restarted = Promise.withResolvers<Session>();
  const stepEnd = async ({ epoch, step }: { epoch: number; step: number }): Promise<void> => {
    if (epoch !== 1 || step !== 6) return;
    await cluster.kill("worker", 1);
    cluster.startWorker(1).then(restarted.resolve, restarted.reject);
  };
  const dying = assert.rejects(train(victim, setup, { callbacks: [{ stepEnd }] }));
  const isBack = ({ rank }: Session): TrainingCallback => ({
    epochEnd: async ({ epoch }) => {
      await restarted.promise;
      if (epoch === 1 && setup.isHybrid) await cluster.listens(1, { as: rank });
    },
  });
  const coming = restarted.promise.then((session) => train(session, setup));
  const [first, third, second] = await Promise.all([
    train(one, setup, { callbacks: [isBack(one)] }),
    train(three, setup, { callbacks: [isBack(three)] }),
    coming,
  ]);
  await dying;
  assert.ok(second.stepCount > 0, "it was lent units");
  assert.deepEqual(countVisits([first, second, third], EPOCHS - 1), { missed: 0, again: 0 });
  assert.deepEqual(weightsOf(first), weightsOf(third));
  assert.deepEqual(weightsOf(first), weightsOf(second), "the one that came has the same values");
  const { accuracy } = await second.model.eval(dataset);
  assert.ok(accuracy! > 0.9, `accuracy ${accuracy}`);
}

/**
 * A worker dies over the word that the epoch is over: one of the others has heard it, the other has not. Both go on,
 * and nobody waits for anybody until a deadline.
 */
export async function workerDiesAtTheEnd(setup: Setup, epoch: number): Promise<void> {
  await using cluster = await RestartableCluster.start({ servers: 2, workers: 3 });
  const [one, victim, three] = cluster.sessions as [Session, Session, Session];
  const dying = assert.rejects(train(victim, setup));
  const deaf = deafAtEnd(three, epoch, async () => await cluster.kill("worker", 1));
  const [first, third] = await Promise.all([train(one, setup, { timeoutMs: 10_000 }), train(deaf, setup, { timeoutMs: 10_000 })]);
  await dying;
  for (let later = epoch; later < EPOCHS; later++) assert.deepEqual(countVisits([first, third], later), { missed: 0, again: 0 });
  assert.deepEqual(weightsOf(first), weightsOf(third), "those who are left have the same values");
}

/**
 * A session whose collective fails once with the death of another worker, in setup of the word that this epoch, from 1
 * on, is over; the others get its vote.
 */
function deafAtEnd(session: Session, epoch: number, kill: () => Promise<void>): Session {
  let overs = 0;
  const deaf = (collective: Collective): Collective =>
    over(collective, {
      exchange: async (votes: readonly Uint8Array[], wait?: WaitOptions) => {
        const parts = await collective.exchange(votes, wait);
        // TrainingGroup.agree.
        const isEnd = parts.every((part) => part.length === 40 && new Float64Array(part.slice().buffer)[1] === 1);
        if (!isEnd || ++overs !== epoch) return parts;
        await kill();
        while (collective.failure === undefined) await setTimeout(5);
        throw collective.failure;
      },
    });
  return over(session, { stepCollective: async (wait?: WaitOptions) => deaf(await session.stepCollective(wait)) });
}

/** The same object, but for some of its methods. */
function over<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get: (_, name) => {
      const value: unknown = Reflect.get(name in methods ? methods : target, name, name in methods ? methods : target);
      return typeof value === "function" && !(name in methods) ? (value.bind(target) as unknown) : value;
    },
  });
}
