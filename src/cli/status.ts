// status — shows which nodes and guests are in a cluster, as its scheduler knows it, as tables for people or as JSON.

import { Command } from "commander";
import { scalingReport } from "../contracts/scaling.ts";
import { outputAddress, outputName, outputNameOf, processText } from "../node/output-name.ts";
import { callJson } from "../peer/call-function.ts";
import type { StatusEntry, StatusReply, WaitingEntry } from "../wire/control.ts";
import type { ScalingReport } from "../wire/scaling.ts";
import { type ClusterRequest, clusterRequest, type FoundScheduler, withScheduler } from "./cluster-client.ts";
import { addClusterHelp } from "./cluster-flags.ts";
import type { Flags, HelpTexts, Invocation } from "./command-parts.ts";
import { guestsText } from "./guests-text.ts";
import { printNotice } from "./notices.ts";
import { scalingLines } from "./scaling-text.ts";
import { countText, durationText, foldLine, type TextRow, terminalColumns, textTable } from "./terminal-text.ts";

/** With what the scheduler reports of changes of the servers; left out behind ps-lite's protocol. */
export type ClusterStatus = StatusReply & { readonly scaling?: ScalingReport | undefined };

const HELP: HelpTexts = {
  examples: ["status", "status weighbridge://a.example:9700 --json", 'status --check || echo "a node is missing"'],
};

export function statusCommand(invocation: Invocation): Command {
  const command = new Command("status")
    .usage("[weighbridge://host:port] [options]")
    .summary("show who is in a cluster")
    .description("Asks a scheduler for the nodes of its cluster: rank, address, state, and time since the last heartbeat.")
    .option("--json", "print the scheduler's reply as JSON")
    .option("--check", "exit with 1 unless all nodes are there and well")
    .action(async (flags: Flags) => {
      const request = clusterRequest("status", flags, invocation);
      const { address, reply } = await withScheduler(request, (found) => clusterStatus(request, found));
      const people = (): string => `${statusText(reply, address, terminalColumns())}${guestsText(reply.guests, terminalColumns())}`;
      process.stdout.write(`${flags.json === true ? JSON.stringify(reply, null, 2) : people()}\n`);
      if (flags.check !== true) return;
      const problems = statusProblems(reply);
      for (const problem of problems) printNotice(problem);
      if (problems.length > 0) invocation.exitCode = 1;
    });
  return addClusterHelp(command, invocation, HELP);
}

async function clusterStatus(
  { clock, findMs }: ClusterRequest,
  { scheduler, address, status }: FoundScheduler,
): Promise<{ readonly address: string; readonly reply: ClusterStatus }> {
  const scaling = callJson(scheduler, scalingReport, {}, clock, { timeoutMs: findMs });
  // An older scheduler knows none.
  return { address, reply: { ...status, scaling: await scaling.catch(() => undefined) } };
}

const HEAD: TextRow = ["node", "state", "address", "heartbeat", "process"];
/** A further column if nodes run different versions of the package; if all run one, the headline shows it. */
const VERSION_HEAD = "weighbridge";
/** Columns of numbers, which are aligned on the right. */
const RIGHT_ALIGNED: ReadonlySet<string> = new Set(["heartbeat"]);
const NOTHING = "-";

/** Breaks lines between words at this many columns. */
export function statusText(reply: ClusterStatus, schedulerAddress: string, columns: number = Infinity): string {
  const folded = (line: string): string => foldLine(line, { columns, indent: 2 }).join("\n");
  const scheduler: TextRow = ["scheduler", "ready", outputAddress(schedulerAddress), NOTHING, NOTHING];
  const { standbys = [] } = reply;
  const rows = [
    scheduler,
    ...reply.nodes.map(nodeRow),
    ...reply.waiting.map((entry) => waitingRow(entry, reply)),
    ...standbys.map(standbyRow),
  ];
  const versions = [reply, ...reply.nodes, ...reply.waiting].map(({ packageVersion }) => packageVersion);
  const known = new Set(versions.filter((version) => version !== undefined));
  const below = [...silenceLines(reply), ...sharingLines(reply), ...(reply.scaling === undefined ? [] : scalingLines(reply.scaling))];
  const changes = below.map((line) => `\n${folded(line)}`).join("");
  if (known.size <= 1) {
    const version = [...known].map((one) => `, weighbridge ${one}`).join("");
    return `${folded(`${headline(reply)}${version}`)}${changes}\n\n${tableOf(HEAD, rows, columns)}`;
  }
  const wider = rows.map((row, index): TextRow => [...row, versions[index] ?? NOTHING]);
  return `${folded(`${headline(reply)}, nodes of different versions`)}${changes}\n\n${tableOf([...HEAD, VERSION_HEAD], wider, columns)}`;
}

/** While the scheduler suspects that it is cut off. */
function silenceLines({ silence }: StatusReply): string[] {
  if (silence === undefined) return [];
  const whom = silence.of === "all" ? "no node has been heard" : "most nodes have not been heard";
  return [`${whom} for ${durationText(silence.forMs)}: the scheduler may be cut off, and takes no node for dead for now`];
}

