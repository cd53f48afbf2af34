// Goal: an export is a plain safetensors file with whole tensors, whatever number of servers wrote the checkpoint.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { FaultyFiles, systemError } from "../../../test/support/checkpoint-files.ts";
import { saveSample, temporaryFolder, weightAt } from "../../../test/support/checkpoint-stage.ts";
import { decodeHeader, decodeHeaderBytes, type SafetensorsHeader } from "../../store/snapshot/safetensors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { EmbeddedCluster } from "../embedded-cluster.ts";
import type { CheckpointReader } from "./checkpoint-reader.ts";
import { exportCheckpoint } from "./export-checkpoint.ts";
import { openCheckpoint } from "./find-checkpoint.ts";

type Loaded = { readonly header: SafetensorsHeader; readonly data: (name: string) => Uint8Array<ArrayBuffer> };

function load(file: string): Loaded {
  const bytes = new Uint8Array(readFileSync(file));
  const source = { file, fileBytes: bytes.byteLength };
  const header = decodeHeader(bytes.subarray(8, 8 + decodeHeaderBytes(bytes, source)), source);
  const data = (name: string): Uint8Array<ArrayBuffer> => {
    const entry = header.entries.find((candidate) => candidate.name === name);
    assert.ok(entry !== undefined, name);
    return bytes.slice(header.dataStart + entry.dataFrom, header.dataStart + entry.dataTo);
  };
  return { header, data };
}

async function sample(root: string, serverCount: number): Promise<CheckpointReader> {
  await saveSample({ root, step: 4, serverCount });
  return openCheckpoint(root);
}

for (const serverCount of [1, 4]) {
  test(`tensors are whole and rows of tables belong together, saved by ${serverCount}`, async () => {
    using folder = temporaryFolder();
    await using reader = await sample(folder.path, serverCount);
    const file = join(folder.path, "out.safetensors");
    const { bytes } = await exportCheckpoint(reader, file);
    const { header, data } = load(file);
    assert.equal(bytes, readFileSync(file).byteLength);
    assert.deepEqual(
      header.entries.map(({ name, dtype, shape }) => `${name} ${dtype} ${shape.join("×")}`),
      ["layer1/weights F32 10×2×2", "users/keys U64 32", "users/values F32 32×3"],
    );
    const weights = new Float32Array(data("layer1/weights").buffer);
    assert.deepEqual(
      [...weights],
      Array.from(weights, (_, index) => weightAt(Math.floor(index / 4), index % 4)),
    );
    const keys = new BigUint64Array(data("users/keys").buffer);
    const values = new Float32Array(data("users/values").buffer);
    assert.equal(new Set(keys).size, 32);
    for (const [row, key] of keys.entries()) {
      const id = Number(2n ** 64n - 1n - key);
      assert.deepEqual([...values.subarray(row * 3, row * 3 + 3)], [id, id + 0.25, id + 0.5]);
    }
  });
}

test("with all columns the slots come along, and what is kept per chunk for each of its rows", async () => {
  using folder = temporaryFolder();
  await using reader = await sample(folder.path, 2);
  const file = join(folder.path, "out.safetensors");
  await exportCheckpoint(reader, file, { allColumns: true });
  const { header, data } = load(file);
  assert.deepEqual(
    header.entries.map(({ name, shape }) => `${name} ${shape.join("×")}`),
    [
      "layer1/weights 10×2×2",
      "layer1/weights/momentum 10×2×2",
      "layer1/weights/step 10",
      "users/keys 32",
      "users/values 32×3",
      "users/accumulator 32",
      "users/version 32",
    ],
  );
  assert.equal(new Float32Array(data("layer1/weights/momentum").buffer)[5], -weightAt(1, 1));
});

