// Goal: contradictory options are refused (EmbeddingLookup.E2), and a lookup that is not sparse is a parameter like any
// other, with the same zeros for ids out of range (EmbeddingLookup.E1).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Activations } from "../../nn/activations.ts";
import { SquaredError } from "../../nn/losses/squared-error.ts";
import { initializeParameters } from "../../nn/parameter.ts";
import { Workspace } from "../../nn/workspace.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { ArrayDataset } from "./dataset.ts";
import { EmbeddingLookup, type EmbeddingLookupOptions } from "./embedding-lookup.ts";
import { Model } from "./model.ts";
import { setParamPs } from "./network.ts";
import { EmbeddingNetwork } from "./networks/embedding-network.ts";

const OPTIONS: EmbeddingLookupOptions = { name: "e", vocabSize: 4, dim: 2, idsPerSample: 2, sampleCountMax: 3 };

function refuses(options: object, message: RegExp): void {
  assert.throws(
    () => new EmbeddingLookup(new Workspace(), { ...OPTIONS, ...options }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message),
  );
}

test("refuses what cannot be meant", () => {
  refuses({ vocabCacheSize: 10 }, /vocabCacheSize is for target "DEVICE"/);
  refuses({ vocabCacheSize: 10, target: "DEVICE", sparse: false }, /only rows of sparse lookups are cached/);
  refuses({ target: "GPU" }, /target is "CPU" or "DEVICE"/);
  refuses({ vocabSize: 0 }, /vocabSize/);
  refuses({ vocabCacheSize: -1, target: "DEVICE" }, /vocabCacheSize/);
  refuses({ combine: "mean" }, /combine is/);
  refuses({ name: "" }, /needs a name/);
  refuses({ vocabsize: 3 }, /"vocabsize"/);
});

test("takes options as MindSpore spells them, and names the nearest for one that does not exist", () => {
  const mindspore = {
    name: "e",
    vocab_size: 4,
    embedding_size: 2,
    vocab_cache_size: 3,
    target: "DEVICE",
    idsPerSample: 2,
    sampleCountMax: 3,
  };
  const { options } = new EmbeddingLookup(new Workspace(), mindspore as unknown as EmbeddingLookupOptions);
  assert.deepEqual([options.vocabSize, options.dim, options.vocabCacheSize], [4, 2, 3]);
  refuses({ vocab_size: 4 }, /both vocabSize and vocab_size/);
  refuses({ embeddingSize: 2 }, /both dim and embeddingSize/);
  refuses({ width: 2 }, /width is now called dim/);
  refuses({ vocabCachesize: 4 }, /did you mean vocabCacheSize\?/);
});

test("one that is not sparse has its table as a parameter, and reads zeros for ids out of range", async () => {
  const workspace = new Workspace();
  const lookup = new EmbeddingLookup(workspace, { ...OPTIONS, sparse: false, target: "DEVICE" });
  assert.deepEqual(
    lookup.parameters.map(({ name, shape }) => [name, shape]),
    [["e.weight", [4, 2]]],
  );
  initializeParameters(workspace, lookup.parameters, 1);
  await lookup.acquire({ ids: Float64Array.of(3, -1, 4, 3), sampleCount: 2, idsPerSample: 2 });
  const row = [...lookup.parameters[0]!.values.subarray(6, 8)];
  assert.deepEqual([...lookup.forward().current], [...row, 0, 0, 0, 0, ...row]);
});

test("takes its own of a sample's ids", async () => {
  const workspace = new Workspace();
  const lookup = new EmbeddingLookup(workspace, { ...OPTIONS, sparse: false, idsFrom: 1 });
  initializeParameters(workspace, lookup.parameters, 1);
  await lookup.acquire({ ids: Float64Array.of(9, 0, 1, 9), sampleCount: 1, idsPerSample: 4 });
  assert.deepEqual([...lookup.forward().current], [...lookup.parameters[0]!.values.subarray(0, 4)]);
  const short = { ids: Float64Array.of(1, 2), sampleCount: 1, idsPerSample: 2 };
  await assert.rejects(
    lookup.acquire(short),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /takes ids 1 to 2/.test(error.message),
  );
});

