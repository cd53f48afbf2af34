// node-process — one process of a job, from its start to its end. It leads a process group of its own: Ctrl-C on the
// terminal reaches the launcher alone, which decides what to send its processes, and signals also reach whatever the
// process started.
//
// Invariants:
//   NodeProcess.N1. A process that has reported its exit code ends with it: within `exitGraceMs` if it failed, and
//       within WELL_GRACES times as long if not, because its exit handlers may save something. Then it is killed. Node
//       can deadlock at its exit: the main thread joins the others while one of them, which compiles, waits until the
//       main thread collects garbage (https://github.com/nodejs/node/issues/54918).

import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Deferred } from "../../base/deferred.ts";
import { outputName } from "../output-name.ts";
import type { ProcessPlan } from "./job-plan.ts";
import {
  COMPLETE_LINE,
  COPY_LINES,
  type Copy,
  type DeadReport,
  GRACE_MS,
  PLANNED_LINE,
  parseDeadReport,
  parseServersReport,
  parseWorkersReport,
  type ServersReport,
  UNCLOSED_LINE,
  WATCH_FD,
  WATCHING_LINE,
} from "./launcher-pipe.ts";
import { ErrorTail, LineStream } from "./node-output.ts";

export type ProcessEnd = {
  readonly plan: ProcessPlan;
  /** As NodeProcess.name. */
  readonly name: string;
  /** Both null: it could not be started. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** It has announced this end, and the next process goes on where it was (EndSignal.E3). */
  readonly isPlanned?: true;
  /** A worker that has not closed its session. */
  readonly isUnclosed?: true;
  /**
   * The line of its standard error that best explains its end; undefined if there is none. SIGKILL leaves no time to
   * explain anything: what was written before is about something else.
   */
  readonly reason: string | undefined;
};

/** What the scheduler's process reports. */
export type SchedulerReports = {
  /** All nodes have joined. */
  readonly onComplete: () => void;
  readonly onDead: (report: DeadReport) => void;
  readonly onServers: (report: ServersReport) => void;
  /** The ranks of the workers that there are to be. */
  readonly onWorkers: (ranks: readonly number[]) => void;
  /** The process of this worker has ended, and it had not closed its session. */
  readonly onUnclosed: (name: string) => void;
};

/** How long to wait for the output of a process that ended; a process it started may hold the pipes open forever. */
const OUTPUT_WAIT_MS = 500;
const WELL_GRACES = 12;
const HAS_GROUPS = process.platform !== "win32";

export class NodeProcess {
  readonly plan: ProcessPlan;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Fulfilled once it ended and its output was read. */
  readonly ended: Promise<ProcessEnd>;
  /** Fulfilled when it has begun to read what `send` writes; never, if it does not read it. */
  readonly watching: Promise<void>;
  readonly #child: ChildProcess;
  readonly #exitGraceMs: number;
  readonly #watching = new Deferred<void>();
  #isRunning = true;
  /** What it reported last; undefined: its server has no other process, or it is not known which one leads. */
  #copy: Copy | undefined;
  #isPlanned = false;
  #isUnclosed = false;
  /** What it reported (NodeProcess.N1). */
  #reportedExitCode: number | undefined;
  #exitTimer: NodeJS.Timeout | undefined;

  constructor(plan: ProcessPlan, reports: Partial<SchedulerReports> = {}, exitGraceMs: number = GRACE_MS) {
    const [command, ...args] = plan.program;
    this.plan = plan;
    this.#exitGraceMs = exitGraceMs;
    this.watching = this.#watching.promise;
    const stdio = ["ignore", "pipe", "pipe"];
    stdio[WATCH_FD] = "pipe";
    const env = { ...(plan.inherited ?? process.env), ...plan.env };
    this.#child = spawn(command, args, { stdio: stdio as "pipe"[], env, detached: HAS_GROUPS });
    // `stdio` makes both of them pipes.
    const { stdout, stderr } = this.#child as ChildProcess & { stdout: Readable; stderr: Readable };
    this.stdout = stdout;
    this.stderr = stderr;
    this.#listen(reports);
    this.ended = this.#watch();
  }

  /** The names of its nodes. */
  get nodeNames(): readonly string[] {
    const { role, ranks } = this.plan;
    return ranks.map((rank) => outputName(role, rank));
  }

  /** As people read it; of two processes of a server, also which one it is. */
  get name(): string {
    const { name } = this.plan;
    return this.#copy === undefined ? name : `${this.#copy === "standby" ? "the standby of " : ""}${name} (process ${this.pid})`;
  }