/** A link is named once, by the first of its ends. */
function sharingLines({ nodes }: StatusReply): string[] {
  const seen = new Set<string>();
  const parts = nodes.flatMap(({ node, state, sharing = [] }) => {
    const others = sharing.filter((other) => state === "alive" && !seen.has(`${other} ${node}`));
    for (const other of others) seen.add(`${node} ${other}`);
    return others.length === 0 ? [] : [`${outputNameOf(node)} with ${others.map(outputNameOf).join(", ")}`];
  });
  return parts.length === 0 ? [] : [`links that share memory: ${parts.join("; ")}`];
}

function standbyRow(address: string): TextRow {
  return ["scheduler", "standby", outputAddress(address), NOTHING, NOTHING];
}

function tableOf(head: TextRow, rows: readonly TextRow[], columns: number): string {
  return textTable({ head, rows, rightAligned: RIGHT_ALIGNED, columns });
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
  const { role, rank, address, incarnation, heartbeatAgeMs, label } = entry;
  const shown = role === "standby" ? standbyState(entry) : nodeState(entry);
  const name = outputName(role, rank);
  if (shown === MISSING) return [name, shown, NOTHING, NOTHING, NOTHING];
  const age = heartbeatAgeMs === undefined ? NOTHING : `${durationText(heartbeatAgeMs)} ago`;
  const state = incarnation > 1 ? `${shown}, incarnation ${incarnation}` : shown;
  return [name, state, outputAddress(address) || NOTHING, age, labelText(label, address)];
}

const MISSING = "missing";

/** Of a standby. The slot of one that took over, or was given up, is free. */
function standbyState({ state, linked, isFilling = false, loopBusyMs }: StatusEntry): string {
  if (state !== "alive") return MISSING;
  const busy = loopBusyMs === undefined ? "" : `, loop busy for ${durationText(loopBusyMs)}`;
  return `${isFilling ? "being filled" : "standby"}${linked ? "" : ", no link"}${busy}`;
}

function nodeState(entry: StatusEntry): string {
  const { state, linked, continues, returns, promotedAgoMs, heldMs, isPlanned = false, loopBusyMs } = entry;
  if (state !== "alive") return `${state === "dead" && isPlanned ? "stopped, " : ""}${fateOf(entry)}`;
  if (loopBusyMs !== undefined) return `ready, loop busy for ${durationText(loopBusyMs)}`;
  if (!linked) return "ready, no link";
  if (heldMs !== undefined) return `ready, answers held back for ${durationText(heldMs)}`;
  if (continues === undefined) return "ready";
  if (returns === true || promotedAgoMs === undefined) return "ready, came back";
  return `ready, ${isPlanned ? "handed over" : "took over"} ${durationText(promotedAgoMs)} ago`;
}

function waitingRow({ role, rank, address, label }: WaitingEntry, { phase }: StatusReply): TextRow {
  return [
    rank === undefined ? role : outputName(role, rank),
    phase === "running" && role === "server" ? "spare" : "waiting",
    outputAddress(address) || NOTHING,
    NOTHING,
    labelText(label, address),
  ];
}

/** Nodes of ps-lite have no name of their own: their label is their address, which has a column already. */
function labelText(label: string, address: string): string {
  const [what, where] = label.split(" at ");
  const isRepeated = what !== undefined && where !== undefined && address.endsWith(`/${where}`);
  return (isRepeated ? what : processText(label)) || NOTHING;
}

/**
 * Each problem as a sentence; empty for a healthy cluster. A worker that has left is done, not missing; a server is
 * missing as long as there are workers, or the job serves without them.
 */
export function statusProblems(reply: StatusReply): string[] {
  const { phase, nodes, waiting, serverCount, workerCount, replicas = 1 } = reply;
  if (phase === "failed") return ["the job has failed"];
  const nodeCount = serverCount * replicas + workerCount;
  if (phase === "forming") return [`the cluster is not complete: ${waiting.length} of ${nodeCount} nodes are there`];
  const isNeeded = reply.serves === true || nodes.some(({ role, state }) => role === "worker" && state === "alive");
  const problems = nodes.flatMap(({ node, role, rank, state, linked, isFilling, returns, isPlanned, heldMs }) => {
    if (role === "standby" && state !== "alive") return isNeeded ? [`server/${rank} has no standby`] : [];
    if (isFilling === true) return [`standby/${rank} is being filled`];
    if (state === "dead" && isPlanned === true) return [`${outputNameOf(node)} was stopped, and is awaited`];
    if (state === "dead") return [`${outputNameOf(node)} is dead${returns === true ? ", and is waited for" : ""}`];
    if (state === "left" && role === "server" && isNeeded) return [`${outputNameOf(node)} has left, and is still needed`];
    if (state === "alive" && !linked) return [`${outputNameOf(node)} has no link to the scheduler`];
    if (heldMs === undefined) return [];
    return [`${outputNameOf(node)} has held its answers back for ${durationText(heldMs)}: its log is not taken; its own output says why`];
  });
  return [...silenceLines(reply), ...problems];
}
