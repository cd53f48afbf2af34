// scale — changes the number of servers or workers of a running cluster, and shows how far that is.

import { setTimeout as sleep } from "node:timers/promises";
import { Command, InvalidArgumentError } from "commander";
import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { scalingAsk, scalingEnded, scalingReport, scalingRollBack, scalingWorkers } from "../contracts/scaling.ts";
import { duration } from "../node/config/value-kind.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { ScalingEnd, ScalingReport } from "../wire/scaling.ts";
import { addClusterFlags, type ClusterRequest, clusterRequest, type FoundScheduler, withScheduler } from "./cluster-client.ts";
import { type Flags, helpText, type Invocation, wholeNumber } from "./command-parts.ts";
import { changeText, endText, workersEndText, workersText } from "./scaling-text.ts";
import { countText } from "./terminal-text.ts";

/** As many as there are parts. */
const SERVERS_MAX = 4096;
const WORKERS_MAX = 65_536;
const TIMEOUT_MS_MIN = 100;
const LOOK_EVERY_MS = 200;
const ROLL_BACK_MS_MAX = 600_000;
/** A scheduler that does not answer for longer was killed, or is cut off: one whose job ends says so. */
const ANSWER_MS_MAX = 10_000;

const HELP = `
Parts move while training goes on. Clusters that \`weighbridge launch\` or \`weighbridge train\` runs start and end the server processes
themselves. Elsewhere start the new servers as the others were started, with --replicas 2 two processes for each: the change waits for them,
and is rolled back after --timeout.
Servers that leave end by themselves, with exit code 0, the newest first; POST /scalein names others (docs/guides/grow-and-shrink.md).

Workers (--workers) join by themselves wherever they are started with the range of the job, such as -w 2..8; \`launch\` and \`train\` start
them. If they have not all come after --timeout, there are to be as many as before: those that came are asked to leave again. Those of
the highest ranks are asked to leave: a training hands its data over and ends, other scripts see it in session.leaving.

The command ends when the change has, with exit code 1 if it was rolled back. Ended early, it leaves the change under way.

Examples:
  $ weighbridge scale --servers 4 --scheduler-port 9700
  $ weighbridge scale --servers 4 --timeout 5min --scheduler-port 9700
  $ weighbridge scale --workers 5 --scheduler-port 9700
  $ weighbridge scale --rollback --scheduler-port 9700`;

export function scaleCommand(invocation: Invocation): Command {
  const command = new Command("scale")
    .summary("change the number of servers or workers of a running cluster")
    .description("Adds servers or workers to a running cluster, or lets some leave; parameters and data move accordingly.")
    .option("--servers <count>", "how many servers there are to be", wholeNumber({ min: 1, max: SERVERS_MAX }))
    .option("--workers <count>", "how many workers there are to be", wholeNumber({ min: 1, max: WORKERS_MAX }))
    .option("--timeout <duration>", "how long new nodes may take to come [60s]", milliseconds)
    .option("--rollback", "take back the change that is under way, instead")
    .addHelpText("after", helpText(HELP))
    .action(async (given: Flags & ScaleFlags) => {
      const { servers, workers, timeout: timeoutMs, rollback = false, ...flags } = given;
      if ([servers, workers, rollback || undefined].filter((one) => one !== undefined).length !== 1)
        throw new WeighbridgeError(
          "BAD_CONFIG",
          "scale takes --servers or --workers with their number, or --rollback; see `weighbridge scale --help`",
        );
      const request = clusterRequest("scale", flags);
      const isDone = await withScheduler(request, async (found) => {
        if (workers !== undefined) return await scaleWorkers(request, found, { to: workers, timeoutMs });
        if (servers === undefined) return await rollBack(request, found);
        const end = await scaleTo(request, found, { to: servers, timeoutMs });
        process.stdout.write(`${endText(end)}\n`);
        return end.outcome === "done";
      });
      if (!isDone) invocation.exitCode = 1;
    });
  return addClusterFlags(command);
}

type Wish = { readonly to: number; readonly timeoutMs: number | undefined };

type ScaleFlags = { readonly servers?: number; readonly workers?: number; readonly timeout?: number; readonly rollback?: boolean };

