// Goal: a running cluster is saved at one clock while its workers push, and comes back exactly, on however many servers.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Embedding } from "../../api/embedding.ts";
import type { Session } from "../../api/session.ts";
import type { Tensor } from "../../api/tensor.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { checkpointFunction } from "../../functions/checkpoint/checkpoint-function.ts";
import { EmbeddedCluster } from "../connect.ts";
import { CheckpointReader } from "./checkpoint-reader.ts";
import { ServerFiles } from "./server-files.ts";
import { temporaryFolder } from "./testing-checkpoint.ts";
import { FaultyFiles, systemError } from "./testing-files.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

const SIZE = 300_000;
const KEYS = Array.from({ length: 500 }, (_, i) => (BigInt(i) * 0x9e37_79b9_7f4a_7c15n) & (2n ** 64n - 1n));

type Model = Readonly<Record<"dense" | "sync" | "rows", Tensor>> & Readonly<Record<"users" | "items" | "tags", Embedding>>;

async function modelOf(session: Session): Promise<Model> {
  const schedule = { type: "cosine", steps: 40 } as const;
  return {
    dense: await session.tensor("dense", { shape: [SIZE], optimizer: { type: "adam", schedule }, init: { type: "normal", seed: 3 } }),
    sync: await session.tensor("layer/sync", { shape: [700, 10], optimizer: { type: "momentum" }, consistency: "bsp" }),
    rows: await session.tensor("rows", { shape: [40_000, 16], optimizer: { type: "rmsprop", momentum: 0.5 }, init: { type: "he" } }),
    users: await session.embedding("users", { dim: 6, optimizer: { type: "adam" }, versions: true, init: { type: "uniform", seed: 9 } }),
    items: await session.embedding("items", { dim: 3, optimizer: { type: "rowWiseAdagrad" }, consistency: "bsp" }),
    tags: await session.embedding("tags", { dim: 2, optimizer: { type: "lazyAdam" } }), // one count of steps for the whole table
  };
}

/** One iteration of one worker, the same whenever and wherever it is done. */
async function train({ dense, sync, rows, users, items, tags }: Model, rank: number, clock: number): Promise<void> {
  const wave = (length: number, of: number): Float32Array => Float32Array.from({ length }, (_, i) => Math.sin(i * 0.37 + clock + of));
  const some = KEYS.filter((_, i) => (i + clock) % 3 === 0);
  await Promise.all([
    dense.push(wave(SIZE, 1)),
    sync.push(wave(7000, rank)),
    rows.pushRows([clock, 39_999, 17], wave(48, 2)),
    users.push(some, wave(some.length * 6, 3)),
    items.push(some, wave(some.length * 3, rank)),
    tags.push(some, wave(some.length * 2, 4)),
  ]);
}

async function trainAll(sessions: readonly Session[], models: readonly Model[], clocks: number): Promise<void> {
  for (let i = 0; i < clocks; i++) {
    // Async updates of several workers would come in any order: only the first makes those. All take part in the sync ones.
    for (const [rank, session] of sessions.entries()) {
      const model = models[rank] as Model;
      if (rank === 0) await train(model, rank, session.clocks);
      else await model.sync.push(Float32Array.from({ length: 7000 }, (_, k) => Math.cos(k + session.clocks)));
    }
    for (const session of sessions) session.clock();
  }
}

async function stateOf({ dense, sync, rows, users, items, tags }: Model): Promise<readonly Float32Array[]> {
  return await Promise.all([dense.pull(), sync.pull(), rows.pull(), users.pull(KEYS), items.pull(KEYS), tags.pull(KEYS)]);
}

async function start(servers: number, folder: string, restore?: string): Promise<{ cluster: EmbeddedCluster; models: Model[] }> {
  const cluster = await EmbeddedCluster.start({
    servers,
    workers: 2,
    arenaBytesMax: 256 << 20,
    checkpointDir: folder,
    ...(restore === undefined ? {} : { restore }),
  });
  const models: Model[] = [];
  for (const session of cluster.sessions) models.push(await modelOf(session));
  return { cluster, models };
}

