// Goal: what was saved comes back exactly, on any number of servers, each reading its own; and whatever is wrong is
// said with its file.

import assert from "node:assert/strict";
import { copyFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { FaultyFiles } from "../../../test/support/checkpoint-files.ts";
import {
  bytesOf,
  keysOf,
  PART_COUNT,
  sampleManifest,
  saveSample,
  temporaryFolder,
  USERS,
  WEIGHTS,
  weightAt,
} from "../../../test/support/checkpoint-stage.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import { encodeHeader, layOutTensors } from "../../store/snapshot/safetensors.ts";
import { requireSameModel } from "../../store/snapshot/same-model.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { CheckpointDirectory } from "./checkpoint-directory.ts";
import { CheckpointReader } from "./checkpoint-reader.ts";
import { findCheckpoint, olderCheckpoint, resumeCheckpoint } from "./find-checkpoint.ts";
import { ShardWriter } from "./shard-writer.ts";

type UserRow = { readonly values: number[]; readonly accumulator: number; readonly version: number };

/** All rows of the table whose part is in the range, as a restoring server would collect them. */
async function readUsers(reader: CheckpointReader, from: number, to: number): Promise<Map<bigint, UserRow>> {
  const found = new Map<bigint, UserRow>();
  for (const chunk of reader.chunks("users").filter(({ key }) => key.from < to && key.to > from)) {
    await reader.readRows(chunk, ({ columns, rowCount }) => {
      const view = (name: string): DataView => {
        const { buffer, byteOffset, byteLength } = columns.get(name) ?? new Uint8Array();
        return new DataView(buffer, byteOffset, byteLength);
      };
      const [keys, values, accumulator, version] = ["keys", "values", "accumulator", "version"].map(view) as [
        DataView,
        DataView,
        DataView,
        DataView,
      ];
      for (let row = 0; row < rowCount; row++) {
        const key = keys.getBigUint64(row * 8, true);
        const part = Math.floor(Number(2n ** 64n - 1n - key) / 2);
        if (part < from || part >= to) continue;
        assert.ok(!found.has(key), `key ${key} came twice`);
        found.set(key, {
          values: [0, 1, 2].map((index) => values.getFloat32((row * 3 + index) * 4, true)),
          accumulator: accumulator.getFloat32(row * 4, true),
          version: version.getUint32(row * 4, true),
        });
      }
    });
  }
  return found;
}

for (const savedBy of [1, 2, 4]) {
  for (const restoredOn of [1, 2, 3, 5]) {
    test(`what ${savedBy} servers saved comes back exactly on ${restoredOn}`, async () => {
      using folder = temporaryFolder();
      const { path } = await saveSample({ root: folder.path, step: 1, serverCount: savedBy });
      await using reader = await CheckpointReader.open(path);
      const seen = new Map<bigint, UserRow>();
      for (let server = 0; server < restoredOn; server++) {
        const [from, to] = [server, server + 1].map((edge) => Math.floor((edge * PART_COUNT) / restoredOn)) as [number, number];
        for (const [key, row] of await readUsers(reader, from, to)) seen.set(key, row);
      }
      assert.equal(seen.size, USERS.rowCount);
      for (let part = 0; part < PART_COUNT; part++) {
        for (const key of keysOf(part)) {
          const id = Number(2n ** 64n - 1n - key);
          assert.deepEqual(seen.get(key), { values: [id, id + 0.25, id + 0.5], accumulator: id * 2, version: id + 7 });
        }
      }
    });
  }
}

test("a tensor's blocks are read straight into place, slots and per-block state with them", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  await using reader = await CheckpointReader.open(path);
  const values = new Float32Array(WEIGHTS.rowCount * WEIGHTS.width);
  const momentum = new Float32Array(values.length);
  for (const [block, chunk] of reader.chunks(WEIGHTS.name).entries()) {
    const [from, to] = [chunk.key.from * 16, chunk.key.to * 16];
    await reader.readColumn(chunk, "values", new Uint8Array(values.buffer, from, to - from));
    await reader.readColumn(chunk, "momentum", new Uint8Array(momentum.buffer, from, to - from));
    const step = new Uint32Array(1);
    await reader.readColumn(chunk, "step", new Uint8Array(step.buffer));
    assert.equal(step[0], 100 + block);
  }
  assert.deepEqual(
    [...values],
    Array.from(values, (_, index) => weightAt(Math.floor(index / 4), index % 4)),
  );
  assert.deepEqual(
    [...momentum],
    Array.from(values, (value) => -value),
  );
});

