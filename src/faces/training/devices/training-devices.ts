// training-devices — several threads of one worker that compute the gradients of a unit together: its samples are dealt
// in chunks (chunks.ts), each thread has a replica of the network, all read the same values, and level 1
// (worker/level-one) sums the gradients of the chunks into those of the owner's network. What follows, on servers,
// among workers or here, is that of one device; threads that wait do a part of the sums and of the updates that are
// made here (docs/decisions/0066).
//
// Invariants:
//   TrainingDevices.V1. The owner is device 0. Values change only while no device computes: between `sum` and `begin`.
//   TrainingDevices.V2. Every `begin` is followed by a `sum`, also when a chunk of the owner's has failed, so that all
//       devices are in the same round. The device that computed the last chunk pushes for all devices but the owner's:
//       a device that is held up, and has no chunk, holds nobody up.
//   TrainingDevices.V3. A thread that ends before the training does fails the `sum` that waits for it, and all later
//       ones, with NODE_DEAD and its name.

import type { Clock } from "../../../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../../../base/deferred.ts";
import { badArgument, reasonOf, showValue, WeighbridgeError } from "../../../base/errors.ts";
import { checkOptions } from "../../../base/known-options.ts";
import { SimdOptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import type { Activations } from "../../../nn/activations.ts";
import { describeLoss, describeNetwork } from "../../../nn/built-in-networks.ts";
import type { Parameter } from "../../../nn/parameter.ts";
import { ReplicaWorkspace } from "../../../nn/replica-workspace.ts";
import { Workspace } from "../../../nn/workspace.ts";
import type { RoundRules } from "../../../worker/level-one/key-rounds.ts";
import { LevelOne, levelOneMemory, type PushRequest } from "../../../worker/level-one/level-one.ts";
import { createMeterMemory } from "../../../worker/level-one/model-meter.ts";
import { DEVICES_MAX, OWNER } from "../../../worker/level-one/model-words.ts";
import { type Loss, lookupsOf, type Network, parametersOf } from "../network.ts";
import type { UnitSamples } from "../unit-feed.ts";
import { ChunkRunner } from "./chunk-runner.ts";
import { chunksOf, type Dealing, dealingOf } from "./chunks.ts";
import { createControlMemory, DeviceControl } from "./device-control.ts";
import { type LookTimes, pushesOf, type TrainingGrant } from "./device-loop.ts";
import { createFactorWords, productShapes } from "./gradient-factors.ts";
import { createMaxima, GradientSums, gradientKey, scratchWords } from "./gradient-sums.ts";
import { buildReplica, type Replica, type ReplicaPlan, type ReplicaSource } from "./replica.ts";
import { createLoopWords, type LoopCrew, SharedLoop } from "./shared-loop.ts";

/** On how many threads a training computes, and how each of them gets the network. */
export type DevicesOptions = {
  /** How many threads compute the gradients of a batch together. */
  readonly count: number;
  /**
   * A module whose `createNetwork` and `createLoss` make the network and the loss in every thread. Left out: both are
   * copied, if they are made of our own layers and losses.
   */
  readonly network?: URL | undefined;
};

/** What starts threads, injected. */
export type DeviceStarter = {
  readonly clock: Clock;
  /** Milliseconds of a clock that all threads share. */
  readonly timeline: () => number;
  /** Threads that can run at the same time. */
  readonly coreCount: number;
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
    throw bad(`${lookup?.name ?? "the network"} looks up rows by id, which works on one device only, not on ${count}`);
  const norm = network.stages.find(({ statistics }) => statistics.length > 0);
  if (norm !== undefined) throw bad(`${norm.name} has statistics of whole batches (batch norm), which one device computes, not ${count}`);
}

function bad(what: string): WeighbridgeError {
  return badArgument(`devices: ${what}`);
}

/**
 * How long a thread looks before it sleeps, if nobody else wants its core: longer than the owner needs between two
 * steps.
 */
const LOOK_MS = 1;
/** The same if others may want it: about as long as it takes to be woken. */
const LOOK_MS_SHARED = 0.05;

/** The gradients of all parameters are one. */
const KEYS = 1;

type Grant = Omit<TrainingGrant, "device" | "spans">;

/** What the devices train, and where. */
export type DevicesSite = Replica & {
  readonly unitSize: number;
  readonly starter: DeviceStarter;
  /** Whether servers or other workers take part: their processes may be on this machine. */
  readonly hasOthers: boolean;
};

export class TrainingDevices {
  /** For updates of values: the threads that wait do a part of them. */
  readonly crew: LoopCrew;
  readonly #control: DeviceControl;
  readonly #runner: ChunkRunner;
  readonly #labels: Float32Array;
  readonly #level: LevelOne<Float32Array>;
  readonly #push: PushRequest<Float32Array>;
  readonly #otherPushes: readonly PushRequest<Float32Array>[];
  readonly #sums: GradientSums;
  readonly #positions: ReadonlyMap<Parameter, number>;
  readonly #look: LookTimes;
  readonly #workspaces: Workspace[];
  readonly #threads: DeviceHandle[] = [];
  #isBegun = false;
  /** Whether the owner has computed the last chunk. */
  #isLast = false;

  private constructor(replica: Replica, grant: Grant, starter: DeviceStarter, labels: Float32Array, workspaces: Workspace[]) {
    const { memory, meter, rules, plan, gradients, loop, unit, look } = grant;
    const { network } = replica;
    const { arena } = network.workspace;
    const { clock, timeline } = starter;
    const control = new DeviceControl(grant.control, OWNER);
    this.#control = control;
    this.#runner = new ChunkRunner({ arena, replica, control, unit, gradients, isClaimed: grant.control.dealing.isClaimed });
    this.#positions = new Map(parametersOf(network).map((parameter, i) => [parameter, i]));
    this.#sums = new GradientSums(network.workspace, gradients, OWNER, () => control.chunkCount);
    this.#level = new LevelOne<Float32Array>({ memory, meter, thread: OWNER, rules, clock, timeline, backend: this.#sums, helps: true });
    this.#level.addKey(plan, { hasWeights: false, isExchanged: false });
    const { gradient: data } = parametersOf(network)[0]!;
    this.#push = { data, plan, device: 0, priority: 0, after: undefined };
    this.#otherPushes = pushesOf(rules.devices.length, plan, data);
    this.crew = { loop: new SharedLoop(loop, new SimdOptimizerKernels(arena)), call: () => this.#level.callThreads() };
    this.#labels = labels;
    this.#look = look;
    this.#workspaces = workspaces;
  }

  /** Starts the threads. Throws ARENA_FULL, BAD_ARGUMENT, and NODE_DEAD for a thread that does not come up. */
  static async open(
    { count, source }: DevicePlan,
    { network, loss, unitSize, starter, hasOthers }: DevicesSite,
    wait: WaitOptions,
  ): Promise<TrainingDevices> {
    const { arena } = network.workspace;
    const own = new Workspace({ arena });
    const values = parametersOf(network).map(({ name, address, values: { length } }) => ({ name, address, floatCount: length }));
    const lengths = values.map(({ floatCount }) => floatCount);
    const dealing = dealingOf({
      ...{ deviceCount: count, sampleCountMax: unitSize, usesWeightsOften: hasConvolution(source) },
      gradientBytes: lengths.reduce((sum, length) => sum + length, 0) * Float32Array.BYTES_PER_ELEMENT,
    });
    const sampleCountMax = Math.max(...chunksOf(unitSize, count, dealing).map((chunk) => chunk.count));
    const replica: ReplicaPlan = { source, sampleCountMax, values };
    const replicas: ReplicaWorkspace[] = [];
    let devices: TrainingDevices | undefined;
    try {
      const addresses = [parametersOf(network).map(({ gradientAddress }) => gradientAddress)];
      while (replicas.length < count - 1) {
        const workspace = ReplicaWorkspace.layOut(arena, values);
        replicas.push(workspace);
        const built = await buildReplica(workspace, replica);
        addresses.push(parametersOf(built.network).map(({ gradientAddress }) => gradientAddress));
      }
      while (addresses.length < dealing.chunkCountMax) addresses.push(lengths.map((length) => own.floats(length).address));
      const labels = own.floats(unitSize);
      const { address, shape } = network.input!;
      const unit = { address, shape, labelsAt: labels.address, sampleCountMax: unitSize };
      const scratch = Array.from({ length: count }, () => own.words(scratchWords(dealing.chunkCountMax)).address);
      const shared = sharedMemory(count, dealing, lengths, lookTimes(count, starter, hasOthers));
      const products = productShapes(parametersOf(network), !dealing.isClaimed);
      const factors = createFactorWords(dealing.chunkCountMax, lengths.length);
      const gradients = { lengths, products, factors, addresses, scratch, maxima: createMaxima({ lengths, products }) };
      const grant: Grant = { ...shared, replica, unit, arena: arena.memory, gradients };
      devices = new TrainingDevices({ network, loss }, grant, starter, labels.values, [own, ...replicas]);
      await Promise.all(replicas.map((each, i) => devices!.#start({ ...grant, device: i + 1, spans: each.spans }, starter, wait)));
      return devices;
    } catch (thrown) {
      if (devices === undefined) for (const workspace of [own, ...replicas]) workspace.close();
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
      this.#level.loseDevice(device, failure, device); // TrainingDevices.V3
    };
    this.#threads.push(starter.start(grant, { ready: () => isReady.resolve(), ended }));
    await waitFor(isReady.promise, `device ${device} of the training to start`, starter.clock, wait);
  }

  /** Deals a unit that was read into the network's input, and lets the others begin (TrainingDevices.V1). */
  begin({ sampleCount, labels, globalSize }: UnitSamples): void {
    this.#labels.set(labels);
    this.#isBegun = true;
    this.#control.begin(sampleCount, globalSize);
    this.#level.callThreads();
  }

  /** Computes chunks while there are some. Throws what the network throws. */
  compute(): void {
    this.#isLast = false;
    try {
      this.#isLast = this.#runner.run();
    } catch (thrown) {
      this.#isLast = this.#runner.skip(); // TrainingDevices.V2
      throw thrown;
    }
  }

  /** What the stages gave for the last chunk that was computed here. */
  get outputs(): readonly Activations[] {
    return this.#runner.outputs;
  }

  /**
   * Adds the gradients of all chunks, in the network's own. Returns the sum of their losses; 0 if nothing was begun.
   */
  async sum(wait: WaitOptions): Promise<number> {
    if (!this.#isBegun) return 0;
    this.#isBegun = false;
    this.#level.push([this.#push]);
    if (this.#isLast) this.#level.push(this.#otherPushes);
    this.#level.pull([{ ...this.#push, callback: undefined }]);
    this.#level.help({ isCalled: () => !this.#level.isPulling(0), lookMs: this.#look.withinStepMs, sleeps: false });
    await this.#level.waitAll(0, wait);
    this.#control.endStep();
    return this.#control.loss;
  }

  /** The greatest magnitude of a summed gradient, from `sum` until the gradient changes; NaN or Infinity if one is. */
  magnitudeOf(parameter: Parameter): number {
    return this.#sums.magnitudeOf(this.#positions.get(parameter)!);
  }

  /** Ends the threads, whatever they do, and releases their memory. */
  async close(): Promise<void> {
    this.#level.close();
    await Promise.all(this.#threads.splice(0).map((thread) => thread.stop()));
    for (const workspace of this.#workspaces.splice(0)) workspace.close();
  }
}

/** Its weights are used many times for each sample. */
function hasConvolution(source: ReplicaSource): boolean {
  return source.kind === "built-in" && source.network.layers.some(({ kind }) => kind === "conv");
}

/** Between two steps the servers and workers of a session do their part, perhaps on the same cores. */
function lookTimes(count: number, { coreCount }: Pick<DeviceStarter, "coreCount">, hasOthers: boolean): LookTimes {
  const lookMs = (threadCount: number): number => (threadCount <= coreCount ? LOOK_MS : LOOK_MS_SHARED);
  return { withinStepMs: lookMs(count), betweenStepsMs: lookMs(hasOthers ? count + 1 : count) };
}

/** Level 1 for one key, the gradients of all parameters, and what else the threads share. */
function sharedMemory(
  count: number,
  dealing: Dealing,
  lengths: readonly number[],
  look: LookTimes,
): Pick<Grant, "memory" | "meter" | "rules" | "plan" | "control" | "loop" | "look"> {
  const memory = levelOneMemory(count, KEYS + 1);
  const meter = createMeterMemory({ deviceCount: count, keyCountMax: memory.keyCountMax, keepsEvents: false });
  const devices = Array.from({ length: count }, (_, device) => device);
  const rules: RoundRules = { threadsMax: count, oneReduceAtATime: false, oneHandOutAtATime: false, goesOn: false, devices };
  return {
    ...{ memory, meter, rules, plan: { ...gradientKey(lengths), index: 0 } },
    ...{ control: createControlMemory(count, dealing), loop: createLoopWords(), look },
  };
}