test("saved by two servers, restored onto one, two and three: the same bits, then and after training on", async () => {
  using folder = temporaryFolder();
  const { cluster, models } = await start(2, folder.path);
  await using _ = cluster;
  await trainAll(cluster.sessions, models, 5);
  const taken = await cluster.session.checkpoint({ job: "test" });
  assert.deepEqual({ ...taken, path: "" }, { step: 5, clock: 5, path: "", warning: undefined });
  assert.deepEqual((await verifyCheckpoint(taken.path)).problems, []);
  const saved = await stateOf(models[0] as Model);
  await trainAll(cluster.sessions, models, 4);
  const later = await stateOf(models[0] as Model);
  assert.notDeepEqual(later, saved);
  for (const servers of [1, 2, 3]) {
    const again = await start(servers, folder.path, taken.path);
    await using __ = again.cluster;
    assert.deepEqual(
      again.cluster.sessions.map(({ clocks }) => clocks),
      [5, 5],
    );
    assert.deepEqual(await stateOf(again.models[0] as Model), saved, `${servers} servers`);
    await trainAll(again.cluster.sessions, again.models, 4);
    assert.deepEqual(await stateOf(again.models[0] as Model), later, `${servers} servers, trained on`);
  }
});

test("every worker restores a running cluster by its session; a changed rate and bound come along", async () => {
  using folder = temporaryFolder();
  {
    const { cluster, models } = await start(3, folder.path);
    await using _ = cluster;
    await (models[0] as Model).dense.configure({ learningRate: 0.5, staleness: 7 });
    await trainAll(cluster.sessions, models, 2);
    await cluster.session.checkpoint();
    await trainAll(cluster.sessions, models, 1);
    assert.equal((await cluster.session.checkpoint({ keep: 1 })).step, 3);
    await assert.rejects(
      cluster.session.restore(),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /has "dense"/.test(error.message),
    );
  }
  assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000003"]);
  await using reader = await CheckpointReader.open(join(folder.path, "step-000003"));
  const [dense] = reader.manifest.parameters;
  assert.equal(dense?.name, "dense");
  assert.deepEqual([dense?.state.learningRate, dense?.state.staleness], [0.5, 7]);
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2, checkpointDir: folder.path });
  const restored = await Promise.all(cluster.sessions.map((session) => session.restore()));
  assert.deepEqual(
    restored.map(({ step, clock }) => ({ step, clock })),
    [
      { step: 3, clock: 3 },
      { step: 3, clock: 3 },
    ],
  );
  assert.deepEqual(restored[0]?.parameters, ["dense", "layer/sync", "rows", "users", "items", "tags"]);
  assert.equal(cluster.sessions[1]?.clocks, 3);
  const taken = await cluster.session.checkpoint();
  await using second = await CheckpointReader.open(taken.path);
  assert.deepEqual(second.manifest.parameters[0]?.state, dense?.state);
});

test("a consistency that was changed, and one that is still to change, come along onto any number of servers", async () => {
  using folder = temporaryFolder();
  const describe = (session: Session) => session.embedding("changing", { dim: 1, consistency: "bsp" });
  const keys = Array.from({ length: 30 }, (_, i) => i);
  const ones = new Float32Array(keys.length).fill(1);
  let path = "";
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 1, checkpointDir: folder.path });
    const { session } = cluster;
    const table = await describe(session);
    assert.equal(await table.configure({ consistency: "asp" }), 2);
    assert.equal(await table.configure({ consistency: { bsp: true, reduce: "mean" }, fromClock: 5 }), 5);
    for (let clock = 0; clock < 3; clock++) session.clock();
    path = (await session.checkpoint()).path;
  }
  await using reader = await CheckpointReader.open(path);
  assert.deepEqual(reader.manifest.parameters[0]?.consistency, { kind: "sync", reduce: "mean", staleness: 0 }, "what it is in the end");
  for (const servers of [1, 2, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 1, restore: path });
    const { session } = cluster;
    const table = await describe(session);
    const values = async (): Promise<number[]> => [...new Set(await table.pull(keys))];
    await table.push(keys, ones);
    assert.deepEqual([session.clocks, await values()], [3, [1]], "clock 3 is ASP");
    session.clock();
    session.clock();
    await table.push(keys, ones);
    assert.deepEqual(await values(), [1], "clock 5 is BSP");
    session.clock();
    assert.deepEqual(await values(), [2]);
  }
});