test("the manifest comes back as it was given", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 12 });
  await using reader = await CheckpointReader.open(path);
  const { parameters, workers, servers, state, clock, step } = reader.manifest;
  assert.deepEqual(parameters, [WEIGHTS, USERS]);
  assert.deepEqual(
    servers.map(({ vectorClock }) => vectorClock),
    [[{ worker: 9, incarnation: 1, stamp: 1000 }], [{ worker: 9, incarnation: 1, stamp: 1001 }]],
  );
  assert.deepEqual([workers.length, state, clock, step], [2, { seed: "18446744073709551615" }, 40, 12]);
});

test("a server reads the chunks it asks for and nothing else", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  const files = new FaultyFiles();
  await using reader = await CheckpointReader.open(path, { layer: files.layer });
  files.calls.length = 0;
  await readUsers(reader, 0, PART_COUNT / 2);
  assert.deepEqual([...new Set(files.calls)], ["read server-000-000.safetensors"]);
});

test("files that are full are followed by others, and all of them are read", async () => {
  using folder = temporaryFolder();
  for (const [step, shard] of [{ headerBytes: 800 }, { headerBytes: 2048, fileBytesMax: 2200 }].entries()) {
    const { path } = await saveSample({ root: folder.path, step, shard });
    await using reader = await CheckpointReader.open(path);
    assert.ok((reader.manifest.servers[0]?.files.length ?? 0) > 1);
    assert.equal((await readUsers(reader, 0, PART_COUNT)).size, USERS.rowCount);
  }
});

test("a file that is missing, short, long or changed is named, with the reason", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  const shard = join(path, "server-001-000.safetensors");
  const whole = readFileSync(shard);
  const opening = (): Promise<CheckpointReader> => CheckpointReader.open(path);
  truncateSync(shard, whole.length - 1);
  await assert.rejects(opening(), throwsCode("CHECKPOINT_TORN", /server-001-000\.safetensors has \d+ bytes, but its header speaks of \d+/));
  writeFileSync(shard, Buffer.concat([whole, Buffer.of(0)]));
  await assert.rejects(opening(), throwsCode("CHECKPOINT_TORN", /server-001-000\.safetensors has \d+ bytes, but its header speaks of \d+/));
  rmSync(shard);
  await assert.rejects(opening(), throwsCode("CHECKPOINT_MISSING", /cannot open .*server-001-000\.safetensors: there is no such file/));
  writeFileSync(shard, "this is a text, and a rather long one");
  await assert.rejects(opening(), throwsCode("CHECKPOINT_TORN", /server-001-000\.safetensors says its header has \d+ bytes/));
  whole.writeUInt8((whole.at(-1) ?? 0) ^ 1, whole.length - 1);
  writeFileSync(shard, whole);
  await using reader = await opening();
  await assert.rejects(
    readUsers(reader, 8, 16),
    throwsCode("CHECKPOINT_TORN", /server-001-000\.safetensors was changed after it was written: version of users\/parts\/8:16\/0/),
  );
});

test("a shard of another server, step or job is told from its own", async () => {
  using folder = temporaryFolder();
  using other = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  const { path: foreign } = await saveSample({ root: other.path, step: 1, job: "job-b" });
  const shard = join(path, "server-000-000.safetensors");
  const expected = throwsCode(
    "CHECKPOINT_FOREIGN",
    /server-000-000.* was written by server 0, step 1 of job "job-b"; expected server 0, step 1 of job "job-a"/,
  );
  renameSync(shard, `${shard}.kept`);
  copyFileSync(join(foreign, "server-000-000.safetensors"), shard);
  await assert.rejects(CheckpointReader.open(path), expected);
  copyFileSync(join(path, "server-001-000.safetensors"), shard);
  await assert.rejects(CheckpointReader.open(path), throwsCode("CHECKPOINT_FOREIGN", /was written by server 1/));
  const header = encodeHeader(layOutTensors([{ name: "w", dtype: "F32", shape: [2] }]));
  writeFileSync(shard, Buffer.concat([header, Buffer.alloc(8)]));
  await assert.rejects(CheckpointReader.open(path), throwsCode("CHECKPOINT_FOREIGN", /is a safetensors file, but no shard/));
});

