// training-screen — shows a training job: losses as lines; on a terminal a live status line below them, otherwise a
// progress line now and then, ever less often; at the end the summary (training-summary.ts).

import { relative } from "node:path";
import { styleText } from "node:util";
import { countsText } from "../../node/run-scheduler.ts";
import { engineConsistency } from "../../store/consistency.ts";
import { isBenchHere } from "../bench.ts";
import { STATUS_COMMAND } from "../notices.ts";
import { columnsOf, foldLine, number } from "../terminal-text.ts";
import { LiveLine } from "./live-line.ts";
import { fitProgress, lossText, progressFacts, rateText, type Standing, type TimeShares } from "./progress-line.ts";
import type { Progress, Result, WorkerReport } from "./report.ts";
import { isInstalled } from "./task-data.ts";
import {
  consistencyText,
  positionText,
  samplesToVisit,
  savesText,
  stepsPerEpoch,
  stepsToMake,
  TASKS,
  type TrainPlan,
} from "./train-plan.ts";
import { type Done, type Styler, summaryLines } from "./training-summary.ts";
import { WaitSplit } from "./wait-split.ts";

/**
 * Without a terminal: the least time between two progress lines, and their least distance as a share of the time so
 * far.
 */
const PLAIN_LINE_MS = 2000;
const PLAIN_LINE_SHARE = 0.05;
const FIRST_PROGRESS_SECONDS = 0.3;
/** Of what runs, and where: "cluster", "address", … */
const LABEL_CHARS = 9;

type RankedProgress = Progress & { readonly rank: number };

export type ScreenOptions = {
  readonly out: NodeJS.WriteStream;
  readonly plan: TrainPlan;
  /** Where this run saves; left out if it does not save. */
  readonly runDirectory?: string | undefined;
  /** The checkpoint that it continues from. */
  readonly resumedFrom?: string | undefined;
  /** The scheduler's address. */
  readonly scheduler: string;
  /** Steps a second that one process makes of the same training, if that was measured. */
  readonly aloneRate?: number | undefined;
  /** In milliseconds. */
  readonly now?: () => number;
  /** Whether an npm package is installed. */
  readonly has?: (packageName: string) => boolean;
  /** Whether there is a bench to run. */
  readonly hasBench?: boolean;
};

export class TrainingScreen {
  readonly #options: ScreenOptions;
  readonly #plan: TrainPlan;
  readonly #line: LiveLine;
  readonly #style: Styler;
  readonly #now: () => number;
  readonly #progress = new Map<number, RankedProgress>();
  readonly #done = new Map<number, Done>();
  readonly #split: WaitSplit;
  #ready: (WorkerReport & { readonly kind: "ready" }) | undefined;
  #checkpoint: string | undefined;
  #result: Result | undefined;
  #hasLosses = false;
  #startedAt: number | undefined;
  #plainLineAt = 0;
  #savedLineAt = 0;
  #savedUnseen = 0;

  constructor(options: ScreenOptions) {
    const { out, plan, now = () => performance.now() } = options;
    this.#options = options;
    this.#plan = plan;
    this.#now = now;
    this.#line = new LiveLine(out);
    const { workers: workerCount, consistency } = plan;
    this.#split = new WaitSplit({ workerCount, staleness: engineConsistency(consistency).staleness ?? Infinity });
    this.#style = (style, text) => styleText(style, text, { stream: out });
  }

