// training-devices — several threads of one worker that compute the gradients of a unit together: each has a share of its
// samples and a replica of the network, all read the same values, and level 1 (worker/level-one) sums their gradients into
// those of the owner's network. What follows, on servers, among workers or here, is that of one device
// (docs/decisions/0066).
//
// Invariants:
//   TrainingDevices.V1. The owner is device 0. Values change only while no device computes: between `sum` and `begin`.
//   TrainingDevices.V2. Every `begin` is followed by a `sum`, also when the owner's own share has failed, so that all
//       devices are in the same round.
//   TrainingDevices.V3. A thread that ends before the training does fails the `sum` that waits for it, and all later ones,
//       with NODE_DEAD and its name.

import type { Clock } from "../../../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../../../base/deferred.ts";
import { reasonOf, showValue, WeighbridgeError } from "../../../base/errors.ts";
import { checkOptions } from "../../../base/known-options.ts";
import { describeLoss, describeNetwork } from "../../../nn/built-in-networks.ts";
import { ReplicaWorkspace } from "../../../nn/replica-workspace.ts";
import { Workspace } from "../../../nn/workspace.ts";
import { CpuBackend, type CpuBackendOptions, cpuMemoryIn } from "../../../worker/level-one/cpu-backend.ts";
import type { RoundRules } from "../../../worker/level-one/key-rounds.ts";
import { LevelOne, levelOneMemory, type PushRequest } from "../../../worker/level-one/level-one.ts";
import { createMeterMemory } from "../../../worker/level-one/model-meter.ts";
import { DEVICES_MAX, ModelWords, OWNER } from "../../../worker/level-one/model-words.ts";
import type { PullRequest } from "../../../worker/level-one/open-pulls.ts";
import { type Loss, lookupsOf, type Network, parametersOf } from "../network.ts";
import type { UnitSamples } from "../unit-feed.ts";
import { createControlMemory, DeviceControl } from "./device-control.ts";
import type { TrainingGrant } from "./device-loop.ts";
import { buildReplica, type ReplicaPlan, type ReplicaSource } from "./replica.ts";

/** How many, and the module whose createNetwork and createLoss make the network in every thread. */
export type DevicesOptions = { readonly count: number; readonly network?: URL };

/** What starts threads, injected. */
export type DeviceStarter = {
  readonly clock: Clock;
  /** Milliseconds of a clock that all threads share. */
  readonly timeline: () => number;
  /** Starts a thread that calls `runDevice`. `ended` is called once, with the reason. */
  readonly start: (grant: TrainingGrant, on: { readonly ready: () => void; readonly ended: (reason: unknown) => void }) => DeviceHandle;
};

export type DeviceHandle = {
  /** Resolves when the thread has ended. */
  stop(): Promise<void>;
};

export type DevicePlan = { readonly count: number; readonly source: ReplicaSource };

export type DeviceRequest = {
  readonly devices: number | DevicesOptions;
  readonly network: Network;
  readonly loss: Loss;
  /** The most samples that a unit of this worker has. */
  readonly unitSize: number;
  readonly overlaps: boolean;
};

/** Undefined for one device. Throws BAD_ARGUMENT for what several devices cannot train. */
export function planDevices({ devices, network, loss, unitSize, overlaps }: DeviceRequest): DevicePlan | undefined {
  const { count, network: module } = typeof devices === "object" && devices !== null ? devices : { count: devices };
  if (typeof devices === "object" && devices !== null) checkOptions(devices, ["count", "network"], "devices");
  if (!(Number.isSafeInteger(count) && count >= 1 && count <= DEVICES_MAX))
    throw bad(`expected a whole number from 1 to ${DEVICES_MAX}, got ${showValue(count)}`);
  if (module !== undefined && !(module instanceof URL)) throw bad(`network is the URL of a module, not ${showValue(module)}`);
  if (count === 1) return undefined;
  if (overlaps) throw bad(`overlap is for one device: the gradients of ${count} leave when they are summed`);
  if (unitSize < count) throw bad(`${unitSize} samples of this worker in a batch are fewer than ${count} devices`);
  checkStages(network, count);
  if (!(network.workspace.arena.memory.buffer instanceof SharedArrayBuffer))
    throw bad("the network's memory cannot be shared with threads");
  if (module !== undefined) return { count, source: { kind: "module", url: module.href } };
  const described = { network: describeNetwork(network), loss: describeLoss(loss) };
  for (const each of [described.network, described.loss]) {
    if (typeof each !== "string") continue;
    throw bad(`${each}: another thread cannot build it; devices: { count: ${count}, network: new URL(…) } names a module that can`);
  }
  return { count, source: { kind: "built-in", ...(described as Pick<ReplicaSource & { kind: "built-in" }, "network" | "loss">) } };
}