test("a checkpoint of another model is refused with every difference", async () => {
  const narrow = { ...USERS, width: 2 };
  const wanted = [narrow, { ...WEIGHTS, name: "layer2/weights" }];
  assert.throws(
    () => requireSameModel("/data/step-000001", [WEIGHTS, USERS], wanted),
    throwsCode(
      "CHECKPOINT_FOREIGN",
      /"users" has width 3 in the checkpoint, 2 in the model; "layer2\/weights" is in the model, but not in the checkpoint; "layer1\/weights" is in the checkpoint/,
    ),
  );
  requireSameModel("/data/step-000001", [WEIGHTS, USERS], [USERS, { ...WEIGHTS, schedule: { kind: "cosine" } }]);
});

test("a directory without a checkpoint says what is there instead", async () => {
  using folder = temporaryFolder();
  const missing = (pattern: RegExp) => throwsCode("CHECKPOINT_MISSING", pattern);
  await assert.rejects(findCheckpoint(join(folder.path, "nowhere")), missing(/nowhere: there is no such file or directory/));
  await assert.rejects(findCheckpoint(folder.path), missing(/it is empty/));
  writeFileSync(join(folder.path, "model.safetensors"), "");
  await assert.rejects(findCheckpoint(folder.path), missing(/model\.safetensors has no manifest\.json beside it/));
  await assert.rejects(
    findCheckpoint(join(folder.path, "model.safetensors")),
    throwsCode("CHECKPOINT_FOREIGN", /model\.safetensors is a file; a checkpoint is a directory/),
  );
  const { path } = await saveSample({ root: folder.path, step: 7 });
  await assert.rejects(findCheckpoint(folder.path, { step: 6 }), missing(/no step-000006 in .*: there are the steps 7/));
  assert.equal(await findCheckpoint(folder.path), path);
  assert.equal(await findCheckpoint(path), path);
  const { path: newer } = await saveSample({ root: folder.path, step: 8 });
  assert.equal(await findCheckpoint(folder.path), newer);
  assert.equal(await findCheckpoint(folder.path, { step: 7 }), path);
  assert.equal(await olderCheckpoint(newer), path);
  assert.equal(await olderCheckpoint(path), undefined);
});

test("to resume, no checkpoint at all is missing; a file that the newest one lacks makes that torn, and nobody begins empty", async () => {
  using folder = temporaryFolder();
  await assert.rejects(resumeCheckpoint(join(folder.path, "nowhere")), throwsCode("CHECKPOINT_MISSING"));
  await assert.rejects(resumeCheckpoint(folder.path), throwsCode("CHECKPOINT_MISSING", /it is empty/));
  await saveSample({ root: folder.path, step: 1 });
  const { path } = await saveSample({ root: folder.path, step: 2 });
  await (await resumeCheckpoint(folder.path)).close();
  for (const file of ["server-001-000.safetensors", "manifest.json"]) {
    rmSync(join(path, file));
    const torn = throwsCode("CHECKPOINT_TORN", /step-000002/);
    await assert.rejects(resumeCheckpoint(folder.path), torn, file);
  }
});

test("an opening that fails leaves no file open", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  rmSync(join(path, "server-001-000.safetensors"));
  const files = new FaultyFiles();
  await assert.rejects(CheckpointReader.open(path, { layer: files.layer }));
  assert.equal(files.openCount, 0);
});

const WIDE: ParameterRecord = {
  ...USERS,
  name: "wide",
  rowCount: 100_000,
  width: 15,
  columns: [
    { name: "keys", dtype: "U64", width: 1, per: "row" },
    { name: "values", dtype: "F32", width: 15, per: "row" },
    { name: "seen", dtype: "U64", width: 1, per: "chunk" },
  ],
};

