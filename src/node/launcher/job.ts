// job — runs the processes of a job on one machine. The job ends when all of them have ended, when one fails, or when
// it is interrupted.
//
//   running ── all ended well ──────────────► done          ends a process that was declared dead, too (Job.J4)
//      ├── the same, but not every process ended by itself, or closed its session ──► incomplete (Job.J11)
//      ├── one failed: SIGTERM to the others ──┬──► failed      SIGKILL after GRACE_MS
//      ├── interrupt(signal): forwarded ───────┼──► interrupted
//      └── loseOutput(error): SIGTERM to all ──┴──► unseen
//
// Invariants:
//   Job.J1. When `outcome` is fulfilled no process of the job is running.
//   Job.J2. The first process that fails, and is not dispensable, is the reason; the others are sent it, and how they
//       end after that does not matter.
//   Job.J3. Only processes that this job started are signalled, and only while they run.
//   Job.J4. A process that was declared dead is ended when all others have ended well or wait for it alone, and not
//       before: it may be stopped at a breakpoint. The scheduler is notified that it is gone. One that was started
//       again (Job.J7) is not the one that died: it has COMEBACK_MS to join.
//   Job.J5. When a job is ended, the scheduler is ended last: the others would report that it is unreachable. It hears
//       first that all others are being ended: no standby takes over from a server that ends a moment before it.
//   Job.J6. Once the cluster was complete, the end of a process is no failure while another one has the same ranks: a
//       copy of the same servers; nor if that one has ended well, when no worker works any more. Copies that outlive
//       the scheduler's good end, since they are stopped, are ended, and so are servers without parts (Job.J8), and
//       copies that were started again (Job.J7) and have not joined yet. Before the cluster is complete, that holds of
//       a process that a signal ended while another one runs; one that gives a reason ends the start.
//   Job.J7. Where that is asked for, a process that fails in a complete cluster is started again with its rank: a
//       bounded number of times in a row, each after a longer pause. Then its failure counts. One that was stopped, and
//       has announced that the next process goes on where it was, has not failed: it is started again at once. A
//       scheduler that gives one of our errors has ended the job, and told everybody: it is not started again. Others
//       are started again only while there is a scheduler, or one comes back; when it has ended well, the job had no
//       need of them.
//   Job.J8. The scheduler says which servers there are to be. One that has no process is started, in as many processes
//       as hold a rank; one that is not among them leaves by itself, or is ended UNWANTED_GRACE_MS later. The failure
//       of a server without parts is none of the job's: when a process of its rank has ended, and is not started
//       again, the scheduler hears of it, and takes its change back if that waits for the rank.
//   Job.J9. It also says which workers there are to be, when somebody asks for another number of them. One that has no
//       running process is started; one that is not among them leaves by itself, or is ended UNWANTED_GRACE_MS later,
//       and its end is no failure.
//   Job.J10. Where processes print the reason, one that still starts when the job fails is sent SIGTERM only when it
//       has begun to read the reason: before that, the signal would end it silently. SIGKILL comes after the grace
//       period all the same.
//   Job.J11. The job is incomplete, though no process has failed, when one that had parts or work was declared dead and
//       ended (Job.J4, Job.J6; a copy that has not joined had none), when one was dispensable, or when a worker ended
//       with exit code 0 and had not closed its session: the others have continued without it. The last counts as a
//       failure where processes are started again (Job.J7).
//   Job.J12. In a job that serves, and in which no worker runs, the first signal is for the scheduler alone, which ends
//       the job in order: servers save, and all end well. The next signal ends it as any other job; so does a scheduler
//       that ends by the signal, since a server has died. No process is started again from then on.
//   Job.J13. A signal that another process has passed on counts once (signal-echo.ts).

import { setTimeout as sleep } from "node:timers/promises";
import { Deferred } from "../../base/deferred.ts";
import type { Role } from "../config/node-config.ts";
import { SignalEcho } from "../signal-echo.ts";
import type { ProcessPlan } from "./job-plan.ts";
import { DEAD_GRACE_MS, type DeadReport, ENDING_LINE, GONE_LINE, GRACE_MS, LOST_LINE, type ServersReport } from "./launcher-pipe.ts";
import { endText, NodeProcess, type ProcessEnd } from "./node-process.ts";
import { OUR_LINE } from "./process-errors.ts";