test("with all columns Adam's step comes along: of a tensor for each row, of a table as its optimizer counts it", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ servers: 2, checkpointDir: folder.path });
  const { session } = cluster;
  const w = await session.tensor("w", { shape: [3000, 100], optimizer: { type: "adam", learningRate: 0.1 } });
  const lazy = await session.embedding("lazy", { dim: 2, optimizer: { type: "lazyAdam", learningRate: 0.1 } });
  const rows = await session.embedding("rows", { dim: 2, optimizer: { type: "adam", learningRate: 0.1 } });
  for (let step = 0; step < 3; step++) {
    await w.push(new Float32Array(300_000).fill(1));
    if (step === 0) await w.pushRows([5], new Float32Array(100).fill(1));
    await lazy.push([7], Float32Array.of(1, 2));
    await rows.push(step === 0 ? [7, 8] : [7], new Float32Array(step === 0 ? 4 : 2).fill(1));
  }
  await session.checkpoint().saved;
  await using reader = await openCheckpoint(folder.path);
  const file = join(folder.path, "out.safetensors");
  await exportCheckpoint(reader, file, { allColumns: true });
  const { header, data } = load(file);
  const shapes = new Map(header.entries.map(({ name, dtype, shape }) => [name, `${dtype} ${shape.join("×")}`]));
  assert.deepEqual([shapes.get("w/step"), shapes.get("lazy/step")], ["U64 3000", "U64 1"]);
  assert.deepEqual(new BigUint64Array(data("w/step").buffer), new BigUint64Array(3000).fill(3n));
  assert.deepEqual([...new Uint32Array(data("w/rowSteps").buffer).subarray(4, 7)], [0, 1, 0], "beside those of all rows");
  assert.deepEqual(new BigUint64Array(data("lazy/step").buffer), BigUint64Array.of(3n));
  const keys = new BigUint64Array(data("rows/keys").buffer);
  const rowSteps = new Uint32Array(data("rows/rowSteps").buffer);
  assert.deepEqual(
    [7n, 8n].map((key) => rowSteps[keys.indexOf(key)]),
    [3, 1],
  );
});

test("some of the parameters can be chosen; an unknown one is an error that says which there are", async () => {
  using folder = temporaryFolder();
  await using reader = await sample(folder.path, 2);
  const file = join(folder.path, "out.safetensors");
  const { tensors } = await exportCheckpoint(reader, file, { parameters: ["users"] });
  assert.equal(tensors.length, 2);
  await assert.rejects(
    exportCheckpoint(reader, file, { parameters: ["user"], replace: true }),
    throwsCode("BAD_ARGUMENT", /has no parameter "user"; it has layer1\/weights, users/),
  );
});

test("a file that is there is replaced only when asked to, and only by a whole one", async () => {
  using folder = temporaryFolder();
  await using reader = await sample(folder.path, 2);
  const file = join(folder.path, "out.safetensors");
  writeFileSync(file, "precious");
  await assert.rejects(
    exportCheckpoint(reader, file),
    throwsCode("BAD_ARGUMENT", /the file .*out\.safetensors exists already; --force replaces it/),
  );
  const full = new FaultyFiles(({ verb }) => {
    if (verb === "write") throw systemError("ENOSPC");
    return undefined;
  });
  await assert.rejects(
    exportCheckpoint(reader, file, { replace: true, layer: full.layer }),
    throwsCode("CHECKPOINT_IO", /out\.safetensors\.tmp: the disk is full/),
  );
  assert.equal(readFileSync(file, "utf8"), "precious");
  assert.deepEqual(
    readdirSync(folder.path).filter((name) => name.endsWith(".tmp")),
    [],
  );
  await exportCheckpoint(reader, file, { replace: true });
  assert.equal(load(file).header.entries.length, 3);
});

test("a changed byte ends the export, and nothing is left", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  const shard = join(path, "server-000-000.safetensors");
  const bytes = readFileSync(shard);
  bytes.writeUInt8((bytes.at(-1) ?? 0) ^ 1, bytes.length - 1);
  writeFileSync(shard, bytes);
  await using reader = await openCheckpoint(folder.path);
  await assert.rejects(exportCheckpoint(reader, join(folder.path, "out.safetensors")), throwsCode("CHECKPOINT_TORN", /server-000-000/));
  assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000001"]);
});

test("an opening that fails names the checkpoint before", async () => {
  using folder = temporaryFolder();
  await saveSample({ root: folder.path, step: 1 });
  const { path } = await saveSample({ root: folder.path, step: 2 });
  writeFileSync(join(path, "manifest.json"), "{");
  await assert.rejects(
    openCheckpoint(folder.path),
    throwsCode("CHECKPOINT_TORN", /step-000002\/manifest\.json is not JSON.*; the checkpoint before it is .*step-000001/),
  );
  await (await openCheckpoint(folder.path, { step: 1 })).close();
});
