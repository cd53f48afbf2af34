// overlap — whether a training is faster when parameters travel while others are computed: epochs with and without
// overlap in turns, in one job, so that what else the machine does concerns both.
//
//   weighbridge launch -s 2 -w 2 -- bench/overlap.ts [--network rows|dense] [--cache-rows n] [--pairs n]
//
// rows: 8 ids a sample of a table of 100,000 × 16 under Adam, batches of 512. dense: 784-1024-512-10, 1.3 M weights,
// batches of 64. Steps a second as worker 0 counts them: medians, the median of the pairs' ratios, and how many of them
// were above 1.

import { parseArgs } from "node:util";
import { Random } from "../src/base/random.ts";
import { ArrayDataset } from "../src/faces/training/dataset.ts";
import { Model } from "../src/faces/training/model.ts";
import { setParamPs } from "../src/faces/training/network.ts";
import { EmbeddingNetwork } from "../src/faces/training/networks/embedding-network.ts";
import { dense } from "../src/nn/layers/dense.ts";
import { BinaryCrossEntropy } from "../src/nn/losses/binary-cross-entropy.ts";
import { SoftmaxCrossEntropy } from "../src/nn/losses/softmax-cross-entropy.ts";
import { Sequential } from "../src/nn/sequential.ts";
import { Workspace } from "../src/nn/workspace.ts";
import { connect } from "../src/node/connect.ts";
import { median } from "./statistics.ts";

const [STEPS, VOCAB, IDS, INPUTS] = [60, 100_000, 8, 784];
const { values } = parseArgs({
  options: {
    network: { type: "string", default: "rows" },
    "cache-rows": { type: "string", default: "0" },
    pairs: { type: "string", default: "14" },
  },
});
const random = new Random(1);
const session = await connect();
const workspace = new Workspace();

type Subject = { readonly model: Model; readonly dataset: ArrayDataset; readonly batchSize: number };

function rowsSubject(): Subject {
  const batchSize = 512;
  const sampleCountMax = Math.ceil(batchSize / session.workerCount);
  const vocabCacheSize = Number(values["cache-rows"]);
  const cache = vocabCacheSize > 0 ? ({ target: "DEVICE", vocabCacheSize } as const) : {};
  const lookup = { name: "rows", vocabSize: VOCAB, dim: 16, idsPerSample: IDS, sampleCountMax, ...cache };
  const network = new EmbeddingNetwork(workspace, { lookup, layers: [dense({ outputs: 64, activation: "relu" }), dense({ outputs: 1 })] });
  setParamPs(network);
  const loss = new BinaryCrossEntropy(workspace, { sampleCountMax });
  const count = batchSize * STEPS;
  // Few ids are asked for often.
  const list = Float64Array.from({ length: count * IDS }, () => Math.floor(VOCAB * random.fraction() ** 4));
  const dataset = new ArrayDataset({ labels: Uint8Array.from({ length: count }, (_, i) => i % 2), ids: { idsPerSample: IDS, list } });
  return { model: new Model(network, { loss, optimizer: { type: "adam", learningRate: 0.01 } }), dataset, batchSize };
}

function denseSubject(): Subject {
  const batchSize = 64;
  const sampleCountMax = Math.ceil(batchSize / session.workerCount);
  const layers = [dense({ outputs: 1024, activation: "relu" }), dense({ outputs: 512, activation: "relu" }), dense({ outputs: 10 })];
  const network = new Sequential(workspace, { inputShape: [INPUTS], sampleCountMax, layers });
  setParamPs(network);
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: 10, sampleCountMax });
  const count = batchSize * STEPS;
  const floats = Float32Array.from({ length: count * INPUTS }, () => random.fraction());
  const labels = Uint8Array.from({ length: count }, (_, i) => i % 10);
  const dataset = new ArrayDataset({ labels, values: { shape: [INPUTS], floats } });
  return { model: new Model(network, { loss, optimizer: { type: "sgd", learningRate: 0.01 } }), dataset, batchSize };
}

const { model, dataset, batchSize } = values.network === "dense" ? denseSubject() : rowsSubject();
let trainingCount = 0;

async function stepsPerSec(overlap: boolean): Promise<number> {
  const { stepCount, seconds } = await model.train(1, dataset, { session, batchSize, overlap, name: `training ${trainingCount++}` });
  return stepCount / seconds;
}

await stepsPerSec(true); // the first one compiles
const [on, off]: [number[], number[]] = [[], []];
for (let pair = 0; pair < Number(values.pairs); pair++) {
  for (const overlap of pair % 2 === 0 ? [true, false] : [false, true]) (overlap ? on : off).push(await stepsPerSec(overlap));
}
if (session.rank === 0) {
  const ratios = on.map((speed, i) => speed / off[i]!);
  const above = ratios.filter((ratio) => ratio > 1).length;
  const speeds = `on ${median(on).toFixed(1)} steps/s, off ${median(off).toFixed(1)}`;
  console.log(
    `${values.network}, ${values["cache-rows"]} cached: ${speeds}; ratio ${median(ratios).toFixed(2)}, above 1 in ${above} of ${ratios.length}`,
  );
}
await model.close();
await session.close();
