// local-model — a shared model in the thread that created it, its owner: options and devices, keys, updaters, and the
// threads that run devices. What devices do is in device-calls.ts, what follows from it in worker/level-one.
//
// Invariants:
//   LocalModel.M1. `setParam`, then `init`, then everything else; each call checks.
//   LocalModel.M2. A key is opened once, whoever asks for it first and however often: initModel runs once.
//   LocalModel.M3. A device is run by one thread: the owner's, or its own from `openThread` on.

import type { Clock } from "../../base/clock.ts";
import { type WaitOptions, waitFor } from "../../base/deferred.ts";
import { reasonOf, showValue, WeighbridgeError } from "../../base/errors.ts";
import { checkOptions, checkWaitOptions, WAIT_NAMES } from "../../base/known-options.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { copyElements, ELEMENT_NAMES, fillElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { CpuBackend, type CpuBackendOptions, type CpuMemory, createCpuMemory } from "../../worker/level-one/cpu-backend.ts";
import type { RoundRules } from "../../worker/level-one/key-rounds.ts";
import { LevelOne, levelOneMemory } from "../../worker/level-one/level-one.ts";
import type { LevelTwo } from "../../worker/level-one/level-two.ts";
import type { KeyPlan, ModelBackend } from "../../worker/level-one/model-backend.ts";
import { createMeterMemory } from "../../worker/level-one/model-meter.ts";
import { DEVICES_MAX, type ModelMemory, ModelWords, OWNER } from "../../worker/level-one/model-words.ts";
import type { ThreadPort } from "../../worker/tables/thread-line.ts";
import { builtInUpdater, checkUpdater, isBuiltIn, ownUpdater, updaterLevel } from "./chosen-updater.ts";
import { checkKey, checkShape, DeviceCalls } from "./device-calls.ts";
import { type DeviceGrant, serveThread } from "./device-thread.ts";
import { checkLocal, DIST_OPTIONS, distLevel } from "./dist-level.ts";
import type { Connect } from "./dist-session.ts";
import type { ModelLevel } from "./model-level.ts";
import { defaultParams, setModelParam, unknownParam } from "./model-params.ts";
import { type ChromeTrace, type ModelStatistics, statisticsOf, traceOf } from "./model-statistics.ts";
import type {
  ModelInitOptions,
  ModelPushOptions,
  PullCallback,
  PullItem,
  PushItem,
  SharedModel,
  SharedModelOptions,
  SharedModelType,
} from "./shared-model.ts";

const OPTION_NAMES: readonly (keyof SharedModelOptions)[] = [
  ...(["device", "dtype", "updater", "initialWeight", "onDeviceLoss", "memoryBytesMax", "trace", "traceFile"] as const),
  ...DIST_OPTIONS,
];

/** What `init` has chosen. */
export type BackendChoice = {
  readonly dtype: RowElement;
};

/** What stands around the face, injected. */
export type ModelParts = {
  readonly clock: Clock;
  /** Milliseconds of a clock that all threads share. */
  readonly timeline: () => number;
  /** Makes the backend for a device other than "cpu". Left out: there is none. */
  readonly backendOf?: (device: string, choice: BackendChoice) => ModelBackend;
  /** Joins the cluster, for "dist". Left out: there is none but that of the option session. */
  readonly connect?: Connect;
  /** Writes the trace when the model closes. Left out: there are no files. */
  readonly writeTrace?: (path: string, trace: ChromeTrace) => Promise<void>;
};

type Opened<Data extends object> = {
  readonly devices: readonly number[];
  readonly memory: ModelMemory;
  readonly rules: RoundRules;
  readonly level: LevelOne<Data>;
  readonly backend: ModelBackend<Data>;
  readonly calls: DeviceCalls<Data>;
  /** For threads; undefined for devices that have none. */
  readonly cpu: { readonly memory: CpuMemory; readonly options: CpuBackendOptions } | undefined;
  readonly builtIn: ResolvedOptimizer | undefined;
  readonly levelTwo: LevelTwo | undefined;
};

