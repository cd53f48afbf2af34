// Goal: a misspelt option is never taken for its default. Every call of every door that takes options refuses one that
// it does not have, with the nearest that it has, and null in their place; before anything is sent. The calls are read
// from the doors' sources: a new one is missing in the table below, and fails.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, suite, test } from "node:test";
import "@tensorflow/tfjs-backend-cpu";
import * as tf from "@tensorflow/tfjs-core";
import type { CachedEmbedding, Collective, Embedding, Session, Tensor } from "weighbridge";
import { connect, isWeighbridgeError, psFunction, psRowType, psUpdater, workerFunction } from "weighbridge";
import { EmbeddedCluster } from "weighbridge/embedded";
import { type JaxArray, PsParameters } from "weighbridge/jax";
import { Group, KVServer, KVWorker, type Postoffice, SimpleApp } from "weighbridge/kv";
import * as nodes from "weighbridge/node";
import { type CudaDevice, createSharedModel, modelUpdater, openCuda, type SharedModel } from "weighbridge/shared-model";
import { denseRow, type Table } from "weighbridge/tables";
import { TensorWorker } from "weighbridge/tensors";
import { SimClock, SimCluster, SimNetwork } from "weighbridge/testing";
import { type PsOptimizer, psOptimizer } from "weighbridge/tfjs";
import * as training from "weighbridge/training";
import { customRow } from "../src/faces/tables/rows/custom-row.ts";
import { sparseFeatureRow } from "../src/faces/tables/rows/sparse-row.ts";
import { TableGroup } from "../src/faces/tables/table-group.ts";
import { TableGroup as SessionTableGroup } from "../src/node/tables-session.ts";
import { MemoryCluster } from "../src/testing/memory-cluster.ts";
import { DOORS } from "./support/doors.ts";
import { standInCuda } from "./support/stand-in-cuda.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** Classes that no door names, and where a user meets them. */
const HANDED_OUT: readonly (readonly [name: string, path: string])[] = [["RendezvousClient", "src/worker/rendezvous-client.ts"]];
/** Calls with options that are not refused, and why. */
const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ["WeighbridgeError.constructor options", "an error that is about to be told is not replaced by another one"],
  ...["configure settings", "drop options", "nonFinite options"].map(
    (call) => [`Parameter.${call}`, "a tensor and an embedding have it from there"] as const,
  ),
]);

/** From an opening parenthesis to its own closing one. */
function enclosed(source: string, from: number): string {
  let depth = 0;
  for (let at = from; at < source.length; at++) {
    if ("([{".includes(source[at] as string)) depth++;
    if (")]}".includes(source[at] as string) && --depth === 0) return source.slice(from + 1, at);
  }
  throw new Error("a parenthesis that does not close");
}

/** The parameters that are options, by their names; a pattern counts as "options". */
function optionsIn(parameters: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let part = "";
  for (const letter of parameters.replaceAll("=>", "")) {
    if ("([{<".includes(letter)) depth++;
    if (")]}>".includes(letter)) depth--;
    if (letter === "," && depth === 0) {
      parts.push(part);
      part = "";
    } else part += letter;
  }
  return [...parts, part].flatMap((parameter) => {
    const [, name = "options", type = ""] = /^\s*(?:(\w+)\??|\{.*\}):\s(.*)$/s.exec(parameter) ?? [];
    return /\b\w*(Options|Settings)\b|^Partial</.test(type) || type.startsWith("{ readonly") ? [name] : [];
  });
}

/**
 * The calls with options of a class, an interface or a function that a file exports, with those that a class inherits:
 * "Session.tensor wait".
 */
