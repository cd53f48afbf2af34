// Goal: a model trained alone learns, tells its callbacks what happens, keeps and takes up what it learned bit for bit,
// and says clearly what is wrong: with its options, and with a loss that is no number any more (Model.M1, Model.M2;
// StepRunner.S2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import type { Activations } from "../../nn/activations.ts";
import { dense } from "../../nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../nn/losses/softmax-cross-entropy.ts";
import { SquaredError } from "../../nn/losses/squared-error.ts";
import { Sequential } from "../../nn/sequential.ts";
import { Workspace } from "../../nn/workspace.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { EpochEvent, StepEvent, TrainingCallback, TrainingView } from "./callbacks/callback.ts";
import { ArrayDataset, type Dataset } from "./dataset.ts";
import { Accuracy } from "./metrics.ts";
import { Model, type ModelOptions, type TrainOptions } from "./model.ts";
import { setParamPs } from "./network.ts";
import { EmbeddingNetwork } from "./networks/embedding-network.ts";

const [INPUTS, CLASSES, BATCH, SAMPLES] = [6, 3, 10, 64];
const random = new Random(5);
const floats = Float32Array.from({ length: SAMPLES * INPUTS }, () => random.fraction() * 2 - 1);
const labels = Array.from({ length: SAMPLES }, (_, i) => {
  const sums = [0, 1, 2].map((c) => floats[i * INPUTS + c]! + floats[i * INPUTS + 3 + c]!);
  return sums.indexOf(Math.max(...sums));
});
const dataset = new ArrayDataset({ labels, values: { shape: [INPUTS], floats } });
const ADAM: OptimizerSpec = { type: "adam", learningRate: 0.05 };

function built(options: Partial<ModelOptions> = {}): { readonly network: Sequential; readonly model: Model } {
  const workspace = new Workspace();
  const layers = [dense({ name: "hidden", outputs: 12, activation: "relu" }), dense({ name: "head", outputs: CLASSES })];
  const network = new Sequential(workspace, { inputShape: [INPUTS], sampleCountMax: BATCH, layers });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  return { network, model: new Model(network, { loss, optimizer: ADAM, metrics: { accuracy: new Accuracy() }, ...options }) };
}

const weightsOf = ({ parameters }: Sequential): Float32Array[] => parameters.map(({ values }) => values.slice());

test("learns, and tells callbacks of every step, epoch and the end", async () => {
  const { model } = built();
  const before = await model.eval(dataset);
  const steps: StepEvent[] = [];
  const epochs: EpochEvent[] = [];
  const order: string[] = [];
  const callback = {
    begin: (view: TrainingView) => void order.push(`begin ${view.rank} ${view.isDistributed}`),
    stepEnd: (event: StepEvent) => void steps.push(event),
    epochEnd: (event: EpochEvent) => void epochs.push(event),
    end: (_: TrainingView, error?: unknown) => void order.push(`end ${String(error)}`),
  };
  const result = await model.train(20, dataset, { batchSize: BATCH, callbacks: [callback] });
  const after = await model.eval(dataset);
  assert.ok(after.accuracy! > 0.9 && after.loss! < before.loss! / 2, JSON.stringify({ before, after }));
  assert.deepEqual(order, ["begin 0 false", "end undefined"]);
  assert.deepEqual([steps.length, epochs.length], [140, 20]);
  assert.deepEqual([result.stepCount, result.sampleCount, result.repeatedCount, result.retryCount], [140, 20 * SAMPLES, 0, 0]);
  const { epoch, step, stepCount, epochCount } = steps[8]!;
  assert.deepEqual({ epoch, step, stepCount, epochCount }, { epoch: 2, step: 2, stepCount: 7, epochCount: 20 });
  assert.ok(
    steps.every(({ waitShare, samplesPerSec, stepsPerSec }) => waitShare >= 0 && waitShare <= 1 && samplesPerSec > 0 && stepsPerSec > 0),
  );
  assert.ok(
    Math.abs(epochs[0]!.loss - steps.slice(0, 7).reduce((sum, { loss }, i) => sum + loss * (i < 6 ? BATCH : 4), 0) / SAMPLES) < 1e-9,
  );
});