export class LocalModel<Data extends object = object> implements SharedModel<Data> {
  readonly type: SharedModelType;
  readonly #options: SharedModelOptions;
  readonly #parts: ModelParts;
  readonly #params = defaultParams();
  readonly #own = new Set<number>();
  readonly #keys = new Map<number, { readonly shape: readonly number[]; readonly plan: Promise<KeyPlan> }>();
  /** Devices that a thread runs, and the port to it. */
  readonly #threads = new Map<number, ThreadPort>();
  readonly #keepsTrace: boolean;
  /** What stands above level 1, for "dist". */
  readonly #dist: ModelLevel | undefined;
  #opened: Opened<Data> | undefined;
  #hasInit = false;
  #isClosed = false;
  /** Keys are opened one after the other. */
  #opening: Promise<unknown> = Promise.resolve();

  /** Throws BAD_ARGUMENT. */
  constructor(type: SharedModelType, options: SharedModelOptions, parts: ModelParts) {
    checkOptions(options, OPTION_NAMES, "the options of a shared model");
    const { device = "cpu", dtype = "f32", onDeviceLoss = "fail", initialWeight = 0, updater } = options;
    const { traceFile, trace = traceFile !== undefined } = options;
    oneOf("device", ["cpu", "cuda"], device);
    oneOf("dtype", ELEMENT_NAMES, dtype);
    oneOf("onDeviceLoss", ["fail", "continue"], onDeviceLoss);
    if (!Number.isFinite(initialWeight)) throw bad(`initialWeight is a finite number, not ${showValue(initialWeight)}`);
    if (typeof trace !== "boolean") throw bad(`trace is true or false, not ${showValue(trace)}`);
    if (traceFile !== undefined && !(typeof traceFile === "string" && traceFile !== "" && trace))
      throw bad(`traceFile is the path of a file, without trace: false, not ${showValue(traceFile)}`);
    oneOf("the type of a shared model", ["local", "dist"], type);
    this.#dist = type === "dist" ? distLevel(options, parts) : undefined;
    if (type === "local") checkLocal(options);
    if (type === "local" && updater !== undefined) checkUpdater(updater, dtype, initialWeight);
    this.#keepsTrace = trace;
    this.type = type;
    this.#options = options;
    this.#parts = parts;
  }

  get devices(): readonly number[] {
    const { devices, level } = this.#open();
    return devices.filter((_, position) => level.isLive(position));
  }

