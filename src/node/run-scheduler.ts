// run-scheduler — the scheduler of a process that is nothing else: `weighbridge scheduler` without a script, and
// scripts whose role initTraining() runs.

import { isWeighbridgeError } from "../base/errors.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { ScheduledRoster } from "../scheduler/scheduler-options.ts";
import type { RosterEntry } from "../wire/roster.ts";
import { schedulerAddress } from "./config/node-addresses.ts";
import type { LogFormat, NodeConfig } from "./config/node-config.ts";
import { refuseApplications } from "./no-other-application.ts";
import { outputAddress, outputName, outputNameOf, processText } from "./output-name.ts";
import { startRole } from "./start-role.ts";

/**
 * Runs until all nodes have left. A scheduler that lost its turn in etcd (EtcdStore.E1, EtcdStore.E2) stands by again,
 * and leads again if it is the first. Throws the error that ends the job early.
 */
export async function runScheduler(config: NodeConfig, onStarted: (node: ClusterNode) => void = () => {}): Promise<void> {
  const isVerbose = isInfo(config);
  const say = (sentence: string): void => void (isVerbose && print(sentence));
  for (let standsByAgain = false; ; standsByAgain = true) {
    try {
      await runOnce(config, { say, onStarted, standsByAgain });
      return;
    } catch (thrown) {
      if (config.etcd === undefined || !isWeighbridgeError(thrown, "FENCED")) throw thrown;
      say("standing by again: this scheduler leads no more");
    }
  }
}

/** Whether people watch it. */
function isInfo({ logLevel }: NodeConfig): boolean {
  return logLevel === "info" || logLevel === "debug";
}

function print(sentence: string): void {
  process.stdout.write(`${sentence}\n`);
}

type RunOptions = {
  readonly say: (sentence: string) => void;
  readonly onStarted: (node: ClusterNode) => void;
  readonly standsByAgain: boolean;
};

async function runOnce(config: NodeConfig, { say, onStarted, standsByAgain }: RunOptions): Promise<void> {
  const { logLevel } = config;
  const changes = new RosterChanges({ ...config, isVerbose: isInfo(config) });
  // The sentences replace the log's lines of level "info".
  const starting = startRole(
    { ...config, logLevel: logLevel === "info" ? "warn" : logLevel },
    {
      standsByAgain,
      onComposed: refuseApplications,
      onListening: () => say(`waiting for ${countsText(config)} at ${outputAddress(schedulerAddress(config))}`),
      onStandby: (leader) => say(`standing by: the scheduler at ${outputAddress(leader)} leads`),
      onRoster: (roster) => changes.since(roster).forEach(print),
    },
  );
  const node = await starting.catch((thrown: unknown) => {
    if (!isWeighbridgeError(thrown, "CLOSED")) throw thrown;
    say(thrown.message); // a standby that was not needed
  });
  if (node === undefined) return;
  onStarted(node);
  await node.finalize();
  say("all nodes have left");
}

type Counts = Pick<NodeConfig, "serverCount" | "workerCount"> & { readonly replicas?: number | undefined };

/** The changes between two rosters, as sentences for people who watch a scheduler. */
export class RosterChanges {
  readonly #known = new Map<number, RosterEntry>();
  readonly #countsText: string;
  readonly #isMindspore: boolean;
  readonly #isVerbose: boolean;
  #isComplete = false;

  /**
   * With `logFormat: "mindspore"` the rank of each node follows in MindSpore's words, and without `isVerbose` these
   * lines are all.
   */
  constructor(config: Counts & { readonly logFormat?: LogFormat; readonly isVerbose?: boolean }) {
    this.#countsText = countsText(config);
    this.#isMindspore = config.logFormat === "mindspore";
    this.#isVerbose = config.isVerbose ?? true;
  }

