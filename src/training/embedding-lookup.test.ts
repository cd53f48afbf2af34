// Goal: contradictory options are refused (E2), and a lookup that is not sparse is a parameter like any other, with the same zeros for ids out of range (E1).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { initializeParameters } from "../nn/parameter.ts";
import { Workspace } from "../nn/workspace.ts";
import { EmbeddingLookup, type EmbeddingLookupOptions } from "./embedding-lookup.ts";

const OPTIONS: EmbeddingLookupOptions = { name: "e", vocabSize: 4, width: 2, idsPerSample: 2, sampleCountMax: 3 };

function refuses(options: object, message: RegExp): void {
  assert.throws(
    () => new EmbeddingLookup(new Workspace(), { ...OPTIONS, ...options }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message),
  );
}

test("refuses what cannot be meant", () => {
  refuses({ vocabCacheSize: 10 }, /vocabCacheSize is for target "DEVICE"/);
  refuses({ vocabCacheSize: 10, target: "DEVICE", sparse: false }, /rows are cached of sparse lookups alone/);
  refuses({ target: "GPU" }, /target is "CPU" or "DEVICE"/);
  refuses({ vocabSize: 0 }, /vocabSize/);
  refuses({ vocabCacheSize: -1, target: "DEVICE" }, /vocabCacheSize/);
  refuses({ combine: "mean" }, /combine is/);
  refuses({ name: "" }, /needs a name/);
  refuses({ vocabsize: 3 }, /"vocabsize"/);
});

test("one that is not sparse has its table as a parameter, and reads zeros for ids out of range", async () => {
  const workspace = new Workspace();
  const lookup = new EmbeddingLookup(workspace, { ...OPTIONS, sparse: false, target: "DEVICE" });
  assert.deepEqual(
    lookup.parameters.map(({ name, shape }) => [name, shape]),
    [["e.weight", [4, 2]]],
  );
  initializeParameters(workspace, lookup.parameters, 1);
  await lookup.take({ ids: Float64Array.of(3, -1, 4, 3), sampleCount: 2, idsPerSample: 2 });
  const row = [...lookup.parameters[0]!.values.subarray(6, 8)];
  assert.deepEqual([...lookup.forward().current], [...row, 0, 0, 0, 0, ...row]);
});

test("takes its own of a sample's ids", async () => {
  const workspace = new Workspace();
  const lookup = new EmbeddingLookup(workspace, { ...OPTIONS, sparse: false, idsFrom: 1 });
  initializeParameters(workspace, lookup.parameters, 1);
  await lookup.take({ ids: Float64Array.of(9, 0, 1, 9), sampleCount: 1, idsPerSample: 4 });
  assert.deepEqual([...lookup.forward().current], [...lookup.parameters[0]!.values.subarray(0, 4)]);
  const short = { ids: Float64Array.of(1, 2), sampleCount: 1, idsPerSample: 2 };
  await assert.rejects(lookup.take(short), (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /takes ids 1 to 2/.test(error.message));
});

test("says so when it has no rows yet", async () => {
  const lookup = new EmbeddingLookup(new Workspace(), OPTIONS);
  const batch = { ids: Float64Array.of(1, 2), sampleCount: 1, idsPerSample: 2 };
  await assert.rejects(lookup.take(batch), (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /no rows yet/.test(error.message));
});
