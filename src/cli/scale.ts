// scale — changes the number of servers or workers of a running cluster, and shows how far that is.

import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { scalingAsk, scalingEnded, scalingReport, scalingRollBack, scalingWorkers } from "../contracts/scaling.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { ScalingEnd, ScalingOutcome, ScalingReport } from "../wire/scaling.ts";
import { type ClusterRequest, clusterRequest, type FoundScheduler, requireMeant, withScheduler } from "./cluster-client.ts";
import { addClusterHelp, yesOption } from "./cluster-flags.ts";
import { type Flags, type HelpTexts, type Invocation, timeOf, wholeNumber } from "./command-parts.ts";
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

const HELP: HelpTexts = {
  about: `The command ends when the change has, with exit code 1 if it was rolled back. Ended early, it leaves the change under way.`,
  more: `Parts move while training continues. Clusters that \`weighbridge launch\` or \`weighbridge train\` runs start and end the server
processes themselves. Elsewhere start the new servers as the others were started, with --replicas 2 two processes for each: the change waits
for them, and is rolled back after --timeout.
Servers that leave end by themselves, with exit code 0, the newest first; POST /scalein names others (docs/guides/grow-and-shrink.md).

Workers (--workers) join by themselves wherever they are started with the range of the job, such as -w 2..8; \`launch\` and \`train\` start
them. If they have not all come after --timeout, there are to be as many as before: those that came are asked to leave again. Those of
the highest ranks are asked to leave: a training hands its data over and ends, other scripts hear the event "leaving".`,
  examples: ["scale --servers 4", "scale weighbridge://a.example:9700 --workers 5 --timeout 5min", "scale --rollback"],
};

export function scaleCommand(invocation: Invocation): Command {
  const command = new Command("scale")
    .usage("[weighbridge://host:port] [options]")
    .summary("change the number of servers or workers of a running cluster")
    .description("Adds servers or workers to a running cluster, or lets some leave; parameters and data move accordingly.")
    .option("--servers <count>", "how many servers there are to be", wholeNumber({ min: 1, max: SERVERS_MAX }))
    .option("--workers <count>", "how many workers there are to be", wholeNumber({ min: 1, max: WORKERS_MAX }))
    .option("--timeout <time>", "how long new nodes may take to come [60s]", timeOf(TIMEOUT_MS_MIN))
    .option("--rollback", "take back the change that is under way, instead")
    .option("--json", "print one JSON document, and no progress")
    .addOption(yesOption())
    .action(async (given: Flags & ScaleFlags) => {
      const { servers, workers, timeout: timeoutMs, rollback = false, json = false, yes = false, ...flags } = given;
      if ([servers, workers, rollback || undefined].filter((one) => one !== undefined).length !== 1)
        throw new WeighbridgeError(
          "BAD_CONFIG",
          "scale takes --servers or --workers with their number, or --rollback; see `weighbridge scale --help`",
        );
      const request = clusterRequest("scale", flags, invocation);
      const say = json ? () => {} : (line: string) => void process.stdout.write(`${line}\n`);
      const result = await withScheduler(request, async (found) => {
        requireMeant(found, request, yes);
        if (workers !== undefined) return await scaleWorkers(request, found, { to: workers, timeoutMs, say });
        if (servers === undefined) return await rollBack(request, found, say);
        return await scaleServers(request, found, { to: servers, timeoutMs, say });
      });
      if (json) process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
      if (result.outcome !== "done" && result.outcome !== "unchanged") invocation.exitCode = 1;
    });
  return addClusterHelp(command, invocation, HELP);
}

function sameText(servers: number): string {
  return `there ${servers === 1 ? "is" : "are"} ${countText(servers, "server")} already: nothing changes`;
}

type Wish = { readonly to: number; readonly timeoutMs: number | undefined; readonly say: (line: string) => void };