test("the global step counts over all epochs and continues after a resume; the step of the epoch starts at 1 again", async () => {
  const { model } = built();
  const steps: StepEvent[] = [];
  const ends: EpochEvent[] = [];
  const callbacks = [{ stepEnd: (event: StepEvent) => void steps.push(event), epochEnd: (event: EpochEvent) => void ends.push(event) }];
  await model.train(2, dataset, { batchSize: BATCH, callbacks });
  const other = built({ seed: 9 });
  await other.model.decode((await model.encode())!, "model.safetensors");
  await other.model.train(3, dataset, { batchSize: BATCH, firstEpoch: 2, callbacks });
  assert.deepEqual(
    steps.map(({ globalStep }) => globalStep),
    Array.from({ length: 21 }, (_, i) => i + 1),
  );
  assert.deepEqual(
    steps.map(({ epochStep }) => epochStep),
    Array.from({ length: 21 }, (_, i) => (i % 7) + 1),
  );
  assert.deepEqual(
    ends.map(({ globalStep, epochStep }) => [globalStep, epochStep]),
    [7, 14, 21].map((globalStep) => [globalStep, 7]),
  );
});

test("what is saved and taken up goes on with the same bits", async () => {
  const one = built();
  await one.model.train(2, dataset, { batchSize: BATCH });
  const bytes = await one.model.encode();
  assert.ok(bytes !== undefined);
  await one.model.train(4, dataset, { batchSize: BATCH, firstEpoch: 2 });
  const other = built({ seed: 9 });
  await other.model.decode(bytes, "model.safetensors");
  await other.model.train(4, dataset, { batchSize: BATCH, firstEpoch: 2 });
  assert.deepEqual(weightsOf(other.network), weightsOf(one.network));
});

test("a file that is torn or of another model is refused, and nothing changes", async () => {
  const { model, network } = built();
  const bytes = await model.encode();
  assert.ok(bytes !== undefined);
  const before = weightsOf(network);
  const workspace = new Workspace();
  const small = new Sequential(workspace, {
    inputShape: [INPUTS],
    sampleCountMax: BATCH,
    layers: [dense({ name: "head", outputs: CLASSES })],
  });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax: BATCH });
  const foreign = await new Model(small, { loss, optimizer: ADAM }).encode();
  await assert.rejects(
    model.decode(foreign!, "other.safetensors"),
    throwsCode("CHECKPOINT_FOREIGN", /hidden\.weight.*other\.safetensors does not have it/),
  );
  await assert.rejects(
    model.decode(bytes.subarray(0, bytes.length - 4), "torn.safetensors"),
    throwsCode("CHECKPOINT_TORN", /torn\.safetensors/),
  );
  assert.deepEqual(weightsOf(network), before);
});

test("a loss that is no number stops the training before anything is learned from it, naming step and layer", async () => {
  const bad = floats.slice();
  bad[17 * INPUTS] = Number.NaN;
  const { model, network } = built();
  let ended: unknown;
  let good: Float32Array[] = [];
  const callback = {
    stepEnd: () => {
      good = weightsOf(network);
    },
    end: (_: TrainingView, error?: unknown) => {
      ended = error;
    },
  };
  const training = model.train(1, new ArrayDataset({ labels, values: { shape: [INPUTS], floats: bad } }), {
    batchSize: BATCH,
    overlap: false,
    callbacks: [callback],
  });
  await assert.rejects(training, throwsCode("NOT_FINITE", /epoch 1, step \d: the loss is NaN; not finite: the output of hidden/));
  assert.ok(isWeighbridgeError(ended, "NOT_FINITE"), "callbacks are told why it ended");
  assert.deepEqual(weightsOf(network), good, "the values are those of the last good step");
});

test("an evaluation whose loss is no number tells no metrics, but where numbers stopped being finite", async () => {
  const { model, network } = built();
  network.parameters[0]!.values[3] = Number.NaN;
  await assert.rejects(model.eval(dataset), throwsCode("NOT_FINITE", /^samples 0 to 9: the loss is NaN; not finite: hidden\.weight$/));
});

test("an optimizer that diverges is stopped at the parameter that overflowed", async () => {
  const { model } = built({ optimizer: { type: "sgd", learningRate: 1e38 } });
  await assert.rejects(
    model.train(3, dataset, { batchSize: BATCH }),
    throwsCode("NOT_FINITE", /epoch \d, step \d+: .*not finite: (hidden|head|the output)/),
  );
});