test("of parameters with sync updates exactly the rounds before the cut are in, of the others all updates before it, while workers push", async () => {
  using folder = temporaryFolder();
  const cluster = await EmbeddedCluster.start({ servers: 2, workers: 3, checkpointDir: folder.path });
  await using _ = cluster;
  const CUT = 6;
  const SIZE_SMALL = 200_000;
  const keys = Array.from({ length: 3000 }, (_, i) => i);
  let taking: Promise<{ readonly path: string }> | undefined;
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const bsp = await session.tensor("bsp", { shape: [SIZE_SMALL], consistency: "bsp" });
      const asp = await session.tensor("asp", { shape: [SIZE_SMALL] });
      const table = await session.embedding("table", { dim: 2, consistency: { ssp: 2 } });
      const rounds = await session.embedding("rounds", { dim: 2, consistency: "bsp" });
      const ones = new Float32Array(SIZE_SMALL).fill(1);
      const rows = new Float32Array(keys.length * 2).fill(1);
      for (let clock = 0; clock < 14; clock++) {
        if (session.rank === 1 && clock === CUT) taking = session.checkpoint();
        const pushes = [bsp.push(ones), asp.push(ones), table.push(keys, rows), rounds.push(keys, rows)];
        session.clock();
        await table.pull([1]);
        if (clock % 3 === session.rank) await Promise.all(pushes);
      }
    }),
  );
  const { path } = (await taking) as { readonly path: string };
  await using restored = await EmbeddedCluster.start({ servers: 3, workers: 1, restore: path });
  const { session } = restored;
  assert.equal(session.clocks, CUT);
  const bsp = await (await session.tensor("bsp", { shape: [SIZE_SMALL], consistency: "bsp" })).pull();
  assert.deepEqual(new Set(bsp), new Set([3 * CUT]));
  const rounds = await (await session.embedding("rounds", { dim: 2, consistency: "bsp" })).pull(keys);
  assert.deepEqual(new Set(rounds), new Set([3 * CUT]));
  const asp = await (await session.tensor("asp", { shape: [SIZE_SMALL] })).pull();
  for (const value of new Set(asp)) assert.ok(value >= 3 * CUT && value <= 3 * 14 && Number.isInteger(value), `${value}`);
  const table = await (await session.embedding("table", { dim: 2, consistency: { ssp: 2 } })).pull(keys);
  for (const value of new Set(table)) assert.ok(value >= 3 * CUT && value <= 3 * (CUT + 4), `${value}`);
});

