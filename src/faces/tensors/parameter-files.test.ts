// parameter-files — Goal: ParamSave and ParamLoad bring a tensor back, bit for bit, on any number of servers; and what
// Hetu does silently is an error here that says which file and why, and changes nothing.

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { InitType, OptType, ParamType, type TensorSettings } from "./tensor-settings.ts";
import { TensorWorker } from "./tensor-worker.ts";

const DENSE: TensorSettings = { length: 300_000, init: InitType.normal, a: 0, b: 1, seed: 5, opt: OptType.Adam };
const TABLE: TensorSettings = { paramType: ParamType.kCacheTable, length: 50, width: 3, opt: OptType.AdaGrad, optArgs: [0.1] };
const GRADIENT: Float32Array = Float32Array.from({ length: 300_000 }, (_, i) => (i % 7) - 3);
const ROWS: readonly number[] = [0, 7, 49, 7];
const ROW_GRADIENTS: Float32Array = Float32Array.from({ length: 12 }, (_, i) => i + 1);

let root = "";
before(async () => {
  root = await mkdtemp(join(tmpdir(), "weighbridge-parameter-files-"));
});
after(async () => await rm(root, { recursive: true }));

async function start(servers: number, checkpointDir: string): Promise<{ cluster: EmbeddedCluster; worker: TensorWorker }> {
  const cluster = await EmbeddedCluster.start({ servers, checkpointDir });
  return { cluster, worker: new TensorWorker(cluster.session) };
}

async function initBoth(worker: TensorWorker): Promise<void> {
  await worker.initTensor("dense/w", DENSE);
  await worker.initTensor(7, TABLE);
}

async function train(worker: TensorWorker): Promise<void> {
  void worker.push("dense/w", GRADIENT);
  void worker.sparsePush(7, ROWS, ROW_GRADIENTS);
  await Promise.all([worker.wait("dense/w"), worker.wait(7)]);
}

async function valuesOf(worker: TensorWorker): Promise<{ dense: Float32Array; table: Float32Array }> {
  const [dense, table] = [new Float32Array(300_000), new Float32Array(150)];
  await Promise.all([worker.pull("dense/w", dense), worker.pull(7, table)]);
  return { dense, table };
}

function rejects(code: ErrorCode, text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(isWeighbridgeError(error, code), String(error));
    assert.match(error.message, text);
    return true;
  };
}

test("saved by two servers and loaded by one, two and three: the same bits, optimizer state included, then and after training on", async () => {
  const checkpointDir = join(root, "numbers");
  const expected = await (async () => {
    const { cluster, worker } = await start(2, checkpointDir);
    await using _ = cluster;
    await initBoth(worker);
    await train(worker);
    void worker.save("dense/w", "models/first"); // both begin at once, and are there when their names were waited for
    void worker.save(7, "models/first");
    await Promise.all([worker.wait("dense/w"), worker.wait(7)]);
    const saved = await valuesOf(worker);
    await train(worker);
    return { saved, trained: await valuesOf(worker) };
  })();
  for (const servers of [1, 2, 3]) {
    const { cluster, worker } = await start(servers, checkpointDir);
    await using _ = cluster;
    await initBoth(worker);
    await Promise.all([worker.load("dense/w", "models/first"), worker.load(7, "models/first")]);
    assert.deepEqual(await valuesOf(worker), expected.saved);
    await train(worker);
    assert.deepEqual(await valuesOf(worker), expected.trained);
  }
});

test("a tensor is loaded for all workers, whatever was pushed since; saving again takes the place of what was saved", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: join(root, "again") });
  const [one, two] = cluster.sessions.map((session) => new TensorWorker(session)) as [TensorWorker, TensorWorker];
  for (const worker of [one, two]) await worker.initTensor(1, { length: 4 });
  const cut = Float32Array.of(1, 2, 3, 4);
  await one.push(1, cut);
  await one.save(1, "tensors");
  await two.push(1, cut);
  await one.save(1, "tensors");
  await two.push(1, cut);
  await two.load(1, "tensors");
  for (const worker of [one, two]) {
    const into = new Float32Array(4);
    await worker.pull(1, into);
    assert.deepEqual(into, Float32Array.of(2, 4, 6, 8));
  }
  const steps = (await readdir(join(root, "again", "tensors", "1"))).filter((name) => name.startsWith("step-"));
  assert.equal(steps.length, 1);
});

test("a cache drops its copies when their table is loaded (Hetu's went on with what it had)", async () => {
  const { cluster, worker } = await start(2, join(root, "cache"));
  await using _ = cluster;
  await worker.initTensor(1, { paramType: ParamType.kCacheTable, length: 10, width: 1 });
  await worker.save(1, "empty");
  await using cache = worker.cacheSparseTable(1, { rows: 10, pullBound: 100 });
  await cache.push([3, 4], Float32Array.of(5, 6));
  await cache.flush();
  assert.deepEqual(await cache.pull([3, 4]), Float32Array.of(5, 6));
  await worker.load(1, "empty");
  assert.deepEqual(await cache.pull([3, 4]), Float32Array.of(0, 0));
});

