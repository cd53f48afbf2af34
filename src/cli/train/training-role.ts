// training-role — what a process of a training job is there for: to train, or, as a server and as the scheduler, to stay as long as somebody trains.

import { WeighbridgeError } from "../../base/errors.ts";
import type { ClusterNode } from "../../cluster/cluster-node.ts";
import { loadConfig } from "../../node/config/config.ts";
import type { NodeConfig } from "../../node/config/node-config.ts";
import type { Server } from "../../server/server.ts";
import type { RosterView } from "../../wire/roster.ts";
import { judgeJob } from "./job-verdict.ts";
import { RosterLines } from "./roster-lines.ts";
import type { TrainPlan } from "./train-plan.ts";

export interface TrainingRole {
  /** How far it is, for people; empty where it does not know. */
  readonly position: string;
  /** Until the job is done. Throws what ends it before. */
  run(): Promise<void>;
}

/** Of this process; `planJson` was written by cli/train.ts. Throws BAD_CONFIG. */
export async function openRole(planJson: string): Promise<TrainingRole> {
  // All nodes are on this machine, so that its name would only make their lines too long for a terminal.
  const config = { ...loadConfig({ env: process.env }), nodeId: String(process.pid) };
  if (config.role !== "worker") return new Attendant(config);
  const { TrainingWorker } = await import("./training-worker.ts"); // of which the others need nothing
  return new TrainingWorker(config, JSON.parse(planJson) as TrainPlan);
}

/** A server, or the scheduler. */
class Attendant implements TrainingRole {
  readonly #config: NodeConfig;
  readonly #news: RosterLines;
  readonly #over = Promise.withResolvers<void>();
  #server: Server | undefined;

  constructor(config: NodeConfig) {
    this.#config = config;
    this.#news = new RosterLines(config);
    this.#over.promise.catch(() => {}); // it may be judged before anybody waits for it
  }

  get position(): string {
    return this.#server === undefined ? "" : `after clock ${this.#server.parameters.pacer.clockMin}`;
  }

  async run(): Promise<void> {
    const node = await this.#start({ onRoster: (roster) => this.#follow(roster) });
    await this.#over.promise;
    await node.close();
  }

  async #start(options: { readonly onRoster: (roster: RosterView) => void }): Promise<ClusterNode> {
    if (this.#config.role === "scheduler")
      return await (await import("../../node/scheduler-root.ts")).startScheduler(this.#config, options);
    const node = await (await import("../../node/server-root.ts")).startServer(this.#config, options);
    this.#server = node.server;
    return node;
  }

  #follow(roster: RosterView): void {
    const isScheduler = this.#config.role === "scheduler";
    if (isScheduler) for (const line of this.#news.tell(roster)) process.stdout.write(`${line}\n`);
    const verdict = judgeJob(roster, this.#config);
    // The scheduler stays until the servers have left.
    const isWaitedFor = isScheduler && roster.nodes.some(({ role, state }) => role === "server" && state === "alive");
    if (verdict.kind === "done" && !isWaitedFor) this.#over.resolve();
    if (verdict.kind === "failed") this.#over.reject(new WeighbridgeError("NODE_DEAD", verdict.reason));
  }
}
