// Goal: no byte of a checkpoint can change, and none can be lost, without `verify` saying in which file.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { memoryFiles } from "../../../test/support/checkpoint-files.ts";
import { saveSample, temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import type { FileLayer } from "./file-layer.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

/** Small enough to try every byte. */
const SMALL = { serverCount: 1, shard: { headerBytes: 2400 } };

test("a checkpoint as it was written has nothing wrong", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1 });
  const { problems, fileCount, bytes, manifest } = await verifyCheckpoint(path);
  assert.deepEqual([problems, fileCount, manifest?.step], [[], 2, 1]);
  const sizes = readdirSync(path).map((name) => (name.endsWith(".safetensors") ? readFileSync(join(path, name)).length : 0));
  assert.equal(
    bytes,
    sizes.reduce((sum, size) => sum + size, 0),
  );
});

/** The files of a checkpoint in memory, and what `verify` says when one of them has other bytes. */
async function loadSmall(root: string): Promise<{
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  readonly problemsWith: (file: string, bytes: Uint8Array<ArrayBuffer>) => Promise<readonly string[]>;
}> {
  const { path } = await saveSample({ root, step: 1, ...SMALL });
  const files = new Map(readdirSync(path).map((name) => [join(path, name), new Uint8Array(readFileSync(join(path, name)))]));
  const verify = async (layer: FileLayer): Promise<readonly string[]> => (await verifyCheckpoint(path, layer)).problems;
  assert.deepEqual(await verify(memoryFiles(files)), []);
  return { files, problemsWith: (file, bytes) => verify(memoryFiles(new Map(files).set(file, bytes))) };
}

test("every flipped byte of every file is noticed, with the file's name", async () => {
  using folder = temporaryFolder();
  const { files, problemsWith } = await loadSmall(folder.path);
  assert.equal(files.size, 2);
  for (const [file, bytes] of files) {
    for (let at = 0; at < bytes.length; at++) {
      const flipped = bytes.slice();
      flipped[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
      const problems = await problemsWith(file, flipped);
      assert.ok(
        problems.some((problem) => problem.includes(file)),
        `byte ${at} of ${file}: ${problems.join("; ")}`,
      );
    }
  }
});

test("every truncation of every file is noticed, with the file's name", async () => {
  using folder = temporaryFolder();
  const { files, problemsWith } = await loadSmall(folder.path);
  for (const [file, bytes] of files) {
    for (let length = 0; length < bytes.length; length++) {
      const problems = await problemsWith(file, bytes.subarray(0, length));
      const isTold = problems.some((problem) => problem.startsWith("CHECKPOINT_TORN: ") && problem.includes(file));
      assert.ok(isTold, `${file} of ${length} bytes: ${problems.join("; ")}`);
    }
  }
});

test("all problems are told, not the first alone", async () => {
  using folder = temporaryFolder();
  const { path } = await saveSample({ root: folder.path, step: 1, serverCount: 4 });
  rmSync(join(path, "server-000-000.safetensors"));
  const shard = join(path, "server-002-000.safetensors");
  const bytes = readFileSync(shard);
  for (const at of [bytes.length - 1, bytes.length - 200]) bytes.writeUInt8((bytes[at] ?? 0) ^ 0x80, at);
  writeFileSync(shard, bytes);
  const { problems } = await verifyCheckpoint(path);
  assert.equal(problems.length, 3, problems.join("\n"));
  assert.match(problems[0] ?? "", /^CHECKPOINT_MISSING: .*server-000-000/);
  assert.match(problems[2] ?? "", /^CHECKPOINT_TORN: .*server-002-000.*version of users\/parts\/8:12/);
});

test("a directory without a manifest is one problem", async () => {
  using folder = temporaryFolder();
  const { problems, manifest } = await verifyCheckpoint(folder.path);
  assert.equal(manifest, undefined);
  assert.match(problems.join(), /^CHECKPOINT_MISSING: cannot open .*manifest\.json: there is no such file/);
});
