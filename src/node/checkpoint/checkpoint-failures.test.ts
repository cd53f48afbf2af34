// Goal: a checkpoint that cannot be taken or restored is a typed error that says why; nothing is left of it, and what
// was saved before is still good.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { setImmediate, setTimeout } from "node:timers/promises";
import { FaultyFiles, systemError } from "../../../test/support/checkpoint-files.ts";
import { type Model, modelOf, SIZE, start, trainAll } from "../../../test/support/checkpoint-model.ts";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import type { Session } from "../../api/session.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { checkpointSave } from "../../contracts/checkpoints.ts";
import { EmbeddedCluster } from "../embedded-cluster.ts";
import { ServerFiles } from "./server-files.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

test("missing, torn and foreign checkpoints are errors that name the file, and the one before is still good", async () => {
  using folder = temporaryFolder();
  {
    const { cluster, models } = await start(2, folder.path);
    await using _ = cluster;
    await trainAll(cluster.sessions, models, 1);
    await cluster.session.checkpoint().saved;
    await trainAll(cluster.sessions, models, 1);
    await cluster.session.checkpoint().saved;
  }
  const file = join(folder.path, "step-000002", "server-001-000.safetensors");
  const bytes = readFileSync(file);
  const last = bytes.length - 1;
  bytes[last] = bytes.readUInt8(last) ^ 1;
  writeFileSync(file, bytes);
  await using cluster = await EmbeddedCluster.start({ servers: 2, checkpointDir: folder.path });
  await assert.rejects(
    cluster.session.restore(),
    (error) =>
      isWeighbridgeError(error, "CHECKPOINT_TORN") &&
      /server-001-000\.safetensors was changed.*; the checkpoint before it is .*step-000001/.test(error.message),
  );
  await assert.rejects(
    cluster.session.restore({ step: 7 }),
    (error) => isWeighbridgeError(error, "CHECKPOINT_MISSING") && /there are the steps 1, 2/.test(error.message),
  );
  writeFileSync(file, bytes.subarray(0, 1000));
  await assert.rejects(
    cluster.session.restore(),
    (error) => isWeighbridgeError(error, "CHECKPOINT_TORN") && /step-000001/.test(error.message),
  );
  assert.equal((await cluster.session.restore({ step: 1 })).clock, 1);
  await assert.rejects(EmbeddedCluster.start({ restore: join(folder.path, "step-000002") }), (error) =>
    isWeighbridgeError(error, "CHECKPOINT_TORN"),
  );
});

test("a restored parameter that is described differently is refused with the difference", async () => {
  using folder = temporaryFolder();
  {
    const { cluster } = await start(1, folder.path);
    await using _ = cluster;
    await cluster.session.checkpoint().saved;
  }
  await using cluster = await EmbeddedCluster.start({ restore: folder.path, workers: 2 });
  await assert.rejects(
    cluster.session.tensor("dense", { shape: [SIZE + 1], optimizer: "sum" }),
    (error) => isWeighbridgeError(error, "SPEC_MISMATCH") && /shape/.test(error.message),
  );
});

test("servers without a checkpoint directory say so, a second one at the same time waits its turn, and an early clock is refused", async () => {
  await using bare = await EmbeddedCluster.start();
  await assert.rejects(
    bare.session.checkpoint().saved,
    (error) => isWeighbridgeError(error, "UNSUPPORTED") && /^server 0: this server .*--checkpoint-dir/.test(error.message),
  );
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ workers: 2, checkpointDir: folder.path });
  const [one, two] = cluster.sessions as [Session, Session];
  const first = one.checkpoint({ clock: 1 }).saved;
  await assert.rejects(
    two.checkpoint().saved,
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && /worker 0 .* is taking/.test(error.message),
  );
  one.clock();
  two.clock();
  assert.equal((await first).clock, 1);
  assert.throws(
    () => one.checkpoint({ clock: 0 }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
  await assert.rejects(
    one.checkpoint({ step: 1 }).saved,
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /already/.test(error.message),
  );
  assert.equal((await two.checkpoint().saved).step, 2);
});

