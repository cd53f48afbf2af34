// Goal: workers that join a training share its batches: the sync rounds have the samples of one batch whatever their
// number, so that the weights are those of a training by one worker alone; and a training goes on when some leave.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { TrainingCallback } from "../../src/faces/training/callbacks/callback.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model } from "../../src/faces/training/model.ts";
import { setParamPs } from "../../src/faces/training/network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Sequential } from "../../src/nn/sequential.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { WorkerScaling } from "../../src/scheduler/worker-scaling.ts";
import type { Consistency } from "../../src/store/consistency.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";

const [INPUTS, CLASSES, BATCH, SAMPLES, EPOCHS] = [6, 3, 20, 130, 8];
/** A clock that a newcomer spent would show. */
const schedule = { type: "cosine", steps: EPOCHS * Math.ceil(SAMPLES / BATCH), floor: 0.1 } as const;
const STEP_MS = 4;
const MAX = 5;
const random = new Random(5);
const floats = Float32Array.from({ length: SAMPLES * INPUTS }, () => random.fraction() * 2 - 1);
const labels = Array.from({ length: SAMPLES }, (_, i) => {
  const sums = [0, 1, 2].map((c) => floats[i * INPUTS + c]! + floats[i * INPUTS + 3 + c]!);
  return sums.indexOf(Math.max(...sums));
});
const dataset = new ArrayDataset({ labels, values: { shape: [INPUTS], floats } });

/** `onServers`: of two layers, how many have their parameters there; the others are reduced among the workers. */
function built(onServers: 0 | 1 | 2): { readonly network: Sequential; readonly model: Model } {
  const workspace = new Workspace();
  const layers = [dense({ name: "hidden", outputs: 8, activation: "relu" }), dense({ name: "head", outputs: CLASSES })];
  const network = new Sequential(workspace, { inputShape: [INPUTS], sampleCountMax: BATCH, layers });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  for (const parameter of network.parameters) {
    if (onServers === 2 || (onServers === 1 && parameter.name.startsWith("hidden"))) setParamPs(parameter);
  }
  return { network, model: new Model(network, { loss, optimizer: { type: "sgd", learningRate: 0.1, schedule } }) };
}

const weightsOf = ({ parameters }: Sequential): number[] => parameters.flatMap(({ values }) => [...values]);

type Conditions = { readonly signal?: AbortSignal; readonly consistency?: Consistency };
/** `ends`: of which epochs it saw the end, in that order. */
type Outcome = {
  readonly weights: number[];
  readonly sampleCount: number;
  readonly ends: readonly number[];
  readonly hasLeft: boolean;
  readonly rank: number;
};

class ElasticTraining {
  readonly cluster: SimCluster;
  readonly #onServers: 0 | 1 | 2;

  constructor(seed: number, onServers: 0 | 1 | 2) {
    this.#onServers = onServers;
    this.cluster = new SimCluster({
      ...{ seed, serverCount: 2, workerCount: 2, settle: SETTLING },
      ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500, startTimeoutMs: 3000 },
      network: { latencyMsMin: 0, latencyMsMax: 1 + (seed % 3) },
      optionsOf: (node) => (node === SCHEDULER_ID ? { workerCountMax: MAX } : roleOf(node) === "worker" ? { rank: undefined } : {}),
    });
  }

  /**
   * Trains in the worker of this number until the end, or its signal; returns its weights and how many samples it had.
   */
  async train(rank: number, { signal, consistency = "bsp" }: Conditions = {}): Promise<Outcome> {
    const { network, model } = built(this.#onServers);
    const session = await Session.open(this.cluster.worker(rank).node, { timeoutMs: 60_000 });
    const ends: number[] = [];
    const slowness: TrainingCallback = {
      stepEnd: () => new Promise((go) => void this.cluster.clock.after(STEP_MS, go)),
      epochEnd: async ({ epoch }) => {
        ends.push(epoch);
        if (this.#onServers < 2) return; // who joins a group begins with its epoch
        // As a checkpoint of all workers does.
        await session.rendezvous.meet("end", { generation: epoch, timeoutMs: 5000 });
      },
    };
    try {
      const options = { session, batchSize: BATCH, callbacks: [slowness], signal, consistency };
      const { sampleCount, hasLeft } = await model.train(EPOCHS, dataset, options);
      return { weights: weightsOf(network), sampleCount, ends, hasLeft, rank: session.rank };
    } catch (thrown) {
      if (!(signal?.aborted === true && isWeighbridgeError(thrown, "ABORTED"))) throw thrown;
      return { weights: [], sampleCount: 0, ends, hasLeft: true, rank: session.rank };
    } finally {
      await model.close();
      await session.close({ barrier: false });
    }
  }

  /** What can be asked of the number of workers. */
  get workers(): WorkerScaling {
    const { node } = this.cluster.scheduler;
    assert.ok(node instanceof SchedulerNode);
    return node.scheduler.workers;
  }

  async join(rank: number, conditions: Conditions = {}): Promise<Outcome> {
    await this.cluster.startNode(idOf("worker", rank));
    return await this.train(rank, conditions);
  }
}

async function alone(): Promise<number[]> {
  const { network, model } = built(0);
  await model.train(EPOCHS, dataset, { batchSize: BATCH });
  return weightsOf(network);
}

function distance(a: readonly number[], b: readonly number[]): number {
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}

test("2 workers become 5: all of them have samples, each once, and the weights are those of one worker, for 2 seeds", async () => {
  const expected = await alone();
  await forSeeds({ from: 1, count: 2 }, async (seed) => {
    const training = new ElasticTraining(seed, 2);
    const { cluster } = training;
    await cluster.start();
    const first = [0, 1].map((rank) => training.train(rank));
    await cluster.clock.advance(40 + 10 * seed);
    const third = training.join(2);
    await cluster.clock.advance(60);
    const results = await cluster.run(Promise.all([...first, third, training.join(3), training.join(4)]));
    for (const { weights } of results) assert.ok(distance(weights, expected) < 1e-4, `distance ${distance(weights, expected)}`);
    const counts = results.map(({ sampleCount }) => sampleCount);
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      EPOCHS * SAMPLES,
      `every sample once: ${counts.join(", ")}`,
    );
    assert.ok(
      counts.every((count) => count > 0),
      `all have some: ${counts.join(", ")}`,
    );
  });
});