test("refuses options that cannot be before it does anything", async () => {
  const { model, network } = built();
  const before = weightsOf(network);
  const refusal = async (options: Partial<TrainOptions>, message: RegExp, epochs = 1): Promise<void> => {
    await assert.rejects(model.train(epochs, dataset, { batchSize: BATCH, ...options }), throwsCode("BAD_ARGUMENT", message));
  };
  await refusal({ batchSize: 0 }, /batchSize/);
  await refusal({ batchSize: 11 }, /the network was built for 10/);
  await refusal({ consistency: "sync" as "bsp" }, /consistency is/);
  await refusal({ batchsize: 3 } as object, /"batchsize"/);
  await refusal({ firstEpoch: 3 }, /3 of 2/, 2);
  await refusal({}, /epochs/, 0);
  assert.deepEqual(weightsOf(network), before);
  assert.throws(() => built({ optimizer: { type: "adma" } as unknown as OptimizerSpec }), throwsCode("BAD_ARGUMENT", /optimizer\.type/));
});

test("does one thing at a time", async () => {
  const { model } = built();
  const training = model.train(1, dataset, { batchSize: BATCH });
  await assert.rejects(model.train(1, dataset, { batchSize: BATCH }), throwsCode("BAD_ARGUMENT", /busy/));
  await training;
});

test("another seed gives other values, the same seed the same", async () => {
  const train = async (seed: number, shuffleSeed: number): Promise<Float32Array[]> => {
    const { model, network } = built({ seed });
    await model.train(1, dataset, { batchSize: BATCH, shuffleSeed });
    return weightsOf(network);
  };
  const first = await train(1, 1);
  assert.deepEqual(await train(1, 1), first);
  assert.notDeepEqual(await train(2, 1), first);
  assert.notDeepEqual(await train(1, 2), first);
});

test("alone, too, a training lets the process handle its events, and ends when its signal says so", async () => {
  const { model } = built();
  const stop = new AbortController();
  setImmediate(() => stop.abort());
  let stepCount = 0;
  const callbacks = [{ stepEnd: () => void stepCount++ }];
  const training = model.train(20, dataset, { batchSize: BATCH, callbacks, signal: stop.signal });
  await assert.rejects(training, throwsCode("ABORTED", /step/));
  assert.ok(stepCount < 7, `${stepCount} steps`);
});

test("between two batches of an evaluation events are handled, so that a large one does not keep heartbeats waiting, and its signal is heard", async () => {
  const { model } = built();
  let turnCount = 0;
  const turn = (): void => {
    turnCount++;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  await model.eval(dataset);
  clearImmediate(next);
  assert.ok(turnCount >= SAMPLES / BATCH - 1, `${turnCount} turns`);
  await assert.rejects(model.eval(dataset, { signal: AbortSignal.abort() }), throwsCode("ABORTED", /sample/));
});

test("a second training of a session has another name, or later epochs", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 1 });
  const [session] = cluster.sessions;
  const { model, network } = built();
  setParamPs(network);
  await model.train(2, dataset, { batchSize: BATCH, session });
  for (const [epochs, firstEpoch] of [[2], [3, 1]] as const) {
    const again = model.train(epochs, dataset, { batchSize: BATCH, session, ...(firstEpoch === undefined ? {} : { firstEpoch }) });
    await assert.rejects(again, throwsCode("BAD_ARGUMENT", new RegExp(`epoch ${(firstEpoch ?? 0) + 1} of "training"`)));
  }
  assert.equal((await model.train(3, dataset, { batchSize: BATCH, session, firstEpoch: 2 })).stepCount, 7);
  assert.equal((await model.train(2, dataset, { batchSize: BATCH, session, name: "second" })).stepCount, 14);
});

