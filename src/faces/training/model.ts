// model — a network with its loss and optimizer, and its operations: train, evaluate, predict (MindSpore: Model). With
// a session the parameters that setParamPs has marked live on servers and all workers train together; without one
// everything lives in this process.
//
// Invariants:
//   Model.M1. Options, shapes and labels are checked before the first step.
//   Model.M2. One operation at a time: a second call while one is under way is refused.
//   Model.M3. While a callback runs, its training stands still, and the callback may read the model (`eval`, `predict`,
//       `encode`): one after the other, by the training's session. The training goes on when they are over.

import type { Session } from "../../api/session.ts";
import { bytesOf, joinBytes } from "../../base/bytes.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, unsupported, type WeighbridgeError } from "../../base/errors.ts";
import { type Complete, checkOptions } from "../../base/known-options.ts";
import { type Log, type Logger, SILENT_LOG } from "../../base/log.ts";
import type { Activations } from "../../nn/activations.ts";
import { initializeParameters } from "../../nn/parameter.ts";
import { type Consistency, engineConsistency } from "../../store/consistency.ts";
import { type OptimizerName, type OptimizerSpec, resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { TrainingCallback, TrainingView } from "./callbacks/callback.ts";
import { CallbackCalls, type TrainingFailure } from "./callbacks/callback-calls.ts";
import { checkDataset, type Dataset, readIdBatch, readSamples } from "./dataset.ts";
import {
  type DevicePlan,
  type DeviceStarter,
  type DevicesOptions,
  type DevicesSite,
  planDevices,
  TrainingDevices,
} from "./devices/training-devices.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import { alignClocks, epochRendezvous } from "./epoch-end.ts";
import { nextTurnOf, unlessAborted } from "./event-loop.ts";
import type { Metric } from "./metrics.ts";
import { decodeModel, encodeModel } from "./model-file.ts";
import { checkLoss, checkNetwork, type Loss, lookupsOf, type Network, parametersOf } from "./network.ts";
import { checkNames, OpenNetwork } from "./open-network.ts";
import { StepRunner } from "./step-runner.ts";
import { StepTimes } from "./step-times.ts";
import { checkEpochs, Trainer, type TrainingResult } from "./trainer.ts";
import { checkFirstStep, checkNotEnded, cutBatch, openFeed, resumedFeed, UnitReader } from "./unit-feed.ts";

/** How a model is trained. */
export type ModelOptions = {
  /** What the training makes smaller. */
  readonly loss: Loss;
  /** One for all, or one for each parameter by its name. A bare name stands for the defaults of that optimizer. */
  readonly optimizer: OptimizerName | OptimizerSpec | ((parameterName: string) => OptimizerName | OptimizerSpec);
  /** By the names that `eval` returns. */
  readonly metrics?: Readonly<Record<string, Metric>> | undefined;
  /** Of first values; 1 by default. All workers have the same. */
  readonly seed?: number | undefined;
  /**
   * Gets the warnings of the training: pino's, `console`, or an object with the same four methods. Defaults to the log
   * of the session.
   */
  readonly logger?: Logger | undefined;
};

/** Where a model's parameters live, and how long to wait for them. */
export type OpenOptions = {
  /** Left out: everything lives in this process. */
  readonly session?: Session | undefined;
  /** Of parameters on servers; "bsp" by default. */
  readonly consistency?: Consistency | undefined;
  /** How long one wait for servers or workers may take; two minutes by default. */
  readonly timeoutMs?: number | undefined;
  /** How long transient failures (a server that restarts) are retried; one minute by default. */
  readonly patienceMs?: number | undefined;
  /** Ends a call that waits, with ABORTED. */
  readonly signal?: AbortSignal | undefined;
};

/** How a training runs. */
export type TrainOptions = OpenOptions & {
  /**
   * Threads of this process that compute the gradients of each batch together; 1 by default. A network that is not made
   * of built-in layers needs a module that makes it in every thread. Several devices have no lookups, no batch norm and
   * no overlap.
   */
  readonly devices?: number | DevicesOptions | undefined;
  /** Overlap communication with computing. False by default: measure before you turn it on. */
  readonly overlap?: boolean | undefined;
  /** Samples of a global batch, of all workers together. */
  readonly batchSize: number;
  /** Of the order of samples; 1 by default. All workers have the same. */
  readonly shuffleSeed?: number | undefined;
  /** Called before and after the training, its epochs and its steps, in this order. */
  readonly callbacks?: readonly TrainingCallback[] | undefined;
  /** Names the units of its epochs; "training" by default. A second training needs another name or later epochs. */
  readonly name?: string | undefined;
  /** The first epoch, from 0: to resume a training. */
  readonly firstEpoch?: number | undefined;
  /** The first step of that epoch, from 0; those before it are done. */
  readonly firstStep?: number | undefined;
};

/** `notFinite`: the error of these samples. */
type UseOutputs = (outputs: Activations, labels: Float32Array, notFinite: (what: string) => WeighbridgeError) => void;

const OPEN_OPTIONS: readonly (keyof OpenOptions)[] = ["session", "consistency", "timeoutMs", "patienceMs", "signal"];
const TRAIN_OPTIONS: readonly (keyof TrainOptions)[] = [
  ...OPEN_OPTIONS,
  "devices",
  "overlap",
  "batchSize",
  "name",
  "shuffleSeed",
  "callbacks",
  "firstEpoch",
  "firstStep",
];
const DEADLINE_MS = 120_000;
const PATIENCE_MS = 60_000;
/** The mark of a worker that stops the training. */
const STOP = "stop";

type PausedTraining = { readonly open: OpenNetwork; readonly runner: StepRunner; reading: Promise<unknown> | undefined };

/** What stands around a model, injected. */
export type ModelParts = {
  /** Left out: a model has one device. */
  readonly deviceStarter?: DeviceStarter;
  /** Left out: a model has no logger of its own. Throws BAD_ARGUMENT for what is no logger. */
  readonly logOf?: (logger: Logger, who: () => string) => Log;
};

/** A network with its loss and its optimizer (MindSpore: Model). */
export class Model {
  /** The network that it trains. */
  readonly network: Network;
  readonly #parts: ModelParts;
  readonly #options: Complete<Omit<ModelOptions, "logger">> & { readonly log: Log | undefined };
  readonly #meter = new StepTimes();
  #opened: OpenNetwork | undefined;
  /** As JSON: the consistency it was opened with. */
  #consistency = "";
  #isBusy = false;
  /** Of the training whose callback runs now, if one does (Model.M3). */
  #paused: PausedTraining | undefined;

  /** @internal */
  constructor(network: Network, options: ModelOptions, parts: ModelParts = {}) {
    checkOptions(options, ["loss", "optimizer", "metrics", "seed", "logger"], "the options of a Model");
    const { loss, optimizer, metrics = {}, seed = 1, logger } = options;
    checkNetwork(network);
    checkLoss(loss);
    checkNames(network);
    for (const { name } of parametersOf(network)) resolveOptimizer(typeof optimizer === "function" ? optimizer(name) : optimizer);
    this.network = network;
    this.#parts = parts;
    const log = logger === undefined ? undefined : parts.logOf?.(logger, () => `worker ${this.#opened?.session?.rank ?? 0}`);
    this.#options = { loss, optimizer, metrics, seed, log };
    initializeParameters(network.workspace, parametersOf(network), seed);
  }

  /** Trains on a data set, with all other workers of the session. Rejects with NOT_FINITE if the loss is not finite. */
  async train(epochCount: number, dataset: Dataset, options: TrainOptions): Promise<TrainingResult> {
    checkOptions(options, TRAIN_OPTIONS, "the options of a training");
    const { batchSize, session, callbacks = [], overlap: overlaps = false, devices: wanted = 1 } = options;
    const { name = "training", shuffleSeed: seed = 1, firstEpoch = 0, firstStep = 0 } = options;
    checkEpochs(epochCount, firstEpoch);
    checkDataset(dataset, this.network, this.#options.loss); // Model.M1
    const { staleness, updates } = engineConsistency(options.consistency ?? "bsp");
    const inRounds = session !== undefined && updates === "sync";
    const cut = cutBatch({ batchSize, workerCount: session?.workerCount ?? 1, inRounds }, this.network);
    const { partCount, partsMax, unitSizeMax: unitSize } = cut;
    const reader = new UnitReader(dataset, this.network, { batchSize, seed, ...cut });
    checkFirstStep(firstStep, reader.batchCount);
    const plan = planDevices({ devices: wanted, network: this.network, loss: this.#options.loss, unitSize, overlaps });
    checkNotEnded(session, name, { firstEpoch, epochCount });
    const wait = waitOf(options);
    const units = { name, batchCount: reader.batchCount, partCount, partsMax, assignment: inRounds ? "rounds" : "free" } as const;
    const train = async (devices: TrainingDevices | undefined): Promise<TrainingResult> => {
      const open = await this.#open(options);
      const [runner, view] = [this.#runnerOf(open, overlaps, devices), this.#viewOf(open)];
      const calls = new CallbackCalls({ callbacks, view, pause: async (hooks) => await this.#pausing(open, runner, hooks) });
      const trainer = new Trainer({
        ...{ network: this.network, open, runner, reader, meter: this.#meter, overlaps, callbacks: calls, epochCount, firstEpoch, wait },
        leaving: session,
        openFeed: async (epoch) => resumedFeed(await openFeed(session, { ...units, epoch }, wait), epoch === firstEpoch ? firstStep : 0),
        align: async (epoch) => {
          if (session !== undefined && staleness !== undefined) await alignClocks(session, { name, epoch }, wait);
        },
        rendezvousOf: (epoch, isStopping) => epochRendezvous(session!, { name: isStopping ? `${name}.stop` : name, epoch }, wait),
        anyStops: async (epoch, isStopping) => {
          if (session === undefined || staleness === undefined) return isStopping; // asp: workers wait for no other
          const end = { name: `${name}.stop`, epoch };
          // A callback of another worker may take as long as it likes.
          const came = await alignClocks(session, end, { signal: options.signal }, isStopping ? STOP : "");
          return came.some(({ mark }) => mark === STOP);
        },
      });
      open.kernels.crew = devices?.crew;
      try {
        return await withHooks(calls, () => trainer.run());
      } finally {
        open.kernels.crew = undefined;
      }
    };
    const site = { unitSize, hasOthers: session !== undefined };
    return await this.#alone(async () => (plan === undefined ? await train(undefined) : await this.#withDevices(plan, site, wait, train)));
  }

  /** Throws UNSUPPORTED where there are no threads. */
  async #withDevices<T>(
    plan: DevicePlan,
    site: Pick<DevicesSite, "unitSize" | "hasOthers">,
    wait: WaitOptions,
    run: (devices: TrainingDevices) => Promise<T>,
  ): Promise<T> {
    const { deviceStarter: starter } = this.#parts;
    if (starter === undefined) throw unsupported(`this model has one device, not ${plan.count}`);
    const devices = await TrainingDevices.open(plan, { network: this.network, loss: this.#options.loss, starter, ...site }, wait);
    try {
      return await run(devices);
    } finally {
      await devices.close();
    }
  }

  /** The metrics and the mean "loss" of a data set, with the current parameters. Rejects with NOT_FINITE. */
  async eval(dataset: Dataset, options: OpenOptions = {}): Promise<Readonly<Record<string, number>>> {
    const { loss, metrics } = this.#options;
    checkDataset(dataset, this.network, loss);
    let lossSum = 0;
    for (const metric of Object.values(metrics)) metric.clear();
    await this.#predict(dataset, options, (outputs, labels, notFinite) => {
      const value = loss.compute(outputs, labels, 1);
      // The greatest of outputs that are NaN is no answer.
      if (!Number.isFinite(value)) throw notFinite(`the loss is ${value}`);
      lossSum += value;
      for (const metric of Object.values(metrics)) metric.update(outputs, labels);
    });
    const values = Object.entries(metrics).map(([name, metric]) => [name, metric.value] as const);
    return { loss: lossSum / dataset.sampleCount, ...Object.fromEntries(values) };
  }

  /** The outputs for all samples of a data set, one after the other. */
  async predict(dataset: Dataset, options: OpenOptions = {}): Promise<Float32Array> {
    checkDataset(dataset, this.network, this.#options.loss);
    const rows: Uint8Array[] = [];
    await this.#predict(dataset, options, (outputs) => rows.push(bytesOf(outputs.current).slice()));
    return new Float32Array(joinBytes(rows).buffer);
  }

  /** All that lives in this process, as a safetensors file; undefined when everything is on servers. */
  async encode(options: OpenOptions = {}): Promise<Uint8Array | undefined> {
    return await this.#reading(options, async (open) => await this.#viewOf(open).encode());
  }

  /** Loads what `encode` returned. Throws CHECKPOINT_TORN, CHECKPOINT_FOREIGN, naming `file`. */
  async decode(bytes: Uint8Array, file: string, options: OpenOptions = {}): Promise<void> {
    await this.#alone(async () => {
      const open = await this.#openAgain(options);
      await this.#runnerOf(open, false).settle();
      decodeModel(bytes, file, this.network, open);
    });
  }

  /** Releases what was opened; values stay where they are. The session stays open. */
  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    await opened?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #predict(dataset: Dataset, options: OpenOptions, use: UseOutputs): Promise<void> {
    await this.#reading(options, async (open) => {
      const runner = this.#runnerOf(open, false);
      await runner.settle();
      await open.reading(async () => {
        for (let from = 0; from < dataset.sampleCount; from += this.network.sampleCountMax) {
          await nextTurnOf(`before sample ${from}`, options.signal); // parameters that are here need no wait
          const { labels, ids } = await unlessAborted(this.#readFrom(dataset, from), "while samples were read", options.signal);
          const outputs = await runner.predict(ids);
          use(outputs, labels, (what) => runner.notFinite(what, `samples ${from} to ${from + labels.length - 1}`));
        }
      });
    });
  }

  /** Samples from one on, as many as a batch may have. */
  async #readFrom(dataset: Dataset, from: number): Promise<{ readonly labels: Float32Array; readonly ids: IdBatch | undefined }> {
    const { sampleCountMax, idsPerSample } = this.network;
    const indexes = Uint32Array.from({ length: Math.min(sampleCountMax, dataset.sampleCount - from) }, (_, i) => from + i);
    const labels = new Float32Array(indexes.length);
    await readSamples(dataset, this.network, indexes, labels);
    return { labels, ids: idsPerSample === 0 ? undefined : await readIdBatch(dataset, this.network, indexes) };
  }

  /** Runs the hooks of callbacks while the training stands still (Model.M3). */
  async #pausing(open: OpenNetwork, runner: StepRunner, hooks: () => Promise<void>): Promise<void> {
    const paused: PausedTraining = { open, runner, reading: undefined };
    this.#paused = paused;
    try {
      await hooks();
    } finally {
      await paused.reading?.catch(() => {}); // its caller gets the failure
      this.#paused = undefined;
    }
  }

  /** An operation that changes no parameter: alone, or in a callback (Model.M3). */
  async #reading<T>(options: OpenOptions, run: (open: OpenNetwork) => Promise<T>): Promise<T> {
    const paused = this.#paused;
    if (paused === undefined || paused.reading !== undefined)
      return await this.#alone(async () => await run(await this.#openAgain(options)));
    const reading = this.#readingBeside(paused, options, run).finally(() => {
      paused.reading = undefined;
    });
    paused.reading = reading;
    return await reading;
  }

  async #readingBeside<T>({ open, runner }: PausedTraining, options: OpenOptions, run: (open: OpenNetwork) => Promise<T>): Promise<T> {
    checkOptions(options, OPEN_OPTIONS, "the options of a model");
    const { session = open.session, consistency } = options;
    if (session !== open.session || (consistency !== undefined && JSON.stringify(consistency) !== this.#consistency))
      throw badArgument("a callback reads the model with the session and the consistency of its training: leave both out");
    await runner.acknowledge(); // rows of other samples take the place of those whose gradients are under way
    const { patience } = open;
    open.patience = { wait: waitOf(options), patienceMs: options.patienceMs ?? PATIENCE_MS };
    try {
      return await run(open);
    } finally {
      open.patience = patience;
    }
  }

  /** Model.M2 */
  async #alone<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isBusy) throw badArgument("a model runs one operation at a time, and this one is busy");
    this.#isBusy = true;
    try {
      return await run();
    } finally {
      this.#isBusy = false;
    }
  }

  /** Opens the network, unless it is open in this way already. */
  async #open(options: OpenOptions): Promise<OpenNetwork> {
    const { session, consistency = "bsp", patienceMs = PATIENCE_MS } = options;
    engineConsistency(consistency);
    const patience = { wait: waitOf(options), patienceMs };
    const [opened, wanted] = [this.#opened, JSON.stringify(consistency)];
    if (opened?.session === session && (session === undefined || this.#consistency === wanted) && opened !== undefined) {
      opened.patience = patience;
      return opened;
    }
    await this.close();
    const { optimizer, seed, log } = this.#options;
    const optimizerOf = (name: string): OptimizerName | OptimizerSpec => (typeof optimizer === "function" ? optimizer(name) : optimizer);
    const open = await OpenNetwork.open(
      { network: this.network, session, optimizerOf, seed, consistency, log: log ?? session?.log },
      patience,
    );
    this.#opened = open;
    this.#consistency = wanted;
    return open;
  }

  /** Uses the open network, unless the options differ. */
  async #openAgain(options: OpenOptions): Promise<OpenNetwork> {
    checkOptions(options, OPEN_OPTIONS, "the options of a model");
    const opened = this.#opened;
    if (opened === undefined || "session" in options) return await this.#open(options);
    return await this.#open({ session: opened.session, consistency: JSON.parse(this.#consistency) as Consistency, ...options });
  }

  #runnerOf(open: OpenNetwork, overlaps: boolean, devices?: TrainingDevices): StepRunner {
    return new StepRunner({ network: this.network, loss: this.#options.loss, open, overlaps, devices, meter: this.#meter });
  }

  #viewOf(open: OpenNetwork): TrainingView {
    const { session } = open;
    return {
      rank: session?.rank ?? 0,
      isDistributed: session !== undefined,
      log: this.#options.log ?? session?.log ?? SILENT_LOG,
      keepsRows: session !== undefined && lookupsOf(this.network).some(({ options }) => options.vocabCacheSize > 0),
      checkpoint: async (options) => {
        if (session !== undefined) return await session.checkpoint(options).saved;
        throw unsupported("a model that is trained alone has no servers to save it");
      },
      encode: async () => {
        await this.#runnerOf(open, false).settle();
        return encodeModel(this.network, open);
      },
    };
  }
}

/** Calls the begin hooks, and each end hook once, however it ends. Throws the first error. */
async function withHooks(calls: CallbackCalls, run: () => Promise<TrainingResult>): Promise<TrainingResult> {
  let [result, failure]: [TrainingResult | undefined, TrainingFailure | undefined] = [undefined, undefined];
  try {
    await calls.begin();
    result = await run();
  } catch (thrown) {
    failure = { thrown };
  }
  failure = await calls.end(failure);
  if (failure !== undefined) throw failure.thrown;
  return result!;
}

function waitOf({ timeoutMs = DEADLINE_MS, signal }: OpenOptions): WaitOptions {
  return { timeoutMs, signal };
}
