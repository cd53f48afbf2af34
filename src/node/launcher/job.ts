// job — the processes of a job on one machine. The job ends when all of them have ended, when one fails, or when it is interrupted.
//
//   running ── all ended well ──────────────► done
//      ├── one failed: SIGTERM to the others ──┬──► failed      who has not ended GRACE_MS later gets SIGKILL
//      └── interrupt(signal): forwarded ───────┴──► interrupted
//
// Invariants:
//   J1. When `outcome` is fulfilled no process of the job is running.
//   J2. The first that fails, and is not one that can be done without, is the reason; the others are told it; how they end after that tells nothing.
//   J3. Only processes that this job started are signalled, and only while they run.

import { Deferred } from "../../base/deferred.ts";
import type { ProcessPlan } from "./job-plan.ts";
import { endText, NodeProcess, type ProcessEnd } from "./node-process.ts";
import { GRACE_MS } from "./watch-pipe.ts";

export type JobOutcome =
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly culprit: ProcessEnd }
  | { readonly kind: "interrupted"; readonly signal: NodeJS.Signals };

export type JobOptions = {
  readonly processes: readonly ProcessPlan[];
  /** Takes the output of each process as it starts; nobody else reads it. */
  readonly attach: (process: NodeProcess) => void;
  /** Told as soon as the job has failed, before the others were ended. */
  readonly onFailure?: (culprit: ProcessEnd) => void;
  /** Whether the job goes on without a process that failed, while these run. By default it does not. */
  readonly isDispensable?: (end: ProcessEnd, running: readonly ProcessPlan[]) => boolean;
  /** What the others are told about the first that failed; `endText` by default. */
  readonly wordFor?: (culprit: ProcessEnd) => string;
  readonly graceMs?: number;
};

export class Job {
  readonly outcome: Promise<JobOutcome>;
  readonly #processes: readonly NodeProcess[];
  readonly #options: JobOptions;
  readonly #outcome = new Deferred<JobOutcome>();
  #ending: Exclude<JobOutcome, { kind: "done" }> | undefined;
  #killTimer: NodeJS.Timeout | undefined;

  /** Starts them all. */
  constructor(options: JobOptions) {
    this.#options = options;
    this.outcome = this.#outcome.promise;
    this.#processes = options.processes.map((plan) => new NodeProcess(plan));
    for (const process of this.#processes) options.attach(process);
    const ends = this.#processes.map((process) => process.ended.then((end) => this.#ended(end)));
    Promise.all(ends).then(() => this.#finish(), this.#outcome.reject);
  }

  /** Forwards a signal and ends the job; the second time without mercy. */
  interrupt(signal: NodeJS.Signals): void {
    if (this.#ending?.kind === "interrupted") this.#signalAll("SIGKILL");
    else this.#end({ kind: "interrupted", signal }, signal);
  }

  #ended(end: ProcessEnd): void {
    if (end.exitCode === 0 || this.#ending !== undefined) return; // J2
    const running = this.#processes.filter(({ isRunning }) => isRunning);
    const plans = running.map(({ plan }) => plan);
    if (this.#options.isDispensable?.(end, plans) === true) return;
    this.#options.onFailure?.(end);
    const { wordFor = endText } = this.#options;
    for (const process of running) process.tell(wordFor(end));
    this.#end({ kind: "failed", culprit: end }, "SIGTERM");
  }

  #end(ending: Exclude<JobOutcome, { kind: "done" }>, signal: NodeJS.Signals): void {
    this.#ending = ending;
    this.#signalAll(signal);
    clearTimeout(this.#killTimer);
    this.#killTimer = setTimeout(() => this.#signalAll("SIGKILL"), this.#options.graceMs ?? GRACE_MS);
  }

  /** J3 */
  #signalAll(signal: NodeJS.Signals): void {
    for (const process of this.#processes) process.signal(signal);
  }

  /** J1 */
  #finish(): void {
    clearTimeout(this.#killTimer);
    this.#outcome.resolve(this.#ending ?? { kind: "done" });
  }
}
