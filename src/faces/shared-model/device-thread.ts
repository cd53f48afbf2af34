// device-thread — a thread that runs a device of a shared model: what it is given, what it asks of the owner over its
// port (everything else goes through shared memory), and the model as it sees it.

import type { Clock } from "../../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../../base/deferred.ts";
import { badArgument, type ErrorCode, isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import { CpuBackend, type CpuBackendOptions, type CpuMemory } from "../../worker/level-one/cpu-backend.ts";
import type { RoundRules } from "../../worker/level-one/key-rounds.ts";
import { LevelOne } from "../../worker/level-one/level-one.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import type { MeterMemory } from "../../worker/level-one/model-meter.ts";
import { type ModelMemory, ModelWords } from "../../worker/level-one/model-words.ts";
import type { ThreadPort } from "../../worker/tables/thread-line.ts";
import { DeviceCalls } from "./device-calls.ts";
import { type ChromeTrace, type ModelStatistics, statisticsOf } from "./model-statistics.ts";
import type { DeviceModel, ModelPushOptions, PullCallback, PullItem, PushItem, SharedModelType } from "./shared-model.ts";

/** Plain data that is posted to the thread. */
export type DeviceGrant = {
  readonly type: SharedModelType;
  readonly device: number;
  readonly thread: number;
  readonly devices: readonly number[];
  readonly memory: ModelMemory;
  readonly meter: MeterMemory;
  readonly rules: RoundRules;
  readonly cpu: { readonly memory: CpuMemory; readonly options: CpuBackendOptions };
  readonly testsOnServer: boolean;
};

type ModelRequest =
  | { readonly kind: "initKey"; readonly shape: readonly number[]; readonly key: number }
  | { readonly kind: "setWeight"; readonly plan: KeyPlan; readonly values: RowArray };
type ThreadRequest = (ModelRequest & { readonly requestId: number }) | { readonly kind: "leave" };
type OwnerReply =
  | { readonly requestId: number; readonly plan?: KeyPlan }
  | { readonly requestId: number; readonly code: ErrorCode; readonly message: string; readonly retryable: boolean };

/** What the owner does for threads. */
type Owner = {
  openKey(shape: readonly number[], key: number): Promise<KeyPlan>;
  writeWeights(plan: KeyPlan, values: RowArray): Promise<void>;
};

/** The owner's end of a port. */
export function serveThread(port: ThreadPort, owner: Owner, left: () => void): void {
  const serve = async (request: ModelRequest): Promise<{ readonly plan?: KeyPlan }> => {
    if (request.kind === "initKey") return { plan: await owner.openKey(request.shape, request.key) };
    await owner.writeWeights(request.plan, request.values);
    return {};
  };
  port.onmessage = ({ data }) => {
    const request = data as ThreadRequest;
    if (request.kind === "leave") {
      left();
      return;
    }
    const { requestId } = request;
    serve(request).then(
      (answer) => port.postMessage({ requestId, ...answer } satisfies OwnerReply),
      (thrown: unknown) => {
        const { code, retryable } = isWeighbridgeError(thrown) ? thrown : { code: "HANDLER_FAILED" as const, retryable: false };
        port.postMessage({ requestId, code, message: reasonOf(thrown), retryable } satisfies OwnerReply);
      },
    );
  };
}

export type ThreadParts = {
  readonly port: ThreadPort;
  readonly clock: Clock;
  readonly timeline: () => number;
  /** Keeps the thread alive, or lets it end when it has nothing else to do. */
  readonly keepAlive: (isNeeded: boolean) => void;
};

/** See DeviceModel. */
export class DeviceThread implements DeviceModel<RowArray> {
  readonly type: SharedModelType;
  readonly device: number;
  readonly #grant: DeviceGrant;
  readonly #parts: ThreadParts;
  readonly #calls: DeviceCalls<RowArray>;
  readonly #pending = new Map<number, Deferred<KeyPlan | undefined>>();
  #lastRequest = 0;
  #needs = 0;
  #isClosed = false;

  constructor(grant: DeviceGrant, parts: ThreadParts) {
    const { memory, meter, thread, rules, devices, device, cpu } = grant;
    this.#grant = grant;
    this.#parts = parts;
    this.type = grant.type;
    this.device = device;
    const words = new ModelWords(memory, thread);
    const backend = new CpuBackend(cpu.memory, cpu.options, { thread, exclusively: (act) => words.locked(act) });
    const keepAlive = (isNeeded: boolean): void => this.#need(isNeeded);
    const level = new LevelOne<RowArray>({ memory, meter, thread, rules, backend, ...parts, keepAlive });
    this.#calls = new DeviceCalls(level, backend, devices, new Set([device]));
    parts.port.onmessage = ({ data }) => this.#answered(data as OwnerReply);
    parts.keepAlive(false);
  }

  get devices(): readonly number[] {
    return this.#grant.devices.filter((_, position) => this.#calls.level.isLive(position));
  }

  setParam(name: string): void {
    throw ownersCall(`setParam(${JSON.stringify(name)})`);
  }

  async init(): Promise<void> {
    return await Promise.reject(ownersCall("init"));
  }

  async initKey(shape: readonly number[], key: number, device: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    this.#calls.positionOf(device);
    const plan = await this.#request({ kind: "initKey", shape, key }, `key ${key}`, options);
    if (plan !== undefined) this.#calls.know(plan);
  }

  tensor(shape: readonly number[], device: number): RowArray {
    return this.#calls.tensor(shape, device);
  }

  free(data: RowArray): void {
    this.#calls.free(data);
  }

  push(data: RowArray, key: number, device: number, priority?: number, options?: ModelPushOptions): void {
    this.#calls.push(data, key, device, priority, options);
  }

  pullReq(data: RowArray, key: number, device: number, priority?: number, callback?: PullCallback<RowArray>): void {
    this.#calls.pull(data, key, device, priority, callback);
  }

  pushAll(items: readonly PushItem<RowArray>[], device: number): void {
    this.#calls.pushAll(items, device);
  }

  pullAll(items: readonly PullItem<RowArray>[], device: number): void {
    this.#calls.pullAll(items, device);
  }

  async pullWait(key: number, device: number, options?: WaitOptions): Promise<void> {
    await this.#calls.wait(key, device, options);
  }

  async pullWaitAll(device: number, options?: WaitOptions): Promise<void> {
    await this.#calls.waitAll(device, options);
  }

  async setWeight(data: RowArray, key: number, device: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const { plan, values } = await this.#calls.weightsOf(data, key, device);
    await this.#request({ kind: "setWeight", plan, values: values.slice() }, `the weights of key ${key}`, options);
  }

  async checkWeight(data: RowArray, key: number, device: number): Promise<void> {
    if (!this.#grant.testsOnServer) throw badArgument("checkWeight needs setParam('test_on_server', 1)");
    await this.#calls.checkWeight(data, key, device);
  }

  removeDevice(device: number): void {
    this.#calls.positionOf(device);
    this.#post({ kind: "leave" });
  }

  stats(): ModelStatistics {
    const { level, plans } = this.#calls;
    return statisticsOf({ meter: level.meter, devices: this.#grant.devices, isLive: (position) => level.isLive(position), plans });
  }

  trace(): ChromeTrace {
    throw ownersCall("trace");
  }

  /** The device leaves the model. What it has asked the owner for rejects with CLOSED. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.removeDevice(this.device);
    this.#isClosed = true;
    this.#parts.port.close();
    for (const answer of this.#pending.values()) answer.reject(left());
    this.#pending.clear();
    return await Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #request(request: ModelRequest, what: string, wait: WaitOptions): Promise<KeyPlan | undefined> {
    if (this.#isClosed) throw left(); // nobody would hear it
    const requestId = ++this.#lastRequest;
    const answer = new Deferred<KeyPlan | undefined>();
    this.#pending.set(requestId, answer);
    this.#need(true);
    try {
      this.#post({ ...request, requestId });
      return await waitFor(answer.promise, what, this.#parts.clock, wait);
    } finally {
      this.#pending.delete(requestId);
      this.#need(false);
    }
  }

  #post(request: ThreadRequest): void {
    this.#parts.port.postMessage(request);
  }

  #answered(reply: OwnerReply): void {
    const answer = this.#pending.get(reply.requestId);
    this.#pending.delete(reply.requestId);
    if ("code" in reply) answer?.reject(new WeighbridgeError(reply.code, reply.message, { retryable: reply.retryable }));
    else answer?.resolve(reply.plan);
  }

  #need(isNeeded: boolean): void {
    this.#needs += isNeeded ? 1 : -1;
    if (this.#needs === (isNeeded ? 1 : 0)) this.#parts.keepAlive(isNeeded);
  }
}

function left(): WeighbridgeError {
  return new WeighbridgeError("CLOSED", "this device has left the shared model");
}

function ownersCall(what: string): WeighbridgeError {
  return badArgument(`${what} is called in the thread that created the model`);
}