test("2 workers become 5 and then 3, by one that leaves and one that is killed, for 2 seeds, and the training ends well", async () => {
  const expected = await alone();
  await forSeeds({ from: 11, count: 2 }, async (seed) => {
    const training = new ElasticTraining(seed, seed % 2 === 0 ? 2 : 1);
    const { cluster } = training;
    await cluster.start();
    const stay = [0, 1].map((rank) => training.train(rank));
    await cluster.clock.advance(30);
    const leaving = new AbortController();
    const left = training.join(2, { signal: leaving.signal });
    const killed = training.join(3).catch(() => {}); // its process is gone
    stay.push(training.join(4));
    await cluster.clock.advance(120);
    leaving.abort();
    await cluster.clock.advance(20);
    cluster.kill(idOf("worker", 3));
    const results = await cluster.run(Promise.all(stay));
    await cluster.run(left);
    void killed;
    for (const { weights } of results) assert.ok(distance(weights, expected) < 0.05, `distance ${distance(weights, expected)}`);
    for (const { weights } of results) assert.deepEqual(weights, results[0]!.weights);
  });
});

for (const onServers of [2, 1, 0] as const) {
  test(`2 workers become 5 and then 3 because it is asked for: every batch stays one round, with ${onServers} of 2 layers on servers`, async () => {
    const expected = await alone();
    await forSeeds({ from: 340, count: 2 }, async (seed) => {
      const training = new ElasticTraining(seed, onServers);
      const { cluster } = training;
      await cluster.start();
      const trained = [0, 1].map((rank) => training.train(rank));
      await cluster.clock.advance(20 + 10 * (seed % 3));
      trained.push(...[2, 3, 4].map((rank) => training.join(rank)));
      await cluster.clock.advance(100);
      assert.deepEqual(training.workers.request({ to: 3 }).leaving, [3, 4]);
      const outcomes = await cluster.run(Promise.all(trained));
      for (const { weights, hasLeft, rank } of outcomes) {
        assert.equal(hasLeft, rank >= 3, `worker ${rank}`);
        if (!hasLeft) assert.ok(distance(weights, expected) < 1e-4, `distance ${distance(weights, expected)}`);
      }
      const counts = outcomes.map(({ sampleCount }) => sampleCount);
      const total = counts.reduce((sum, count) => sum + count, 0);
      assert.equal(total, EPOCHS * SAMPLES, `every sample once: ${counts.join(", ")}`);
      assert.equal(training.workers.report().wishedCount, undefined);
    });
  });
}

for (const consistency of ["asp", { ssp: 2 }, "bsp"] as const) {
  test(`all workers see the ends of all epochs, however late they come, with ${JSON.stringify(consistency)}, for 3 seeds`, async () => {
    await forSeeds({ from: 21, count: 3 }, async (seed) => {
      const training = new ElasticTraining(seed, 2);
      const { cluster } = training;
      await cluster.start();
      const random = new Random(seed);
      const workers = [training.train(0, { consistency })];
      await cluster.clock.advance(random.below(120)); // the first may have done a whole epoch by now
      workers.push(training.train(1, { consistency }));
      for (const rank of [2, 3, 4]) {
        await cluster.clock.advance(random.below(150));
        workers.push(training.join(rank, { consistency }));
      }
      const outcomes = await cluster.run(Promise.all(workers));
      const all = Array.from({ length: EPOCHS }, (_, i) => i + 1);
      for (const { ends } of outcomes) assert.deepEqual(ends, all);
      assert.equal(
        outcomes.reduce((sum, { sampleCount }) => sum + sampleCount, 0),
        EPOCHS * SAMPLES,
      );
    });
  });
}
