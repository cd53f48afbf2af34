// Goal: sections are filled side by side from memory that is not copied, with their checksums; an error ends everything
// and leaves nothing.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { FaultyFiles, systemError } from "../../../test/support/checkpoint-files.ts";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import { AssertionError } from "../../base/assert.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { realFiles } from "./file-layer.ts";
import { SectionFile } from "./section-file.ts";

const HEADER = new Uint8Array(16).fill(0x68);

function noise(bytes: number, seed: number): Uint8Array {
  const random = new Random(seed);
  return Uint8Array.from({ length: bytes }, () => random.below(256));
}

test("sections that are written side by side, from shared memory, in pieces of any size, end up in their places", async () => {
  using folder = temporaryFolder();
  const path = join(folder.path, "a.safetensors");
  const file = await SectionFile.create({ layer: realFiles, path, headerBytes: HEADER.byteLength });
  const contents = [noise(3_000_001, 1), noise(0, 2), noise(77, 3), noise(1 << 20, 4)];
  const sections = contents.map((bytes) => file.add(bytes.byteLength));
  await Promise.all(
    contents.map(async (bytes, index) => {
      const shared = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
      shared.set(bytes);
      const section = sections[index];
      assert.ok(section !== undefined);
      const pieceBytes = [2_000_000, 1, 10, 100_000][index] ?? 1;
      const open: Promise<void>[] = [];
      for (let from = 0; from < bytes.byteLength; from += pieceBytes)
        open.push(file.write(section, shared.subarray(from, from + pieceBytes)));
      await Promise.all(open);
    }),
  );
  assert.deepEqual(readdirSync(folder.path), ["a.safetensors.tmp"]);
  await file.finish(HEADER);
  assert.deepEqual(readdirSync(folder.path), ["a.safetensors"]);
  assert.ok(readFileSync(path).equals(Buffer.concat([HEADER, ...contents])));
  assert.deepEqual(
    sections.map((section) => section.crc32),
    contents.map((bytes) => crc32(bytes)),
  );
  assert.equal(file.bytes, readFileSync(path).byteLength);
});

test("no write is longer than 1 MiB, and no more than two are under way", async () => {
  using folder = temporaryFolder();
  let [open, openMax, bytesMax] = [0, 0, 0];
  const layer = {
    ...realFiles,
    async create(path: string) {
      const file = await realFiles.create(path);
      return {
        ...file,
        async write(bytes: Uint8Array, position: number) {
          openMax = Math.max(openMax, ++open);
          bytesMax = Math.max(bytesMax, bytes.byteLength);
          const count = await file.write(bytes, position);
          open--;
          return count;
        },
      };
    },
  };
  const file = await SectionFile.create({ layer, path: join(folder.path, "a"), headerBytes: HEADER.byteLength });
  const bytes = new Uint8Array(9 << 20);
  const section = file.add(bytes.byteLength);
  await Promise.all([file.write(section, bytes.subarray(0, 5 << 20)), file.write(section, bytes.subarray(5 << 20))]);
  await file.finish(HEADER);
  assert.deepEqual([openMax, bytesMax], [2, 1 << 20]);
});

test("after an error every call fails with it, and the file is gone", async () => {
  using folder = temporaryFolder();
  let writes = 0;
  const files = new FaultyFiles(({ verb }) => {
    if (verb === "write" && ++writes === 2) throw systemError("ENOSPC");
    return undefined;
  });
  const file = await SectionFile.create({ layer: files.layer, path: join(folder.path, "a"), headerBytes: HEADER.byteLength });
  const section = file.add(100 << 20);
  const bytes = new Uint8Array(3 << 20);
  const results = await Promise.allSettled([1, 2, 3].map(() => file.write(section, bytes)));
  const isFull = (reason: unknown): boolean =>
    isWeighbridgeError(reason, "CHECKPOINT_IO") && /a\.tmp: the disk is full/.test(reason.message);
  assert.ok(results.every((result) => result.status === "rejected" && isFull(result.reason)));
  await assert.rejects(file.write(section, bytes), isFull);
  await assert.rejects(file.finish(HEADER), isFull);
  await file.abandon();
  assert.deepEqual([readdirSync(folder.path), files.openCount], [[], 0]);
});

test("giving up while writes are under way waits for them, fails them, and removes the file", async () => {
  using folder = temporaryFolder();
  const files = new FaultyFiles();
  const file = await SectionFile.create({ layer: files.layer, path: join(folder.path, "a"), headerBytes: HEADER.byteLength });
  const section = file.add(50 << 20);
  const writing = file.write(section, new Uint8Array(10 << 20));
  await Promise.all([assert.rejects(writing, (error) => isWeighbridgeError(error, "CLOSED")), file.abandon()]);
  await file.abandon();
  assert.deepEqual([readdirSync(folder.path), files.openCount], [[], 0]);
});

test("giving up after the end does nothing", async () => {
  using folder = temporaryFolder();
  const file = await SectionFile.create({ layer: realFiles, path: join(folder.path, "a"), headerBytes: HEADER.byteLength });
  await file.finish(HEADER);
  await file.abandon();
  assert.deepEqual(readdirSync(folder.path), ["a"]);
});

test("a file that a dead writer left under the temporary name is replaced", async () => {
  using folder = temporaryFolder();
  writeFileSync(join(folder.path, "a.tmp"), "x".repeat(1000));
  const file = await SectionFile.create({ layer: realFiles, path: join(folder.path, "a"), headerBytes: HEADER.byteLength });
  await file.finish(HEADER);
  assert.ok(readFileSync(join(folder.path, "a")).equals(HEADER));
});

test("more bytes than a section has, or a header of another length, is a bug", async () => {
  using folder = temporaryFolder();
  const file = await SectionFile.create({ layer: realFiles, path: join(folder.path, "a"), headerBytes: HEADER.byteLength });
  assert.throws(() => file.write(file.add(3), new Uint8Array(4)), AssertionError);
  await assert.rejects(file.finish(new Uint8Array(8)), AssertionError);
  await file.abandon();
});