export type JobOutcome =
  | { readonly kind: "done" }
  /** All others ended well (Job.J11); the processes that were ended, or did not close their session, by name. */
  | { readonly kind: "incomplete"; readonly names: readonly string[] }
  | { readonly kind: "failed"; readonly culprit: ProcessEnd }
  | { readonly kind: "interrupted"; readonly signal: NodeJS.Signals }
  /** Its output cannot be written. */
  | { readonly kind: "unseen"; readonly error: Error };

/**
 * It was declared dead, and all others are done; or it was to leave, and has not for UNWANTED_GRACE_MS; or the job has
 * ended well before it joined.
 */
export type GivenUp = "dead" | "unwanted" | "late";

export type RestartRules = {
  /** How often in a row. */
  readonly timesMax: number;
  /** Before the first one; twice as long before each that follows, up to `delayMsMax`. */
  readonly delayMs: number;
  readonly delayMsMax: number;
  /** A process that ran for so long has begun well: its failures are counted anew. */
  readonly steadyMs: number;
  /** Who is started again. */
  readonly roles: readonly Role[];
};

/** Longer than the scheduler waits for a server to leave. */
const UNWANTED_GRACE_MS = 15_000;
/** As long as a start may take: until it has joined, the dead node that the scheduler reports is the process before. */
const COMEBACK_MS = 60_000;

const NOBODY: DeadReport = { names: [], isRestDone: false };

export type JobOptions = {
  readonly processes: readonly ProcessPlan[];
  /** The processes of a server that the job gets while it runs (Job.J8). Left out, or empty: none is started. */
  readonly serversOf?: ((rank: number) => readonly ProcessPlan[]) | undefined;
  /** The process of a worker (Job.J9). */
  readonly workerOf?: ((rank: number) => ProcessPlan | undefined) | undefined;
  /** Called for a process that is started while the job runs (Job.J8, Job.J9). */
  readonly onAdded?: (plan: ProcessPlan) => void;
  /** Called for a server that failed without having had parts (Job.J8), and a worker that was to leave (Job.J9). */
  readonly onServerLost?: (end: ProcessEnd) => void;
  /** Attaches the output of each process as it starts; nobody else reads it. */
  readonly attach: (process: NodeProcess) => void;
  /** Called as soon as the job has failed, before the others are ended. */
  readonly onFailure?: (culprit: ProcessEnd) => void;
  /** Whether the job goes on without a process that failed, while these run. By default it does not. */
  readonly isDispensable?: (end: ProcessEnd, running: readonly ProcessPlan[]) => boolean;
  /** The reason to send to the others when one failed; `endText` by default. */
  readonly reasonFor?: (culprit: ProcessEnd) => string;
  /** Whether the processes print the reason that they are sent (Job.J10). By default they do not. */
  readonly isReasonPrinted?: boolean;
  /** Called for a process that failed, and whose servers another process has too (Job.J6). */
  readonly onCopyLost?: (end: ProcessEnd) => void;
  /** Called for a process that failed, when no other one with its servers is left: what they held is gone (Job.J6). */
  readonly onLastCopyLost?: (end: ProcessEnd) => void;
  /** Called for a worker that has ended with exit code 0, and had not closed its session (Job.J11). */
  readonly onUnclosed?: (name: string) => void;
  /** Called for a process that does not end by itself, before it is ended. */
  readonly onGivenUp?: (process: Pick<NodeProcess, "name">, why: GivenUp) => void;
  /** Brings processes back that failed (Job.J7). Left out, a failure ends the job. */
  readonly restart?: RestartRules | undefined;
  /** Called for a process that failed, or was stopped, and will be started again after this long. */
  readonly onRestart?: (end: ProcessEnd, delayMs: number) => void;
  /** Whether the cluster serves on without workers (Job.J12). */
  readonly serves?: boolean;
  /** Called when a job that serves begins to end in order. */
  readonly onOrderlyEnd?: (signal: NodeJS.Signals) => void;
  readonly graceMs?: number;
  /** How long a process that fails may take to exit (NodeProcess.N1); GRACE_MS by default. */
  readonly exitGraceMs?: number;
  /** The grace period of a process that was declared dead. */
  readonly deadGraceMs?: number;
  /** The time by which repeated signals are told apart (Job.J13). */
  readonly nowMs?: () => number;
};