/** What depends on all samples of a batch, or belongs to one thread. */
function checkStages(network: Network, count: number): void {
  const [lookup] = lookupsOf(network);
  if (lookup !== undefined || network.idsPerSample > 0)
    throw bad(`${lookup?.name ?? "the network"} looks up rows of ids, which one device does, not ${count}`);
  const norm = network.stages.find(({ statistics }) => statistics.length > 0);
  if (norm !== undefined) throw bad(`${norm.name} has statistics of whole batches (batch norm), which one device computes, not ${count}`);
}

function bad(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", `devices: ${what}`);
}

type Level = { readonly level: LevelOne<Float32Array>; readonly grant: Omit<TrainingGrant, "device" | "spans"> };

export class TrainingDevices {
  readonly #network: Network;
  readonly #control: DeviceControl;
  readonly #labels: Float32Array;
  readonly #level: LevelOne<Float32Array>;
  readonly #pushes: readonly PushRequest<Float32Array>[];
  readonly #pulls: readonly PullRequest<Float32Array>[];
  readonly #workspaces: Workspace[];
  readonly #threads: DeviceHandle[] = [];
  #isBegun = false;

  private constructor(network: Network, { level, grant }: Level, labels: Float32Array, workspaces: Workspace[]) {
    this.#network = network;
    this.#level = level;
    this.#control = new DeviceControl(grant.control);
    this.#labels = labels;
    this.#workspaces = workspaces;
    this.#pushes = parametersOf(network).map(({ gradient }, i) => ({
      ...{ data: gradient, plan: grant.plans[i]!, device: 0, priority: 0, after: undefined },
    }));
    this.#pulls = this.#pushes.map((push) => ({ ...push, callback: undefined }));
  }

  /** Starts the threads. Throws ARENA_FULL, BAD_ARGUMENT, and NODE_DEAD for a thread that does not come up. */
  static async open(
    { count, source }: DevicePlan,
    { network, unitSize, starter }: { readonly network: Network; readonly unitSize: number; readonly starter: DeviceStarter },
    wait: WaitOptions,
  ): Promise<TrainingDevices> {
    const { arena } = network.workspace;
    const own = new Workspace({ arena });
    const values = parametersOf(network).map(({ name, address, values: { length } }) => ({ name, address, floatCount: length }));
    const replica: ReplicaPlan = { source, sampleCountMax: Math.ceil(unitSize / count), values };
    const workspaces: Workspace[] = [own];
    let devices: TrainingDevices | undefined;
    try {
      const labels = own.floats(unitSize);
      const { address, shape } = network.input!;
      const unit = { address, shape, labelsAt: labels.address, sampleCountMax: unitSize };
      const level = openLevel(network, own, { count, starter, replica, unit });
      devices = new TrainingDevices(network, level, labels.values, workspaces);
      for (let device = 1; device < count; device++) {
        const workspace = ReplicaWorkspace.layOut(arena, values);
        workspaces.push(workspace);
        await buildReplica(workspace, replica);
        await devices.#start({ ...level.grant, device, spans: workspace.spans }, starter, wait);
      }
      return devices;
    } catch (thrown) {
      if (devices === undefined) for (const workspace of workspaces) workspace.close();
      await devices?.close();
      throw thrown;
    }
  }

  async #start(grant: TrainingGrant, starter: DeviceStarter, wait: WaitOptions): Promise<void> {
    const { device } = grant;
    const isReady = new Deferred<void>();
    isReady.promise.catch(() => {}); // an abort may come first
    this.#level.setHome(device, device);
    const ended = (reason: unknown): void => {
      const text = `device ${device} of the training has ended: ${reasonOf(reason)}`;
      const failure = (): WeighbridgeError => new WeighbridgeError("NODE_DEAD", text, { cause: reason, detail: { device } });
      isReady.reject(failure());
      this.#level.loseDevice(device, failure, device); // V3
    };
    this.#threads.push(starter.start(grant, { ready: () => isReady.resolve(), ended }));
    await waitFor(isReady.promise, `device ${device} of the training to start`, starter.clock, wait);
  }

  /** Deals a unit that was read into the network's input, and lets the others begin. Returns the labels of device 0 (V1). */
  begin({ sampleCount, labels, globalSize }: UnitSamples): Float32Array {
    this.#labels.set(labels);
    this.#isBegun = true;
    this.#control.begin(sampleCount, globalSize);
    const { count } = this.#control.samplesOf(0);
    this.#network.input!.sampleCount = count;
    return labels.subarray(0, count);
  }

  /** Adds the gradients of the others to those of the network. Returns the sum of their losses; 0 if nothing was begun. */
  async sum(wait: WaitOptions): Promise<number> {
    if (!this.#isBegun) return 0;
    this.#isBegun = false;
    this.#level.push(this.#pushes);
    this.#level.pull(this.#pulls);
    this.#control.lookForOthers();
    await this.#level.waitAll(0, wait);
    return this.#control.otherLosses;
  }

  /** Ends the threads, whatever they do, and releases their memory. */
  async close(): Promise<void> {
    this.#level.close();
    await Promise.all(this.#threads.splice(0).map((thread) => thread.stop()));
    for (const workspace of this.#workspaces.splice(0)) workspace.close();
  }
}

type LevelOptions = Pick<TrainingGrant, "replica" | "unit"> & { readonly count: number; readonly starter: DeviceStarter };

/** Level 1 in the network's own memory: gradients are summed where they lie. */
function openLevel(network: Network, workspace: Workspace, { count, starter, replica, unit }: LevelOptions): Level {
  const parameters = parametersOf(network);
  const memory = levelOneMemory(count, parameters.length + 2);
  const meter = createMeterMemory({ deviceCount: count, keyCountMax: memory.keyCountMax, keepsEvents: false });
  const devices = Array.from({ length: count }, (_, device) => device);
  const rules: RoundRules = { threadsMax: 1, oneReduceAtATime: false, oneHandOutAtATime: false, goesOn: false, devices };
  const options: CpuBackendOptions = {
    ...{ dtype: "f32", threadCount: count + 1, keyCountMax: memory.keyCountMax, bigArrayLength: Infinity, updater: undefined },
  };
  const allocate = (byteCount: number): number => workspace.doubles(Math.ceil(byteCount / Float64Array.BYTES_PER_ELEMENT)).address;
  const cpu = { memory: cpuMemoryIn(workspace.arena, options, allocate), options };
  const words = new ModelWords(memory, OWNER);
  const backend = new CpuBackend(cpu.memory, options, { thread: OWNER, exclusively: (act) => words.locked(act), allocate });
  const { clock, timeline } = starter;
  const level = new LevelOne<Float32Array>({ memory, meter, thread: OWNER, rules, clock, timeline, backend: backend as never });
  const plans = parameters.map(({ shape, gradient: { length } }, key) => {
    const spec = { key, shape, length, resultLength: length, operation: "sum" } as const;
    backend.openKey({ ...spec, index: key }, undefined);
    return level.addKey(spec, { hasWeights: false, isExchanged: false });
  });
  return { level, grant: { replica, unit, memory, meter, rules, cpu, plans, control: createControlMemory(count) } };
}
