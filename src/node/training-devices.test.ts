// training-devices — Goal: several threads of one process train as one does, alone and with servers, with the same
// events and errors that name what failed; what they cannot train is refused before the first step.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createLoss, createNetwork } from "../../test/support/device-network.ts";
import { Random } from "../base/random.ts";
import type { StepEvent } from "../faces/training/callbacks/callback.ts";
import { ArrayDataset } from "../faces/training/dataset.ts";
import type { DeviceStarter } from "../faces/training/devices/training-devices.ts";
import { Model as FaceModel, type TrainOptions } from "../faces/training/model.ts";
import { type Network, setParamPs } from "../faces/training/network.ts";
import { EmbeddingNetwork } from "../faces/training/networks/embedding-network.ts";
import type { LayerPlan } from "../nn/layer.ts";
import { batchNorm } from "../nn/layers/batch-norm.ts";
import { convolution } from "../nn/layers/convolution.ts";
import { dense } from "../nn/layers/dense.ts";
import { relu, sigmoid } from "../nn/layers/elementwise.ts";
import { maxPool } from "../nn/layers/max-pool.ts";
import { SoftmaxCrossEntropy } from "../nn/losses/softmax-cross-entropy.ts";
import { SquaredError } from "../nn/losses/squared-error.ts";
import { Sequential } from "../nn/sequential.ts";
import { Workspace } from "../nn/workspace.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { Tensor } from "../worker/tensor.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";
import { realClock } from "./real-clock.ts";
import { Model } from "./training-devices.ts";

const [SIDE, CLASSES, SAMPLES] = [6, 3, 50];
/** Of weights and losses, relative to the greatest: sums of floats in another order, over all steps. */
const BOUND = 1e-4;
const random = new Random(9);
const labels = Array.from({ length: SAMPLES }, () => random.below(CLASSES));
const floats = Float32Array.from({ length: SAMPLES * SIDE * SIDE }, (_, i) => random.fraction() + labels[Math.floor(i / SIDE ** 2)]! / 2);
const images = new ArrayDataset({ labels, values: { shape: [1, SIDE, SIDE], floats } });
const rows = new ArrayDataset({ labels, values: { shape: [6], floats: floats.subarray(0, SAMPLES * 6) } });
const optimizer = { type: "momentum", learningRate: 0.05, momentum: 0.9 } as const;

const LAYERS: readonly LayerPlan[] = [
  convolution({ name: "conv", channels: 4, size: 3 }),
  maxPool({ size: 2 }),
  relu(),
  dense({ name: "hidden", outputs: 10 }),
  sigmoid(),
  dense({ name: "head", outputs: CLASSES }),
];

function built(sampleCountMax: number, layers: readonly LayerPlan[] = LAYERS): { readonly network: Sequential; readonly model: Model } {
  const workspace = new Workspace();
  const network = new Sequential(workspace, { inputShape: [1, SIDE, SIDE], sampleCountMax, layers });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax });
  return { network, model: new Model(network, { loss, optimizer }) };
}

type Run = { readonly weights: readonly number[]; readonly losses: readonly number[]; readonly steps: readonly number[] };

async function trained(
  { network, model }: { readonly network: Sequential; readonly model: FaceModel },
  options: TrainOptions,
  epochs = 3,
): Promise<Run> {
  const events: StepEvent[] = [];
  const callbacks = [{ stepEnd: (event: StepEvent) => void events.push(event) }];
  const result = await model.train(epochs, images, { callbacks, ...options });
  assert.equal(result.sampleCount, epochs * SAMPLES);
  const weights = network.parameters.flatMap(({ values }) => [...values]);
  return { weights, losses: events.map(({ loss }) => loss), steps: events.map(({ epochStep }) => epochStep) };
}

