// launcher-pipe — the pipe WATCH_FD between the launcher and each process that it started, with lines both ways. The
// system closes the launcher's end however the launcher ends.
//
//   to the process      why the job ends, in words; to the scheduler's "gone:": no dead node that it reported has a
//                       process; "lost:3": no process comes any more for a server that is waited for; and "ending:":
//                       all processes of the job are being ended
//   to the launcher     from every process that watches: "watching:" when it has begun to, "planned:" when it was
//                       stopped and another process goes on with what it had, and "exit:1" when it exits; from a
//                       worker's, and from the scheduler's of each worker, "unclosed:worker/0" when the worker's
//                       process ends without session.close(); from one of
//                       the two processes of a server "standby:" or "head:", each time that changes; from the
//                       scheduler's process: "complete:" when all nodes have joined, and all nodes that are
//                       dead now: "dead:worker/1,worker/3", or "only-dead:…" when nobody else is at work; and the ranks
//                       of the servers that there are to be, and of those that have parts: "servers:0,1,2/0,1"; and the
//                       ranks of the workers that there are to be, when that was asked for: "workers:0,1,2"
//
// Inside a process, the scheduler's node publishes its dead nodes and its servers, and hears that the job is ended,
// through Node's diagnostics channels, by name: the script may have loaded another copy of the package.

import { channel, subscribe, unsubscribe } from "node:diagnostics_channel";
import { writeSync } from "node:fs";
import { Socket } from "node:net";
import { nameOf } from "../../wire/node-id.ts";
import type { RosterView } from "../../wire/roster.ts";
import { PLANNED_END } from "../end-signal.ts";
import { asOutputName } from "../output-name.ts";
import { UNCLOSED_WORKER, type UnclosedWorker } from "../unclosed-worker.ts";
import { LineStream } from "./node-output.ts";

/** The pipe on which a process learns that its launcher is gone, and before that, in a line, why the job ends. */
export const WATCH_FD = 3;
/** How long a process may take to end after SIGTERM. */
export const GRACE_MS = 5000;
/** The same for one that was declared dead: it has been silent before. */
export const DEAD_GRACE_MS = 1000;
export const GONE_LINE = "gone:";
/** Followed by the rank of a server that there is to be, and for which no process is left. */
export const LOST_LINE = "lost:";
/** All processes of the job are being ended: nobody has to take over. */
export const ENDING_LINE = "ending:";
export const COMPLETE_LINE = "complete:";
/** Which of the two processes of a server this one is from now on. */
export const COPY_LINES = { standby: "standby:", head: "head:" } as const;
export type Copy = keyof typeof COPY_LINES;
/** The end that follows is planned: the process was stopped, and the next one goes on where it was. */
export const PLANNED_LINE = "planned:";
/** Followed by the name of a worker whose process ends, or has ended, without having closed its session. */
export const UNCLOSED_LINE = "unclosed:";
/** The process reads this pipe from now on. */
export const WATCHING_LINE = "watching:";

export type DeadReport = {
  /** All nodes that are dead now. */
  readonly names: readonly string[];
  /** All live nodes wait for the dead ones. */
  readonly isRestDone: boolean;
};

/** The servers of the job, by rank. */
export type ServersReport = {
  /** The ranks that the scheduler wants: the launcher starts and ends processes accordingly. */
  readonly wished: readonly number[];
  /** Those that have parts. */
  readonly placed: readonly number[];
};

type WishedProcesses = ServersReport & { readonly lost: (rank: number) => void };

const ranksOf = (text: string): number[] => text.split(",").flatMap((rank) => (rank === "" ? [] : [Number(rank)]));
const SERVERS = /^servers:([\d,]*)\/([\d,]*)$/;

function serversLine({ wished, placed }: ServersReport): string {
  return `servers:${wished.join(",")}/${placed.join(",")}`;
}

/** Undefined for any other line. */
export function parseServersReport(line: string): ServersReport | undefined {
  const [, wished, placed] = SERVERS.exec(line) ?? [];
  return wished === undefined || placed === undefined ? undefined : { wished: ranksOf(wished), placed: ranksOf(placed) };
}

/** The ranks of the workers that there are to be; undefined for any other line. */
export function parseWorkersReport(line: string): readonly number[] | undefined {
  const [, ranks] = /^workers:([\d,]*)$/.exec(line) ?? [];
  return ranks === undefined ? undefined : ranksOf(ranks);
}

const REPORT = /^(dead|only-dead):(.*)$/;

function deadReportLine({ names, isRestDone }: DeadReport): string {
  return `${isRestDone ? "only-dead" : "dead"}:${names.map(asOutputName).join(",")}`;
}

/** Undefined for any other line. */
export function parseDeadReport(line: string): DeadReport | undefined {
  const [, kind, names] = REPORT.exec(line) ?? [];
  return names === undefined ? undefined : { names: names.split(",").filter((name) => name !== ""), isRestDone: kind === "only-dead" };
}

const CHANNEL = "weighbridge:dead-nodes";
const SERVERS_CHANNEL = "weighbridge:servers";
const WORKERS_CHANNEL = "weighbridge:workers";
const COPY_CHANNEL = "weighbridge:copy";
const ENDING_CHANNEL = "weighbridge:job-ending";

export type DeadNodes = {
  /** All that are dead now: "worker 1". */
  readonly names: readonly string[];
  /**
   * Set when all live nodes wait for the dead ones: tells the scheduler that these will not come back, so that the
   * others may leave.
   */
  readonly dismiss?: (() => void) | undefined;
};

