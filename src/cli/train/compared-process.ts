// compared-process — runs the process with which `weighbridge train --compare` compares a job, before the job begins:
// both at once would share the cores.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { WeighbridgeError } from "../../base/errors.ts";
import { engineFlags } from "../../node/engine-flags.ts";
import { modulePath } from "../../node/launcher/job-plan.ts";
import { LineStream } from "../../node/launcher/node-output.ts";
import { printNotice } from "../notices.ts";
import { parseReport } from "./report.ts";
import type { TrainPlan } from "./train-plan.ts";

/** A shorter training is compared whole. */
const COMPARED_MS = 10_000;

/** Steps a second of one process. Throws NODE_DEAD with how it ended, if it fails. */
export async function measureAlone(plan: TrainPlan): Promise<number> {
  printNotice("one process makes the same training first, to compare with");
  const script = [...engineFlags("worker"), modulePath(import.meta.url, "./alone-node"), JSON.stringify(plan), String(COMPARED_MS)];
  const child = spawn(process.execPath, script, { stdio: ["pipe", "pipe", "inherit"] });
  let stepsPerSec: number | undefined;
  child.stdout
    .pipe(
      new LineStream((line): undefined => {
        const report = parseReport(line);
        if (report?.kind === "alone") stepsPerSec = report.stepsPerSec;
      }),
    )
    .resume();
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  if (stepsPerSec !== undefined) return stepsPerSec;
  throw new WeighbridgeError("NODE_DEAD", `--compare: the training in one process ended with ${signal ?? `exit code ${code}`}`);
}
