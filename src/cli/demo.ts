// demo — a real cluster on this machine that trains something small to a visible result: what `npm start` runs.

import { Command } from "commander";
import { freePort } from "../node/launcher/free-port.ts";
import { Job } from "../node/launcher/job.ts";
import { planJob } from "../node/launcher/job-plan.ts";
import { LineStream } from "../node/launcher/line-stream.ts";
import { modulePath } from "../node/launcher/module-path.ts";
import { endText, type NodeProcess } from "../node/launcher/node-process.ts";
import { tagLines } from "../node/launcher/node-tag.ts";
import { DemoScreen } from "./demo/demo-screen.ts";
import { parseReport } from "./demo/report.ts";
import type { Invocation } from "./invocation.ts";
import { exitCodeOf, forwardInterrupts } from "./launch.ts";
import { programOf } from "./script.ts";
import { wholeNumber } from "./whole-number.ts";

const LOOPBACK = "127.0.0.1";
const STEPS = 8000;

const HELP = `
Example:
  $ weighbridge demo -s 4 -w 4`;

type DemoFlags = { readonly serverCount: number; readonly workerCount: number; readonly steps: number };

export function demoCommand(invocation: Invocation): Command {
  return new Command("demo")
    .summary("train a small model on a local cluster, and watch")
    .description("Starts a cluster on this machine, trains a click-through model on it and shows how that goes.")
    .option("-s, --server-count <count>", "servers", wholeNumber({ min: 1, max: 64 }), 2)
    .option("-w, --worker-count <count>", "workers", wholeNumber({ min: 1, max: 64 }), 2)
    .option("--steps <count>", "steps of each worker", wholeNumber({ min: 1, max: 1_000_000 }), STEPS)
    .addHelpText("after", HELP)
    .action(async (flags: DemoFlags) => {
      invocation.exitCode = await runDemo(flags);
    });
}

async function runDemo({ serverCount, workerCount, steps }: DemoFlags): Promise<number> {
  const program = programOf(modulePath(import.meta.url, "./demo/train"), ["--steps", String(steps)]);
  const { processes } = planJob({
    commandLine: { serverCount, workerCount },
    env: process.env,
    defaults: { schedulerPort: await freePort(LOOPBACK), logLevel: "error" },
    programOf: () => program,
  });
  const screen = new DemoScreen(process.stdout, { serverCount, workerCount, stepCount: steps });
  screen.open();
  const job = new Job({
    processes,
    attach: (node) => showReports(node, screen),
    onFailure: (culprit) => screen.note(`weighbridge: ${endText(culprit)}`),
  });
  const release = forwardInterrupts(job);
  const outcome = await job.outcome;
  release();
  const hasResult = screen.close();
  return outcome.kind === "done" && !hasResult ? 1 : exitCodeOf(outcome);
}

/** Reports go to the screen, and so does, with its tag, what is none. */
function showReports({ plan, stdout, stderr }: NodeProcess, screen: DemoScreen): void {
  const tagged = tagLines(plan, process.stdout);
  const take = (line: string): undefined => {
    const report = parseReport(line);
    if (report === undefined) screen.note(tagged(line));
    else screen.show(report);
  };
  stdout.pipe(new LineStream(take)).resume();
  stderr.pipe(new LineStream(take)).resume();
}
