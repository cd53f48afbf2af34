// device-calls — the calls of the devices that one thread runs, checked: initKey's shape, push, pullReq, pullWait. The
// same in the thread that created the model and in those that run a device of it; level 1 does the rest.

import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import { checkOptions, checkWaitOptions } from "../../base/known-options.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import type { LevelOne, PushRequest } from "../../worker/level-one/level-one.ts";
import type { KeyPlan, ModelBackend } from "../../worker/level-one/model-backend.ts";
import type { PullRequest } from "../../worker/level-one/open-pulls.ts";
import { ItemLists } from "./item-lists.ts";
import type { ModelPushOptions, PullCallback, PulledData, PullItem, PushItem } from "./shared-model.ts";

const PRIORITY_MAX = 2 ** 30;
const LENGTH_MAX = 2 ** 30;
/** checkWeight: how far apart two weights may be, as a share of the greater. */
const WEIGHT_TOLERANCE = 1e-5;
const PUSHED = "what is pushed";
const PULLED = "what is pulled into";

export class DeviceCalls<Data extends object> {
  readonly level: LevelOne<Data>;
  readonly #backend: ModelBackend<Data>;
  /** All devices of the model, and those of this thread. */
  readonly #devices: readonly number[];
  readonly #own: ReadonlySet<number>;
  readonly #plans = new Map<number, KeyPlan>();
  readonly #pushLists: ItemLists<PushItem<Data>, PushRequest<Data>>;
  readonly #pullLists: ItemLists<PullItem<Data>, PullRequest<Data>>;

