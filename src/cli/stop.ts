// stop — ends a running job of this machine: the process that started it is sent SIGTERM, as any service manager would.
// `launch` and `train` then end their processes, in order if the job serves guests alone. Nothing on the wire ends a
// job: whoever reaches a scheduler's port could do it.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { WeighbridgeError } from "../base/errors.ts";
import { isAlive, recordDirectory, type SchedulerProcess, schedulerProcess } from "../node/last-job.ts";
import { outputAddress, outputNameOf, processText } from "../node/output-name.ts";
import type { StatusReply } from "../wire/control.ts";
import { clusterRequest, requireMeant, withScheduler } from "./cluster-client.ts";
import { addClusterHelp, yesOption } from "./cluster-flags.ts";
import { type Flags, type HelpTexts, type Invocation, timeOf } from "./command-parts.ts";
import { printNotice } from "./notices.ts";
import { durationText } from "./terminal-text.ts";

const TIMEOUT_MS = 60_000;
const TIMEOUT_MS_MIN = 100;
const LOOK_EVERY_MS = 50;

const HELP: HelpTexts = {
  about: `Works on the machine where \`launch\`, \`train\` or \`scheduler\` was called, for the same user, and waits until the job has ended. Called again
meanwhile, it ends the job at once.`,
  more: `The job gets SIGTERM: one that serves guests, and has no workers, ends in order; another one ends its processes, and servers with a checkpoint
directory, a standby or --durable keep their state.

Of a scheduler that was started by itself, only a job without workers is ended: end the workers first.`,
  examples: ["stop", "stop weighbridge://127.0.0.1:9700 --timeout 5min"],
};

type StopFlags = Flags & { readonly timeout?: number; readonly json?: true; readonly yes?: true };

export function stopCommand(invocation: Invocation): Command {
  const command = new Command("stop")
    .usage("[weighbridge://host:port] [options]")
    .summary("end a running job of this machine")
    .description("Ends a job that runs on this machine, and waits until it has ended.")
    .option("--timeout <time>", "how long to wait for its end [60s]", timeOf(TIMEOUT_MS_MIN))
    .option("--json", "print one JSON document")
    .addOption(yesOption())
    .action(async ({ timeout: timeoutMs = TIMEOUT_MS, json, yes, ...flags }: StopFlags) => {
      const request = clusterRequest("stop", flags, invocation);
      const { job, pid, isLauncher, host } = await withScheduler(request, async (found) => {
        requireMeant(found, request, yes === true);
        const { status, address } = found;
        const { launcher, pid: own } = processOf(status, outputAddress(address));
        if (launcher === undefined) requireIdle(status);
        return { job: status.job, pid: launcher ?? own, isLauncher: launcher !== undefined, host: outputAddress(address) };
      });
      const who = `${isLauncher ? "its launcher" : "its scheduler"}, pid ${pid}`;
      if (json !== true) process.stdout.write(`job ${job} at ${host}: SIGTERM to ${who}\n`);
      const beganMs = performance.now();
      process.kill(pid, "SIGTERM");
      const hasEnded = await isGone(pid, timeoutMs);
      const tookMs = Math.round(performance.now() - beganMs);
      if (json === true) process.stdout.write(`${JSON.stringify({ job, pid, ended: hasEnded, ms: tookMs }, null, 2)}\n`);
      else if (hasEnded) process.stdout.write(`job ${job} has ended, after ${durationText(tookMs)}\n`);
      if (hasEnded) return;
      printNotice(`job ${job} has not ended within ${durationText(timeoutMs)}; call stop again to end it at once`);
      invocation.exitCode = 1;
    });
  return addClusterHelp(command, invocation, HELP);
}

/** Throws BAD_CONFIG if the job's processes are not of this machine, or not known. */
function processOf({ job, term }: StatusReply, address: string): SchedulerProcess {
  const found = term === undefined ? undefined : schedulerProcess(term);
  if (found?.host === hostname()) return found;
  const problem =
    found === undefined
      ? `there is no record of job ${job} at ${address} in ${recordDirectory()}, where jobs of this user on this machine have one`
      : `job ${job} at ${address} runs on ${found.host}`;
  const fix = "call stop where it was started, or send SIGTERM to the process that started it";
  throw new WeighbridgeError("BAD_CONFIG", `${problem}: ${fix}`);
}

/** Throws BAD_CONFIG if a scheduler that nobody launched would leave workers, or nodes that wait, behind. */
function requireIdle({ job, nodes, waiting }: StatusReply): void {
  const workers = nodes.filter(({ role, state }) => role === "worker" && state === "alive");
  const left = [
    ...workers.map(({ node, label }) => `${outputNameOf(node)} (${processText(label)})`),
    ...waiting.map(({ role, label }) => `a ${role} (${processText(label)})`),
  ];
  if (left.length === 0) return;
  const problem = `the scheduler of job ${job} was started by itself, and the job has nodes that stop cannot end: ${left.join(", ")}`;
  throw new WeighbridgeError("BAD_CONFIG", `${problem}; end those first`);
}

/** Polls: no process is told when one that is not its child ends. */
async function isGone(pid: number, timeoutMs: number): Promise<boolean> {
  for (const giveUpAt = performance.now() + timeoutMs; isAlive(pid); await sleep(LOOK_EVERY_MS)) {
    if (performance.now() > giveUpAt) return false;
  }
  return true;
}
