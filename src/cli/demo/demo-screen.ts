// demo-screen — shows a training run: on a terminal a line that keeps itself up to date, elsewhere a line now and then; a summary at the end.

import { styleText } from "node:util";
import { countsText } from "../roster-teller.ts";
import { barText, columnsText, compactNumber, number, percent } from "./figures.ts";
import type { Quality } from "./quality.ts";
import type { Report, Result, Traffic } from "./report.ts";

export type DemoSize = { readonly serverCount: number; readonly workerCount: number; readonly stepCount: number };

const BAR_CHARS = 24;
const WIDE_COLUMNS = 110;
const PLAIN_LINE_MS = 2000;
const FIRST_PROGRESS_SECONDS = 0.3;
const NEXT_STEPS: readonly (readonly [command: string, what: string])[] = [
  ["npx weighbridge demo -s 4 -w 4", "the same with more of everything"],
  ["npx weighbridge launch -s 2 -w 2 -- examples/01-push-pull/main.ts", "a script of 30 lines, to start from"],
  ["npx weighbridge bench --quick", "how fast this machine pushes and pulls"],
];
const CLEAR_LINE = "\r\x1b[2K";

export class DemoScreen {
  readonly #out: NodeJS.WriteStream;
  readonly #size: DemoSize;
  readonly #steps: number[];
  readonly #ready = new Set<number>();
  readonly #traffic: Traffic[] = [];
  readonly #openedAt = performance.now();
  #startedAt = 0;
  #plainLineAt = 0;
  #loss = Math.LN2;
  #before: Quality | undefined;
  #quality: Quality | undefined;
  #result: Result | undefined;

  constructor(out: NodeJS.WriteStream, size: DemoSize) {
    this.#out = out;
    this.#size = size;
    this.#steps = new Array<number>(size.workerCount).fill(0);
  }

  open(): void {
    const { serverCount, workerCount } = this.#size;
    this.#print("");
    this.#print(`  ${this.#style("bold", "Weighbridge")}  a click-through model, trained by a cluster on this machine`);
    this.#print("");
    this.#print("  model    logistic regression, 20,000 weights; clicks drawn from a known truth");
    this.#print(`  cluster  1 scheduler, ${countsText(serverCount, workerCount)}, each its own process`);
    this.#print("");
    this.#live("  starting …");
  }

  show(report: Report): void {
    switch (report.kind) {
      case "ready":
        this.#before ??= report.before;
        this.#ready.add(report.rank);
        if (this.#ready.size < this.#size.workerCount) return;
        this.#startedAt = performance.now();
        this.#live("");
        this.#print(
          `  ${this.#style("green", "✓")} the cluster is complete after ${((this.#startedAt - this.#openedAt) / 1000).toFixed(1)} s`,
        );
        return;
      case "progress":
        this.#steps[report.rank] = report.step;
        if (report.rank === 0) this.#loss = report.loss;
        this.#showProgress();
        return;
      case "quality":
        this.#quality = report.quality;
        return;
      case "done":
        this.#steps[report.rank] = report.traffic.updateCount;
        this.#traffic.push(report.traffic);
        this.#showProgress();
        return;
      case "result":
        this.#result = report.result;
    }
  }

  /** A line that the demo did not expect, above the live one. */
  note(line: string): void {
    this.#live("");
    this.#print(`  ${line}`);
  }

  /** The summary; false when there is nothing to tell, since the training did not get to its end. */
  close(): boolean {
    this.#live("");
    const { workerCount, stepCount } = this.#size;
    if (this.#result === undefined || this.#before === undefined || this.#traffic.length < workerCount) return false;
    const seconds = Math.max(...this.#traffic.map((traffic) => traffic.seconds));
    const updateCount = this.#traffic.reduce((sum, traffic) => sum + traffic.updateCount, 0);
    this.#print(`  ${this.#style("green", "✓")} ${number(stepCount * workerCount)} steps in ${seconds.toFixed(1)} s`);
    this.#print("");
    this.#printQualities(this.#before, this.#result);
    this.#print("");
    this.#printTraffic(updateCount, seconds);
    this.#printKeys(this.#result.keysPerServer);
    this.#print("");
    this.#printNextSteps();
    this.#print("");
    return true;
  }

  #showProgress(): void {
    const total = this.#size.stepCount * this.#size.workerCount;
    const step = this.#steps.reduce((sum, steps) => sum + steps, 0);
    const now = performance.now();
    const seconds = (now - this.#startedAt) / 1000;
    if (seconds < FIRST_PROGRESS_SECONDS && step < total) return; // Nothing to judge the rest by yet.
    const rate = step / seconds;
    const facts = [
      `step ${number(step).padStart(number(total).length)}/${number(total)}`,
      `AUC ${this.#quality?.auc.toFixed(3) ?? "-"}`,
      step === total ? "done" : `${Math.ceil((total - step) / rate)} s left`,
      `${number(Math.round(rate))} steps/s`,
      `loss ${this.#loss.toFixed(3)}`,
      `accuracy ${percent(this.#quality?.accuracy)}`,
    ];
    if (this.#out.isTTY) this.#live(this.#progressLine(step / total, facts));
    else if (now >= this.#plainLineAt || step === total) {
      this.#plainLineAt = now + PLAIN_LINE_MS;
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

  #printQualities(before: Quality, { after, best }: Result): void {
    const row = (name: string, of: (quality: Quality) => string): string[] => [name, of(before), of(after), of(best)];
    const lines = columnsText([
      ["on clicks it never saw", "before", "after", "best possible"],
      row("accuracy", ({ accuracy }) => percent(accuracy)),
      row("AUC", ({ auc }) => auc.toFixed(3)),
      row("log loss", ({ logLoss }) => logLoss.toFixed(3)),
    ]);
    for (const [index, line] of lines.entries()) this.#print(`  ${index === 0 ? this.#style("dim", line) : line}`);
  }

  #printTraffic(updateCount: number, seconds: number): void {
    const weightCount = this.#traffic.reduce((sum, traffic) => sum + traffic.weightCount, 0);
    const byteCount = this.#traffic.reduce((sum, traffic) => sum + traffic.byteCount, 0);
    this.#print(`  updates  ${number(Math.round(updateCount / seconds))} a second, ${number(updateCount)} in all`);
    this.#print(`  traffic  ${compactNumber(weightCount)} weights pushed and pulled, ${compactNumber(byteCount)}B with their keys`);
  }

  #printKeys(keysPerServer: readonly number[]): void {
    const most = Math.max(...keysPerServer);
    keysPerServer.forEach((keyCount, rank) => {
      const head = rank === 0 ? "keys   " : "       ";
      this.#print(`  ${head}  server ${rank}  ${this.#style("yellow", barText(keyCount / most, 16))}  ${number(keyCount)}`);
    });
  }

  #printNextSteps(): void {
    this.#print(`  ${this.#style("bold", "Try next")}`);
    for (const [command, what] of NEXT_STEPS) {
      this.#print(`    ${this.#style("dim", `# ${what}`)}`);
      this.#print(`    ${command}`);
    }
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