function callsOf(name: string, path: string, isTypeOnly: boolean, as: string = name): string[] {
  const source = read(path);
  const fn = new RegExp(`^export (?:async )?function ${name}(?:<.*?>)?\\(`, "m").exec(source);
  if (fn !== null) return optionsIn(enclosed(source, fn.index + fn[0].length - 1)).map((option) => `${name} ${option}`);
  const type = new RegExp(`^export (?:abstract )?(?:class|interface) ${name}\\b(?:<[^>]*>)?(?: extends (\\w+))?`, "m").exec(source);
  if (type === null) return [];
  const body = source.slice(type.index, source.indexOf("\n}\n", type.index));
  const own = [...body.matchAll(/^ {2}(static )?(?:override )?(?:async )?([a-zA-Z]+)(?:<.*?>)?\(/gm)].flatMap((match) => {
    const [text, isStatic, member = ""] = match;
    if (isTypeOnly && (isStatic !== undefined || member === "constructor")) return []; // out of reach
    return optionsIn(enclosed(body, match.index + text.length - 1)).map((option) => `${as}.${member} ${option}`);
  });
  const base = type[1];
  const from =
    base === undefined
      ? undefined
      : new RegExp(`^import (?:type )?\\{[^}]*?\\b(?:(\\w+) as )?${base}\\b[^}]*\\} from "(\\.[^"]+)"`, "m").exec(source);
  if (base === undefined || from?.[2] === undefined) return own;
  return [...new Set([...own, ...callsOf(from[1] ?? base, join(dirname(path), from[2]), true, as)])];
}

function callsOfDoors(): string[] {
  const calls = new Set(HANDED_OUT.flatMap(([name, path]) => callsOf(name, path, true)));
  for (const path of Object.values(DOORS)) {
    for (const [, typeOnly, list = "", from = ""] of read(path).matchAll(/^export (type )?\{([^}]*)\} from "([^"]+)"/gms)) {
      for (const entry of list.split(",").map((part) => part.trim())) {
        const name = entry.replace(/^type /, "");
        if (name !== "")
          for (const call of callsOf(name, join(dirname(path), from), typeOnly !== undefined || entry !== name)) calls.add(call);
      }
    }
  }
  return [...calls].filter((call) => !EXCEPTIONS.has(call)).sort();
}

/** A call that has not refused its options by then waits for somebody. */
const TAKEN_MS = 500;
const one = Float32Array.of(1, 1);
const echo = psFunction({ name: "echo", request: { list: "f32[]" }, response: {}, handler: () => ({}) });
const SGD = { optimizer: { type: "sgd" } } as const;
const UNITS = { epoch: 0, batchCount: 1, partCount: 1, assignment: "even" } as const;
const KEYS = BigUint64Array.of(1n);
const ROW = Float32Array.of(1);
const IMAGES = { shape: [1, 1, 1], pixels: new Uint8Array(1), labels: new Uint8Array(1), classCount: 2 } as const;
const LOOKUP = { name: "lookup", vocabSize: 4, dim: 2, idsPerSample: 1, sampleCountMax: 1 } as const;
const jax = { numpy: { array: (): JaxArray => vector() } };
const vector = (): JaxArray => ({ shape: [2], dtype: "float32", data: () => Promise.resolve(one) });

/** What the calls are made on. */
type Stage = {
  readonly cluster: EmbeddedCluster;
  readonly session: Session;
  readonly tensor: Tensor;
  readonly table: Embedding;
  readonly cache: CachedEmbedding;
  readonly rows: Table;
  readonly collective: Collective;
  readonly worker: TensorWorker;
  readonly office: Postoffice;
  readonly kv: KVWorker;
  readonly app: SimpleApp;
  /** Answers a pull with these. */
  readonly respond: (pairs: never, options?: never) => Promise<void>;
  readonly model: training.Model;
  readonly loss: training.SquaredError;
  readonly network: training.Sequential;
  readonly dataset: training.ArrayDataset;
  readonly lookup: training.EmbeddingLookup;
  readonly workspace: training.Workspace;
  readonly optimizer: PsOptimizer;
  readonly parameters: PsParameters<JaxArray>;
  readonly simNetwork: SimNetwork;
  readonly sharedModel: SharedModel<Float32Array>;
  readonly card: CudaDevice;
};