  /** How far the job is, as people count, for the line that reports why it ended. */
  get position(): string {
    const furthest = [...this.#progress.values()].sort((a, b) => b.epoch - a.epoch || b.step - a.step)[0];
    return furthest === undefined ? "before the first step" : `at epoch ${furthest.epoch} step ${furthest.step}`;
  }

  /** Whether a worker has made a step. */
  get isTraining(): boolean {
    return this.#progress.size > 0;
  }

  /** The last checkpoint of this run, by its shortest path from here. */
  get checkpoint(): string | undefined {
    return this.#checkpoint === undefined ? undefined : nearPath(this.#checkpoint);
  }

  open(): void {
    const { task, servers, workers, workersMax, replicas, consistency, batchSize, startsAt } = this.#plan;
    const counts = { serverCount: servers, workerCount: workers, replicas };
    const { runDirectory, resumedFrom, scheduler, aloneRate } = this.#options;
    const most = workersMax === undefined ? "" : ` (up to ${workersMax})`;
    this.#print("");
    this.#print(`  ${this.#style("bold", "Weighbridge")}  ${TASKS[task].title}`);
    this.#print("");
    this.#tell("cluster", `1 scheduler, ${countsText(counts)}${most}, each its own process; ${consistencyText(consistency)}`);
    this.#tell("address", `${scheduler}, for ${STATUS_COMMAND}`);
    if (resumedFrom !== undefined) this.#tell("resumed", `at ${positionText(startsAt)}, from ${nearPath(resumedFrom)}`);
    this.#tell("batches", `of ${number(batchSize)}, ${number(stepsPerEpoch(this.#plan))} steps an epoch`);
    if (aloneRate !== undefined) this.#tell("compared", `with one process, which makes ${rateText(aloneRate)} steps/s`);
    if (runDirectory !== undefined) this.#tell("saves", `${savesText(this.#plan)}, in ${nearPath(runDirectory)}`);
    this.#draw("  starting …");
  }

  show(report: WorkerReport): void {
    switch (report.kind) {
      case "ready":
        if (this.#ready !== undefined) return;
        this.#ready = report;
        this.#tell("data", report.data);
        this.#tell("model", report.model);
        this.#print("");
        return;
      case "loss":
        if (!this.#hasLosses) this.#print("");
        this.#hasLosses = true;
        this.#print(`  epoch: ${report.epoch} step: ${report.step}, loss is ${lossText(report.loss)}`);
        return;
      case "progress":
        this.#startedAt ??= this.#now() - report.seconds * 1000;
        this.#progress.set(report.rank, report);
        this.#split.take(report.rank, report.exchanges);
        this.#showProgress();
        return;
      case "checkpoint":
        this.#checkpoint = report.path;
        if (report.epoch < this.#plan.epochs) this.#showSaved(); // the summary shows the last one
        return;
      case "done":
        this.#progress.set(report.rank, report);
        this.#done.set(report.rank, report);
        this.#showProgress();
        return;
      case "result":
        this.#result = report.result;
    }
  }

  /** Prints a line that is not a report above the live line. */
  note(line: string): void {
    for (const part of foldLine(`  ${line}`, { columns: this.#columns, indent: 2 })) this.#print(part);
  }

  /**
   * Prints the summary, with the names of processes that were ended because they were dead; returns false if there is
   * none, because the training did not reach its end.
   */
  close(lost: readonly string[] = []): boolean {
    this.#line[Symbol.dispose]();
    const result = this.#result;
    if (result === undefined || this.#done.size === 0) return false;
    const summary = {
      plan: this.#plan,
      done: [...this.#done.values()],
      times: this.#times([...this.#done.values()]),
      aloneRate: this.#options.aloneRate,
      result,
      checkpoint: this.checkpoint,
      lost,
      has: this.#options.has ?? isInstalled,
      hasBench: this.#options.hasBench ?? isBenchHere(),
    };
    for (const line of summaryLines(summary, this.#style, this.#columns)) this.#print(line);
    return true;
  }

  /** Infinity if no terminal breaks lines. */
  get #columns(): number {
    return columnsOf(this.#options.out);
  }

  get #isQuiet(): boolean {
    return this.#plan.every === 0;
  }

  #showProgress(): void {
    if (this.#isQuiet || this.#startedAt === undefined) return;
    const standing = this.#standing(this.#startedAt);
    const { sampleCount, sampleTotal, seconds } = standing;
    const isOver = sampleCount === sampleTotal;
    if (seconds < FIRST_PROGRESS_SECONDS && !isOver) return; // Too early to estimate the rest.
    const facts = progressFacts(standing);
    if (this.#line.isLive) {
      this.#line.draw((columns) => {
        const { bar, text } = fitProgress(sampleCount / sampleTotal, facts, columns);
        return { text: this.#style("cyan", bar) + text, chars: bar.length + text.length };
      });
    } else if (this.#now() >= this.#plainLineAt) {
      this.#plainLineAt = isOver ? Infinity : this.#now() + Math.max(PLAIN_LINE_MS, PLAIN_LINE_SHARE * seconds * 1000);
      this.#print(facts.map(({ text }) => `  ${text}`).join(""));
    }
  }

  #standing(startedAt: number): Standing {
    const { batchSize, epochs } = this.#plan;
    const latest = [...this.#progress.values()];
    const sampleTotal = samplesToVisit(this.#plan);
    const sum = (of: (progress: Progress) => number): number => latest.reduce((total, progress) => total + of(progress), 0);
    return {
      sampleCount: Math.min(
        sampleTotal,
        sum(({ sampleCount }) => sampleCount),
      ),
      sampleTotal,
      stepTotal: stepsToMake(this.#plan),
      batchSize,
      seconds: (this.#now() - startedAt) / 1000,
      times: this.#times(latest),
      aloneRate: this.#options.aloneRate,
      loss: sum(({ loss }) => loss) / latest.length,
      epoch: Math.max(...latest.map(({ epoch }) => epoch)),
      epochs,
    };
  }

  /** The mean of these workers. */
  #times(workers: readonly RankedProgress[]): TimeShares {
    const mean = (of: (progress: RankedProgress) => number): number => workers.reduce((sum, each) => sum + of(each), 0) / workers.length;
    const sending = mean(({ sendShare }) => sendShare);
    const waiting = mean(({ waitShare }) => waitShare);
    const forWorkers = mean((each) => each.waitShare * this.#split.othersShare(each.rank));
    return { computing: Math.max(0, 1 - sending - waiting), sending, servers: waiting - forWorkers, workers: forWorkers };
  }

  /** If saves follow each other fast, not every one gets a line: the next line counts those without one. */
  #showSaved(): void {
    if (this.#isQuiet) return;
    if (this.#now() < this.#savedLineAt) {
      this.#savedUnseen++;
      return;
    }
    const others = this.#savedUnseen === 0 ? "" : `, and ${this.#savedUnseen} before it`;
    [this.#savedLineAt, this.#savedUnseen] = [this.#now() + PLAIN_LINE_MS, 0];
    this.#print(`  saved ${this.checkpoint}${others}`);
  }

  #draw(text: string): void {
    this.#line.draw((columns) => ({ text: text.slice(0, columns - 1), chars: Math.min(text.length, columns - 1) }));
  }

  /** Prints one fact of what runs, and where. */
  #tell(label: string, text: string): void {
    for (const line of foldLine(`  ${label.padEnd(LABEL_CHARS)}${text}`, { columns: this.#columns, indent: LABEL_CHARS }))
      this.#print(line);
  }

  #print(line: string): void {
    this.#line.print(line);
  }
}

/** Relative if that is shorter. */
export function nearPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near.length < path.length ? near : path;
}
