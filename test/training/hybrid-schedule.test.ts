// Goal: a hybrid training counts its steps once: the rates of a schedule, the clocks of the servers and the names of
// checkpoints agree. Its values are those of one process within rounding, however often it was resumed.

import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model } from "../../src/faces/training/model.ts";
import { parametersOf, setParamPs } from "../../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../../src/faces/training/networks/embedding-network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { stepName } from "../../src/node/checkpoint/checkpoint-directory.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import { loadModel, ModelCheckpoint } from "../../src/node/model-files.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const [VOCAB, IDS, CLASSES, BATCH, SAMPLES, EPOCHS] = [30, 2, 3, 12, 250, 3];
const STEPS = Math.ceil(SAMPLES / BATCH);
const random = new Random(11);
const ids = Array.from({ length: SAMPLES * IDS }, () => random.below(VOCAB));
const labels = Array.from({ length: SAMPLES }, (_, i) => (Math.abs(ids[i * IDS]! * 7 + ids[i * IDS + 1]!) % 9) % CLASSES);
const dataset = new ArrayDataset({ labels, ids: { idsPerSample: IDS, list: ids } });

/** The rate changes at every step: one step more or less shows. */
const optimizer = {
  type: "adam",
  learningRate: 0.03,
  schedule: { type: "warmUp", steps: 15, after: { type: "cosine", steps: EPOCHS * STEPS - 15, floor: 0.01 } },
} as const;

/** Where rows are: on the servers, there and cached by workers, or reduced among the workers as all else is. */
type Rows = "served" | "cached" | "reduced";

function built(rows: Rows = "served"): { readonly network: EmbeddingNetwork; readonly model: Model } {
  const workspace = new Workspace();
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      ...{ name: "table", vocabSize: VOCAB, dim: 8, idsPerSample: IDS, sampleCountMax: BATCH },
      ...{ sparse: rows !== "reduced", initializer: { type: "normal", std: 0.3 } },
      ...(rows === "cached" ? { vocabCacheSize: 2 * BATCH * IDS, target: "DEVICE" } : {}),
    },
    layers: [dense({ outputs: 16, activation: "relu" }), dense({ name: "head", outputs: CLASSES })],
  });
  if (rows !== "reduced") setParamPs(network.lookup); // the dense layers are reduced among the workers
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  return { network, model: new Model(network, { loss, optimizer }) };
}

type Saved = { readonly directory: string; readonly step: number };
type Run = { readonly saved: readonly string[]; readonly values: readonly Float32Array[]; readonly clocks: number };

function positionOf(step: number): { readonly firstEpoch: number; readonly firstStep: number } {
  return { firstEpoch: Math.floor(step / STEPS), firstStep: step % STEPS };
}

/** What a ModelCheckpoint calls the file of this step. */
function fileOf(step: number): string {
  const { firstEpoch, firstStep } = positionOf(step - 1);
  return `CKP-${firstEpoch + 1}_${firstStep + 1}.safetensors`;
}

type RunOptions = { readonly directory: string; readonly everySteps: number; readonly from?: Saved | undefined; readonly rows?: Rows };

/** Two workers train to the end, from the start or from a step that was saved; worker 0 saves every so many steps. */
async function trainTogether({ directory, everySteps, from, rows = "served" }: RunOptions): Promise<Run> {
  const restore = from === undefined || rows === "reduced" ? {} : { restore: join(from.directory, "servers", stepName(from.step)) };
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: join(directory, "servers"), ...restore });
  const runs = await Promise.all(
    cluster.sessions.map(async (session): Promise<Run> => {
      const { network, model } = built(rows);
      const saved: string[] = [];
      const checkpoint = new ModelCheckpoint({ directory, everySteps, onSaved: (path) => saved.push(basename(path)) });
      if (from !== undefined) await loadModel(model, join(from.directory, fileOf(from.step)), { session });
      const position = from === undefined ? {} : positionOf(from.step);
      await model.train(EPOCHS, dataset, { batchSize: BATCH, session, callbacks: rows === "cached" ? [] : [checkpoint], ...position });
      return { saved, values: await valuesOf(network, model), clocks: session.clocks };
    }),
  );
  for (const one of runs) assert.deepEqual(one.values, runs[0]!.values, "all workers have the same bits");
  return runs[0]!;
}

async function valuesOf(network: EmbeddingNetwork, model: Model): Promise<readonly Float32Array[]> {
  return [await model.predict(dataset), ...parametersOf(network).map(({ values }) => values.slice())];
}

function distance(some: readonly Float32Array[], others: readonly Float32Array[]): number {
  assert.equal(some.length, others.length);
  return Math.max(...some.flatMap((values, i) => [...values].map((value, k) => Math.abs(value - others[i]![k]!))));
}

async function trainAlone(rows?: Rows): Promise<readonly Float32Array[]> {
  const { network, model } = built(rows);
  await model.train(EPOCHS, dataset, { batchSize: BATCH });
  return await valuesOf(network, model);
}

test("a hybrid training with warm-up and cosine equals one process within 1e-4, after 0, 1 and 3 resumes, and names its checkpoints by its steps", async () => {
  const expected = await trainAlone();
  let from: Saved | undefined;
  for (const resumes of [0, 1, 2, 3]) {
    const directory = temporaryDirectory("hybrid");
    const everySteps = resumes === 0 ? 20 : 10;
    const { saved, values, clocks } = await trainTogether({ directory, everySteps, from });
    const step = (from?.step ?? 0) + everySteps;
    assert.deepEqual(saved.slice(0, 2).sort(), [fileOf(step), stepName(step)], `${resumes} resumes`);
    assert.equal(clocks, EPOCHS * STEPS, `the clock after ${resumes} resumes`);
    const far = distance(values, expected);
    assert.ok(far <= 1e-4, `${resumes} resumes: ${far}`);
    from = { directory, step };
  }
});

test("a training whose servers hold nothing resumes its schedule from the file of a worker", async () => {
  const expected = await trainAlone("reduced");
  const directory = temporaryDirectory("reduced");
  const whole = await trainTogether({ directory, everySteps: 20, rows: "reduced" });
  assert.ok(distance(whole.values, expected) <= 1e-4);
  const from = { directory, step: 20 };
  const resumed = await trainTogether({ directory: temporaryDirectory("reduced"), everySteps: 20, from, rows: "reduced" });
  assert.deepEqual(resumed.values, whole.values);
  assert.equal(resumed.clocks, EPOCHS * STEPS);
});

test("rows that workers cache are trained by the same schedule", async () => {
  const { values, clocks } = await trainTogether({ directory: temporaryDirectory("cached"), everySteps: 20, rows: "cached" });
  assert.equal(clocks, EPOCHS * STEPS);
  assert.ok(distance(values, await trainAlone("cached")) <= 1e-4);
});

test("one process that resumes with a schedule has the bits of one that did not stop", async () => {
  const directory = temporaryDirectory("alone");
  const whole = built();
  await whole.model.train(EPOCHS, dataset, { batchSize: BATCH, callbacks: [new ModelCheckpoint({ directory, everySteps: 20 })] });
  const resumed = built();
  await loadModel(resumed.model, join(directory, fileOf(20)));
  await resumed.model.train(EPOCHS, dataset, { batchSize: BATCH, ...positionOf(20) });
  assert.deepEqual(await valuesOf(resumed.network, resumed.model), await valuesOf(whole.network, whole.model));
});
