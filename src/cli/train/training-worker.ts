// training-worker — a worker of a training job: opens the task, trains its part of every batch together with the
// others, and reports. The live worker of the lowest rank reports for all: losses, checkpoints, and at the end the
// result. Then all leave together: a worker that left early would have ended well while the job may still fail.
//
//   round 0      all workers come
//   round n      the first of those who came to round n - 1 reports and then comes; all others come at once
//                one of them came with REPORTED ──► all leave
//                none did: it has died          ──► round n + 1, with the first of those who are left
//
// Invariants:
//   TrainingWorker.F1. The first worker reports; if it dies meanwhile, the next one does.
//   TrainingWorker.F2. No worker leaves before the report. The reporting worker lives or is known to be dead, and all
//       its waits have deadlines: so this wait ends.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import type { Log, Logger } from "../../base/log.ts";
import type { StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { alignClocks } from "../../faces/training/epoch-end.ts";
import { lookupsOf } from "../../faces/training/network.ts";
import type { TrainingResult } from "../../faces/training/trainer.ts";
import { stepName } from "../../node/checkpoint/checkpoint-directory.ts";
import type { NodeConfig } from "../../node/config/node-config.ts";
import { nodeSessions } from "../../node/node-sessions.ts";
import { textLog } from "../../node/text-log.ts";
import { Model } from "../../node/training-devices.ts";
import { startWorker } from "../../node/worker-root.ts";
import type { WorkerNode } from "../../worker/worker-node.ts";
import { causeOf } from "./process-end.ts";
import { ProgressCheckpoint } from "./progress-checkpoint.ts";
import { ProgressReport } from "./progress-report.ts";
import { type RowHits, sendReport } from "./report.ts";
import type { Task } from "./task.ts";
import { openTask } from "./task-of-plan.ts";
import { reachedText, type TrainPlan } from "./train-plan.ts";
import type { TrainingRole } from "./training-role.ts";

/** How long one wait for the others may take after an epoch or at the end. */
const END_MS = 120_000;

/** Warnings of a training as text, also if the nodes log only errors. */
function textLogger(): Logger {
  const log = textLog({ level: "warn", who: () => "training" });
  const at =
    (level: keyof Log): Logger[keyof Log] =>
    (fields, message) => {
      const { weighbridge: _node, ...others } = fields; // the line says who speaks
      log[level](message, others);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export class TrainingWorker implements TrainingRole {
  readonly #config: NodeConfig;
  readonly #plan: TrainPlan;
  #position = "before the first step";

  constructor(config: NodeConfig, plan: TrainPlan) {
    this.#config = config;
    this.#plan = plan;
  }

  /** How far it is, for people. */
  get position(): string {
    return this.#position;
  }

  /** Runs until the training is done and this worker has left. Throws the error that ends it early. */
  async run(): Promise<void> {
    const task = await openTask(this.#plan); // before the cluster is needed: bad data is reported at once
    sendReport({ kind: "ready", data: task.dataText, model: task.modelText });
    const node = await startWorker(this.#config, { sessions: nodeSessions });
    const session = await Session.open(node);
    session.startRecord();
    const { network, loss, optimizer, metrics } = task;
    const model = new Model(network, { loss, optimizer, metrics, seed: this.#plan.seed, logger: textLogger() });
    await this.#train({ task, node, session, model });
    await model.close();
    await session.close({ barrier: false }); // others may have died, and the servers see which nodes are left
  }

  async #train({ task, node, session, model }: Training): Promise<void> {
    const { epochs, batchSize, seed, consistency, overlap, devices, startsAt } = this.#plan;
    const isReporter = (): boolean => session.rank === reporterOf(node);
    const machineMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();
    const report = new ProgressReport({ plan: this.#plan, rank: session.rank, isReporter, machineMs });
    const checkpoint = new ProgressCheckpoint({
      plan: this.#plan,
      session,
      find: (step) => this.#checkpointOf(step),
      isReporter,
      isWhole: () => isWhole(node),
      meet: async (name, epoch) => {
        const mark = String(process.pid); // an earlier holder of this rank may have come
        const [first] = await alignClocks(session, { name, epoch: epoch - 1 }, { timeoutMs: END_MS }, mark);
        return first?.rank === session.rank && first.mark === mark;
      },
      onSaved: (path, { epoch }) => sendReport({ kind: "checkpoint", path, epoch }),
      onFailed: (error) => process.stderr.write(`no checkpoint was saved ${this.#position}: ${causeOf(error)}\n`),
    });
    const callbacks = [this.#follower(), report, checkpoint, ...this.#slowness(session.rank)];
    const result = await model.train(epochs, task.training, {
      session,
      batchSize,
      shuffleSeed: seed,
      consistency,
      overlap,
      devices,
      callbacks,
      firstEpoch: startsAt.epoch,
      firstStep: startsAt.step,
    });
    const cache = this.#plan.cacheRows === 0 ? {} : { cache: rowHits(task) };
    sendReport({ kind: "done", rank: session.rank, ...totals(report, result), byteCount: bytesMoved(session), ...cache });
    if (result.hasLeft) return; // the others go on, and report
    const wait = { timeoutMs: END_MS };
    await alignClocks(session, { name: "end", epoch: 0 }, wait); // a checkpoint is cut at a clock that all have reached
    const reportResult = async (): Promise<void> => {
      // NOT_FINITE: nothing is saved.
      sendReport({ kind: "result", result: task.resultOf(await model.eval(task.test)) });
      await checkpoint.saveLast();
    };
    await leaveTogether(session, reportResult, wait);
  }

  /** The servers save on this machine, too. */
  #checkpointOf(step: number): string | undefined {
    const path = resolve(this.#config.checkpointDir ?? "", stepName(step));
    return existsSync(path) ? path : undefined;
  }

  #follower(): TrainingCallback {
    return {
      stepEnd: (event: StepEvent) => {
        this.#position = reachedText(event);
      },
    };
  }

  #slowness(rank: number): readonly TrainingCallback[] {
    const { slowWorker } = this.#plan;
    return slowWorker?.rank === rank ? [new SlowSteps(slowWorker.factor)] : [];
  }
}

type Training = { readonly task: Task; readonly node: WorkerNode; readonly session: Session; readonly model: Model };

/** The lowest rank among the live workers. */
function reporterOf(node: WorkerNode): number {
  return Math.min(...aliveRanks(node));
}

function aliveRanks({ roster }: WorkerNode): number[] {
  return roster.nodes.filter(({ role, state }) => role === "worker" && state === "alive").map(({ rank }) => rank);
}

/** Whether every worker that there was lives, or has left by itself. */
function isWhole({ roster }: WorkerNode): boolean {
  return roster.nodes.every(({ role, state, incarnation }) => role !== "worker" || (state !== "dead" && incarnation === 1));
}

function totals(report: ProgressReport, { seconds, waitShare, sendShare, sampleCount, repeatedCount }: TrainingResult) {
  return { ...report.latest, seconds, waitShare, sendShare, sampleCount, repeatedCount };
}

function bytesMoved(session: Session): number {
  return [...session.takeLoads().values()].reduce((sum, { sentBytes, receivedBytes }) => sum + sentBytes + receivedBytes, 0);
}

/** Of all lookups together. */
function rowHits({ network }: Task): RowHits {
  const hits = { device: 0, host: 0, server: 0 };
  for (const { source } of lookupsOf(network)) {
    hits.device += source?.statistics.deviceHits ?? 0;
    hits.host += source?.statistics.hostHits ?? 0;
    hits.server += source?.statistics.serverReads ?? 0;
  }
  return hits;
}

const LEAVE = "leave";
const REPORTED = "reported";

/** Every worker calls it. Throws what `report` throws, at the worker that calls it. */
export async function leaveTogether(
  session: Pick<Session, "rendezvous" | "rank">,
  report: () => Promise<void>,
  wait: WaitOptions,
): Promise<void> {
  let present = await session.rendezvous.meet(LEAVE, { generation: 0, ...wait });
  for (let generation = 1; ; generation++) {
    const isFirst = present[0]?.rank === session.rank;
    if (isFirst) await report(); // TrainingWorker.F1
    present = await session.rendezvous.meet(LEAVE, { generation, value: isFirst ? REPORTED : "", ...wait });
    if (present.some(({ value }) => value === REPORTED)) return; // TrainingWorker.F2
  }
}

/**
 * Makes a worker take a multiple of its time for every step, as a slower machine would, to measure what that costs the
 * others.
 */
class SlowSteps implements TrainingCallback {
  readonly #factor: number;
  /** When the last step ended, and how long this worker had waited by then. */
  #endedAt = performance.now();
  #waitedMs = 0;

  constructor(factor: number) {
    this.#factor = factor;
  }

  async stepEnd({ step, stepsPerSec, waitShare }: StepEvent): Promise<void> {
    const now = performance.now();
    const waitedMs = (1000 * step * waitShare) / stepsPerSec;
    const busyMs = Math.max(0, now - this.#endedAt - Math.max(0, waitedMs - this.#waitedMs));
    this.#waitedMs = waitedMs;
    await sleep((this.#factor - 1) * busyMs);
    this.#endedAt = performance.now();
  }

  epochEnd(): void {
    this.#waitedMs = 0;
  }
}