test("with everybody at a barrier until the cut, nothing newer is in, and pushes go on while it is written", async () => {
  using folder = temporaryFolder();
  const cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: folder.path });
  await using _ = cluster;
  const keys = Array.from({ length: 30_000 }, (_, i) => i);
  const row = new Float32Array(keys.length * 4).fill(1);
  let path = "";
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const table = await session.embedding("table", { dim: 4, optimizer: { type: "adagrad", learningRate: 1 } });
      const dense = await session.tensor("dense", { shape: [500_000], optimizer: { type: "momentum" } });
      const ones = new Float32Array(500_000).fill(1);
      await table.push(keys, row);
      await dense.push(ones);
      session.clock();
      await session.barrier();
      let done = false;
      let taking: Promise<unknown> = Promise.resolve();
      if (session.rank === 0) {
        await new Promise<void>((resolve, reject) => {
          taking = session.checkpoint({ onCut: resolve }).then((taken) => {
            path = taken.path;
          });
          taking.catch(reject);
        });
        taking = taking.finally(() => {
          done = true;
        });
      }
      await session.barrier();
      for (let i = 0; i < 20 && !done; i++) {
        await Promise.all([
          table.push(keys.slice(i * 1000), row.slice(i * 4000)),
          table.push([100_000 + i], row.slice(0, 4)),
          dense.push(ones),
        ]);
      }
      await taking;
    }),
  );
  await using restored = await EmbeddedCluster.start({ servers: 1, restore: path });
  const table = await restored.session.embedding("table", { dim: 4, optimizer: { type: "adagrad", learningRate: 1 } });
  const expected = Math.fround(-1 - 1 / Math.sqrt(2));
  const values = await table.pull(keys);
  assert.ok(
    values.every((value) => Math.abs(value - expected) < 1e-6),
    `${values[0]} is ${expected}`,
  );
  assert.equal((await table.pull([100_000]))[0], 0);
  await using reader = await CheckpointReader.open(path);
  assert.equal(reader.manifest.parameters.find(({ name }) => name === "table")?.rowCount, keys.length);
});

test("missing, torn and foreign checkpoints are errors that name the file, and the one before is still good", async () => {
  using folder = temporaryFolder();
  {
    const { cluster, models } = await start(2, folder.path);
    await using _ = cluster;
    await trainAll(cluster.sessions, models, 1);
    await cluster.session.checkpoint();
    await trainAll(cluster.sessions, models, 1);
    await cluster.session.checkpoint();
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
    await cluster.session.checkpoint();
  }
  await using cluster = await EmbeddedCluster.start({ restore: folder.path, workers: 2 });
  await assert.rejects(
    cluster.session.tensor("dense", { shape: [SIZE + 1] }),
    (error) => isWeighbridgeError(error, "SPEC_MISMATCH") && /shape/.test(error.message),
  );
});

test("servers without a place for checkpoints say so, a second one at the same time waits its turn, and an early clock is refused", async () => {
  await using bare = await EmbeddedCluster.start();
  await assert.rejects(
    bare.session.checkpoint(),
    (error) => isWeighbridgeError(error, "UNSUPPORTED") && /^server 0: this server .*--checkpoint-dir/.test(error.message),
  );
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ workers: 2, checkpointDir: folder.path });
  const [one, two] = cluster.sessions as [Session, Session];
  const first = one.checkpoint({ clock: 1 });
  await assert.rejects(two.checkpoint(), (error) => isWeighbridgeError(error, "QUEUE_FULL") && /worker 0 .* is taking/.test(error.message));
  one.clock();
  two.clock();
  assert.equal((await first).clock, 1);
  await assert.rejects(one.checkpoint({ clock: 0 }), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await assert.rejects(one.checkpoint({ step: 1 }), (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /already/.test(error.message));
  assert.equal((await two.checkpoint()).step, 2);
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
  await cluster.session.checkpoint();
  for (const left of [0, 1, 4, 9]) {
    room = left;
    await assert.rejects(
      cluster.session.checkpoint(),
      (error) => isWeighbridgeError(error, "CHECKPOINT_IO") && error.retryable && /step-\d+\.pending.*disk is full/.test(error.message),
      `room for ${left} writes`,
    );
    assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000002"]);
  }
  room = Infinity;
  await trainAll(cluster.sessions, models, 1);
  const { path } = await cluster.session.checkpoint();
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
  let pushes: Promise<void>[] = [];
  const taking = session.checkpoint({
    onCut: () => {
      pushes = [dense.push(ones), dense.push(ones)];
    },
  });
  const outcome = await taking.then(
    () => "saved",
    (error: unknown) => (isWeighbridgeError(error, "ARENA_FULL") ? "given up" : String(error)),
  );
  await Promise.all(pushes);
  assert.equal((await dense.pull())[size - 1], -3);
  assert.ok(outcome === "saved" || outcome === "given up", outcome);
  assert.match((await session.checkpoint()).path, /step-\d+$/);
});