/** Returns whether there are as many as were asked for. */
async function scaleWorkers({ clock, deadlineMs }: ClusterRequest, { scheduler }: FoundScheduler, wish: Wish): Promise<boolean> {
  let report = await callJson(scheduler, scalingWorkers, wish, clock, { deadlineMs });
  const print = changedLines();
  for (;;) {
    print(workersText({ ...report, waitMs: undefined })); // which changes with every look
    if (report.wishedCount === undefined) {
      const { ended = { outcome: "done" } } = report;
      if (ended.outcome !== "done") process.stdout.write(`${workersEndText(ended)}\n`);
      return ended.outcome === "done";
    }
    await sleep(LOOK_EVERY_MS);
    const { workers } = await fetchReport(scheduler, clock, "the workers changed");
    report = workers ?? report;
  }
}

async function scaleTo({ clock, deadlineMs }: ClusterRequest, { scheduler }: FoundScheduler, wish: Wish): Promise<ScalingEnd> {
  const { number } = await callJson(scheduler, scalingAsk, wish, clock, { deadlineMs });
  return await Promise.race([ended(scheduler, clock, number), showProgress(scheduler, clock, number)]);
}

/** Throws CLOSED when the job has ended before. A scheduler that was started again is asked again. */
async function ended(scheduler: Channel, clock: Clock, number: number): Promise<ScalingEnd> {
  for (;;) {
    try {
      return await callJson(scheduler, scalingEnded, { number }, clock);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown) || !(thrown.retryable || thrown.code === "NODE_DEAD" || thrown.code === "LINK_LOST")) throw thrown;
      await sleep(LOOK_EVERY_MS);
    }
  }
}

/** Ends only when the scheduler is gone. */
async function showProgress(scheduler: Channel, clock: Clock, number: number): Promise<never> {
  const print = changedLines();
  for (;;) {
    print(lineOf(await fetchReport(scheduler, clock, `change ${number} was under way`), number));
    await sleep(LOOK_EVERY_MS);
  }
}

/** Prints the lines that it is called with, each unless it is the one before. */
function changedLines(): (line: string) => void {
  let shown = "";
  return (line) => {
    if (line !== shown) process.stdout.write(`${line}\n`);
    shown = line;
  };
}

/** Throws SCHEDULER_UNREACHABLE. */
async function fetchReport(scheduler: Channel, clock: Clock, meanwhile: string): Promise<ScalingReport> {
  try {
    return await callJson(scheduler, scalingReport, {}, clock, { deadlineMs: ANSWER_MS_MAX });
  } catch (cause) {
    if (!isWeighbridgeError(cause, "DEADLINE")) throw cause;
    const message = `the scheduler has not answered for ${ANSWER_MS_MAX / 1000} s while ${meanwhile}: it was killed, or cannot be reached`;
    throw new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { cause });
  }
}

/** Without the time that is left, which changes with every look. */
function lineOf({ current }: ScalingReport, number: number): string {
  if (current === undefined) return `change ${number} begins`;
  const text = changeText(current).replace(/, [^,]* left$/, "");
  return current.number === number ? text : `change ${number} waits for ${text}`;
}

/** Throws BAD_REQUEST if there is nothing to take back. */
async function rollBack({ clock }: ClusterRequest, { scheduler }: FoundScheduler): Promise<true> {
  const { number, workerCount } = await callJson(scheduler, scalingRollBack, {}, clock, { deadlineMs: ROLL_BACK_MS_MAX });
  if (number !== undefined) process.stdout.write(`${endText({ number, outcome: "rolledBack" })}\n`);
  if (workerCount !== undefined) process.stdout.write(`${workersEndText({ outcome: "rolledBack", reason: backTo(workerCount) })}\n`);
  return true;
}

function backTo(workerCount: number): string {
  return `there are to be ${countText(workerCount, "worker")} again`;
}

function milliseconds(text: string): number {
  const kind = duration(TIMEOUT_MS_MIN);
  const read = kind.read(text);
  if (read === undefined) throw new InvalidArgumentError(`Expected ${kind.expected}.`);
  return read.value;
}