  /** What has changed since the roster before, as sentences. */
  since({ nodes, isEnding = false, unheard = [] }: ScheduledRoster): string[] {
    const sentences: string[] = [];
    const isOver = isEnding || isDone(nodes);
    for (const entry of nodes.filter(({ node, incarnation }) => incarnation > 0 && !unheard.includes(node))) {
      // others are slots that nobody has had yet, or of nodes that may be gone
      const before = this.#known.get(entry.node);
      this.#known.set(entry.node, entry);
      const sentence = entry.role === "standby" && !isOver ? standbyChange(before, entry, nodes) : change(before, entry);
      if (sentence !== undefined) sentences.push(sentence);
    }
    const ids = new Set(nodes.map(({ node }) => node));
    for (const { node, state } of [...this.#known.values()].filter((entry) => !ids.has(entry.node))) {
      this.#known.delete(node);
      if (state !== "left") sentences.push(`${outputNameOf(node)} has left`); // its parts have moved to other servers
    }
    const isCompleted = !this.#isComplete && nodes.every(({ node, state }) => state === "alive" && !unheard.includes(node));
    this.#isComplete ||= isCompleted;
    const registration = isCompleted && this.#isMindspore ? registrationLines(nodes) : [];
    if (!this.#isVerbose) return registration;
    return [...sentences, ...(isCompleted ? [`the cluster is complete: ${this.#countsText}`] : []), ...registration];
  }
}

export function countsText({ serverCount, workerCount, replicas = 1 }: Counts): string {
  const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
  const standbys = serverCount * (replicas - 1);
  return [plural(serverCount, "server"), ...(standbys === 0 ? [] : [plural(standbys, "standby")]), plural(workerCount, "worker")].join(
    ", ",
  );
}

/** Whether no worker is at work any more, and one has left by itself. */
function isDone(nodes: readonly RosterEntry[]): boolean {
  const states = new Set(nodes.filter(({ role }) => role === "worker").map(({ state }) => state));
  return states.has("left") && !states.has("alive");
}

/** A standby whose slot is free has taken over, or was given up. */
function standbyChange(before: RosterEntry | undefined, entry: RosterEntry, nodes: readonly RosterEntry[]): string | undefined {
  const { rank, state, token, isRetired = false } = entry;
  if (state === "alive" || before?.state !== "alive" || isRetired) return change(before, entry);
  const server = nodes.find((node) => node.role === "server" && node.rank === rank);
  if (server === undefined || server.token === token) return undefined; // the server's own line says so
  return server.state === "alive" ? `${outputName("server", rank)} has no standby now` : change(before, entry);
}

function change(before: RosterEntry | undefined, entry: RosterEntry): string | undefined {
  const { node, state, incarnation, address, label, continues, returns = false, isPlanned = false } = entry;
  if (before !== undefined && before.state === state && before.incarnation === incarnation) return undefined;
  const name = outputNameOf(node);
  if (state === "dead" && isPlanned) return `${name} was stopped, and is awaited`;
  if (state === "dead") return `${name} is dead${returns ? ", and is waited for" : ""}`;
  if (state === "left") return `${name} has left`;
  const where = [outputAddress(address), processText(label)].filter((text) => text !== "");
  const line = (what: string, ...more: readonly string[]): string => [`${name} ${what}`, ...where, ...more].join("  ");
  if (before === undefined && incarnation <= 1) return line("ready");
  if (before?.incarnation === incarnation) return line("is heard of again");
  const again = `incarnation ${incarnation}`;
  const cameBack = returns || (before?.state === "dead" && before.returns === true);
  if (continues !== undefined && cameBack) return line("came back", again);
  if (continues !== undefined && isPlanned) return line("handed over to its standby", again);
  if (continues !== undefined && before === undefined) return line("resumes", again);
  if (continues !== undefined) return line("taken over by its standby", again);
  return line("ready again", again);
}

/** A line for each node, once all have joined, as they would have been told one by one. */
export function readyLines(nodes: readonly RosterEntry[]): string[] {
  return inOrder(nodes).flatMap((entry) => change(undefined, { ...entry, incarnation: 1 }) ?? []);
}

/** Servers, standbys, then workers, by rank. */
function inOrder(nodes: readonly RosterEntry[]): RosterEntry[] {
  return ["server", "standby", "worker"].flatMap((role) => nodes.filter((entry) => entry.role === role).sort((a, b) => a.rank - b.rank));
}

const ADDRESS = /^tcp:\/\/(.*):(\d+)$/;

/** The rank of each node once all have joined, in MindSpore's words: servers, then workers, by rank. */
export function registrationLines(nodes: readonly RosterEntry[]): string[] {
  const lines = inOrder(nodes).map((entry) => (entry.role === "worker" ? workerLine(entry) : serverLine(entry)));
  return [...lines, "Start the scheduler node is successful!"];
}

function serverLine({ role, label, address, rank }: RosterEntry): string {
  const [, host = address, port = "-"] = ADDRESS.exec(address) ?? [];
  return `The ${role} node id:${label},node ip: ${host},node port:${port} ${role === "server" ? "assign" : "stands by for"} rank id:${rank}`;
}

function workerLine({ label, rank }: RosterEntry): string {
  return `The worker node id:${label} assign rank id:${rank}`;
}