/** One chunk of 6.8 MB. */
async function saveWide(root: string): Promise<string> {
  const directory = new CheckpointDirectory({ root });
  const pending = await directory.begin(1);
  const writer = new ShardWriter({ directory: pending.path, owner: { job: "job-a", step: 1, server: 0 }, parameters: [WIDE] });
  const chunk = await writer.openParts("wide", { from: 0, to: PART_COUNT, rowCount: WIDE.rowCount });
  await chunk.write("keys", bytesOf(BigUint64Array.from({ length: WIDE.rowCount }, (_, row) => BigInt(row) << 20n)));
  await chunk.write("values", bytesOf(Float32Array.from({ length: WIDE.rowCount * WIDE.width }, (_, index) => index)));
  await chunk.write("seen", bytesOf(BigUint64Array.of(77n)));
  const servers = [{ rank: 0, files: await writer.finish(), vectorClock: [], state: {} }];
  const manifest = { ...sampleManifest({ root, step: 1, serverCount: 1 }, servers), parameters: [WIDE] };
  return (await directory.commit(pending, manifest)).path;
}

test("a chunk larger than a batch comes in several, whole rows side by side", async () => {
  using folder = temporaryFolder();
  await using reader = await CheckpointReader.open(await saveWide(folder.path));
  const [chunk] = reader.chunks("wide");
  assert.ok(chunk !== undefined);
  const batches: number[] = [];
  let isTaken = true;
  let rowFrom = 0;
  await reader.readRows(chunk, async ({ rowCount, columns }) => {
    assert.ok(isTaken, "a batch came before the one before it was taken");
    isTaken = false;
    const keys = new BigUint64Array((columns.get("keys") ?? new Uint8Array()).slice().buffer);
    const values = new Float32Array((columns.get("values") ?? new Uint8Array()).slice().buffer);
    assert.deepEqual([keys.length, values.length], [rowCount, rowCount * 15]);
    assert.ok(keys.every((key, row) => key === BigInt(rowFrom + row) << 20n));
    assert.ok(values.every((value, index) => value === rowFrom * 15 + index));
    assert.deepEqual([...new BigUint64Array((columns.get("seen") ?? new Uint8Array()).slice().buffer)], [77n]);
    batches.push(rowFrom, rowCount);
    rowFrom += rowCount;
    await new Promise((resolve) => setImmediate(resolve));
    isTaken = true;
  });
  assert.equal(batches.length, 4);
  assert.equal((batches[2] ?? 0) + (batches[3] ?? 0), WIDE.rowCount);
  const values = new Float32Array(WIDE.rowCount * 15);
  await reader.readColumn(chunk, "values", bytesOf(values));
  assert.ok(values.every((value, index) => value === index));
});

test("a changed byte anywhere in a large chunk fails the call that reads it (CheckpointReader.Q1)", async () => {
  using folder = temporaryFolder();
  const path = await saveWide(folder.path);
  const shard = join(path, "server-000-000.safetensors");
  const bytes = readFileSync(shard);
  const dataFrom = bytes.length - 8 - WIDE.rowCount * 68;
  for (const at of [dataFrom, dataFrom + WIDE.rowCount * 8, bytes.length - 9, bytes.length - 1]) {
    const changed = Buffer.from(bytes);
    changed.writeUInt8((bytes[at] ?? 0) ^ 0x10, at);
    writeFileSync(shard, changed);
    await using reader = await CheckpointReader.open(path);
    const [chunk] = reader.chunks("wide");
    assert.ok(chunk !== undefined);
    await assert.rejects(
      reader.readRows(chunk, () => {}),
      throwsCode("CHECKPOINT_TORN", /server-000-000\.safetensors was changed after it was written: (keys|values|seen) of wide/),
    );
  }
});

test("what the taker throws ends the reading and comes out", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  await using reader = await CheckpointReader.open(path);
  const [chunk] = reader.chunks("users");
  assert.ok(chunk !== undefined);
  const full = new WeighbridgeError("ARENA_FULL", "no room");
  await assert.rejects(
    reader.readRows(chunk, () => Promise.reject(full)),
    (error) => error === full,
  );
});
