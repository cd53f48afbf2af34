// Goal: the public surface changes on purpose only. Every door's names, types included, are listed here; a change shows up in review.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import packageJson from "weighbridge/package.json" with { type: "json" };
import { MemoryCluster } from "../src/testing/memory-cluster.ts";

/** Types are marked with "type ", as they exist for the compiler only. */
const SURFACE: Readonly<Record<string, readonly string[]>> = {
  ".": [
    "WeighbridgeError",
    "connect",
    "isWeighbridgeError",
    "psFunction",
    "psRowType",
    "psUpdater",
    "type CacheOptions",
    "type CacheStatistics",
    "type CachedEmbedding",
    "type CallOptions",
    "type Collective",
    "type ConnectOptions",
    "type Consistency",
    "type Embedding",
    "type EmbeddingOptions",
    "type ErrorCode",
    "type FieldType",
    "type FieldValues",
    "type Fields",
    "type FunctionCaller",
    "type FunctionContext",
    "type FunctionTarget",
    "type InitializerSpec",
    "type KeyList",
    "type KeysAndGradients",
    "type LinkEncoding",
    "type NonFiniteCounts",
    "type OptimizerSpec",
    "type ParameterSettings",
    "type ParameterSpec",
    "type PolicyName",
    "type PsFunction",
    "type PsFunctionOptions",
    "type PsRowType",
    "type PsRowTypeOptions",
    "type PsUpdater",
    "type PsUpdaterOptions",
    "type ReadOptions",
    "type RowArray",
    "type RowElement",
    "type RowList",
    "type RowSpans",
    "type RowTypeOption",
    "type RowsAndGradients",
    "type RowsInHand",
    "type SavedColumns",
    "type ScheduleSpec",
    "type Session",
    "type Tensor",
    "type TensorOptions",
    "type Unit",
    "type UnitFeed",
    "type UnitOptions",
    "type UpdaterColumn",
    "type UpdaterSettings",
    "type UpdaterStep",
    "type ValueCodecChoice",
    "type WaitOptions",
    "type WorkerCallOptions",
    "type WorkerCalls",
    "type WorkerFunction",
    "type WorkerFunctionOptions",
    "type WorkerHandler",
    "workerFunction",
  ],
  "./embedded": [
    "EmbeddedCluster",
    "WeighbridgeError",
    "isWeighbridgeError",
    "psFunction",
    "psRowType",
    "psUpdater",
    "type EmbeddedOptions",
    "type ErrorCode",
    "type PsFunction",
    "type PsFunctionOptions",
    "type PsRowType",
    "type PsRowTypeOptions",
    "type PsUpdater",
    "type PsUpdaterOptions",
    "type Session",
    "type WorkerFunction",
    "type WorkerFunctionOptions",
    "workerFunction",
  ],
  "./kv": [
    "Customer",
    "Group",
    "KVServer",
    "KVWorker",
    "Postoffice",
    "SCHEDULER_ID",
    "SimpleApp",
    "WeighbridgeError",
    "isWeighbridgeError",
    "sliceByRange",
    "type Cuts",
    "type ErrorCode",
    "type KVCallback",
    "type KVMeta",
    "type KVOptions",
    "type KVPairs",
    "type KVPullOptions",
    "type KVPushOptions",
    "type KVRequestHandle",
    "type Range",
    "type ResponseOptions",
    "type Role",
    "type SimpleData",
    "type SimpleHandle",
    "type Slicer",
    "type Values",
    "type WaitOptions",
  ],
  "./tensors": [
    "InitType",
    "OptType",
    "ParamType",
    "TensorWorker",
    "WeighbridgeError",
    "isWeighbridgeError",
    "type CacheOptions",
    "type CachedEmbedding",
    "type CallOptions",
    "type ErrorCode",
    "type FunctionLoad",
    "type IndexList",
    "type InitializerSpec",
    "type OptimizerSpec",
    "type RowNames",
    "type Session",
    "type TensorName",
    "type TensorSettings",
    "type WaitOptions",
  ],
  "./training": [
    "Accuracy",
    "Activations",
    "AreaUnderCurve",
    "ArrayDataset",
    "BinaryCrossEntropy",
    "Confusion",
    "EmbeddingLookup",
    "EmbeddingNetwork",
    "ImageDataset",
    "LabelledImages",
    "LossMonitor",
    "MeanSquaredError",
    "Model",
    "ModelCheckpoint",
    "Sequential",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "TimeMonitor",
    "WeighbridgeError",
    "WideDeepNetwork",
    "Workspace",
    "batchNorm",
    "convolution",
    "createLenet",
    "dense",
    "dotOfHalves",
    "getPsContext",
    "initTraining",
    "isWeighbridgeError",
    "loadModel",
    "maxPool",
    "readMnist",
    "relu",
    "resetPsContext",
    "setParamPs",
    "setPsContext",
    "sigmoid",
    "type ArrayDatasetOptions",
    "type Consistency",
    "type Dataset",
    "type EmbeddingLookupOptions",
    "type EmbeddingNetworkOptions",
    "type EpochEvent",
    "type ErrorCode",
    "type GradientReady",
    "type InitializerSpec",
    "type Layer",
    "type LayerPlan",
    "type Loss",
    "type Metric",
    "type ModelCheckpointOptions",
    "type ModelOptions",
    "type Network",
    "type OpenOptions",
    "type OptimizerSpec",
    "type Parameter",
    "type PsContextKey",
    "type PsContextValues",
    "type RowSourceStatistics",
    "type SequentialOptions",
    "type Session",
    "type SetParamPsOptions",
    "type Shape",
    "type Stage",
    "type StepEvent",
    "type TrainOptions",
    "type TrainingCallback",
    "type TrainingResult",
    "type TrainingView",
    "type WideDeepNetworkOptions",
  ],
  "./tfjs": [
    "psOptimizer",
    "type GroupOptions",
    "type PsOptimizer",
    "type PsOptimizerOptions",
    "type TfLayerVariable",
    "type TfModule",
    "type TfTensor",
    "type TfVariable",
  ],
  "./jax": ["PsParameters", "type GroupOptions", "type JaxArray", "type JaxModule", "type PsParametersOptions"],
  "./node": [
    "schedulerFinish",
    "schedulerInit",
    "serverFinish",
    "serverInit",
    "start",
    "startNode",
    "type NodeConfig",
    "type NodeConfigOptions",
    "type StartOptions",
    "type TensorNode",
    "workerFinish",
    "workerInit",
  ],
  "./tables": [
    "DenseAccessor",
    "DenseUpdateBatch",
    "RowAccessor",
    "TableGroup",
    "UpdateBatch",
    "WeighbridgeError",
    "denseRow",
    "isWeighbridgeError",
    "psRowType",
    "type ConsistencyModel",
    "type DenseRowType",
    "type ErrorCode",
    "type PsRowType",
    "type PsRowTypeOptions",
    "type RowArray",
    "type RowElement",
    "type RowPlace",
    "type Table",
    "type TableConfig",
    "type TableGroupConfig",
    "type TableRowType",
    "type TableStatistics",
    "type TableThread",
    "type UpdateOf",
    "type UpdateSortPolicy",
    "type WaitOptions",
  ],
  "./testing": [
    "Random",
    "SimClock",
    "SimCluster",
    "SimNetwork",
    "type CrashOptions",
    "type PartitionOptions",
    "type RunOptions",
    "type SimClockOptions",
    "type SimClusterOptions",
    "type SimNetworkOptions",
  ],
};