  setParam(name: string, value: string | number | boolean): void {
    if (this.#hasInit) throw bad(`setParam(${showValue(name)}) comes before init`);
    if (typeof name !== "string" || name === "") throw bad(`the name of an option is text, not ${showValue(name)}`);
    if (!["string", "number", "boolean"].includes(typeof value)) throw bad(`${name} is text, a number or a flag, not ${showValue(value)}`);
    if (setModelParam(this.#params, name, `${value}`)) return;
    if (this.#dist?.settingNames.includes(name)) {
      this.#dist.setParam(name, `${value}`);
      return;
    }
    const own = ownUpdater(this.#options.updater);
    const unknown = unknownParam(name, own?.setParam !== undefined, this.#dist?.settingNames);
    if (unknown !== undefined) throw unknown;
    own?.setParam?.(name, `${value}`);
  }

  async init(devices: readonly number[] = [0], options: ModelInitOptions = {}): Promise<void> {
    checkWaitOptions(options, [...WAIT_NAMES, "args"], "the options of init");
    if (this.#hasInit) throw bad("init is called once");
    checkDevices(devices);
    const { args = [] } = options;
    if (!(Array.isArray(args) && args.every((arg) => typeof arg === "string")))
      throw bad(`args are a list of texts, not ${showValue(args)}`);
    if (this.#isClosed) throw closed();
    this.#hasInit = true;
    try {
      const opened = this.#prepare([...devices]);
      const { deadlineMs, signal } = options;
      const work = this.#start(opened, args, { deadlineMs, signal });
      await waitFor(work, `init of the shared model for ${devices.length} devices`, this.#parts.clock, options);
      if (this.#isClosed) throw closed();
      this.#opened = opened;
    } catch (thrown) {
      this.#hasInit = false;
      this.#own.clear();
      throw thrown;
    }
  }

  #prepare(devices: readonly number[]): Opened<Data> {
    const { updater, onDeviceLoss = "fail", dtype = "f32", initialWeight = 0 } = this.#options;
    const params = this.#params;
    const updates = params.updateOnServer ?? updater !== undefined;
    if (updates && updater === undefined)
      throw bad("update_on_server needs the option updater: what the sum of a round does to the weights");
    if (!updates && updater !== undefined && this.#dist !== undefined)
      throw bad('the updater of a "dist" model cannot be off: leave it out');
    const used = updates && this.#dist === undefined ? updater : undefined;
    const builtIn = used !== undefined && isBuiltIn(used) && dtype === "f32" ? builtInUpdater(used) : undefined;
    const levelTwo = this.#dist ?? updaterLevel(used, { dtype, initialWeight });
    const memory = levelOneMemory(devices.length);
    const { deviceCount, keyCountMax } = memory;
    const rules: RoundRules = {
      ...{ threadsMax: params.reduceThreads, goesOn: onDeviceLoss === "continue", devices },
      ...{ oneReduceAtATime: params.oneReduceAtATime, oneHandOutAtATime: params.oneHandOutAtATime },
    };
    const { backend, cpu } = this.#backend(memory, builtIn);
    const { clock, timeline } = this.#parts;
    const meter = createMeterMemory({ deviceCount, keyCountMax, keepsEvents: this.#keepsTrace });
    const level = new LevelOne<Data>({ memory, meter, thread: OWNER, rules, backend, clock, timeline, levelTwo });
    for (const device of devices) this.#own.add(device);
    const calls = new DeviceCalls(level, backend, devices, this.#own);
    return { devices, memory, rules, level, backend, calls, cpu, builtIn, levelTwo };
  }

  #backend(memory: ModelMemory, updater: ResolvedOptimizer | undefined): Pick<Opened<Data>, "backend" | "cpu"> {
    const { device = "cpu", dtype = "f32", memoryBytesMax } = this.#options;
    const { bigArrayLength } = this.#params;
    if (device !== "cpu") {
      const backend = this.#parts.backendOf?.(device, { dtype });
      if (backend === undefined) throw new WeighbridgeError("UNSUPPORTED", `device: ${JSON.stringify(device)} is not offered here`);
      return { backend: backend as unknown as ModelBackend<Data>, cpu: undefined };
    }
    const { deviceCount, keyCountMax } = memory;
    const options: CpuBackendOptions = { dtype, threadCount: deviceCount + 1, keyCountMax, bigArrayLength, updater };
    const cpu = { memory: createCpuMemory(options, memoryBytesMax), options };
    const words = new ModelWords(memory, OWNER);
    const backend = new CpuBackend(cpu.memory, options, { thread: OWNER, exclusively: (act) => words.locked(act) });
    return { backend: backend as unknown as ModelBackend<Data>, cpu };
  }

  async #start({ backend, levelTwo, devices }: Opened<Data>, args: readonly string[], wait: WaitOptions): Promise<void> {
    await backend.open(devices);
    await levelTwo?.open?.(wait);
    const own = this.#params.updateOnServer === false ? undefined : ownUpdater(this.#options.updater);
    try {
      await own?.initUpdater?.(this.#dist?.rank ?? 0, args);
    } catch (thrown) {
      throw new WeighbridgeError("HANDLER_FAILED", `initUpdater of the updater threw: ${reasonOf(thrown)}`, { cause: thrown });
    }
  }

  async initKey(shape: readonly number[], key: number, device: number): Promise<void> {
    const { calls } = this.#open();
    calls.positionOf(device);
    calls.know(await this.openKey(shape, key));
  }

  /** M2. For the calls of threads as well. */
  async openKey(shape: readonly number[], key: number): Promise<KeyPlan> {
    const opened = this.#open();
    const length = checkShape(shape);
    checkKey(key);
    const known = this.#keys.get(key);
    if (known !== undefined) {
      if (known.shape.join() === shape.join()) return await known.plan;
      throw new WeighbridgeError("SPEC_MISMATCH", `key ${key} has shape [${known.shape.join(", ")}], not [${shape.join(", ")}]`);
    }
    const plan = this.#opening.then(() => this.#createKey(opened, [...shape], length, key));
    this.#opening = plan.catch(() => {}); // told to who opens it
    this.#keys.set(key, { shape: [...shape], plan });
    try {
      return await plan;
    } catch (thrown) {
      this.#keys.delete(key);
      throw thrown;
    }
  }

  async #createKey(opened: Opened<Data>, shape: readonly number[], length: number, key: number): Promise<KeyPlan> {
    const { level, backend, builtIn, levelTwo, devices, calls } = opened;
    if (this.#isClosed) throw closed();
    const operation = this.#params.pushOperations.get(key) ?? "sum";
    const resultLength = operation === "gather" ? length * devices.length : length;
    const spec = { key, shape, length, resultLength, operation };
    const updater = operation === "sum" ? builtIn : undefined;
    const exchange = operation === "sum" ? levelTwo : undefined;
    const planned = { ...spec, index: level.keyCount };
    const initial = await exchange?.openKey(planned);
    backend.openKey(planned, updater);
    const values = initial ?? (updater === undefined ? undefined : this.#initialWeights(length));
    if (values !== undefined) await writeResult(backend, planned, 0, values);
    const plan = level.addKey(spec, { hasWeights: values !== undefined, isExchanged: exchange !== undefined });
    calls.know(plan);
    return plan;
  }

  #initialWeights(length: number): RowArray {
    const { dtype = "f32", initialWeight = 0 } = this.#options;
    const { Array: TypedArray, bytes } = ROW_ELEMENTS[dtype];
    const weights = new TypedArray(new ArrayBuffer(length * bytes));
    fillElements(weights, initialWeight);
    return weights;
  }

  tensor(shape: readonly number[], device: number): Data {
    return this.#open().calls.tensor(shape, device);
  }

  free(data: Data): void {
    this.#open().calls.free(data);
  }

  push(data: Data, key: number, device: number, priority?: number, options?: ModelPushOptions): void {
    this.#open().calls.push(data, key, device, priority, options);
  }

  pullReq(data: Data, key: number, device: number, priority?: number, callback?: PullCallback<Data>): void {
    this.#open().calls.pull(data, key, device, priority, callback);
  }

  pushAll(items: readonly PushItem<Data>[], device: number): void {
    this.#open().calls.pushAll(items, device);
  }

  pullAll(items: readonly PullItem<Data>[], device: number): void {
    this.#open().calls.pullAll(items, device);
  }

  async pullWait(key: number, device: number, wait?: WaitOptions): Promise<void> {
    await this.#open().calls.wait(key, device, wait);
  }

  async pullWaitAll(device: number, wait?: WaitOptions): Promise<void> {
    await this.#open().calls.waitAll(device, wait);
  }

  async setWeight(data: Data, key: number, device: number): Promise<void> {
    const { plan, values } = await this.#open().calls.weightsOf(data, key, device);
    await this.writeWeights(plan, values);
  }

  /** For the calls of threads as well. */
  async writeWeights(plan: KeyPlan, values: RowArray): Promise<void> {
    const { level, backend, builtIn, levelTwo } = this.#open();
    if (plan.operation !== "sum" || (builtIn === undefined && levelTwo?.setWeights === undefined))
      throw new WeighbridgeError("UNSUPPORTED", `key ${plan.key} has no weights here: update_on_server is off, or the key gathers`);
    const version = level.resultOf(plan);
    await levelTwo?.setWeights?.(plan, values);
    await writeResult(backend, plan, version, values);
  }

  async checkWeight(data: Data, key: number, device: number): Promise<void> {
    const { calls } = this.#open();
    this.checkTests();
    await calls.checkWeight(data, key, device);
  }

  /** Throws BAD_ARGUMENT unless test_on_server was set. */
  checkTests(): void {
    if (!this.#params.testOnServer) throw bad("checkWeight needs setParam('test_on_server', 1)");
  }

  removeDevice(device: number, reason: unknown = "it was removed"): void {
    this.#lose(this.#positionOf(device), device, reason);
  }

  /** The position of any device of the model. Throws BAD_ARGUMENT. */
  #positionOf(device: number): number {
    const { devices } = this.#open();
    const position = devices.indexOf(device);
    if (position < 0) throw bad(`device ${showValue(device)}: the devices are ${devices.join(", ")}`);
    return position;
  }

  #lose(position: number, device: number, reason: unknown, thread?: number): void {
    const { level } = this.#open();
    const failure = (goesOn: boolean): WeighbridgeError => {
      const then = goesOn ? "the model goes on without it" : "the model does not go on without it";
      return new WeighbridgeError("NODE_DEAD", `device ${device} has ended: ${reasonOf(reason)}; ${then}`, { detail: { device, goesOn } });
    };
    level.loseDevice(position, failure, thread);
  }

  /**
   * A thread is about to run a device (M3): what it is given, and what to call when it has ended. Throws BAD_ARGUMENT,
   * UNSUPPORTED for devices that have no threads.
   */
  openThread(device: number, port: ThreadPort): { readonly grant: DeviceGrant; ended(reason: unknown): void } {
    const { devices, memory, rules, level, cpu } = this.#open();
    const position = this.#positionOf(device);
    if (cpu === undefined) throw new WeighbridgeError("UNSUPPORTED", "only devices of the CPU are run by threads of their own");
    if (this.#threads.has(device)) throw bad(`device ${device} has a thread already`);
    if (!level.isLive(position)) throw bad(`device ${device} has ended`);
    const thread = position + 1;
    level.setHome(position, thread);
    this.#own.delete(device);
    this.#threads.set(device, port);
    const grant: DeviceGrant = {
      ...{ type: this.type, device, thread, devices, memory, rules, meter: level.meter.memory, cpu },
      testsOnServer: this.#params.testOnServer,
    };
    serveThread(port, this, () => this.#lose(position, device, "it has left"));
    const ended = (reason: unknown): void => {
      port.close();
      if (!this.#isClosed) this.#lose(position, device, reason, thread);
    };
    return { grant, ended };
  }

  stats(): ModelStatistics {
    return statisticsOf(this.#told());
  }

  trace(): ChromeTrace {
    if (!this.#keepsTrace) throw bad("there is a trace if the model has the option trace: true");
    return traceOf(this.#told());
  }

  #told(): Parameters<typeof statisticsOf>[0] {
    const { level, devices, calls } = this.#open({ isClosedToo: true });
    return { meter: level.meter, devices, isLive: (position) => level.isLive(position), plans: calls.plans };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const opened = this.#opened;
    opened?.level.close();
    await (opened?.levelTwo ?? this.#dist)?.close();
    if (opened === undefined) return;
    await opened.backend.close();
    const { traceFile } = this.#options;
    if (traceFile !== undefined) await this.#parts.writeTrace?.(traceFile, this.trace());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #open({ isClosedToo = false }: { readonly isClosedToo?: boolean } = {}): Opened<Data> {
    if (this.#isClosed && !isClosedToo) throw closed();
    if (this.#opened === undefined) throw bad("call init first, and wait for it");
    return this.#opened;
  }
}

async function writeResult(backend: ModelBackend, plan: KeyPlan, version: 0 | 1, values: RowArray): Promise<void> {
  const result = await backend.borrowResult(plan, version);
  copyElements(result, values);
  await backend.returnResult(plan, version, result);
}

function checkDevices(devices: readonly number[]): void {
  if (!(Array.isArray(devices) && devices.length > 0 && devices.length <= DEVICES_MAX))
    throw bad(`init takes a list of 1 to ${DEVICES_MAX} devices, not ${showValue(devices)}`);
  const wrong = devices.find((device) => !(Number.isSafeInteger(device) && device >= 0));
  if (wrong !== undefined) throw bad(`a device is a whole number from 0 up, not ${showValue(wrong)}`);
  const twice = devices.find((device, i) => devices.indexOf(device) !== i);
  if (twice !== undefined) throw bad(`device ${twice} is listed twice`);
}

function oneOf(name: string, choices: readonly string[], value: unknown): void {
  if (!choices.includes(value as string))
    throw bad(`${name} is one of ${choices.join(", ")}, not ${showValue(value)}${didYouMean(value, choices)}`);
}

function closed(): WeighbridgeError {
  return new WeighbridgeError("CLOSED", "the shared model was closed");
}

function bad(message: string): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", message);
}
