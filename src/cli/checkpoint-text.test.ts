// Goal: a checkpoint's contents read well in a terminal.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sampleManifest } from "../../test/support/checkpoint-stage.ts";
import { bytesText, checkpointText } from "./checkpoint-text.ts";
import { widthOf } from "./text-width.ts";

test("shows what it is of, the parameters and the files", () => {
  const files = [{ file: "server-000-000.safetensors", bytes: 3 * 2 ** 30, headerCrc32: "0123abcd" }];
  const servers = [
    { rank: 0, files, vectorClock: [], state: {} },
    { rank: 1, files: [], vectorClock: [], state: {} },
  ];
  const manifest = sampleManifest({ root: "/data", step: 12 }, servers);
  assert.equal(
    checkpointText("/data/step-000012", manifest),
    `/data/step-000012: step 12, clock 40, of job job-a
written 2026-01-02T03:04:05.678Z by 2 servers, 3.0 GiB
workers' clocks: 0: 40, 1: 41

parameter       kind       shape       rows  dtype  bytes  optimizer        consistency  columns
layer1/weights  tensor     10 × 2 × 2    10  f32    320 B  momentum         ssp          values, momentum, step
users           embedding  keys × 3      32  f32    896 B  rowwise-adagrad  ssp          keys, values, accumulator, version

file                        server    bytes  header crc32
server-000-000.safetensors       0  3.0 GiB  0123abcd
-                                1      0 B  -`,
  );
});

test("on a terminal every line fits: what the shape tells, and what only JSON needs, is left out, then names are cut", () => {
  const files = [{ file: "server-000-000.safetensors", bytes: 3 * 2 ** 30, headerCrc32: "0123abcd" }];
  const manifest = sampleManifest({ root: "/data", step: 12 }, [{ rank: 0, files, vectorClock: [], state: {} }]);
  const named = { ...manifest, parameters: manifest.parameters.map((one) => ({ ...one, name: `${one.name}/${"点击".repeat(20)}` })) };
  for (const shown of [manifest, named]) {
    for (const columns of [80, 90, 120]) {
      const lines = checkpointText("/data/step-000012", shown, columns).split("\n");
      for (const line of lines) assert.ok(widthOf(line) <= columns, `${widthOf(line)} of ${columns}: ${line}`);
    }
  }
  const text = checkpointText("/data/step-000012", manifest, 80);
  assert.match(text, /\nparameter {7}shape {7}rows {2}dtype {2}bytes {2}optimizer {8}consistency\n/);
  assert.match(text, /\nlayer1\/weights /);
});

test("consistencies are shown in the words that parameters are made with", () => {
  const manifest = sampleManifest({ root: "/data", step: 12 }, []);
  const [weights, users] = manifest.parameters;
  assert.ok(weights !== undefined && users !== undefined);
  const parameters = [
    { ...weights, consistency: { kind: "sync", reduce: "sum", staleness: 0 } },
    { ...users, consistency: { kind: "async", reduce: "sum", staleness: 4 } },
    { ...users, consistency: { kind: "async", reduce: "sum", staleness: "any" } },
  ];
  const text = checkpointText("/data", { ...manifest, parameters });
  assert.deepEqual(
    text.match(/ (bsp|ssp:4|asp) /g)?.map((word) => word.trim()),
    ["bsp", "ssp:4", "asp"],
  );
});

test("row types and updaters of users are shown by name and version, our row types by name", () => {
  const manifest = sampleManifest({ root: "/data", step: 12 }, []);
  const [, users] = manifest.parameters;
  assert.ok(users !== undefined);
  const values = { name: "values", dtype: "I64", width: 3, per: "row" } as const;
  const own = [
    { kind: "updater", name: "signMomentum", version: 3 },
    { kind: "rowType", name: "topWeights", version: 1 },
  ];
  const parameters = [
    { ...users, name: "counts", columns: [values], optimizer: { kind: "sum" } },
    { ...users, name: "own", optimizer: { kind: "custom", updater: "signMomentum" }, settings: { plugIns: own } },
  ];
  const text = checkpointText("/data", { ...manifest, parameters });
  assert.match(text, /^counts +embedding +keys × 3 +32 +i64 +768 B +sum /m);
  assert.match(text, /^own +embedding +keys × 3 +32 +topWeights v1 +896 B +signMomentum v3 /m);
});

test("a checkpoint of nothing is shown as well", () => {
  const manifest = { ...sampleManifest({ root: "/data", step: 0 }, []), parameters: [], workers: [] };
  assert.match(checkpointText("/data", manifest), /workers: none\n\nno parameters\n\nfile/);
});

test("bytes have a unit that suits them", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 5 * 2 ** 40, 2 ** 60].map(bytesText), [
    "0 B",
    "1023 B",
    "1.0 KiB",
    "1.5 KiB",
    "5.0 TiB",
    "1048576.0 TiB",
  ]);
});