test("a disk that fills up fails the checkpoint, leaves nothing of it, and the next one succeeds", async () => {
  using folder = temporaryFolder();
  let room = Infinity;
  const { layer } = new FaultyFiles(({ verb }) => {
    if (verb !== "write") return undefined;
    if (room <= 0) throw systemError("ENOSPC");
    room--;
    return undefined;
  });
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointFiles: new ServerFiles(folder.path, layer) });
  const models: Model[] = [];
  for (const session of cluster.sessions) models.push(await modelOf(session));
  await trainAll(cluster.sessions, models, 2);
  await cluster.session.checkpoint().saved;
  for (const left of [0, 1, 4, 9]) {
    room = left;
    await assert.rejects(
      cluster.session.checkpoint().saved,
      (error) => isWeighbridgeError(error, "CHECKPOINT_IO") && error.retryable && /step-\d+\.pending.*disk is full/.test(error.message),
      `room for ${left} writes`,
    );
    assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000002"]);
  }
  room = Infinity;
  await trainAll(cluster.sessions, models, 1);
  const { path } = await cluster.session.checkpoint().saved;
  assert.deepEqual((await verifyCheckpoint(path)).problems, []);
});

test("when pushes need the memory that a checkpoint holds, the checkpoint is given up and no push fails", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ arenaBytesMax: 48 << 20, checkpointDir: folder.path });
  const { session } = cluster;
  const size = 3_000_000; // with its slots 24 of 48 MB: there is no room for both twice
  const dense = await session.tensor("dense", { shape: [size], optimizer: { type: "momentum", learningRate: 1, momentum: 0 } });
  const ones = new Float32Array(size).fill(1);
  await dense.push(ones);
  const { cut, saved } = session.checkpoint();
  await cut;
  const pushes = [dense.push(ones), dense.push(ones)];
  const outcome = await saved.then(
    () => "saved",
    (error: unknown) => (isWeighbridgeError(error, "ARENA_FULL") ? "given up" : String(error)),
  );
  await Promise.all(pushes);
  assert.equal((await dense.pull())[size - 1], -3);
  assert.ok(outcome === "saved" || outcome === "given up", outcome);
  assert.match((await session.checkpoint().saved).path, /step-\d+$/);
});

test("a checkpoint that fails crashes nobody who has not awaited it yet, and both promises say why", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  try {
    await using cluster = await EmbeddedCluster.start();
    await cluster.session.tensor("w", { shape: [4], optimizer: "sum" });
    const { cut, saved } = cluster.session.checkpoint(); // without a directory
    const second = cluster.session.checkpoint();
    await setTimeout(50);
    await assert.rejects(saved, (error) => isWeighbridgeError(error, "UNSUPPORTED"));
    await assert.rejects(second.saved, (error) => isWeighbridgeError(error, "QUEUE_FULL"));
    await assert.rejects(cut, (error) => isWeighbridgeError(error, "UNSUPPORTED"));
    await assert.rejects(second.cut, (error) => isWeighbridgeError(error, "QUEUE_FULL"));
  } finally {
    process.off("unhandledRejection", note);
  }
  assert.deepEqual(unhandled, []);
});

test("a checkpoint that is aborted is given up on the servers at once: before its cut, and right behind it", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: folder.path });
  const [one, two] = cluster.sessions as [Session, Session];
  const w = await one.tensor("w", { shape: [SIZE], optimizer: "sum" });
  await w.push(new Float32Array(SIZE).fill(1));
  for (const clock of [1, 0]) {
    const giveUp = new AbortController();
    const { cut, saved } = one.checkpoint({ clock, signal: giveUp.signal });
    if (clock === 0) await cut;
    giveUp.abort();
    await assert.rejects(saved, (error) => isWeighbridgeError(error, "ABORTED"));
    if (clock === 1) await assert.rejects(cut, (error) => isWeighbridgeError(error, "ABORTED"));
    const { step } = await two.checkpoint().saved; // QUEUE_FULL while the other one is being taken
    assert.equal(step, 1 - clock);
    assert.deepEqual(
      readdirSync(folder.path).filter((name) => name.includes("pending")),
      [],
    );
  }
});

test("a worker cannot name a path: only what was begun is written or committed", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ checkpointDir: folder.path });
  const { session } = cluster;
  const { cut, write, commit } = checkpointSave;
  const isRefused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST");
  await session.call(cut, { server: 0 }, { id: "x", clock: 0, isWhole: true });
  for (const pending of ["../elsewhere", "/tmp/x", "step-000001", "step-000001.pending-zz", ""]) {
    await assert.rejects(session.call(commit, { server: 0 }, { pending, manifest: {}, keep: undefined }), isRefused, pending);
  }
  const elsewhere = { id: "x", pending: "../elsewhere", step: 1, job: "j", parameters: [] };
  await assert.rejects(session.call(write, { server: 0 }, elsewhere), isRefused);
  await assert.rejects(session.call(write, { server: 0 }, { ...elsewhere, step: -1 }), isRefused);
  await assert.rejects(session.call(cut, { server: 0 }, { id: "y", clock: -1, isWhole: true }), (error) =>
    isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
  assert.deepEqual(readdirSync(folder.path), []);
  assert.equal((await session.checkpoint().saved).step, 0);
});

