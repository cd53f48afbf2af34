// model-backend — what computes for the devices of a shared model and keeps its data. The engine (LevelOne) decides
// what is done and when; a backend knows where data lie and does it. CpuBackend is the one for threads and async tasks,
// src/gpu has the one for CUDA.
//
//   shares   any thread of the model does a share of a task, in the same call: CPU
//   batch    one thread gives all tasks that are ready at once, in their order, and learns when they are done: CUDA
//
// A key has two results, 0 and 1, of `resultLength` elements each: those of its last two rounds.
//
// Invariants:
//   ModelBackend.B1. Sources are added in the order of the list, which is that of the devices: ((s0 + s1) + s2) + …,
//       each sum rounded. The same sources give the same bits every time.
//   ModelBackend.B2. A target is the source of the same device or overlaps no source: a task has read a chunk of all
//       sources before it writes that chunk to a target.
//   ModelBackend.B3. Tasks of a list are done as if one after the other.

import type { RowArray, RowElement } from "../../kernel/row-element.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";

/** Names data that all who compute can reach: an address (CPU), an entry of a backend's table (CUDA). 0 is none. */
export type DataRef = number;

/** One of the two results of a key. */
export type ResultVersion = 0 | 1;

export function versionOf(round: number): ResultVersion {
  return (round & 1) as ResultVersion;
}

export type PushOperation = "sum" | "gather";

/** What is known of a key from `initKey` on. */
export type KeyPlan = {
  /** As users number it. */
  readonly key: number;
  /** Among the keys of the model, from 0 up in the order of their initKey. */
  readonly index: number;
  readonly shape: readonly number[];
  /** Elements that a device pushes. */
  readonly length: number;
  /** Elements of a result: as many, or those of all devices for "gather". */
  readonly resultLength: number;
  readonly operation: PushOperation;
};

/** A round that is complete: its result is to be made of what the devices pushed. */
export type ReduceTask = {
  readonly kind: "reduce";
  readonly plan: KeyPlan;
  /** From 1 up; which update of the weights this is, with a built-in updater. */
  readonly round: number;
  /** The result to write. The other one is that of the round before: with a built-in updater, the weights. */
  readonly version: ResultVersion;
  /** What was pushed, in the order of devices. 0 for a device that has ended: it adds nothing, its rows are zeros. */
  readonly sources: readonly DataRef[];
  /** Pulls that the task serves as well; the result is kept all the same. */
  readonly targets: readonly DataRef[];
};

/** A pull of one device whose result is there. */
export type HandOutTask = {
  readonly kind: "handOut";
  readonly plan: KeyPlan;
  readonly version: ResultVersion;
  /** The position of the device. */
  readonly device: number;
  readonly target: DataRef;
};

export type ModelTask = ReduceTask | HandOutTask;

/** Tasks are done share by share, by any thread (CPU). */
export type ShareRunner = {
  readonly kind: "shares";
  /**
   * A task of this key begins: returns into how many shares it is cut, at least 1. `round` is that of a reduce, 0 for a
   * hand-out. Called once for each task, with the lock of the model: it must be short.
   */
  begin(plan: KeyPlan, round: number): number;
  /** Does one share, in this call. Different shares of a task may be done at the same time, by different threads. */
  runShare(task: ModelTask, share: number): void;
};

/** Tasks are given all at once (CUDA). */
export type BatchRunner = {
  readonly kind: "batch";
  /**
   * Does the tasks (ModelBackend.B3), and resolves when all are done. May be called again before: the batches are done
   * in the order of the calls. If it rejects, the rounds of these tasks fail with that error.
   */
  runBatch(tasks: readonly ModelTask[], prepared?: readonly PreparedTasks[]): Promise<void>;
  /**
   * For rounds of these keys that will come again with the same refs: what `runBatch` takes instead of the tasks, of
   * keys that no other task of the batch has. Undefined: it has nothing for them. Throws what `runBatch` would reject
   * with.
   */
  prepare?(tasks: readonly ReduceTask[]): PreparedTasks | undefined;
};

export type PreparedTasks = {
  /** Whether all data are still there. */
  readonly isCurrent: boolean;
  /** Not while a batch has it. */
  close(): void;
};

/** What level 1 needs of a backend. */
export type TaskBackend<Data extends object = object> = Pick<
  ModelBackend<Data>,
  "runner" | "refOf" | "takePush" | "copyOut" | "borrowResult" | "returnResult"
>;

/** `Data` is what users push and pull into: a typed array, a device tensor. */
export interface ModelBackend<Data extends object = object> {
  /** "cpu", "cuda": as users name it. */
  readonly name: string;
  readonly dtype: RowElement;
  readonly runner: ShareRunner | BatchRunner;
  /** Prepares for these devices, as users number them. Throws a typed error: no CUDA, no such device. */
  open(devices: readonly number[]): void | Promise<void>;
  /** Whether its tasks make updates of this kind. Others are level 2's, on the host. */
  runsUpdater(updater: ResolvedOptimizer): boolean;
  /**
   * Takes the memory of a new key: two results of zeros, slots for `updater` (undefined: none is built in). Called
   * once for each key. Throws ARENA_FULL.
   */
  openKey(plan: KeyPlan, updater: ResolvedOptimizer | undefined): void;
  /** New data of zeros for a device, which this backend reads and writes where they lie. Throws ARENA_FULL. */
  tensor(shape: readonly number[], device: number): Data;
  /** Gives such data back. Throws BAD_ARGUMENT for others, and the second time. */
  free(data: Data): void;
  /** Throws BAD_ARGUMENT if users may not push `data`, or pull into it: wrong type, freed, of another model. */
  checkData(data: Data, what: string): void;
  /** While it is the same number, data that `checkData` has passed would pass again. Undefined: they may not. */
  readonly dataEpoch: number | undefined;
  /** How many elements it has. */
  lengthOf(data: Data): number;
  /** What the data hold: themselves, or a copy on the host. */
  valuesOf(data: Data): RowArray | Promise<RowArray>;
  /** Where the data lie; 0 for data that only the caller's thread can reach. */
  refOf(data: Data): DataRef;
  /**
   * Takes what a device pushes. Returns the ref of the data themselves, or that of a copy, of which there are two for
   * each device and key, by the version of the round's result. `after` is what must have happened before they are
   * read, in the backend's words (a stream or an event); undefined: nothing.
   */
  takePush(push: PushedData<Data>, version: ResultVersion): DataRef;
  /** For data without a ref: copies a result into them, in this call. */
  copyOut(plan: KeyPlan, version: ResultVersion, data: Data): void;
  /**
   * A result as a typed array, for level 2 and users' updaters: the result itself, or a copy on the host that
   * `returnResult` writes back. The caller may read and write it until then. One of a key and version at a time.
   */
  borrowResult(plan: KeyPlan, version: ResultVersion): RowArray | Promise<RowArray>;
  returnResult(plan: KeyPlan, version: ResultVersion, values: RowArray): void | Promise<void>;
  /** What pull callbacks get: the stream on which the device's hand-outs run. Undefined where there are none. */
  streamOf(device: number): unknown;
  /** No task is under way any more. */
  close(): void | Promise<void>;
}

export type PushedData<Data extends object = object> = {
  readonly plan: KeyPlan;
  /** The position of the device. */
  readonly device: number;
  readonly data: Data;
  readonly after: unknown;
};
