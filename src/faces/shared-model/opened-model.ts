// opened-model — what a shared model consists of once `init` has opened it: level 1 over the memory of its devices, the
// backend that keeps their data, and what completes a round, as the options and parameters say. Not what is done with
// it: owner-model.ts.

import type { Clock } from "../../base/clock.ts";
import { type WaitOptions, waitFor } from "../../base/deferred.ts";
import { badArgument, reasonOf, unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { CpuBackend, type CpuBackendOptions, type CpuMemory, createCpuMemory } from "../../worker/level-one/cpu-backend.ts";
import type { RoundRules } from "../../worker/level-one/key-rounds.ts";
import { LevelOne, levelOneMemory } from "../../worker/level-one/level-one.ts";
import type { LevelTwo } from "../../worker/level-one/level-two.ts";
import type { ModelBackend } from "../../worker/level-one/model-backend.ts";
import { createMeterMemory } from "../../worker/level-one/model-meter.ts";
import { type ModelMemory, ModelWords, OWNER } from "../../worker/level-one/model-words.ts";
import { builtInUpdater, isBuiltIn, ownUpdater, updaterLevel } from "./chosen-updater.ts";
import { DeviceCalls } from "./device-calls.ts";
import type { Connect, ModelLevel } from "./model-level.ts";
import type { ModelParams } from "./model-params.ts";
import type { ChromeTrace } from "./model-statistics.ts";
import type { ModelInitOptions, SharedModelOptions } from "./shared-model.ts";

/** What stands around the face, injected. */
export type ModelParts = {
  readonly clock: Clock;
  /** Milliseconds of a clock that all threads share. */
  readonly timeline: () => number;
  /** Makes the backend for a device other than "cpu". Left out: there is none. */
  readonly backendOf?: (device: string, choice: { readonly dtype: RowElement }) => ModelBackend;
  /** Joins the cluster, for "dist". Left out: there is none but that of the option session. */
  readonly connect?: Connect;
  /** Writes the trace when the model closes. Left out: there are no files. */
  readonly writeTrace?: (path: string, trace: ChromeTrace) => Promise<void>;
};

/** What was chosen before `init`, and by it. */
export type ModelChoice = {
  readonly options: SharedModelOptions;
  readonly params: ModelParams;
  readonly keepsTrace: boolean;
  /** What stands above level 1, for "dist". */
  readonly dist: ModelLevel | undefined;
  readonly devices: readonly number[];
  /** Those that the owner's thread runs, now and later. */
  readonly own: ReadonlySet<number>;
};

export type OpenedModel<Data extends object> = {
  readonly devices: readonly number[];
  readonly memory: ModelMemory;
  readonly rules: RoundRules;
  readonly level: LevelOne<Data>;
  readonly backend: ModelBackend<Data>;
  readonly calls: DeviceCalls<Data>;
  /** For threads; undefined for devices that have none. */
  readonly cpu: { readonly memory: CpuMemory; readonly options: CpuBackendOptions } | undefined;
  /** The updater that the backend runs. */
  readonly builtIn: ResolvedOptimizer | undefined;
  readonly levelTwo: LevelTwo | undefined;
};

/**
 * Opens what a model consists of. Throws BAD_ARGUMENT, UNSUPPORTED and what backend, level 2 and updater reject with:
 * nothing is left open then, however late they come to an end.
 */
export async function openModel<Data extends object>(
  choice: ModelChoice,
  parts: ModelParts,
  init: ModelInitOptions,
): Promise<OpenedModel<Data>> {
  const opened = prepare<Data>(choice, parts);
  const { backend, devices } = opened;
  const { timeoutMs, signal } = init;
  const opening = (async () => await backend.open(devices))();
  try {
    const work = start(opening, opened, choice, init);
    await waitFor(work, "init of the shared model", parts.clock, { timeoutMs, signal });
    return opened;
  } catch (thrown) {
    void opening.catch(() => {}).then(async () => await backend.close()); // nobody waits for it any more
    throw thrown;
  }
}

function prepare<Data extends object>(choice: ModelChoice, parts: ModelParts): OpenedModel<Data> {
  const { options, params, dist, devices, own } = choice;
  const { onDeviceLoss = "fail", dtype = "f32", initialWeight = 0 } = options;
  const updater = usedUpdater(choice);
  const optimizer = updater !== undefined && isBuiltIn(updater) ? builtInUpdater(updater) : undefined;
  const memory = levelOneMemory(devices.length);
  const { deviceCount, keyCountMax } = memory;
  const rules: RoundRules = {
    ...{ threadsMax: params.reduceThreads, goesOn: onDeviceLoss === "continue", devices },
    ...{ oneReduceAtATime: params.oneReduceAtATime, oneHandOutAtATime: params.oneHandOutAtATime },
  };
  const { backend, cpu } = openBackend<Data>(choice, parts, memory, optimizer);
  const builtIn = optimizer !== undefined && backend.runsUpdater(optimizer) ? optimizer : undefined;
  const inPlace = updater === undefined || builtIn !== undefined ? undefined : updaterLevel(updater, { dtype, initialWeight });
  const levelTwo = dist ?? inPlace;
  const { clock, timeline } = parts;
  const meter = createMeterMemory({ deviceCount, keyCountMax, keepsEvents: choice.keepsTrace });
  const level = new LevelOne<Data>({ memory, meter, thread: OWNER, rules, backend, clock, timeline, levelTwo });
  const calls = new DeviceCalls(level, backend, devices, own);
  return { devices, memory, rules, level, backend, calls, cpu, builtIn, levelTwo };
}

/** The updater that runs in this process, if one does. Throws BAD_ARGUMENT. */
function usedUpdater({ options: { updater }, params, dist }: ModelChoice): SharedModelOptions["updater"] {
  const updates = params.updateOnServer ?? updater !== undefined;
  if (updates && updater === undefined)
    throw badArgument("update_on_server needs the option updater: what the sum of a round does to the weights");
  if (!updates && updater !== undefined && dist !== undefined)
    throw badArgument('the updater of a "dist" model cannot be off: leave it out');
  return updates && dist === undefined ? updater : undefined;
}

function openBackend<Data extends object>(
  { options: { device = "cpu", dtype = "f32", memoryBytesMax }, params }: ModelChoice,
  { backendOf }: ModelParts,
  memory: ModelMemory,
  optimizer: ResolvedOptimizer | undefined,
): Pick<OpenedModel<Data>, "backend" | "cpu"> {
  if (device !== "cpu") {
    const backend = backendOf?.(device, { dtype });
    if (backend === undefined) throw unsupported(`device: ${JSON.stringify(device)} is not offered here`);
    return { backend: backend as unknown as ModelBackend<Data>, cpu: undefined };
  }
  const { deviceCount, keyCountMax } = memory;
  const options: CpuBackendOptions = {
    ...{ dtype, threadCount: deviceCount + 1, keyCountMax, bigArrayLength: params.bigArrayLength },
    updater: dtype === "f32" ? optimizer : undefined, // others have no kernels
  };
  const cpu = { memory: createCpuMemory(options, memoryBytesMax), options };
  const words = new ModelWords(memory, OWNER);
  const backend = new CpuBackend(cpu.memory, options, { thread: OWNER, exclusively: (act) => words.locked(act) });
  return { backend: backend as unknown as ModelBackend<Data>, cpu };
}

/** Whatever must have begun before the first key; `opening` is the backend's part of it. */
async function start<Data extends object>(
  opening: Promise<void>,
  { levelTwo }: OpenedModel<Data>,
  { options: { updater }, params, dist }: ModelChoice,
  { args = [], ...wait }: ModelInitOptions,
): Promise<void> {
  await opening;
  await levelTwo?.open?.(wait satisfies WaitOptions);
  const own = params.updateOnServer === false ? undefined : ownUpdater(updater);
  try {
    await own?.initUpdater?.(dist?.rank ?? 0, args);
  } catch (thrown) {
    throw new WeighbridgeError("HANDLER_FAILED", `initUpdater of the updater threw: ${reasonOf(thrown)}`, { cause: thrown });
  }
}
