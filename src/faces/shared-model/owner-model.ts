// owner-model — a shared model in the thread that created it, its owner: options, keys, weights, and the threads that
// run devices. What it consists of is opened in opened-model.ts; what devices do is in device-calls.ts, what follows
// from it in worker/level-one.
//
// Invariants:
//   OwnerModel.M1. `setParam`, then `init`, then everything else; each call checks.
//   OwnerModel.M2. A key is opened once, by the first device that asks for it: initModel runs once.
//   OwnerModel.M3. A device is run by one thread: the owner's, or its own from `openThread` on.

import { type WaitOptions, waitFor } from "../../base/deferred.ts";
import { badArgument, reasonOf, showValue, unsupported, WeighbridgeError } from "../../base/errors.ts";
import { InTurn } from "../../base/in-turn.ts";
import { checkOptions, checkWaitOptions, WAIT_NAMES } from "../../base/known-options.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { copyElements, ELEMENT_NAMES, fillElements, ROW_ELEMENTS, type RowArray } from "../../kernel/row-element.ts";
import type { KeyPlan, ModelBackend } from "../../worker/level-one/model-backend.ts";
import { DEVICES_MAX } from "../../worker/level-one/model-words.ts";
import type { ThreadPort } from "../../worker/tables/thread-line.ts";
import { checkUpdater, ownUpdater } from "./chosen-updater.ts";
import { checkKey, checkShape } from "./device-calls.ts";
import { type DeviceGrant, serveThread } from "./device-thread.ts";
import { checkLocal, DIST_OPTIONS, distLevel } from "./dist-level.ts";
import { checkSettable } from "./kernel-level.ts";
import type { ModelLevel } from "./model-level.ts";
import { defaultParams, isMessageParam, setModelParam, unknownParam } from "./model-params.ts";
import { type ChromeTrace, type ModelStatistics, statisticsOf, traceOf } from "./model-statistics.ts";
import { type ModelParts, type OpenedModel, openModel } from "./opened-model.ts";
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

export class OwnerModel<Data extends object = object> implements SharedModel<Data> {
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
  #opened: OpenedModel<Data> | undefined;
  #hasInit = false;
  #isClosed = false;
  #closing: Promise<void> | undefined;
  /** Keys are opened one after the other. */
  readonly #opening = new InTurn();

