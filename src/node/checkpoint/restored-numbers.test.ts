// restored-numbers.test — Goal: checkpoints know names, not numbers: they come back in a job that numbers its
// parameters otherwise, and a restore that fails leaves no name taken.

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import type { Session } from "../../api/session.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { EmbeddedCluster } from "../embedded-cluster.ts";
import { ServerFiles } from "./server-files.ts";

/** Several blocks, so that every server has some. */
const FLOATS = 200_000;
const NAMES = ["a", "b", "c"] as const;
const KEYS = Array.from({ length: 200 }, (_, key) => key);

async function fill(session: Session): Promise<void> {
  for (const [i, name] of NAMES.entries()) {
    await (await session.tensor(name, { shape: [FLOATS], optimizer: "sum" })).push(
      Float32Array.from({ length: FLOATS }, (_, at) => at + i),
    );
    await (await session.embedding(`rows of ${name}`, { dim: 1, optimizer: "sum" })).push(KEYS, new Float32Array(KEYS.length).fill(i + 1));
  }
}

async function assertFilled(session: Session): Promise<void> {
  for (const [i, name] of NAMES.entries()) {
    const values = await (await session.tensor(name, { shape: [FLOATS], optimizer: "sum" })).pull();
    assert.deepEqual(
      values,
      Float32Array.from({ length: FLOATS }, (_, at) => at + i),
      name,
    );
    const rows = await (await session.embedding(`rows of ${name}`, { dim: 1, optimizer: "sum" })).pull(KEYS);
    assert.deepEqual(rows, new Float32Array(KEYS.length).fill(i + 1), name);
  }
}

test("a checkpoint is restored on one and three servers, at their start or by workers, where its names have other numbers", async () => {
  using folder = temporaryFolder();
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, checkpointDir: folder.path });
    await fill(cluster.session);
    await cluster.session.checkpoint().saved;
  }
  for (const servers of [1, 3]) {
    await using atStart = await EmbeddedCluster.start({ servers, restore: folder.path });
    await assertFilled(atStart.session);
    await using byWorker = await EmbeddedCluster.start({ servers, checkpointDir: folder.path });
    // Numbered before.
    for (const name of ["other", "c", "rows of a"]) await (await byWorker.session.tensor(name, { shape: [2], optimizer: "sum" })).drop();
    await byWorker.session.restore();
    await assertFilled(byWorker.session);
    assert.deepEqual(
      (await byWorker.session.parameters()).map(({ name }) => name),
      ["c", "rows of a", "a", "b", "rows of b", "rows of c"],
      "by number",
    );
  }
});

test("a restore that fails leaves no parameter: its names may be described otherwise", async () => {
  using folder = temporaryFolder();
  {
    await using cluster = await EmbeddedCluster.start({ checkpointDir: folder.path });
    await fill(cluster.session);
    await cluster.session.checkpoint().saved;
  }
  const files = new ServerFiles(folder.path);
  const open = async (): Promise<SnapshotSource> => {
    const source = await files.open(undefined);
    return {
      path: source.path,
      manifest: source.manifest,
      chunks: (name) => source.chunks(name),
      readColumn: (chunk, column, into) => source.readColumn(chunk, column, into),
      readRows: async () => {
        throw new WeighbridgeError("CHECKPOINT_IO", "the disk is gone");
      },
      close: () => source.close(),
    };
  };
  const checkpointFiles = { open } as unknown as ServerFiles; // nothing else is asked for
  await using cluster = await EmbeddedCluster.start({ checkpointFiles });
  await assert.rejects(cluster.session.restore(), { code: "CHECKPOINT_IO" });
  assert.deepEqual(await cluster.session.parameters(), []);
  const a = await cluster.session.tensor("a", { shape: [7], optimizer: "sum" });
  assert.deepEqual(await a.pull(), new Float32Array(7));
});

test("a parameter that no server can make is withdrawn: its name may be described otherwise, by anybody", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [one, two] = cluster.sessions as [Session, Session];
  await assert.rejects(one.embedding("wide", { dim: 10_000_000, optimizer: "sum" }), { code: "BAD_ARGUMENT" });
  const narrow = await two.embedding("wide", { dim: 2, optimizer: "sum" });
  await narrow.push([1], Float32Array.of(1, 2));
  assert.deepEqual(await (await one.embedding("wide", { dim: 2, optimizer: "sum" })).pull([1]), Float32Array.of(1, 2));
});