test("a worker cannot name a path: only what was begun is written or committed", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ checkpointDir: folder.path });
  const ask = (op: string, body: object) => cluster.session.call(checkpointFunction, { server: 0 }, { op, body: JSON.stringify(body) });
  await ask("cut", { id: "x", clock: 0 });
  for (const pending of ["../elsewhere", "/tmp/x", "step-000001", "step-000001.pending-zz", ""]) {
    await assert.rejects(ask("commit", { pending, manifest: {} }), (error) => isWeighbridgeError(error, "BAD_REQUEST"), pending);
  }
  await assert.rejects(ask("write", { id: "x", pending: "../elsewhere", step: 1, job: "j", parameters: [] }), (error) =>
    isWeighbridgeError(error, "BAD_REQUEST"),
  );
  await assert.rejects(ask("explode", {}), (error) => isWeighbridgeError(error, "BAD_REQUEST"));
  await assert.rejects(ask("cut", { id: "y", clock: -1 }), (error) => isWeighbridgeError(error, "BAD_REQUEST"));
  assert.deepEqual(readdirSync(folder.path), []);
  assert.equal((await cluster.session.checkpoint()).step, 0);
});

test("what one worker is saving no other writes, commits or gives up", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ workers: 2, checkpointDir: folder.path });
  const [owner, other] = cluster.sessions as [Session, Session];
  await owner.tensor("w", { shape: [4] });
  const ask = (session: Session, op: string, body: object) =>
    session.call(checkpointFunction, { server: 0 }, { op, body: JSON.stringify(body) });
  await ask(owner, "cut", { id: "x", clock: 0 });
  const { pending, step } = JSON.parse((await ask(owner, "begin", { stepMin: 0 })).body) as { pending: string; step: number };
  const write = { id: "x", pending, step, job: "j", parameters: ["w"] };
  const notYours = { code: "BAD_REQUEST", message: /of yours/ };
  await assert.rejects(ask(other, "write", write), notYours);
  await assert.rejects(ask(other, "commit", { pending, manifest: {} }), notYours);
  await ask(other, "abandon", { id: "x", pending });
  assert.deepEqual(readdirSync(folder.path), [pending]);
  await ask(owner, "write", write);
  await ask(owner, "abandon", { id: "x", pending });
  assert.deepEqual(readdirSync(folder.path), []);
});

test("a note of the job's own comes back word for word, and is left out where there is none", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ checkpointDir: folder.path });
  await cluster.session.tensor("w", { shape: [1] });
  const note = { epoch: 3, step: 12, plan: { task: "lenet", rates: [0.1, 0.01] } };
  for (const wanted of [note, undefined]) {
    const { path } = await cluster.session.checkpoint({ note: wanted });
    await using reader = await CheckpointReader.open(path);
    assert.deepEqual(reader.manifest.state.note, wanted);
  }
});

test("a session that closes over its own checkpoint gets a whole one or a typed error, never hangs, and nobody takes the rest for a checkpoint", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 4, checkpointDir: folder.path });
  const staying = cluster.sessions[3] as Session;
  const complete = (): string[] => readdirSync(folder.path).filter((name) => /^step-\d+$/.test(name));
  const w = await staying.tensor("w", { shape: [SIZE] });
  await w.push(new Float32Array(SIZE).fill(1));
  for (const [rank, moment] of ["at once", "at the cut", "while it waits for another worker"].entries()) {
    const closing = cluster.sessions[rank] as Session;
    const before = complete();
    const cut = Promise.withResolvers<void>();
    const outcome = closing.checkpoint({ clock: moment.startsWith("while") ? 1 : 0, onCut: cut.resolve }).then(
      ({ path }) => basename(path),
      (error: unknown) => error,
    );
    if (moment === "at the cut") await cut.promise;
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
      return await session.checkpoint();
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown;
      await setImmediate();
    }
  }
}