test("what one worker is saving no other writes, commits or gives up", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ workers: 2, checkpointDir: folder.path });
  const [owner, other] = cluster.sessions as [Session, Session];
  await owner.tensor("w", { shape: [4], optimizer: "sum" });
  const server = { server: 0 };
  const save = checkpointSave;
  await owner.call(save.cut, server, { id: "x", clock: 0, isWhole: true });
  const { pending, step } = await owner.call(save.begin, server, { step: undefined, stepMin: 0, directory: undefined });
  const write = { id: "x", pending, step, job: "j", parameters: ["w"] };
  const notYours = { code: "BAD_REQUEST", message: /of yours/ };
  await assert.rejects(other.call(save.write, server, write), notYours);
  await assert.rejects(other.call(save.commit, server, { pending, manifest: {}, keep: undefined }), notYours);
  await other.call(save.abandon, server, { id: "x", pending });
  assert.deepEqual(readdirSync(folder.path), [pending]);
  await owner.call(save.write, server, write);
  await owner.call(save.abandon, server, { id: "x", pending });
  assert.deepEqual(readdirSync(folder.path), []);
});

test("a session that closes over its own checkpoint gets a whole one or a typed error, never hangs, and nobody takes the rest for a checkpoint", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 4, checkpointDir: folder.path });
  const staying = cluster.sessions[3] as Session;
  const complete = (): string[] => readdirSync(folder.path).filter((name) => /^step-\d+$/.test(name));
  const w = await staying.tensor("w", { shape: [SIZE], optimizer: "sum" });
  await w.push(new Float32Array(SIZE).fill(1));
  for (const [rank, moment] of ["at once", "at the cut", "while it waits for another worker"].entries()) {
    const closing = cluster.sessions[rank] as Session;
    const before = complete();
    const { cut, saved } = closing.checkpoint({ clock: moment.startsWith("while") ? 1 : 0 });
    const outcome = saved.then(
      ({ path }) => basename(path),
      (error: unknown) => error,
    );
    if (moment === "at the cut") await cut;
    await closing.close({ barrier: false });
    const ended = await outcome;
    if (typeof ended !== "string") {
      assert.ok(isWeighbridgeError(ended) && ["CLOSED", "NODE_DEAD"].includes(ended.code), `${moment}: ${String(ended)}`);
    }
    assert.deepEqual(complete(), typeof ended === "string" ? [...before, ended] : before, moment);
    const { path } = await untilTaken(staying);
    assert.deepEqual((await verifyCheckpoint(path)).problems, [], moment);
  }
});

/** What the one before left is given up as soon as the servers know that it is gone. */
async function untilTaken(session: Session): Promise<{ readonly path: string }> {
  for (;;) {
    try {
      return await session.checkpoint().saved;
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown;
      await setImmediate();
    }
  }
}

test("a session that closes waits for the checkpoint and the parameter that it is saving, and never for its own clock: that one is whole, or CLOSED", async () => {
  using folder = temporaryFolder();
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, checkpointDir: folder.path });
    const { session } = cluster;
    const w = await session.tensor("w", { shape: [SIZE], optimizer: "sum" });
    await w.push(new Float32Array(SIZE).fill(1));
    const saved = session.saveParameter("w", "models");
    await session.close();
    await saved;
  }
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, checkpointDir: folder.path });
    const { session } = cluster;
    const w = await session.tensor("w", { shape: [SIZE], optimizer: "sum" });
    await w.push(new Float32Array(SIZE).fill(1));
    const taken = session.checkpoint().saved;
    await session.close();
    assert.deepEqual((await verifyCheckpoint((await taken).path)).problems, []);
  }
  await using cluster = await EmbeddedCluster.start({ servers: 2, checkpointDir: folder.path });
  const { session } = cluster;
  await session.tensor("w", { shape: [SIZE], optimizer: "sum" });
  const ahead = session.checkpoint({ clock: 1 }).saved.then(
    async ({ path }) => (await verifyCheckpoint(path)).problems.length === 0,
    (error: unknown) => isWeighbridgeError(error, "CLOSED"),
  );
  await session.close();
  assert.ok(await ahead);
});