async function tableOf(session: Session): Promise<Table> {
  const group = new TableGroup(() => Promise.resolve(session));
  group.registerRow(0, denseRow("f32"));
  await group.init({}, true);
  await group.createTable(0, { rowType: 0, rowCapacity: 1, processCacheCapacity: 1 });
  await group.createTableDone();
  return group.getTableOrDie(0);
}

async function sharedModelOf(length: number): Promise<SharedModel<Float32Array>> {
  const model = createSharedModel("local");
  await model.init([0]);
  await model.initKey([length], 0, 0);
  return model;
}

/** Every call with options. `x` are options that it does not have, or null in their place. */
const CALLS: Readonly<Record<string, (x: never, on: Stage) => unknown>> = {
  "ArrayDataset.constructor options": (x) => new training.ArrayDataset(given({ labels: [0] }, x)),
  "BinaryCrossEntropy.constructor options": (x, { workspace }) =>
    new training.BinaryCrossEntropy(workspace, given({ sampleCountMax: 1 }, x)),
  "CachedEmbedding.bypass options": (x, { cache }) => cache.bypass(true, x),
  "CachedEmbedding.close options": (x, { cache }) => cache.close(x),
  "CachedEmbedding.flush options": (x, { cache }) => cache.flush(x),
  "CachedEmbedding.pull options": (x, { cache }) => cache.pull([1], x),
  "CachedEmbedding.pushPull options": (x, { cache }) => cache.pushPull({ keys: [1], gradients: one }, [1], x),
  "CachedEmbedding.push options": (x, { cache }) => cache.push([1], one, x),
  "Collective.allReduce options": (x, { collective }) => collective.allReduce(Float32Array.of(1), x),
  "Collective.broadcast options": (x, { collective }) => collective.broadcast(Float32Array.of(1), 0, x),
  "Collective.close options": (x, { collective }) => collective.close(x),
  "Collective.exchange options": (x, { collective }) => collective.exchange([new Uint8Array(1)], x),
  "Collective.reform options": (x, { collective }) => collective.reform(x),
  "Customer.wait options": (x, { app }) => app.customer.wait(app.customer.newRequest(0), x),
  "EmbeddedCluster.close options": (x, { cluster }) => cluster.close(x),
  "EmbeddedCluster.scale options": (x, { cluster }) => cluster.scale(1, x),
  "EmbeddedCluster.scaleWorkers options": (x, { cluster }) => cluster.scaleWorkers(1, x),
  "EmbeddedCluster.start options": (x) => EmbeddedCluster.start(x),
  "Embedding.cached options": (x, { table }) => table.cached(given({ rows: 4 }, x)),
  "Embedding.drop options": (x, { table }) => table.drop(x),
  "Embedding.configure settings": (x, { table }) => table.configure(x),
  "Embedding.nonFinite options": (x, { table }) => table.nonFinite(x),
  "Embedding.pull options": (x, { table }) => table.pull([1], x),
  "Embedding.push options": (x, { table }) => table.push([1], one, x),
  "Embedding.pushPull options": (x, { table }) => table.pushPull({ keys: [1], gradients: one }, [1], x),
  "EmbeddingLookup.constructor options": (x, { workspace }) => new training.EmbeddingLookup(workspace, given(LOOKUP, x)),
  "EmbeddingLookup.push wait": (x, { lookup }) => lookup.push(x),
  "EmbeddingLookup.pushNothing wait": (x, { lookup }) => lookup.pushNothing(x),
  "EmbeddingLookup.acquire wait": (x, { lookup }) => lookup.acquire({ ids: Float64Array.of(0), sampleCount: 1, idsPerSample: 1 }, x),
  "EmbeddingNetwork.constructor options": (x, { workspace, lookup }) =>
    new training.EmbeddingNetwork(workspace, given({ lookup, layers: [training.dense({ outputs: 1 })] }, x)),
  "ImageDataset.constructor options": (x) => new training.ImageDataset(new training.LabelledImages(IMAGES), x),
  "KVServer.response options": (x, { respond }) => respond(given({ vals: one }, {}), x),
  "KVServer.response pairs": (x, { respond }) => respond(given({ vals: one }, x)),
  "KVWorker.pull options": (x, { kv }) => kv.pull(KEYS, new Float32Array(1), x),
  "KVWorker.pullPairs options": (x, { kv }) => kv.pullPairs(KEYS, x),
  "KVWorker.push options": (x, { kv }) => kv.push(KEYS, Float32Array.of(1), x),
  "KVWorker.pushPull options": (x, { kv }) => kv.pushPull(KEYS, Float32Array.of(1), new Float32Array(1), x),
  "KVWorker.room options": (x, { kv }) => kv.room(x),
  "KVWorker.wait options": (x, { kv }) => kv.wait(0, x),
  "LabelledImages.constructor options": (x) => new training.LabelledImages(given(IMAGES, x)),
  "Model.constructor options": (x, { network, loss }) => new training.Model(network, given({ ...SGD, loss }, x)),
  "Model.decode options": (x, { model }) => model.decode(new Uint8Array(1), "file", x),
  "Model.encode options": (x, { model }) => model.encode(x),
  "Model.eval options": (x, { model, dataset }) => model.eval(dataset, x),
  "Model.predict options": (x, { model, dataset }) => model.predict(dataset, x),
  "Model.train options": (x, { model, dataset }) => model.train(1, dataset, given({ batchSize: 1 }, x)),
  "ModelCheckpoint.constructor options": (x) => new training.ModelCheckpoint(x),
  "Postoffice.barrier options": (x, { office }) => office.barrier(0, Group.WORKERS, x),
  "Postoffice.finalize options": (x, { office }) => office.finalize(x),
  "PsOptimizer.pull options": (x, { optimizer }) => optimizer.pull(x),
  "PsOptimizer.ready options": (x, { optimizer }) => optimizer.ready(x),
  "PsOptimizer.step options": (x, { optimizer }) => optimizer.step(notReached, x),
  "PsParameters.create options": (x, { session }) => PsParameters.create(jax, session, vector(), given(SGD, x)),
  "PsParameters.pull options": (x, { parameters }) => parameters.pull(x),
  "PsParameters.push options": (x, { parameters }) => parameters.push(vector(), x),
  "PsParameters.step options": (x, { parameters }) => parameters.step(vector(), x),
  "RendezvousClient.look options": (x, { session }) => session.rendezvous.look("none", given({ generation: 0, waitMs: 0 }, x)),
  "RendezvousClient.open options": (x, { session }) => session.rendezvous.open("none", given({ generation: 0 }, x)),
  "RendezvousClient.meet options": (x, { session }) => session.rendezvous.meet("none", given({ generation: 0 }, x)),
  "Sequential.constructor options": (x, { workspace }) =>
    new training.Sequential(workspace, given({ inputShape: [2], sampleCountMax: 1, layers: [training.dense({ outputs: 1 })] }, x)),
  "Sequential.forward options": (x, { network }) => network.forward(given({ isTraining: false }, x)),
  "Session.addEventListener options": (x, { session }) => session.addEventListener("leaving", () => {}, x),
  "Session.barrier options": (x, { session }) => session.barrier(x),
  "Session.call options": (x, { session }) => session.call(echo, { server: 0 }, { list: one }, x),
  "Session.callAll options": (x, { session }) => session.callAll(echo, { list: one }, x),
  "Session.callOwners options": (x, { session }) => session.callOwners(echo, KEYS, () => ({ request: { list: one } }), x),
  "Session.checkpoint options": (x, { session }) => session.checkpoint(x),
  "Session.close options": (x, { session }) => session.close(x),
  "Session.collective options": (x, { session }) => session.collective(x),
  "Session.stepCollective options": (x, { session }) => session.stepCollective(x),
  "Session.embedding options": (x, { session }) => session.embedding("none", given({ dim: 2, optimizer: "sum" }, x)),
  "Session.leaveClocks options": (x, { session }) => session.leaveClocks(x),
  "Session.loadParameter options": (x, { session }) => session.loadParameter("w", "there", x),
  "Session.parameters options": (x, { session }) => session.parameters(x),
  "Session.rejoin options": (x, { session }) => session.rejoin(x),
  "Session.restore options": (x, { session }) => session.restore(x),
  "Session.saveParameter options": (x, { session }) => session.saveParameter("w", "there", x),
  "Session.tensor options": (x, { session }) => session.tensor("none", given({ shape: [2], optimizer: "sum" }, x)),
  "Session.openUnits options": (x, { session }) => session.openUnits("none", given(UNITS, x)),
  "Session.units options": (x, { session }) => session.units("none", given(UNITS, x)),
  "Session.wait wait": (x, { session }) => session.wait(Promise.reject(new Error("nobody waits for it")), "it", x),
  "SharedModel.init options": (x) => createSharedModel("local").init([0], x),
  "SharedModel.initKey options": (x, { sharedModel }) => sharedModel.initKey([1], 0, 0, x),
  "SharedModel.setWeight options": (x, { sharedModel }) => sharedModel.setWeight(one, 0, 0, x),
  "SharedModel.pullWait options": (x, { sharedModel }) => sharedModel.pullWait(0, 0, x),
  "SharedModel.pullWaitAll options": (x, { sharedModel }) => sharedModel.pullWaitAll(0, x),
  "SharedModel.push options": (x, { sharedModel }) => sharedModel.push(one, 0, 0, 0, x),
  "SimClock.constructor options": (x) => new SimClock(x),
  "SimClock.run options": (x) => new SimClock().run(x),
  "SimClock.runUntil options": (x) => new SimClock().runUntil(Promise.resolve(), x),
  "SimCluster.constructor options": (x) => new SimCluster(given({ seed: 1, serverCount: 1, workerCount: 1 }, x)),
  "SimNetwork.constructor options": (x) => new SimNetwork(given({ clock: new SimClock(), seed: 1 }, x)),
  "SimNetwork.crash options": (x, { simNetwork }) => simNetwork.crash("none", x),
  "SimNetwork.isolate options": (x, { simNetwork }) => simNetwork.isolate("none", x),
  "SimNetwork.partition options": (x, { simNetwork }) => simNetwork.partition("none", "nothing", x),
  "SimpleApp.wait options": (x, { app }) => app.wait(app.customer.newRequest(0), x),
  "SoftmaxCrossEntropy.constructor options": (x, { workspace }) =>
    new training.SoftmaxCrossEntropy(workspace, given({ classCount: 2, sampleCountMax: 1 }, x)),
  "SquaredError.constructor options": (x, { workspace }) => new training.SquaredError(workspace, given({ sampleCountMax: 1 }, x)),
  "Table.get options": (x, { rows }) => rows.get(0, x),
  "Table.threadGet options": (x, { rows }) => rows.threadGet(0, x),
  "TableGroup.constructor options": (x) => new SessionTableGroup(x),
  "Tensor.drop options": (x, { tensor }) => tensor.drop(x),
  "Tensor.configure settings": (x, { tensor }) => tensor.configure(x),
  "Tensor.flushResidual options": (x, { tensor }) => tensor.flushResidual(x),
  "Tensor.nonFinite options": (x, { tensor }) => tensor.nonFinite(x),
  "Tensor.pull options": (x, { tensor }) => tensor.pull(x),
  "Tensor.pullRows options": (x, { tensor }) => tensor.pullRows([0], x),
  "Tensor.push options": (x, { tensor }) => tensor.push(one, x),
  "Tensor.pushPull options": (x, { tensor }) => tensor.pushPull(one, "all", x),
  "Tensor.pushRows options": (x, { tensor }) => tensor.pushRows([0], ROW, x),
  "Tensor.start options": (x, { tensor }) => tensor.start(one, x),
  "TensorWorker.barrierWorker options": (x, { worker }) => worker.barrierWorker(x),
  "TensorWorker.cacheSparseTable options": (x, { worker }) => worker.cacheSparseTable(2, given({ rows: 4 }, x)),
  "TensorWorker.clearOnServer options": (x, { worker }) => worker.clearOnServer(1, x),
  "TensorWorker.ddPushPull options": (x, { worker }) => worker.ddPushPull(1, one, new Float32Array(2), x),
  "TensorWorker.finish options": (x, { worker }) => worker.finish(x),
  "TensorWorker.initTensor settings": (x, { worker }) => worker.initTensor(3, given({ length: 2 }, x)),
  "TensorWorker.initTensor options": (x, { worker }) => worker.initTensor(3, { length: 2 }, x),
  "TensorWorker.load options": (x, { worker }) => worker.load(1, "there", x),
  "TensorWorker.preduceGetPartner settings": (x, { worker }) => worker.preduceGetPartner(1, given({ want: 1, waitMs: 1 }, x)),
  "TensorWorker.preduceGetPartner options": (x, { worker }) => worker.preduceGetPartner(1, { want: 1, waitMs: 1 }, x),
  "TensorWorker.pull options": (x, { worker }) => worker.pull(1, new Float32Array(2), x),
  "TensorWorker.pullData options": (x, { worker }) => worker.pullData([1], new Float32Array(2), [2], x),
  "TensorWorker.push options": (x, { worker }) => worker.push(1, one, x),
  "TensorWorker.pushData options": (x, { worker }) => worker.pushData([1], one, [2], x),
  "TensorWorker.save options": (x, { worker }) => worker.save(1, "there", x),
  "TensorWorker.sdPushPull options": (x, { worker }) => worker.sdPushPull(1, [0], ROW, new Float32Array(2), x),
  "TensorWorker.sparsePull options": (x, { worker }) => worker.sparsePull(1, [0], new Float32Array(1), x),
  "TensorWorker.sparsePush options": (x, { worker }) => worker.sparsePush(1, [0], ROW, x),
  "TensorWorker.ssPushPull options": (x, { worker }) => worker.ssPushPull(1, [0], ROW, [0], new Float32Array(1), x),
  "TensorWorker.sspInit settings": (x, { worker }) => worker.sspInit(1, given({ size: 1, tolerance: 0 }, x)),
  "TensorWorker.sspInit options": (x, { worker }) => worker.sspInit(1, { size: 1, tolerance: 0 }, x),
  "TensorWorker.sspSync options": (x, { worker }) => worker.sspSync(1, 0, x),
  "TensorWorker.wait options": (x, { worker }) => worker.wait(2, x),
  "TensorWorker.waitData options": (x, { worker }) => worker.waitData(worker.pushData([7], one, [2]), x),
  "Units.close options": (x, { session }) => session.units("none", UNITS).close(x),
  "WideDeepNetwork.constructor options": (x, { workspace }) => new training.WideDeepNetwork(workspace, x),
  "Workspace.constructor options": (x) => new training.Workspace(x),
  "batchNorm options": (x) => training.batchNorm(x),
  "connect options": (x) => connect(x),
  "convolution options": (x) => training.convolution(given({ channels: 1, size: 3 }, x)),
  "CudaDevice.allocate options": (x, { card }) => card.allocate([1], x),
  "CudaDevice.finish options": (x, { card }) => card.finish(x),
  "CudaStream.finish options": (x, { card }) => card.stream.finish(x),
  "CudaDevice.foreign options": (x, { card }) => card.foreign(4096, [1], x),
  "CudaDevice.pinned options": (x, { card }) => card.pinned(1, x),
  "CudaKernel.launch options": (x, { card }) => card.kernel("", "k").launch(given({ grid: 1, block: 1 }, x)),
  "CudaKernel.launchWith options": (x, { card }) => card.kernel("", "k").launchWith(new BigUint64Array(1), given({ grid: 1, block: 1 }, x)),
  "openCuda options": (x) => openCuda(x),
  "createLenet options": (x, { workspace }) => training.createLenet(workspace, given({ sampleCountMax: 1 }, x)),
  "createParameter options": (x, { workspace }) =>
    training.createParameter(workspace, given({ name: "p", shape: [1], initializer: { type: "constant", value: 0 } }, x)),
  "createSharedModel options": (x) => createSharedModel("local", x),
  "modelUpdater options": (x) => modelUpdater(x),
  "dense options": (x) => training.dense(given({ outputs: 1 }, x)),
  "dotOfHalves options": (x) => training.dotOfHalves(x),
  "loadModel options": (x, { model }) => training.loadModel(model, import.meta.filename, x),
  "maxPool options": (x) => training.maxPool(given({ size: 2 }, x)),
  "workerFunction options": (x) => workerFunction(given({ name: "f", request: {}, response: {} }, x)),
  "psFunction options": (x) => psFunction(given({ name: "f", request: {}, response: {}, handler: () => ({}) }, x)),
  "psOptimizer options": (x, { session }) => psOptimizer(tf, session, given({ ...SGD, variables: [] }, x)),
  "customRow options": (x) =>
    customRow(given({ name: "c", version: 1, dtype: "f64", apply: () => {}, addUpdates: (a: number, b: number) => a + b, neutral: 0 }, x)),
  "sparseFeatureRow options": (x) => sparseFeatureRow("f64", given({ dim: 4 }, x)),
  "psRowType options": (x) => psRowType(given({ name: "r", version: 1, deterministic: true, dtype: "f64", add: () => {} }, x)),
  "psUpdater options": (x) => psUpdater(given({ name: "u", version: 1, deterministic: true, update: () => {} }, x)),
  "readMnist options": (x) => training.readMnist("train", x),
  "relu options": (x) => training.relu(x),
  "schedulerFinish options": (x, { office }) => nodes.schedulerFinish(office.node, x),
  "schedulerInit options": (x) => nodes.schedulerInit(x),
  "serverFinish options": (x, { office }) => nodes.serverFinish(office.node, x),
  "serverInit options": (x) => nodes.serverInit(x),
  "setParamPs options": (x, { network }) => training.setParamPs(network, x),
  "setPsContext values": (x) => training.setPsContext(x),
  "sigmoid options": (x) => training.sigmoid(x),
  "start options": (x) => nodes.start(x),
  "startNode options": (x) => nodes.startNode({} as nodes.NodeConfig, x),
  "workerFinish options": (x, { worker }) => nodes.workerFinish(worker, x),
  "workerInit options": (x) => nodes.workerInit(x),
};