  constructor(level: LevelOne<Data>, backend: ModelBackend<Data>, devices: readonly number[], own: ReadonlySet<number>) {
    this.level = level;
    this.#backend = backend;
    this.#devices = devices;
    this.#own = own;
    const epoch = (): number | undefined => backend.dataEpoch;
    this.#pushLists = new ItemLists({
      ...{ names: ["data", "key", "priority", "after"], what: "the items of pushAll" },
      requestOf: ({ data, key, priority = 0, after }, position) => this.#pushOf(data, key, position, priority, after),
      isSame: (a, b) => a.data === b.data && a.key === b.key && a.priority === b.priority && a.after === b.after,
      recheck: ({ data, plan }) => this.#checkData(data, plan.length, PUSHED, plan.key),
      epoch,
    });
    this.#pullLists = new ItemLists({
      ...{ names: ["data", "key", "priority", "callback"], what: "the items of pullAll" },
      requestOf: ({ data, key, priority = 0, callback }, position) => this.#pullOf(data, key, position, priority, callback),
      isSame: (a, b) => a.data === b.data && a.key === b.key && a.priority === b.priority && a.callback === b.callback,
      recheck: ({ data, plan }) => this.#checkData(data, plan.resultLength, PULLED, plan.key),
      epoch,
    });
  }

  know(plan: KeyPlan): void {
    this.#plans.set(plan.key, this.level.knowKey(plan));
  }

  knows(key: number): KeyPlan | undefined {
    return this.#plans.get(key);
  }

  get plans(): readonly KeyPlan[] {
    return [...this.#plans.values()];
  }

  tensor(shape: readonly number[], device: number): Data {
    checkShape(shape);
    return this.#backend.tensor(shape, this.positionOf(device));
  }

  free(data: Data): void {
    this.#backend.checkData(data, "what free() takes");
    this.#backend.free(data);
  }

  push(data: Data, key: number, device: number, priority = 0, options: ModelPushOptions = {}): void {
    checkOptions(options, ["after"], "the options of a push");
    this.level.push([this.#pushOf(data, key, this.positionOf(device), priority, options.after)]);
  }

  pull(data: Data, key: number, device: number, priority = 0, callback?: PullCallback<Data>): void {
    this.level.pull([this.#pullOf(data, key, this.positionOf(device), priority, callback)]);
  }

  pushAll(items: readonly PushItem<Data>[], device: number): void {
    this.level.push(this.#pushLists.requestsOf(items, this.positionOf(device)));
  }

  pullAll(items: readonly PullItem<Data>[], device: number): void {
    this.level.pull(this.#pullLists.requestsOf(items, this.positionOf(device)));
  }

  #pushOf(data: Data, key: number, device: number, priority: number, after: unknown): PushRequest<Data> {
    const plan = this.#planOf(key);
    this.#checkData(data, plan.length, PUSHED, key);
    checkPriority(priority);
    return { data, plan, device, priority, after };
  }

  #pullOf(data: Data, key: number, device: number, priority: number, callback: PullCallback<Data> | undefined): PullRequest<Data> {
    const plan = this.#planOf(key);
    this.#checkData(data, plan.resultLength, PULLED, key);
    checkPriority(priority);
    if (callback === undefined) return { data, plan, device, priority, callback };
    if (typeof callback !== "function") throw badArgument(`a callback is a function, not ${showValue(callback)}`);
    const pulled = (): PulledData<Data> => ({ data, key, device: this.#devices[device] as number, stream: this.#backend.streamOf(device) });
    return { data, plan, device, priority, callback: () => callback(pulled()) };
  }

  async wait(key: number, device: number, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    const position = this.positionOf(device);
    await this.level.wait(this.#planOf(key), position, wait);
  }

  async waitAll(device: number, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    await this.level.waitAll(this.positionOf(device), wait);
  }

  async checkWeight(data: Data, key: number, device: number): Promise<void> {
    this.positionOf(device);
    const plan = this.#planOf(key);
    this.#checkData(data, plan.resultLength, "what is compared", key);
    const mine = await this.#backend.valuesOf(data);
    const version = this.level.resultOf(plan);
    const values = await this.#backend.borrowResult(plan, version);
    const at = mine.findIndex((value: number | bigint, i: number) => isFarFrom(Number(value), Number(values[i])));
    const actual = at < 0 ? undefined : values[at];
    await this.#backend.returnResult(plan, version, values);
    if (actual !== undefined)
      throw new WeighbridgeError("SPEC_MISMATCH", `key ${key} has ${actual} at ${at} where device ${device} has ${mine[at]}`);
  }

  /** For `setWeight`: what to write. */
  async weightsOf(data: Data, key: number, device: number): Promise<{ readonly plan: KeyPlan; readonly values: RowArray }> {
    this.positionOf(device);
    const plan = this.#planOf(key);
    this.#checkData(data, plan.resultLength, "what the weights are set to", key);
    return { plan, values: await this.#backend.valuesOf(data) };
  }

  /** The position of a device that this thread runs. Throws BAD_ARGUMENT. */
  positionOf(device: number): number {
    const position = this.#devices.indexOf(device);
    if (position >= 0 && this.#own.has(device)) return position;
    const known = position < 0 ? `the devices are ${this.#devices.join(", ")}` : "another thread runs it";
    throw badArgument(`device ${showValue(device)}: ${known}`);
  }

  #planOf(key: number): KeyPlan {
    const plan = this.#plans.get(key);
    if (plan !== undefined) return plan;
    throw new WeighbridgeError("UNKNOWN_PARAMETER", `key ${showValue(key)} is not known: every device calls initKey first`);
  }

  #checkData(data: Data, length: number, what: string, key: number): void {
    this.#backend.checkData(data, what);
    const actual = this.#backend.lengthOf(data);
    if (actual !== length) throw new WeighbridgeError("VALUE_LENGTH", `key ${key}: ${what} has ${length} elements, not ${actual}`);
  }
}

function isFarFrom(value: number, other: number): boolean {
  return !(Math.abs(value - other) <= WEIGHT_TOLERANCE * Math.max(Math.abs(value), Math.abs(other)));
}

function checkPriority(priority: unknown): void {
  if (!(Number.isInteger(priority) && Math.abs(priority as number) < PRIORITY_MAX))
    throw badArgument(`a priority is a whole number between -${PRIORITY_MAX} and ${PRIORITY_MAX}, not ${showValue(priority)}`);
}

/** Returns how many elements it has. Throws BAD_ARGUMENT. */
export function checkShape(shape: readonly number[]): number {
  const isList = Array.isArray(shape) && shape.length > 0 && shape.every((side) => Number.isSafeInteger(side) && side >= 1);
  const length = isList ? shape.reduce((product, side) => product * side, 1) : 0;
  if (!isList || length > LENGTH_MAX)
    throw badArgument(`a shape is a list of whole numbers from 1 up, of at most ${LENGTH_MAX} elements, not ${showValue(shape)}`);
  return length;
}

export function checkKey(key: number): void {
  if (!(Number.isInteger(key) && key >= 0 && key < 2 ** 31))
    throw badArgument(`a key is a whole number from 0 to ${2 ** 31 - 1}, not ${showValue(key)}`);
}