/** The members of the classes a user holds, without inherited ones. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  Customer: ["addResponse", "newRequest", "responseCount", "wait"],
  KVServer: ["fail", "response", "setRequestHandle"],
  KVWorker: ["ended", "pull", "pullPairs", "push", "pushPull", "room", "setSlicer", "wait"],
  Postoffice: [
    "barrier",
    "channelTo",
    "close",
    "deadNodes",
    "failure",
    "finalize",
    "isRecovery",
    "leave",
    "myRank",
    "nodeId",
    "nodeIds",
    "registerExitCallback",
    "roster",
    "serverKeyRanges",
    "worker",
  ],
  SimpleApp: ["request", "response", "setRequestHandle", "setResponseHandle", "wait"],
};

/** The same, of the tensors door. */
const TENSOR_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  TensorWorker: [
    "barrierWorker",
    "cacheSparseTable",
    "clear",
    "clearOnServer",
    "ddPushPull",
    "finish",
    "getLoads",
    "initTensor",
    "load",
    "nrank",
    "preduceGetPartner",
    "pull",
    "pullData",
    "push",
    "pushData",
    "rank",
    "save",
    "sdPushPull",
    "session",
    "sparsePull",
    "sparsePush",
    "ssPushPull",
    "sspInit",
    "sspSync",
    "startRecord",
    "wait",
    "waitData",
  ],
};

