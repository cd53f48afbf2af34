// run-scheduler — the scheduler of a process that is nothing else: `weighbridge scheduler` without a script, and
// scripts whose role initTraining() runs.

import { isWeighbridgeError } from "../base/errors.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { ScheduledRoster } from "../scheduler/scheduler-options.ts";
import { nameOf } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";
import { schedulerAddress } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { startRole } from "./start-role.ts";

/** Runs until all nodes have left. Throws the error that ends the job early. */
export async function runScheduler(config: NodeConfig, onStarted: (node: ClusterNode) => void = () => {}): Promise<void> {
  const { logLevel } = config;
  const isVerbose = logLevel === "info" || logLevel === "debug";
  const say = (sentence: string): void => void (isVerbose && process.stdout.write(`${sentence}\n`));
  const changes = new RosterChanges(config);
  // The sentences replace the log's lines of level "info".
  const starting = startRole(
    { ...config, logLevel: logLevel === "info" ? "warn" : logLevel },
    {
      onListening: () => say(`waiting for ${countsText(config)} at ${schedulerAddress(config)}`),
      onStandby: (leader) => say(`standing by: the scheduler at ${leader} leads`),
      onRoster: (roster) => changes.since(roster).forEach(say),
    },
  );
  const node = await starting.catch((thrown: unknown) => {
    if (!isWeighbridgeError(thrown, "CLOSED")) throw thrown;
    say(thrown.message); // a standby that was not needed
  });
  if (node === undefined) return;
  onStarted(node);
  await node.finalize();
  say("everybody has left");
}

type Counts = Pick<NodeConfig, "serverCount" | "workerCount"> & { readonly replicas?: number | undefined };

/** The changes between two rosters, as sentences for people who watch a scheduler. */
export class RosterChanges {
  readonly #known = new Map<number, RosterEntry>();
  readonly #countsText: string;
  #isComplete = false;

  constructor(counts: Counts) {
    this.#countsText = countsText(counts);
  }

  /** What has changed since the roster before, as sentences. */
  since({ nodes, isEnding = false }: ScheduledRoster): string[] {
    const sentences: string[] = [];
    const isOver = isEnding || isDone(nodes);
    for (const entry of nodes.filter(({ incarnation }) => incarnation > 0)) {
      // others are slots that nobody has had yet
      const before = this.#known.get(entry.node);
      this.#known.set(entry.node, entry);
      const sentence = entry.role === "standby" && !isOver ? standbyChange(before, entry, nodes) : change(before, entry);
      if (sentence !== undefined) sentences.push(sentence);
    }
    const ids = new Set(nodes.map(({ node }) => node));
    for (const { node, state } of [...this.#known.values()].filter((entry) => !ids.has(entry.node))) {
      this.#known.delete(node);
      if (state !== "left") sentences.push(`${nameOf(node)} has left`); // its parts have moved to other servers
    }
    if (!this.#isComplete && nodes.every(({ state }) => state === "alive")) {
      this.#isComplete = true;
      sentences.push(`the cluster is complete: ${this.#countsText}`, ...registrationLines(nodes));
    }
    return sentences;
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
  return server.state === "alive" ? `server ${rank} goes on without its standby` : change(before, entry);
}

function change(before: RosterEntry | undefined, entry: RosterEntry): string | undefined {
  const { node, state, incarnation, address, label, continues, returns = false, isPlanned = false } = entry;
  if (before !== undefined && before.state === state && before.incarnation === incarnation) return undefined;
  const name = nameOf(node);
  if (state === "dead" && isPlanned) return `${name} was stopped, and is awaited`;
  if (state === "dead") return `${name} is dead${returns ? ", and is waited for" : ""}`;
  if (state === "left") return `${name} has left`;
  const where = `${address === "" ? "" : ` at ${address}`}${label === "" ? "" : ` (${label})`}`;
  if (before === undefined && incarnation <= 1) return `${name}${where} joined`;
  if (before?.incarnation === incarnation) return `${name}${where} is heard of again`;
  const cameBack = returns || (before?.state === "dead" && before.returns === true);
  if (continues !== undefined && cameBack) return `${name} came back${where}, incarnation ${incarnation}`;
  if (continues !== undefined && isPlanned) return `${name} handed over to its standby${where}, incarnation ${incarnation}`;
  if (continues !== undefined && before === undefined) return `${name}${where} goes on, incarnation ${incarnation}`;
  if (continues !== undefined) return `the standby${where} is ${name} from now on, incarnation ${incarnation}`;
  return `${name}${where} took its place, incarnation ${incarnation}`;
}

const ADDRESS = /^tcp:\/\/(.*):(\d+)$/;

/** The rank of each node once all have joined, in MindSpore's words: servers, then workers, by rank. */
export function registrationLines(nodes: readonly RosterEntry[]): string[] {
  const ofRole = (role: string): RosterEntry[] => nodes.filter((entry) => entry.role === role).sort((a, b) => a.rank - b.rank);
  const lines = [...ofRole("server").map(serverLine), ...ofRole("standby").map(serverLine), ...ofRole("worker").map(workerLine)];
  return [...lines, "Start the scheduler node is successful!"];
}

function serverLine({ role, label, address, rank }: RosterEntry): string {
  const [, host = address, port = "-"] = ADDRESS.exec(address) ?? [];
  return `The ${role} node id:${label},node ip: ${host},node port:${port} ${role === "server" ? "assign" : "stands by for"} rank id:${rank}`;
}

function workerLine({ label, rank }: RosterEntry): string {
  return `The worker node id:${label} assign rank id:${rank}`;
}