/** These options, and those that do not exist; null for null. */
function given(options: object, x: object | null): never {
  return (x === null ? null : { ...options, ...x }) as never;
}

function notReached(): never {
  throw new Error("it was called all the same");
}

test("every call with options of every door is in the table, and nothing else is", () => {
  assert.deepEqual(Object.keys(CALLS).sort(), callsOfDoors());
});

suite("options that do not exist", () => {
  let on: Stage;
  const ends: (() => unknown)[] = [];

  before(async () => {
    const cluster = await EmbeddedCluster.start({ functions: [echo] });
    const { session } = cluster;
    const offices = await MemoryCluster.start();
    const office = offices.worker();
    const [kv, server] = [new KVWorker(office, 1), new KVServer(offices.server(), 1)];
    const table = await session.embedding("e", { dim: 2, optimizer: "sum", versions: true });
    const worker = new TensorWorker(session);
    await worker.initTensor(1, { paramType: 1, length: 2 });
    await worker.initTensor(2, { paramType: 2, length: 4, width: 2 });
    const workspace = new training.Workspace();
    const layers = [training.dense({ outputs: 1 })];
    const network = new training.Sequential(workspace, { inputShape: [2], sampleCountMax: 1, layers });
    const loss = new training.SquaredError(workspace, { sampleCountMax: 1 });
    on = {
      ...{ cluster, session, table, worker, office, kv, workspace, network, loss },
      tensor: await session.tensor("w", { shape: [2], optimizer: "sum" }),
      cache: table.cached({ rows: 4 }),
      rows: await tableOf(session),
      collective: await session.collective(),
      app: new SimpleApp(office, 2),
      respond: async (pairs, options) => {
        const answered = Promise.withResolvers<void>();
        server.setRequestHandle((meta) => {
          try {
            server.response(meta, pairs, options);
            answered.resolve();
          } catch (thrown) {
            answered.reject(thrown);
            server.response(meta, { vals: Float32Array.of(1) });
          }
        });
        await offices.run(kv.wait(kv.pull(KEYS, new Float32Array(1))));
        await answered.promise;
      },
      model: new training.Model(network, { ...SGD, loss }),
      dataset: new training.ArrayDataset({ labels: [0], values: { shape: [2], floats: one } }),
      lookup: new training.EmbeddingLookup(workspace, LOOKUP),
      optimizer: await psOptimizer(tf, session, { ...SGD, variables: [tf.variable(tf.tensor([1, 2]), true, "v")] }),
      parameters: await PsParameters.create(jax, session, vector(), SGD),
      simNetwork: new SimNetwork({ clock: new SimClock(), seed: 1 }),
      sharedModel: await sharedModelOf(one.length),
      card: (await standInCuda()).device(0),
    };
    ends.push(
      () => cluster.close(),
      () => offices.finalize(),
      () => on.sharedModel.close(),
    );
  });
  after(async () => {
    for (const end of ends) await end();
  });

  test("each call refuses one, with the nearest that it has, and nothing of it is sent", async () => {
    const said = new Map<string, string>();
    for (const [name, call] of Object.entries(CALLS)) said.set(name, await refusalOf(() => call({ deadlinMs: 5 } as never, on)));
    const wrong = [...said].filter(([, text]) => !/"?deadlinMs"?.*did you mean [\w-]+\?/s.test(text));
    assert.deepEqual(wrong, []);
    assert.deepEqual([await on.tensor.pull(), await on.table.pull([1])], [new Float32Array(2), new Float32Array(2)]);
    assert.equal(on.session.clocks, 0);
    assert.equal(
      (await on.session.parameters()).some(({ name }) => name.startsWith("none")),
      false,
    );
  });

  test("each call that takes timeoutMs refuses its former name with the new one", async () => {
    const waiting: string[] = [];
    const silent: string[] = [];
    for (const [name, call] of Object.entries(CALLS)) {
      const listed = await refusalOf(() => call({ deadlinMs: 5 } as never, on)); // with the options that it has
      if (!/\btimeoutMs\b/.test(listed)) continue;
      waiting.push(name);
      const text = await refusalOf(() => call({ deadlineMs: 5 } as never, on));
      if (!text.includes("deadlineMs is now called timeoutMs")) silent.push(`${name}: ${text}`);
    }
    assert.deepEqual(silent, []);
    assert.ok(waiting.length > 80, `${waiting.length} calls`);
  });

  test("each call says that null is none", async () => {
    const wrong: string[] = [];
    for (const [name, call] of Object.entries(CALLS)) {
      const text = await refusalOf(() => call(null as never, on));
      if (!text.startsWith("BAD_")) wrong.push(`${name}: ${text}`);
    }
    assert.deepEqual(wrong, []);
  });
});

/** Code and message of the typed error that it throws, before it waits for anything. */
async function refusalOf(call: () => unknown): Promise<string> {
  try {
    await Promise.race([call(), new Promise((resolve) => setTimeout(resolve, TAKEN_MS).unref())]);
    return "it was taken";
  } catch (thrown) {
    return isWeighbridgeError(thrown) ? `${thrown.code} ${thrown.message}` : `no typed error: ${String(thrown)}`;
  }
}
