// scale — changes the number of servers of a running cluster, and shows how far that is.

import { setTimeout as sleep } from "node:timers/promises";
import { Command, InvalidArgumentError } from "commander";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { scalingAsk, scalingReport, scalingRollBack } from "../contracts/scaling.ts";
import { duration } from "../node/config/value-kind.ts";
import { ask } from "../peer/call-function.ts";
import type { ScalingEnd, ScalingReport } from "../wire/scaling.ts";
import { addClusterFlags, type ClusterRequest, clusterRequest, type FoundScheduler, withScheduler } from "./cluster-client.ts";
import { type Flags, helpText, type Invocation, wholeNumber } from "./command-parts.ts";
import { changeText, endText } from "./scaling-text.ts";

/** As many as there are parts. */
const SERVERS_MAX = 4096;
const TIMEOUT_MS_MIN = 100;
const LOOK_EVERY_MS = 200;
const ROLL_BACK_MS_MAX = 600_000;
/** A scheduler that does not answer for longer is gone. */
const ANSWER_MS_MAX = 10_000;

const HELP = `
Parts move while training goes on. Clusters that \`weighbridge launch\` or \`weighbridge train\` runs start and end the server processes
themselves. Elsewhere start the new servers as the others were started: the change waits for them, and is rolled back after --timeout.
Servers that leave end by themselves, with exit code 0, the newest first; POST /scalein names others (docs/guides/grow-and-shrink.md).

The command ends when the change has, with exit code 1 if it was rolled back. Ended early, it leaves the change under way.

Examples:
  $ weighbridge scale --servers 4 --scheduler-port 9700
  $ weighbridge scale --servers 4 --timeout 5min --scheduler-port 9700
  $ weighbridge scale --rollback --scheduler-port 9700`;

export function scaleCommand(invocation: Invocation): Command {
  const command = new Command("scale")
    .summary("change the number of servers of a running cluster")
    .description("Adds servers to a running cluster, or lets some leave, and moves the parameters accordingly.")
    .option("--servers <count>", "how many servers there are to be", wholeNumber({ min: 1, max: SERVERS_MAX }))
    .option("--timeout <duration>", "how long new servers may take to come [60s]", milliseconds)
    .option("--rollback", "take back the change that is under way, instead")
    .addHelpText("after", helpText(HELP))
    .action(async (flags: Flags & { readonly servers?: number; readonly timeout?: number; readonly rollback?: boolean }) => {
      const { servers, timeout: timeoutMs, rollback = false } = flags;
      if ((servers === undefined) !== rollback)
        throw new WeighbridgeError("BAD_CONFIG", "scale takes --servers with their number, or --rollback; see `weighbridge scale --help`");
      const request = clusterRequest(flags);
      const end = await withScheduler(request, (found) =>
        servers === undefined ? rollBack(request, found) : scaleTo(request, found, { to: servers, timeoutMs }),
      );
      process.stdout.write(`${endText(end)}\n`);
      if (end.outcome !== (rollback ? "rolledBack" : "done")) invocation.exitCode = 1;
    });
  return addClusterFlags(command);
}

async function scaleTo(
  { clock, deadlineMs }: ClusterRequest,
  { scheduler }: FoundScheduler,
  wish: { readonly to: number; readonly timeoutMs: number | undefined },
): Promise<ScalingEnd> {
  const { number } = await ask(scheduler, scalingAsk, wish, clock, { deadlineMs });
  let shown = "";
  for (;;) {
    const report = await ask(scheduler, scalingReport, {}, clock, { deadlineMs: ANSWER_MS_MAX }).catch((thrown: unknown) => {
      throw isWeighbridgeError(thrown, "DEADLINE") ? goneError(number, thrown) : thrown;
    });
    const end = report.ended.find((one) => one.number === number);
    if (end !== undefined) return end;
    const line = lineOf(report, number);
    if (line !== shown) process.stdout.write(`${line}\n`);
    shown = line;
    await sleep(LOOK_EVERY_MS);
  }
}

function goneError(number: number, cause: WeighbridgeError): WeighbridgeError {
  const message = `the scheduler has not answered for ${ANSWER_MS_MAX / 1000} s while change ${number} was under way: its job has ended, or it is away`;
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { cause });
}

/** Without the time that is left, which changes with every look. */
function lineOf({ current }: ScalingReport, number: number): string {
  if (current === undefined) return `change ${number} begins`;
  const text = changeText(current).replace(/, [^,]* left$/, "");
  return current.number === number ? text : `change ${number} waits for ${text}`;
}

async function rollBack({ clock }: ClusterRequest, { scheduler }: FoundScheduler): Promise<ScalingEnd> {
  const { number } = await ask(scheduler, scalingRollBack, {}, clock, { deadlineMs: ROLL_BACK_MS_MAX });
  return { number, outcome: "rolledBack" };
}

function milliseconds(text: string): number {
  const kind = duration(TIMEOUT_MS_MIN);
  const read = kind.read(text);
  if (read === undefined) throw new InvalidArgumentError(`Expected ${kind.expected}.`);
  return read.value;
}
