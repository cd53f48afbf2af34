// Goal: what a server gives a shard writer is in its files, or it is told what it forgot; giving up leaves nothing.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { bytesOf, temporaryFolder, USERS, WEIGHTS } from "../../../test/support/checkpoint-stage.ts";
import { AssertionError } from "../../base/assert.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { ShardWriter, shardFileName } from "./shard-writer.ts";

const OWNER = { job: "j", step: 1, server: 3 };

function writerIn(directory: string): ShardWriter {
  return new ShardWriter({ directory, owner: OWNER, parameters: [WEIGHTS, USERS], headerBytes: 512 });
}

async function writeBlock(writer: ShardWriter, from: number, to: number): Promise<void> {
  const chunk = await writer.openRows(WEIGHTS.name, { from, to });
  const values = new Float32Array((to - from) * 4);
  await Promise.all([
    chunk.write("step", bytesOf(new Uint32Array(1))),
    chunk.write("momentum", bytesOf(values)),
    chunk.write("values", bytesOf(values)),
  ]);
}

test("a server that has nothing writes no file", async () => {
  using folder = temporaryFolder();
  assert.deepEqual(await writerIn(folder.path).finish(), []);
  assert.deepEqual(readdirSync(folder.path), []);
});

test("chunks may be opened and filled side by side; files are numbered", async () => {
  using folder = temporaryFolder();
  const writer = writerIn(folder.path);
  await Promise.all([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((row) => writeBlock(writer, row, row + 1)));
  const files = await writer.finish();
  assert.ok(files.length > 1);
  assert.deepEqual(
    files.map(({ file }) => file),
    files.map((_, index) => shardFileName(3, index)),
  );
  assert.deepEqual(
    readdirSync(folder.path).sort(),
    files.map(({ file }) => file),
  );
});

test("a chunk whose header alone is longer than what is kept free gets a file of its own", async () => {
  using folder = temporaryFolder();
  const name = "x".repeat(600);
  const writer = new ShardWriter({ directory: folder.path, owner: OWNER, parameters: [{ ...WEIGHTS, name }], headerBytes: 512 });
  for (const from of [0, 1]) {
    const chunk = await writer.openRows(name, { from, to: from + 1 });
    for (const [column, bytes] of [
      ["values", 16],
      ["momentum", 16],
      ["step", 4],
    ] as const)
      await chunk.write(column, new Uint8Array(bytes));
  }
  assert.equal((await writer.finish()).length, 2);
});

test("a chunk that was not filled is a bug, and no file of it stays", async () => {
  using folder = temporaryFolder();
  const writer = writerIn(folder.path);
  await writeBlock(writer, 0, 3);
  const chunk = await writer.openRows(WEIGHTS.name, { from: 3, to: 6 });
  await chunk.write("values", new Uint8Array(47));
  await assert.rejects(
    writer.finish(),
    (error) => error instanceof AssertionError && /rows\/3:6\/values .* has 47 of 48 bytes/.test(error.message),
  );
  assert.deepEqual(readdirSync(folder.path), []);
});

test("what is not a parameter, a column or a stretch of one is a bug", async () => {
  using folder = temporaryFolder();
  const writer = writerIn(folder.path);
  await assert.rejects(writer.openRows("nobody", { from: 0, to: 1 }), AssertionError);
  await assert.rejects(writer.openRows(USERS.name, { from: 0, to: 1 }), AssertionError);
  await assert.rejects(writer.openRows(WEIGHTS.name, { from: 1, to: 1 }), AssertionError);
  const chunk = await writer.openParts(USERS.name, { from: 0, to: 1, rowCount: 0 });
  assert.throws(() => chunk.write("momentum", new Uint8Array()), AssertionError);
  await writer.abandon();
});

test("giving up removes what was written, and later calls say so", async () => {
  using folder = temporaryFolder();
  const writer = writerIn(folder.path);
  await writeBlock(writer, 0, 3);
  await writer.abandon();
  await writer.abandon();
  assert.deepEqual(readdirSync(folder.path), []);
  const isClosed = (error: unknown): boolean => isWeighbridgeError(error, "CLOSED") && /server 3 was abandoned/.test(error.message);
  await assert.rejects(writer.openRows(WEIGHTS.name, { from: 3, to: 6 }), isClosed);
  await assert.rejects(writer.finish(), isClosed);
});