test("a Model without a loss, a network or a data set is BAD_ARGUMENT, and says what it needs", async () => {
  const workspace = new Workspace();
  const network = new Sequential(workspace, { inputShape: [2], sampleCountMax: 2, layers: [dense({ outputs: 2 })] });
  const optimizer = { type: "sgd", learningRate: 0.1 } as const;
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: 2, sampleCountMax: 2 });
  const anything = (value: unknown): never => value as never;
  const refused = (message: RegExp) => (error: unknown) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message);
  assert.throws(
    () => new Model(network, anything({ optimizer })),
    refused(/a Model needs a loss: new SoftmaxCrossEntropy.* not undefined/),
  );
  for (const none of [null, "mse", SoftmaxCrossEntropy, {}])
    assert.throws(() => new Model(network, anything({ optimizer, loss: none })), refused(/a Model needs a loss/));
  assert.throws(() => new Model(anything(undefined), { optimizer, loss }), refused(/a Model trains a network/));
  assert.throws(() => new Model(network, anything({ optimizer, loss_fn: loss })), refused(/no "loss_fn".*did you mean loss\?/));
  assert.throws(() => new Model(network, anything({ loss })), refused(/optimizer/));
  const model = new Model(network, { loss, optimizer });
  await assert.rejects(model.train(1, anything(undefined), { batchSize: 2 }), refused(/a Model takes a data set/));
});

test("without overlap, which is the default, nothing of the next step is fetched before a step has ended", async () => {
  for (const options of [{}, { overlap: false }, { overlap: true }]) {
    const workspace = new Workspace();
    const lookup = { name: "e", vocabSize: 4, dim: 1, idsPerSample: 1, sampleCountMax: 1 };
    const model = new Model(new EmbeddingNetwork(workspace, { lookup }), {
      loss: new SquaredError(workspace, { sampleCountMax: 1 }),
      optimizer: { type: "sgd", learningRate: 0.1 },
    });
    const events: string[] = [];
    const plain = new ArrayDataset({ labels: [1, 1, 1], ids: { idsPerSample: 1, list: [0, 1, 2] } });
    const readIds = (indexes: Uint32Array, into: Float64Array): void => {
      events.push("ids");
      void plain.readIds?.(indexes, into);
    };
    const readLabels = (indexes: Uint32Array, into: Float32Array): void => plain.readLabels(indexes, into);
    const callbacks = [{ stepEnd: () => void events.push("end") }];
    await model.train(1, { sampleCount: 3, idsPerSample: 1, readIds, readLabels }, { batchSize: 1, callbacks, ...options });
    const isAhead = events.slice(0, 2).join() === "ids,ids";
    assert.equal(isAhead, "overlap" in options && options.overlap, `${JSON.stringify(options)}: ${events.join(", ")}`);
  }
});

test("ids may be read asynchronously: they are awaited, also when they are fetched ahead, and a rejection is the training's", async () => {
  const plain = new ArrayDataset({ labels: [1, 0, 1, 0, 1], ids: { idsPerSample: 1, list: [0, 1, 2, 3, 1] } });
  const dataOf = (readIds: Dataset["readIds"]): Dataset => ({
    ...{ sampleCount: plain.sampleCount, idsPerSample: 1, readIds },
    readLabels: plain.readLabels.bind(plain),
  });
  const late = dataOf(async (indexes, into) => {
    await new Promise(setImmediate);
    await plain.readIds?.(indexes, into);
  });
  const made = (): Model => {
    const workspace = new Workspace();
    const lookup = { name: "e", vocabSize: 4, dim: 1, idsPerSample: 1, sampleCountMax: 2 };
    const loss = new SquaredError(workspace, { sampleCountMax: 2 });
    return new Model(new EmbeddingNetwork(workspace, { lookup }), { loss, optimizer: { type: "sgd", learningRate: 0.1 } });
  };
  for (const overlap of [false, true]) {
    const trained = async (data: Dataset): Promise<unknown> => {
      const model = made();
      await model.train(3, data, { batchSize: 2, overlap });
      return [await model.predict(data), await model.eval(data)];
    };
    assert.deepEqual(await trained(late), await trained(plain));
  }
  const failed = new Error("the disk is gone");
  const broken = dataOf(async () => await Promise.reject(failed));
  await assert.rejects(made().train(1, broken, { batchSize: 2 }), failed);
});

test("values may be read asynchronously: they are awaited", async () => {
  const [plain, slow] = [built(), built()];
  const later = {
    sampleCount: dataset.sampleCount,
    shape: dataset.shape,
    readLabels: dataset.readLabels.bind(dataset),
    readValues: async (indexes: Uint32Array, into: Activations) => {
      await new Promise(setImmediate);
      await dataset.readValues?.(indexes, into);
    },
  };
  await plain.model.train(2, dataset, { batchSize: BATCH });
  await slow.model.train(2, later, { batchSize: BATCH });
  assert.deepEqual(weightsOf(slow.network), weightsOf(plain.network));
  assert.deepEqual(await slow.model.eval(later), await plain.model.eval(dataset));
});

