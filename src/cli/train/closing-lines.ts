// closing-lines — the lines that report the unsuccessful end of a training job: one for each process (process-end.ts),
// with a short cause if another process caused it, one for the job with the whole cause, and one that shows how to
// continue. Pure.

import type { JobOutcome } from "../../node/launcher/job.ts";
import { endText, type ProcessEnd } from "../../node/launcher/node-process.ts";
import { isReaderGone, outputText } from "../standard-output.ts";
import { resumeCommand, type TrainPlan } from "./train-plan.ts";

const PREFIX = "weighbridge: ";
/** One of our causes, up to its error code. */
const CODED = /^\S+(?: [\d-]+)? stopped[^:]*: [A-Z][A-Z_]+(?=: )/;
const SHORT_CHARS_MAX = 160;

/** The closing line of the process of this name, without its name; undefined for any other line. */
export function closingOf(name: string, line: string): string | undefined {
  const head = `${PREFIX}${name} `;
  return line.startsWith(`${head}stopped`) ? line.slice(head.length) : undefined;
}

/**
 * Why the job ended: the closing line of the first process that failed, or how it ended. `position` is how far the job
 * was.
 */
export function causeText(culprit: ProcessEnd, position: string): string {
  const own = culprit.reason?.startsWith(PREFIX) === true ? culprit.reason.slice(PREFIX.length) : undefined;
  return own?.startsWith(`${culprit.plan.name} stopped`) === true ? own : `${endText(culprit)} ${position}`;
}

/** The same for the other processes: node, position and error code. */
export function shortCause(cause: string): string {
  const coded = CODED.exec(cause)?.[0];
  if (coded !== undefined) return coded;
  return cause.length <= SHORT_CHARS_MAX ? cause : `${cause.slice(0, SHORT_CHARS_MAX)} …`;
}

export type JobEnd = {
  readonly outcome: JobOutcome;
  /** Whether the result was reported. */
  readonly hasResult: boolean;
  readonly position: string;
  readonly plan: TrainPlan;
  /** The last one that was saved, or the one the job continued from. */
  readonly checkpoint: string | undefined;
  /** Whether any worker made a step. */
  readonly isTraining: boolean;
};

/** For notices. Empty when the job has its result, and when the reader of its output has gone. */
export function endLines(end: JobEnd): string[] {
  const { outcome, hasResult, position, plan, checkpoint, isTraining } = end;
  if ((outcome.kind === "done" || outcome.kind === "incomplete") && hasResult) return [];
  if (outcome.kind === "unseen" && isReaderGone(outcome.error)) return [];
  const lines = [howText(outcome, position)];
  if (checkpoint !== undefined) lines.push(`to resume from ${checkpoint}: ${resumeCommand(plan)}`);
  else if (plan.checkpointDir !== undefined && isTraining) lines.push("nothing of it was saved yet");
  return lines;
}

function howText(outcome: JobOutcome, position: string): string {
  switch (outcome.kind) {
    case "done":
    case "incomplete":
      return `the job failed: no worker was left to report its result, ${position}`;
    case "failed":
      return `the job failed: ${causeText(outcome.culprit, position)}`;
    case "interrupted":
      return `the job was ended by ${outcome.signal} ${position}`;
    case "unseen":
      return `the job was ended ${position}: ${outputText(outcome.error)}`;
  }
}
