// training-node — one process of a column of bench/training.ts: the scheduler, a server or a worker of its cluster, or
// a training alone, which has no role in its environment. A training runs from `train` on, and stands still between
// the turns that `run` gives it. One worker of a cluster gets turns: with BSP the others wait for it.

import type { Session } from "../src/api/session.ts";
import type { StepEvent, TrainingCallback } from "../src/faces/training/callbacks/callback.ts";
import { loadConfig } from "../src/node/config/config.ts";
import { connect } from "../src/node/connect.ts";
import { startRole } from "../src/node/start-role.ts";
import { serveCommands } from "./command-loop.ts";
import { openSubject, type SubjectName } from "./training-subject.ts";

/** `waitedMs`: of those, how long this worker waited for parameters. */
export type Turn = { readonly stepCount: number; readonly ms: number; readonly waitedMs: number };

export type TrainingNodeProtocol = {
  start: { request: null; reply: null };
  train: { request: TrainRequest; reply: null };
  /** Steps for about this long. Only once `train` has answered; the first one includes the opening of parameters. */
  run: { request: { readonly ms: number }; reply: Turn };
};

export type TrainRequest = {
  readonly subject: SubjectName;
  readonly batchSize: number;
  readonly workers: number;
  readonly onServers: boolean;
  readonly devices: number;
  readonly overlap: boolean;
  /** Whether this process waits for its turns. */
  readonly isPaced: boolean;
};

const WAIT_MS = 600_000;

/** Lets a training make steps for one turn after the other. */
class Pace implements TrainingCallback {
  #turn: { readonly ms: number; readonly resolve: (turn: Turn) => void } | undefined;
  #next = Promise.withResolvers<void>();
  #fromMs = 0;
  /** Steps, and milliseconds of waiting, when the turn began. */
  #before = { step: 0, waitedMs: 0 };
  #now = { step: 0, waitedMs: 0 };

  async run(ms: number): Promise<Turn> {
    return await new Promise((resolve) => {
      this.#turn = { ms, resolve };
      this.#next.resolve();
    });
  }

  async begin(): Promise<void> {
    await this.#pause();
  }

  stepEnd({ step, stepsPerSec, waitShare }: StepEvent): Promise<void> | undefined {
    const ms = performance.now() - this.#fromMs;
    if (ms < this.#turn!.ms) return undefined;
    this.#now = { step, waitedMs: (1000 * step * waitShare) / stepsPerSec };
    this.#turn!.resolve({ stepCount: step - this.#before.step, ms, waitedMs: this.#now.waitedMs - this.#before.waitedMs });
    return this.#pause();
  }

  epochEnd(): void {
    throw new Error("a measurement ends before its epoch");
  }

  async #pause(): Promise<void> {
    await this.#next.promise;
    this.#next = Promise.withResolvers();
    this.#before = this.#now;
    this.#fromMs = performance.now();
  }
}

const pace = new Pace();
let session: Session | undefined;

async function train(request: TrainRequest): Promise<void> {
  const { subject, batchSize, workers, onServers, devices, overlap, isPaced } = request;
  const { model, dataset } = openSubject(subject, { sampleCountMax: Math.ceil(batchSize / workers), onServers });
  const callbacks = isPaced ? [pace] : [];
  await model.train(1, dataset, {
    batchSize,
    devices,
    overlap,
    callbacks,
    timeoutMs: WAIT_MS,
    ...(session === undefined ? {} : { session }),
  });
}

serveCommands<TrainingNodeProtocol>({
  async start() {
    const { DMLC_ROLE: role } = process.env;
    if (role === "worker") session = await connect();
    else if (role !== undefined) await startRole(loadConfig({ env: process.env }));
    return null;
  },
  train(request) {
    train(request).catch((error: unknown) => {
      console.error(error);
      process.exit(1);
    });
    return null;
  },
  run: ({ ms }) => pace.run(ms),
});