/** Publishes the scheduler's roster. */
export function publishRoster({ nodes }: RosterView): void {
  publishDeadNodes({ names: nodes.filter(({ state }) => state === "dead").map(({ node }) => nameOf(node)) });
}

export function publishDeadNodes(dead: DeadNodes): void {
  channel(CHANNEL).publish(dead);
}

/** Publishes which servers there are to be; `lost` is called with the rank of one whose processes have ended. */
export function publishServers(servers: ServersReport, lost: (rank: number) => void): void {
  channel(SERVERS_CHANNEL).publish({ ...servers, lost } satisfies WishedProcesses);
}

/** Publishes which workers there are to be, by rank. */
export function publishWorkers(ranks: readonly number[]): void {
  channel(WORKERS_CHANNEL).publish(ranks);
}

/** Publishes which of the two processes of its server this one is, by the token that it registered with. */
export function publishCopy({ nodes }: RosterView, token: string): void {
  const own = nodes.find((entry) => entry.role !== "worker" && entry.state === "alive" && entry.token === token);
  if (own !== undefined) channel(COPY_CHANNEL).publish((own.role === "standby" ? "standby" : "head") satisfies Copy);
}

/** Whether this process was started by a launcher: the job ends with it. */
export function isLaunched(): boolean {
  return channel(SERVERS_CHANNEL).hasSubscribers; // `watchLauncher` below, maybe of another copy of this module
}

/** Calls `listener` when the launcher ends all processes of the job. Returns the function that stops it. */
export function onJobEnding(listener: () => void): () => void {
  const heard = (): void => listener();
  subscribe(ENDING_CHANNEL, heard);
  return () => void unsubscribe(ENDING_CHANNEL, heard);
}

function onDeadNodes(listener: (dead: DeadNodes) => void): void {
  subscribe(CHANNEL, (message) => listener(message as DeadNodes)); // Published above, maybe by another copy of it.
}

export type LauncherWatch = {
  /** Whether the launcher starts processes again that end too early. By default it does not. */
  readonly isRestarting?: boolean;
  /** Called with the reason why the job ends, shortly before this process gets SIGTERM. */
  readonly onReason?: (reason: string) => void;
  /**
   * Called when the launcher is gone. By default the process ends as the launcher would end it: SIGTERM, then SIGKILL.
   */
  readonly onGone?: () => void;
};

/** Does not keep the process alive. Reports that it watches, and later that the process exits. */
export function watchLauncher({ isRestarting = false, onReason = () => {}, onGone = endSoon }: LauncherWatch = {}): void {
  const pipe = new Socket({ fd: WATCH_FD, readable: true, writable: false });
  const dismissDead = reportDeadNodes();
  let lose: WishedProcesses["lost"] = () => {};
  subscribe(SERVERS_CHANNEL, (message) => {
    const servers = message as WishedProcesses; // published above
    lose = servers.lost;
    send(serversLine(servers));
  });
  subscribe(WORKERS_CHANNEL, (message) => send(`workers:${(message as readonly number[]).join(",")}`));
  let copy: Copy | undefined;
  subscribe(COPY_CHANNEL, (message) => {
    if (message !== copy) send(COPY_LINES[message as Copy]); // published above
    copy = message as Copy;
  });
  subscribe(UNCLOSED_WORKER, (message) => {
    const worker = message as UnclosedWorker; // as unclosed-worker.ts publishes it
    send(`${UNCLOSED_LINE}${asOutputName(worker.name)}`);
    Object.assign(worker, { isTold: true, isAwaited: isRestarting });
  });
  subscribe(PLANNED_END, () => send(PLANNED_LINE));
  pipe.on("error", () => {}); // A broken pipe also closes.
  pipe.on("close", onGone);
  pipe
    .pipe(
      new LineStream((line) => {
        if (line === GONE_LINE) dismissDead();
        else if (line === ENDING_LINE) channel(ENDING_CHANNEL).publish(undefined);
        else if (line.startsWith(LOST_LINE)) lose(Number(line.slice(LOST_LINE.length)));
        else onReason(line);
        return undefined;
      }),
    )
    .resume();
  pipe.unref();
  process.once("exit", (exitCode) => send(`exit:${exitCode}`));
  send(WATCHING_LINE);
}

/**
 * Reports to the launcher which nodes are dead, each time that changes. Returns a function to call when the processes
 * of all of them are gone.
 */
function reportDeadNodes(): () => void {
  let reported = deadReportLine({ names: [], isRestDone: false });
  let dismiss: DeadNodes["dismiss"];
  let isComplete = false;
  onDeadNodes((dead) => {
    if (!isComplete) send(COMPLETE_LINE); // before that there is no roster to publish
    isComplete = true;
    dismiss = dead.dismiss;
    const line = deadReportLine({ names: dead.names, isRestDone: dismiss !== undefined });
    if (line !== reported) send(line);
    reported = line;
  });
  return () => dismiss?.();
}

/** Synchronous: the process may end in the same turn. */
function send(line: string): void {
  try {
    writeSync(WATCH_FD, `${line}\n`);
  } catch {
    // The launcher is gone, which `onGone` handles.
  }
}

function endSoon(): void {
  setTimeout(() => process.kill(process.pid, "SIGKILL"), GRACE_MS).unref();
  process.kill(process.pid, "SIGTERM");
}
