// server-level — level 2 by servers: each key is a parameter there (server-key.ts), what the devices of this machine
// pushed together goes to its updater, and the weights come back. Eventual unless told otherwise: a worker sees its own
// update, and waits for no other worker.
//
// Under BSP and SSP the clocks of the session are those of the model: a clock ends when every key has been pushed once
// more. A key that is opened later takes part from the clock that has begun.
//
// Invariants:
//   ServerLevel.V1. What a worker gets has seen what it pushed in that round.
//   ServerLevel.V2. A key is at most one round ahead of the clock: its next round begins when this one has come back,
//       which is after the clock's end.
//   ServerLevel.V3. What is pushed is not written while it may still be sent again: answers land in an array of their
//       own, and are copied once.

import { assert } from "../../base/assert.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, reasonAndSite, showValue, WeighbridgeError } from "../../base/errors.ts";
import { copyElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { Consistency } from "../../store/consistency.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import type { PsUpdater, UpdaterSettings } from "../../store/updaters/ps-updater.ts";
import type { CompletedRound } from "../../worker/level-one/level-two.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import type { DistSession, ModelLevel } from "./model-level.ts";
import { isModelUpdater, type ModelUpdater, updaterOfKey } from "./model-updater.ts";
import { openServerKey, type ServerKey } from "./server-key.ts";

export type ServerLevelOptions = {
  readonly session: DistSession;
  readonly dtype: RowElement;
  /** The keys are the parameters `name/0`, `name/1` and so on. */
  readonly name: string;
  readonly updater: OptimizerSpec | PsUpdater | ModelUpdater;
  readonly initialWeight: number;
  readonly consistency: Consistency;
};

type OpenKey = { readonly there: ServerKey; readonly landing: RowArray; isPushed: boolean };

export class ServerLevel implements ModelLevel {
  readonly settingNames: readonly string[];
  readonly #options: ServerLevelOptions;
  readonly #settings: Record<string, number | string | boolean> = {};
  readonly #keys = new Map<number, OpenKey>();
  /** Keys that have not been pushed in this clock. */
  #behindCount = 0;
  readonly #closing = new AbortController();

  constructor(options: ServerLevelOptions) {
    this.#options = options;
    const { updater } = options;
    this.settingNames = isModelUpdater(updater) ? Object.keys(updater.ofModel.settings ?? {}) : [];
  }

  get rank(): number {
    return this.#options.session.value.rank;
  }

  setParam(name: string, value: string): void {
    const { updater } = this.#options;
    assert(isModelUpdater(updater), "only an updater of a model has settings");
    this.#settings[name] = settingOf(name, updater.ofModel.settings?.[name], value);
  }

  async open(wait: WaitOptions): Promise<void> {
    await this.#options.session.open(wait);
  }

  async openKey(plan: KeyPlan): Promise<RowArray> {
    const { key, length } = plan;
    const { updater, name, dtype, session, initialWeight, consistency } = this.#options;
    const settings = isModelUpdater(updater) ? { ...updater.ofModel.settings, ...this.#settings } : {};
    const optimizer = isModelUpdater(updater) ? updaterOfKey(updater, key, settings) : updater;
    const { signal } = this.#closing;
    const described = { dtype, name: `${name}/${key}`, plan, optimizer, initialWeight, consistency };
    const there = await openServerKey(session.value, described, { signal });
    const { Array: View, bytes } = ROW_ELEMENTS[dtype];
    const landing: RowArray = new View(new ArrayBuffer(length * bytes));
    if (isModelUpdater(updater) && updater.ofModel.initModel !== undefined) {
      initModel(updater, key, landing, settings);
      await there.start(landing, { signal });
    }
    await there.pull({ into: landing, signal });
    this.#keys.set(key, { there, landing, isPushed: false });
    this.#behindCount++;
    return landing;
  }

  async exchange({ plan: { key }, priority, values }: CompletedRound): Promise<void> {
    const open = this.#keyOf(key);
    const { there, landing } = open;
    const { signal } = this.#closing;
    if (this.#options.consistency === "asp") await there.pushPull(values, { into: landing, priority, signal });
    else await this.#inStep(open, values, { priority, signal });
    copyElements(values, landing);
  }

  /** Pushes, and pulls what the servers will have made of it at the end of the clock. */
  async #inStep(open: OpenKey, values: RowArray, call: { readonly priority: number; readonly signal: AbortSignal }): Promise<void> {
    const { there, landing } = open;
    const calls = [there.push(values, call), there.pull({ into: landing, ...call, clocksAhead: 1 })];
    assert(!open.isPushed, "a key is at most one round ahead of the clock (ServerLevel.V2)");
    open.isPushed = true;
    if (--this.#behindCount === 0) this.#endClock();
    // Both: they use the arrays (ServerLevel.V3).
    const failed = (await Promise.allSettled(calls)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }

  #endClock(): void {
    for (const open of this.#keys.values()) open.isPushed = false;
    this.#behindCount = this.#keys.size;
    this.#options.session.value.clock();
  }

  /** For all workers: the others have them with their next round. */
  async setWeights({ key }: KeyPlan, values: RowArray): Promise<void> {
    await this.#keyOf(key).there.set(values, { signal: this.#closing.signal });
  }

  #keyOf(key: number): OpenKey {
    const open = this.#keys.get(key);
    assert(open !== undefined, `key ${key} was opened`);
    return open;
  }

  async close(): Promise<void> {
    this.#closing.abort(new WeighbridgeError("CLOSED", "the shared model was closed"));
    await this.#options.session.close();
  }
}

function initModel(updater: ModelUpdater, key: number, weights: RowArray, settings: UpdaterSettings): void {
  try {
    updater.ofModel.initModel?.(key, weights, settings);
  } catch (thrown) {
    const what = `initModel of the updater ${updater.name} threw for key ${key}: ${reasonAndSite(thrown)}`;
    throw new WeighbridgeError("HANDLER_FAILED", what, { cause: thrown });
  }
}

/** As the default is. Throws BAD_ARGUMENT. */
function settingOf(name: string, usual: number | string | boolean | undefined, value: string): number | string | boolean {
  if (typeof usual === "string") return value;
  if (typeof usual === "number" && value.trim() !== "" && Number.isFinite(Number(value))) return Number(value);
  if (typeof usual === "boolean" && ["0", "1", "true", "false"].includes(value)) return value === "1" || value === "true";
  throw badArgument(`${name} of the updater is a ${typeof usual}, not ${showValue(value)}`);
}