test("what is missing, torn, of another tensor or elsewhere is an error that says so, and leaves the tensor as it is", async () => {
  const checkpointDir = join(root, "bad");
  const { cluster, worker } = await start(2, checkpointDir);
  await using _ = cluster;
  await worker.initTensor(1, { length: 4, init: InitType.constant, a: 3 });
  await assert.rejects(worker.load(1, "nowhere"), rejects("CHECKPOINT_MISSING", /nowhere/));
  await assert.rejects(worker.load(2, "nowhere"), rejects("UNKNOWN_PARAMETER", /tensor 2/));
  for (const path of ["../out", "/tmp/out", "a/../../out", "a/.hidden", "step-000001", "latest", "a//b", "", "x".repeat(300)]) {
    await assert.rejects(worker.save(1, path), (error) => isWeighbridgeError(error) && /BAD_(ARGUMENT|REQUEST)/.test(error.code), path);
    await assert.rejects(worker.load(1, path), (error) => isWeighbridgeError(error) && /BAD_(ARGUMENT|REQUEST)/.test(error.code), path);
  }
  await worker.save(1, "good");
  const directory = join(checkpointDir, "good", "1", "step-000000");
  const file = join(directory, (await readdir(directory)).find((name) => name.endsWith(".safetensors")) as string);
  const bytes = await readFile(file);
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  await writeFile(file, bytes);
  await assert.rejects(worker.load(1, "good"), rejects("CHECKPOINT_TORN", /good\/1\/step-000000/));
  await worker.save(1, "good");
  await worker.clearOnServer(1);
  await worker.initTensor(1, { length: 5, init: InitType.constant, a: 4 });
  await assert.rejects(worker.load(1, "good"), rejects("CHECKPOINT_FOREIGN", /shape \[4\] in the checkpoint, \[5\]/));
  const into = new Float32Array(5);
  await worker.pull(1, into);
  assert.deepEqual(into, new Float32Array(5).fill(4));
});

test("servers without a place for files say so, and a parameter that is bound by clocks is not loaded alone", async () => {
  await using without = await EmbeddedCluster.start();
  const worker = new TensorWorker(without.session);
  await worker.initTensor(1, { length: 4 });
  await assert.rejects(worker.save(1, "models"), rejects("UNSUPPORTED", /--checkpoint-dir/));
  await assert.rejects(worker.load(1, "models"), rejects("UNSUPPORTED", /--checkpoint-dir/));
  const { cluster } = await start(1, join(root, "clocks"));
  await using _ = cluster;
  await cluster.session.tensor("bsp", { shape: [4], optimizer: "sum", consistency: "bsp" });
  await cluster.session.saveParameter("bsp", "models");
  await assert.rejects(cluster.session.loadParameter("bsp", "models"), rejects("UNSUPPORTED", /"asp"/));
});

test("a checkpoint that is being taken is not given up for a save, nor a save for a checkpoint", async () => {
  const { cluster } = await start(2, join(root, "both"));
  await using _ = cluster;
  const { session } = cluster;
  await session.tensor("w", { shape: [4], optimizer: "sum" });
  const checkpoint = session.checkpoint({ clock: 1 }).saved; // waits for it
  await assert.rejects(session.saveParameter("w", "models"), rejects("QUEUE_FULL", /one at a time/));
  session.clock();
  assert.equal((await checkpoint).clock, 1);
  const save = session.saveParameter("w", "models");
  await assert.rejects(session.checkpoint().saved, rejects("QUEUE_FULL", /one at a time/));
  await save;
  assert.equal((await session.checkpoint().saved).step, 2);
});

test("names of any letters have a place each, and what is moved is counted under Hetu's names", async () => {
  const { cluster, worker } = await start(2, join(root, "names"));
  await using _ = cluster;
  const names = ["..", "a/b", "a%2fb", "ß".repeat(60), `${"ß".repeat(60)}2`, "step-000001"];
  for (const [i, name] of names.entries()) await worker.initTensor(name, { length: 1, init: InitType.constant, a: i });
  worker.startRecord();
  for (const name of names) await worker.save(name, "all");
  for (const name of names) await worker.push(name, Float32Array.of(1));
  for (const name of names) await worker.load(name, "all");
  const into = new Float32Array(1);
  for (const [i, name] of names.entries()) {
    await worker.pull(name, into);
    assert.equal(into[0], i, name);
  }
  const loads = worker.getLoads();
  for (const name of ["ParamSave", "ParamLoad"]) assert.ok((loads.get(name)?.sentBytes ?? 0) > 0, name);
});

test("a worker that has just ended a clock saves, though servers hear of that clock while they are asked, and nobody ends another", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: join(root, "clocks") });
  const tensors = await Promise.all(cluster.sessions.map((session) => session.tensor("w", { shape: [3], optimizer: "sum" })));
  for (let clock = 1; clock <= 5; clock++) {
    for (const tensor of tensors) await tensor.push(Float32Array.of(1, 1, 1));
    for (const session of cluster.sessions) session.clock();
    const [first, second] = cluster.sessions;
    await first?.saveParameter("w", "models", { timeoutMs: 10_000 });
    await second?.saveParameter("w", "models", { timeoutMs: 10_000 });
  }
  await tensors[0]?.push(Float32Array.of(1, 1, 1));
  await cluster.session.loadParameter("w", "models");
  assert.deepEqual(await tensors[1]?.pull(), Float32Array.of(10, 10, 10));
});
