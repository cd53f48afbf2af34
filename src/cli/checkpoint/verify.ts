// verify — reads every byte of a checkpoint and says what is wrong with it, file by file.

import { Command } from "commander";
import { CheckpointDirectory } from "../../node/checkpoint/checkpoint-directory.ts";
import { findCheckpoint, olderCheckpoint } from "../../node/checkpoint/find-checkpoint.ts";
import { verifyCheckpoint } from "../../node/checkpoint/verify-checkpoint.ts";
import { helpText } from "../help-text.ts";
import type { Invocation } from "../invocation.ts";
import { countText } from "../text-table.ts";
import { bytesText } from "./checkpoint-text.ts";
import { stepOption } from "./step-option.ts";

const HELP = `
Ends with 0 if everything is as it was written, with 1 if anything is not.

Examples:
  $ weighbridge checkpoint verify checkpoints
  $ weighbridge checkpoint verify checkpoints --all
  $ weighbridge checkpoint verify checkpoints/step-000120`;

type VerifyFlags = { readonly step?: number; readonly all?: true };

export function verifyCommand(invocation: Invocation): Command {
  return new Command("verify")
    .summary("check every byte of a checkpoint")
    .description("Reads a checkpoint's files and checks their structure and checksums. Says which file is wrong, and why.")
    .argument("<directory>", "a checkpoint, or a directory of checkpoints")
    .addOption(stepOption().conflicts("all"))
    .option("--all", "check every checkpoint in the directory")
    .addHelpText("after", helpText(HELP))
    .action(async (directory: string, { step, all }: VerifyFlags) => {
      for (const path of await pathsOf(directory, step, all === true)) {
        if (!(await tell(path))) invocation.exitCode = 1;
      }
      const problem = await new CheckpointDirectory({ root: directory }).latestProblem();
      if (problem === undefined) return;
      process.stderr.write(`weighbridge: ${problem}\n`);
      invocation.exitCode = 1;
    });
}

async function pathsOf(directory: string, step: number | undefined, all: boolean): Promise<readonly string[]> {
  const newest = await findCheckpoint(directory, { step });
  const stored = all ? await new CheckpointDirectory({ root: directory }).list() : [];
  return stored.length > 0 ? stored.map(({ path }) => path) : [newest];
}

/** True when nothing is wrong. */
async function tell(path: string): Promise<boolean> {
  const { problems, fileCount, bytes, manifest } = await verifyCheckpoint(path);
  if (problems.length === 0) {
    process.stdout.write(`${path} is whole: clock ${manifest?.clock}, ${countText(fileCount, "file")}, ${bytesText(bytes)}\n`);
    return true;
  }
  for (const problem of problems) process.stderr.write(`weighbridge: ${problem}\n`);
  const older = await olderCheckpoint(path);
  process.stderr.write(`weighbridge: ${path} cannot be used${older === undefined ? "" : `; the one before it is ${older}`}\n`);
  return false;
}