  /** Throws BAD_ARGUMENT. */
  constructor(type: SharedModelType, options: SharedModelOptions, parts: ModelParts) {
    checkOptions(options, OPTION_NAMES, "the options of a shared model");
    const { device = "cpu", dtype = "f32", onDeviceLoss = "fail", initialWeight = 0, updater } = options;
    const { traceFile, trace = traceFile !== undefined } = options;
    oneOf("device", ["cpu", "cuda"], device);
    oneOf("dtype", ELEMENT_NAMES, dtype);
    oneOf("onDeviceLoss", ["fail", "continue"], onDeviceLoss);
    if (!Number.isFinite(initialWeight)) throw badArgument(`initialWeight is a finite number, not ${showValue(initialWeight)}`);
    if (typeof trace !== "boolean") throw badArgument(`trace is true or false, not ${showValue(trace)}`);
    if (traceFile !== undefined && !(typeof traceFile === "string" && traceFile !== "" && trace))
      throw badArgument(`traceFile must be the path of a file, and cannot be set with trace: false; it is ${showValue(traceFile)}`);
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
    if (this.#hasInit) throw badArgument(`setParam(${showValue(name)}) comes before init`);
    if (typeof name !== "string" || name === "") throw badArgument(`the name of an option is text, not ${showValue(name)}`);
    if (!["string", "number", "boolean"].includes(typeof value))
      throw badArgument(`${name} is text, a number or a flag, not ${showValue(value)}`);
    if (setModelParam(this.#params, name, `${value}`)) return;
    if (this.#dist?.settingNames.includes(name)) {
      this.#dist.setParam(name, `${value}`);
      return;
    }
    if (isMessageParam(name)) return;
    const own = ownUpdater(this.#options.updater);
    const unknown = unknownParam(name, own?.setParam !== undefined, this.#dist?.settingNames);
    if (unknown !== undefined) throw unknown;
    own?.setParam?.(name, `${value}`);
  }

  async init(devices: readonly number[] = [0], options: ModelInitOptions = {}): Promise<void> {
    checkWaitOptions(options, [...WAIT_NAMES, "args"], "the options of init");
    if (this.#isClosed) throw closed();
    if (this.#hasInit) throw badArgument("init is called once");
    checkDevices(devices);
    const { args = [] } = options;
    if (!(Array.isArray(args) && args.every((arg) => typeof arg === "string")))
      throw badArgument(`args are a list of texts, not ${showValue(args)}`);
    this.#hasInit = true;
    for (const device of devices) this.#own.add(device);
    try {
      const choice = {
        ...{ options: this.#options, params: this.#params, keepsTrace: this.#keepsTrace, dist: this.#dist },
        ...{ devices: [...devices], own: this.#own },
      };
      const opened = await openModel<Data>(choice, this.#parts, options);
      if (this.#isClosed) {
        await opened.backend.close();
        throw closed();
      }
      this.#opened = opened;
    } catch (thrown) {
      this.#hasInit = false;
      this.#own.clear();
      throw thrown;
    }
  }

  async initKey(shape: readonly number[], key: number, device: number, options: WaitOptions = {}): Promise<void> {
    const { calls } = this.#open();
    checkWaitOptions(options);
    calls.positionOf(device);
    calls.know(await waitFor(this.openKey(shape, key), `key ${key}`, this.#parts.clock, options));
  }

  /** OwnerModel.M2. For the calls of threads as well. */
  async openKey(shape: readonly number[], key: number): Promise<KeyPlan> {
    const opened = this.#open();
    const length = checkShape(shape);
    checkKey(key);
    const known = this.#keys.get(key);
    if (known !== undefined) {
      if (known.shape.join() === shape.join()) return await known.plan;
      throw new WeighbridgeError("SPEC_MISMATCH", `key ${key} has shape [${known.shape.join(", ")}], not [${shape.join(", ")}]`);
    }
    const plan = this.#opening.run(() => this.#createKey(opened, [...shape], length, key));
    this.#keys.set(key, { shape: [...shape], plan });
    try {
      return await plan;
    } catch (thrown) {
      this.#keys.delete(key);
      throw thrown;
    }
  }

  async #createKey(opened: OpenedModel<Data>, shape: readonly number[], length: number, key: number): Promise<KeyPlan> {
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

  async pullWait(key: number, device: number, options?: WaitOptions): Promise<void> {
    await this.#open().calls.wait(key, device, options);
  }

  async pullWaitAll(device: number, options?: WaitOptions): Promise<void> {
    await this.#open().calls.waitAll(device, options);
  }

  async setWeight(data: Data, key: number, device: number, options: WaitOptions = {}): Promise<void> {
    const { calls } = this.#open();
    checkWaitOptions(options);
    const { plan, values } = await calls.weightsOf(data, key, device);
    await waitFor(this.writeWeights(plan, values), `the weights of key ${key}`, this.#parts.clock, options);
  }

  /** For the calls of threads as well. */
  async writeWeights(plan: KeyPlan, values: RowArray): Promise<void> {
    const { level, backend, builtIn, levelTwo } = this.#open();
    if (plan.operation !== "sum" || (builtIn === undefined && levelTwo?.setWeights === undefined))
      throw unsupported(`key ${plan.key} has no weights here: update_on_server is off, or the key gathers`);
    if (builtIn !== undefined) checkSettable(plan, builtIn);
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
    if (!this.#params.testOnServer) throw badArgument("checkWeight needs setParam('test_on_server', 1)");
  }

  removeDevice(device: number, reason: unknown = "it was removed"): void {
    this.#lose(this.#positionOf(device), device, reason);
  }

  /** The position of any device of the model. Throws BAD_ARGUMENT. */
  #positionOf(device: number): number {
    const { devices } = this.#open();
    const position = devices.indexOf(device);
    if (position < 0) throw badArgument(`device ${showValue(device)}: the devices are ${devices.join(", ")}`);
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
   * A thread is about to run a device (OwnerModel.M3): what it is given, and what to call when it has ended. Throws
   * BAD_ARGUMENT, UNSUPPORTED for devices that have no threads.
   */
  openThread(device: number, port: ThreadPort): { readonly grant: DeviceGrant; ended(reason: unknown): void } {
    const { devices, memory, rules, level, cpu } = this.#open();
    const position = this.#positionOf(device);
    if (cpu === undefined) throw unsupported("only CPU devices can run in threads of their own");
    if (this.#threads.has(device)) throw badArgument(`device ${device} has a thread already`);
    if (!level.isLive(position)) throw badArgument(`device ${device} has ended`);
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
    if (!this.#keepsTrace) throw badArgument("there is a trace if the model has the option trace: true");
    return traceOf(this.#told());
  }

  #told(): Parameters<typeof statisticsOf>[0] {
    const { level, devices, calls } = this.#open({ isClosedToo: true });
    return { meter: level.meter, devices, isLive: (position) => level.isLive(position), plans: calls.plans };
  }

  /** Resolves when all is closed, every time; who calls it first hears what failed. */
  async close(): Promise<void> {
    if (this.#closing !== undefined) await this.#closing.catch(() => {});
    else {
      this.#closing = this.#close();
      await this.#closing;
    }
  }

  async #close(): Promise<void> {
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

  #open({ isClosedToo = false }: { readonly isClosedToo?: boolean } = {}): OpenedModel<Data> {
    if (this.#isClosed && !isClosedToo) throw closed();
    if (this.#opened === undefined) throw badArgument("call init first, and wait for it");
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
    throw badArgument(`init takes a list of 1 to ${DEVICES_MAX} devices, not ${showValue(devices)}`);
  const wrong = devices.find((device) => !(Number.isSafeInteger(device) && device >= 0));
  if (wrong !== undefined) throw badArgument(`a device is a whole number from 0 up, not ${showValue(wrong)}`);
  const twice = devices.find((device, i) => devices.indexOf(device) !== i);
  if (twice !== undefined) throw badArgument(`device ${twice} is listed twice`);
}

function oneOf(name: string, choices: readonly string[], value: unknown): void {
  if (!choices.includes(value as string))
    throw badArgument(`${name} is one of ${choices.join(", ")}, not ${showValue(value)}${didYouMean(value, choices)}`);
}

function closed(): WeighbridgeError {
  return new WeighbridgeError("CLOSED", "the shared model was closed");
}