  /** Of two processes of a server: whether this one has become a copy of it. */
  get hasJoined(): boolean {
    return this.#copy !== undefined;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** It runs, and has said that it exits (NodeProcess.N1). */
  get isExiting(): boolean {
    return this.#isRunning && this.#reportedExitCode !== undefined;
  }

  /** It has ended, and not well. */
  get hasFailed(): boolean {
    return !this.#isRunning && (this.#isUnclosed || this.#endOf(this.#child.exitCode, this.#child.signalCode).exitCode !== 0);
  }

  /** Writes a line to the pipe that it may watch (launcher-pipe.ts). */
  send(line: string): void {
    const pipe = this.#child.stdio[WATCH_FD] as Writable | null | undefined;
    if (this.#isRunning) pipe?.write(`${line}\n`);
  }

  /** Does nothing to a process that has ended. */
  signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (!this.#isRunning || pid === undefined) return;
    try {
      process.kill(HAS_GROUPS ? -pid : pid, signal);
    } catch {
      // It has just ended.
    }
  }

  #listen(reports: Partial<SchedulerReports>): void {
    const { onDead = () => {}, onComplete = () => {}, onServers = () => {}, onWorkers = () => {}, onUnclosed = () => {} } = reports;
    const pipe = this.#child.stdio[WATCH_FD] as Socket | null | undefined;
    pipe?.unref(); // A process that it started may hold the other end open.
    pipe?.on("error", () => {}); // It ended; its exit reports that.
    const take = (line: string): undefined => {
      const report = parseDeadReport(line);
      if (report !== undefined) onDead(report);
      const servers = parseServersReport(line);
      if (servers !== undefined) onServers(servers);
      const workers = parseWorkersReport(line);
      if (workers !== undefined) onWorkers(workers);
      if (line === COMPLETE_LINE) onComplete();
      if (line === COPY_LINES.standby) this.#copy = "standby";
      if (line === COPY_LINES.head) this.#copy = "head";
      if (line === PLANNED_LINE) this.#isPlanned = true;
      if (line.startsWith(UNCLOSED_LINE)) {
        if (this.plan.role === "scheduler") onUnclosed(line.slice(UNCLOSED_LINE.length));
        else this.#isUnclosed = true;
      }
      if (line === WATCHING_LINE) this.#watching.resolve();
      const exitCode = parseExitCode(line);
      if (exitCode !== undefined) this.#expectExit(exitCode);
    };
    pipe?.pipe(new LineStream(take)).resume();
  }

  /** NodeProcess.N1 */
  #expectExit(exitCode: number): void {
    if (!this.#isRunning) return;
    this.#reportedExitCode = exitCode;
    const waitMs = exitCode === 0 ? WELL_GRACES * this.#exitGraceMs : this.#exitGraceMs;
    this.#exitTimer ??= setTimeout(() => this.signal("SIGKILL"), waitMs);
  }

  /** NodeProcess.N1: a process that was killed in its exit has ended as it reported. */
  #endOf(exitCode: number | null, signal: NodeJS.Signals | null): Pick<ProcessEnd, "exitCode" | "signal"> {
    const reported = this.#reportedExitCode;
    return signal === "SIGKILL" && reported !== undefined ? { exitCode: reported, signal: null } : { exitCode, signal };
  }

  async #watch(): Promise<ProcessEnd> {
    const tail = new ErrorTail();
    const exited = new Deferred<Pick<ProcessEnd, "exitCode" | "signal"> & { failure?: string }>();
    const closed = new Deferred<void>();
    this.stderr.on("data", (chunk: Buffer) => tail.add(chunk));
    this.#child.once("error", (error) => exited.resolve({ exitCode: null, signal: null, failure: error.message }));
    this.#child.once("exit", (exitCode, signal) => exited.resolve(this.#endOf(exitCode, signal)));
    this.#child.once("close", () => closed.resolve());
    const { failure, ...end } = await exited.promise;
    this.#isRunning = false;
    clearTimeout(this.#exitTimer);
    const giveUp = new AbortController();
    await Promise.race([closed.promise, sleep(OUTPUT_WAIT_MS, undefined, { signal: giveUp.signal }).catch(() => {})]);
    giveUp.abort();
    const { plan, name } = this;
    const how = {
      ...(this.#isPlanned ? { isPlanned: true as const } : {}),
      ...(this.#isUnclosed ? { isUnclosed: true as const } : {}),
    };
    return { plan, name, ...end, ...how, reason: failure ?? (isFromOutside(end.signal) ? undefined : tail.reason) };
  }
}

/** A failure in words: "worker/1 ended with exit code 3: Error: no data". */
export function endText({ name, exitCode, signal, reason, isUnclosed }: ProcessEnd): string {
  if (exitCode === 0 && isUnclosed === true) return `${name} ended without session.close()`;
  const how = signal !== null ? `was ended by ${signal}` : exitCode !== null ? `ended with exit code ${exitCode}` : "could not be started";
  return `${name} ${how}${reason === undefined ? "" : `: ${reason}`}`;
}

/** Signals that a process does not cause itself: what it printed last does not say why it ended. */
function isFromOutside(signal: NodeJS.Signals | null): boolean {
  return signal === "SIGKILL" || signal === "SIGTERM" || signal === "SIGINT" || signal === "SIGHUP";
}

/** The exit code of a process that is about to exit; undefined for any other line. */
function parseExitCode(line: string): number | undefined {
  const [, exitCode] = /^exit:(\d+)$/.exec(line) ?? [];
  return exitCode === undefined ? undefined : Number(exitCode);
}