test("a rejection of readValues is the training's, and its signal ends a read that does not end", async () => {
  const { model } = built();
  const failed = new Error("the disk is gone");
  const broken = (readValues: () => Promise<void>): Dataset => ({
    ...{ sampleCount: SAMPLES, shape: [INPUTS], readValues },
    readLabels: dataset.readLabels.bind(dataset),
  });
  const thrown = async (): Promise<void> => await Promise.reject(failed);
  await assert.rejects(model.train(1, broken(thrown), { batchSize: BATCH }), failed);
  await assert.rejects(model.eval(broken(thrown)), failed);
  const stop = new AbortController();
  const begun = Promise.withResolvers<void>();
  const endless = broken(async () => {
    begun.resolve();
    await new Promise(() => {});
  });
  const training = model.train(1, endless, { batchSize: BATCH, signal: stop.signal });
  await begun.promise;
  stop.abort();
  await assert.rejects(training, throwsCode("ABORTED"));
});

test("a data set whose readLabels returns a promise is refused: its labels would come too late", async () => {
  const late = { ...dataset, sampleCount: SAMPLES, shape: [INPUTS], readValues: dataset.readValues, readLabels: async () => {} };
  await assert.rejects(
    built().model.train(1, late, { batchSize: BATCH }),
    throwsCode("BAD_ARGUMENT", /readLabels must write.*got a promise/),
  );
});

test("a callback evaluates the model that is trained, after an epoch and after a step, and no bit changes (Model.M3)", async () => {
  const [plain, watched] = [built(), built()];
  const losses: number[] = [];
  const evaluate = async (): Promise<void> => {
    losses.push((await watched.model.eval(dataset)).loss!);
    assert.equal((await watched.model.predict(dataset)).length, SAMPLES * CLASSES);
  };
  await plain.model.train(3, dataset, { batchSize: BATCH });
  await watched.model.train(3, dataset, {
    batchSize: BATCH,
    callbacks: [{ begin: evaluate, stepEnd: evaluate, epochEnd: evaluate, end: evaluate }],
  });
  assert.deepEqual(weightsOf(watched.network), weightsOf(plain.network));
  assert.equal(losses.at(-1), (await plain.model.eval(dataset)).loss);
});

test("a callback that does not wait for what it evaluates delays the training by it, and may not train", async () => {
  const { model } = built();
  let evaluated: Promise<unknown> | undefined;
  const callbacks = [
    {
      epochEnd: async ({ epoch }: EpochEvent) => {
        await assert.rejects(model.train(1, dataset, { batchSize: BATCH, name: "other" }), throwsCode("BAD_ARGUMENT", /busy/));
        if (epoch === 1) evaluated = model.eval(dataset);
        await assert.rejects(model.eval(dataset, { consistency: "asp" }), throwsCode("BAD_ARGUMENT"));
      },
    },
  ];
  await model.train(2, dataset, { batchSize: BATCH, callbacks });
  assert.ok((await evaluated) !== undefined);
});

test("a callback that returns false stops the training: before it begins, after the step, after the epoch", async () => {
  const stepsOf = async (callback: TrainingCallback): Promise<readonly [number, boolean, number]> => {
    let ends = 0;
    const counter: TrainingCallback = { epochEnd: () => void ends++ };
    const { stepCount, hasStopped } = await built().model.train(3, dataset, { batchSize: BATCH, callbacks: [callback, counter] });
    return [stepCount, hasStopped, ends];
  };
  assert.deepEqual(await stepsOf({ begin: () => false }), [0, true, 0]);
  assert.deepEqual(await stepsOf({ stepEnd: ({ epoch, step }) => !(epoch === 2 && step === 3) }), [10, true, 1]);
  assert.deepEqual(await stepsOf({ epochEnd: async ({ epoch }) => await Promise.resolve(epoch < 2) }), [14, true, 2]);
  assert.deepEqual(await stepsOf({ epochEnd: () => true, stepEnd: () => undefined, end: () => {} }), [21, false, 3]);
});