export class Job {
  readonly outcome: Promise<JobOutcome>;
  /** By the order of the plans; one that is started again takes the place of the one before. */
  readonly #processes: NodeProcess[];
  readonly #options: JobOptions;
  readonly #outcome = new Deferred<JobOutcome>();
  #ending: Exclude<JobOutcome, { kind: "done" | "incomplete" }> | undefined;
  #endSignal: NodeJS.Signals = "SIGTERM";
  #killTimer: NodeJS.Timeout | undefined;
  readonly #echo: SignalEcho;
  #dead: DeadReport = NOBODY;
  #isComplete = false;
  /** Job.J12 */
  #isEndingInOrder = false;
  /** The indexes in `#processes` of those whose last end, after all restarts, is not known yet. */
  readonly #open = new Set<number>();
  /** What the scheduler said last (Job.J8). */
  #servers: ServersReport | undefined;
  /** The ranks of workers that it said last (Job.J9). */
  #workers: readonly number[] | undefined;
  /** The scheduler has ended, and is not started again. */
  #hasSchedulerEnded = false;
  /** The scheduler has ended well, and with it the job. */
  #hasEndedWell = false;
  /** Aborted when the job is being ended, or has ended well. */
  readonly #over = new AbortController();
  #copiesTimer: NodeJS.Timeout | undefined;
  /** Processes that were ended because their nodes are dead (Job.J4). */
  readonly #givenUp = new Set<ProcessPlan>();
  /** By name (Job.J11). */
  readonly #incomplete = new Set<string>();
  /** When processes were started again (Job.J7). */
  readonly #comebacks = new WeakMap<NodeProcess, number>();

  /** Starts them all. */
  constructor(options: JobOptions) {
    this.#options = options;
    this.#echo = new SignalEcho(options.nowMs);
    this.outcome = this.#outcome.promise;
    this.#processes = options.processes.map((plan) => this.#start(plan));
    for (const process of this.#processes) options.attach(process);
    for (const index of this.#processes.keys()) this.#follow(index);
  }

  /** To the end of its process, and of the job with the last one. */
  #follow(index: number): void {
    this.#open.add(index);
    const ended = this.#lastEnd(index).then((end) => {
      if (end.plan.role === "scheduler") this.#hasSchedulerEnded = true;
      this.#open.delete(index);
      this.#ended(end);
      if (this.#open.size === 0) this.#finish();
    });
    ended.catch(this.#outcome.reject);
  }

  /** Job.J8 */
  #hearOfServers(servers: ServersReport): void {
    const before = this.#servers?.wished;
    this.#servers = servers;
    if (this.#ending !== undefined) return;
    const isKnown = (rank: number): boolean => this.#processes.some(({ plan }) => plan.role === "server" && plan.ranks.includes(rank));
    // A rank that was given up before its processes had come may be the next one that is wanted.
    const isWantedAnew = (rank: number): boolean => before !== undefined && !before.includes(rank);
    for (const rank of servers.wished)
      if (!isKnown(rank) || isWantedAnew(rank)) for (const plan of this.#missingServers(rank)) this.#add(plan);
    this.#endUnwanted();
  }

  /** Plans for the processes that a rank of a server lacks; one that was given up is none of it. */
  #missingServers(rank: number): readonly ProcessPlan[] {
    const isOfRank = ({ plan }: NodeProcess, index: number): boolean =>
      plan.role === "server" && plan.ranks.includes(rank) && this.#isThere(index) && !this.#givenUp.has(plan);
    return this.#options.serversOf?.(rank).slice(this.#processes.filter(isOfRank).length) ?? [];
  }

  /** Job.J9 */
  #hearOfWorkers(ranks: readonly number[]): void {
    this.#workers = ranks;
    if (this.#ending !== undefined) return;
    const hasWorker = (rank: number): boolean =>
      this.#processes.some(({ plan }, index) => plan.role === "worker" && plan.ranks.includes(rank) && this.#isThere(index));
    for (const rank of ranks) {
      const plan = hasWorker(rank) ? undefined : this.#options.workerOf?.(rank);
      if (plan !== undefined) this.#add(plan);
    }
    this.#endUnwanted();
  }

  /** It runs, or has failed and may be started again: it waits in its pause, or its output is still read (Job.J7). */
  #isThere(index: number): boolean {
    const process = this.#processes[index] as NodeProcess;
    return process.isRunning || (process.hasFailed && this.#open.has(index));
  }

  #add(plan: ProcessPlan): void {
    this.#options.onAdded?.(plan);
    const process = this.#start(plan);
    const index = this.#processes.push(process) - 1;
    this.#options.attach(process);
    this.#follow(index);
  }