function assertClose(actual: Run, expected: Run, what: string): void {
  assert.deepEqual(actual.steps, expected.steps, what);
  for (const name of ["weights", "losses"] as const) {
    const scale = Math.max(...expected[name].map(Math.abs));
    const worst = Math.max(...expected[name].map((value, i) => Math.abs(value - actual[name][i]!)));
    assert.ok(worst <= BOUND * scale, `${what}: ${name} differ by ${worst} of ${scale}`);
  }
}

test("2 and 3 devices train as one does, within 1e-4 of the greatest weight and loss, also batches that they cannot share evenly", async () => {
  for (const batchSize of [10, 7]) {
    const expected = await trained(built(batchSize), { batchSize });
    for (const devices of [2, 3])
      assertClose(await trained(built(batchSize), { batchSize, devices }), expected, `${devices} × ${batchSize}`);
  }
});

test("devices release all they took, have the same bits every run, and a model trains on with one device", async () => {
  const pair = built(10);
  const { arena } = pair.network.workspace;
  await pair.model.train(1, images, { batchSize: 10 });
  const used = arena.usedBytes;
  await pair.model.train(1, images, { batchSize: 10, devices: 2 });
  assert.equal(arena.usedBytes, used);
  await pair.model.train(1, images, { batchSize: 10 });
  const [first, second] = [
    await trained(built(10), { batchSize: 10, devices: 2 }),
    await trained(built(10), { batchSize: 10, devices: 2 }),
  ];
  assert.deepEqual(first, second);
});

test("a device that is held up holds nobody up, and changes no bit: the others compute its chunks", async () => {
  const expected = await trained(built(32), { batchSize: 32, devices: 2 });
  const deviceStarter: DeviceStarter = {
    ...{ clock: realClock(), timeline: () => performance.now(), coreCount: 2 },
    start: (_grant, { ready }) => {
      ready();
      return { stop: async () => await Promise.resolve() };
    },
  };
  const { network } = built(32);
  const loss = new SoftmaxCrossEntropy(network.workspace, { classCount: CLASSES, sampleCountMax: 32 });
  const model = new FaceModel(network, { loss, optimizer }, { deviceStarter });
  assert.deepEqual(await trained({ network, model }, { batchSize: 32, devices: 2 }), expected);
});

test("large layers, whose updates threads share, are trained as one device does, within 1e-4, and with the same bits every run", async () => {
  const layers = [dense({ name: "wide", outputs: 2500, activation: "relu" as const }), dense({ name: "head", outputs: CLASSES })];
  for (const type of ["momentum", "adam"] as const) {
    const make = (): ReturnType<typeof built> => {
      const { network } = built(10, layers);
      const loss = new SoftmaxCrossEntropy(network.workspace, { classCount: CLASSES, sampleCountMax: 10 });
      return {
        network,
        model: new Model(network, { loss, optimizer: { type, learningRate: 0.001, clipNorm: type === "adam" ? 1 : null } }),
      };
    };
    const expected = await trained(make(), { batchSize: 10 });
    const [first, second] = [await trained(make(), { batchSize: 10, devices: 2 }), await trained(make(), { batchSize: 10, devices: 2 })];
    assertClose(first, expected, type);
    assert.deepEqual(first, second);
  }
});

test("devices with servers train as one does, within 1e-4: every weight there, none, with 1 worker and with 2", async () => {
  for (const [workers, onServers] of [
    [1, true],
    [2, true],
    [2, false],
  ] as const) {
    const runs: Run[] = [];
    for (const devices of [1, 2]) {
      await using cluster = await EmbeddedCluster.start({ workers, servers: workers });
      const pairs = cluster.sessions.map(() => built(10));
      if (onServers) for (const { network } of pairs) setParamPs(network);
      const results = await Promise.all(
        pairs.map(async ({ network, model }, i) => {
          const losses: number[] = [];
          const stepEnd = ({ loss }: StepEvent): void => void losses.push(loss);
          await model.train(2, images, { batchSize: 10, devices, session: cluster.sessions[i]!, callbacks: [{ stepEnd }] });
          const weights = network.parameters.flatMap(({ values }) => [...values]);
          await model.close();
          return { weights, losses, steps: [losses.length] };
        }),
      );
      runs.push(results[0]!);
    }
    assertClose(runs[1]!, runs[0]!, `${workers} workers, ${onServers ? "servers" : "no servers"}`);
  }
});