type ScaleFlags = {
  readonly servers?: number;
  readonly workers?: number;
  readonly timeout?: number;
  readonly rollback?: boolean;
  readonly json?: boolean;
  readonly yes?: boolean;
};

/** How the command ended, as its JSON has it. A rollback that was asked for is done. */
type ScaleResult = {
  /** Servers or workers that there are to be; left out by a rollback of servers. */
  readonly servers?: number;
  readonly workers?: number;
  readonly outcome: ScalingOutcome | "unchanged";
  /** Of the change of the servers. */
  readonly number?: number;
  readonly reason?: string | undefined;
};

async function scaleServers(request: ClusterRequest, found: FoundScheduler, wish: Wish): Promise<ScaleResult> {
  const { to: servers, say } = wish;
  const end = await scaleTo(request, found, wish);
  say(end === undefined ? sameText(servers) : endText(end));
  return end === undefined ? { servers, outcome: "unchanged" } : { servers, ...end };
}

async function scaleWorkers(
  { clock, timeoutMs }: ClusterRequest,
  { scheduler }: FoundScheduler,
  { say, ...wish }: Wish,
): Promise<ScaleResult> {
  let report = await callJson(scheduler, scalingWorkers, wish, clock, { timeoutMs });
  const print = changedLines(say);
  for (;;) {
    print(workersText({ ...report, waitMs: undefined })); // which changes with every look
    if (report.wishedCount === undefined) {
      const { ended = { outcome: "done" } } = report;
      if (ended.outcome !== "done") say(workersEndText(ended));
      return { workers: wish.to, ...ended };
    }
    await sleep(LOOK_EVERY_MS);
    const { workers } = await fetchReport(scheduler, clock, "the workers changed");
    report = workers ?? report;
  }
}

async function scaleTo(
  { clock, timeoutMs }: ClusterRequest,
  { scheduler }: FoundScheduler,
  { say, ...wish }: Wish,
): Promise<ScalingEnd | undefined> {
  const { current, queued, wishedCount } = await fetchReport(scheduler, clock, "it was asked for its servers");
  // whatever the servers hold
  if (current === undefined && queued.length === 0 && wishedCount === wish.to) return undefined;
  const { number } = await callJson(scheduler, scalingAsk, wish, clock, { timeoutMs });
  return await Promise.race([ended(scheduler, clock, number), showProgress(scheduler, clock, number, say)]);
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
async function showProgress(scheduler: Channel, clock: Clock, number: number, say: Wish["say"]): Promise<never> {
  const print = changedLines(say);
  for (;;) {
    print(lineOf(await fetchReport(scheduler, clock, `change ${number} was under way`), number));
    await sleep(LOOK_EVERY_MS);
  }
}

/** Says the lines that it is called with, each unless it is the one before. */
function changedLines(say: Wish["say"]): (line: string) => void {
  let shown = "";
  return (line) => {
    if (line !== shown) say(line);
    shown = line;
  };
}

/** Throws SCHEDULER_UNREACHABLE. */
async function fetchReport(scheduler: Channel, clock: Clock, meanwhile: string): Promise<ScalingReport> {
  try {
    return await callJson(scheduler, scalingReport, {}, clock, { timeoutMs: ANSWER_MS_MAX });
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
async function rollBack({ clock }: ClusterRequest, { scheduler }: FoundScheduler, say: Wish["say"]): Promise<ScaleResult> {
  const { number, workerCount } = await callJson(scheduler, scalingRollBack, {}, clock, { timeoutMs: ROLL_BACK_MS_MAX });
  if (number !== undefined) say(endText({ number, outcome: "rolledBack" }));
  if (workerCount !== undefined) say(workersEndText({ outcome: "rolledBack", reason: backTo(workerCount) }));
  return { outcome: "done", ...(number === undefined ? {} : { number }), ...(workerCount === undefined ? {} : { workers: workerCount }) };
}

function backTo(workerCount: number): string {
  return `there are to be ${countText(workerCount, "worker")} again`;
}
