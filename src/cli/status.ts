// status — shows which nodes and guests are in a cluster, as its scheduler knows it, as tables for people or as JSON.

import { Command } from "commander";
import { scalingReport } from "../contracts/scaling.ts";
import { callJson } from "../peer/call-function.ts";
import type { StatusEntry, StatusReply, WaitingEntry } from "../wire/control.ts";
import { nameOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { ScalingReport } from "../wire/scaling.ts";
import { addClusterFlags, type ClusterRequest, clusterRequest, type FoundScheduler, withScheduler } from "./cluster-client.ts";
import { type Flags, helpText, type Invocation } from "./command-parts.ts";
import { guestsText } from "./guests-text.ts";
import { scalingLines } from "./scaling-text.ts";
import { countText, durationText, foldLine, type TextRow, textTable } from "./terminal-text.ts";

/** With what the scheduler reports of changes of the servers; left out behind ps-lite's protocol. */
export type ClusterStatus = StatusReply & { readonly scaling?: ScalingReport | undefined };

const HELP = `
Examples:
  $ weighbridge status --scheduler-port 9700
  $ weighbridge status --scheduler-port 9700 --check || echo "somebody is missing"
  $ weighbridge status --scheduler-host scheduler.example --scheduler-port 9700 --json`;

/** Infinity if no terminal breaks lines: the output that scripts read never wraps. */
function terminalColumns(): number {
  return process.stdout.isTTY ? process.stdout.columns : Infinity;
}

export function statusCommand(invocation: Invocation): Command {
  const command = new Command("status")
    .summary("show who is in a cluster")
    .description("Asks a scheduler for the nodes of its cluster: rank, address, state, and time since the last heartbeat.")
    .option("--json", "print the scheduler's reply as JSON")
    .option("--check", "exit with 1 unless all nodes have joined and none is dead or without a link; a worker that has left is done")
    .addHelpText("after", helpText(HELP))
    .action(async (flags: Flags) => {
      const request = clusterRequest("status", flags);
      const { address, reply } = await withScheduler(request, (found) => clusterStatus(request, found));
      const people = (): string => `${statusText(reply, address, terminalColumns())}${guestsText(reply.guests)}`;
      process.stdout.write(`${flags.json === true ? JSON.stringify(reply, null, 2) : people()}\n`);
      if (flags.check !== true) return;
      const problems = statusProblems(reply);
      for (const problem of problems) process.stderr.write(`weighbridge: ${problem}\n`);
      if (problems.length > 0) invocation.exitCode = 1;
    });
  return addClusterFlags(command);
}

async function clusterStatus(
  { clock, findMs }: ClusterRequest,
  { scheduler, address, status }: FoundScheduler,
): Promise<{ readonly address: string; readonly reply: ClusterStatus }> {
  const scaling = callJson(scheduler, scalingReport, {}, clock, { deadlineMs: findMs });
  // An older scheduler knows none.
  return { address, reply: { ...status, scaling: await scaling.catch(() => undefined) } };
}

const HEAD: TextRow = ["node", "role", "rank", "address", "state", "inc.", "heartbeat", "label"];
/** A further column if nodes run different versions of the package; if all run one, the headline shows it. */
const VERSION_HEAD = "weighbridge";
/** Columns of numbers, which are aligned on the right. */
const RIGHT_ALIGNED: ReadonlySet<string> = new Set(["node", "rank", "inc.", "heartbeat"]);
const NOTHING = "-";

/** Wraps the headline between words at this many columns; the table keeps its width. */
export function statusText(reply: ClusterStatus, schedulerAddress: string, columns: number = Infinity): string {
  const folded = (line: string): string => foldLine(line, { columns, indent: 2 }).join("\n");
  const scheduler: TextRow = [String(SCHEDULER_ID), "scheduler", "0", schedulerAddress, "alive", termText(reply), NOTHING, NOTHING];
  const { standbys = [] } = reply;
  const rows = [
    scheduler,
    ...reply.nodes.map(nodeRow),
    ...reply.waiting.map((entry) => waitingRow(entry, reply)),
    ...standbys.map(standbyRow),
  ];
  const versions = [reply, ...reply.nodes, ...reply.waiting].map(({ packageVersion }) => packageVersion);
  const known = new Set(versions.filter((version) => version !== undefined));
  const changes = (reply.scaling === undefined ? [] : scalingLines(reply.scaling)).map((line) => `\n${folded(line)}`).join("");
  if (known.size <= 1) {
    const version = [...known].map((one) => `, weighbridge ${one}`).join("");
    return `${folded(`${headline(reply)}${version}`)}${changes}\n\n${tableOf(HEAD, rows)}`;
  }
  const wider = rows.map((row, index): TextRow => [...row, versions[index] ?? NOTHING]);
  return `${folded(`${headline(reply)}, nodes of different versions`)}${changes}\n\n${tableOf([...HEAD, VERSION_HEAD], wider)}`;
}

function standbyRow(address: string): TextRow {
  return [NOTHING, "scheduler", NOTHING, address, "standby", NOTHING, NOTHING, NOTHING];
}

function termText({ term }: StatusReply): string {
  return term === undefined ? NOTHING : String(term);
}

function tableOf(head: TextRow, rows: readonly TextRow[]): string {
  return textTable({ head, rows, rightAligned: RIGHT_ALIGNED });
}

function headline(reply: ClusterStatus): string {
  const { job, phase, serverCount, replicas = 1, epoch, uptimeMs, nodes, waiting, scaling } = reply;
  // Those that joined count until they leave.
  const workerCount = Math.max(reply.workerCount, nodes.filter(({ role, state }) => role === "worker" && state !== "left").length);
  const there = phase === "forming" ? waiting : nodes.filter(({ state }) => state === "alive");
  const countOf = (role: string): number => there.filter((entry) => entry.role === role).length;
  const standbyCount = serverCount * (replicas - 1);
  // While a job forms, all copies of a rank are servers.
  const [serversThere, standbysThere] =
    phase === "forming" ? splitCopies(countOf("server"), serverCount) : [countOf("server"), countOf("standby")];
  const standbys = standbyCount === 0 ? "" : ` ${standbysThere} of ${countText(standbyCount, "standby")},`;
  const servers = `${serversThere} of ${countText(serverCount, "server")}`;
  const roles = `${servers},${standbys} ${countOf("worker")} of ${countText(workerCount, "worker")}`;
  const others = nodes.filter(({ role }) => role !== "standby"); // one that is gone is missing, and shown as that
  const gone = (["awaited", "dead", "left"] as const).flatMap((state) =>
    goneText(others.filter((node) => fateOf(node) === state).length, state),
  );
  const counts = [`${there.length} of ${serverCount + standbyCount + workerCount} nodes are there (${roles})`, ...gone].join(", ");
  const fullest = scaling?.skew === undefined ? "" : `, the fullest server has ${scaling.skew.toFixed(2)} of the mean`;
  const placement = epoch === undefined ? "" : `; placement epoch ${epoch}${fullest}`;
  return `job ${job} is ${phase}: ${counts}${placement}; scheduler up ${durationText(uptimeMs)}`;
}

function splitCopies(count: number, serverCount: number): readonly [servers: number, standbys: number] {
  return [Math.min(count, serverCount), Math.max(0, count - serverCount)];
}

/** One that stopped in order to be started again is not dead to people. */
function fateOf({ state, returns }: StatusEntry): StatusEntry["state"] | "awaited" {
  return state === "dead" && returns === true ? "awaited" : state;
}

function goneText(count: number, state: "awaited" | "dead" | "left"): string[] {
  if (count === 0) return [];
  if (state === "left") return [`${count} ${count === 1 ? "has" : "have"} left`];
  return [`${count} ${count === 1 ? "is" : "are"} ${state}`];
}

function nodeRow(entry: StatusEntry): TextRow {
  const { node, role, rank, address, incarnation, heartbeatAgeMs, label } = entry;
  const shown = role === "standby" ? standbyState(entry) : nodeState(entry);
  const number = role === "standby" ? NOTHING : String(node); // one of 16 digits, which nobody has a use for
  if (shown === MISSING) return [number, role, String(rank), NOTHING, shown, NOTHING, NOTHING, NOTHING];
  const age = heartbeatAgeMs === undefined ? NOTHING : `${durationText(heartbeatAgeMs)} ago`;
  return [number, role, String(rank), address || NOTHING, shown, String(incarnation), age, labelText(label, address)];
}

const MISSING = "missing";

/** Of a standby. The slot of one that took over, or was given up, is free. */
function standbyState({ state, linked, isFilling = false }: StatusEntry): string {
  if (state !== "alive") return MISSING;
  return `${isFilling ? "is filled" : "stands by"}${linked ? "" : ", no link"}`;
}

function nodeState(entry: StatusEntry): string {
  const { state, linked, continues, returns, promotedAgoMs, isPlanned = false } = entry;
  if (state !== "alive") return `${state === "dead" && isPlanned ? "stopped, " : ""}${fateOf(entry)}`;
  if (!linked) return "alive, no link";
  if (continues === undefined) return state;
  if (returns === true || promotedAgoMs === undefined) return "alive, came back";
  return `alive, ${isPlanned ? "handed over" : "took over"} ${durationText(promotedAgoMs)} ago`;
}

function waitingRow({ role, rank, address, label }: WaitingEntry, { phase }: StatusReply): TextRow {
  return [
    NOTHING,
    role,
    rank === undefined ? NOTHING : String(rank),
    address || NOTHING,
    phase === "running" && role === "server" ? "spare" : "waiting",
    NOTHING,
    NOTHING,
    labelText(label, address),
  ];
}

/** Nodes of ps-lite have no name of their own: their label is their address, which has a column already. */
function labelText(label: string, address: string): string {
  const [what, where] = label.split(" at ");
  const isRepeated = what !== undefined && where !== undefined && address.endsWith(`/${where}`);
  return (isRepeated ? what : label) || NOTHING;
}

/**
 * Each problem as a sentence; empty for a healthy cluster. A worker that has left is done, not missing; a server is
 * missing as long as there are workers.
 */
export function statusProblems({ phase, nodes, waiting, serverCount, workerCount, replicas = 1 }: StatusReply): string[] {
  if (phase === "failed") return ["the job has failed"];
  const nodeCount = serverCount * replicas + workerCount;
  if (phase === "forming") return [`the cluster is not complete: ${waiting.length} of ${nodeCount} nodes are there`];
  const hasWorkers = nodes.some(({ role, state }) => role === "worker" && state === "alive");
  return nodes.flatMap(({ node, role, rank, state, linked, isFilling, returns, isPlanned }) => {
    if (role === "standby" && state !== "alive") return hasWorkers ? [`server ${rank} has no standby`] : [];
    if (isFilling === true) return [`the standby of server ${rank} is being filled`];
    if (state === "dead" && isPlanned === true) return [`${nameOf(node)} was stopped, and is awaited`];
    if (state === "dead") return [`${nameOf(node)} is dead${returns === true ? ", and is waited for" : ""}`];
    if (state === "left" && role === "server" && hasWorkers) return [`${nameOf(node)} has left, and there are still workers`];
    return state === "alive" && !linked ? [`${nameOf(node)} has no link to the scheduler`] : [];
  });
}