const MODULE = new URL("../../test/support/device-network.ts", import.meta.url);

function fromModule(): { readonly network: Network; readonly model: Model } {
  const workspace = new Workspace();
  const [network, loss] = [createNetwork(workspace, { sampleCountMax: 10 }), createLoss(workspace, { sampleCountMax: 10 })];
  return { network, model: new Model(network, { loss, optimizer }) };
}

test("level 2 gets one gradient of a parameter in a step, however many devices a worker has", async (context) => {
  const pushes = context.mock.method(Tensor, "pushTogether");
  const counts: number[] = [];
  for (const devices of [1, 2, 3]) {
    await using cluster = await EmbeddedCluster.start();
    const { network, model } = built(10);
    setParamPs(network);
    await model.train(1, images, { batchSize: 10, devices, session: cluster.session });
    counts.push(pushes.mock.calls.reduce((sum, { arguments: [together] }) => sum + together.length, 0));
    pushes.mock.resetCalls();
  }
  const { network } = built(10);
  const stepCount = SAMPLES / 10;
  assert.deepEqual(counts, Array(3).fill(stepCount * network.parameters.length));
});

test("a network of layers that are not built in is made by a module in every thread, within 1e-4 of one device", async () => {
  const weights: number[][] = [];
  for (const count of [1, 2]) {
    const { network, model } = fromModule();
    await model.train(2, rows, { batchSize: 10, devices: { count, network: MODULE } });
    weights.push(network.stages.flatMap(({ parameters }) => parameters.flatMap(({ values }) => [...values])));
  }
  const [one, two] = weights;
  assert.ok(one!.every((value, i) => Math.abs(value - two![i]!) < BOUND));
});

test("a device that throws or whose thread exits fails the training with NODE_DEAD and its name", async () => {
  for (const [how, reason] of [
    ["throws=3", /device 1 of the training has ended: the layer fell over/],
    ["exits=2", /device 1 of the training has ended: its thread exited with code 7/],
    ["odd", /device 1 of the training has ended: a network that several devices train is built in the same way every time/],
  ] as const) {
    const { model } = fromModule();
    const network = new URL(`?${how}`, MODULE);
    await assert.rejects(model.train(3, rows, { batchSize: 10, devices: { count: 2, network } }), throwsCode("NODE_DEAD", reason));
    await model.train(1, rows, { batchSize: 10 }); // it goes on with one
  }
});

test("a loss that is not finite on another device is NOT_FINITE, and nothing is applied", async () => {
  const bad = floats.slice();
  const { network, model } = built(SAMPLES, [dense({ name: "head", outputs: CLASSES })]);
  bad[bad.length - 1] = Number.NaN;
  const values = { shape: [1, SIDE, SIDE], floats: bad };
  const before = network.parameters.map(({ values: each }) => each.slice());
  const dataset = new ArrayDataset({ labels, values });
  for (const shuffleSeed of [1, 2, 3, 4])
    await assert.rejects(
      model.train(1, dataset, { batchSize: SAMPLES, devices: 2, shuffleSeed }),
      throwsCode("NOT_FINITE", /epoch 1, step 1: the loss is NaN/),
    );
  assert.deepEqual(
    network.parameters.map(({ values: each }) => each.slice()),
    before,
  );
});

test("an aborted training with devices ends with ABORTED", async () => {
  const { model } = built(10);
  const abort = new AbortController();
  const callbacks = [{ stepEnd: () => abort.abort() }];
  await assert.rejects(
    model.train(1, images, { batchSize: 10, devices: 2, callbacks, signal: abort.signal }),
    throwsCode("ABORTED", /abort/),
  );
});

