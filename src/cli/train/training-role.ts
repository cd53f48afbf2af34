// training-role — the role of a process in a training job: a worker trains; a server and the scheduler stay as long as
// any worker trains.
//
// Invariants:
//   TrainingRole.V1. A job is done when no worker is training any more and at least one has left by itself: workers
//       leave after the result is reported (training-worker.ts), and the units of those that died went to others.
//   TrainingRole.V2. A job has failed when a server is dead, because its parameters are lost, or when every worker is
//       dead.
//   TrainingRole.V3. A server that was replaced while it was silent (FENCED) ends at once: the job goes on without it.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { ClusterNode } from "../../cluster/cluster-node.ts";
import { loadConfig } from "../../node/config/config.ts";
import type { LogFormat, NodeConfig } from "../../node/config/node-config.ts";
import { recordScheduler } from "../../node/last-job.ts";
import { RosterChanges, readyLines, registrationLines } from "../../node/run-scheduler.ts";
import type { ScheduledRoster } from "../../scheduler/scheduler-options.ts";
import type { ServerNode } from "../../server/server-node.ts";
import { nameOf, roleOf } from "../../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../../wire/roster.ts";
import type { TrainPlan } from "./train-plan.ts";

export interface TrainingRole {
  /** How far it is, for people; empty if it does not know. */
  readonly position: string;
  /** Runs until the job is done. Throws the error that ends it early. */
  run(): Promise<void>;
  /** Hands over to another process, where there is one that may go on. */
  leave?(): Promise<void>;
}

/** The role of this process; `planJson` was written by cli/train.ts. Throws BAD_CONFIG. */
export async function openRole(planJson: string): Promise<TrainingRole> {
  // All nodes are on this machine: its name would only make their lines too long for a terminal.
  const config = { ...loadConfig({ env: process.env }), nodeId: String(process.pid) };
  if (config.role !== "worker") return new Attendant(config);
  const { TrainingWorker } = await import("./training-worker.ts"); // the other roles do not need it
  return new TrainingWorker(config, JSON.parse(planJson) as TrainPlan);
}

/** A server, or the scheduler. */
class Attendant implements TrainingRole {
  readonly #config: NodeConfig;
  readonly #lines: RosterLines;
  readonly #over = Promise.withResolvers<void>();
  #server: ServerNode | undefined;
  /** Of a server that leaves before the job is done. */
  #retired: Promise<void> = new Promise(() => {});

  constructor(config: NodeConfig) {
    this.#config = config;
    this.#lines = new RosterLines(config);
    this.#over.promise.catch(() => {}); // it may end before `run` waits for it
  }

  get position(): string {
    return this.#server === undefined ? "" : serverPosition(this.#server.id, this.#server.server.parameters.pacer.clockMin);
  }

  async run(): Promise<void> {
    const node = await this.#start({ onRoster: (roster) => this.#follow(roster) });
    await Promise.race([this.#over.promise, this.#retired]);
    await node.close();
  }

  async leave(): Promise<void> {
    if (this.#config.replicas > 1) await this.#server?.leave();
  }

  async #start(options: { readonly onRoster: (roster: RosterView) => void }): Promise<ClusterNode> {
    if (this.#config.role === "scheduler") recordScheduler({ launcher: process.ppid });
    if (this.#config.role === "scheduler")
      return await (await import("../../node/scheduler-root.ts")).startScheduler(this.#config, options);
    const node = await (await import("../../node/server-root.ts")).startServer(this.#config, options);
    this.#server = node;
    this.#retired = node.retired;
    void whenFenced(node).then((error) => this.#over.reject(error)); // TrainingRole.V3
    return node;
  }

  #follow(roster: RosterView): void {
    const isScheduler = this.#config.role === "scheduler";
    if (isScheduler) for (const line of this.#lines.since(roster)) process.stdout.write(`${line}\n`);
    const state = jobState(roster, this.#config);
    // The scheduler stays until the servers have left.
    const isWaitedFor = isScheduler && roster.nodes.some((node) => node.role !== "worker" && node.state === "alive");
    if (state.kind === "done" && !isWaitedFor) this.#over.resolve();
    if (state.kind === "failed") this.#over.reject(new WeighbridgeError("NODE_DEAD", state.reason));
  }
}

/** Resolves with its error when this node hears that another has its place, also if that was before. */
export async function whenFenced(node: Pick<ClusterNode, "failure" | "whenOver">): Promise<WeighbridgeError> {
  return await new Promise((resolve) => {
    const look = (error: WeighbridgeError | undefined): void => {
      if (isWeighbridgeError(error, "FENCED")) resolve(error);
    };
    node.whenOver(look);
    look(node.failure);
  });
}

/** Of a server that stops: a rank may be held by two. */
export function serverPosition(node: number, clock: number): string {
  return `${roleOf(node) === "standby" ? "as its standby " : ""}after clock ${clock}`;
}

export type JobState = { readonly kind: "running" } | { readonly kind: "done" } | { readonly kind: "failed"; readonly reason: string };

/** Derives from the roster whether a job is running, is done or has failed. */
export function jobState({ nodes, placement }: RosterView, { workerCount }: { readonly workerCount: number }): JobState {
  const workers = nodes.filter(({ role }) => role === "worker");
  if (workers.length < workerCount) return { kind: "running" }; // the cluster is not complete yet
  const isAtWork = workers.some(({ state }) => state === "alive");
  if (!isAtWork && workers.some(({ state }) => state === "left")) return { kind: "done" }; // TrainingRole.V1
  const hasParts = (rank: number): boolean => placement?.servers.includes(rank) !== false;
  const deadServers = nodes.filter(({ role, rank, state }) => role === "server" && state === "dead" && hasParts(rank));
  // TrainingRole.V2
  if (deadServers.length > 0) return { kind: "failed", reason: `${named(deadServers)} died, and the parameters with it` };
  return isAtWork ? { kind: "running" } : { kind: "failed", reason: `no worker is left: ${named(workers)} died` };
}

function named(entries: readonly RosterEntry[]): string {
  return entries.map(({ node }) => nameOf(node)).join(", ");
}

/**
 * The lines that the scheduler of a training job prints: the rank of each node once all have joined; later, which node
 * died or came back, and of servers nothing more when the job is done.
 */
export class RosterLines {
  readonly #changes: RosterChanges;
  readonly #nodeCount: number;
  readonly #isMindspore: boolean;
  #isStarted = false;

  constructor(
    counts: Pick<NodeConfig, "serverCount" | "workerCount"> & { readonly replicas?: number | undefined; readonly logFormat?: LogFormat },
  ) {
    this.#changes = new RosterChanges(counts);
    this.#isMindspore = counts.logFormat === "mindspore";
    this.#nodeCount = counts.serverCount * (counts.replicas ?? 1) + counts.workerCount;
  }

  /** The lines to print about a newer roster. */
  since(roster: ScheduledRoster): string[] {
    const changes = this.#changes.since(roster);
    if (this.#isStarted) {
      const isDone = jobState(roster, { workerCount: 0 }).kind === "done"; // then servers end, in any order
      // A worker that leaves is done.
      return changes.filter((sentence) => !sentence.endsWith("has left") && (!isDone || sentence.startsWith("worker/")));
    }
    const { nodes } = roster;
    if (nodes.length < this.#nodeCount || nodes.some(({ state }) => state !== "alive")) return [];
    this.#isStarted = true;
    return this.#isMindspore ? registrationLines(nodes) : readyLines(nodes);
  }
}
