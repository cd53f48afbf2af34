// struck-trainer — a worker of replicated servers that trains, LeNet in step or Wide & Deep asynchronously:
// struck-trainer.ts lenet|wide-deep STEPS. It goes on to step n when its standard input has said so ("until n"), and to
// the last one when that ends: so whoever kills servers does it in the middle of a training, however fast the machine
// is. Beside each step it pushes to two parameters that count. At the end it checks that each of these pushes counted
// once, that no step had to be repeated, and prints the bits of the weights.

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { connect } from "weighbridge";
import {
  ArrayDataset,
  BinaryCrossEntropy,
  createLenet,
  type Dataset,
  ImageDataset,
  Model,
  type Network,
  readMnist,
  SoftmaxCrossEntropy,
  type StepEvent,
  setParamPs,
  WideDeepNetwork,
  Workspace,
} from "weighbridge/training";

const BATCH = 32;
const IDS_PER_SAMPLE = 6;
const IDS = 5000;
const SIZE = 2000;
const WAIT = { timeoutMs: 120_000 };
const [task = "", stepsText] = process.argv.slice(2);
const steps = Number(stepsText);

/** Of numbers that look random, and are the same in every process. */
function hashed(index: number): number {
  return (Math.imul(index + 1, 2_654_435_761) >>> 0) % IDS;
}

function made(): { readonly network: Network; readonly model: Model; readonly dataset: Dataset } {
  const workspace = new Workspace();
  const sampleCountMax = BATCH;
  if (task === "lenet") {
    const network = createLenet(workspace, { sampleCountMax });
    const loss = new SoftmaxCrossEntropy(workspace, { classCount: 10, sampleCountMax });
    const model = new Model(network, { loss, optimizer: { type: "momentum", learningRate: 0.01, momentum: 0.9 } });
    return { network, model, dataset: new ImageDataset(readMnist("train", { countMax: BATCH * steps })) };
  }
  const network = new WideDeepNetwork(workspace, { vocabSize: IDS, idsPerSample: IDS_PER_SAMPLE, sampleCountMax, dim: 8, hidden: [32] });
  const isTable = (name: string): boolean => name.startsWith("deep.") || name.startsWith("wide.");
  const model = new Model(network, {
    loss: new BinaryCrossEntropy(workspace, { sampleCountMax }),
    optimizer: (name) => (isTable(name) ? { type: "adagrad", learningRate: 0.02 } : { type: "adam", learningRate: 0.002 }),
  });
  const list = Float64Array.from({ length: BATCH * steps * IDS_PER_SAMPLE }, (_, i) => hashed(i));
  const labels = Float32Array.from({ length: BATCH * steps }, (_, i) => hashed(IDS_PER_SAMPLE * i) % 2);
  return { network, model, dataset: new ArrayDataset({ labels, ids: { idsPerSample: IDS_PER_SAMPLE, list } }) };
}

let allowed = 0;
let heard: () => void = () => {};
const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  allowed = Math.max(allowed, Number(/^until (\d+)$/.exec(line)?.[1] ?? 0));
  heard();
});
input.on("close", () => {
  allowed = Infinity;
  heard();
});

const session = await connect();
const shared = await session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp" });
const own = await session.embedding(`own ${session.rank}`, { dim: 2, optimizer: "sum" });
const [ones, two] = [new Float32Array(SIZE).fill(1), new Float32Array(4).fill(1)];
let done = 0;

async function stepEnd({ loss, epochStep }: StepEvent): Promise<void> {
  await Promise.all([shared.push(ones, WAIT), own.push([1, 2 ** 40], two, WAIT)]);
  done++;
  const step = task === "lenet" ? epochStep : done; // workers in step wait for each other at the same one
  console.log(`step ${step}, loss ${loss}`);
  while (step >= allowed)
    await new Promise<void>((resolve) => {
      heard = resolve;
    });
}

const { network, model, dataset } = made();
setParamPs(network, { initInServer: true });
const options = { session, batchSize: BATCH, consistency: task === "lenet" ? "bsp" : "asp" } as const;
const { repeatedCount } = await model.train(1, dataset, { ...options, callbacks: [{ stepEnd }] });
if (repeatedCount > 0) throw new Error(`${repeatedCount} samples were used again: a step has failed`);

const counted = await own.pull([1, 2 ** 40], WAIT);
if (!counted.every((value) => value === done)) throw new Error(`after ${done} pushes the rows are ${counted.join()}`);
const all = await session.rendezvous.meet("trained", { generation: 0, value: String(done), ...WAIT });
const total = all.reduce((sum, { value }) => sum + Number(value), 0);
const sums = await shared.pull(WAIT);
const wrong = sums.findIndex((sum) => sum !== total);
if (wrong >= 0) throw new Error(`after ${total} pushes of all workers element ${wrong} is ${sums[wrong]}`);

const bits = createHash("sha256");
for (const { parameters = [] } of network.stages) for (const { values } of parameters) bits.update(values);
console.log(`bits ${bits.digest("hex").slice(0, 16)}`);
await session.close();