test("what several devices cannot train is refused by name before the first step", async () => {
  const { model } = built(10);
  const refused = async (options: Partial<TrainOptions>, message: RegExp, by: FaceModel = model): Promise<void> => {
    await assert.rejects(by.train(1, images, { batchSize: 10, devices: 2, ...options }), throwsCode("BAD_ARGUMENT", message));
  };
  for (const devices of [0, 1.5, 65, "2" as unknown as number]) await refused({ devices }, /devices: expected a whole number from 1 to 64/);
  await refused({ devices: { count: 2, network: "x" as unknown as URL } }, /devices: network is the URL of a module/);
  await refused({ devices: { count: 2, networks: MODULE } as never }, /network/);
  await refused({ overlap: true }, /overlap is for one device/);
  await refused({ batchSize: 1 }, /1 samples of this worker in a batch are fewer than 2 devices/);
  await refused({}, /norm1 has statistics of whole batches/, built(10, [batchNorm(), ...LAYERS]).model);
  const changed = {
    ...dense({ name: "head", outputs: CLASSES }),
    open: (site: Parameters<LayerPlan["open"]>[0]) => dense({ outputs: CLASSES }).open(site),
  };
  await refused({}, /head is no built-in layer: another thread cannot build it/, built(10, [...LAYERS.slice(0, 5), changed]).model);
  await refused({ devices: { count: 2, network: new URL("./nowhere.ts", MODULE) } }, /nowhere\.ts cannot be loaded/);
  await refused(
    { devices: { count: 2, network: new URL("../base/clock.ts", import.meta.url) } },
    /has to export the functions createNetwork and/,
  );
  const other = fromModule().model;
  const network = new URL("?other", MODULE);
  await assert.rejects(
    other.train(1, rows, { batchSize: 10, devices: { count: 2, network } }),
    throwsCode("BAD_ARGUMENT", /has the parameters hidden\.weight, .* or they have other shapes/),
  );
});

test("lookups are refused by name, and a model without threads has one device", async () => {
  const workspace = new Workspace();
  const lookup = { name: "words", vocabSize: 4, dim: 2, idsPerSample: 1, sampleCountMax: 4 };
  const network = new EmbeddingNetwork(workspace, { lookup, layers: [dense({ outputs: 1 })] });
  const model = new Model(network, { loss: new SquaredError(workspace, { sampleCountMax: 4 }), optimizer });
  const ids = new ArrayDataset({ labels: [0, 1, 0, 1], ids: { idsPerSample: 1, list: [0, 1, 2, 3] } });
  await assert.rejects(model.train(1, ids, { batchSize: 4, devices: 2 }), throwsCode("BAD_ARGUMENT", /words looks up rows by id/));
  const pair = built(10);
  const loss = new SoftmaxCrossEntropy(pair.network.workspace, { classCount: CLASSES, sampleCountMax: 10 });
  const face = new FaceModel(pair.network, { loss, optimizer });
  await assert.rejects(face.train(1, images, { batchSize: 10, devices: 2 }), throwsCode("UNSUPPORTED", /has one device, not 2/));
});

test("a Model refuses what is no logger, and log, the former name of the option, with the new one", () => {
  const { network } = built(10);
  const loss = new SoftmaxCrossEntropy(network.workspace, { classCount: CLASSES, sampleCountMax: 10 });
  const made = (more: object) => () => new Model(network, { loss, optimizer, ...more });
  assert.throws(made({ log: console }), throwsCode("BAD_ARGUMENT", /log is now called logger/));
  assert.throws(made({ logger: "console" }), throwsCode("BAD_ARGUMENT", /must be an object with debug, info, warn, error/));
  assert.throws(made({ logger: { warn() {} } }), throwsCode("BAD_ARGUMENT", /it has no debug, info, error/));
});