  /** Neither among the servers nor among the workers that there are to be. */
  #isUnwanted({ role, ranks }: ProcessPlan): boolean {
    if (role === "scheduler") return false;
    const wished = role === "server" ? this.#servers?.wished : this.#workers;
    return wished !== undefined && !ranks.some((rank) => wished.includes(rank));
  }

  #endUnwanted(): void {
    for (const process of this.#running.filter(({ plan }) => this.#isUnwanted(plan))) {
      const timer = setTimeout(() => {
        if (process.isRunning && this.#isUnwanted(process.plan)) this.#giveUp(process, "unwanted");
      }, UNWANTED_GRACE_MS);
      process.ended.finally(() => clearTimeout(timer)).catch(() => {}); // It does not reject.
    }
  }

  #start(plan: ProcessPlan): NodeProcess {
    const onComplete = (): void => {
      this.#isComplete = true;
    };
    const reports = {
      onComplete,
      onServers: (report: ServersReport) => this.#hearOfServers(report),
      onWorkers: (ranks: readonly number[]) => this.#hearOfWorkers(ranks),
      onDead: (report: DeadReport) => this.#hearOfDead(report),
      onUnclosed: (name: string) => {
        const isOwn = this.#processes.some(({ nodeNames }) => nodeNames.includes(name)); // its end tells
        if (!isOwn && this.#ending === undefined) this.#lack(name);
      },
    };
    return new NodeProcess(plan, reports, this.#options.exitGraceMs);
  }

  /** How the process of this plan ended at last, after all restarts (Job.J7). */
  async #lastEnd(index: number): Promise<ProcessEnd> {
    for (let failures = 0; ; ) {
      const startedAtMs = performance.now();
      const process = this.#processes[index] as NodeProcess;
      const end = await process.ended;
      const { restart, onRestart, attach } = this.#options;
      if (restart === undefined || !this.#mayRestart(end)) return end;
      if (performance.now() - startedAtMs > restart.steadyMs) failures = 0;
      if (end.isPlanned !== true) failures++;
      if (failures > restart.timesMax) return end;
      const delayMs = end.isPlanned === true ? 0 : Math.min(restart.delayMs * 2 ** (failures - 1), restart.delayMsMax);
      onRestart?.(end, delayMs);
      await sleep(delayMs, undefined, { signal: this.#over.signal }).catch(() => {}); // the job ends
      if (this.#hasEndedWell) this.#givenUp.add(process.plan);
      if (!this.#mayRestart(end)) return end;
      if (process.plan.role === "scheduler") this.#dead = NOBODY; // what the one before said of them
      const again = this.#start(process.plan);
      this.#processes[index] = again;
      this.#comebacks.set(again, performance.now());
      attach(again);
    }
  }

  /** Job.J7. Before the cluster is complete every process gets the error; without a scheduler none has a place. */
  #mayRestart({ plan, exitCode, reason, isUnclosed }: ProcessEnd): boolean {
    const hasFailed = exitCode !== 0 || isUnclosed === true;
    const isToReturn = hasFailed && this.#isComplete && this.#options.restart?.roles.includes(plan.role) === true;
    if (!isToReturn || this.#ending !== undefined || this.#isEndingInOrder) return false;
    if (plan.role === "scheduler") return !OUR_LINE.test(reason ?? "");
    return !this.#givenUp.has(plan) && !this.#isUnwanted(plan) && this.#hasScheduler;
  }

  /** One that has just exited may come back until its last end is known. */
  get #hasScheduler(): boolean {
    const scheduler = this.#processes.find(({ plan }) => plan.role === "scheduler");
    const mayReturn = this.#options.restart?.roles.includes("scheduler") === true && !this.#hasSchedulerEnded;
    return scheduler !== undefined && (scheduler.isRunning || mayReturn);
  }

  /** Forwards a signal and ends the job, if need be in order (Job.J12); the second time with SIGKILL. */
  interrupt(signal: NodeJS.Signals): void {
    if (this.#echo.isEcho(signal)) return; // Job.J13
    if (this.#endInOrder(signal)) return;
    if (this.#ending?.kind === "interrupted") this.#signalAll("SIGKILL");
    else this.#end({ kind: "interrupted", signal }, signal);
  }

  /** Job.J12. Returns whether it does. */
  #endInOrder(signal: NodeJS.Signals): boolean {
    const { serves = false, onOrderlyEnd } = this.#options;
    const schedulers = this.#running.filter(({ plan }) => plan.role === "scheduler");
    const hasWorkers = this.#running.some(({ plan }) => plan.role === "worker");
    if (!serves || !this.#isComplete || hasWorkers || schedulers.length === 0) return false;
    if (this.#isEndingInOrder || this.#ending !== undefined) return false;
    this.#isEndingInOrder = true;
    onOrderlyEnd?.(signal);
    for (const scheduler of schedulers) scheduler.signal("SIGTERM");
    return true;
  }

  /** The launcher's own output cannot be written: ends the job, and sends every process the reason. */
  loseOutput(error: Error, reason: string): void {
    if (this.#ending !== undefined) return;
    for (const process of this.#running) process.send(reason);
    this.#end({ kind: "unseen", error }, "SIGTERM");
  }

  #hearOfDead(report: DeadReport): void {
    this.#dead = report;
    setImmediate(() => this.#endDeadProcesses()); // behind what the dead have reported themselves: that they exit
  }

  #ended(end: ProcessEnd): void {
    if (this.#ending !== undefined) {
      this.#endScheduler();
      return; // Job.J2
    }
    this.#tellLost(end.plan);
    if (end.exitCode === 0 && end.plan.role === "scheduler") {
      this.#hasEndedWell = true;
      this.#over.abort();
      this.#endCopiesSoon();
    }
    if (end.exitCode === 0 || this.#givenUp.has(end.plan)) {
      const isMissed = end.isUnclosed === true && !this.#givenUp.has(end.plan) && !this.#isUnwanted(end.plan);
      if (isMissed) this.#lack(end.name, end.plan);
      this.#endDeadProcesses();
    } else this.#judgeFailure(end);
  }

  /** Job.J11: this worker has not closed its session, and no process comes for its rank. */
  #lack(name: string, plan?: ProcessPlan): void {
    this.#incomplete.add(name);
    if (plan !== undefined) this.#givenUp.add(plan); // the scheduler may wait for it (Job.J4)
    this.#options.onUnclosed?.(name);
  }

  /** Job.J8. Of a rank that is still to come: where two processes hold a rank, one alone is never enough. */
  #tellLost(plan: ProcessPlan): void {
    const [rank = -1] = plan.ranks;
    if (!this.#isWithoutParts(plan) || this.#servers?.wished.includes(rank) !== true) return;
    if (this.#givenUp.has(plan) && this.#missingServers(rank).length === 0) return; // others were started for it
    for (const process of this.#running) if (process.plan.role === "scheduler") process.send(`${LOST_LINE}${rank}`);
  }

  /** Job.J6 */
  #endCopiesSoon(): void {
    const end = (): void => {
      for (const process of this.#running) {
        const isWithoutParts = this.#isWithoutParts(process.plan);
        if (process.isExiting || (this.#copiesOf(process.plan).length === 0 && !isWithoutParts)) continue;
        const isLate = this.#comebacks.has(process) && !process.hasJoined;
        if (!isWithoutParts && !isLate) this.#incomplete.add(process.name);
        this.#giveUp(process, isLate ? "late" : "dead");
      }
    };
    this.#copiesTimer = setTimeout(end, this.#options.deadGraceMs ?? DEAD_GRACE_MS);
  }

  /** Other processes with the same servers, whether or not they run. */
  #copiesOf(plan: ProcessPlan): readonly NodeProcess[] {
    return this.#processes.filter((other) => other.plan !== plan && plan.role === "server" && isCopy(other.plan, plan));
  }

  /** Job.J4 */
  #endDeadProcesses(): void {
    const { names, isRestDone } = this.#dead;
    if (this.#ending !== undefined || names.length === 0) return;
    const running = this.#running;
    const isDead = ({ nodeNames, isExiting }: NodeProcess): boolean => !isExiting && nodeNames.every((name) => names.includes(name));
    const dead = running.filter((process) => isDead(process) && !this.#comesBack(process));
    if (dead.length < running.length && !isRestDone) return;
    for (const process of dead) {
      this.#incomplete.add(process.name);
      this.#giveUp(process);
    }
    if (names.every((name) => this.#isGone(name))) for (const process of running) process.send(GONE_LINE);
  }

  #comesBack(process: NodeProcess): boolean {
    return performance.now() - (this.#comebacks.get(process) ?? -Infinity) < COMEBACK_MS;
  }

  /** Whether the process of this node was ended as dead and has exited. */
  #isGone(nodeName: string): boolean {
    return this.#processes.some(({ plan, nodeNames, isRunning }) => this.#givenUp.has(plan) && !isRunning && nodeNames.includes(nodeName));
  }

  #giveUp(process: NodeProcess, why: GivenUp = "dead"): void {
    const { onGivenUp, deadGraceMs = DEAD_GRACE_MS } = this.#options;
    if (this.#givenUp.has(process.plan)) return;
    this.#givenUp.add(process.plan);
    onGivenUp?.(process, why);
    process.signal("SIGTERM");
    const timer = setTimeout(() => process.signal("SIGKILL"), deadGraceMs);
    process.ended.finally(() => clearTimeout(timer)).catch(() => {}); // It does not reject.
  }

  #judgeFailure(end: ProcessEnd): void {
    const running = this.#running;
    const plans = running.map(({ plan }) => plan);
    if (this.#isEndingInOrder && end.plan.role === "scheduler" && end.exitCode !== 1) {
      this.#end({ kind: "interrupted", signal: "SIGTERM" }, "SIGTERM"); // Job.J12
      return;
    }
    if (this.#isComplete ? this.#hasCopy(end.plan) : end.signal !== null && this.#hasRunningCopy(end.plan)) {
      this.#options.onCopyLost?.(end); // Job.J6
      return;
    }
    if (this.#isWithoutParts(end.plan) || (end.plan.role === "worker" && this.#isUnwanted(end.plan))) {
      this.#options.onServerLost?.(end);
      return;
    }
    if (this.#options.isDispensable?.(end, plans) === true) {
      this.#incomplete.add(end.name);
      this.#endDeadProcesses();
      return;
    }
    if (this.#isComplete && this.#copiesOf(end.plan).length > 0) this.#options.onLastCopyLost?.(end);
    this.#options.onFailure?.(end);
    const { reasonFor = endText } = this.#options;
    for (const process of running) process.send(reasonFor(end));
    this.#end({ kind: "failed", culprit: end }, "SIGTERM");
  }

  /** Job.J6. Processes of a server end in any order, and one may be killed a moment before, and noticed after. */
  #hasCopy(plan: ProcessPlan): boolean {
    const isAtWork = this.#running.some(({ plan: { role } }) => role === "worker");
    return this.#copiesOf(plan).some(({ isRunning, hasFailed }) => isRunning || !(hasFailed || isAtWork));
  }

  #hasRunningCopy(plan: ProcessPlan): boolean {
    return this.#copiesOf(plan).some(({ isRunning }) => isRunning);
  }

  /** Job.J8 */
  #isWithoutParts({ role, ranks }: ProcessPlan): boolean {
    const { placed = ranks } = this.#servers ?? {};
    return role === "server" && !ranks.some((rank) => placed.includes(rank));
  }

  #end(ending: Exclude<JobOutcome, { kind: "done" | "incomplete" }>, signal: NodeJS.Signals): void {
    this.#ending = ending;
    this.#over.abort();
    this.#endSignal = signal;
    for (const process of this.#running) if (process.plan.role === "scheduler") process.send(ENDING_LINE);
    for (const process of this.#running) if (process.plan.role !== "scheduler") this.#endProcess(process);
    this.#endScheduler();
    clearTimeout(this.#killTimer);
    this.#killTimer = setTimeout(() => this.#signalAll("SIGKILL"), this.#options.graceMs ?? GRACE_MS);
  }

  /** Job.J5 */
  #endScheduler(): void {
    const running = this.#running;
    if (running.every(({ plan }) => plan.role === "scheduler")) for (const process of running) this.#endProcess(process);
  }

  /** Job.J10 */
  #endProcess(process: NodeProcess): void {
    const isReasonAwaited = this.#ending?.kind === "failed" && this.#options.isReasonPrinted === true;
    if (!isReasonAwaited) process.signal(this.#endSignal);
    else process.watching.then(() => process.signal(this.#endSignal)).catch(() => {}); // It does not reject.
  }

  get #running(): readonly NodeProcess[] {
    return this.#processes.filter(({ isRunning }) => isRunning);
  }

  /** Job.J3 */
  #signalAll(signal: NodeJS.Signals): void {
    for (const process of this.#processes) process.signal(signal);
  }

  /** Job.J1 */
  #finish(): void {
    clearTimeout(this.#killTimer);
    clearTimeout(this.#copiesTimer);
    const names = [...this.#incomplete];
    this.#outcome.resolve(this.#ending ?? (names.length === 0 ? { kind: "done" } : { kind: "incomplete", names }));
  }
}

function isCopy(one: ProcessPlan, other: ProcessPlan): boolean {
  return one.role === other.role && one.ranks[0] === other.ranks[0];
}