test("says so when it has no rows yet", async () => {
  const lookup = new EmbeddingLookup(new Workspace(), OPTIONS);
  const batch = { ids: Float64Array.of(1, 2), sampleCount: 1, idsPerSample: 2 };
  await assert.rejects(lookup.acquire(batch), (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /no rows yet/.test(error.message));
});

/** None of them names a row of a table of 4; as 32-bit words some would. */
const OUTSIDE: readonly number[] = [-1, 4, 2 ** 32, 2 ** 32 + 1, 2 ** 53, -(2 ** 32) + 1, Number.NaN, Infinity, -Infinity];

test("whatever id names no row reads as zeros and learns nothing, in a table that is not sparse too", async () => {
  for (const id of OUTSIDE) {
    const workspace = new Workspace();
    const lookup = new EmbeddingLookup(workspace, { ...OPTIONS, sparse: false });
    initializeParameters(workspace, lookup.parameters, 1);
    const [weight] = lookup.parameters;
    await lookup.acquire({ ids: Float64Array.of(id, 2), sampleCount: 1, idsPerSample: 2 });
    assert.deepEqual([...lookup.forward().current], [0, 0, ...weight!.values.subarray(4, 6)], `${id}`);
    const gradient = new Activations(workspace, [4], 1);
    gradient.sampleCount = 1;
    gradient.values.set([1, 2, 3, 4]);
    lookup.backward(gradient, () => {});
    assert.deepEqual([...weight!.gradient], [0, 0, 0, 0, 3, 4, 0, 0], `${id}`);
  }
});

/** Trains on these ids; what is predicted for each row afterwards. */
async function trainOn(ids: readonly number[], options: Partial<EmbeddingLookupOptions>, where: "alone" | "servers"): Promise<number[]> {
  await using cluster = where === "alone" ? undefined : await EmbeddedCluster.start({ servers: 2 });
  const workspace = new Workspace();
  const lookup = { ...OPTIONS, dim: 1, idsPerSample: 1, ...options };
  const network = new EmbeddingNetwork(workspace, { lookup });
  if (where === "servers") setParamPs(network);
  const loss = new SquaredError(workspace, { sampleCountMax: 3 });
  await using model = new Model(network, { loss, optimizer: { type: "sgd", learningRate: 0.5 } });
  const dataset = new ArrayDataset({ labels: ids.map(() => 1), ids: { idsPerSample: 1, list: ids } });
  await model.train(1, dataset, { batchSize: 3, session: cluster?.session });
  const rows = new ArrayDataset({ labels: [0, 0, 0, 0], ids: { idsPerSample: 1, list: [0, 1, 2, 3] } });
  return [...(await model.predict(rows))];
}

const KINDS: readonly Partial<EmbeddingLookupOptions>[] = [{ sparse: false }, { sparse: true }, { target: "DEVICE", vocabCacheSize: 2 }];

test("ids that name no row train the same alone and on servers, sparse or not: nothing", async () => {
  for (const options of KINDS) {
    const untouched = await trainOn([-1], options, "alone");
    for (const where of ["alone", "servers"] as const)
      assert.deepEqual(await trainOn(OUTSIDE, options, where), untouched, `${where}, ${JSON.stringify(options)}`);
  }
});

test("a fractional id is BAD_ARGUMENT, alone and on servers, sparse or not", async () => {
  for (const where of ["alone", "servers"] as const) {
    for (const options of KINDS) {
      await assert.rejects(
        trainOn([1, 2.5, 3], options, where),
        (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /^e: id 2\.5, .*whole number/.test(error.message),
        `${where}, ${JSON.stringify(options)}`,
      );
    }
  }
});
