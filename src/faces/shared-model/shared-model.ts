// shared-model — the face after mshadow-ps as users see it: what createSharedModel returns, and what a thread that runs
// a device of it gets. docs/guides/shared-model.md shows it in use, docs/compatibility.md lists the differences.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { Consistency } from "../../store/consistency.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../../store/updaters/ps-updater.ts";
import type { ChromeTrace, ModelStatistics } from "./model-statistics.ts";
import type { Updater } from "./updater.ts";

/** "local": the devices of this process. "dist": between processes as well. */
export type SharedModelType = "local" | "dist";

/** What happens to a model when one of its devices ends. */
export type DeviceLossPolicy =
  | "fail" // nothing more can be pushed
  | "continue"; // rounds go on with the devices that are left

/** How a shared model is made. */
export type SharedModelOptions<E extends RowElement = RowElement> = {
  /** Where the data lie. Defaults to "cpu". */
  readonly device?: "cpu" | "cuda" | undefined;
  /** The type of every number in the model. Defaults to "f32". */
  readonly dtype?: E | undefined;
  /**
   * With update_on_server: what the sum of a round does to the weights. A built-in one by its settings, or your own. In
   * a "dist" model servers run it: one of your own is what `modelUpdater` or `psUpdater` made, in a module of theirs.
   */
  readonly updater?: Updater | OptimizerSpec | PsUpdater | undefined;
  /** With a built-in updater: what the weights of a key begin with. Defaults to 0. */
  readonly initialWeight?: number | undefined;
  /** Defaults to "fail". */
  readonly onDeviceLoss?: DeviceLossPolicy | undefined;
  /** The most memory that the model's data may take, in bytes, up to 4 GiB, which is the default. For "cpu". */
  readonly memoryBytesMax?: number | undefined;
  /** Records what is computed and synchronised when; `trace()` returns it. Defaults to false, true with `traceFile`. */
  readonly trace?: boolean | undefined;
  /** Where `close` writes the trace. */
  readonly traceFile?: string | undefined;
} & DistOptions;

/** For "dist". */
export type DistOptions = {
  /** What this process is in its cluster. Left out: `init` connects as the environment says, and `close` leaves. */
  readonly session?: Session | undefined;
  /** What brings the results of machines together: servers, or the workers themselves. Defaults to "servers". */
  readonly through?: "servers" | "allReduce" | undefined;
  /** Through servers: when updates of other workers are seen. Defaults to "asp", eventually. */
  readonly consistency?: Consistency | undefined;
  /** Through allReduce: whether results are added up or averaged. Defaults to "sum". */
  readonly reduce?: "sum" | "mean" | undefined;
  /** Through servers: the keys are the parameters `name/0`, `name/1` and so on. Defaults to "shared-model". */
  readonly name?: string | undefined;
};

/** How the model is initialized. */
export type ModelInitOptions = WaitOptions & {
  /** For the updater's initUpdater. */
  readonly args?: readonly string[] | undefined;
};

/** How a push is carried out. */
export type ModelPushOptions = {
  /** For "cuda": the stream or event after which the data are ready. */
  readonly after?: unknown;
};

/** What a pull callback gets. */
export type PulledData<Data extends object = object> = {
  readonly data: Data;
  readonly key: number;
  readonly device: number;
  /** For "cuda": the stream that copied the data. */
  readonly stream: unknown;
};
/** Called when a pull has ended. */
export type PullCallback<Data extends object = object> = (pulled: PulledData<Data>) => void | Promise<void>;

/** One key of a push of several. */
export type PushItem<Data extends object = object> = {
  readonly data: Data;
  readonly key: number;
  readonly priority?: number | undefined;
  readonly after?: unknown;
};
/** One key of a pull of several. */
export type PullItem<Data extends object = object> = {
  readonly data: Data;
  readonly key: number;
  readonly priority?: number | undefined;
  readonly callback?: PullCallback<Data> | undefined;
};

/** A model in the thread that created it; a thread that runs a device has the same calls for that device. */
export interface SharedModel<Data extends object = object> {
  readonly type: SharedModelType;
  /** The devices of `init` that have not ended, in ascending order of position. */
  readonly devices: readonly number[];
  /** Sets an option of mshadow-ps, or one of the updater's. Before `init`. Throws BAD_ARGUMENT. */
  setParam(name: string, value: string | number | boolean): void;
  /** Opens the model for these devices, [0] when left out. Once. */
  init(devices?: readonly number[], options?: ModelInitOptions): Promise<void>;
  /** Makes a key known, or checks that it is known with this shape. Each device calls it before it pushes or pulls. */
  initKey(shape: readonly number[], key: number, device: number, options?: WaitOptions): Promise<void>;
  /** A new array in the memory of the model, of zeros: pushes from it and pulls into it copy nothing else. */
  tensor(shape: readonly number[], device: number): Data;
  /** Gives such an array back. No push or pull of it may be open: its memory is the next array's. */
  free(data: Data): void;
  /** Returns at once. The data must not change until the device's pull of this round has ended. */
  push(data: Data, key: number, device: number, priority?: number, options?: ModelPushOptions): void;
  /** Returns at once. The result of the device's last push is copied to `data`, then the callback runs. */
  pullReq(data: Data, key: number, device: number, priority?: number, callback?: PullCallback<Data>): void;
  /** `push` of several keys, in this order, in one call. */
  pushAll(items: readonly PushItem<Data>[], device: number): void;
  /** `pullReq` of several keys, in this order, in one call. */
  pullAll(items: readonly PullItem<Data>[], device: number): void;
  /** Resolves when the device's last pullReq of the key has ended, with its callback; at once if there is none. */
  pullWait(key: number, device: number, options?: WaitOptions): Promise<void>;
  /** The same for all keys of the device. */
  pullWaitAll(device: number, options?: WaitOptions): Promise<void>;
  /** Replaces the weights of a key, between rounds. */
  setWeight(data: Data, key: number, device: number, options?: WaitOptions): Promise<void>;
  /** For tests: throws SPEC_MISMATCH if `data` are not the weights, or last result, of the key within 1e-5. */
  checkWeight(data: Data, key: number, device: number): Promise<void>;
  /** Says that a device has ended: others do not wait for it any longer. */
  removeDevice(device: number, reason?: unknown): void;
  /** How often and how long, per key and device. */
  stats(): ModelStatistics;
  /** With `trace`: what happened when, in Chrome's trace format (chrome://tracing, ui.perfetto.dev). */
  trace(): ChromeTrace;
  /** Frees the model. Calls that are open end with CLOSED. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The model in a thread that runs one device of it: the calls of that device. `init` and `setParam` are the owner's.
 */
export type DeviceModel<Data extends object = object> = SharedModel<Data> & {
  /** The device that this thread runs. */
  readonly device: number;
};
