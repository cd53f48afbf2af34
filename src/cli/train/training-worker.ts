// training-worker — a worker of a training job: opens the task, trains its part of every batch together with the others, and reports. The worker of lowest
// rank that lives speaks for all: it tells losses and saves checkpoints. What the model is worth is told at the end, before anybody leaves (leave-together.ts).

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Session } from "../../api/session.ts";
import type { StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { alignClocks } from "../../faces/training/epoch-end.ts";
import { Model } from "../../faces/training/model.ts";
import { lookupsOf } from "../../faces/training/network.ts";
import type { TrainingResult } from "../../faces/training/trainer.ts";
import { stepName } from "../../node/checkpoint/checkpoint-directory.ts";
import type { NodeConfig } from "../../node/config/node-config.ts";
import { nodeSessions } from "../../node/node-sessions.ts";
import { textLog } from "../../node/text-log.ts";
import { startWorker } from "../../node/worker-root.ts";
import type { WorkerNode } from "../../worker/worker-node.ts";
import { farewell } from "./leave-together.ts";
import { openTask } from "./open-task.ts";
import { causeOf } from "./process-end.ts";
import { ProgressCheckpoint } from "./progress-checkpoint.ts";
import { ProgressReport } from "./progress-report.ts";
import { type RowHits, sendReport } from "./report.ts";
import { SlowSteps } from "./slow-steps.ts";
import type { Task } from "./task.ts";
import { reachedText, type TrainPlan } from "./train-plan.ts";
import type { TrainingRole } from "./training-role.ts";

/** How long one wait for the others may take when all have trained, an epoch or all of them. */
const END_MS = 120_000;

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

  /** Until the training is done and this worker has left. Throws what ends it before. */
  async run(): Promise<void> {
    const task = await openTask(this.#plan); // before the cluster is asked for anything: what is wrong with the data is said at once
    sendReport({ kind: "ready", data: task.dataText, model: task.modelText });
    const node = await startWorker(this.#config, { sessions: nodeSessions });
    const session = await Session.open(node);
    session.startRecord();
    const { network, loss, optimizer, metrics } = task;
    const log = textLog({ level: "warn", who: () => "training" }); // also where the nodes tell errors alone
    const model = new Model(network, { loss, optimizer, metrics, seed: this.#plan.seed, log });
    await this.#train({ task, node, session, model });
    await model.close();
    await session.close({ barrier: false }); // the others may have died, and the servers see who is left
  }

  async #train({ task, node, session, model }: Training): Promise<void> {
    const { epochs, batchSize, seed, consistency, overlap, startsAt } = this.#plan;
    const isSpeaker = (): boolean => session.rank === speakerOf(node);
    const report = new ProgressReport({ plan: this.#plan, rank: session.rank, isSpeaker });
    const checkpoint = new ProgressCheckpoint({
      plan: this.#plan,
      session,
      find: (step) => this.#checkpointOf(step),
      isSpeaker,
      isWhole: () => aliveRanks(node).length === this.#plan.workers,
      meet: (name, epoch) => alignClocks(session, { name, epoch: epoch - 1 }, { deadlineMs: END_MS }),
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
      callbacks,
      firstEpoch: startsAt.epoch,
      firstStep: startsAt.step,
    });
    const cache = this.#plan.cacheRows === 0 ? {} : { cache: rowHits(task) };
    sendReport({ kind: "done", rank: session.rank, ...totals(report, result), byteCount: bytesMoved(session), ...cache });
    const wait = { deadlineMs: END_MS };
    await alignClocks(session, { name: "end", epoch: 0 }, wait); // a checkpoint is cut at a clock that all have come to
    const tell = async (): Promise<void> => {
      sendReport({ kind: "result", result: task.resultOf(await model.eval(task.test)) }); // NOT_FINITE: nothing is saved
      await checkpoint.saveLast();
    };
    await farewell(session, tell, wait);
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

/** The lowest rank among the workers that live. */
function speakerOf(node: WorkerNode): number {
  return Math.min(...aliveRanks(node));
}

function aliveRanks({ roster }: WorkerNode): number[] {
  return roster.nodes.filter(({ role, state }) => role === "worker" && state === "alive").map(({ rank }) => rank);
}

function totals(report: ProgressReport, { seconds, waitShare, sampleCount, repeatedCount }: TrainingResult) {
  return { ...report.latest, seconds, waitShare, sampleCount, repeatedCount };
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