/** Members of a Postoffice that are no methods. */
const POSTOFFICE_FIELDS: readonly string[] = [
  "applications",
  "clock",
  "idToRank",
  "isScheduler",
  "isServer",
  "isWorker",
  "log",
  "metrics",
  "node",
  "numServers",
  "numWorkers",
  "role",
  "scheduler",
  "server",
  "serverRankToId",
  "workerRankToId",
];

const root = join(import.meta.dirname, "..");

/** The names a door's source exports, as above. */
function exportsOf(path: string): string[] {
  const source = readFileSync(join(root, path), "utf8");
  const names: string[] = [];
  for (const [, typeOnly, list = ""] of source.matchAll(/^export (type )?\{([^}]*)\} from/gms)) {
    for (const name of list.split(",").map((part) => part.trim()))
      if (name !== "") names.push(typeOnly === undefined ? name : `type ${name}`);
  }
  return names.sort();
}

test("every door of the package is known, and opens", async () => {
  const doors = Object.entries(packageJson.exports).filter(([, path]) => path.endsWith(".ts"));
  assert.deepEqual(doors.map(([door]) => door).sort(), Object.keys(SURFACE).sort());
  for (const [door, path] of doors) {
    const names = SURFACE[door] ?? [];
    assert.deepEqual(exportsOf(path), [...names].sort(), `${door} in ${path}`);
    const module: Record<string, unknown> = await import(`weighbridge${door.slice(".".length)}`);
    assert.deepEqual(Object.keys(module).sort(), names.filter((name) => !name.startsWith("type ")).sort(), `${door} at run time`);
  }
});

test("the classes of the faces have these members and no others", async () => {
  const kv: Record<string, unknown> = await import("weighbridge/kv");
  const tensors: Record<string, unknown> = await import("weighbridge/tensors");
  for (const [name, members] of [...Object.entries(MEMBERS), ...Object.entries(TENSOR_MEMBERS)]) {
    const { prototype } = (kv[name] ?? tensors[name]) as { prototype: object };
    const own = Object.getOwnPropertyNames(prototype).filter((member) => member !== "constructor");
    assert.deepEqual(own.sort(), [...members].sort(), name);
  }
});

test("a Postoffice has these fields and no others", async () => {
  const cluster = await MemoryCluster.start();
  assert.deepEqual(Object.getOwnPropertyNames(cluster.worker()).sort(), [...POSTOFFICE_FIELDS].sort());
});

test("docs/compatibility.md names nothing of ours that does not exist", () => {
  const text = readFileSync(join(root, "docs", "compatibility.md"), "utf8");
  const known = new Set([...Object.values(SURFACE).flat(), ...Object.values(MEMBERS).flat()].map((name) => name.replace("type ", "")));
  const ours = [...text.matchAll(/`(?:office\.)([a-zA-Z]+)/g)].map(([, name = ""]) => name);
  for (const name of ours) assert.ok(known.has(name) || POSTOFFICE_FIELDS.includes(name), `office.${name}`);
});
